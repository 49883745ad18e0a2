"""Records written by hand, a reading of them, and a small accumulator that stands in for the store."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from shiftlog.facts.transcript import (
    Action,
    AnyFact,
    DialogItem,
    Hints,
    Key,
    SessionOpened,
    ToolCall,
    ToolResult,
    TurnBegun,
    TurnEnded,
    TurnUpdated,
    UsageFact,
    VendorSession,
)
from shiftlog.ingest.readers.claude.reader import ClaudeReader

SHARED = Path(__file__).parents[4].parent / "shared" / "fixtures"
OWN = Path(__file__).parents[2] / "fixtures" / "claude"
SESSION = "5e551000-0000-4000-8000-00000000000a"
COUNTERS = ("input_tokens", "output_tokens", "cache_creation_tokens", "cached_input_tokens")

F = TypeVar("F")


@dataclass(slots=True)
class Script:
    """A transcript that grows record by record, each a second later and hanging on the one before."""

    session: str = SESSION
    records: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def record(self, kind: str, **more: Any) -> dict[str, Any]:
        n = len(self.records) + 1
        made: dict[str, Any] = {
            "type": kind,
            "uuid": f"u{n}",
            "parentUuid": f"u{n - 1}" if n > 1 else None,
            "timestamp": f"2026-03-04T05:{n // 60:02d}:{n % 60:02d}.000Z",
            "sessionId": self.session,
            "isSidechain": False,
            "cwd": "/srv/app",
            "version": "2.1.114",
            "gitBranch": "main",
            **more,
        }
        self.records.append(made)
        return made

    def user(self, content: object, **more: Any) -> dict[str, Any]:
        return self.record("user", message={"role": "user", "content": content}, **more)

    def model(self, *blocks: dict[str, Any] | str, **more: Any) -> dict[str, Any]:
        n = len(self.records) + 1
        content = [text(block) if isinstance(block, str) else block for block in blocks]
        message = {"id": f"msg{n}", "role": "assistant", "model": "claude-opus-4-6", "content": content}
        message |= more.pop("message", {})
        return self.record("assistant", **{"requestId": f"req{n}", "message": message, **more})

    def result(self, call: str, content: object = "ok", *, error: bool = False, **more: Any) -> dict[str, Any]:
        block = {"type": "tool_result", "tool_use_id": call, "content": content, "is_error": error}
        return self.user([block], **more)

    def system(self, subtype: str, **more: Any) -> dict[str, Any]:
        return self.record("system", subtype=subtype, **more)

    def attach(self, kind: str, **more: Any) -> dict[str, Any]:
        return self.record("attachment", attachment={"type": kind, **more})

    def lines(self) -> list[bytes]:
        return [json.dumps(record).encode() + b"\n" for record in self.records]


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(call_id: str, tool: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": tool, "input": arguments}


@dataclass(slots=True)
class Tally:
    """Facts added so far, each once by key and aliases; usage by its rule."""

    facts: list[AnyFact] = field(default_factory=list[AnyFact])
    known: set[Key] = field(default_factory=set[Key])
    used: dict[tuple[str, str], tuple[VendorSession, list[int]]] = field(
        default_factory=dict[tuple[str, str], tuple[VendorSession, list[int]]]
    )

    def add(self, facts: Iterable[AnyFact]) -> "Tally":
        for fact in facts:
            if isinstance(fact, UsageFact):
                self._use(fact)
                continue
            keys = (fact.key, *fact.aliases)
            if self.known.isdisjoint(keys):
                self.known.update(keys)
                self.facts.append(fact)
        return self

    def _use(self, fact: UsageFact) -> None:
        message, _, request = str(fact.key[1]).rpartition("/")
        counters = [int(getattr(fact, name)) for name in COUNTERS]
        _, known = self.used.setdefault((message, request), (fact.session, [0] * len(COUNTERS)))
        known[:] = map(max, known, counters)

    def usage(self) -> tuple[int, list[int]]:
        """Return (responses, totals); a response without request id joins the only one of its message and session."""
        merged = {key: list(used) for key, (_, used) in self.used.items()}
        for (message, request), (session, used) in self.used.items():
            owners = [(key, owner) for key, (owner, _) in self.used.items() if key[0] == message and key[1]]
            same = [key for key, owner in owners if owner == session]
            if not request and len(same) == 1:
                merged[same[0]] = list(map(max, merged[same[0]], used))
                del merged[message, request]
        counted = [used for used in merged.values() if any(used)]
        return len(counted), [sum(column) for column in zip(*counted, strict=True)] or [0] * len(COUNTERS)

    def all(self, kind: type[F], session: VendorSession | None = None) -> list[F]:
        return [fact for fact in self.facts if isinstance(fact, kind) and session in (None, fact.session)]

    def turns(self, session: VendorSession | None = None) -> list[tuple[str, str]]:
        """Return (query text, status) of each turn in order; failed ones with their note."""
        ends = {(end.session, end.turn): end for end in self.all(TurnEnded)}
        found: list[tuple[str, str]] = []
        for begun in self.all(TurnBegun, session):
            end = ends.get((begun.session, begun.turn))
            status = "in_progress" if end is None else end.failure_note or end.status
            found.append((begun.query_text, status))
        return found

    def field(self, name: str) -> list[Any]:
        """Return all items of one of the turns' lists."""
        return [item for update in self.all(TurnUpdated) for item in update.adds.get(name, [])]

    def said(self, role: str | None = None) -> list[str]:
        return [item.content for item in self.all(DialogItem) if role in (None, item.role)]


def hints_of(path: Path) -> Hints:
    """Return what the import would know of a file besides its bytes."""
    folders = path.parts
    sidecar = path.with_name(f"{path.stem}.meta.json")
    return Hints(
        session_id=path.stem,
        agent_id=path.stem.removeprefix("agent-") if path.stem.startswith("agent-") else None,
        parent_id=folders[folders.index("subagents") - 1] if "subagents" in folders else None,
        run_id=folders[folders.index("workflows") + 1] if "workflows" in folders else None,
        sidecar=json.loads(sidecar.read_text()) if sidecar.exists() else None,
    )


def read(lines: Iterable[bytes], hints: Hints | None = None, *, end_idle: bool = True) -> tuple[ClaudeReader, Tally]:
    """Read lines from a fresh reader to the end."""
    reader = ClaudeReader(hints or Hints(session_id=SESSION))
    tally = Tally()
    for line in lines:
        tally.add(reader.feed(line))
    tally.add(reader.finish())
    if end_idle:
        tally.add(reader.end_idle())
    return reader, tally


def read_script(script: Script, *, end_idle: bool = True) -> Tally:
    return read(script.lines(), end_idle=end_idle)[1]


def read_file(path: Path) -> tuple[ClaudeReader, Tally]:
    return read(path.read_bytes().splitlines(keepends=True), hints_of(path))


def figures(reader: ClaudeReader, tally: Tally, subagent: str | None) -> dict[str, Any]:
    """Return the figures of one file as the reference gives them."""
    own = {fact.session for fact in tally.facts if fact.session.agent_id == subagent}
    begun, ended = tally.all(TurnBegun), tally.all(TurnEnded)
    statuses = [end.status for end in ended if end.session in own]
    turns = sum(turn.session in own for turn in begun)
    calls = {made.call_id for made in tally.all(ToolCall) if not made.nested}
    answers = {answer.call_id for answer in tally.all(ToolResult) if not answer.nested}
    responses, totals = tally.usage()
    edits = [act for act in tally.all(Action) if act.type in ("edit", "create") and act.status == "completed"]
    names = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return {
        "turns": turns,
        "turns_completed": statuses.count("completed"),
        "turns_failed": statuses.count("failed"),
        "turns_in_progress": turns - len(statuses),
        "child_turns": len(begun) - turns,
        "child_sessions": sum(opened.session not in own for opened in tally.all(SessionOpened)),
        "tool_calls": len(calls),
        "tool_results": len(answers),
        "unanswered_calls": len(calls - answers),
        "files_edited": len({act.file_path for act in edits}),
        "commits": sum(act.type == "commit" for act in tally.all(Action)),
        "compactions": sum("compaction" in item.extra for item in tally.all(DialogItem)),
        "responses": responses,
        "usage": dict(zip(names, totals, strict=True)),
        "bad_lines": reader.counts.bad,
        "duplicate_uuids": reader.counts.duplicate,
        "unknown": {name: n for name, n in reader.counts.unknown_names.items() if "/" not in name},
    }
