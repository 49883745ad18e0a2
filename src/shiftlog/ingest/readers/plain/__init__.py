"""Formats that are a plain conversation: Gemini, Copilot, Cursor, OpenCode."""
