"""Migrations of the embedded store: applied once, in order, whole, and never over an unknown or changed schema."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import apsw
import pytest

from shiftlog.model.errors import StorageError
from shiftlog.model.search import parse
from shiftlog.store.protocol import Filter
from shiftlog.store.sqlite import SqliteStore
from shiftlog.store.sqlite.migrate import Migration, migrate, shipped
from tests.contract import builders as b

FIRST = Migration(number=1, name="first", sql="CREATE TABLE a (x); INSERT INTO a VALUES (1)")
SECOND = Migration(number=2, name="second", sql="ALTER TABLE a ADD COLUMN y; UPDATE a SET y = x + 1")


@pytest.fixture
def db(tmp_path: Path) -> Iterator[apsw.Connection]:
    made = apsw.Connection(str(tmp_path / "test.db"))
    yield made
    made.close()


def applied(db: apsw.Connection) -> Sequence[tuple[object, ...]]:
    return db.execute("SELECT number, name FROM migrations ORDER BY number").fetchall()


def test_migrations_are_applied_in_order_and_remembered(db: apsw.Connection) -> None:
    assert migrate(db, [FIRST, SECOND]) == 2
    assert db.execute("SELECT x, y FROM a").fetchall() == [(1, 2)]
    assert applied(db) == [(1, "first"), (2, "second")]


def test_a_migration_is_applied_once(db: apsw.Connection) -> None:
    migrate(db, [FIRST])
    migrate(db, [FIRST])
    assert db.execute("SELECT count(*) FROM a").fetchall() == [(1,)]


def test_a_later_version_adds_what_is_new_and_keeps_what_is_there(db: apsw.Connection) -> None:
    migrate(db, [FIRST])
    db.execute("INSERT INTO a VALUES (10)")
    migrate(db, [FIRST, SECOND])
    assert db.execute("SELECT x, y FROM a ORDER BY x").fetchall() == [(1, 2), (10, 11)]


def test_a_database_of_a_newer_version_is_refused_and_left_alone(db: apsw.Connection) -> None:
    migrate(db, [FIRST, SECOND])
    with pytest.raises(StorageError) as caught:
        migrate(db, [FIRST])
    assert "migration 2" in str(caught.value.details["reason"])
    assert caught.value.hint == "Install the newer Shiftlog that made it"
    assert applied(db) == [(1, "first"), (2, "second")]


def test_a_migration_changed_after_it_was_applied_is_refused(db: apsw.Connection) -> None:
    migrate(db, [FIRST])
    changed = Migration(number=1, name="first", sql=FIRST.sql + " -- harmless")
    with pytest.raises(StorageError) as caught:
        migrate(db, [changed, SECOND])
    assert "migration 1 (first) was changed" in str(caught.value.details["reason"])
    assert applied(db) == [(1, "first")]


def test_a_migration_that_fails_leaves_nothing_behind(db: apsw.Connection) -> None:
    broken = Migration(number=2, name="broken", sql="CREATE TABLE b (x); INSERT INTO nowhere VALUES (1)")
    with pytest.raises(apsw.SQLError):
        migrate(db, [FIRST, broken])
    assert db.execute("SELECT name FROM sqlite_schema").fetchall() == []


def test_the_shipped_migrations_are_numbered_without_gaps() -> None:
    assert [migration.number for migration in shipped()] == list(range(1, len(shipped()) + 1))


async def test_a_store_says_which_schema_it_has(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "shiftlog.db") as store:
        counts = await store.read(lambda reader: reader.counts())
    assert counts.schema == shipped()[-1].number
    assert counts.bytes > 0


async def test_a_store_of_a_newer_version_does_not_open(tmp_path: Path) -> None:
    path = tmp_path / "shiftlog.db"
    async with SqliteStore(path) as store:
        await b.stored(store)
    db = apsw.Connection(str(path))
    db.execute("INSERT INTO migrations VALUES (9999, 'later', 'x')")
    db.close()
    with pytest.raises(StorageError) as caught:
        async with SqliteStore(path):
            pass
    assert "migration 9999" in str(caught.value.details["reason"])


def test_parts_of_words_that_were_indexed_without_roles_and_statuses_are_made_anew(db: apsw.Connection) -> None:
    migrate(db, shipped()[:11])
    db.execute("INSERT INTO grams (rowid, text) VALUES (257, 'some')")
    db.execute("INSERT INTO gram_marks VALUES (1, 256)")
    db.execute("INSERT INTO gram_blocks VALUES (1, 0, 0, x'', NULL)")
    migrate(db, shipped()[:12])
    assert not db.execute("SELECT rowid FROM grams WHERE grams MATCH 'ome'").fetchall()
    assert not db.execute("SELECT * FROM gram_marks").fetchall()
    assert not db.execute("SELECT * FROM gram_blocks").fetchall()
    migrate(db, shipped())
    assert not db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'gram_blocks'").fetchall()


def test_the_states_of_readers_that_an_older_version_kept_are_still_there(db: apsw.Connection) -> None:
    migrate(db, shipped()[:14])
    db.execute("INSERT INTO sources VALUES ('/t/a.jsonl', x'7b7d', x'0102')")
    migrate(db, shipped())
    assert db.execute("SELECT path, doc FROM sources").fetchall() == [("/t/a.jsonl", b"{}")]
    assert db.execute("SELECT path, state FROM source_states").fetchall() == [("/t/a.jsonl", b"\x01\x02")]


async def test_texts_that_an_older_version_left_for_the_index_are_found(tmp_path: Path) -> None:
    path = tmp_path / "shiftlog.db"
    async with SqliteStore(path) as store:
        await b.stored(store, "ordinary")
    db = apsw.Connection(str(path))
    db.execute("DELETE FROM migrations WHERE number = 13")
    db.execute("CREATE TABLE unindexed (id INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT")
    db.execute("INSERT INTO unindexed SELECT id, 'left behind' FROM entries; DELETE FROM found")
    db.close()
    async with SqliteStore(path) as store:
        found = await store.read(lambda reader: reader.search(parse("behind"), Filter(), unit="entry", limit=9, most=9))
    assert [hit.seq for hit in found.hits] == [1]


def test_tags_of_sessions_that_an_older_version_stored_get_their_column(db: apsw.Connection) -> None:
    migrate(db, shipped()[:18])
    docs = {"s1": b'{"tags":["starred","\xc3\xa4"]}', "s2": b'{"tags":[]}', "s3": b"{}", "s4": b"damaged"}
    for key, (name, doc) in enumerate(docs.items(), start=1):
        db.execute("INSERT INTO journals VALUES (?, ?, 1, x'00')", (key, name))
        db.execute(
            "INSERT INTO sessions (key, id, agent, agent_id, agent_key, state, unfinished, started_ms, active_ms,"
            " entries, doc) VALUES (?, ?, 'A', 'A', 'a', 'open', 1, 0, 0, 1, ?)",
            (key, name, doc),
        )
    migrate(db, shipped())
    assert db.execute("SELECT id, tags FROM sessions ORDER BY key").fetchall() == [
        ("s1", '["starred","ä"]'),
        ("s2", None),
        ("s3", None),
        ("s4", None),
    ]
