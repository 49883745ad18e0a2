"""Questions about a database before a store is open: its name, version and migrations."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg.conninfo import conninfo_to_dict

from shiftlog.store.postgres.connections import CONNECT_S, Connection
from shiftlog.store.postgres.faults import storage_error
from shiftlog.store.postgres.migrate import applied, has_trigrams, make_trigrams, migrate, pending


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseState:
    """A database, the number of its newest migration, and the migrations just applied or still missing.

    Without `has_trigrams` parts of words and of paths are read through, because pg_trgm is missing.
    """

    database: str
    schema: int
    migrations: tuple[str, ...]
    has_trigrams: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseDescription:
    """A database in one line, and whether it has its indexes of trigrams."""

    line: str
    has_trigrams: bool


def migrated(url: str, *, check: bool) -> DatabaseState:
    """Apply the migrations that a database lacks and name them; with `check` only name them.

    The indexes of trigrams are made too, if the role may by now.
    """
    with _connected(url) as db:
        done = pending(db) if check else migrate(db)
        names = tuple(f"{each.number:04d}_{each.name}" for each in done)
        return DatabaseState(
            database=_name(db),
            schema=max(applied(db), default=0),
            migrations=names,
            has_trigrams=has_trigrams(db) if check else make_trigrams(db),
        )


def described(url: str) -> DatabaseDescription:
    """Return the name, version and schema of a database."""
    with _connected(url) as db:
        version = (db.info.parameter_status("server_version") or "?").partition(" ")[0]
        missing = len(pending(db))
        behind = f", {missing} to apply" if missing else ""
        line = f"{_name(db)} (PostgreSQL {version}, schema {max(applied(db), default=0)}{behind})"
        return DatabaseDescription(line=line, has_trigrams=has_trigrams(db))


def place(url: str) -> str:
    """Return an address without its passwords; the database is not asked."""
    return " ".join(f"{name}={value}" for name, value in conninfo_to_dict(url).items() if "password" not in name)


def _name(db: Connection) -> str:
    """Return the address of a database without its password."""
    info = db.info
    port = "" if info.host.startswith("/") else f":{info.port}"
    return f"{info.dbname} on {info.host}{port} as {info.user}"


@contextmanager
def _connected(url: str) -> Generator[Connection]:
    try:
        with psycopg.connect(url, connect_timeout=CONNECT_S, autocommit=True, prepare_threshold=None) as db:
            yield db
    except psycopg.Error as error:
        raise storage_error(error) from error
