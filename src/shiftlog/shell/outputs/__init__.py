"""The output of commands: from bytes to masked text in a spool, read in pages, kept and removed."""
