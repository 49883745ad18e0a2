"""What clients of other systems expect of the journal: `mcpserver` (the session log) and `delx`."""
