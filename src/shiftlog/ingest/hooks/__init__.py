"""Hook events: read from the spool, turned into facts."""
