"""The journal as clients of other systems expect it: `mcpserver` (the session log) and `delx`."""
