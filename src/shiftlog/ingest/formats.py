"""The table of formats: which reader takes which agent's transcripts. A new format is a reader and a row here."""

from importlib import import_module
from typing import cast

from shiftlog.ingest.facts import ReaderFactory
from shiftlog.ingest.sniff import CLAUDE, CODEX, COPILOT, CURSOR, GEMINI, OPENCODE, sniff

# Imported when the first file of an agent is met.
_READERS = {
    CLAUDE: ("claude", "ClaudeReader"),
    CODEX: ("codex", "CodexReader"),
    GEMINI: ("gemini", "GeminiReader"),
    COPILOT: ("copilot", "CopilotReader"),
    OPENCODE: ("opencode", "OpenCodeReader"),
    CURSOR: ("cursor", "CursorReader"),
}


def reader_for(agent: str) -> ReaderFactory:
    """Return what opens a reader of an agent's transcripts."""
    module, name = _READERS[agent]
    return cast(ReaderFactory, getattr(import_module(f"shiftlog.ingest.{module}"), name))


def recognise(head: bytes) -> str | None:
    """Return the agent whose transcript begins with these bytes, None for nobody known."""
    return sniff(head)
