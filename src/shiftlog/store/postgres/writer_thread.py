"""The one thread of a process that writes to PostgreSQL: group commit, retries, and commits whose answer got lost.

The works of a group share one transaction, each in a savepoint of its own, so a failed work takes nothing else with it.
A transaction that met another one in its way is run again, each work alone. Works are therefore run more than once.
"""

import random
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import psycopg

from shiftlog.model.errors import StorageError
from shiftlog.store.jobs import Job, Outcome, WriteQueue
from shiftlog.store.postgres.connections import (
    IDLE_IN_TRANSACTION_S,
    STATEMENT_S,
    Connection,
    Pool,
    PostgresDatabase,
)
from shiftlog.store.postgres.faults import CONFLICTS, is_interruption, storage_error
from shiftlog.store.postgres.writer import Pending, PostgresWriter

# How often a work meets others in its way before its caller is told, and how long it waits for a new connection.
MOST_TRIES = 12
RECONNECT_S = 20.0
PAUSE_S = 0.01

_LIMITS = (
    f"SET LOCAL statement_timeout = '{STATEMENT_S}s';"
    f" SET LOCAL idle_in_transaction_session_timeout = '{IDLE_IN_TRANSACTION_S}s'"
)


class _LostCommit(Exception):
    """The connection broke while a transaction was committed; `outcomes` hold if it was."""

    def __init__(self, outcomes: list[Outcome], error: psycopg.Error) -> None:
        super().__init__(str(error))
        self.outcomes = outcomes
        self.error = error


class PostgresWriterThread:
    """Commits queued works and hands the outcomes of each group to `answer`, on this thread."""

    def __init__(self, pool: Pool, answer: Callable[[list[Outcome]], None], *, lasting: str, passing: str) -> None:
        self.queue = WriteQueue()
        # True if a commit did not wait for the disk, so that a crash of the server could still undo it.
        self.owes_sync = False
        self._pool = pool
        self._answer = answer
        # How long commits wait: those that must last, and the others.
        self._levels = {True: lasting, False: passing}
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def finish(self) -> None:
        """Commit what is queued and end; blocks until then."""
        self.queue.end()
        self._thread.join()

    def _run(self) -> None:
        while (group := self.queue.next_group()) is not None:
            self._answer(self._commit([job for job in group if job.begin()]))

    def _commit(self, group: list[Job]) -> list[Outcome]:
        if not group:
            return []
        outcomes = self._tried(group, tries=1 if len(group) > 1 else MOST_TRIES)
        if outcomes is not None:
            return outcomes
        return [outcome for job in group for outcome in self._tried([job], tries=MOST_TRIES) or ()]

    def _tried(self, group: list[Job], tries: int) -> list[Outcome] | None:
        """Run a group until it is committed or fails for good; None if others were in the way of several works."""
        deadline = time.monotonic() + RECONNECT_S
        while True:
            tries -= 1
            try:
                return self._attempt(group)
            except psycopg.Error as error:
                is_lost = is_interruption(error)
                if not is_lost and not isinstance(error, CONFLICTS):
                    return _all_failed(group, storage_error(error))
                if tries <= 0 and not is_lost:
                    return None if len(group) > 1 else _all_failed(group, storage_error(error))
                if is_lost and time.monotonic() > deadline:
                    return _all_failed(group, storage_error(error))
            except StorageError as error:
                return _all_failed(group, error)
            except BaseException as error:  # noqa: BLE001 - raised where each work is awaited; the thread goes on
                return [(job, None, error) for job in group]
            time.sleep(PAUSE_S * random.uniform(1, 8))  # noqa: S311 - two processes must not meet again at once

    def _attempt(self, group: list[Job]) -> list[Outcome]:
        commit_id = uuid.uuid4()
        lasts = any(job.lasting for job in group)
        try:
            with self._pool.connection() as connection:
                outcomes = self._transaction(connection, group, commit_id, self._levels[lasts])
        except _LostCommit as unresolved:
            if not self._was_committed(commit_id):
                raise unresolved.error from None
            outcomes = unresolved.outcomes
        if any(error is None for _, _, error in outcomes):
            self.owes_sync = not lasts and self._levels[False] != self._levels[True]
        return outcomes

    def _transaction(
        self, connection: Connection, group: Sequence[Job], commit_id: uuid.UUID, level: str
    ) -> list[Outcome]:
        connection.execute(f"BEGIN ISOLATION LEVEL READ COMMITTED; {_LIMITS}{level}".encode())
        try:
            db, pending = PostgresDatabase(connection), Pending()
            is_alone = len(group) == 1
            outcomes = [(job, *_worked(connection, db, pending, job, is_alone=is_alone)) for job in group]
            if not any(error is None for _, _, error in outcomes):
                connection.execute("ROLLBACK")
                return outcomes
            pending.store_tallies(db)
            connection.execute("INSERT INTO commits (id) VALUES (%s)", (commit_id,))
        except BaseException:
            _roll_back(connection)
            raise
        try:
            connection.execute("COMMIT")
        except psycopg.Error as error:
            raise _LostCommit(outcomes, error) from error
        return outcomes

    def _was_committed(self, commit_id: uuid.UUID) -> bool:
        """Ask how a transaction ended.

        Its row is claimed: where that works, the transaction was not committed and never will be, since its own row
        would be the second one. While it is still under way, the claim waits for it.
        """
        deadline = time.monotonic() + STATEMENT_S
        while True:
            try:
                with self._pool.connection() as connection:
                    claimed = connection.execute(
                        "INSERT INTO commits (id) VALUES (%s) ON CONFLICT DO NOTHING RETURNING 1", (commit_id,)
                    ).fetchone()
                return claimed is None
            except psycopg.Error as error:
                if time.monotonic() > deadline:
                    reason = f"the connection broke during a commit, and how it ended cannot be asked: {error}"
                    hint = "Send the request again with the same idempotency key"
                    raise StorageError("Storage error", details={"reason": reason}, hint=hint) from error
                time.sleep(PAUSE_S * 10)


def _worked(
    connection: Connection, db: PostgresDatabase, pending: Pending, job: Job, *, is_alone: bool
) -> tuple[Any, BaseException | None]:
    """Run one work and return its result or its error; raise what ends the whole transaction."""
    mark = len(pending.tallies)
    if not is_alone:
        connection.execute("SAVEPOINT piece")
    try:
        result = job.work(PostgresWriter(db, pending))
    except psycopg.Error as error:
        if is_alone or is_interruption(error) or isinstance(error, CONFLICTS):
            raise
        kept: BaseException = storage_error(error)
    except BaseException as error:  # noqa: BLE001 - raised where the work is awaited
        kept = error
    else:
        if not is_alone:
            connection.execute("RELEASE piece")
        return result, None
    if not is_alone:
        connection.execute("ROLLBACK TO piece; RELEASE piece")
    pending.forget(mark)
    return None, kept


def _roll_back(connection: Connection) -> None:
    try:
        if not connection.closed:
            connection.execute("ROLLBACK")
    except psycopg.Error:
        connection.close()


def _all_failed(group: Sequence[Job], error: StorageError) -> list[Outcome]:
    return [(job, None, StorageError(error.message, details=error.details, hint=error.hint)) for job in group]
