"""The table of formats: which reader takes which agent's transcripts. A new format is a reader and a row here."""

from importlib import import_module
from typing import cast

from shiftlog.facts.transcript import ReaderFactory
from shiftlog.ingest.readers.sniff import CLAUDE, CODEX, COPILOT, CURSOR, GEMINI, OPENCODE, sniff

# Imported when the first file of an agent is met.
_READERS = {
    CLAUDE: ("claude.reader", "ClaudeReader"),
    CODEX: ("codex.reader", "CodexReader"),
    GEMINI: ("plain.gemini", "GeminiReader"),
    COPILOT: ("plain.copilot", "CopilotReader"),
    OPENCODE: ("plain.opencode", "OpenCodeReader"),
    CURSOR: ("plain.cursor", "CursorReader"),
}


def reader_for(agent: str) -> ReaderFactory:
    """Return what opens a reader of an agent's transcripts."""
    module, name = _READERS[agent]
    return cast(ReaderFactory, getattr(import_module(f"shiftlog.ingest.readers.{module}"), name))


def recognise(head: bytes) -> str | None:
    """Return the agent whose transcript begins with these bytes, None for nobody known."""
    return sniff(head)
