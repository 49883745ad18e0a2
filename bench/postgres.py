"""Appends to PostgreSQL beside their floor: the rows that they stored, again by bare psycopg, committed as often."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg

from bench.http_load import ITEM, TEXT
from bench.tables import ms, percentile, print_table, ratio
from shiftlog.app.app import open_app
from shiftlog.model.caller import Caller
from tests.postgres_server import PostgresServer, empty, reason_to_skip

SPAN_S = 10.0
# Every table that an append writes: new rows, and rows that take the place of older ones.
NEW = ("entries", "found", "outcomes", "commits")
ENTRY_ROWS = ("entries", "found")
CHANGED = ("journals", "sessions", "turns")

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The time of each append, the number of commits, and the processor time of this process."""

    spans: list[float]
    commits: int
    cpu_s: float

    @property
    def rate(self) -> float:
        """Return appends per second."""
        return len(self.spans) / SPAN_S


def main(scratch: Path) -> None:
    """Measure one client that waits for each answer, and many at once."""
    reason = reason_to_skip()
    if reason is not None:
        print(f"\nPostgreSQL: not measured, {reason}")
        return
    server = PostgresServer(durable=True)
    try:
        rows: list[list[object]] = []
        for clients in (1, 32):
            home = scratch / f"home-{clients}"
            home.mkdir(mode=0o700)
            empty(server.url())
            ours = asyncio.run(_ours(home, server.url(), clients))
            together = max(1, round(len(ours.spans) / max(ours.commits, 1)))
            bare = floor(server.url(), together)
            figures = [f"{ours.rate:,.0f}", ms(percentile(ours.spans, 0.5)), ms(percentile(ours.spans, 0.95))]
            cpu = f"{1000 * ours.cpu_s / max(len(ours.spans), 1):.2f} ms"
            rows.append([clients, *figures, cpu, together, f"{bare:,.0f}", ratio(bare, ours.rate)])
        header = (
            "clients", "appends/s", "p50", "p95", "processor each", "in a commit", "floor: appends/s", "floor / ours",
        )  # fmt: skip
        print_table("Appends through the journal, one dialog item each, synchronous_commit = on", header, rows)
    finally:
        server.remove()


async def _ours(home: Path, url: str, clients: int) -> Run:
    """Let clients append to sessions of their own."""
    spans: list[float] = []
    async with open_app(home, {"SHIFTLOG_STORE_URL": url}) as app:
        callers = [Caller(face="mcp", client_id=f"client-{n}", call_id="0", holds_leases=True) for n in range(clients)]
        names: list[dict[str, str]] = []
        for caller in callers:
            opened = await app.sessions.open_session({"agent": "Bench", "title": "Throughput"}, caller)
            names.append({"session_id": opened["session_id"]})
            await app.sessions.begin_turn({**names[-1], "query_title": "t", "query_text": TEXT}, caller)
        before = commits(url)
        end = time.perf_counter() + SPAN_S

        async def write(number: int) -> None:
            calls = 0
            while (start := time.perf_counter()) < end:
                calls += 1
                if calls % 20 == 0:  # a turn does not grow without end
                    ended = {**names[number], "outcome": "completed", "response": TEXT}
                    await app.sessions.finish_turn(ended, callers[number])
                    arguments = {**names[number], "query_title": "t", "query_text": TEXT}
                    await app.sessions.begin_turn(arguments, callers[number])
                else:
                    caller = replace(callers[number], call_id=str(calls))
                    await app.sessions.update_turn({**names[number], "dialog": [ITEM]}, caller)
                spans.append(time.perf_counter() - start)

        cpu = time.process_time()
        async with asyncio.TaskGroup() as group:
            for number in range(clients):
                group.create_task(write(number))
        cpu = time.process_time() - cpu
    return Run(spans=spans, commits=commits(url) - before, cpu_s=cpu)


def commits(url: str) -> int:
    """Return how many commits were noted."""
    with psycopg.connect(url, autocommit=True) as db:
        row = db.execute("SELECT count(*) FROM commits").fetchone()
    return int(row[0]) if row else 0


def floor(url: str, together: int, items: int = 1, span_s: float = SPAN_S) -> float:
    """Store the rows of the last appends again, in tables of the same form, as many in a commit; return appends/s.

    An append has `items` entries.
    """
    with psycopg.connect(url, autocommit=True) as db:
        taken = {table: _sample(db, table) for table in (*NEW, *CHANGED)}
        for table in taken:
            db.execute(f"CREATE TABLE IF NOT EXISTS floor_{table} (LIKE {table} INCLUDING ALL)".encode())
            db.execute(f"TRUNCATE floor_{table}".encode())
        for table in CHANGED:
            _insert(db, table, taken[table])
        done, end = 0, time.perf_counter() + span_s
        while time.perf_counter() < end:
            with db.pipeline():
                db.execute("BEGIN")
                for number in range(done, done + together):
                    for table in NEW[:-1]:
                        columns, rows = taken[table]
                        places = range(number * items, (number + 1) * items) if table in ENTRY_ROWS else (number,)
                        again = [_renewed(table, rows[place % len(rows)], place) for place in places if rows]
                        _insert(db, table, (columns, again))
                    for table in CHANGED:
                        columns, rows = taken[table]
                        _update(db, table, columns, rows[number % len(rows)])
                db.execute("INSERT INTO floor_commits (id) VALUES (gen_random_uuid())")
                db.execute("COMMIT")
            done += together
    return done / span_s


def _sample(db: psycopg.Connection[Row], table: str) -> tuple[list[str], list[Row]]:
    order = "at DESC" if table == "commits" else "1 DESC"
    cursor = db.execute(f"SELECT * FROM {table} ORDER BY {order} LIMIT 200".encode())
    return [column.name for column in cursor.description or ()], cursor.fetchall()


def _renewed(table: str, row: Row, number: int) -> Row:
    """Return a row under a key of its own."""
    return (row[0], row[1], f"call-{number}", *row[3:]) if table == "outcomes" else (number, *row[1:])


def _insert(db: psycopg.Connection[Row], table: str, given: tuple[Sequence[str], Sequence[Row]]) -> None:
    columns, rows = given
    places = ", ".join(["%s"] * len(columns))
    for row in rows:
        db.execute(f"INSERT INTO floor_{table} ({', '.join(columns)}) VALUES ({places})".encode(), row)


def _update(db: psycopg.Connection[Row], table: str, columns: Sequence[str], row: Row) -> None:
    changed = "head_hash" if table == "journals" else "doc"
    value = row[columns.index(changed)]
    db.execute(f"UPDATE floor_{table} SET {changed} = %s WHERE key = %s".encode(), (value, row[columns.index("key")]))
