"""Connections to PostgreSQL: the pool, what each connection is told, and how our statements and values reach it."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import psycopg
from psycopg.adapt import Buffer, Loader
from psycopg.types.string import StrDumperUnknown
from psycopg_pool import ConnectionPool

Connection = psycopg.Connection[tuple[Any, ...]]
Pool = ConnectionPool[Connection]

CONNECT_S = 10
# A statement of ours takes milliseconds; one that hangs must not hold a session's row for ever.
STATEMENT_S = 60
IDLE_IN_TRANSACTION_S = 60
APPLICATION = "shiftlog"


class _TextDumper(StrDumperUnknown):
    """Text without NUL characters, which PostgreSQL cannot store; entries and documents are bytes and keep them."""

    def dump(self, obj: str) -> Buffer | None:
        return super().dump(obj.replace("\0", "␀") if "\0" in obj else obj)


class _WholeNumberLoader(Loader):
    """Sums of whole numbers, which PostgreSQL calls numeric."""

    def load(self, data: Buffer) -> int:
        return int(bytes(data))


def configure(connection: Connection) -> None:
    """Prepare a connection of the pool."""
    connection.autocommit = True
    connection.adapters.register_dumper(str, _TextDumper)
    connection.adapters.register_loader("numeric", _WholeNumberLoader)


def make_pool(url: str, size: int) -> Pool:
    """Return a pool that is not open yet."""
    return ConnectionPool(
        url,
        connection_class=Connection,
        kwargs={"application_name": APPLICATION, "connect_timeout": CONNECT_S},
        min_size=1,
        max_size=size,
        configure=configure,
        timeout=CONNECT_S,
        open=False,
        name="shiftlog-store",
    )


@lru_cache(maxsize=4096)
def _translated(sql: str) -> str:
    return sql.replace("%", "%%").replace("?", "%s")


class PostgresDatabase:
    """One connection as the shared statements use it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> psycopg.Cursor[tuple[Any, ...]]:
        """Run a statement with `?` for each value."""
        return self._connection.execute(_translated(sql).encode(), values)

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> None:
        """Run a statement for each row, without waiting for the answers one by one."""
        with self._connection.cursor() as cursor:
            cursor.executemany(_translated(sql).encode(), rows)
