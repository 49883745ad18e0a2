"""Appends to PostgreSQL beside their floor: the same rows by bare psycopg, committed as often."""

import asyncio
import time
from collections.abc import Callable

import psycopg

from bench.tables import ms, percentile, print_table, ratio
from shiftlog.store.postgres import PostgresStore
from shiftlog.store.protocol import Writer
from tests.contract import builders as b
from tests.postgres_server import PostgresServer, reason_to_skip

SPAN_S = 5.0
TEXT = "The parser fails on empty input; fixed in src/app.py and covered by a test"


def main() -> None:
    """Measure one writer that waits for each answer, and many at once."""
    reason = reason_to_skip()
    if reason is not None:
        print(f"\nPostgreSQL: not measured, {reason}")
        return
    server = PostgresServer(durable=True)
    try:
        rows: list[list[object]] = []
        for writers in (1, 32):
            floor = _floor(server.url())
            ours = asyncio.run(_ours(server.url(), writers))
            rate, bare = len(ours) / SPAN_S, len(floor) / SPAN_S
            figures = [f"{rate:,.0f}", ms(percentile(ours, 0.5)), ms(percentile(ours, 0.95))]
            rows.append([f"{writers} at once", *figures, f"{bare:,.0f}", ratio(bare, rate)])
        header = ("writers", "entries/s", "p50", "p95", "one bare writer: rows/s", "floor / ours")
        print_table(
            "Appends to PostgreSQL, an entry with its session and its words, synchronous_commit = on", header, rows
        )
    finally:
        server.remove()


def _appending(name: str) -> Callable[[Writer], None]:
    def work(writer: Writer) -> None:
        head = writer.head(b.session_id(name))
        chain = b.Chain(name) if head is None else b.Chain(name, seq=head[0], hash=head[1])
        b.put(writer, TEXT, of=b.session(name), chain=chain)

    return work


async def _ours(url: str, writers: int) -> list[float]:
    spans: list[float] = []
    end = time.perf_counter() + SPAN_S

    async def write(store: PostgresStore, name: str) -> None:
        while (start := time.perf_counter()) < end:
            await store.write(_appending(name))
            spans.append(time.perf_counter() - start)

    async with PostgresStore(url) as store, asyncio.TaskGroup() as group:
        for number in range(writers):
            group.create_task(write(store, f"of-{writers}-{number}"))
    return spans


def _floor(url: str) -> list[float]:
    """Insert the row of an entry and commit, again and again."""
    entry = b.packed(b.Chain("floor").entry(TEXT), TEXT)
    spans: list[float] = []
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(
            "CREATE TABLE IF NOT EXISTS bare (id bigserial PRIMARY KEY, kind text, at text, body bytea, hash bytea)"
        )
        end = time.perf_counter() + SPAN_S
        while (start := time.perf_counter()) < end:
            values = (entry.kind, entry.at, entry.document, entry.hash)
            db.execute("INSERT INTO bare (kind, at, body, hash) VALUES (%s, %s, %s, %s)", values)
            spans.append(time.perf_counter() - start)
    return spans
