"""The embedded store's own promises: file modes, durability, groups, and errors of the file or of the disk."""

import asyncio
import functools
import os
import threading
from dataclasses import replace
from pathlib import Path

import anyio
import apsw
import pytest

from shiftlog.model.errors import StorageError
from shiftlog.model.search import parse
from shiftlog.store.jobs import BULK_LIMIT
from shiftlog.store.protocol import Filter, Writer
from shiftlog.store.sources import Origin
from shiftlog.store.sqlite import SqliteStore
from tests.contract import builders as b

ONE = b.session_id("one")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shiftlog.db"


def connections(path: Path) -> list[apsw.Connection]:
    return [db for db in apsw.connections() if db.filename == str(path)]


async def writer_connection(store: SqliteStore, path: Path) -> apsw.Connection:
    """Return the connection of a store that has not been read from yet, once its thread has set it up."""
    await store.write(lambda _: None)
    (db,) = connections(path)
    return db


class Gate:
    """A work that holds the writer thread until it is opened, so that others gather behind it."""

    def __init__(self) -> None:
        self._entered = threading.Event()
        self._opened = threading.Event()

    def work(self, writer: Writer) -> None:
        self._entered.set()
        assert self._opened.wait(30)

    async def entered(self) -> None:
        assert await asyncio.to_thread(self._entered.wait, 30)

    def open(self) -> None:
        self._opened.set()


async def add(store: SqliteStore, chain: b.Chain, text: str, *, lasting: bool = True) -> None:
    """Add one entry to a session."""

    def work(writer: Writer) -> None:
        writer.append(ONE, [chain.indexed(text)])
        owner = writer.session(ONE) or b.session()
        writer.put_session(replace(owner, head_seq=chain.seq, head_hash=chain.hash))

    await store.write(work, lasting=lasting)


async def found(store: SqliteStore, text: str) -> set[int]:
    """Return the entries that a search finds."""
    searched = await store.read(lambda reader: reader.search(parse(text), Filter(), unit="entry", limit=99, most=999))
    return {hit.seq for hit in searched.hits}


def modes(path: Path) -> dict[str, int]:
    return {item.name: item.stat().st_mode & 0o777 for item in path.parent.iterdir()}


async def test_the_database_and_its_log_are_readable_by_their_owner_alone(path: Path) -> None:
    async with SqliteStore(path) as store:
        await b.stored(store)
        expected = {"shiftlog.db": 0o600, "shiftlog.db-wal": 0o600, "shiftlog.db-shm": 0o600, "shiftlog.db-last": 0o600}
        assert modes(path) == expected


async def test_a_database_that_others_could_read_is_closed_to_them(path: Path) -> None:
    async with SqliteStore(path):
        pass
    path.chmod(0o644)
    async with SqliteStore(path):
        assert modes(path)["shiftlog.db"] == 0o600


@pytest.mark.parametrize(("durability", "synchronous"), [("full", 2), ("process", 1)])
async def test_durability_decides_whether_a_commit_waits_for_the_disk(
    path: Path, durability: str, synchronous: int
) -> None:
    async with SqliteStore(path, durability=durability) as store:
        db = await writer_connection(store, path)
        assert (db.pragma("synchronous"), db.pragma("journal_mode")) == (synchronous, "wal")


async def test_deleted_bytes_are_overwritten(path: Path) -> None:
    async with SqliteStore(path) as store:
        assert (await writer_connection(store, path)).pragma("secure_delete") == 1


async def test_works_that_wait_together_share_one_commit_and_each_gets_its_own_answer(path: Path) -> None:
    commits = 0

    def count() -> bool:
        nonlocal commits
        commits += 1
        return False

    answers: dict[int, int] = {}
    gate = Gate()

    async def write(store: SqliteStore, n: int) -> None:
        def work(writer: Writer) -> int:
            b.put(writer, f"word {n}", of=b.session(f"s{n}"))
            return n * n

        answers[n] = await store.write(work)

    async with SqliteStore(path) as store:
        db = await writer_connection(store, path)
        async with anyio.create_task_group() as group:
            group.start_soon(store.write, gate.work)
            await gate.entered()
            db.set_commit_hook(count)
            for n in range(40):
                group.start_soon(write, store, n)
            await anyio.lowlevel.checkpoint()
            gate.open()
        assert commits == 2  # the one that held them up, and theirs
        assert answers == {n: n * n for n in range(40)}
        assert await store.read(lambda reader: len(reader.session_ids())) == 40


async def test_a_work_that_somebody_waits_for_goes_before_bulk_work_that_came_earlier(path: Path) -> None:
    gate, ran = Gate(), list[str]()

    async def write(name: str, *, is_bulk: bool) -> None:
        await (store.write_bulk if is_bulk else store.write)(lambda writer: ran.append(name))

    async with SqliteStore(path) as store, anyio.create_task_group() as group:
        db = await writer_connection(store, path)
        group.start_soon(store.write_bulk, gate.work)
        await gate.entered()
        db.set_commit_hook(lambda: bool(ran.append("commit")))
        for n in range(3):
            group.start_soon(functools.partial(write, f"bulk {n}", is_bulk=True))
        group.start_soon(functools.partial(write, "awaited", is_bulk=False))
        await anyio.wait_all_tasks_blocked()
        gate.open()
    assert ran == ["commit", "awaited", "commit", "bulk 0", "bulk 1", "bulk 2", "commit"]


async def test_bulk_work_goes_on_however_many_others_come(path: Path) -> None:
    ran: list[str] = []

    async def bulk() -> None:
        for n in range(5):
            await store.write_bulk(lambda writer, n=n: ran.append(f"bulk {n}"))
        ended.set()

    async def others() -> None:
        while not ended.is_set():
            await store.write(lambda writer: ran.append("other"))

    ended = anyio.Event()
    async with SqliteStore(path) as store:
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                for _ in range(4):
                    group.start_soon(others)
                group.start_soon(bulk)
    assert [name for name in ran if name != "other"] == [f"bulk {n}" for n in range(5)]
    assert "other" in ran


async def test_of_bulk_work_only_a_part_is_one_commit_and_what_fails_in_it_takes_nothing_along(path: Path) -> None:
    gate = Gate()
    commits: list[int] = []
    failed: list[int] = []

    async def write(n: int) -> None:
        def work(writer: Writer) -> None:
            b.put(writer, f"word {n}", of=b.session(f"s{n}"))
            if n == 3:
                raise LookupError(n)

        try:
            await store.write_bulk(work)
        except LookupError:
            failed.append(n)

    async with SqliteStore(path) as store:
        db = await writer_connection(store, path)
        async with anyio.create_task_group() as group:
            group.start_soon(functools.partial(store.write, gate.work))
            await gate.entered()
            db.set_commit_hook(lambda: bool(commits.append(1)))
            for n in range(2 * BULK_LIMIT):
                group.start_soon(write, n)
            await anyio.wait_all_tasks_blocked()
            gate.open()
        assert (len(commits), failed) == (3, [3])  # the one that held them up, and theirs in two parts
        assert await store.read(lambda reader: len(reader.session_ids())) == 2 * BULK_LIMIT - 1
        assert db.pragma("secure_delete") == 2
        await b.stored(store, "after")
        assert db.pragma("secure_delete") == 1


async def test_a_group_makes_one_segment_of_the_text_index(path: Path) -> None:
    gate = Gate()
    async with SqliteStore(path) as store:
        async with anyio.create_task_group() as group:
            group.start_soon(store.write, gate.work)
            await gate.entered()
            for n in range(12):
                group.start_soon(functools.partial(b.stored, store, f"word {n}", of=b.session(f"s{n}")))
            await anyio.lowlevel.checkpoint()
            gate.open()
        segments = (
            (await writer_connection(store, path)).execute("SELECT count(DISTINCT segid) FROM found_idx").fetchall()
        )
    assert segments == [(1,)]


async def test_readers_do_not_wait_for_a_writer_and_see_the_state_before_it(path: Path) -> None:
    gate = Gate()
    async with SqliteStore(path) as store:
        await b.stored(store, "before")

        def work(writer: Writer) -> None:
            b.put(writer, "during", of=b.session("two"))
            gate.work(writer)

        async with anyio.create_task_group() as group:
            group.start_soon(store.write, work)
            await gate.entered()
            assert await store.read(lambda reader: reader.session_ids()) == [ONE]
            gate.open()
        assert await store.read(lambda reader: len(reader.session_ids())) == 2


async def test_a_caller_cancelled_from_outside_does_not_end_the_writer(path: Path) -> None:
    gate = Gate()
    ran: list[str] = []
    async with SqliteStore(path) as store:
        running = asyncio.create_task(store.write(gate.work))
        await gate.entered()
        waiting = asyncio.create_task(store.write(lambda writer: ran.append("waiting")))
        await anyio.lowlevel.checkpoint()
        running.cancel()
        waiting.cancel()
        for task in (running, waiting):
            with pytest.raises(asyncio.CancelledError):
                await task
        gate.open()
        await store.write(lambda writer: ran.append("later"))
    assert ran == ["later"]


async def test_a_write_under_way_is_finished_before_the_store_closes(path: Path) -> None:
    gate = Gate()
    store = SqliteStore(path)
    async with anyio.create_task_group() as group, store:
        group.start_soon(store.write, gate.work)
        await gate.entered()
        group.start_soon(b.stored, store, "word")
        await anyio.lowlevel.checkpoint()
        gate.open()
    async with SqliteStore(path) as again:
        assert await again.read(lambda reader: reader.session_ids()) == [ONE]


async def test_when_the_disk_is_full_nothing_of_the_group_is_stored_and_the_store_goes_on(path: Path) -> None:
    async with SqliteStore(path) as store:
        await b.stored(store, "before")
        db = await writer_connection(store, path)
        limit = db.pragma("max_page_count")
        db.pragma("max_page_count", db.pragma("page_count"))
        with pytest.raises(StorageError) as caught:
            await b.stored(store, *(f"{n} " * 3_000 for n in range(20)), of=b.session("big"))
        assert "FullError" in str(caught.value.details["reason"])
        assert caught.value.retryable
        assert await store.read(lambda reader: reader.session_ids()) == [ONE]
        db.pragma("max_page_count", limit)
        await b.stored(store, "after", of=b.session("two"))
        assert await store.read(lambda reader: len(reader.session_ids())) == 2


async def test_a_constraint_that_is_broken_is_a_storage_error_of_that_work_alone(path: Path) -> None:
    async with SqliteStore(path) as store:
        await b.stored(store, of=b.session(run=b.run(1)))
        with pytest.raises(StorageError) as caught:
            await b.stored(store, of=b.session("two", run=b.run(1)))
        assert "ConstraintError" in str(caught.value.details["reason"])
        assert await store.read(lambda reader: reader.session_ids()) == [ONE]


async def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    path.write_bytes(b"certainly not a database" * 100)
    with pytest.raises(StorageError) as caught:
        async with SqliteStore(path):
            pass
    assert caught.value.details["reason"] == f"{path}: file is not a database"
    assert path.read_bytes().startswith(b"certainly")


async def test_a_file_that_was_emptied_beside_its_log_is_refused_and_the_log_is_left_alone(path: Path) -> None:
    async with SqliteStore(path) as store:
        await b.stored(store)
        log = path.with_name(f"{path.name}-wal").read_bytes()
    path.write_bytes(b"")
    path.with_name(f"{path.name}-wal").write_bytes(log)
    with pytest.raises(StorageError) as caught:
        async with SqliteStore(path):
            pass
    assert caught.value.details["reason"] == f"{path} is empty, but its log is not"
    assert path.with_name(f"{path.name}-wal").read_bytes() == log


async def test_a_store_that_cannot_even_be_asked_for_says_so_at_once(tmp_path: Path) -> None:
    with anyio.fail_after(10), pytest.raises(UnicodeEncodeError):
        async with SqliteStore(tmp_path / "bad\udcff.db"):
            pass


async def test_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError) as caught:
        async with SqliteStore(tmp_path / "missing" / "shiftlog.db"):
            pass
    assert caught.value.details["reason"] == f"{tmp_path / 'missing' / 'shiftlog.db'}: No such file or directory"


async def test_two_stores_over_one_file_in_one_process_see_each_other(path: Path) -> None:
    async with SqliteStore(path) as first, SqliteStore(path) as second:
        await b.stored(first, of=b.session("one"))
        await b.stored(second, of=b.session("two"))
        assert await first.read(lambda reader: len(reader.session_ids())) == 2
        assert await second.read(lambda reader: len(reader.session_ids())) == 2


async def test_keys_of_origins_that_another_process_stored_are_known_to_the_writer(path: Path) -> None:
    async with SqliteStore(path) as store, SqliteStore(path) as other:
        await b.stored(store)
        origins = {bytes([n] * 16): Origin(session_id=ONE) for n in range(3)}
        first, second, third = origins
        for place, key in ((store, first), (other, second), (store, third)):
            assert await store.write(lambda writer, key=key: writer.origins([key])) == {}
            await place.write(lambda writer, key=key: writer.put_origins({key: origins[key]}))
        assert await store.write(lambda writer: writer.origins(origins)) == origins


async def test_not_a_word_of_a_text_is_left_after_its_erasure(path: Path) -> None:
    async with SqliteStore(path) as store:
        await add(store, b.Chain(), "unmistakable")
        await store.write(lambda writer: writer.erase_body(ONE, 1))
        assert await found(store, "unmistakable") == set()
    left = b"".join(item.read_bytes() for item in path.parent.iterdir())
    assert b"unmistakable" not in left


async def test_works_see_what_another_process_wrote_in_between(path: Path) -> None:
    async with SqliteStore(path) as ours, SqliteStore(path) as theirs:
        chain = b.Chain()
        for n in range(4):
            await add(ours if n % 2 else theirs, chain, f"entry {n}")

        def retitle(writer: Writer) -> None:
            owner = writer.session(ONE)
            assert owner is not None
            writer.put_session(replace(owner, title=f"{owner.title}."))

        for n in range(6):
            await (ours if n % 2 else theirs).write(retitle)
        session = await ours.read(lambda reader: reader.session(ONE))
        assert await found(theirs, "entry") == {1, 2, 3, 4}
    assert session is not None
    assert session.title == "Session one......"
    assert session.head_seq == 4


async def test_a_work_that_fails_leaves_no_memory_of_what_it_did(path: Path) -> None:
    async with SqliteStore(path) as store:
        await add(store, b.Chain(), "first")

        def fail(writer: Writer) -> None:
            owner = writer.session(ONE)
            assert owner is not None
            writer.put_session(replace(owner, title="never"))
            raise LookupError("refused")

        with pytest.raises(LookupError):
            await store.write(fail)
        titles: list[str] = []

        def look(writer: Writer) -> None:
            owner = writer.session(ONE)
            titles.append(owner.title if owner else "")

        await store.write(look)
    assert titles == ["Session one"]


async def test_works_that_come_together_share_a_commit(path: Path) -> None:
    async with SqliteStore(path) as store:
        await add(store, b.Chain(), "before")
        commits: list[int] = []
        db = await writer_connection(store, path)
        db.set_commit_hook(lambda: bool(commits.append(1)))
        async with anyio.create_task_group() as group:
            for n in range(20):
                group.start_soon(functools.partial(b.stored, store, f"word {n}", of=b.session(f"s{n}")))
        db.set_commit_hook(None)
        assert await store.read(lambda reader: len(reader.session_ids())) == 21
    assert len(commits) <= 3


async def test_no_work_runs_on_the_thread_of_the_event_loop(path: Path) -> None:
    async with SqliteStore(path) as store:
        threads = {await store.write(lambda writer: threading.get_ident()) for _ in range(20)}
        threads |= {await store.write(lambda writer: threading.get_ident(), lasting=False)}
        threads |= {await store.write_bulk(lambda writer: threading.get_ident())}
    assert len(threads) == 1
    assert threading.get_ident() not in threads


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
