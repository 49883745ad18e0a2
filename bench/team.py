"""Appends through HTTP: two replicas of a team's server behind nothing, and 32 clients, beside their floor.

An entry is a row of the journal: a dialog item of `update_turn`, the begin or the end of a turn. Every call waits for
its commit (`synchronous_commit = on`). Clients, replicas and PostgreSQL share the machine, so their processor time
is shown.
"""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

import psycopg

from bench.http_load import Load
from bench.postgres import commits, floor
from bench.tables import ms, percentile, print_table, ratio
from tests.postgres_server import PostgresServer, empty, reason_to_skip
from tests.server.replicas import Replica, make_key

CLIENTS = 32
SPAN_S = float(os.environ.get("TEAM_BENCH_S", "20"))
# Entries a second that the clients send together; without it each sends as soon as it is answered.
RATE = float(os.environ.get("TEAM_BENCH_RATE", "0"))
FLOOR_S = 10.0
# Items in a call, and whether a client goes to the other replica with each call.
CASES = ((1, False), (1, True), (4, False), (4, True))
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Usage:
    """Counts at the beginning of the measured time."""

    entries: int = 0
    commits: int = 0
    replicas: float = 0.0
    database: float = 0.0
    clients: float = 0.0


def main(scratch: Path) -> None:
    """Measure each case in an empty database."""
    reason = reason_to_skip()
    if reason is not None:
        print(f"\nA team's server: not measured, {reason}")
        return
    server = PostgresServer(durable=True)
    home = scratch / "home"
    home.mkdir(mode=0o700)
    try:
        rows = [_case(server, home, items, wanders=wanders) for items, wanders in CASES]
    finally:
        server.remove()
    header = (
        "items in a call", "at", "entries/s", "calls/s", "p50", "p95", "entries in a commit", "floor: entries/s",
        "floor / ours", "processor each: replicas", "PostgreSQL", "clients",
    )  # fmt: skip
    print_table(f"Appends through HTTP by {CLIENTS} clients, two replicas, {SPAN_S:.0f} s each", header, rows)


def _case(server: PostgresServer, home: Path, items: int, *, wanders: bool) -> list[object]:
    url = server.url()
    empty(url)
    key = make_key(home, url)
    replicas = [Replica(home, url) for _ in range(2)]
    try:
        bases = [replica.url for replica in replicas]
        load = Load(bases, key, CLIENTS, items, wanders, SPAN_S, RATE / items or None)
        before = Usage()
        pids = [replica.process.pid for replica in replicas]
        asyncio.run(load.run(lambda: _note(before, server, pids)))
        after = Usage()
        _note(after, server, pids)
    finally:
        for replica in replicas:
            replica.end()
    entries, calls = after.entries - before.entries, len(load.spans)
    together = entries / max(after.commits - before.commits, 1)
    bare = floor(url, max(1, round(together / (entries / calls))), max(1, round(entries / calls)), FLOOR_S)
    bare *= max(1, round(entries / calls))
    return [
        items,
        "either" if wanders else "one",
        f"{entries / SPAN_S:,.0f}",
        f"{calls / SPAN_S:,.0f}",
        ms(percentile(load.spans, 0.5)),
        ms(percentile(load.spans, 0.95)),
        f"{together:.1f}",
        f"{bare:,.0f}",
        ratio(bare, entries / SPAN_S),
        *(
            f"{1000 * (getattr(after, part) - getattr(before, part)) / entries:.2f} ms"
            for part in ("replicas", "database", "clients")
        ),
    ]


def _note(usage: Usage, server: PostgresServer, replicas: list[int]) -> None:
    with psycopg.connect(server.url(), autocommit=True) as db:
        row = db.execute("SELECT coalesce(sum(head_seq), 0) FROM journals").fetchone()
    usage.entries = int(row[0]) if row else 0
    usage.commits = commits(server.url())
    usage.replicas = sum(map(_processor_s, replicas))
    usage.database = sum(map(_processor_s, server.processes()))
    own = os.times()
    usage.clients = own.user + own.system


def _processor_s(pid: int) -> float:
    """Return the processor time of a process, with children that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS
