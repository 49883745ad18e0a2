"""The harness of the journal: a real app on a real database, a clock that tests move, and short ways to use both.

Tests of the journal and of the native tools use it, and so do the property tests.
"""

import os
import socket
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import apsw
import psycopg
import pytest

from shiftlog.app.app import App, Connected, open_app
from shiftlog.journal.chain import ChainCheck
from shiftlog.journal.maintenance import Rebuilt
from shiftlog.link import processes
from shiftlog.link.wire import DATABASE
from shiftlog.model.caller import LIBRARY, Caller
from shiftlog.model.entry import Entry
from shiftlog.model.errors import ShiftlogError
from shiftlog.model.nouns import Receipt, Session, Turn
from shiftlog.store.protocol import Reader
from tests.postgres_server import store_environ

T = TypeVar("T")
Service = Callable[[Mapping[str, Any], Caller], Awaitable[dict[str, Any]]]

NOON = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
SEQ_BITS = 24


def client(name: str = "one", **facts: Any) -> Caller:
    """Return a client process that stays and may hold leases: this one, unless facts say otherwise."""
    caller = Caller(
        client_id=f"client-{name}",
        face="mcp",
        host=socket.gethostname(),
        pid=os.getpid(),
        pid_started=processes.started(),
        holds_leases=True,
    )
    return replace(caller, **facts)


@dataclass(slots=True, kw_only=True)
class Harness:
    """One open app and what tests do with it."""

    home: Path
    app: App
    clock: Path | None

    # Calling the tools

    def service(self, tool: str) -> Service:
        for room in (self.app.sessions, self.app.continuity, self.app.history):
            found: Service | None = getattr(room, tool, None)
            if found is not None:
                return found
        raise LookupError(tool)

    async def call(self, tool: str, arguments: Mapping[str, Any], caller: Caller = LIBRARY) -> dict[str, Any]:
        return await self.service(tool)(arguments, caller)

    async def refusal(self, tool: str, arguments: Mapping[str, Any], caller: Caller = LIBRARY) -> ShiftlogError:
        """Return the error that answers a call, having checked that it stored nothing."""
        before = self.rows()
        try:
            answered = await self.call(tool, arguments, caller)
        except ShiftlogError as error:
            assert self.rows() == before, "a refused call stored something"
            return error
        raise AssertionError(f"{tool} was not refused but answered {answered}")

    async def open(self, by: Caller = LIBRARY, /, **arguments: Any) -> str:
        """Open a session and return its id."""
        given = {"agent": "Codex", "title": "Fix upload", **arguments}
        return str((await self.call("open_session", given, by))["session_id"])

    async def begin(self, session_id: str, by: Caller = LIBRARY, /, **arguments: Any) -> str:
        """Begin a turn and return its request id."""
        given = {"session_id": session_id, "query_title": "Find the race", "query_text": "Why does it flake?"}
        return str((await self.call("begin_turn", given | arguments, by))["request_id"])

    async def update(self, session_id: str, by: Caller = LIBRARY, /, **arguments: Any) -> dict[str, Any]:
        return await self.call("update_turn", {"session_id": session_id, **arguments}, by)

    async def complete(self, session_id: str, by: Caller = LIBRARY, /, **arguments: Any) -> dict[str, Any]:
        given = {"session_id": session_id, "outcome": "completed", "response": "Done", **arguments}
        return await self.call("finish_turn", given, by)

    async def fail(self, session_id: str, by: Caller = LIBRARY, /, **arguments: Any) -> dict[str, Any]:
        given = {"session_id": session_id, "outcome": "failed", "error_message": "No runner", **arguments}
        return await self.call("finish_turn", given, by)

    async def query(self, **arguments: Any) -> dict[str, Any]:
        return await self.call("query_history", arguments)

    async def pages(self, **arguments: Any) -> list[dict[str, Any]]:
        """Return every page of a question, following the cursors."""
        pages = [await self.query(**arguments)]
        while pages[-1]["next_cursor"]:
            pages.append(await self.query(**arguments, cursor=pages[-1]["next_cursor"]))
            assert len(pages) < 5_000, "the cursors lead nowhere"
        return pages

    async def items(self, **arguments: Any) -> list[dict[str, Any]]:
        return [item for page in await self.pages(**arguments) for item in page["items"]]

    # Looking at what is stored

    async def read(self, work: Callable[[Reader], T]) -> T:
        return await self.app.store.read(work)

    async def session(self, session_id: str) -> Session:
        found = await self.read(lambda reader: reader.session(session_id))
        assert found is not None
        return found

    async def turn(self, session_id: str, request_id: str | None = None) -> Turn:
        name = request_id or (await self.session(session_id)).current_turn or ""
        found = await self.read(lambda reader: reader.turn(session_id, name))
        assert found is not None
        return found

    async def entries(self, session_id: str) -> list[Entry]:
        return await self.read(lambda reader: reader.entries(session_id))

    async def kinds(self, session_id: str) -> list[str]:
        return [str(entry.kind) for entry in await self.entries(session_id)]

    def rows(self) -> dict[str, int]:
        """Count what is stored, past the app, over a connection of our own."""
        tables = ("journals", "entries", "sessions", "turns", "answers", "outcomes", "leases", "receipts", "blobs")
        url = self.app.config.store.url
        with closing(psycopg.connect(url)) if url else self.database() as database:
            return {table: next(iter(database.execute(f"SELECT count(*) FROM {table}")))[0] for table in tables}

    def database(self) -> "closing[apsw.Connection]":
        """Open the file beside the app; with apsw, as two copies of SQLite in one process break each other's locks."""
        if self.app.config.store.url:
            pytest.skip("looks into the SQLite file")
        return closing(apsw.Connection(str(self.home / DATABASE)))

    async def verify(self, *session_ids: str, receipts: list[Receipt] | None = None) -> list[ChainCheck]:
        ids = list(session_ids) or await self.app.maintenance.session_ids()
        return [found async for found in self.app.maintenance.verify(ids, receipts)]

    async def rebuild(self, *session_ids: str) -> list[Rebuilt]:
        ids = list(session_ids) or await self.app.maintenance.session_ids()
        return [done async for done in self.app.maintenance.rebuild(ids)]

    # Time

    def now(self) -> datetime:
        return self.app.clock.now()

    def set_time(self, at: datetime) -> None:
        assert self.clock is not None, "this harness has the real clock"
        self.clock.write_text(at.isoformat(), encoding="utf-8")

    def wait(self, **span: float) -> None:
        """Move the clock on."""
        self.set_time(self.now() + timedelta(**span))


@asynccontextmanager
async def open_harness(
    home: Path,
    *,
    now: datetime | None = NOON,
    environ: Mapping[str, str] | None = None,
    connected: Connected = tuple,
) -> AsyncGenerator[Harness]:
    """Open an app in a folder; without a time it has the real clock."""
    home.mkdir(mode=0o700, exist_ok=True)
    given = {"SHIFTLOG_DURABILITY": "process", **store_environ(home), **(environ or {})}
    clock = None
    if now is not None:
        clock = home.parent / f"{home.name}.clock"
        if not clock.exists():
            clock.write_text(now.isoformat(), encoding="utf-8")
        given |= {"SHIFTLOG_TEST": "1", "SHIFTLOG_NOW": f"@{clock}"}
    async with open_app(home, given, connected=connected) as app:
        yield Harness(home=home, app=app, clock=clock)


def tamper(home: Path, sql: str, *values: object) -> None:
    """Change the database of an app that is closed, as somebody with an editor for it would."""
    if environ := store_environ(home):
        with psycopg.connect(environ["SHIFTLOG_STORE_URL"]) as team:
            assert team.execute(sql.replace("?", "%s").encode(), values).rowcount > 0, "the edit changed nothing"
        return
    with closing(sqlite3.connect(home / DATABASE, isolation_level=None)) as database:
        assert database.execute(sql, values).rowcount > 0, "the edit changed nothing"


def row_id(home: Path, session_id: str, seq: int) -> int:
    """Return the row of an entry: the key of its session above its place in the journal."""
    [(key,)] = stored_rows(home, "SELECT key FROM journals WHERE id = ?", session_id)
    return (int(key) << SEQ_BITS) + seq


def stored_rows(home: Path, sql: str, *values: object) -> list[tuple[Any, ...]]:
    """Read rows of a store past any app."""
    if environ := store_environ(home):
        with psycopg.connect(environ["SHIFTLOG_STORE_URL"]) as team:
            return team.execute(sql.replace("?", "%s").encode(), values).fetchall()
    with closing(sqlite3.connect(home / DATABASE)) as database:
        return database.execute(sql, values).fetchall()


def files_holding(home: Path, text: str) -> list[str]:
    """Name the files below a folder that hold a text in any byte order of characters we write."""
    needles = [text.encode("utf-8"), text.encode("utf-16-le")]
    return [str(path.relative_to(home)) for path in _files(home) if any(n in path.read_bytes() for n in needles)]


def _files(home: Path) -> Iterator[Path]:
    return (path for path in sorted(home.rglob("*")) if path.is_file())
