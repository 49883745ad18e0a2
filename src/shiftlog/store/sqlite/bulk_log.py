"""The write-ahead log during an import: moved into the file beside the writer, and shortened afterwards.

An import writes many pages again and again. The longer its log, the fewer of them reach the file twice.
"""

import contextlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

import apsw

from shiftlog.model.errors import StorageError
from shiftlog.store.sqlite.connections import BUSY_MS, CHECKPOINT_BUSY_MS

MOVE_PAGES = 8_000
MOST_PAGES = 4 * MOVE_PAGES  # on a disk as slow as that, the import waits for it
LONG_BYTES = 16 << 20  # a longer log is given back once no work came for IDLE_S
IDLE_S = 0.5


class BulkLog:
    """The log of one file; only the writer thread calls this. `connect` returns another connection to the file."""

    def __init__(self, path: Path, connect: Callable[[], apsw.Connection]) -> None:
        self._path = path
        self._connect = connect
        self._pages = 0
        self._may_be_long = False
        self._mover = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store-log")
        self._moving: Future[None] | None = None

    @property
    def idle_s(self) -> float | None:
        """Return the seconds without work after which the writer calls `shorten`; None while the log is short."""
        return IDLE_S if self._may_be_long else None

    def watch(self, db: apsw.Connection) -> None:
        """Count the pages of the log instead of moving it with the next commit."""
        db.set_wal_hook(self._note_pages)

    def _note_pages(self, _db: apsw.Connection, _name: str, pages: int) -> int:
        self._pages = pages
        return apsw.SQLITE_OK

    def move(self, db: apsw.Connection) -> None:
        """Have a long log moved into the file by another thread, so that the writer need not wait for the disk."""
        self._may_be_long = True
        if self._moving is None:
            if self._pages >= MOVE_PAGES:
                self._moving = self._mover.submit(self._move_beside)
        elif self._moving.done() or self._pages >= MOST_PAGES:
            self.end_moving()
            _move(db)  # little has come meanwhile, and after it the log begins anew

    def end_moving(self) -> None:
        """Wait until no other thread moves the log."""
        if self._moving is not None:
            wait([self._moving])
            self._moving = None

    def shorten(self, db: apsw.Connection) -> None:
        """Give back the disk space of a long log; if a reader is in the way, the next idle moment tries again."""
        self.end_moving()
        try:
            self._may_be_long = Path(f"{self._path}-wal").stat().st_size > LONG_BYTES
        except OSError:
            self._may_be_long = False  # there is none, or it cannot be looked at: no reason to end the writer
        if self._may_be_long and _truncate(db):
            self._may_be_long = False

    def empty(self, db: apsw.Connection) -> bool:
        """Move all of the log into its own file; return False if something is in the way for longer than a moment.

        For a file that lost its place: the next process would take the log for that of the file that is there.
        """
        self.end_moving()
        return _truncate(db, CHECKPOINT_BUSY_MS)

    def close(self) -> None:
        """End the other thread."""
        self._mover.shutdown()

    def _move_beside(self) -> None:
        with contextlib.suppress(apsw.Error, StorageError):
            db = self._connect()
            try:
                _move(db)
            finally:
                db.close()


def _move(db: apsw.Connection) -> None:
    """Move the part of the log that no reader needs into the file; on failure the log stays longer for a while."""
    with contextlib.suppress(apsw.Error):
        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)


def _truncate(db: apsw.Connection, busy_ms: int = 0) -> bool:
    """Move all of the log into the file and free its space; return False if a reader was in the way."""
    db.set_busy_timeout(busy_ms)
    try:
        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except apsw.Error:
        return False
    finally:
        db.set_busy_timeout(BUSY_MS)
    return True
