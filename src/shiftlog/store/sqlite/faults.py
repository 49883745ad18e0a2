"""Faults of the SQLite file and of the disk below it: the errors that report them, and a check of the file."""

import time
from pathlib import Path

import apsw

from shiftlog.model.errors import StorageError

DAMAGED_HINT = "Keep a copy of the state directory, then put a backup of the file in its place or move it away"
LOOKS_AT_CLOCK_EVERY = 10_000  # steps of SQLite


def storage_error(error: BaseException, reason: str = "") -> StorageError:
    """Return the error to raise for a fault of SQLite: the file is damaged, or a retry may work."""
    hint = DAMAGED_HINT if isinstance(error, apsw.NotADBError | apsw.CorruptError) else None
    reason = reason or f"{type(error).__name__}: {error}"
    return StorageError("Storage error", details={"reason": reason}, hint=hint)


def damaged(reason: str) -> StorageError:
    """Return the error for a damaged file."""
    return StorageError("Storage error", details={"reason": reason}, hint=DAMAGED_HINT)


def look_through(path: Path, within_s: float) -> bool:
    """Check the pages of a database that others may be using; raise StorageError for a damaged one.

    Return False if there was not enough time for all of them.
    """
    try:
        db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            deadline = time.monotonic() + within_s
            db.set_progress_handler(lambda: time.monotonic() > deadline, LOOKS_AT_CLOCK_EVERY)
            ((says,),) = db.execute("PRAGMA quick_check(1)").fetchall()
        finally:
            db.close()
    except apsw.InterruptError:
        return False
    except apsw.Error as error:
        raise storage_error(error, f"{path}: {error}") from error
    if says != "ok":
        raise damaged(f"{path}: {says}")
    return True
