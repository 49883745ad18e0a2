"""From bytes to spool to pages: viewed, masked, kept, forgotten."""
