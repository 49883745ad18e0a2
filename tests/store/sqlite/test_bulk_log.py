"""The write-ahead log and the page cache of an import: bounded, in no other writer's way, and given back."""

import asyncio
import os
import threading
from pathlib import Path

import anyio
import apsw
import pytest

from shiftlog.store.protocol import Reader, Writer
from shiftlog.store.sqlite import SqliteStore, bulk_log
from shiftlog.store.sqlite.connections import CACHE_KIB, IMPORT_CACHE_KIB
from shiftlog.store.sqlite.store import READERS
from tests.contract import builders as b

ONE = b.session_id("one")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shiftlog.db"


async def test_the_log_of_an_import_moves_into_the_file_while_the_import_goes_on(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_log, "MOVE_PAGES", 100)
    monkeypatch.setattr(bulk_log, "MOST_PAGES", 400)
    log = path.with_name("shiftlog.db-wal")
    chain = b.Chain()
    longest = 0
    async with SqliteStore(path) as store:
        for _ in range(100):
            text = " ".join(os.urandom(40).hex() for _ in range(200))
            await store.write_bulk(lambda writer, text=text: b.put(writer, text, of=b.session(), chain=chain))
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
    monkeypatch.setattr(bulk_log, "MOVE_PAGES", 100)
    monkeypatch.setattr(bulk_log, "MOST_PAGES", 200)
    chain = b.Chain()
    reading, done = threading.Barrier(READERS + 1), threading.Event()

    def read_long(reader: Reader) -> None:
        reader.session(ONE)
        reading.wait(30)
        done.wait(30)

    async with SqliteStore(path) as store, anyio.create_task_group() as tasks:
        for _ in range(READERS):
            tasks.start_soon(store.read, read_long)
        await asyncio.to_thread(reading.wait, 30)
        try:
            with anyio.fail_after(15):
                for _ in range(40):
                    text = " ".join(os.urandom(40).hex() for _ in range(200))
                    await store.write_bulk(lambda writer, text=text: b.put(writer, text, of=b.session(), chain=chain))
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
        while not log.exists() or log.stat().st_size < 2 * bulk_log.LONG_BYTES:
            await store.write_bulk(fill)
        await store.write(lambda writer: b.put(writer, "the end", of=b.session(), chain=chain))
        with anyio.fail_after(20):
            while log.stat().st_size:  # noqa: ASYNC110 - the writer thread does it when idle
                await anyio.sleep(0.01)
        await b.stored(store, "afterwards", of=b.session("two"))
        assert log.stat().st_size < bulk_log.LONG_BYTES
        assert await store.read(lambda reader: len(reader.entries(ONE))) == chain.seq


async def test_an_import_has_a_large_page_cache_and_other_writes_a_small_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_log, "IDLE_S", 0.05)
    chain = b.Chain()

    def fill(writer: Writer) -> None:
        for _ in range(20):
            b.put(writer, " ".join(os.urandom(1000).hex() for _ in range(20)), of=b.session(), chain=chain)

    def cached_kib(_writer: Writer) -> int:
        ours = [db for db in apsw.connections() if db.filename == str(path)]
        return max(db.status(apsw.SQLITE_DBSTATUS_CACHE_USED)[0] for db in ours) >> 10

    async with SqliteStore(path) as store:
        while path.stat().st_size < 2 * IMPORT_CACHE_KIB << 10:
            await store.write(fill)
            assert await store.write(cached_kib) < 1.25 * CACHE_KIB
        while await store.write_bulk(cached_kib) < 2 * CACHE_KIB:
            await store.write_bulk(fill)
        # A write that comes between the batches leaves the cache to the import.
        assert await store.write(cached_kib) > 1.25 * CACHE_KIB
        with anyio.fail_after(20):
            while await store.write(cached_kib) > 1.25 * CACHE_KIB:  # noqa: ASYNC110 - done when idle
                await anyio.sleep(0.2)
