"""The transcripts of other agents: importing them, and rollouts of Codex as turns of the session log."""
