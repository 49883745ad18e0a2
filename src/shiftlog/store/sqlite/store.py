"""The embedded store's threads and transactions.

One writer thread takes waiting works into one transaction, each in a savepoint of its own, and commits once (group
commit; `jobs` says which go together); a failed one takes nothing with it. Brief work that nobody else waits beside is
done at once on the caller's thread, because waking another costs more than the work. Readers have connections of their
own. Other processes may use the same file: SQLite's lock orders the writers and each waits its turn.
"""

import asyncio
import contextlib
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import anyio
import apsw

from shiftlog.model.errors import StorageError
from shiftlog.store.protocol import Reader, Writer
from shiftlog.store.sqlite.connections import BUSY_MS, connect, give_back_log, move_log, open_for_writing, scrub
from shiftlog.store.sqlite.faults import storage_error
from shiftlog.store.sqlite.jobs import Job, Jobs
from shiftlog.store.sqlite.reader import Known, SqliteReader
from shiftlog.store.sqlite.search.pending import IndexBehind
from shiftlog.store.sqlite.sources import OriginKeys
from shiftlog.store.sqlite.writer import Backlog, SqliteWriter

T = TypeVar("T")

_log = logging.getLogger("shiftlog.store")

CHECKPOINT_PAGES = 1_000  # SQLite's own
BULK_CHECKPOINT_PAGES = 8_000
MOST_BULK_PAGES = 4 * BULK_CHECKPOINT_PAGES  # where the disk is so slow, an import waits for it
LONG_LOG_BYTES = 16 << 20  # longer than this, the log of an import is not kept once nothing came for a moment
LONG_LOG_S = 0.5
READERS = 2

# A disk on which the last commit took longer than this holds up nobody but the writer thread.
PROMPT_S = 0.003

# After so many rounds of the loop without company a brief work is not held back to the end of its round.
CALM_ROUNDS = 8

# A log that has its full length is written a quarter faster than one that grows; after so many small works it pays.
WORN_IN_AFTER = 8

# So many turns are kept in memory from one small work to the next.
KNOWN_TURNS = 64

# So many texts may wait for the full-text index, and so long; who searches waits for none.
UNINDEXED = 64
UNINDEXED_S = 0.5


Outcome = tuple[Job, Any, BaseException | None]


class Recollection:
    """What small works have read and written, for the next one; void as soon as anything else changed the file."""

    def __init__(self) -> None:
        self._known = Known()
        self._version: int | None = None
        self.origin_keys = OriginKeys()

    def recall(self, db: apsw.Connection) -> Known:
        """Return what is known inside a transaction that has begun; it counts again only once that is kept."""
        if db.data_version() != self._version or len(self._known.turns) > KNOWN_TURNS:
            self._known = Known()
        self._version = None
        return self._known

    def keep(self, db: apsw.Connection) -> None:
        """Rely on what is known now, after the commit; any later one, our own too, moves the file's version on."""
        self._version = db.data_version()


class SqliteStore:
    """A store in one file; `durability` is `full` (survives power loss) or `process` (survives kill -9)."""

    def __init__(self, path: Path, *, durability: str = "full") -> None:
        self.path = path
        self._synchronous = self._level = "FULL" if durability == "full" else "NORMAL"
        self._jobs = Jobs()
        self._is_bulk_level: bool = False
        self._arrived: list[Job] = []
        self._db: apsw.Connection | None = None
        # Held by whoever uses the writer's connection.
        self._writing = threading.Lock()
        self._prompt = False
        self._calm = 0  # rounds of the loop in a row in which no two works came together
        self._is_round_used = False
        self._recollection = Recollection()
        self._small_works = 0
        self._is_log_long = False
        self._log_pages = 0
        self._moving: Future[None] | None = None  # the log into the file, beside the writer
        self._wearing_in: asyncio.Task[None] | None = None
        self._unindexed = 0
        self._owes_sync = False  # something was committed that a loss of power would take away
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_open = False
        self._thread: threading.Thread | None = None
        self._readers: ThreadPoolExecutor | None = None
        self._reader_db = threading.local()
        self._reader_dbs: list[apsw.Connection] = []

    async def __aenter__(self) -> Self:
        ready: Future[None] = Future()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(
            target=self._write_loop, args=(ready, self._loop), name="store-writer", daemon=True
        )
        self._thread.start()
        try:
            await asyncio.wrap_future(ready)
        except BaseException:
            self._jobs.end()
            raise
        self._readers = ThreadPoolExecutor(max_workers=READERS, thread_name_prefix="store-reader")
        self._is_open = True
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._is_open = False
        if self._wearing_in is not None:
            self._wearing_in.cancel()
        self._dispatch()
        self._jobs.end()
        with anyio.CancelScope(shield=True):
            if self._thread is not None:
                await asyncio.to_thread(self._thread.join)
            if self._readers is not None:
                await asyncio.to_thread(self._readers.shutdown)
        while self._reader_dbs:
            self._reader_dbs.pop().close()
        self._reader_db = threading.local()

    async def write(self, work: Callable[[Writer], T], *, brief: bool = False, lasting: bool = True) -> T:
        """Run work in the next group. Cancelled before it has begun it never runs; after that its end is waited for."""
        loop = self._running_loop()
        future: asyncio.Future[T] = loop.create_future()
        job = Job(work, future, brief=brief, lasting=lasting)
        if brief and self._begins_round() and self._done_here(job):
            return future.result()
        if not self._arrived:
            loop.call_soon(self._dispatch)
        self._arrived.append(job)
        try:
            return await future
        except asyncio.CancelledError:
            # What is cancelled by no scope of anyio, as a whole loop is at its end, waits for nothing.
            if job.withdraw() or anyio.current_effective_deadline() > -math.inf:
                raise
            # A commit under way cannot be taken back.
            if future.cancelled():
                future = job.future = loop.create_future()
            with anyio.CancelScope(shield=True):
                await asyncio.wait((future,))
            return future.result()

    def _begins_round(self) -> bool:
        """Say whether a work may be done this moment: one a round of the loop, as long as works come one by one."""
        if self._calm < CALM_ROUNDS or self._arrived or self._is_round_used or self._loop is None:
            return False
        self._is_round_used = True
        self._loop.call_soon(self._end_round)
        return True

    def _end_round(self) -> None:
        self._is_round_used = False

    async def sync(self) -> None:
        """Bring the log to disk where something was committed without."""
        if self._owes_sync:
            await self._running_loop().run_in_executor(self._readers, self._sync_log)

    def _sync_log(self) -> None:
        self._owes_sync = False
        try:
            log = os.open(f"{self.path}-wal", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return  # all of it is in the file itself
        try:
            os.fsync(log)
        except OSError as error:
            self._owes_sync = True
            raise storage_error(error) from error
        finally:
            os.close(log)

    async def read(self, work: Callable[[Reader], T]) -> T:
        """Run work on a reader's connection, in one read transaction; what searches, with all in the index."""
        try:
            return await self._running_loop().run_in_executor(self._readers, self._read, work, True)
        except IndexBehind:
            misses = not await self._index()
            return await self._running_loop().run_in_executor(self._readers, self._read, work, False, misses)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None or not self._is_open:
            raise StorageError("Storage error", details={"reason": "the store is not open"})
        return self._loop

    def _read(self, work: Callable[[Reader], T], checks_index: bool, misses: bool = False) -> T:
        try:
            db = self._reader_connection()
            db.execute("BEGIN")
            try:
                return work(SqliteReader(db, checks_index=checks_index, misses=misses))
            finally:
                db.execute("COMMIT")
        except apsw.Error as error:
            raise storage_error(error) from error

    def _reader_connection(self) -> apsw.Connection:
        """Return the connection of this thread, one of the readers'."""
        db: apsw.Connection | None = getattr(self._reader_db, "db", None)
        if db is None:
            db = self._reader_db.db = connect(self.path, self._synchronous)
            self._reader_dbs.append(db)
        return db

    async def _index(self) -> bool:
        """Index the texts that wait, and tell whether that worked; after a loss of power they wait again."""
        self._unindexed = 0
        try:
            await self.write(_take_up, lasting=False)
        except StorageError as error:  # a full disk keeps nobody from searching what is indexed
            _log.warning("texts still wait for the index: %s", error.details.get("reason"))
            return False
        return True

    async def _wear_in(self) -> None:
        """Give the log its full length, and bring that to disk."""
        with contextlib.suppress(StorageError):
            await self.write(_lengthen_log, lasting=False)
            await self.sync()

    def _left(self, count: int) -> None:
        """Have texts indexed that wait: soon, or at once where they are many."""
        if count and self._loop is not None:
            if not self._unindexed:
                self._loop.call_later(UNINDEXED_S, self._index_soon)
            self._unindexed += count
            if self._unindexed - count < UNINDEXED <= self._unindexed:
                self._index_soon()

    def _index_soon(self) -> None:
        if self._is_open and self._unindexed and self._loop is not None:
            self._unindexed = 0
            taken: asyncio.Future[None] = self._loop.create_future()
            # Nobody waits for it, and where it fails the texts go on waiting.
            taken.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._jobs.put(Job(_take_up, taken, brief=False, lasting=False))

    def _dispatch(self) -> None:
        """Hand what arrived in this round of the loop to the writer, or do it here if it is one brief piece."""
        jobs, self._arrived = self._arrived, []
        self._calm = self._calm + 1 if len(jobs) == 1 else 0
        if len(jobs) == 1 and jobs[0].brief and self._done_here(jobs[0]):
            return
        for job in jobs:
            self._jobs.put(job)

    def _done_here(self, job: Job) -> bool:
        """Do one piece of work on this thread; say no where the loop would wait for others or the disk."""
        if not self._prompt or not self._jobs.empty() or not self._writing.acquire(blocking=False):
            return False
        try:
            db = self._db
            if db is None:
                return False
            self._choose_level(db, lasts=job.lasting)
            if not _begun_at_once(db):
                return False
            outcomes, left = self._committed(db, [job])
            _settle(outcomes)
            self._left(left)
            self._small_works += 1
            if self._small_works == WORN_IN_AFTER and self._synchronous == "FULL" and self._loop is not None:
                self._wearing_in = self._loop.create_task(self._wear_in())
            return True
        finally:
            self._writing.release()

    def _choose_level(self, db: apsw.Connection, *, lasts: bool, is_bulk: bool = False) -> None:
        """Wait for the disk at the end of a group only if one of its works must last; a later one makes all last."""
        if is_bulk != self._is_bulk_level:
            # Merging the full-text index frees pages by the thousand, and what erases rewrites the whole file anyway.
            db.execute(f"PRAGMA secure_delete = {'FAST' if is_bulk else 'ON'}")
            self._is_bulk_level = is_bulk
        level = self._synchronous if lasts else "NORMAL"
        if level != self._level:
            db.execute(f"PRAGMA synchronous = {level}")  # as a statement it is parsed once
            self._level = level
        if is_bulk:
            db.set_wal_hook(self._note_pages)
        else:
            db.wal_autocheckpoint(CHECKPOINT_PAGES if lasts else BULK_CHECKPOINT_PAGES)

    def _note_pages(self, _db: apsw.Connection, _name: str, pages: int) -> int:
        """Take from SQLite how long the log is after a commit."""
        self._log_pages = pages
        return apsw.SQLITE_OK

    def _committed(self, db: apsw.Connection, group: Iterable[Job]) -> tuple[list[Outcome], int]:
        start = time.perf_counter()
        outcomes, left, erases = _commit_group(db, group, self._recollection)
        if erases:
            self._end_moving()  # two cannot move the log at once, and what was erased is to leave it now
            scrub(db)
        self._prompt = time.perf_counter() - start < PROMPT_S
        if any(error is None for _, _, error in outcomes):
            self._owes_sync = self._level != self._synchronous
        return outcomes, left

    def _write_loop(self, ready: "Future[None]", loop: asyncio.AbstractEventLoop) -> None:
        try:
            db = self._db = open_for_writing(self.path, self._synchronous)
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits for the store to open
            ready.set_exception(error)
            return
        ready.set_result(None)
        try:
            while (group := self._jobs.next_group(LONG_LOG_S if self._is_log_long else None)) is not None:
                if not group:
                    self._shorten_log(db)
                    continue
                with self._writing:
                    is_bulk = not isinstance(group, list)
                    self._choose_level(db, lasts=not is_bulk and any(job.lasting for job in group), is_bulk=is_bulk)
                    outcomes, left = self._committed(db, group)
                self._answer(loop, outcomes, left)
                if is_bulk:
                    self._is_log_long = True
                    self._move_log(db)
        finally:
            with self._writing:
                self._db = None
                db.close()

    def _move_log(self, db: apsw.Connection) -> None:
        """Have the long log of an import moved into the file by another thread: the writer need not wait for the disk.

        An import writes many pages again and again; the longer the log, the fewer of them reach the file twice.
        """
        if self._moving is None:
            if self._log_pages >= BULK_CHECKPOINT_PAGES and self._readers is not None:
                self._moving = self._readers.submit(lambda: move_log(self._reader_connection()))
        elif self._moving.done() or self._log_pages >= MOST_BULK_PAGES:
            self._end_moving()
            with self._writing:
                move_log(db)  # what came meanwhile is little, and after it the log begins anew

    def _end_moving(self) -> None:
        """Have nobody move the log beside the writer; a move that waits for long reads to end is called off."""
        if self._moving is not None and not self._moving.cancel():
            wait([self._moving])
        self._moving = None

    def _shorten_log(self, db: apsw.Connection) -> None:
        """Give back the room that the log of an import took; somebody who reads meanwhile lets it wait."""
        self._end_moving()
        with self._writing:
            try:
                self._is_log_long = Path(f"{self.path}-wal").stat().st_size > LONG_LOG_BYTES
            except OSError:
                self._is_log_long = False  # there is none, or nobody can look: no reason to end the writer
            if self._is_log_long and give_back_log(db):
                self._is_log_long = False
                self._small_works = 0  # what comes next wears in the log anew

    def _answer(self, loop: asyncio.AbstractEventLoop, outcomes: list[Outcome], left: int) -> None:
        """Wake the waiting callers, all of a group at once."""

        def answer() -> None:
            _settle(outcomes)
            self._left(left)

        try:
            loop.call_soon_threadsafe(answer)
        except RuntimeError:
            pass  # the loop was closed; nobody waits any more, and what was committed stays


def _begun_at_once(db: apsw.Connection) -> bool:
    """Begin a transaction unless another process is writing."""
    db.set_busy_timeout(0)
    try:
        db.execute("BEGIN IMMEDIATE")
    except apsw.Error:
        return False  # the writer thread waits for its turn, and reports what else is wrong
    finally:
        db.set_busy_timeout(BUSY_MS)
    return True


def _commit_group(
    db: apsw.Connection, group: Iterable[Job], recollection: Recollection
) -> tuple[list[Outcome], int, bool]:
    """Run a group as one transaction.

    Return what each work came to, how many texts are left to be indexed, and whether anything was erased.
    """
    backlog = Backlog()
    outcomes: list[Outcome] = []
    begun: list[Job] = []
    left = 0
    try:
        if not db.in_transaction:
            db.execute("BEGIN IMMEDIATE")
        alone = _only(group)
        is_small = alone is not None and alone.brief
        if alone is not None:
            # The transaction is this piece alone, so it needs no savepoint of its own.
            if alone.begin():
                begun.append(alone)
                known = recollection.recall(db) if is_small else None
                writer = SqliteWriter(db, backlog, known, recollection.origin_keys)
                outcomes.append((alone, alone.work(writer), None))
        else:
            for job in group:
                if job.begin():
                    begun.append(job)
                    writer = SqliteWriter(db, backlog, origin_keys=recollection.origin_keys)
                    outcomes.append((job, *_attempt(db, writer, job.work, backlog)))
        if is_small:
            left = backlog.leave(db)
        else:
            backlog.finish(db)
        db.execute("COMMIT")
        if is_small:
            recollection.keep(db)
    except BaseException as error:  # noqa: BLE001 - handed to the callers that wait for it
        _roll_back(db)
        kept = storage_error(error) if isinstance(error, apsw.Error) else error
        failed = dict.fromkeys((*begun, *(job for job in group if job.begin())))
        return [(job, None, kept) for job in failed], 0, False
    return outcomes, left, backlog.erased


def _only(group: Iterable[Job]) -> Job | None:
    """Return the one work of a group that has no other."""
    return group[0] if isinstance(group, list) and len(group) == 1 else None


def _roll_back(db: apsw.Connection) -> None:
    try:
        if db.in_transaction:
            db.execute("ROLLBACK")
    except apsw.Error:
        pass  # the next group's BEGIN says what is wrong, to those who wait for it


def _attempt(
    db: apsw.Connection, writer: SqliteWriter, work: Callable[[Writer], Any], backlog: Backlog
) -> tuple[Any, BaseException | None]:
    """Run one piece of work in a savepoint; an error of the whole transaction is raised, any other kept."""
    mark = backlog.mark()
    db.execute("SAVEPOINT piece")
    try:
        result = work(writer)
    except (apsw.FullError, apsw.IOError, apsw.CorruptError, apsw.NotADBError):
        raise
    except BaseException as error:  # noqa: BLE001 - handed to the caller that waits for it
        db.execute("ROLLBACK TO piece; RELEASE piece")
        backlog.back_to(mark)
        return None, storage_error(error) if isinstance(error, apsw.Error) else error
    db.execute("RELEASE piece")
    return result, None


def _lengthen_log(writer: Writer) -> None:
    cast(SqliteWriter, writer).lengthen_log(CHECKPOINT_PAGES)


def _take_up(writer: Writer) -> None:
    cast(SqliteWriter, writer).take_up_texts()


def _settle(outcomes: list[Outcome]) -> None:
    for job, result, error in outcomes:
        future = job.future
        if future.done():
            continue  # the caller was cancelled while its work was under way
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
