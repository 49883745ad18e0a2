"""Readers of formats that are a plain conversation: Gemini CLI, Copilot CLI, Cursor, OpenCode."""
