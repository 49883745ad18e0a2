"""Opening a database that cannot be written: a copy, a read-only mount, a full disk.

SQLite makes an index of the log even to read. Where none is there, and none can or should be made, a file without a log
is read as it is, and one with a log from a private copy of both. `check_pages` checks the pages of any database.
"""

import contextlib
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import apsw

from shiftlog.store.sqlite.connections import set_up
from shiftlog.store.sqlite.faults import damaged, storage_error

LOOKS_AT_CLOCK_EVERY = 10_000  # steps of SQLite
_OPEN = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI


class ReadOnlyFile:
    """A database to read from; `close` removes the private copy, if there is one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._suffix = ""
        self._copy: tempfile.TemporaryDirectory[str] | None = None

    def connect(self) -> apsw.Connection:
        """Return a connection; raise apsw.Error if the file cannot be read."""
        if self._suffix or self._copy is not None:
            return self._connect()
        if self._beside("-shm").exists():
            with contextlib.suppress(apsw.CantOpenError, apsw.IOError, apsw.ReadOnlyError, apsw.FullError):
                return self._connect()
        log = self._beside("-wal")
        if log.exists() and log.stat().st_size:
            self._take_copy(log)
        else:
            self._suffix = "&immutable=1"
        return self._connect()

    def _beside(self, suffix: str) -> Path:
        return self._path.with_name(self._path.name + suffix)

    def _connect(self) -> apsw.Connection:
        name = f"file:{quote(str(self._path))}?mode=ro{self._suffix}"
        db = apsw.Connection(name, flags=_OPEN, statementcachesize=200)
        try:
            set_up(db, "NORMAL")
            db.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        except BaseException:
            db.close()
            raise
        return db

    def _take_copy(self, log: Path) -> None:
        self._copy = tempfile.TemporaryDirectory(prefix="shiftlog-")
        target = Path(self._copy.name, self._path.name)
        shutil.copyfile(self._path, target)
        shutil.copyfile(log, target.with_name(log.name))
        self._path = target

    def close(self) -> None:
        """Remove the private copy."""
        if self._copy is not None:
            with contextlib.suppress(OSError):
                self._copy.cleanup()
            self._copy = None


class PageCheck(NamedTuple):
    """The size of a database with its log; `is_whole` is False if there was no time to check all pages."""

    bytes: int
    is_whole: bool


def check_pages(path: Path, within_s: float) -> PageCheck:
    """Check the pages of a database that others may be using; raise StorageError for a damaged one."""
    is_whole, says, size = True, "ok", 0
    file = None if os.access(path.parent, os.W_OK) else ReadOnlyFile(path)
    try:
        db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY) if file is None else file.connect()
        try:
            size = int(db.pragma("page_count")) * int(db.pragma("page_size"))
            deadline = time.monotonic() + within_s
            db.set_progress_handler(lambda: time.monotonic() > deadline, LOOKS_AT_CLOCK_EVERY)
            ((says,),) = db.execute("PRAGMA quick_check(1)").fetchall()
        finally:
            db.close()
    except apsw.InterruptError:
        is_whole = False
    except apsw.Error as error:
        raise storage_error(error, f"{path}: {error}") from error
    finally:
        if file is not None:
            file.close()
    if says != "ok":
        raise damaged(f"{path}: {says}")
    return PageCheck(size, is_whole)
