"""The embedded store as its callers see it: async verbs over one writer thread and a few reader threads.

Readers have connections of their own and never wait for the writer. Other processes may use the same file: SQLite's
lock lets one write at a time, and the others wait.
"""

import asyncio
import logging
import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self, TypeVar, cast

import anyio
import apsw

from shiftlog.model.errors import StorageError
from shiftlog.store.protocol import Reader, Writer
from shiftlog.store.sqlite.connections import connect
from shiftlog.store.sqlite.faults import storage_error
from shiftlog.store.sqlite.jobs import Job
from shiftlog.store.sqlite.reader import SqliteReader
from shiftlog.store.sqlite.writer import SqliteWriter
from shiftlog.store.sqlite.writer_thread import Outcome, WriterThread

T = TypeVar("T")

READERS = 2

_log = logging.getLogger("shiftlog.store")


class SqliteStore:
    """A store in one file; `durability` is `full` (survives power loss) or `process` (survives kill -9)."""

    def __init__(self, path: Path, *, durability: str = "full") -> None:
        self.path = path
        self._synchronous = "FULL" if durability == "full" else "NORMAL"
        self._loop: asyncio.AbstractEventLoop | None = None
        self._writer: WriterThread | None = None
        self._readers: ThreadPoolExecutor | None = None
        self._reader_db = threading.local()
        self._reader_dbs: list[apsw.Connection] = []
        self._is_indexing = False

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        writer = WriterThread(self.path, self._synchronous, self._answer)
        try:
            await asyncio.wrap_future(writer.start())
        except BaseException:
            writer.queue.end()
            raise
        self._readers = ThreadPoolExecutor(max_workers=READERS, thread_name_prefix="store-reader")
        self._writer = writer
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        writer, self._writer = self._writer, None
        with anyio.CancelScope(shield=True):
            if writer is not None:
                await asyncio.to_thread(writer.finish)
            if self._readers is not None:
                await asyncio.to_thread(self._readers.shutdown)
        while self._reader_dbs:
            self._reader_dbs.pop().close()
        self._reader_db = threading.local()

    async def write(self, work: Callable[[Writer], T], *, lasting: bool = True) -> T:
        """Run work in the next group; cancelled before it begins it never runs, afterwards its end is awaited."""
        return await self._queued(work, lasting=lasting, is_bulk=False)

    async def write_bulk(self, work: Callable[[Writer], T]) -> T:
        """Run work after the works that callers wait for, without waiting for the disk."""
        return await self._queued(work, lasting=False, is_bulk=True)

    async def _queued(self, work: Callable[[Writer], T], *, lasting: bool, is_bulk: bool) -> T:
        loop, writer = self._opened()
        future: asyncio.Future[T] = loop.create_future()
        job = Job(work, future, lasting=lasting, is_bulk=is_bulk)
        writer.queue.put(job)
        try:
            return await future
        except asyncio.CancelledError:
            # A cancellation that comes from no scope of anyio, such as the end of the loop, waits for nothing.
            if job.withdraw() or anyio.current_effective_deadline() > -math.inf:
                raise
        # A commit under way cannot be taken back: its caller gets the answer.
        with anyio.CancelScope(shield=True):
            answered: T = await job.outcome(loop)
        return answered

    async def sync(self) -> None:
        """Bring the log to disk if a commit did not wait for that."""
        loop, writer = self._opened()
        if writer.owes_sync:
            await loop.run_in_executor(self._readers, writer.sync)

    async def read(self, work: Callable[[Reader], T]) -> T:
        """Run work on a reader's connection, in one read transaction."""
        loop, _ = self._opened()
        return await loop.run_in_executor(self._readers, self._read, work)

    def _opened(self) -> tuple[asyncio.AbstractEventLoop, WriterThread]:
        if self._loop is None or self._writer is None:
            raise StorageError("Storage error", details={"reason": "the store is not open"})
        return self._loop, self._writer

    def _read(self, work: Callable[[Reader], T]) -> T:
        try:
            db = self._reader_connection()
            db.execute("BEGIN")
            reader = SqliteReader(db)
            try:
                return work(reader)
            finally:
                db.execute("COMMIT")
                if reader.behind:
                    self._continue_index(reader.behind)
        except apsw.Error as error:
            raise storage_error(error) from error

    def _continue_index(self, keys: list[int]) -> None:
        """Have sessions indexed for the next search for substrings; one such work at a time is enough."""
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
            db = self._reader_db.db = connect(self.path, self._synchronous)
            self._reader_dbs.append(db)
        return db

    def _answer(self, outcomes: list[Outcome]) -> None:
        """Wake the callers of a group, all at once; called on the writer thread."""
        loop = self._loop
        try:
            if loop is not None:
                loop.call_soon_threadsafe(self._resolve, outcomes)
        except RuntimeError:
            pass  # the loop was closed: no caller is left, and what was committed stays

    def _resolve(self, outcomes: list[Outcome]) -> None:
        for job, result, error in outcomes:
            job.resolve(result, error)
            if job.future is None:
                self._is_indexing = False
                if error is not None:
                    _log.warning("a search index was not continued: %s", error)
