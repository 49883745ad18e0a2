"""The team's store as its callers see it: async verbs over one writer thread and a few reader threads.

Every thread takes a connection from one pool for the time of its work. Any number of processes may use one database.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Self, TypeVar, cast

import anyio
import psycopg
from psycopg.pq import TransactionStatus

from shiftlog.model.errors import StorageError
from shiftlog.store.jobs import Job, Outcome, raise_not_open, resolve_soon
from shiftlog.store.postgres.changes import Announcer
from shiftlog.store.postgres.connections import (
    CONNECT_S,
    STATEMENT_S,
    Connection,
    Pool,
    PostgresDatabase,
    keeps_settings,
    limits,
    make_pool,
)
from shiftlog.store.postgres.distribution import MONTHS_AHEAD
from shiftlog.store.postgres.faults import is_interruption, storage_error
from shiftlog.store.postgres.migrate import migrate, require_current
from shiftlog.store.postgres.reader import PostgresReader
from shiftlog.store.postgres.writer import PostgresWriter
from shiftlog.store.postgres.writer_thread import PostgresWriterThread
from shiftlog.store.protocol import NOTHING_KNOWN, About, Reader, Writer

T = TypeVar("T")

CONNECTIONS = 6
RETRY_S = 5.0

_log = logging.getLogger(__name__)


class PostgresStore:
    """A store in one schema of a PostgreSQL database.

    With `durability` `process` commits do not wait for the server's disk. Without `migrates` a database that lacks
    migrations is refused. At most `connections` are open, and a statement takes at most `statement_s`.
    """

    def __init__(
        self,
        url: str,
        *,
        durability: str = "full",
        migrates: bool = True,
        connections: int = CONNECTIONS,
        statement_s: float = STATEMENT_S,
    ) -> None:
        self._url = url
        self._durability = durability
        self._migrates = migrates
        self._connections = connections
        self._statement_s = statement_s
        self._pool: Pool | None = None
        self._writer: PostgresWriterThread | None = None
        self._announcer: Announcer | None = None
        self._readers: ThreadPoolExecutor | None = None
        self._is_continuing = False

    @property
    def fault(self) -> StorageError | None:
        """Return None: faults are not known in advance, since the next work may reach the server."""
        return None

    @property
    def has_lost_log(self) -> bool:
        """False: no file of this store is ours."""
        return False

    async def __aenter__(self) -> Self:
        pool = make_pool(self._url, self._connections, self._statement_s)
        try:
            level = await asyncio.to_thread(self._opened, pool)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await asyncio.to_thread(pool.close)
            raise
        self._pool = pool
        self._announcer = Announcer(pool)
        self._announcer.start()
        lasting = "off" if self._durability == "process" else None
        # We promised that commits last, so a server that does not wait for its disk is told to.
        self._writer = PostgresWriterThread(
            pool,
            partial(resolve_soon, asyncio.get_running_loop(), self._resolve),
            self._announcer.tell,
            lasting="on" if level == "off" and lasting is None else lasting,
            passing="off",
            statement_s=self._statement_s,
        )
        self._writer.start()
        readers = max(1, self._connections - 1)
        self._readers = ThreadPoolExecutor(max_workers=readers, thread_name_prefix="store-reader")
        return self

    def _opened(self, pool: Pool) -> str:
        """Connect, bring the schema up to date, and return how long commits of this server wait."""
        try:
            with psycopg.connect(self._url, connect_timeout=CONNECT_S, autocommit=True, prepare_threshold=None) as db:
                if self._migrates:
                    migrate(db)
                else:
                    require_current(db)
                db.execute("SELECT make_partitions(%s)", (MONTHS_AHEAD,))
                row = db.execute("SHOW synchronous_commit").fetchone()
            pool.open(wait=True, timeout=CONNECT_S)
        except psycopg.Error as error:
            raise storage_error(error) from error
        return str(row[0]) if row else "on"

    async def __aexit__(self, *exc_info: object) -> None:
        writer, self._writer = self._writer, None
        announcer, self._announcer = self._announcer, None
        pool, self._pool = self._pool, None
        with anyio.CancelScope(shield=True):
            if writer is not None:
                await asyncio.to_thread(writer.finish)
            if announcer is not None:
                await asyncio.to_thread(announcer.finish)
            if self._readers is not None:
                await asyncio.to_thread(self._readers.shutdown)
            if pool is not None:
                await asyncio.to_thread(pool.close)

    async def write(self, work: Callable[[Writer], T], *, lasting: bool = True, about: About = NOTHING_KNOWN) -> T:
        """Run work in the next group; others in its way make it run again."""
        return await self._open_writer().queue.submit(work, lasting=lasting, is_bulk=False, about=about)

    async def write_bulk(self, work: Callable[[Writer], T]) -> T:
        """Run work after the works that callers wait for, without waiting for the disk."""
        return await self._open_writer().queue.submit(work, lasting=False, is_bulk=True)

    async def sync(self) -> None:
        """Make the last commits durable, if they did not wait for the disk, with one that does."""
        writer = self._writer
        if writer is not None and writer.owes_sync:
            await self.write(lambda _: None)

    async def read(self, work: Callable[[Reader], T]) -> T:
        """Run work on a connection of the pool, in one read transaction."""
        return await self._on_reader(lambda connection: self._read_once(connection, work))

    async def run(self, work: Callable[[Connection], T]) -> T:
        """Run work, one statement, on a connection of the pool; again if the connection breaks."""

        def once(connection: Connection) -> T:
            if keeps_settings(connection):
                return work(connection)
            with connection.transaction():
                connection.execute(limits(self._statement_s, of="transaction"))
                return work(connection)

        return await self._on_reader(once)

    async def _on_reader(self, work: Callable[[Connection], T]) -> T:
        pool = self._pool
        if pool is None:
            raise_not_open()
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._run, pool, work)

    def figures(self) -> dict[str, float]:
        """Return counts for an operator's graphs: of the pool as psycopg names them, of the writer, of its queue."""
        pool, writer = self._pool, self._writer
        if pool is None or writer is None:
            return {}
        counted = {name: float(value) for name, value in pool.get_stats().items()}
        return counted | {
            "commits": writer.commits,
            "works": writer.works,
            "retries": writer.retries,
            "commit_seconds": writer.commit_s,
            "queue": writer.queue.waiting,
        }

    def _run(self, pool: Pool, work: Callable[[Connection], T]) -> T:
        deadline = time.monotonic() + RETRY_S
        while True:
            try:
                with pool.connection() as connection:
                    return work(connection)
            except psycopg.Error as error:
                if not is_interruption(error) or time.monotonic() > deadline:
                    raise storage_error(error) from error

    def _read_once(self, connection: Connection, work: Callable[[Reader], T]) -> T:
        try:
            with connection.pipeline():
                connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                if not keeps_settings(connection):
                    connection.execute(limits(self._statement_s, of="transaction"))
                reader = PostgresReader(PostgresDatabase(connection))
                result = work(reader)
                connection.execute("COMMIT")
            if reader.behind:
                self._continue_rows(reader.behind)
            return result
        finally:
            if not connection.closed and connection.info.transaction_status != TransactionStatus.IDLE:
                connection.rollback()  # of psycopg, which then forgets what it took for prepared

    def _continue_rows(self, session_ids: Sequence[str]) -> None:
        """Queue a work that stores texts of long sessions for the next search for substrings, a few in each commit."""
        writer = self._writer
        if writer is not None and not self._is_continuing:
            self._is_continuing = True
            writer.queue.put(Job(partial(_catch_up, session_ids), None, lasting=False, is_bulk=True))

    def _open_writer(self) -> PostgresWriterThread:
        if self._writer is None:
            raise_not_open()
        return self._writer

    def _resolve(self, outcomes: list[Outcome]) -> None:
        for job, result, error in outcomes:
            job.resolve(result, error)
            if job.future is None:
                self._is_continuing = False
                if error is not None:
                    _log.warning("the texts of long sessions were not continued: %s", type(error).__name__)
                elif result:
                    self._continue_rows(result)


def _catch_up(session_ids: Sequence[str], writer: Writer) -> list[str]:
    """Add rows of texts for the first session, which is locked meanwhile; return the sessions that lack more."""
    first, *others = session_ids
    return [first, *others] if cast(PostgresWriter, writer).catch_up(first) else others
