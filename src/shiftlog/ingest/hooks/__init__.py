"""Hook events: read from the spool and turned into facts. Nothing here writes to the journal."""
