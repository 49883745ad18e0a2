"""The embedded store as its callers see it: async verbs over one writer thread and a few reader threads.

Readers have connections of their own and never wait for the writer. Other processes may use the same file: SQLite's
lock lets one write at a time, and the others wait. A file that cannot be written, as on a full disk, is still read;
writes are refused, and open the file for writing once that works again.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Self, TypeVar, cast

import anyio
import apsw

from shiftlog.model.errors import StorageError
from shiftlog.store.jobs import Job, Outcome, raise_not_open, raised_anew, resolve_soon
from shiftlog.store.protocol import NOTHING_KNOWN, About, Reader, Writer
from shiftlog.store.sqlite.faults import HINTS, READ_ONLY, disk_trouble, is_damage, storage_error
from shiftlog.store.sqlite.file_watch import LastEntry, real_path, size_of
from shiftlog.store.sqlite.migrate import is_current
from shiftlog.store.sqlite.read_only import ReadOnlyFile
from shiftlog.store.sqlite.reader import SqliteReader
from shiftlog.store.sqlite.writer import SqliteWriter
from shiftlog.store.sqlite.writer_thread import WriterThread

T = TypeVar("T")

READERS = 2
# A file that could not be opened for writing is tried again after this time, then after twice as long, up to the limit.
RETRY_S = 1.0
RETRY_LIMIT_S = 30.0

_log = logging.getLogger("shiftlog.store")


class SqliteStore:
    """A store in one file; `durability` is `full` (survives power loss) or `process` (survives kill -9).

    With `read_only` the file is never written.
    """

    def __init__(self, path: Path, *, durability: str = "full", read_only: bool = False) -> None:
        self.path = real_path(path)
        self._synchronous = "FULL" if durability == "full" else "NORMAL"
        self._is_read_only = read_only
        self._writer: WriterThread | None = None
        self._readers: ThreadPoolExecutor | None = None
        self._connect: Callable[[], apsw.Connection] = raise_not_open
        self._reader_db = threading.local()
        self._reader_dbs: list[apsw.Connection] = []
        self._is_indexing = False
        self._damage: StorageError | None = None
        # Set while the file cannot be written: why, from where it is read, and when writing is tried again.
        self._closed_to_writes: StorageError | None = None
        self._read_only_file: ReadOnlyFile | None = None
        self._retry_at = 0.0
        self._retry_s = RETRY_S
        # Keeps two callers from opening the file for writing at once.
        self._opening = anyio.Lock()

    @property
    def fault(self) -> StorageError | None:
        """Return why nothing can be written at present, or that the file is damaged; None if all is well."""
        return (self._closed_to_writes if self._writer is None else self._writer.fault) or self._damage

    @property
    def has_lost_log(self) -> bool:
        """Return True if the log was deleted under the store; closing and opening the store makes everything safe."""
        return self._writer is not None and self._writer.has_lost_log

    async def __aenter__(self) -> Self:
        if self._is_read_only:
            reason = f"{self.path} is open for reading only"
            error = StorageError(f"Storage error: {reason}", details={"reason": reason}, hint=HINTS[READ_ONLY])
            await self._open_for_reading(error)
        else:
            try:
                await self._open_for_writing()
            except StorageError as error:
                if disk_trouble(self.path) is None or not self.path.exists():
                    raise
                await self._open_for_reading(error)
        self._readers = ThreadPoolExecutor(max_workers=READERS, thread_name_prefix="store-reader")
        return self

    async def _open_for_writing(self) -> WriterThread:
        answer = partial(resolve_soon, asyncio.get_running_loop(), self._resolve)
        writer = WriterThread(self.path, self._synchronous, answer)
        try:
            await asyncio.wrap_future(writer.start())
        except BaseException:
            writer.queue.end()
            raise
        self._writer = writer
        self._connect = writer.connect
        return writer

    async def _open_for_reading(self, error: StorageError) -> None:
        """Read a file that cannot be written; raise `error` if it cannot be read either."""
        file, last_entry = ReadOnlyFile(self.path), LastEntry(self.path)
        last_entry.has_database()
        had_log = size_of(self.path.with_name(f"{self.path.name}-wal")) > 0
        try:
            db = await asyncio.to_thread(file.connect)
        except (apsw.Error, OSError) as unreadable:
            raise (storage_error(unreadable, f"{self.path}: {unreadable}") if self._is_read_only else error) from None
        try:
            if not is_current(db):
                raise error
            last_entry.check(db, had_log=had_log)
        finally:
            db.close()
        self._closed_to_writes, self._read_only_file = error, file
        self._retry_at = time.monotonic() + self._retry_s

    async def _reopened(self) -> WriterThread:
        """Open the file for writing if it is time to try that again; raise why it cannot be written."""
        async with self._opening:
            if self._writer is not None:
                return self._writer
            error = self._closed_to_writes
            if error is None:
                raise_not_open()
            if self._is_read_only or time.monotonic() < self._retry_at:
                raise raised_anew(error)
            self._retry_s = min(self._retry_s * 2, RETRY_LIMIT_S)
            self._retry_at = time.monotonic() + self._retry_s
            try:
                writer = await self._open_for_writing()
            except StorageError as again:
                self._closed_to_writes = again
                raise
            self._closed_to_writes, self._retry_s = None, RETRY_S
            self._reader_db = threading.local()  # the connections for reading only see nothing new
            _log.info("the database can be written again")
            return writer

    async def __aexit__(self, *exc_info: object) -> None:
        writer, self._writer = self._writer, None
        with anyio.CancelScope(shield=True):
            if writer is not None:
                await asyncio.to_thread(writer.finish)
            if self._readers is not None:
                await asyncio.to_thread(self._readers.shutdown)
        while self._reader_dbs:
            self._reader_dbs.pop().close()
        if writer is not None:
            LastEntry(self.path).forget()
        self._closed_to_writes = None
        if self._read_only_file is not None:
            self._read_only_file.close()
        self._reader_db = threading.local()

    async def write(self, work: Callable[[Writer], T], *, lasting: bool = True, about: About = NOTHING_KNOWN) -> T:
        """Run work in the next group."""
        return await self._queued(work, lasting=lasting, is_bulk=False)

    async def write_bulk(self, work: Callable[[Writer], T]) -> T:
        """Run work after the works that callers wait for, without waiting for the disk."""
        return await self._queued(work, lasting=False, is_bulk=True)

    async def _queued(self, work: Callable[[Writer], T], *, lasting: bool, is_bulk: bool) -> T:
        writer = self._writer or await self._reopened()
        return await writer.queue.submit(work, lasting=lasting, is_bulk=is_bulk)

    async def sync(self) -> None:
        """Bring the log to disk if a commit did not wait for that."""
        writer = self._writer
        if writer is not None and writer.owes_sync:
            await asyncio.get_running_loop().run_in_executor(self._readers, writer.sync)

    async def read(self, work: Callable[[Reader], T]) -> T:
        """Run work on a reader's connection, in one read transaction."""
        if self._readers is None or (self._writer is None and self._closed_to_writes is None):
            raise_not_open()
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._read, work)

    def _read(self, work: Callable[[Reader], T]) -> T:
        try:
            db = self._reader_connection()
            db.execute("BEGIN")
            reader = SqliteReader(db)
            try:
                return work(reader)
            finally:
                if db.in_transaction:  # else a fault of the file has ended it, which is the error to tell
                    db.execute("COMMIT")
                if reader.behind:
                    self._continue_index(reader.behind)
        except apsw.Error as error:
            raise self._noted(storage_error(error, path=self.path)) from error

    def _noted(self, error: StorageError) -> StorageError:
        """Keep an error of a damaged file for `fault`, because later calls may succeed although it stays damaged."""
        if is_damage(error):
            self._damage = error
        return error

    def _continue_index(self, keys: list[int]) -> None:
        """Queue the indexing of sessions for the next search for substrings; one such work at a time is enough."""
        writer = self._writer
        if writer is None or self._is_indexing:
            return
        self._is_indexing = True

        def work(writer: Writer) -> None:
            cast(SqliteWriter, writer).catch_up(keys)

        writer.queue.put(Job(work, None, lasting=False, is_bulk=True))

    def _reader_connection(self) -> apsw.Connection:
        """Return the connection of this reader thread."""
        db: apsw.Connection | None = getattr(self._reader_db, "db", None)
        if db is None:
            file = self._read_only_file if self._closed_to_writes is not None else None
            db = self._connect() if file is None else file.connect()
            self._reader_db.db = db
            self._reader_dbs.append(db)
        return db

    def _resolve(self, outcomes: list[Outcome]) -> None:
        for job, result, error in outcomes:
            if isinstance(error, StorageError):
                self._noted(error)
            job.resolve(result, error)
            if job.future is None:
                self._is_indexing = False
                if error is not None:
                    _log.warning("a search index was not continued: %s", error)
