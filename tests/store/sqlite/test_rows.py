"""What stands in the SQLite file: blobs kept once, erased bytes gone from it, and rows changed behind our back."""

import random
import secrets
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import cast

import apsw
import pytest

from shiftlog.facts.batch import LongText
from shiftlog.model.moves import TurnStatus
from shiftlog.store.codec.documents import encode_noun
from shiftlog.store.protocol import Reader
from shiftlog.store.sqlite import SqliteStore
from shiftlog.store.sqlite.connections import open_for_writing
from shiftlog.store.sqlite.imports import PAGE_BYTES, OriginKeys, by_pages
from shiftlog.store.sqlite.writer import Backlog, SqliteWriter
from tests.contract import builders as b

ONE = b.session_id("one")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shiftlog.db"


@contextmanager
def raw(path: Path) -> Generator[apsw.Connection]:
    """Open the file behind the store's back."""
    db = apsw.Connection(str(path))
    try:
        yield db
    finally:
        db.close()


def rows(path: Path, sql: str) -> Sequence[tuple[object, ...]]:
    with raw(path) as db:
        return db.execute(sql).fetchall()


def file_bytes(path: Path) -> bytes:
    """Return the bytes of the database and of its log."""
    log = path.with_name(path.name + "-wal")
    return path.read_bytes() + (log.read_bytes() if log.exists() else b"")


async def test_the_same_long_text_is_kept_once(path: Path) -> None:
    long = "the same long text " * 1_000
    async with SqliteStore(path) as store:
        await b.stored(store, long, "short", long, turns=[b.turn(query_text=long)])
        await b.stored(store, long, of=b.session("two"))
    assert rows(path, "SELECT count(*), sum(length(data) < 1000) FROM blobs") == [(1, 1)]
    assert rows(path, "SELECT count(*) FROM blob_uses") == [(3,)]


async def test_a_long_turn_that_is_over_is_kept_small_and_reads_as_one_that_is_not(path: Path) -> None:
    words = " ".join(f"word{number % 50}" for number in range(400))
    over = b.turn(1, query_text=words, status=TurnStatus.COMPLETED)
    plain = b.turn(2, query_text=words)
    async with SqliteStore(path) as store:
        await b.stored(store, "one", turns=[over, plain])
        assert await store.read(lambda reader: reader.turns(ONE)) == [over, plain]
        [(small,), (large,)] = rows(path, "SELECT length(doc) FROM turns ORDER BY key")
        assert cast(int, small) * 2 < cast(int, large)
        with raw(path) as db:
            db.execute("UPDATE turns SET doc = ? WHERE ordinal = 1", (encode_noun(over),))
        assert await store.read(lambda reader: reader.turns(ONE)) == [over, plain]


def test_long_texts_are_ordered_to_share_pages_and_none_is_lost() -> None:
    sizes = [3_000, 900, 2_900, 1_000, 2_000, 1_900, 9_000, 500] * 4
    texts = [LongText(bytes([number]), 1, bytes(size)) for number, size in enumerate(sizes)]
    ordered = by_pages(texts)
    assert sorted(ordered) == sorted(tuple(text) for text in texts)
    free, pages = 0, 0
    for _, _, data in ordered:
        needed = len(data) % 4_092 + 50
        free, pages = (free - needed, pages) if free >= needed else (PAGE_BYTES - needed, pages + 1)
    assert pages * PAGE_BYTES < 1.2 * sum(len(data) % 4_092 for _, _, data in ordered)


async def test_a_long_text_that_no_entry_uses_any_more_is_removed(path: Path) -> None:
    long = "the same long text " * 1_000
    async with SqliteStore(path) as store:
        await b.stored(store, long, long)
        await store.write(lambda writer: writer.erase_body(ONE, 1))
        assert rows(path, "SELECT count(*) FROM blobs") == [(1,)]
        await store.write(lambda writer: writer.erase_body(ONE, 2))
        assert rows(path, "SELECT count(*) FROM blobs") == [(0,)]


def secret_text(size: int) -> tuple[str, list[bytes]]:
    """Return a text of words that stand nowhere else, and the ends of those words.

    The index keeps a word without the beginning that it shares with its neighbour, so only the end is looked for.
    """
    words = [f"{secrets.choice('bcdfghjkmz')}{secrets.token_hex(8)}" for _ in range(size // 18 + 1)]
    return " ".join(words), [word[-10:].encode() for word in words]


def left(path: Path, ends: list[bytes]) -> int:
    data = file_bytes(path)
    return sum(end in data for end in ends)


@pytest.mark.parametrize("size", [100, 1_500, 3_900, 20_000])
async def test_not_a_word_of_an_erased_text_is_left_in_the_file_or_its_log(path: Path, size: int) -> None:
    secret, ends = secret_text(size)
    async with SqliteStore(path) as store:
        for n in range(30):
            await b.stored(store, f"ordinary words {n}", of=b.session(f"s{n}"))
        await b.stored(store, "before", secret, "after")
        assert left(path, ends[:3]) > 0
        await store.write(lambda writer: writer.erase_body(ONE, 2))
        assert left(path, ends) == 0
        assert await store.read(lambda reader: len(reader.entries(ONE))) == 3


async def test_no_copy_is_left_in_pages_that_were_split_since(path: Path) -> None:
    """SQLite overwrites what it deletes but leaves copies of rows that it moves, so rows are made to move a lot."""
    chains = [b.Chain(f"s{n}") for n in range(40)]
    layout = random.Random(1)
    ends: list[bytes] = []

    def write_some(writer: b.Writer) -> None:
        for _ in range(25):
            chain = layout.choice(chains)
            secret, ends_of_secret = secret_text(layout.choice((10, 50, 200, 800, 2_500)))
            writer.append(b.session_id(chain.name), [b.packed(chain.entry(secret))])
            ends.append(ends_of_secret[0])

    def erase_all(writer: b.Writer) -> None:
        for chain in chains:
            for seq in range(1, chain.seq + 1):
                writer.erase_body(b.session_id(chain.name), seq)

    async with SqliteStore(path, durability="process") as store:
        for _ in range(40):
            await store.write(write_some)
        assert left(path, ends) == len(ends)
        await store.write(erase_all)
        assert left(path, ends) == 0


async def test_a_turn_projected_again_after_an_erasure_leaves_nothing_behind(path: Path) -> None:
    secret, ends = secret_text(2_000)
    turn = b.turn(response=secret, tags=(secret[:100],), files={secret[:150]: b.touch()})

    def erase(writer: b.Writer) -> None:
        writer.erase_body(ONE, 1)
        writer.put_turn(ONE, replace(turn, response="[erased]", tags=(), files={}))

    async with SqliteStore(path) as store:
        await b.stored(store, secret, turns=[turn])
        await store.write(erase)
        assert left(path, ends) == 0


async def test_a_second_erasure_is_as_thorough_as_the_first(path: Path) -> None:
    async with SqliteStore(path) as store:
        secrets_of = [secret_text(500) for _ in range(3)]
        await b.stored(store, *(secret for secret, _ in secrets_of))
        for seq, (_, ends) in enumerate(secrets_of, start=1):
            await store.write(lambda writer, seq=seq: writer.erase_body(ONE, seq))
            assert left(path, ends) == 0


async def test_an_erasure_cut_short_is_finished_when_the_file_is_opened_again(path: Path) -> None:
    secret, ends = secret_text(500)
    async with SqliteStore(path) as store:
        await b.stored(store, "before", secret)
    db, _ = open_for_writing(path, "FULL")
    backlog = Backlog()
    db.execute("BEGIN IMMEDIATE")
    SqliteWriter(db, backlog, OriginKeys()).erase_body(ONE, 2)
    backlog.finish(db)
    db.execute("COMMIT")
    db.close()
    assert rows(path, "PRAGMA user_version") == [(1,)]
    async with SqliteStore(path):
        assert left(path, ends) == 0
    assert rows(path, "PRAGMA user_version") == [(0,)]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE entries SET body = CAST('not json' AS BLOB)",
        "UPDATE entries SET body = CAST('[1, 2]' AS BLOB)",
        'UPDATE entries SET body = CAST(\'{"$blob": "zz"}\' AS BLOB)',
        "UPDATE entries SET body = x'ff00ff'",
        "UPDATE entries SET kind = 'unheard.of'",
        "UPDATE entries SET at = 'yesterday'",
        "UPDATE entries SET salt = NULL",
        "DELETE FROM blobs",
        "UPDATE blobs SET data = x'00112233'",
        "UPDATE blobs SET data = substr(data, 1, 20)",
    ],
)
async def test_a_row_changed_behind_our_back_is_read_and_seen_to_be_changed(path: Path, damage: str) -> None:
    async with SqliteStore(path) as store:
        await b.stored(store, "a long text " * 1_000)
    with raw(path) as db:
        db.execute(damage)
        assert db.changes() == 1

    def is_sound(reader: Reader) -> bool:
        (entry,) = reader.entries(ONE)
        return entry.body_is_intact() and entry.expected_hash(b.first_prev_hash(ONE)) == entry.hash

    async with SqliteStore(path) as store:
        assert not await store.read(is_sound)
