"""Partitions by month: older rows are moved, months are made ahead, and every table is keyed by session."""

from datetime import UTC, datetime
from typing import Any

import psycopg

from shiftlog.model.search import parse
from shiftlog.store.postgres import PostgresStore
from shiftlog.store.postgres.distribution import MONTHS_AHEAD, NUMBER_BITS
from shiftlog.store.postgres.migrate import migrate, shipped
from shiftlog.store.protocol import Filter, Page
from shiftlog.store.sql.rows import SEQ_BITS
from tests.contract import builders as b

BEFORE_MONTHS = 2
# What a team would distribute each table by; `journals` names all sessions and stays in one place.
DISTRIBUTED = {
    "sessions": "key",
    "turns": "session_key",
    "turn_tags": "session_key",
    "turn_files": "session_key",
    "entries": "session_key",
    "found": "session_key",
    "blob_uses": "session_key",
    "grams": "session_key",
    "gram_marks": "session_key",
    "receipts": "session_id",
    "leases": "session_id",
    "grants": "session_id",
    "client_turns": "session_id",
    "imported": "session_id",
}


def rows(url: str, sql: str, *values: object) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as db:
        return db.execute(sql.encode(), values).fetchall()


def months(url: str, parent: str = "entries") -> set[str]:
    """Name the partitions of a table."""
    found = rows(url, "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = %s::regclass", parent)
    return {str(name).removeprefix(f"{parent}_") for (name,) in found}


def expected_months() -> set[str]:
    now = datetime.now(UTC)
    places = [now.year * 12 + now.month - 1 + ahead for ahead in range(MONTHS_AHEAD + 1)]
    return {f"{place // 12}_{place % 12 + 1:02d}" for place in places}


async def test_rows_of_a_schema_without_months_are_moved(own_database: str) -> None:
    with psycopg.connect(own_database, autocommit=True) as db:
        migrate(db, shipped()[:BEFORE_MONTHS])
        # As the version before stored them: short keys, and no session beside an id.
        chain = b.Chain()
        entry = chain.indexed("walrus in the archive")
        db.execute("INSERT INTO journals VALUES (1, %s, 1, %s)", (b.session_id("one"), entry.hash))
        db.execute(
            "INSERT INTO entries VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
            ((1 << SEQ_BITS) + 1, *entry[1:9]),
        )
        db.execute("INSERT INTO found VALUES (%s, 'walrus:1', NULL)", ((1 << SEQ_BITS) + 1,))
        db.execute("INSERT INTO blob_uses VALUES ('x', %s)", ((1 << SEQ_BITS) + 1,))
    async with PostgresStore(own_database) as store:
        await store.write(lambda writer: writer.put_session(b.session(head_seq=1, head_hash=chain.hash)))
        (found,) = await store.read(lambda reader: reader.entries(b.session_id("one")))
        hits = await store.read(lambda r: r.search(parse("walrus"), Filter(), unit="entry", limit=5, most=5))
    assert found.hash == chain.hash
    assert [hit.seq for hit in hits.hits] == [1]
    assert rows(own_database, "SELECT tableoid::regclass::text, session_key FROM entries") == [("entries_earlier", 1)]
    assert rows(own_database, "SELECT session_key FROM blob_uses") == [(1,)]


async def test_a_session_lies_in_the_partition_of_the_month_in_which_it_was_recorded(postgres_url: str) -> None:
    async with PostgresStore(postgres_url) as store:
        await b.stored(store, "first", "second")
        listed = await store.read(lambda reader: reader.find_entries(Filter(), Page(limit=5), None))
    now = datetime.now(UTC)
    month = (now.year - 2020) * 12 + now.month - 1
    tables = {name for (name,) in rows(postgres_url, "SELECT tableoid::regclass::text FROM entries")}
    assert tables <= {f"entries_{name}" for name in expected_months()}
    assert [row.at[0] >> (SEQ_BITS + NUMBER_BITS) in (month, month - 1) for row in listed] == [True, True]


async def test_months_are_made_ahead_when_the_store_opens_and_when_it_is_swept(own_database: str) -> None:
    fixed = {"earlier", "default"}
    async with PostgresStore(own_database) as store:
        assert months(own_database) == months(own_database, "found") == expected_months() | fixed
        with psycopg.connect(own_database, autocommit=True) as db:
            for name in sorted(expected_months())[1:]:
                db.execute(f"DROP TABLE entries_{name}, found_{name}".encode())
        await store.write(lambda writer: writer.forget_outcomes(b.at(0)))
    assert months(own_database) == months(own_database, "found") == expected_months() | fixed


async def test_rows_that_came_before_their_month_wait_in_the_default_partition(own_database: str) -> None:
    """As at midnight, if no process could make the month ahead."""
    async with PostgresStore(own_database) as store:
        with psycopg.connect(own_database, autocommit=True) as db:
            for name in expected_months():
                db.execute(f"DROP TABLE entries_{name}, found_{name}".encode())
        await b.stored(store, "walrus at midnight")
        places = "SELECT DISTINCT tableoid::regclass::text FROM entries"
        assert rows(own_database, places) == [("entries_default",)]
        before = await store.read(lambda reader: reader.entries(b.session_id("one")))
        await store.write(lambda writer: writer.forget_outcomes(b.at(0)))
        assert rows(own_database, places) != [("entries_default",)]
        assert await store.read(lambda reader: reader.entries(b.session_id("one"))) == before
        hits = await store.read(lambda r: r.search(parse("walrus"), Filter(), unit="entry", limit=5, most=5))
    assert hits.total == 1


async def test_a_reader_that_holds_the_tables_delays_a_month_and_not_the_writers(own_database: str) -> None:
    async with PostgresStore(own_database) as store:
        name = max(expected_months())
        with psycopg.connect(own_database) as reader:
            reader.execute(f"DROP TABLE entries_{name}, found_{name}".encode())
            reader.commit()
            reader.execute("SELECT 1 FROM entries_default")
            await store.write(lambda writer: writer.forget_outcomes(b.at(0)))
            assert name not in months(own_database)
        await store.write(lambda writer: writer.forget_outcomes(b.at(0)))
    assert name in months(own_database)


def test_every_table_of_a_session_can_be_distributed_by_session(postgres_url: str) -> None:
    """PostgreSQL itself refuses a hash distribution if a unique key lacks the column, as Citus does."""
    with psycopg.connect(postgres_url) as db:
        for table, key in DISTRIBUTED.items():
            db.execute(f"CREATE TABLE spread_{table} (LIKE {table} INCLUDING ALL) PARTITION BY HASH ({key})".encode())
        db.rollback()
