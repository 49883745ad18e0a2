"""What the store does when the file or the disk below it fails: full, read-only, deleted, replaced, without its log."""

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from shiftlog.model.errors import StorageError, is_of_the_machine
from shiftlog.store.sqlite import SqliteStore
from shiftlog.store.sqlite.faults import storage_error
from tests.contract import builders as b
from tests.daemon.disks import fill, needs_root, remount, small_disk

KILLED = """
import asyncio, os, signal, sys
from collections.abc import Callable
from pathlib import Path
from shiftlog.store.sqlite import SqliteStore
from tests.contract import builders as b

async def main():
    async with SqliteStore(Path(sys.argv[1])) as store:
        await b.stored(store, "acknowledged")
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shiftlog.db"


def beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


async def session_names(store: SqliteStore) -> list[str]:
    return await store.read(lambda reader: reader.session_ids())


async def written_again(store: SqliteStore, name: str) -> None:
    """Write until the store takes it, for a few seconds."""
    deadline = time.monotonic() + 10
    while True:
        try:
            await b.stored(store, of=b.session(name))
            return
        except StorageError:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)


async def filled_up(store: SqliteStore) -> None:
    for n in range(50):
        await b.stored(store, "text " * 5_000, of=b.session(f"more{n}"))


def killed_after_a_write(path: Path) -> None:
    killed(KILLED, path)


def killed(program: str, path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert done.returncode == -9


@needs_root
async def test_a_full_disk_is_named_and_the_store_goes_on_once_there_is_room(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as home:
        async with SqliteStore(home / "shiftlog.db") as store:
            await b.stored(store, of=b.session("one"))
            filler = fill(home.parent)
            with pytest.raises(StorageError, match="the disk is full") as caught:
                await filled_up(store)
            assert caught.value.hint is not None
            assert "make room" in caught.value.hint
            assert b.session_id("one") in await session_names(store)
            filler.unlink()
            await b.stored(store, of=b.session("two"))


@needs_root
@pytest.mark.parametrize("fault", ["full", "read-only"])
async def test_a_store_that_cannot_be_written_when_it_opens_is_read_and_written_later(
    tmp_path: Path, fault: str
) -> None:
    with small_disk(tmp_path / "disk") as home:
        path = home / "shiftlog.db"
        async with SqliteStore(path) as store:
            await b.stored(store, of=b.session("one"))
        if fault == "full":
            fill(home.parent)
        else:
            remount(home.parent, "ro")
        async with SqliteStore(path) as store:
            assert store.fault is not None
            assert await session_names(store) == [b.session_id("one")]
            with pytest.raises(StorageError, match=fault):
                await b.stored(store, of=b.session("two"))
            if fault == "full":
                (home.parent / "filler").unlink()
            else:
                remount(home.parent, "rw")
            await written_again(store, "two")
            assert store.fault is None
            assert len(await session_names(store)) == 2


@needs_root
@pytest.mark.parametrize("left", ["-wal and -shm", "-wal", "nothing"])
async def test_a_copy_on_a_read_only_mount_is_read_with_all_that_was_acknowledged(tmp_path: Path, left: str) -> None:
    with small_disk(tmp_path / "disk") as home:
        path = home / "shiftlog.db"
        killed_after_a_write(path)
        if left == "nothing":
            async with SqliteStore(path):
                pass
        elif left == "-wal":
            beside(path, "-shm").unlink()
        remount(home.parent, "ro")
        async with SqliteStore(path, read_only=True) as store:
            assert await session_names(store) == [b.session_id("one")]
            with pytest.raises(StorageError, match="reading only"):
                await b.stored(store, of=b.session("two"))


@pytest.mark.parametrize("how", ["deleted", "replaced", "folder moved"])
async def test_a_write_to_a_database_that_is_gone_is_refused_and_a_copy_is_saved(tmp_path: Path, how: str) -> None:
    path = tmp_path / "home" / "shiftlog.db"
    path.parent.mkdir()
    async with SqliteStore(path) as store:
        await b.stored(store, of=b.session("one"))
        await asyncio.sleep(1.1)  # until the times of the folder can be trusted
        await b.stored(store, of=b.session("two"))
        if how == "folder moved":
            path.parent.rename(tmp_path / "away")
            path.parent.mkdir()
        else:
            path.rename(beside(path, ".away"))
        if how == "replaced":
            shutil.copyfile(beside(path, ".away"), path)
        for name in ("three", "four"):
            with pytest.raises(StorageError, match="deleted or replaced") as caught:
                await b.stored(store, of=b.session(name))
        saved = Path(str(caught.value.details["saved"]))
        with sqlite3.connect(saved) as copy:
            rows = copy.execute("SELECT count(*) FROM journals").fetchone()
        copy.close()
        assert rows[0] >= 2
        assert saved.stat().st_mode & 0o777 == 0o600
        if how == "deleted":
            beside(path, ".away").rename(path)
            await b.stored(store, of=b.session("five"))
            assert store.fault is None
            assert not saved.exists()  # the file itself has all of it, and copies would fill the disk


@needs_root
async def test_half_a_copy_of_a_lost_database_does_not_stay_on_a_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as home:
        async with SqliteStore(home / "shiftlog.db") as store:
            await filled_up(store)
            (home / "shiftlog.db").rename(home / "away.db")
            fill(home.parent, 300_000)
            with pytest.raises(StorageError, match="deleted or replaced") as caught:
                await b.stored(store, of=b.session("one"))
            assert caught.value.details["saved"] is None
            assert not list(home.glob("*.saved-*"))


async def test_a_file_that_was_moved_away_and_linked_in_its_place_is_not_the_database(path: Path) -> None:
    async with SqliteStore(path) as store:
        await b.stored(store, of=b.session("one"))
        path.rename(beside(path, ".away"))
        path.symlink_to(beside(path, ".away"))
        with pytest.raises(StorageError, match="deleted or replaced"):  # SQLite looks for its log beside the link
            await b.stored(store, of=b.session("two"))
        with pytest.raises(StorageError, match="deleted or replaced"):
            await session_names(store)
    async with SqliteStore(path) as again:
        assert len(await session_names(again)) == 1


async def test_a_database_behind_a_link_keeps_what_was_acknowledged_before_a_kill(tmp_path: Path, path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    path.symlink_to(tmp_path / "elsewhere" / "real.db")
    killed_after_a_write(path)
    log = tmp_path / "elsewhere" / "real.db-wal"
    log.rename(tmp_path / "away")
    with pytest.raises(StorageError) as caught:
        await SqliteStore(path).__aenter__()
    assert "real.db-wal is missing" in str(caught.value.details)
    (tmp_path / "away").rename(log)
    async with SqliteStore(path) as store:
        assert len(await session_names(store)) == 1


async def test_reading_a_database_that_is_gone_names_the_file(path: Path) -> None:
    async with SqliteStore(path) as store:
        await b.stored(store, of=b.session("one"))
        path.rename(beside(path, ".away"))
        with pytest.raises(StorageError, match=r"shiftlog\.db was deleted or replaced"):
            await session_names(store)
        beside(path, ".away").rename(path)
        assert len(await session_names(store)) == 1


@pytest.mark.parametrize("how", ["cut off", "overwritten"])
async def test_a_damaged_database_is_named_and_stays_a_fault(path: Path, how: str) -> None:
    async with SqliteStore(path) as store:
        await filled_up(store)
    async with SqliteStore(path) as store:
        half = path.stat().st_size // 2
        if how == "cut off":
            os.truncate(path, half)
        else:
            with path.open("r+b") as file:
                file.seek(4096)
                file.write(os.urandom(half))
        assert store.fault is None
        with pytest.raises(StorageError, match=r"shiftlog\.db: database disk image is malformed") as caught:
            await b.stored(store, of=b.session("one"))
        assert "backup" in str(caught.value.hint)
        assert store.fault is not None


async def test_a_file_that_was_taken_for_the_record_after_another_is_opened_again_after_a_kill(path: Path) -> None:
    async with SqliteStore(path) as store:
        await b.stored(store, of=b.session("one"))
        path.unlink()
        path.touch()
        with pytest.raises(StorageError, match="deleted or replaced"):
            await b.stored(store, of=b.session("two"))
    killed(KILLED.replace('await b.stored(store, "acknowledged")', "pass"), path)
    assert beside(path, "-wal").stat().st_size
    async with SqliteStore(path) as again:
        assert not await session_names(again)


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
async def test_a_commit_after_the_log_was_deleted_is_in_the_file_itself(path: Path, suffix: str) -> None:
    async with SqliteStore(path) as store:
        await b.stored(store, of=b.session("one"))
        beside(path, suffix).unlink()
        await b.stored(store, of=b.session("two"))
        assert store.has_lost_log
        copy = beside(path, ".copy")
        shutil.copyfile(path, copy)  # what a kill would leave
        async with SqliteStore(copy) as left:
            assert len(await session_names(left)) == 2
    async with SqliteStore(path) as again:
        assert len(await session_names(again)) == 2


@pytest.mark.parametrize("commits", [0, 1, 5])
async def test_a_log_that_was_moved_away_under_the_store_may_be_put_back_later(path: Path, commits: int) -> None:
    async with SqliteStore(path) as store:
        await b.stored(store, "one " * 5_000, of=b.session("one"))
        away = beside(path, "-wal").rename(beside(path, ".away"))
        for n in range(commits):
            await b.stored(store, "more " * 5_000, of=b.session(f"more{n}"))
    async with SqliteStore(path) as store:  # what it writes is newer than the log that was moved away
        for n in range(10):
            await b.stored(store, "later " * 5_000, of=b.session(f"later{n}"))
    away.rename(beside(path, "-wal"))
    async with SqliteStore(path) as again:
        assert len(await session_names(again)) == 11 + commits
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    db.close()


@pytest.mark.parametrize("also", ["", "-shm"])
async def test_a_log_that_is_missing_after_a_kill_is_named(path: Path, also: str) -> None:
    killed_after_a_write(path)
    kept = beside(path, "-wal").read_bytes()
    for suffix in filter(None, ("-wal", also)):
        beside(path, suffix).unlink()
    with pytest.raises(StorageError) as caught:
        async with SqliteStore(path):
            pass
    assert f"{path}-wal is missing" in str(caught.value.details["reason"])
    assert f"remove {path}-last" in str(caught.value.hint)
    beside(path, "-wal").write_bytes(kept)
    async with SqliteStore(path) as store:
        assert await session_names(store) == [b.session_id("one")]


@pytest.mark.parametrize("kept", [0, 32, 0.5, 0.99])
async def test_a_log_that_was_cut_off_after_a_kill_is_named(path: Path, kept: float) -> None:
    killed_after_a_write(path)
    log = beside(path, "-wal")
    whole = log.read_bytes()
    with log.open("r+b") as file:
        file.truncate(int(kept if kept > 1 else kept * len(whole)))
    for _ in range(2):  # it is named again, and not moved into the file meanwhile
        with pytest.raises(StorageError) as caught:
            async with SqliteStore(path):
                pass
        assert f"{path}-wal {'was cut off' if kept else 'is missing'}" in str(caught.value.details["reason"])
        assert f"remove {path}-last" in str(caught.value.hint)
    log.write_bytes(whole)
    async with SqliteStore(path) as store:
        assert await session_names(store) == [b.session_id("one")]


@pytest.mark.parametrize("how", ["overwritten", "replaced", "replaced by a longer one"])
async def test_a_log_with_other_content_after_a_kill_is_named(path: Path, how: str) -> None:
    killed_after_a_write(path)
    log = beside(path, "-wal")
    whole = log.read_bytes()
    if how != "overwritten":
        log.unlink()
    log.write_bytes(os.urandom(len(whole) + (1 << 20 if "longer" in how else 0)))
    for _ in range(2):
        with pytest.raises(StorageError) as caught:
            async with SqliteStore(path):
                pass
        assert f"{path}-wal was cut off, overwritten or replaced" in str(caught.value.details["reason"])
    log.write_bytes(whole)
    async with SqliteStore(path) as store:
        assert await session_names(store) == [b.session_id("one")]


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
async def test_something_else_in_the_place_of_the_log_is_named(
    path: Path, suffix: str, make: Callable[[Path], None]
) -> None:
    killed_after_a_write(path)
    away = beside(path, suffix).rename(beside(path, ".away"))
    make(beside(path, suffix))
    with pytest.raises(StorageError) as caught:
        async with SqliteStore(path):
            pass
    assert f"{path}{suffix} is not a regular file" in str(caught.value.details["reason"])
    if make is os.mkdir:
        beside(path, suffix).rmdir()
    away.replace(beside(path, suffix))
    async with SqliteStore(path) as store:
        assert await session_names(store) == [b.session_id("one")]


async def test_a_named_pipe_in_the_place_of_the_note_keeps_no_store_waiting(path: Path) -> None:
    killed_after_a_write(path)
    beside(path, "-last").unlink()
    os.mkfifo(beside(path, "-last"))
    async with SqliteStore(path) as store:
        await b.stored(store, of=b.session("two"))
        assert len(await session_names(store)) == 2


async def test_a_log_that_is_cut_off_under_the_store_ends_all_writes(path: Path) -> None:
    async with SqliteStore(path) as store:
        for n in range(3):
            await b.stored(store, "text " * 20_000, of=b.session(f"s{n}"))
            await store.read(lambda reader: reader.session_ids())
        with beside(path, "-wal").open("r+b") as file:
            file.truncate(4096)
        for n in range(2):
            with pytest.raises(StorageError, match="cut off while it was in use"):
                await b.stored(store, of=b.session(f"later{n}"))
        assert store.has_lost_log
        with pytest.raises(StorageError) as caught:
            await store.read(lambda reader: list(reader.entries(b.session_id("s0"))))
        assert "disk I/O error" in str(caught.value.details["reason"])
    with pytest.raises(StorageError) as caught:
        async with SqliteStore(path):
            pass
    assert f"{path}-wal was cut off" in str(caught.value.details["reason"])


async def test_a_log_that_the_store_shortens_itself_is_not_cut_off(path: Path) -> None:
    async with SqliteStore(path) as store:
        for n in range(3):
            await b.stored(store, "text " * 20_000, of=b.session(f"s{n}"))
        await store.write(lambda writer: writer.erase_body(b.session_id("s0"), 1))
        await b.stored(store, of=b.session("later"))
        assert not store.has_lost_log


@pytest.mark.parametrize("end", ["killed", "closed"])
async def test_a_database_that_is_missing_is_not_begun_anew(path: Path, end: str) -> None:
    killed_after_a_write(path)
    if end == "closed":
        async with SqliteStore(path):
            pass
    away = path.rename(beside(path, ".away"))
    with pytest.raises(StorageError) as caught:
        async with SqliteStore(path):
            pass
    assert f"{path} is missing" in str(caught.value.details["reason"])
    assert "Put it back" in str(caught.value.hint)
    assert not path.exists()
    away.rename(path)
    async with SqliteStore(path) as store:
        assert await session_names(store) == [b.session_id("one")]


async def test_files_that_are_moved_away_together_leave_room_for_an_empty_record(path: Path) -> None:
    killed_after_a_write(path)
    for suffix in ("", "-wal", "-last"):
        beside(path, suffix).unlink()
    async with SqliteStore(path) as store:
        assert await session_names(store) == []


@pytest.mark.parametrize("other", ["backup", "another record"])
async def test_a_log_is_never_read_into_a_file_that_it_does_not_belong_to(tmp_path: Path, other: str) -> None:
    path, put = tmp_path / "shiftlog.db", tmp_path / "put.db"
    async with SqliteStore(path if other == "backup" else put) as store:
        await b.stored(store, of=b.session("kept"))
    if other == "backup":
        shutil.copyfile(path, put)
    killed_after_a_write(path)
    lost = path.rename(beside(path, ".lost"))
    put.rename(path)
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(StorageError) as caught:
            async with SqliteStore(path, read_only=read_only):
                pass
        assert "was replaced by another file" in str(caught.value.details["reason"])
        assert "move shiftlog.db-wal away" in str(caught.value.hint)
    assert path.read_bytes() == before
    beside(path, "-wal").rename(beside(lost, "-wal"))
    for file, name in ((path, "kept"), (lost, "one")):
        async with SqliteStore(file) as store:
            assert b.session_id(name) in await session_names(store)


async def test_a_copied_database_and_its_log_belong_together(tmp_path: Path, path: Path) -> None:
    killed_after_a_write(path)
    copy = tmp_path / "copy" / path.name
    copy.parent.mkdir()
    for suffix in ("", "-wal", "-last"):
        shutil.copyfile(beside(path, suffix), beside(copy, suffix))
    async with SqliteStore(copy) as store:
        assert await session_names(store) == [b.session_id("one")]


@pytest.mark.parametrize("is_noticed", [True, False])
async def test_a_file_that_was_put_in_the_place_of_the_database_is_used_as_it_is_after_a_stop(
    path: Path, is_noticed: bool
) -> None:
    async with SqliteStore(path) as store:
        await b.stored(store, of=b.session("kept"))
    shutil.copyfile(path, beside(path, ".put"))
    async with SqliteStore(path) as store:
        await b.stored(store, of=b.session("lost"))
        path.rename(beside(path, ".away"))
        beside(path, ".put").rename(path)
        if is_noticed:
            with pytest.raises(StorageError, match="deleted or replaced"):
                await b.stored(store, of=b.session("refused"))
    async with SqliteStore(path) as store:
        assert await session_names(store) == [b.session_id("kept")]
    async with SqliteStore(beside(path, ".away")) as store:  # whose log is not missed
        assert b.session_id("lost") in await session_names(store)


async def test_a_connection_that_comes_later_never_reads_a_file_that_was_put_in_the_place(path: Path) -> None:
    async with SqliteStore(path) as store:
        await b.stored(store, of=b.session("one"))
        shutil.copyfile(path, beside(path, ".put"))
        before = beside(path, ".put").read_bytes()
        beside(path, ".put").replace(path)
        with pytest.raises(StorageError, match="deleted or replaced"):
            await session_names(store)
    assert path.read_bytes() == before


async def test_a_log_that_another_program_moved_into_the_file_is_not_missed(path: Path) -> None:
    killed_after_a_write(path)
    db = sqlite3.connect(path)
    db.execute("SELECT count(*) FROM entries").fetchone()
    db.close()
    assert not beside(path, "-wal").exists()
    async with SqliteStore(path) as store:
        assert await session_names(store) == [b.session_id("one")]


async def test_a_backup_in_the_place_of_the_database_is_no_missing_log(path: Path) -> None:
    async with SqliteStore(path) as store:
        await b.stored(store, of=b.session("one"))
    shutil.copyfile(path, beside(path, ".backup"))
    async with SqliteStore(path) as store:
        await b.stored(store, of=b.session("two"))
    beside(path, ".backup").replace(path)
    async with SqliteStore(path) as store:
        assert await session_names(store) == [b.session_id("one")]


async def test_entries_that_were_deleted_from_the_file_are_left_to_verify(path: Path) -> None:
    async with SqliteStore(path) as store:
        await b.stored(store, "one", "two", of=b.session("one"))
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM entries WHERE id = (SELECT max(id) FROM entries)")
        db.execute("UPDATE journals SET head_seq = head_seq - 1")
    db.close()
    async with SqliteStore(path) as store:
        assert await session_names(store) == [b.session_id("one")]


@pytest.mark.parametrize("kind", [apsw.IOError, apsw.BusyError, apsw.FullError, apsw.NoMemError, MemoryError])
def test_work_that_fails_for_the_disk_or_memory_is_worth_another_try(kind: type[Exception]) -> None:
    assert is_of_the_machine(storage_error(kind("it failed")))


@pytest.mark.parametrize("kind", [apsw.SQLError, apsw.ConstraintError, apsw.TooBigError])
def test_work_that_fails_for_its_own_content_is_not(kind: type[Exception]) -> None:
    assert not is_of_the_machine(storage_error(kind("it failed")))
