"""A PostgreSQL with millions of entries beside an empty one: append, search, list, resume and totals.

`SHIFTLOG_BENCH_ENTRIES` says how many entries (1,000,000). The server and its files are removed at the end.
"""

import asyncio
import itertools
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg

from bench.postgres_fill import AGENTS, ENTRIES_A_SESSION, PROJECTS, UNFINISHED_EVERY, fill, pattern_of
from bench.search import Words
from bench.tables import ms, percentile, print_table, ratio
from shiftlog.app.app import App, open_app
from shiftlog.journal.usage.service import runs_filter, total_usage
from shiftlog.journal.usage.totals import DIMENSIONS
from shiftlog.model.caller import LIBRARY, Caller
from tests.postgres_server import PostgresServer, reason_to_skip

ENTRIES = 1_000_000
SETTINGS = (
    "shared_buffers=1GB",
    "maintenance_work_mem=512MB",
    "max_wal_size=8GB",
    "checkpoint_timeout=15min",
    "wal_level=minimal",
    "max_wal_senders=0",
)
APPENDS = 400
SEARCHES = 200
LISTS = 100
RESUMES = 200

Ask = Callable[[int], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """How long each of some questions took, and the processor's time for one, of this process and of the server."""

    spans: list[float]
    cpu_ms: float


def main(scratch: Path) -> None:
    """Measure an empty store, fill it, and measure again."""
    reason = reason_to_skip()
    if reason is not None:
        print(f"\nPostgreSQL: not measured, {reason}")
        return
    entries = int(os.environ.get("SHIFTLOG_BENCH_ENTRIES", ENTRIES))
    server = PostgresServer(durable=True, settings=SETTINGS)
    try:
        asyncio.run(_measured(scratch, server, entries))
    finally:
        server.remove()


async def _measured(scratch: Path, server: PostgresServer, entries: int) -> None:
    words = Words(seed=1)
    start = time.perf_counter()
    empty = await filled(scratch, server, words, entries)
    figures = f"{entries:,} entries in {entries // ENTRIES_A_SESSION:,} sessions, {_gigabytes(server.url()):.1f} GB"
    print(f"\n{figures}, filled in {time.perf_counter() - start:.0f} s", flush=True)
    print_answers(figures, empty, await answered(scratch, server, words, entries // ENTRIES_A_SESSION))


def print_answers(title: str, empty: Timed, asked: dict[str, Timed]) -> None:
    """Print how long each question took, and appends beside those to an empty store."""
    rows: list[list[str]] = []
    for name, timed in {"append, empty store": empty, **asked}.items():
        of_empty = ratio(timed.cpu_ms, empty.cpu_ms) if name == "append" else ""
        spans = [ms(percentile(timed.spans, part)) for part in (0.5, 0.95)]
        rows.append([name, *spans, ms(timed.cpu_ms), of_empty])
    print_table(title, ("question", "p50", "p95", "processor each", "processor / empty"), rows)


async def filled(scratch: Path, server: PostgresServer, words: Words, entries: int) -> Timed:
    """Fill an empty store; return how long appends took before."""
    url = server.url()
    async with open_app(scratch, {"SHIFTLOG_STORE_URL": url}) as app:
        empty = await _timed(server, await _append(app), APPENDS)
        with psycopg.connect(url, autocommit=True) as db:
            patterns = [await pattern_of(app, db, is_closed=is_closed) for is_closed in (True, False)]
    with psycopg.connect(url, autocommit=True) as db:
        await asyncio.to_thread(fill, db, patterns, words, entries)
    async with open_app(scratch, {"SHIFTLOG_STORE_URL": url}) as app:
        await app.store.write(lambda writer: writer.recount())
    return empty


async def answered(scratch: Path, server: PostgresServer, words: Words, sessions: int) -> dict[str, Timed]:
    """Return how long each question takes on a full store."""
    async with open_app(scratch, {"SHIFTLOG_STORE_URL": server.url()}) as app:
        return {
            "append": await _timed(server, await _append(app), APPENDS),
            "two-word search, sessions": await _timed(server, _search(app, words, "session"), SEARCHES),
            "two-word search, entries": await _timed(server, _search(app, words, "entry"), SEARCHES),
            "session list": await _timed(server, _list(app), LISTS),
            "resume": await _timed(server, _resume(app, sessions), RESUMES),
            "usage totals": await _timed(server, _totals(app), len(DIMENSIONS) * 2),
        }


def _gigabytes(url: str) -> float:
    with psycopg.connect(url, autocommit=True) as db:
        row = db.execute("SELECT pg_database_size(current_database())").fetchone()
    return int(row[0]) / 1e9 if row else 0.0


async def _timed(server: PostgresServer, ask: Ask, times: int) -> Timed:
    """Ask some times to warm up, then measure."""
    for n in range(times // 4):
        await ask(n)
    spans: list[float] = []
    cpu = _processor_s(server)
    for n in range(times):
        start = time.perf_counter()
        await ask(times + n)
        spans.append(time.perf_counter() - start)
    return Timed(spans=spans, cpu_ms=1000 * (_processor_s(server) - cpu) / times)


def _processor_s(server: PostgresServer) -> float:
    """Return the processor's time that this process and the processes of the server have used."""
    postmaster = (server.folder / "data" / "postmaster.pid").read_text().split()[0]
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    ticks = 0
    for process in (postmaster, *children):
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        except FileNotFoundError:
            continue  # a worker that has ended meanwhile
        ticks += int(fields[11]) + int(fields[12])
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


async def _append(app: App) -> Ask:
    """Append dialog items to a session of its own, a new turn after every twenty."""
    caller = Caller(face="mcp", client_id="bench", call_id="0", holds_leases=True)
    opened = await app.sessions.open_session({"agent": "Bench", "title": "Appending"}, caller)
    named = {"session_id": opened["session_id"]}
    calls = itertools.count(1)
    item = {"role": "model", "category": "reasoning", "content": Words(seed=2).text()}

    async def append(_: int) -> None:
        number = next(calls)
        own = replace(caller, call_id=str(number))
        if number % 20 == 1:
            await app.sessions.begin_turn({**named, "query_title": "t", "query_text": "go"}, own)
        elif number % 20 == 0:
            await app.sessions.finish_turn({**named, "outcome": "completed", "response": "ok"}, own)
        else:
            await app.sessions.update_turn({**named, "dialog": [item]}, own)

    return append


def _search(app: App, words: Words, kind: str) -> Ask:
    return lambda _: app.history.query_history({"text": words.query(), "kinds": [kind]}, LIBRARY)


def _list(app: App) -> Ask:
    """Ask for the first page of sessions: of all, of a project, of an agent, of those that are open."""

    def ask(number: int) -> Awaitable[object]:
        filters: tuple[dict[str, str], ...] = (
            {},
            {"project": f"project-{number % PROJECTS}"},
            {"agent_id": f"agent-{number * 7 % AGENTS}"},
            {"status": "open"},
        )
        return app.history.query_history({"kinds": ["session"], **filters[number % len(filters)]}, LIBRARY)

    return ask


def _resume(app: App, sessions: int) -> Ask:
    """Resume by the name of an agent that left a session unfinished lately; only every twentieth is unfinished."""
    many = max(1, min(AGENTS, sessions // 30) // UNFINISHED_EVERY)

    def ask(number: int) -> Awaitable[object]:
        last = (sessions - 1) // UNFINISHED_EVERY * UNFINISHED_EVERY
        agent = (last - number % many * UNFINISHED_EVERY) % AGENTS
        return app.continuity.resume_session({"agent_id": f"agent-{agent}"}, LIBRARY)

    return ask


def _totals(app: App) -> Ask:
    names = list(DIMENSIONS)

    def ask(number: int) -> Awaitable[object]:
        by = [names[number % len(names)]]
        return app.store.read(
            lambda reader: total_usage(reader, app.runs, runs_filter(reader, {}, app.clock.now()), by)
        )

    return ask
