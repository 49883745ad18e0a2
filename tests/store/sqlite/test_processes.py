"""Several processes over one file, and processes that are killed while they write."""

import os
from collections.abc import Iterable
from pathlib import Path

import apsw
import pytest

from shiftlog.store.sqlite import SqliteStore
from tests.contract import builders as b
from tests.store.writing import check as check_store
from tests.store.writing import kill_after, start

ROOT = Path(__file__).parents[3]
LOCKS = Path("/proc/locks")


async def check(path: Path, acknowledged: Iterable[str]) -> int:
    """Check what is stored, and that the file is sound."""
    total = await check_store(path, acknowledged)
    assert apsw.Connection(str(path)).pragma("integrity_check") == "ok"
    return total


async def test_processes_that_write_at_once_lose_and_double_nothing(tmp_path: Path) -> None:
    path = tmp_path / "shiftlog.db"
    writers = [start(path, f"writer-{n}", 60) for n in range(3)]
    outputs = [writer.communicate(timeout=60)[0] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    lines = [line for output in outputs for line in output.splitlines()]
    assert len(lines) == len(set(lines)) == 180
    assert await check(path, lines) == 180


async def kill_again_and_again(path: Path, times: int) -> None:
    acknowledged: list[str] = []
    for n in range(times):
        acknowledged += kill_after(path, f"victim-{n % 5}", 1 + n * 37 % 101)
        assert await check(path, acknowledged) >= len(acknowledged)
    assert len(acknowledged) == len(set(acknowledged))


async def test_a_process_killed_while_it_writes_leaves_every_acknowledged_entry(tmp_path: Path) -> None:
    await kill_again_and_again(tmp_path / "shiftlog.db", 5)


@pytest.mark.soak
async def test_two_hundred_killed_processes_leave_every_acknowledged_entry(tmp_path: Path) -> None:
    await kill_again_and_again(tmp_path / "shiftlog.db", 200)


async def test_many_processes_that_open_a_new_file_at_once_make_one_database(tmp_path: Path) -> None:
    path = tmp_path / "shiftlog.db"
    writers = [start(path, f"first-{n}", 1) for n in range(8)]
    outputs = [writer.communicate(timeout=60)[0] for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * 8
    assert await check(path, "".join(outputs).splitlines()) == 8


async def test_another_process_sees_what_was_acknowledged_while_the_file_stays_open(tmp_path: Path) -> None:
    path = tmp_path / "shiftlog.db"
    async with SqliteStore(path) as store:
        await b.stored(store, "number one", of=b.session("mine"))
        output = start(path, "other", 4).communicate(timeout=60)[0]
        await b.stored(store, "number two", of=b.session("mine-too"))
        ids = await store.read(lambda reader: reader.session_ids())
    assert ids == [b.session_id(name) for name in ("mine", "shared", "other", "mine-too")]
    assert await check(path, output.splitlines()) == 6


async def test_a_file_opened_twice_in_one_process_and_again_by_others_stays_whole(tmp_path: Path) -> None:
    path = tmp_path / "shiftlog.db"
    async with SqliteStore(path) as first:
        await b.stored(first, "number one", of=b.session("one"))
        async with SqliteStore(path):
            lines = start(path, "other", 4).communicate(timeout=60)[0].splitlines()
            await b.stored(first, "number two", of=b.session("two"))
            lines += start(path, "another", 4).communicate(timeout=60)[0].splitlines()
            ids = await first.read(lambda reader: reader.session_ids())
    assert ids == [b.session_id(name) for name in ("one", "shared", "other", "two", "another")]
    assert await check(path, lines) == 10


@pytest.mark.skipif(not LOCKS.exists(), reason="only Linux lists the locks of processes")
async def test_opening_a_file_again_keeps_the_locks_that_this_process_holds_on_it(tmp_path: Path) -> None:
    path = tmp_path / "shiftlog.db"

    def held() -> list[str]:
        lines = LOCKS.read_text(encoding="ascii").splitlines()
        return [line for line in lines if f" {os.getpid()} " in line and f":{path.stat().st_ino} " in line]

    async with SqliteStore(path) as first:
        await b.stored(first, "word")
        assert held()
        async with SqliteStore(path):
            assert held()
