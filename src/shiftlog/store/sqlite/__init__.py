"""The embedded store: one SQLite file through apsw, write-ahead logging, one writer thread."""

from shiftlog.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
