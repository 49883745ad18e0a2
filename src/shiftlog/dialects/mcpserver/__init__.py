"""The session log (workflow.sessionlog.*), as the REPL and the MCP tools offer it. The door: `service`."""
