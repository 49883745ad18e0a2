"""The files of a database under watch: a write to a file that was deleted or replaced must not be acknowledged.

Two questions are answered here. While the store is open: are database and log still the files that its connections
write to? When it opens: does the file hold the entry that was acknowledged last, or was its log lost meanwhile?
"""

import os
import struct
import time
from contextlib import suppress
from pathlib import Path

import apsw

from shiftlog.model.errors import StorageError
from shiftlog.store.sqlite.faults import damaged

LAST_ENTRY = "-last"
# A folder that changed less than this before it was looked at may change again without a new time.
COARSE_NS = 1_000_000_000
NOT_FOUND_HINT = (
    "Put the file back, or run shiftlog daemon stop: the next client works with the file that is there then"
)

_LAST = struct.Struct("<3q")

Identity = tuple[int, int]


class FileWatch:
    """The identity of a database's files since they were opened; only the writer thread calls this."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._folder = str(path.parent)
        self._log = (f"{path}-wal", f"{path}-shm")
        self._known: dict[str, Identity] = {}
        self._folder_seen: tuple[int, int, int] | None = None
        self._is_settled = False
        for name in (str(path), *self._log):
            self._is_gone(name)

    def is_gone(self) -> bool:
        """Return True if the database is not the file any more that was opened."""
        return not self._is_unchanged() and self._is_gone(str(self._path))

    def is_log_gone(self) -> bool:
        """Return True if the log, or its index, is not the file any more that was opened; ask `is_gone` first."""
        return not self._is_settled and any(map(self._is_gone, self._log))

    def _is_unchanged(self) -> bool:
        """Return True if no file of the folder came or went since the last look; costs one stat."""
        try:
            info = os.stat(self._folder)  # noqa: PTH116 - once per commit
        except OSError:
            self._folder_seen = None
            self._is_settled = False
            return False
        seen = info.st_dev, info.st_ino, info.st_mtime_ns
        self._is_settled = seen == self._folder_seen
        is_old = time.time_ns() - info.st_mtime_ns > COARSE_NS
        self._folder_seen = seen if is_old else None
        return self._is_settled

    def _is_gone(self, name: str) -> bool:
        now = _identity(name)
        known = self._known.get(name)
        if known is None:
            if now is not None:
                self._known[name] = now
            return False
        if now == known:
            return False
        self._folder_seen = None
        return True

    def save_copy(self, db: apsw.Connection) -> str | None:
        """Write what a connection still reads of the lost file to a new file beside it; return its path."""
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        copy = f"{self._path}.saved-{stamp}"
        try:
            os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            db.execute("VACUUM INTO ?", (copy,))
        except (OSError, apsw.Error):
            return None
        return copy


def gone_error(path: Path, copy: str | None) -> StorageError:
    """Return the error for writes to a database that was deleted or replaced under the store."""
    reason = f"{path} was deleted or replaced while it was in use"
    hint = NOT_FOUND_HINT
    if copy is not None:
        hint = f"Everything recorded before is saved as {copy}. {hint}"
    return StorageError(f"Storage error: {reason}", details={"reason": reason, "saved": copy}, hint=hint)


class LastEntry:
    """The id of the entry that was acknowledged last, in a small file beside the database.

    A killed process leaves its newest entries in the log alone. If the log is lost too, only this file shows it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = f"{path}{LAST_ENTRY}"
        self._fd: int | None = None

    def check(self, db: apsw.Connection, *, had_log: bool) -> None:
        """Raise StorageError if a database without a log lacks the entry that was acknowledged last."""
        if had_log or self._is_older():
            return  # a file that was changed since may lack the entry for other reasons, which `verify` names
        noted = self._read()
        identity = _identity(str(self._path))
        if noted is None or identity is None or noted[1:] != identity:
            return  # another file, such as a backup that was put in its place
        if not _holds(db, noted[0]):
            error = damaged(
                f"{self._path}-wal is missing, and with it entries that were acknowledged before a daemon was killed"
            )
            error.hint = f"Put {self._path}-wal back; to go on without what it held, remove {self._file}"
            raise error

    def note(self, entry_id: int) -> None:
        """Note an entry that is about to be acknowledged; a full disk is no reason to refuse it."""
        identity = _identity(str(self._path)) if self._fd is None else None
        try:
            if self._fd is None:
                self._fd = os.open(self._file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
                os.pwrite(self._fd, _LAST.pack(entry_id, *(identity or (0, 0))), 0)
            else:
                os.pwrite(self._fd, entry_id.to_bytes(8, "little"), 0)
        except OSError:
            pass

    def close(self) -> None:
        """Close the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def forget(self) -> None:
        """Remove the file after the database was closed, unless its log is still there."""
        if not Path(f"{self._path}-wal").exists():
            with suppress(OSError):  # on a disk that cannot be written it stays
                Path(self._file).unlink()

    def _is_older(self) -> bool:
        """Return True if the database was changed after the last entry was noted, or none was."""
        try:
            return os.stat(self._file).st_mtime_ns < self._path.stat().st_mtime_ns  # noqa: PTH116
        except OSError:
            return True

    def _read(self) -> tuple[int, int, int] | None:
        try:
            data = Path(self._file).read_bytes()
        except OSError:
            return None
        return _LAST.unpack(data) if len(data) == _LAST.size else None


def _holds(db: apsw.Connection, entry_id: int) -> bool:
    try:
        return db.execute("SELECT 1 FROM entries WHERE id = ?", (entry_id,)).fetchone() is not None
    except apsw.SQLError:  # there is no table at all
        return False


def _identity(name: str) -> Identity | None:
    try:
        info = os.stat(name)  # noqa: PTH116
    except OSError:
        return None
    return info.st_dev, info.st_ino
