"""Faults of the SQLite file and of the disk below it: the errors that report them."""

import errno
import os
import resource
from pathlib import Path

import apsw

from shiftlog.model.errors import DISK_FULL, StorageError

DAMAGED_HINT = "Keep a copy of the state directory, then put a backup of the file in its place or move it away"
DAMAGED = "damaged"
FULL = DISK_FULL
READ_ONLY = "the file system is read-only"
NOT_PERMITTED = "permission denied"
FAILING = "the disk reports an error"
BUSY = "another program keeps the database busy"
HINTS = {
    FULL: "Nothing was recorded; make room on the disk of the state directory and try again",
    READ_ONLY: "Nothing was recorded; mount the file system of the state directory for writing and try again",
    NOT_PERMITTED: "Nothing was recorded; make the files of the state directory yours (chmod, chown) and try again",
    FAILING: "Nothing was recorded; look at the disk of the state directory (dmesg) and try again",
    BUSY: "Nothing was recorded; end the program that holds the database and try again",
}
NO_MEMORY_HINT = "Nothing was recorded; free memory and try again"
FULL_BYTES = 64 << 10
DESCRIPTORS_NEEDED = 4

# SQLite raises these if the disk, and not the file, is at fault.
_DISK_ERRORS = (apsw.FullError, apsw.IOError, apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError)


def storage_error(error: BaseException, reason: str = "", path: Path | None = None) -> StorageError:
    """Return the error to raise for a fault of SQLite: the file is damaged, or a retry may work."""
    if isinstance(error, MemoryError | apsw.NoMemError):
        reason = os.strerror(errno.ENOMEM)
        return StorageError("Storage error: no memory", details={"reason": reason, "memory": True}, hint=NO_MEMORY_HINT)
    if not reason and isinstance(error, apsw.CantOpenError) and _is_short_of_descriptors():
        reason = os.strerror(errno.EMFILE)
    if isinstance(error, apsw.NotADBError | apsw.CorruptError):
        return _damage(reason or f"{path or 'the database'}: {error}")
    reason = reason or f"{type(error).__name__}: {error}"
    cause = _cause(error, path)
    if cause is not None:
        return StorageError(f"Storage error: {cause}", details={"reason": reason, "disk": cause}, hint=HINTS[cause])
    return StorageError("Storage error", details={"reason": reason})


def _damage(reason: str) -> StorageError:
    """Return the error for pages that SQLite cannot read: it stays until the file is another one."""
    return StorageError(f"Storage error: {reason}", details={"reason": reason, DAMAGED: True}, hint=DAMAGED_HINT)


def is_damage(error: BaseException | None) -> bool:
    """Return True if an error says that the file itself is damaged."""
    return isinstance(error, StorageError) and DAMAGED in error.details


def _is_short_of_descriptors() -> bool:
    """Return True if SQLite could not open a file and its log here, because too many files are open."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        return most - len(os.listdir("/proc/self/fd")) < DESCRIPTORS_NEEDED  # noqa: PTH208
    except OSError:
        return True


def _cause(error: BaseException, path: Path | None) -> str | None:
    """Return the fault of the disk below a file; None if the disk is not known to be the cause."""
    if isinstance(error, apsw.FullError):
        return FULL
    if isinstance(error, OSError):
        return _NUMBERS.get(error.errno or 0)
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return BUSY
    if not isinstance(error, _DISK_ERRORS):
        return None
    known = None if path is None else disk_trouble(path)
    return FAILING if known is None and isinstance(error, apsw.IOError) else known


_NUMBERS = {
    errno.ENOSPC: FULL,
    errno.EDQUOT: FULL,
    errno.EFBIG: FULL,
    errno.EROFS: READ_ONLY,
    errno.EACCES: NOT_PERMITTED,
    errno.EPERM: NOT_PERMITTED,
}


def disk_trouble(path: Path) -> str | None:
    """Return why a file on this disk cannot be written; None if it probably can."""
    try:
        disk = os.statvfs(path.parent)
    except OSError:
        return None
    if disk.f_flag & os.ST_RDONLY:
        return READ_ONLY
    if not os.access(path.parent, os.X_OK):
        return NOT_PERMITTED
    if disk.f_bavail * disk.f_frsize < FULL_BYTES or (disk.f_files and not disk.f_favail):
        return FULL
    for one in (path, path.with_name(f"{path.name}-wal"), path.parent):
        if one.exists() and not os.access(one, os.W_OK):
            return NOT_PERMITTED
    return None


def damaged(reason: str) -> StorageError:
    """Return the error for a damaged file."""
    return StorageError("Storage error", details={"reason": reason}, hint=DAMAGED_HINT)
