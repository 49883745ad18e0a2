"""The files of a database under watch: a write to a file that was deleted or replaced must not be acknowledged.

Two questions are answered here. While the store is open: are database and log still the files that its connections
write to? When it opens: are these files whole, or was one of them lost or replaced meanwhile?
"""

import os
import stat
import struct
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import apsw

from shiftlog.link.files import read_regular
from shiftlog.model.errors import StorageError
from shiftlog.store.sqlite.faults import NOT_PERMITTED, damaged

LAST_ENTRY = "-last"
# A folder that changed less than this before it was looked at may change again without a new time.
COARSE_NS = 1_000_000_000
NOT_FOUND_HINT = (
    "Put the file back, or run shiftlog daemon stop: the next client works with the file that is there then"
)

_LAST = struct.Struct("<6q")

Identity = tuple[int, int]
NONE: Identity = (0, 0)
# The identity of a file and, where its name is a link, the number of the link.
Place = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class NotedEntry:
    """The contents of the file of the last entry: its id, and in which database and log it was stored.

    `lasting_id` is the last entry that was on disk when it was acknowledged: a loss of power does not take it away.
    """

    entry_id: int
    database: Identity
    log: Identity
    lasting_id: int


class FileWatch:
    """The identity of a database's files since they were opened; only the writer thread calls more than `connect`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._folder = str(path.parent)
        self._log = (f"{path}-wal", f"{path}-shm")
        self._known: dict[str, Place] = {}
        self._folder_seen: tuple[int, int, int] | None = None
        self._is_settled = False
        self._log_bytes = 0
        self._copy: str | None = None
        self._is_gone(str(path))

    def connect(self) -> apsw.Connection:
        """Return a new connection to the file under watch; raise StorageError if another file has its place."""
        try:
            db = apsw.Connection(str(self._path), flags=apsw.SQLITE_OPEN_READWRITE, statementcachesize=200)
        except apsw.CantOpenError:
            if self._is_in_place():
                raise
            raise gone_error(self._path, self._copy) from None
        # Not one statement before this: the log would be taken for that of the other file, and written into it.
        if not self._is_in_place():
            db.close()
            raise gone_error(self._path, self._copy)
        return db

    def _is_in_place(self) -> bool:
        return _place(str(self._path)) == self._known.get(str(self._path))

    def is_gone(self) -> bool:
        """Return True if the database is not the file any more that was opened."""
        return not self._is_unchanged() and self._is_gone(str(self._path))

    def is_log_gone(self) -> bool:
        """Return True if the log, or its index, is not the file any more that was opened; ask `is_gone` first."""
        return not self._is_settled and any(map(self._is_gone, self._log))

    def is_log_cut(self) -> bool:
        """Return True if the log is shorter than when it was measured; only this process shortens it."""
        try:
            info = os.stat(self._log[0])  # noqa: PTH116 - once per commit
        except OSError:
            return False  # deleted: `is_log_gone` says so
        known = self._known.get(self._log[0])
        return info.st_size < self._log_bytes and (known is None or known[:2] == (info.st_dev, info.st_ino))

    def measure_log(self) -> None:
        """Remember the size of the log, after a commit and after the log was shortened."""
        try:
            self._log_bytes = os.stat(self._log[0]).st_size  # noqa: PTH116 - once per commit
        except OSError:
            self._log_bytes = 0

    def _is_unchanged(self) -> bool:
        """Return True if no file of the folder came or went, nor its mode changed, since the last look: one stat."""
        try:
            info = os.stat(self._folder)  # noqa: PTH116 - once per commit
        except OSError:
            self._folder_seen = None
            self._is_settled = False
            return False
        seen = info.st_dev, info.st_ino, info.st_ctime_ns
        self._is_settled = seen == self._folder_seen
        is_old = time.time_ns() - info.st_ctime_ns > COARSE_NS
        self._folder_seen = seen if is_old else None
        return self._is_settled

    def _is_gone(self, name: str) -> bool:
        now = _place(name)
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
        except OSError:
            return None
        self._copy = copy
        try:
            db.execute("VACUUM INTO ?", (copy,))
        except apsw.Error:
            self.drop_copy()  # half a copy only takes the room that the disk may lack
        return self._copy

    def drop_copy(self) -> None:
        """Remove the saved copy: the file itself is in its place again, with all that the copy holds."""
        if self._copy is not None:
            with suppress(OSError):
                os.unlink(self._copy)  # noqa: PTH108
            self._copy = None


def gone_error(path: Path, copy: str | None) -> StorageError:
    """Return the error for writes to a database that was deleted, replaced or locked away under the store."""
    if not os.access(path.parent, os.X_OK):
        reason, hint = f"{path} is out of reach: {NOT_PERMITTED}", f"chmod 700 {path.parent}"
        return StorageError(f"Storage error: {reason}", details={"reason": reason, "saved": copy}, hint=hint)
    reason = f"{path} was deleted or replaced while it was in use"
    hint = NOT_FOUND_HINT
    if copy is not None:
        hint = f"Everything recorded before is saved as {copy}. {hint}"
    return StorageError(f"Storage error: {reason}", details={"reason": reason, "saved": copy}, hint=hint)


def unknown_error(error: StorageError) -> StorageError:
    """Return the error for a write during which the files were lost: it may be in them."""
    hint = f"This write may have been recorded: look before you repeat it. {error.hint}"
    return StorageError(error.message, details={**error.details, "applied": None}, hint=hint)


def cut_error(path: Path) -> StorageError:
    """Return the error for writes after the log of a database was cut off under the store."""
    reason = f"{path}-wal was cut off while it was in use, and with it what was recorded lately"
    hint = "Run shiftlog daemon stop, then put a backup of the database and its log in their place"
    return StorageError(f"Storage error: {reason}", details={"reason": reason}, hint=hint)


class LastEntry:
    """The id of the entry that was acknowledged last, in a small file beside the database.

    A killed process leaves its newest entries in the log alone. If the log or the database is lost or replaced then,
    only this file shows it. After an orderly end the file is empty: it says that there is a database.
    """

    def __init__(self, path: Path) -> None:
        self._path = path = real_path(path)
        self._log = Path(f"{path}-wal")
        self._file = Path(f"{path}{LAST_ENTRY}")
        self._fd: int | None = None
        self._files: tuple[int, int, int, int] = (*NONE, *NONE)
        self._lasting_id = 0

    def has_database(self) -> bool:
        """Return False if there never was one; raise StorageError if it is missing or not the one of its log.

        SQLite would begin an empty database without the log, or write the log's pages into the other file.
        """
        had_log, noted = size_of(self._log) > 0, self._read()
        has_record = had_log or self._file.exists()  # asked first: another process may make all of them now
        info = _identity(str(self._path))
        if info is None:
            if has_record:
                raise _fault(
                    f"{self._path} is missing",
                    f"Put it back, or a copy of it ({self._path.name}.saved-…). To begin an empty record, also move "
                    f"{self._log.name} and {self._file.name} away",
                )
            return False
        for file in (self._path, self._log, Path(f"{self._path}-shm")):
            if os.path.lexists(file) and not file.is_file():
                raise damaged(f"{file} is not a regular file")
        if not had_log:
            return True
        if not self._path.stat().st_size:
            raise damaged(f"{self._path} is empty, but its log is not")
        if noted is not None and noted.log == _identity(str(self._log)) and noted.database != info:
            raise _fault(
                f"{self._path} was replaced by another file, and {self._log} belongs to the earlier one",
                f"Put the earlier file back. To use the one that is there, move {self._log.name} away; if the two do "
                f"belong together, remove {self._file.name}",
            )
        return True

    def check(self, db: apsw.Connection, *, had_log: bool) -> None:
        """Raise StorageError if a database lacks the entry that was acknowledged last, because its log is not whole."""
        noted = self._read()
        if noted is None or noted.database != _identity(str(self._path)):
            return  # another file, such as a backup that was put in its place
        if had_log:
            if noted.lasting_id and not _holds(db, noted.lasting_id):
                raise _fault(
                    f"{self._log} was cut off, overwritten or replaced, and with it entries that were acknowledged "
                    "before a daemon was killed",
                    f"Put a whole copy of {self._log} in its place; to go on without what it held, remove {self._file}",
                )
            return
        if self._is_older():
            return  # a file that was changed since may lack the entry for other reasons, which `verify` names
        if not _holds(db, noted.entry_id):
            raise _fault(
                f"{self._log} is missing, and with it entries that were acknowledged before a daemon was killed",
                f"Put {self._log} back; to go on without what it held, remove {self._file}",
            )

    def accept(self) -> None:
        """Forget the last entry of another file: the database that is there now was opened, and is the record."""
        noted = self._read()
        if noted is not None and noted.database != _identity(str(self._path)):
            self._empty()

    def note(self, entry_id: int, *, is_lasting: bool) -> None:
        """Note an entry that is about to be acknowledged, and if it is on disk; on a full disk nothing is noted."""
        if is_lasting:
            self._lasting_id = entry_id
        try:
            if self._fd is None:
                self._files = *(_identity(str(self._path)) or NONE), *(_identity(str(self._log)) or NONE)
                self._fd = os.open(self._file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            os.pwrite(self._fd, _LAST.pack(entry_id, *self._files, self._lasting_id), 0)
        except OSError:
            pass

    def close(self) -> None:
        """Close the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def forget(self) -> None:
        """Empty the file after its database was closed, unless the log is still there."""
        noted = self._read()
        if noted is None or noted.database != _identity(str(self._path)) or self._log.exists():
            return
        self._empty()

    def _empty(self) -> None:
        with suppress(OSError):  # on a disk that cannot be written it stays
            os.truncate(self._file, 0)

    def _is_older(self) -> bool:
        """Return True if the database was changed after the last entry was noted, or none was."""
        try:
            return self._file.stat().st_mtime_ns < self._path.stat().st_mtime_ns
        except OSError:
            return True

    def _read(self) -> NotedEntry | None:
        try:
            data = read_regular(self._file)
        except OSError:
            return None
        if len(data) < _LAST.size:
            return None
        entry_id, device, number, log_device, log_number, lasting_id = _LAST.unpack_from(data)
        return NotedEntry(entry_id, (device, number), (log_device, log_number), lasting_id)


def _fault(reason: str, hint: str) -> StorageError:
    error = damaged(reason)
    error.hint = hint
    return error


def size_of(path: Path) -> int:
    """Return the size of a file, 0 if there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _holds(db: apsw.Connection, entry_id: int) -> bool:
    try:
        return db.execute("SELECT 1 FROM entries WHERE id = ?", (entry_id,)).fetchone() is not None
    except apsw.SQLError:  # there is no table at all
        return False


def real_path(path: Path) -> Path:
    """Return the path of the file itself where its name is a link: SQLite keeps the log beside the file."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def _place(name: str) -> Place | None:
    """Return what changes when another file, or a link, takes the place of a file: SQLite finds no log then."""
    try:
        info = os.lstat(name)
        if not stat.S_ISLNK(info.st_mode):
            return info.st_dev, info.st_ino, 0
        target = os.stat(name)  # noqa: PTH116
    except OSError:
        return None
    return target.st_dev, target.st_ino, info.st_ino


def _identity(name: str) -> Identity | None:
    try:
        info = os.stat(name)  # noqa: PTH116
    except OSError:
        return None
    return info.st_dev, info.st_ino
