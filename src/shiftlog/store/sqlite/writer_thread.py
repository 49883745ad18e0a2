"""The one thread that writes to the SQLite file: group commit, durability of each group, and the write-ahead log.

The works of a group share one transaction, each in a savepoint of its own, so a failed work takes nothing else with it.
Queueing lives in `jobs`, the statements in `writer`.
"""

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import apsw

from shiftlog.model.errors import StorageError
from shiftlog.store.jobs import Job, Outcome, WriteQueue
from shiftlog.store.protocol import Writer
from shiftlog.store.sql.recent import RecentNouns
from shiftlog.store.sqlite.bulk_log import MOVE_PAGES, BulkLog
from shiftlog.store.sqlite.connections import (
    CACHE_KIB,
    IMPORT_CACHE_KIB,
    keep_pages,
    open_for_writing,
    scrub,
    set_up,
)
from shiftlog.store.sqlite.faults import storage_error
from shiftlog.store.sqlite.file_watch import FileWatch, LastEntry, cut_error, gone_error, unknown_error
from shiftlog.store.sqlite.imports import OriginKeys
from shiftlog.store.sqlite.writer import Backlog, SqliteWriter

CHECKPOINT_PAGES = 1_000  # SQLite's own


class WriterThread:
    """Commits queued works and hands the outcomes of each group to `answer`, on this thread."""

    def __init__(self, path: Path, synchronous: str, answer: Callable[[list[Outcome]], None]) -> None:
        self.queue = WriteQueue()
        # True if a commit did not wait for the disk, so that a loss of power could still undo it.
        self.owes_sync = False
        self._path = path
        self._synchronous = self._level = synchronous
        self._deletes_fast: bool = False
        self._cache_kib = CACHE_KIB
        self._answer = answer
        # Why nothing can be written any more: the file is gone.
        self.fault: StorageError | None = None
        # True if the log is gone; then each commit is moved into the file at once, until the store is opened anew.
        self.has_lost_log = False
        self._cut: StorageError | None = None
        self._watch: FileWatch | None = None
        self._last_entry = LastEntry(path)
        self._log = BulkLog(path, self.connect)
        self._origin_keys = OriginKeys()
        self._recent = RecentNouns()
        self._opened: Future[None] = Future()
        self.name = "store-writer"  # the daemon knows the thread by it
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    def start(self) -> "Future[None]":
        """Start the thread; the future ends when the file is open, or with the reason why it is not."""
        self._thread.start()
        return self._opened

    def finish(self) -> None:
        """Commit what is queued and end; blocks until then."""
        self.queue.end()
        self._thread.join()

    def connect(self) -> apsw.Connection:
        """Return another connection to the file that this thread writes; any thread may call this.

        Raises StorageError if another file has its place.
        """
        assert self._watch is not None
        db = self._watch.connect()
        set_up(db, self._synchronous)
        return db

    def sync(self) -> None:
        """Bring the log to disk; any thread may call this."""
        self.owes_sync = False
        try:
            log = os.open(f"{self._path}-wal", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return  # all of it is in the file itself
        try:
            os.fsync(log)
        except OSError as error:
            self.owes_sync = True
            raise storage_error(error) from error
        finally:
            os.close(log)

    def _run(self) -> None:
        self._opened.set_running_or_notify_cancel()  # the caller may no longer cancel it
        try:
            db, self._watch = open_for_writing(self._path, self._synchronous)
        except BaseException as error:  # noqa: BLE001 - raised where the store is opened
            self._opened.set_exception(error)
            return
        self._opened.set_result(None)
        try:
            while (group := self.queue.next_group(self._log.idle_s)) is not None:
                if not group:
                    self._log.shorten(db)
                    self._choose_cache(db, CACHE_KIB)
                    self._watch.measure_log()
                    continue
                is_bulk = not isinstance(group, list)
                self._answer(self._commit(db, group, is_bulk=is_bulk))
                if is_bulk:
                    self._log.move(db)
        finally:
            if self._watch.is_gone() or self._watch.is_log_gone():
                self._log.empty(db)  # put back later, its pages would be older than those in the file
            self._log.close()
            self._last_entry.close()
            db.close()

    def _commit(self, db: apsw.Connection, group: Iterable[Job], *, is_bulk: bool) -> list[Outcome]:
        if (refused := self._lost(db) or self._cut_log()) is not None:
            return [(job, None, refused) for job in group if job.begin()]
        self._choose_level(db, lasts=not is_bulk and any(job.lasting for job in group), is_bulk=is_bulk)
        outcomes, backlog = _commit_group(db, group, self._origin_keys, self._recent)
        if is_bulk:
            self._recent.forget()  # bulk works keep their own
        if (lost := self._lost(db)) is not None:
            return [(job, None, error or unknown_error(lost)) for job, _, error in outcomes]
        assert self._watch is not None
        self._watch.measure_log()
        if backlog.last_entry:
            self._last_entry.note(backlog.last_entry, is_lasting=self._level == "FULL")
        if backlog.erased:
            self._log.end_moving()  # two threads cannot move the log at once, and erased bytes must leave it now
            scrub(db)
            self._watch.measure_log()
        if any(error is None for _, _, error in outcomes):
            self.owes_sync = self._level != self._synchronous
        return outcomes

    def _cut_log(self) -> StorageError | None:
        """Return why nothing can be committed any more: another program cut off the log, and newer pages are gone.

        Writing on would leave a hole in it, at which SQLite stops reading when it opens the file again.
        """
        assert self._watch is not None
        if self._cut is None and self._watch.is_log_cut():
            self._cut, self.has_lost_log = cut_error(self._path), True
        return self._cut

    def _lost(self, db: apsw.Connection) -> StorageError | None:
        """Return why a commit must not be acknowledged: the file that holds it is not the database any more."""
        assert self._watch is not None
        if self._watch.is_gone():
            if self.fault is None:
                self.fault = gone_error(self._path, self._watch.save_copy(db))
                self._log.empty(db)
                self._watch.measure_log()
            return self.fault
        if self.fault is not None:
            self._watch.drop_copy()
            self.fault = None
        if not self._watch.is_log_gone():
            return None
        self.has_lost_log = True
        if (error := _move_all(db)) is None:
            self._log.empty(db)
            self._watch.measure_log()
        return error

    def _choose_level(self, db: apsw.Connection, *, lasts: bool, is_bulk: bool) -> None:
        """Let the commit wait for the disk only if a work of the group must last; it then makes earlier ones last."""
        if is_bulk != self._deletes_fast:
            # Merging the full-text index frees pages by the thousand; erasing rewrites the whole file anyway.
            db.execute(f"PRAGMA secure_delete = {'FAST' if is_bulk else 'ON'}")
            self._deletes_fast = is_bulk
        level = self._synchronous if lasts else "NORMAL"
        if level != self._level:
            db.execute(f"PRAGMA synchronous = {level}")  # as a statement it is parsed once
            self._level = level
        if is_bulk:
            self._choose_cache(db, IMPORT_CACHE_KIB)  # until the import is over: other writes come between its batches
            self._log.watch(db)
        else:
            db.wal_autocheckpoint(CHECKPOINT_PAGES if lasts else MOVE_PAGES)

    def _choose_cache(self, db: apsw.Connection, kib: int) -> None:
        if kib != self._cache_kib:
            keep_pages(db, kib)
            self._cache_kib = kib


def _move_all(db: apsw.Connection) -> StorageError | None:
    """Move the whole log, which has no name any more, into the file; return the error if some of it stays."""
    try:
        logged, moved = db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_FULL)
    except apsw.Error as error:
        return storage_error(error, "the log of the database was deleted while it was in use")
    if logged == moved:
        return None
    return StorageError("Storage error", details={"reason": "the log of the database was deleted while it was in use"})


def _commit_group(
    db: apsw.Connection, group: Iterable[Job], origin_keys: OriginKeys, recent: RecentNouns
) -> tuple[list[Outcome], Backlog]:
    """Run a group as one transaction; return the outcome of each work, and what was stored."""
    backlog = Backlog(is_bulk=not isinstance(group, list))
    outcomes: list[Outcome] = []
    begun: list[Job] = []
    is_alone = isinstance(group, list) and len(group) == 1
    try:
        db.execute("BEGIN IMMEDIATE")
        recent.begin(db.execute("PRAGMA data_version").fetchone())
        for job in group:
            if not job.begin():
                continue
            begun.append(job)
            writer = SqliteWriter(db, backlog, origin_keys, None if job.is_bulk else recent)
            if is_alone:  # if it fails, the whole transaction is taken back
                outcomes.append((job, job.work(writer), None))
            else:
                outcomes.append((job, *_attempt(db, writer, job.work, backlog, recent)))
        backlog.finish(db)
        db.execute("COMMIT")
    except BaseException as error:  # noqa: BLE001 - raised where each work is awaited
        _roll_back(db)
        recent.forget()
        kept = _told(error, db)
        failed = dict.fromkeys((*begun, *(job for job in group if job.begin())))
        return [(job, None, kept) for job in failed], Backlog()
    return outcomes, backlog


def _roll_back(db: apsw.Connection) -> None:
    try:
        if db.in_transaction:
            db.execute("ROLLBACK")
    except apsw.Error:
        pass  # the next BEGIN reports what is wrong


def _attempt(
    db: apsw.Connection, writer: SqliteWriter, work: Callable[[Writer], Any], backlog: Backlog, recent: RecentNouns
) -> tuple[Any, BaseException | None]:
    """Run one work in a savepoint and return its result or its error; raise only what ends the whole transaction."""
    mark = backlog.mark()
    db.execute("SAVEPOINT piece")
    try:
        result = work(writer)
    except (apsw.FullError, apsw.IOError, apsw.CorruptError, apsw.NotADBError):
        raise
    except BaseException as error:  # noqa: BLE001 - raised where the work is awaited
        db.execute("ROLLBACK TO piece; RELEASE piece")
        recent.forget()
        backlog.back_to(mark)
        return None, _told(error, db)
    db.execute("RELEASE piece")
    return result, None


def _told(error: BaseException, db: apsw.Connection) -> BaseException:
    """Return the error for the caller of a work that was rolled back."""
    return storage_error(error, path=Path(db.filename)) if isinstance(error, apsw.Error | MemoryError) else error
