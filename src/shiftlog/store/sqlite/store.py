"""The embedded store's threads and transactions.

One writer thread takes all waiting work into one transaction, each piece in a savepoint of its own, and commits
once (group commit); a failed piece takes nothing with it. Readers have connections of their own.
Other processes may use the same file: SQLite's lock orders the writers and each waits its turn.
"""

import asyncio
import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self, TypeVar

import anyio
import apsw

from shiftlog.model.errors import ShiftlogError, StorageError
from shiftlog.store.protocol import Reader, Writer
from shiftlog.store.sqlite.migrate import migrate
from shiftlog.store.sqlite.reader import SqliteReader
from shiftlog.store.sqlite.writer import SqliteWriter

T = TypeVar("T")

BUSY_MS = 60_000
GROUP_LIMIT = 256
READERS = 2

Job = tuple[Callable[[Writer], Any], "Future[Any]"]


class SqliteStore:
    """A store in one file; `durability` is `full` (survives power loss) or `process` (survives kill -9)."""

    def __init__(self, path: Path, *, durability: str = "full") -> None:
        self.path = path
        self._synchronous = "FULL" if durability == "full" else "NORMAL"
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._readers = ThreadPoolExecutor(max_workers=READERS, thread_name_prefix="store-reader")
        self._reader_db = threading.local()
        self._reader_dbs: list[apsw.Connection] = []

    async def __aenter__(self) -> Self:
        ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._write_loop, args=(ready,), name="store-writer", daemon=True)
        self._thread.start()
        await asyncio.wrap_future(ready)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._jobs.put(None)
        thread = self._thread
        if thread is not None:
            with anyio.CancelScope(shield=True):
                await asyncio.to_thread(thread.join)
        self._readers.shutdown(wait=True)
        for db in self._reader_dbs:
            db.close()

    async def write(self, work: Callable[[Writer], T]) -> T:
        """Run work in the next group; shielded, because a commit under way cannot be taken back."""
        if self._thread is None or not self._thread.is_alive():
            raise StorageError("Storage error", details={"reason": "the store is not open"})
        future: Future[T] = Future()
        self._jobs.put((work, future))
        with anyio.CancelScope(shield=True):
            return await asyncio.wrap_future(future)

    async def read(self, work: Callable[[Reader], T]) -> T:
        """Run work on a reader's connection, in one read transaction."""
        return await asyncio.wrap_future(self._readers.submit(self._read, work))

    def _read(self, work: Callable[[Reader], T]) -> T:
        db: apsw.Connection | None = getattr(self._reader_db, "db", None)
        if db is None:
            db = self._reader_db.db = self._connect(apsw.SQLITE_OPEN_READWRITE)
            self._reader_dbs.append(db)
        try:
            db.execute("BEGIN")
            try:
                return work(SqliteReader(db))
            finally:
                db.execute("COMMIT")
        except apsw.Error as error:
            raise _storage_error(error) from error

    def _connect(self, flags: int) -> apsw.Connection:
        db = apsw.Connection(str(self.path), flags=flags, statementcachesize=200)
        db.set_busy_timeout(BUSY_MS)
        db.execute(f"PRAGMA synchronous = {self._synchronous}")
        db.execute("PRAGMA foreign_keys = OFF; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -16384")
        return db

    def _open_for_writing(self) -> apsw.Connection:
        os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        db = self._connect(apsw.SQLITE_OPEN_READWRITE)
        # Erased bytes are overwritten, not just unlinked.
        db.execute("PRAGMA journal_mode = WAL; PRAGMA secure_delete = ON")
        migrate(db)
        return db

    def _write_loop(self, ready: "Future[None]") -> None:
        try:
            db = self._open_for_writing()
        except (apsw.Error, OSError, ShiftlogError) as error:
            ready.set_exception(error if isinstance(error, ShiftlogError) else _storage_error(error))
            return
        ready.set_result(None)
        try:
            while (group := self._next_group()) is not None:
                self._commit_group(db, group)
        finally:
            db.close()

    def _next_group(self) -> list[Job] | None:
        first = self._jobs.get()
        if first is None:
            return None
        group = [first]
        while len(group) < GROUP_LIMIT:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                break
            if job is None:
                self._jobs.put(None)
                break
            group.append(job)
        return group

    def _commit_group(self, db: apsw.Connection, group: list[Job]) -> None:
        outcomes: list[tuple[Future[Any], Any, BaseException | None]] = []
        try:
            db.execute("BEGIN IMMEDIATE")
            for work, future in group:
                outcomes.append((future, *_attempt(db, work)))
            db.execute("COMMIT")
        except apsw.Error as error:
            if db.in_transaction:
                db.execute("ROLLBACK")
            for _, future in group:
                future.set_exception(_storage_error(error))
            return
        for future, result, error in outcomes:
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)


def _attempt(db: apsw.Connection, work: Callable[[Writer], Any]) -> tuple[Any, BaseException | None]:
    """Run one piece of work in a savepoint; an error of the whole transaction is raised, any other kept."""
    db.execute("SAVEPOINT piece")
    try:
        result = work(SqliteWriter(db))
    except (apsw.FullError, apsw.IOError, apsw.CorruptError, apsw.NotADBError):
        raise
    except BaseException as error:  # noqa: BLE001 - handed to the caller that waits for it
        db.execute("ROLLBACK TO piece; RELEASE piece")
        return None, _storage_error(error) if isinstance(error, apsw.Error) else error
    db.execute("RELEASE piece")
    return result, None


def _storage_error(error: BaseException) -> StorageError:
    return StorageError("Storage error", details={"reason": f"{type(error).__name__}: {error}"})
