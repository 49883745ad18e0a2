"""Reading of the simpler formats in tests: whole files, and the sums of what was found."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from shiftlog.facts.transcript import (
    Action,
    AnyFact,
    DialogItem,
    Hints,
    SessionOpened,
    ToolCall,
    TranscriptReader,
    TurnBegun,
    TurnEnded,
    UsageFact,
)
from shiftlog.ingest.readers.plain.copilot import CopilotReader
from shiftlog.ingest.readers.plain.cursor import CursorReader
from shiftlog.ingest.readers.plain.gemini import GeminiReader
from shiftlog.ingest.readers.plain.opencode import OpenCodeReader
from shiftlog.ingest.readers.plain.opencode_rows import session_lines
from tests.ingest.readers.any_records import Factory
from tests.ingest.readers.codex.rollouts import F, once

READERS: dict[str, Factory] = {
    "CopilotCli": CopilotReader,
    "Cursor": CursorReader,
    "GeminiCli": GeminiReader,
    "OpenCode": OpenCodeReader,
}


class Found:
    """What a reader gave, each fact once by its key."""

    def __init__(self, reader: TranscriptReader, facts: Iterable[AnyFact]) -> None:
        self.reader = reader
        self.facts = once(facts)

    def of(self, kind: type[F]) -> list[F]:
        """Return the facts of one kind."""
        return [fact for fact in self.facts if isinstance(fact, kind)]

    @property
    def turns(self) -> list[tuple[str, str, str | None]]:
        """Return prompt, status and response or failure note of each turn."""
        ends = {fact.turn: fact for fact in self.of(TurnEnded)}
        found: list[tuple[str, str, str | None]] = []
        for begun in self.of(TurnBegun):
            end = ends.get(begun.turn)
            last = (end.failure_note or end.response) if end else None
            found.append((begun.query_text, end.status if end else "in_progress", last))
        return found

    @property
    def dialog(self) -> list[tuple[str, str, str]]:
        """Return role, category and content of the dialog."""
        return [(fact.role, fact.category, fact.content) for fact in self.of(DialogItem)]

    @property
    def actions(self) -> list[tuple[str, str | None]]:
        """Return type and path, or description where there is no path."""
        return [(fact.type, fact.file_path or fact.description) for fact in self.of(Action)]

    def figures(self) -> dict[str, Any]:
        """Return the sums under the names of the reference figures."""
        usage: dict[str, int] = {}
        for fact in self.of(UsageFact):
            for name, value in fact.vendor.items():
                if isinstance(value, int):
                    usage[name] = usage.get(name, 0) + value
        return {
            "sessions": [fact.session.vendor_id for fact in self.of(SessionOpened)],
            "turns": len(self.of(TurnBegun)),
            "tool_calls": sum(not fact.nested for fact in self.of(ToolCall)),
            "usage": usage,
        }


def read_lines(factory: Factory, lines: Iterable[bytes], *, every: int | None = None, **hints: Any) -> Found:
    """Read lines, with a save and a restore after every so many of them."""
    given = Hints(session_id=hints.pop("session_id", "file"), **hints)
    reader = factory(given)
    facts: list[AnyFact] = []
    for number, line in enumerate(lines):
        if every and number % every == 0:
            reader = factory(given, reader.save())
        facts += reader.feed(line)
    facts += [*reader.finish(), *reader.end_idle()]
    return Found(reader, facts)


def read_records(factory: Factory, *records: dict[str, Any], **hints: Any) -> Found:
    """Read records."""
    return read_lines(factory, (json.dumps(record).encode() for record in records), **hints)


def lines_of_file(path: Path) -> list[bytes]:
    """Return the lines of a file; a document is one."""
    data = path.read_bytes()
    return [data] if path.suffix == ".json" else data.split(b"\n")


def lines_of_storage(tree: Path, session: str) -> list[bytes]:
    """Return the lines of one session in a tree of OpenCode's older storage."""

    def documents(pattern: str) -> list[tuple[Path, dict[str, Any]]]:
        return [(path, json.loads(path.read_text())) for path in sorted(tree.glob(pattern))]

    header = next(found for _, found in documents("session/*/*.json") if found["id"] == session)
    messages = [found for _, found in documents(f"message/{session}/*.json")]
    ids = {message["id"] for message in messages}
    parts = [(path.parent.name, found) for path, found in documents("part/**/*.json")]
    own = [(folder, part) for folder, part in parts if part.get("messageID", folder) in ids]
    return list(session_lines(header, messages, own))
