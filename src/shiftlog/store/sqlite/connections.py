"""Connections to the SQLite file: opening it, its settings, removing erased bytes, copying it."""

import logging
import os
import time
from pathlib import Path

import apsw

from shiftlog.model.errors import StorageError
from shiftlog.store.sql.tallies import is_owed, recount
from shiftlog.store.sqlite.faults import storage_error
from shiftlog.store.sqlite.file_watch import FileWatch, LastEntry, size_of
from shiftlog.store.sqlite.migrate import migrate

BUSY_MS = 60_000
CHECKPOINT_BUSY_MS = 2_000
# Every connection fills its cache: each write adds pages, and each read of a large file finds other ones.
CACHE_KIB = 4_096
# The writer's cache during an import.
IMPORT_CACHE_KIB = 16_384

_log = logging.getLogger("shiftlog.store")


def set_up(db: apsw.Connection, synchronous: str) -> None:
    """Give a connection the settings that all of ours have."""
    db.set_busy_timeout(BUSY_MS)
    # One pragma a call: of several in one text apsw runs none after the first that answers with a row.
    db.pragma("synchronous", synchronous)
    db.pragma("foreign_keys", "OFF")
    db.pragma("temp_store", "MEMORY")
    keep_pages(db, CACHE_KIB)


def keep_pages(db: apsw.Connection, kib: int) -> None:
    """Let a connection keep as much of the file in memory; SQLite frees at once what it holds beyond that."""
    db.pragma("cache_size", -kib)


def open_for_writing(path: Path, synchronous: str) -> tuple[apsw.Connection, FileWatch]:
    """Return the writer's connection, at the newest schema, and the watch over its files.

    A file that does not exist, and never did, is made with mode 0600.
    """
    try:
        return _opened(path, synchronous)
    except StorageError:  # which is an OSError too
        raise
    except (apsw.Error, OSError) as error:
        says = error.strerror if isinstance(error, OSError) else error
        raise storage_error(error, f"{path}: {says}", path) from error


def _opened(path: Path, synchronous: str) -> tuple[apsw.Connection, FileWatch]:
    last_entry = LastEntry(path)
    if not last_entry.has_database():
        _make(path)
    elif path.stat().st_mode & 0o077:
        path.chmod(0o600)
    log = path.with_name(f"{path.name}-wal")
    # A loss of power may empty a log whose commits did not wait for the disk.
    had_log = size_of(log) > 0 or (synchronous != "FULL" and log.exists())
    watch = FileWatch(path)
    db = watch.connect()
    try:
        if db.readonly("main"):  # SQLite falls back to that without a word
            raise apsw.ReadOnlyError("attempt to write a readonly database")
        set_up(db, synchronous)
        # The log that is refused here stays as it is: the last connection to close would move it into the file.
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        last_entry.check(db, had_log=had_log)
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        _use_write_ahead_log(db)
        db.pragma("secure_delete", "ON")
        migrate(db)
        _build_owed(db)
        if db.pragma("user_version"):
            scrub(db)
        last_entry.accept()
    except BaseException:
        db.close()
        raise
    return db, watch


def _make(path: Path) -> None:
    # Never open and close a file that exists: closing drops the locks that this process holds on it, SQLite's too.
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return  # another process was faster
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _build_owed(db: apsw.Connection) -> None:
    """Fill what a migration has made and could not fill itself."""
    if not is_owed(db):
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        recount(db)
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def _use_write_ahead_log(db: apsw.Connection) -> None:
    """Switch to write-ahead logging; SQLite does not wait for others that do so at the same moment, so we do."""
    deadline = time.monotonic() + BUSY_MS / 1000
    while True:
        try:
            db.pragma("journal_mode", "WAL")
            return
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def scrub(db: apsw.Connection) -> None:
    """Rewrite the file and empty the log, so that no copy of erased bytes is left in either.

    Overwriting what is deleted is not enough: when SQLite splits a page it may leave old copies of rows in the gap.
    Where another process holds the file, the next opening does it.
    """
    try:
        db.pragma("temp_store", "FILE")  # the new file is built there before it replaces the old one
        db.execute("VACUUM")
        db.pragma("temp_store", "MEMORY")
        db.set_busy_timeout(CHECKPOINT_BUSY_MS)
        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        db.pragma("user_version", 0)
    except apsw.Error as error:
        _log.warning("erased bytes may still be in %s until it is opened again: %s", db.filename, error)
        db.pragma("temp_store", "MEMORY")
    db.set_busy_timeout(BUSY_MS)


def copy_database(source: Path, target: Path) -> None:
    """Write a consistent copy of a database that others may be using to a new file of mode 0600."""
    target.touch(mode=0o600)
    db = apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        db.set_busy_timeout(BUSY_MS)
        db.execute("VACUUM INTO ?", (str(target),))
    finally:
        db.close()
