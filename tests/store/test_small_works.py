"""What the embedded store does otherwise for one small work alone: at once, with texts that wait for the index."""

import asyncio
import functools
import os
import threading
from dataclasses import replace
from pathlib import Path

import anyio
import apsw
import pytest

from shiftlog.model.search import parse
from shiftlog.store.protocol import Filter, Found, Reader, Store, Writer
from shiftlog.store.sqlite import SqliteStore
from shiftlog.store.sqlite import store as store_module
from shiftlog.store.sqlite.store import CALM_ROUNDS, CHECKPOINT_PAGES, LONG_LOG_BYTES, UNINDEXED, WORN_IN_AFTER
from tests.contract import builders as b

ONE = b.session_id("one")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shiftlog.db"


async def add(store: Store, chain: b.Chain, text: str, *, lasting: bool = True) -> None:
    """Add one entry to a session as a small work."""

    def work(writer: Writer) -> None:
        writer.append(ONE, [chain.indexed(text)])
        owner = writer.session(ONE) or b.session()
        writer.put_session(replace(owner, head_seq=chain.seq, head_hash=chain.hash))

    await store.write(work, brief=True, lasting=lasting)


async def searched(store: Store, text: str) -> Found:
    return await store.read(lambda reader: reader.search(parse(text), Filter(), unit="entry", limit=99, most=999))


async def found(store: Store, text: str) -> set[int]:
    return {hit.seq for hit in (await searched(store, text)).hits}


def waiting(path: Path) -> int:
    """Count the texts that wait for the index."""
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return len(db.execute("SELECT 1 FROM unindexed").fetchall())
    finally:
        db.close()


async def test_a_text_that_waits_for_the_index_is_found_by_whoever_searches(path: Path) -> None:
    async with SqliteStore(path) as store:
        await add(store, chain := b.Chain(), "the first word")
        await add(store, chain, "another word")
        assert waiting(path) == 2
        assert await found(store, "word") == {1, 2}
        assert waiting(path) == 0
        await add(store, chain, "the last word")
        assert await found(store, "word !another") == {1, 3}


async def test_texts_left_waiting_by_a_process_that_ended_are_found_by_the_next(path: Path) -> None:
    async with SqliteStore(path) as store:
        await add(store, b.Chain(), "left behind")
    assert waiting(path) == 1
    async with SqliteStore(path) as store:
        assert await found(store, "behind") == {1}


async def test_another_process_that_searches_finds_what_waits_too(path: Path) -> None:
    async with SqliteStore(path) as writing, SqliteStore(path) as searching:
        await add(writing, chain := b.Chain(), "theirs")
        assert await found(searching, "theirs") == {1}
        await add(writing, chain, "theirs again")
        assert await found(searching, "theirs") == {1, 2}


async def test_where_the_index_cannot_grow_a_search_finds_the_rest_and_says_that_something_may_be_missing(
    path: Path,
) -> None:
    chain = b.Chain()
    async with SqliteStore(path) as store:
        await add(store, chain, "the first word")
        assert await found(store, "word") == {1}
    async with SqliteStore(path) as store:
        await add(store, chain, "another word")
        (db,) = (db for db in apsw.connections() if db.filename == str(path))
        db.pragma("query_only", True)  # as on a full disk no write succeeds
        some = await searched(store, "word")
        assert [hit.seq for hit in some.hits] == [1]
        assert not some.complete
        db.pragma("query_only", False)
        both = await searched(store, "word")
        assert [hit.seq for hit in both.hits] == [2, 1]
        assert both.complete


async def test_many_texts_do_not_wait_for_somebody_to_search(path: Path) -> None:
    async with SqliteStore(path) as store:
        chain = b.Chain()
        for n in range(UNINDEXED):
            await add(store, chain, f"word {n}")
        await store.write(lambda writer: None)
        assert waiting(path) == 0


async def test_a_few_texts_wait_only_for_a_moment(path: Path) -> None:
    async with SqliteStore(path) as store:
        await add(store, b.Chain(), "soon")
        with anyio.fail_after(10):
            while waiting(path):  # noqa: ASYNC110 - the store says nothing when it is done
                await anyio.sleep(0.02)


async def test_a_long_text_is_indexed_at_once(path: Path) -> None:
    async with SqliteStore(path) as store:
        await add(store, b.Chain(), "long " * 1000)
        assert waiting(path) == 0
        assert await found(store, "long") == {1}


async def test_a_larger_work_indexes_what_waits_before_it(path: Path) -> None:
    async with SqliteStore(path) as store:
        await add(store, b.Chain(), "small")
        await b.stored(store, "large", of=b.session("two"))
        assert waiting(path) == 0


async def test_not_a_word_of_a_text_that_waited_is_left_after_its_erasure(path: Path) -> None:
    async with SqliteStore(path) as store:
        await add(store, b.Chain(), "unmistakable")
        await store.write(lambda writer: writer.erase_body(ONE, 1))
        assert await found(store, "unmistakable") == set()
    left = b"".join(item.read_bytes() for item in path.parent.iterdir())
    assert b"unmistakable" not in left


async def test_small_works_see_what_another_process_wrote_in_between(path: Path) -> None:
    async with SqliteStore(path) as ours, SqliteStore(path) as theirs:
        chain = b.Chain()
        for n in range(4):
            await add(ours if n % 2 else theirs, chain, f"entry {n}")

        def retitle(writer: Writer) -> None:
            owner = writer.session(ONE)
            assert owner is not None
            writer.put_session(replace(owner, title=f"{owner.title}."))

        for n in range(6):
            await (ours if n % 2 else theirs).write(retitle, brief=True)
        session = await ours.read(lambda reader: reader.session(ONE))
    assert session is not None
    assert session.title == "Session one......"
    assert session.head_seq == 4


async def test_a_small_work_that_fails_leaves_no_memory_of_what_it_did(path: Path) -> None:
    async with SqliteStore(path) as store:
        await add(store, b.Chain(), "first")

        def fail(writer: Writer) -> None:
            owner = writer.session(ONE)
            assert owner is not None
            writer.put_session(replace(owner, title="never"))
            raise LookupError("refused")

        with pytest.raises(LookupError):
            await store.write(fail, brief=True)
        titles: list[str] = []

        def look(writer: Writer) -> None:
            owner = writer.session(ONE)
            titles.append(owner.title if owner else "")

        await store.write(look, brief=True)
    assert titles == ["Session one"]


async def test_works_that_come_together_after_a_calm_time_still_share_a_commit(path: Path) -> None:
    async with SqliteStore(path) as store:
        chain = b.Chain()
        for n in range(2 * CALM_ROUNDS):
            await add(store, chain, f"calm {n}")
        commits = 0
        (db, *_) = [db for db in apsw.connections() if db.filename == str(path)]

        def count() -> bool:
            nonlocal commits
            commits += 1
            return False

        db.set_commit_hook(count)
        async with anyio.create_task_group() as group:
            for n in range(20):
                put = functools.partial(b.put, of=b.session(f"s{n}"))
                group.start_soon(functools.partial(store.write, put, brief=True))
        db.set_commit_hook(None)
        assert await store.read(lambda reader: len(reader.session_ids())) == 21
    assert commits <= 3


async def test_one_caller_that_writes_and_writes_leaves_room_for_others(path: Path) -> None:
    async with SqliteStore(path) as store:
        chain, turns = b.Chain(), 0

        async def others() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        beside = asyncio.create_task(others())
        for n in range(60):
            await add(store, chain, f"entry {n}")
        beside.cancel()
    assert turns >= 25


async def test_what_need_not_last_is_brought_to_disk_once_when_asked_for(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def noted(fd: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{fd}").readlink()))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", noted)
    async with SqliteStore(path) as store:
        chain = b.Chain()
        await add(store, chain, "lasts")
        await store.sync()
        assert not any(name.endswith("-wal") for name in synced)
        await add(store, chain, "need not", lasting=False)
        await store.sync()
        await store.sync()
    assert [name for name in synced if name.endswith("-wal")] == [f"{path}-wal"]


async def test_after_a_few_small_works_the_log_has_its_full_length_and_nothing_else_changes(path: Path) -> None:
    log = path.with_name("shiftlog.db-wal")
    async with SqliteStore(path) as store:
        chain = b.Chain()
        with anyio.fail_after(20):
            # On a busy machine some of the works take the writer's thread, and count as no small ones.
            while not log.exists() or log.stat().st_size < CHECKPOINT_PAGES * 4096:
                await add(store, chain, f"entry {chain.seq}")
                await anyio.sleep(0.01)
        assert chain.seq >= WORN_IN_AFTER
        length = log.stat().st_size
        for n in range(20):
            await add(store, chain, f"later {n}")
        assert log.stat().st_size == length
        assert await found(store, "entry || later") == set(range(1, chain.seq + 1))
        assert await store.read(lambda reader: len(reader.entries(ONE))) == chain.seq
    db = apsw.Connection(str(path))
    try:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("SELECT count(*) FROM blobs").fetchall() == [(0,)]
    finally:
        db.close()
    assert path.stat().st_size < 1_000_000


async def test_a_killed_process_with_a_lengthened_log_leaves_every_entry(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy" / "shiftlog.db"
    async with SqliteStore(path) as store:
        chain = b.Chain()
        for n in range(3 * WORN_IN_AFTER):
            await add(store, chain, f"entry {n}")
        with anyio.fail_after(10):
            while path.with_name("shiftlog.db-wal").stat().st_size < CHECKPOINT_PAGES * 4096:  # noqa: ASYNC110 - as above
                await anyio.sleep(0.01)
        await add(store, chain, "the last one")
        copy.parent.mkdir()
        for name in ("shiftlog.db", "shiftlog.db-wal"):  # what is on disk is what a kill leaves
            copy.with_name(name).write_bytes(path.with_name(name).read_bytes())
    async with SqliteStore(copy) as store:
        assert await store.read(lambda reader: len(reader.entries(ONE))) == chain.seq
        assert await found(store, "last") == {chain.seq}


async def test_the_log_of_an_import_moves_into_the_file_while_the_import_goes_on(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "BULK_CHECKPOINT_PAGES", 100)
    monkeypatch.setattr(store_module, "MOST_BULK_PAGES", 400)
    log = path.with_name("shiftlog.db-wal")
    chain = b.Chain()
    longest = 0
    async with SqliteStore(path) as store:
        for _ in range(100):
            text = " ".join(os.urandom(40).hex() for _ in range(200))
            await store.write(lambda writer, text=text: b.put(writer, text, of=b.session(), chain=chain), lasting=False)
            longest = max(longest, log.stat().st_size)
        assert path.stat().st_size > 1_000_000
        assert longest < 600 * 4120
        assert await store.read(lambda reader: len(reader.entries(ONE))) == chain.seq
    db = apsw.Connection(str(path))
    try:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("SELECT count(*) FROM entries").fetchall() == [(chain.seq,)]
    finally:
        db.close()


async def test_an_import_and_those_who_write_beside_it_wait_for_no_long_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "BULK_CHECKPOINT_PAGES", 100)
    monkeypatch.setattr(store_module, "MOST_BULK_PAGES", 200)
    chain = b.Chain()
    reading, done = threading.Barrier(store_module.READERS + 1), threading.Event()

    def read_long(reader: Reader) -> None:
        reader.session(ONE)
        reading.wait(30)
        done.wait(30)

    async with SqliteStore(path) as store, anyio.create_task_group() as tasks:
        for _ in range(store_module.READERS):
            tasks.start_soon(store.read, read_long)
        await asyncio.to_thread(reading.wait, 30)
        try:
            with anyio.fail_after(15):
                for _ in range(40):
                    text = " ".join(os.urandom(40).hex() for _ in range(200))
                    await store.write(
                        lambda writer, text=text: b.put(writer, text, of=b.session(), chain=chain), lasting=False
                    )
                await store.write(lambda writer: b.put(writer, "beside", of=b.session(), chain=chain))
        finally:
            done.set()


async def test_the_room_of_an_imports_log_is_given_back_when_something_lasting_follows(path: Path) -> None:
    log = path.with_name("shiftlog.db-wal")
    chain = b.Chain()

    def fill(writer: Writer) -> None:
        for _ in range(100):
            b.put(writer, " ".join(os.urandom(1000).hex() for _ in range(20)), of=b.session(), chain=chain)

    async with SqliteStore(path) as store:
        while not log.exists() or log.stat().st_size < 2 * LONG_LOG_BYTES:
            await store.write(fill, lasting=False)
        await store.write(lambda writer: b.put(writer, "the end", of=b.session(), chain=chain))
        with anyio.fail_after(20):
            while log.stat().st_size:  # noqa: ASYNC110 - the writer's thread does it afterwards and tells nobody
                await anyio.sleep(0.01)
        with anyio.fail_after(20):
            while log.stat().st_size < CHECKPOINT_PAGES * 4096:  # small works give it its usual length again
                await add(store, chain, f"entry {chain.seq}")
                await anyio.sleep(0.01)
        assert log.stat().st_size < LONG_LOG_BYTES
        assert await store.read(lambda reader: len(reader.entries(ONE))) == chain.seq
