"""Parts of words and of paths in PostgreSQL: found alike with the extension pg_trgm and without it."""

import asyncio
from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql

from shiftlog.store.postgres import PostgresStore
from shiftlog.store.postgres.migrate import migrate
from shiftlog.store.postgres.state import described, migrated
from shiftlog.store.protocol import Filter, Page, Reader, Writer
from shiftlog.store.sources import Packed
from shiftlog.store.sql.grams import GRAM_BATCH
from tests.contract import builders as b
from tests.postgres_server import PostgresServer

ONE = b.session_id("one")
ALPHABET = 'abkKsſßﬁéÉ"%_\\ /.日🚀'
ENTRIES = 3 * GRAM_BATCH + 40
LIMITED = "limited"


def contents() -> list[str]:
    random = Random(5)
    return ["".join(random.choices(ALPHABET, k=12 if n % 50 else 3000)) for n in range(ENTRIES)]


async def store_long_session(store: PostgresStore) -> list[str]:
    """Store a session whose every entry is of another turn, and return what the entries say."""
    said = contents()
    chain = b.Chain()
    entries = [b.packed(chain.entry(body={"content": text}, turn=b.request_id(n))) for n, text in enumerate(said)]
    await store.write(lambda writer: writer.append(ONE, entries))
    await store.write(lambda writer: writer.put_session(b.session(head_seq=ENTRIES, head_hash=chain.hash)))
    return said


async def named(store: PostgresStore, *covers: tuple[str, ...]) -> set[str]:
    def ask(reader: Reader) -> set[str]:
        found = reader.turns_that_may_hold(ONE, covers)
        return {"every turn"} if found is None else set(found)

    return await store.read(ask)


def rows(url: str, query: str, *values: object) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as db:
        return db.execute(query.encode(), values).fetchall()


async def indexed(store: PostgresStore, url: str) -> None:
    """Search until the session has its rows."""
    for _ in range(200):
        await named(store, ("zz",))
        await store.write_bulk(lambda writer: None)
        if rows(url, "SELECT 1 FROM gram_marks WHERE seq >= %s", ENTRIES - 2 * GRAM_BATCH):
            return
    raise AssertionError("the session got no rows")


class Long:
    """Two stores that hold the same long session, with and without pg_trgm."""

    def __init__(self, server: PostgresServer) -> None:
        self.runner = asyncio.Runner()
        self.urls = [server.url(name) for name in ("trigrams", "without")]
        self.stores = [PostgresStore(url) for url in self.urls]
        self.said = self.runner.run(self._open())
        with psycopg.connect(self.urls[1], autocommit=True) as db:
            db.execute("DROP EXTENSION pg_trgm CASCADE")

    async def _open(self) -> list[str]:
        said: list[str] = []
        for store, url in zip(self.stores, self.urls, strict=True):
            await store.__aenter__()
            said = await store_long_session(store)
            await indexed(store, url)
        return said

    def close(self) -> None:
        async def end() -> None:
            for store in self.stores:
                await store.__aexit__(None, None, None)

        self.runner.run(end())
        self.runner.close()


@pytest.fixture(scope="module")
def long(postgres_server: PostgresServer) -> Iterator[Long]:
    with psycopg.connect(postgres_server.url(), autocommit=True) as db:
        for name in ("trigrams", "without"):
            db.execute(f"CREATE DATABASE {name}".encode())
        made = Long(postgres_server)
        yield made
        made.close()
        for name in ("trigrams", "without"):
            db.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


PARTS = st.text(st.sampled_from(ALPHABET), min_size=1, max_size=5).map(str.casefold)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(st.lists(PARTS, min_size=1, max_size=3))
def test_parts_name_the_same_turns_with_trigrams_and_without_them(long: Long, parts: list[str]) -> None:
    expected = {b.request_id(n) for n, text in enumerate(long.said) if any(part in text.casefold() for part in parts)}
    for store in long.stores:
        assert long.runner.run(named(store, tuple(parts))) == expected


def test_the_turns_of_the_rarest_part_are_in_question(long: Long) -> None:
    rare = long.said[300].casefold()
    for store in long.stores:
        assert long.runner.run(named(store, ("a",), (rare,), ("b",))) == {b.request_id(300)}


async def test_what_is_erased_is_in_no_row(postgres_url: str) -> None:
    async with PostgresStore(postgres_url) as store:
        said = await store_long_session(store)
        await indexed(store, postgres_url)
        (before,) = rows(postgres_url, "SELECT seq FROM gram_marks")
        await store.write(lambda writer: writer.erase_body(ONE, GRAM_BATCH + 5))
        (after,) = rows(postgres_url, "SELECT seq FROM gram_marks")
        assert (before[0] > GRAM_BATCH, after[0]) == (True, GRAM_BATCH)
        gone = said[GRAM_BATCH + 4].casefold()
        assert rows(postgres_url, "SELECT count(*) FROM grams WHERE strpos(text, %s) > 0", gone) == [(0,)]
        assert b.request_id(7) in await named(store, (said[7].casefold(),))


async def test_one_search_brings_each_long_session_its_rows(postgres_url: str) -> None:
    names = [b.session_id(name) for name in ("two", "three")]
    async with PostgresStore(postgres_url) as store:
        for name in names:
            chain = b.Chain(name.removeprefix(b.session_id("")))
            entries = [b.packed(chain.entry(f"word {n}", turn=b.request_id(n))) for n in range(ENTRIES)]
            await store.write(partial(append, name, entries))
        assert await store.read(lambda r: [r.turns_that_may_hold(name, [("word 7",)]) for name in names]) == [
            None,
            None,
        ]
        for _ in range(100):
            await store.write_bulk(lambda writer: None)
            if len(rows(postgres_url, "SELECT 1 FROM gram_marks WHERE seq >= %s", 2 * GRAM_BATCH)) == len(names):
                break
        found = await store.read(lambda r: [list(r.turns_that_may_hold(name, [("word 77",)]) or ()) for name in names])
    assert [len(turns) for turns in found] == [1 + 10, 1 + 10]  # 77 and 770 to 779


def append(name: str, entries: list[Packed], writer: Writer) -> None:
    writer.append(name, entries)
    writer.put_session(b.session(name.removeprefix(b.session_id("")), head_seq=len(entries)))


@pytest.fixture
def limited_url(own_database: str) -> Iterator[str]:
    """A database in which a role may make tables but no extension."""
    with psycopg.connect(own_database, autocommit=True) as db:
        db.execute(f"CREATE ROLE {LIMITED} LOGIN".encode())
        db.execute(f"GRANT CREATE ON SCHEMA public TO {LIMITED}".encode())
        yield own_database.replace("shiftlog@", f"{LIMITED}@")
        db.execute(sql.SQL("REASSIGN OWNED BY {0} TO CURRENT_USER; DROP OWNED BY {0}").format(sql.Identifier(LIMITED)))
        db.execute(f"DROP ROLE {LIMITED}".encode())


async def files_by_path(url: str, path: str) -> list[str]:
    async with PostgresStore(url) as store:
        found = await store.read(lambda reader: reader.find_files(Filter(path=path), Page(limit=9)))
        return [row.path for row in found]


async def test_a_role_that_may_not_make_the_extension_works_without_it_until_another_one_makes_it(
    limited_url: str, own_database: str
) -> None:
    done = migrated(limited_url, check=False)
    assert done.has_trigrams is False
    assert described(limited_url).has_trigrams is False
    async with PostgresStore(limited_url) as store:
        await b.stored(store, turns=[b.turn(1, files={"src/store/a.py": b.touch(), "src/b.py": b.touch()})])
    assert await files_by_path(limited_url, "**/a.py") == ["src/store/a.py"]
    with psycopg.connect(own_database, autocommit=True) as db:
        db.execute("CREATE SCHEMA extensions; CREATE EXTENSION pg_trgm SCHEMA extensions")
        db.execute(f"GRANT USAGE ON SCHEMA extensions TO {LIMITED}".encode())
    assert described(limited_url).has_trigrams is False
    again = migrated(limited_url, check=False)
    assert (again.migrations, again.has_trigrams) == ((), True)
    assert described(limited_url).has_trigrams is True
    assert await files_by_path(limited_url, "**/a.py") == ["src/store/a.py"]
    assert used_indexes(limited_url) == {"turn_files_by_path", "grams_by_text"}


def used_indexes(url: str) -> set[str]:
    """Return the indexes that a part of a path and a part of a text are found by."""
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("SET enable_seqscan = off; SET enable_indexscan = off")
        plans = [
            str(db.execute(f"EXPLAIN (FORMAT JSON) {query}".encode()).fetchone())
            for query in (
                "SELECT 1 FROM turn_files x WHERE x.path ~ '^.*walrus\\.py$'",
                "SELECT 1 FROM grams WHERE text LIKE '%walrus%'",
            )
        ]
    return {name for name in ("turn_files_by_path", "grams_by_text") for plan in plans if name in plan}


def test_a_migrating_role_that_may_makes_the_extension_itself(own_database: str) -> None:
    with psycopg.connect(own_database, autocommit=True) as db:
        migrate(db)
    assert described(own_database).has_trigrams is True
