"""Several processes over one file, and processes that are killed while they write."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import apsw
import pytest

from shiftlog.model.canonical import first_prev_hash
from shiftlog.model.search import parse
from shiftlog.store.protocol import Filter, Reader
from shiftlog.store.sqlite import SqliteStore
from tests.contract import builders as b

ROOT = Path(__file__).parents[3]
LOCKS = Path("/proc/locks")


def start(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    """Start a process that writes; its output is one line for each acknowledged entry."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.store.sqlite.writing", str(path), name, str(count)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
    )


async def check(path: Path, acknowledged: Iterable[str]) -> int:
    """Check that every acknowledged entry is there, that all chains hold, and that the file is sound."""

    def hashes(reader: Reader) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for session_id in reader.session_ids():
            prev, seq = first_prev_hash(session_id), 0
            for seq, entry in enumerate(reader.entries(session_id), start=1):
                assert entry.seq == seq
                assert entry.expected_hash(prev) == entry.hash
                assert entry.body_is_intact()
                prev = entry.hash
                found.setdefault(session_id, []).append(prev)
            session = reader.session(session_id)
            assert session is not None
            assert (session.head_seq, session.head_hash) == reader.head(session_id) == (seq, prev)
        return found

    async with SqliteStore(path) as store:
        stored = await store.read(hashes)
        for line in acknowledged:
            session_id, seq, digest = line.split()
            assert stored[session_id][int(seq) - 1] == digest
        total = sum(map(len, stored.values()))
        found = await store.read(
            lambda reader: reader.search(parse("number"), Filter(), unit="entry", limit=1, most=10**6)
        )
        assert found.total == total
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


def kill_after(path: Path, name: str, lines: int) -> list[str]:
    """Kill a writing process when it has said so many lines; return all it said, the last one if it is whole."""
    writer = start(path, name, 0)
    assert writer.stdout is not None
    said = [writer.stdout.readline() for _ in range(lines)]
    writer.send_signal(signal.SIGKILL)
    said += writer.stdout.readlines()
    writer.wait(timeout=30)
    writer.stdout.close()
    return [line for line in said if line.endswith("\n")]


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
