"""An app with its import service over a folder of its own, and transcripts to import."""

import json
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from shiftlog.ingest.importing.ports import ImportOptions
from shiftlog.ingest.importing.report import FileReport, ImportReport
from shiftlog.model.entry import Entry
from shiftlog.model.nouns import Session, Turn
from shiftlog.store.protocol import Filter, Page
from tests.journal.harness import Harness, open_harness

NOW = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)
SHARED = Path(__file__).parents[2].parent / "shared" / "fixtures"

Record = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class ImportApp:
    """One state directory, and a folder for transcripts beside it."""

    harness: Harness
    folder: Path

    async def take(self, *paths: Path | str, **options: Any) -> ImportReport:
        """Import paths, by default everything in the folder."""
        given = [str(path) for path in paths] or [str(self.folder)]
        return await self.harness.app.imports.run(ImportOptions(paths=given, jobs=0, **options))

    async def discover(self, environ: Mapping[str, str], **options: Any) -> ImportReport:
        """Import what is found where the environment says."""
        return await self.harness.app.imports.run(ImportOptions(environ=environ, jobs=0, **options))

    def write(self, name: str, records: Iterable[Record]) -> Path:
        """Write a transcript."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
        return path

    async def sessions(self) -> dict[str, Session]:
        """Return all sessions by the ends of their ids."""
        rows = await self.harness.read(lambda reader: reader.find_sessions(Filter(), Page(limit=10_000)))
        return {row.session.id: row.session for row in rows}

    async def session(self, vendor_id: str) -> Session:
        """Return the session of a vendor's id."""
        found = [session for session in (await self.sessions()).values() if session.vendor_session_id == vendor_id]
        assert len(found) == 1, found
        return found[0]

    async def turns(self, session: Session) -> list[Turn]:
        return await self.harness.read(lambda reader: reader.turns(session.id))

    async def entries(self, session: Session) -> list[Entry]:
        return await self.harness.read(lambda reader: reader.entries(session.id))

    async def dialog(self, session: Session) -> list[str]:
        """Return the texts of a session's dialog."""
        return [str(entry.facts["content"]) for entry in await self.entries(session) if entry.kind == "dialog"]

    async def heads(self) -> dict[str, str]:
        """Return the head hash of every session."""
        return {session_id: session.head_hash for session_id, session in (await self.sessions()).items()}

    async def used(self) -> tuple[int, int, int, int]:
        """Return all tokens: input, output, cache creation, cache read."""
        sums = [0, 0, 0, 0]
        for session in (await self.sessions()).values():
            if session.usage is not None:
                used = session.usage
                parts = (used.input_tokens, used.output_tokens, used.cache_creation_tokens, used.cached_input_tokens)
                sums = [a + b for a, b in zip(sums, parts, strict=True)]
        return sums[0], sums[1], sums[2], sums[3]

    async def is_sound(self) -> bool:
        """Return True if every chain verifies and a rebuild would change nothing."""
        findings = await self.harness.verify()
        rebuilt = await self.harness.rebuild()
        return all(found.ok for found in findings) and not any(done.changed for done in rebuilt)


@asynccontextmanager
async def open_import_app(folder: Path, *, name: str = "home", now: datetime | None = NOW) -> AsyncGenerator[ImportApp]:
    """Open an app in a folder."""
    transcripts = folder / "transcripts"
    transcripts.mkdir(exist_ok=True)
    async with open_harness(folder / name, now=now) as harness:
        yield ImportApp(harness=harness, folder=transcripts)


def only(report: ImportReport) -> FileReport:
    """Return the one file of a report."""
    assert len(report.files) == 1, report.files
    return report.files[0]


def entries_of(report: ImportReport) -> int:
    """Return how many entries an import wrote."""
    return report.shown()["totals"]["entries"]


@dataclass(slots=True, kw_only=True)
class Claude:
    """A Claude Code transcript that grows record by record, a second apart."""

    session: str = "5e551000-0000-4000-8000-00000000000a"
    started: datetime = datetime(2026, 3, 4, 5, 0, tzinfo=UTC)
    letter: str = "a"
    common: Record = field(default_factory=dict[str, Any])
    records: list[Record] = field(default_factory=list[Record])

    def add(self, kind: str, **more: Any) -> "Claude":
        n = len(self.records) + 1
        at = self.started + timedelta(seconds=n)
        self.records.append(
            {
                "type": kind,
                "uuid": f"{self.letter}0000000-0000-4000-8000-{n:012d}",
                "parentUuid": f"{self.letter}0000000-0000-4000-8000-{n - 1:012d}" if n > 1 else None,
                "timestamp": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
                "sessionId": self.session,
                "isSidechain": False,
                "cwd": "/srv/app",
                "version": "2.1.114",
                "gitBranch": "main",
                **self.common,
                **more,
            }
        )
        return self

    def prompt(self, content: object, **more: Any) -> "Claude":
        return self.add("user", message={"role": "user", "content": content}, **more)

    def says(self, text: str, **more: Any) -> "Claude":
        return self.block({"type": "text", "text": text}, **more)

    def block(
        self, block: Record, *, message: str | None = None, request: str | None = None, usage: Record | None = None,
        **more: Any,
    ) -> "Claude":  # fmt: skip
        body: Record = {"role": "assistant", "model": "claude-opus-4-6", "content": [block]}
        if message:
            body["id"] = message
        if usage:
            body["usage"] = usage
        if request:
            more["requestId"] = request
        return self.add("assistant", message=body, **more)

    def calls(self, call: str, name: str = "Bash", **given: Any) -> "Claude":
        return self.block({"type": "tool_use", "id": call, "name": name, "input": given})

    def returns(self, call: str, content: object, **more: Any) -> "Claude":
        block = {"type": "tool_result", "tool_use_id": call, "content": content}
        return self.add("user", message={"role": "user", "content": [block]}, **more)

    def ends(self, duration_ms: int = 1000) -> "Claude":
        return self.add("system", subtype="turn_duration", durationMs=duration_ms)


def usage_of(given: int, output: int, created: int, read: int, **more: Any) -> Record:
    """Return Claude Code's counters."""
    return {
        "input_tokens": given,
        "output_tokens": output,
        "cache_creation_input_tokens": created,
        "cache_read_input_tokens": read,
        **more,
    }


@dataclass(slots=True, kw_only=True)
class Codex:
    """A rollout that grows line by line, a second apart."""

    thread: str
    started: datetime = datetime(2026, 3, 4, 6, 0, tzinfo=UTC)
    meta: Record = field(default_factory=dict[str, Any])
    lines: list[Record] = field(default_factory=list[Record])

    def __post_init__(self) -> None:
        self.line("session_meta", id=self.thread, timestamp=self.time(), cwd="/srv/app", **self.meta)

    def time(self) -> str:
        at = self.started + timedelta(seconds=len(self.lines))
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def line(self, kind: str, **payload: Any) -> "Codex":
        self.lines.append({"timestamp": self.time(), "type": kind, "payload": payload})
        return self

    def event(self, kind: str, **payload: Any) -> "Codex":
        return self.line("event_msg", type=kind, **payload)

    def turn(self, name: str, prompt: str, answer: str) -> "Codex":
        started = int((self.started + timedelta(seconds=len(self.lines))).timestamp())
        self.event("task_started", turn_id=name, started_at=started)
        self.event("user_message", message=prompt)
        self.event("agent_message", message=answer)
        return self.event("task_complete", turn_id=name, last_agent_message=answer)

    def tokens(self, total: tuple[int, ...], last: tuple[int, ...] | None) -> "Codex":
        names = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens", "total_tokens")
        info: Record = {"total_token_usage": dict(zip(names, total, strict=True))}
        if last is not None:
            info["last_token_usage"] = dict(zip(names, last, strict=True))
        return self.event("token_count", info=info)
