"""The session log (workflow.sessionlog.*): 16 files that live in journal/ today."""
