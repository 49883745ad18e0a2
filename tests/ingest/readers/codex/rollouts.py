"""Rollouts written line by line, and the sums of what a reader found in one."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from shiftlog.facts.transcript import (
    Action,
    AnyFact,
    DialogItem,
    Hints,
    Mac,
    Note,
    SessionOpened,
    ToolCall,
    ToolResult,
    TurnBegun,
    TurnEnded,
    TurnUpdated,
    UsageFact,
)
from shiftlog.ingest.readers.codex.reader import CodexReader

SHARED = Path(__file__).parents[4].parent / "shared" / "fixtures"
OWN = Path(__file__).parents[2] / "fixtures"
THREAD = "01900000-0000-7000-8000-00000000000a"
COUNTERS: tuple[str, ...] = (
    "input_tokens",
    "cached_input_tokens",
    "output_tokens",
    "reasoning_output_tokens",
    "total_tokens",
)

F = TypeVar("F", bound=AnyFact)


def stamp(second: int) -> str:
    """Return a time within the day of the tests."""
    return f"2026-03-01T10:{second // 60:02d}:{second % 60:02d}.000Z"


def epoch(second: int) -> int:
    """Return the same time as seconds since the epoch."""
    return 1772359200 + second


def line(second: int, kind: str, payload: dict[str, Any], **more: Any) -> bytes:
    """Return one line with its envelope."""
    return json.dumps({"timestamp": stamp(second), "type": kind, "payload": payload, **more}).encode()


def meta(second: int = 0, **fields: Any) -> bytes:
    """Return a header."""
    payload = {"id": THREAD, "timestamp": stamp(second), "cwd": "/work/app", "cli_version": "0.150.0", **fields}
    return line(second, "session_meta", payload)


def event(second: int, kind: str, /, **fields: Any) -> bytes:
    """Return an event."""
    return line(second, "event_msg", {"type": kind, **fields})


def item(second: int, kind: str, /, **fields: Any) -> bytes:
    """Return a response item."""
    return line(second, "response_item", {"type": kind, **fields})


def started(second: int, turn: str, **fields: Any) -> bytes:
    """Return the start of a turn."""
    return event(second, "task_started", turn_id=turn, **fields)


def said(second: int, text: str, role: str = "assistant", **fields: Any) -> bytes:
    """Return a message as an item."""
    kind = "output_text" if role == "assistant" else "input_text"
    return item(second, "message", role=role, content=[{"type": kind, "text": text}], **fields)


def called(second: int, call_id: str, tool: str, **arguments: Any) -> bytes:
    """Return a call with JSON arguments."""
    return item(second, "function_call", name=tool, arguments=json.dumps(arguments), call_id=call_id)


def output(second: int, call_id: str, value: Any) -> bytes:
    """Return the output of a call."""
    return item(second, "function_call_output", call_id=call_id, output=value)


def tokens(second: int, total: tuple[int, ...], last: tuple[int, ...] | None) -> bytes:
    """Return the tokens of a response."""
    info: dict[str, Any] = {"total_token_usage": dict(zip(COUNTERS, total, strict=True))}
    if last is not None:
        info["last_token_usage"] = dict(zip(COUNTERS, last, strict=True))
    return event(second, "token_count", info=info)


@dataclass
class Reading:
    """What a reader gave for some lines, each fact once by its key."""

    reader: CodexReader
    facts: list[AnyFact]

    def of(self, kind: type[F]) -> list[F]:
        """Return the facts of one kind."""
        return [fact for fact in self.facts if isinstance(fact, kind)]

    @property
    def dialog(self) -> list[tuple[str, str, str]]:
        """Return role, category and content of the dialog."""
        return [(fact.role, fact.category, fact.content) for fact in self.of(DialogItem)]

    @property
    def turns(self) -> list[tuple[str, str, str | None]]:
        """Return prompt, status and failure note of each turn."""
        ends = {fact.turn: fact for fact in self.of(TurnEnded)}
        found: list[tuple[str, str, str | None]] = []
        for begun in self.of(TurnBegun):
            end = ends.get(begun.turn)
            found.append((begun.query_text, end.status if end else "in_progress", end.failure_note if end else None))
        return found

    def field(self, name: str) -> list[Any]:
        """Return the items added to one list of any turn."""
        return [item for fact in self.of(TurnUpdated) for item in fact.adds.get(name, [])]

    def actions(self, *types: str) -> list[tuple[str, str | None]]:
        """Return type and path, or description where there is no path."""
        found = [fact for fact in self.of(Action) if not types or fact.type in types]
        return [(fact.type, fact.file_path or fact.description) for fact in found]


def key_of(fact: AnyFact) -> tuple[object, ...]:
    """Return a key that can be compared."""
    return tuple(part.text if isinstance(part, Mac) else part for part in fact.key)


def once(facts: Iterable[AnyFact]) -> list[AnyFact]:
    """Return the facts without those whose key came before, as a store would keep them."""
    seen: set[tuple[object, ...]] = set()
    kept: list[AnyFact] = []
    for fact in facts:
        if key_of(fact) not in seen:
            seen.add(key_of(fact))
            kept.append(fact)
    return kept


def read(*lines: bytes, every: int | None = None, session_id: str = THREAD, keep_images: bool = False) -> Reading:
    """Read lines, with a save and a restore after every so many of them, and settle what is quiet."""
    given = Hints(session_id=session_id, keep_images=keep_images)
    reader = CodexReader(given)
    facts: list[AnyFact] = []
    for number, one in enumerate(lines):
        if every and number % every == 0:
            reader = CodexReader(given, reader.save())
        facts += reader.feed(one)
    facts += [*reader.finish(), *reader.end_idle()]
    return Reading(reader, once(facts))


def read_file(path: Path, every: int | None = None) -> Reading:
    """Read a whole file."""
    return read(*path.read_bytes().split(b"\n"), every=every, session_id=path.stem)


def figures(reading: Reading) -> dict[str, Any]:
    """Return the sums under the names of the reference figures."""
    begun = {fact.turn for fact in reading.of(TurnBegun)}
    ends = Counter(fact.status for fact in reading.of(TurnEnded))
    calls = {fact.call_id for fact in reading.of(ToolCall) if not fact.nested}
    results = {fact.call_id for fact in reading.of(ToolResult) if not fact.nested}
    opened = next(iter(reading.of(SessionOpened)), None)
    counts = reading.reader.counts
    copied = counts.counted_names.get("copied", 0)
    edits = [fact for fact in reading.of(Action) if fact.type in ("create", "edit", "delete")]
    return {
        "lines": counts.lines,
        "bad_lines": counts.bad,
        "turns": len(begun),
        "turns_completed": ends["completed"],
        "turns_failed": ends["failed"],
        "turns_in_progress": len(begun) - ends.total(),
        "tool_calls": len(calls),
        "tool_results": len(results),
        "unanswered_calls": len(calls - results),
        "files_edited": len({fact.file_path for fact in edits if fact.status == "completed"}),
        "commits": sum(fact.type == "commit" for fact in reading.of(Action)),
        "compactions": sum(fact.kind == "compaction" for fact in reading.of(Note)),
        "usage": used(reading.of(UsageFact)),
        "usage_own": used(fact for fact in reading.of(UsageFact) if not fact.copied),
        "forked_from": opened.forked_from if opened else None,
        "parent": opened.parent.session.vendor_id if opened and opened.parent else None,
        "subagent": opened.subagent.kind if opened and opened.subagent else None,
        # The figures count the header of the fork among its copied lines.
        "copied_lines": copied + 1 if copied else 0,
    }


def used(facts: Iterable[UsageFact]) -> dict[str, int]:
    """Return the sum of tokens as the vendor writes them."""
    total: dict[str, int] = dict.fromkeys(COUNTERS, 0)
    for fact in facts:
        for name in COUNTERS:
            total[name] += fact.vendor[name]
    return total
