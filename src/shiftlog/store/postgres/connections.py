"""Connections to PostgreSQL: the pool, the settings of each connection, and how statements and values are sent."""

from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from typing import Any, Literal

import psycopg
from psycopg.adapt import Buffer, Loader
from psycopg.types.numeric import Int8Dumper
from psycopg.types.string import StrDumperUnknown
from psycopg_pool import ConnectionPool

from shiftlog.store.postgres.pending import Pending

Connection = psycopg.Connection[tuple[Any, ...]]
Pool = ConnectionPool[Connection]

CONNECT_S = 10
# A statement of ours takes milliseconds; one that hangs must not hold a session's row for ever.
STATEMENT_S = 60
APPLICATION = "shiftlog"
# Statements for several rows are prepared for each number of rows.
MOST_PREPARED = 400
PREPARED_AFTER = 3


class _TextDumper(StrDumperUnknown):
    """Text without NUL characters, which PostgreSQL cannot store; entries and documents are bytes and keep them."""

    def dump(self, obj: str) -> Buffer | None:
        return super().dump(obj.replace("\0", "␀") if "\0" in obj else obj)


class _WholeNumberLoader(Loader):
    """Sums of whole numbers, which PostgreSQL calls numeric."""

    def load(self, data: Buffer) -> int:
        return int(bytes(data))


def configure(connection: Connection, statement_s: float = STATEMENT_S) -> None:
    """Prepare a connection of the pool."""
    connection.autocommit = True
    connection.prepared_max = MOST_PREPARED
    connection.adapters.register_dumper(int, Int8Dumper)
    if is_pooled(connection):
        # A pooler gives each transaction another connection, which does not know what was set or prepared before.
        connection.prepare_threshold = None
    else:
        connection.execute(limits(statement_s, of="session"))
    connection.adapters.register_dumper(str, _TextDumper)
    connection.adapters.register_loader("numeric", _WholeNumberLoader)


def is_pooled(connection: Connection) -> bool:
    """Return True if a pooler such as pgbouncer is in between: it gives out process numbers of its own."""
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    return row is not None and row[0] != connection.info.backend_pid


def limits(statement_s: float, *, of: Literal["session", "transaction"]) -> bytes:
    """Return the statement that limits how long statements run, and how long a transaction waits for its client."""
    given = f"'{round(statement_s * 1000)}ms', {str(of == 'transaction').lower()}"
    names = ("statement_timeout", "idle_in_transaction_session_timeout")
    calls = ", ".join(f"set_config('{name}', {given})" for name in names)
    return f"SELECT {calls}".encode()


def keeps_settings(connection: Connection) -> bool:
    """Return True if a connection of the pool still has the limits that it was given at its start."""
    return connection.prepare_threshold is not None


def make_pool(url: str, size: int, statement_s: float) -> Pool:
    """Return a pool that is not open yet."""
    return ConnectionPool(
        url,
        connection_class=Connection,
        kwargs={
            "application_name": APPLICATION,
            "connect_timeout": CONNECT_S,
            "prepare_threshold": PREPARED_AFTER,
        },
        min_size=1,
        max_size=size,
        configure=partial(configure, statement_s=statement_s),
        timeout=CONNECT_S,
        open=False,
        name="shiftlog-store",
    )


@lru_cache(maxsize=4096)
def _translated(sql: str) -> bytes:
    first, *others = sql.split("?")
    return "".join((first, *(f"${place}{text}" for place, text in enumerate(others, 1)))).encode()


class PostgresDatabase:
    """One connection in pipeline mode, as the shared statements use it: only fetching rows waits for the server."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> psycopg.Cursor[tuple[Any, ...]]:
        """Run a statement with `?` for each value."""
        # psycopg reads a long statement with places of its own again each time: an eighth of a writer's time.
        return psycopg.RawCursor(self._connection).execute(_translated(sql), values)

    def planned(self, sql: str, values: Sequence[Any], /) -> psycopg.Cursor[tuple[Any, ...]]:
        """Run a query that is planned for its values, because these decide which index helps."""
        return psycopg.RawCursor(self._connection).execute(_translated(sql), values, prepare=False)

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> None:
        """Run a statement for each row."""
        for row in rows:
            self.execute(sql, row)


class PendingDatabase(PostgresDatabase):
    """The writer's connection, inside a transaction whose rows wait for its end."""

    def __init__(self, connection: Connection, pending: Pending, *, is_alone: bool) -> None:
        super().__init__(connection)
        self._pending = pending
        self._is_alone = is_alone
        self._has_savepoint = False

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> psycopg.Cursor[tuple[Any, ...]]:
        """Run a statement, after the waiting rows if it may concern them."""
        if self._pending.concerns(sql):
            self.flush()
        if not sql.startswith("SELECT"):
            self._protect()
        return super().execute(sql, values)

    def stored(self, sql: str, *values: Any) -> psycopg.Cursor[tuple[Any, ...]]:
        """Run a query that no waiting row can affect."""
        return super().execute(sql, values)

    def flush(self) -> None:
        """Send all rows that wait."""
        self.send_finished()
        if self._pending.has_own_rows:
            self._protect()
            self._pending.keep_work()
            self.send_finished()

    def send_finished(self) -> None:
        """Send the rows of finished works."""
        for sql, values in self._pending.taken():
            super().execute(sql, values)

    def _protect(self) -> None:
        """Let a failure of the running work take back only what it has changed."""
        if not self._is_alone and not self._has_savepoint:
            self.send_finished()
            super().execute("SAVEPOINT piece")
            self._has_savepoint = True

    def end_work(self, *, failed: bool) -> None:
        """Keep the changes of a work, or roll them back."""
        if self._has_savepoint:
            if failed:
                super().execute("ROLLBACK TO piece")
            super().execute("RELEASE piece")
            self._has_savepoint = False

    def end_works(self) -> None:
        """All works have ended: a failure from here on concerns all of them."""
        self._is_alone = True
