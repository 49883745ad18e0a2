"""The thread of a process that writes to PostgreSQL: group commit, retries, and commits whose answer got lost.

The works of a group share one transaction. A failed work takes nothing else with it. A transaction that met another one
in its way is run again, each work alone; works are therefore run more than once. A group costs as much as three or
four works, so the thread waits a moment for as many works as the groups before had.
"""

import logging
import random
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from shiftlog.model.errors import StorageError
from shiftlog.store.jobs import Job, Outcome, WriteQueue, raised_anew
from shiftlog.store.postgres.connections import (
    STATEMENT_S,
    Connection,
    PendingDatabase,
    Pool,
    keeps_settings,
    limits,
)
from shiftlog.store.postgres.faults import CONFLICTS, is_interruption, storage_error, timed_out
from shiftlog.store.postgres.lookups import KeptNouns, look_up
from shiftlog.store.postgres.pending import Pending
from shiftlog.store.postgres.writer import PostgresWriter
from shiftlog.store.sql.tallies import add

_log = logging.getLogger("shiftlog.store")

# The next group waits at most this long for callers that were just answered and ask again.
GATHER_S = 0.02
# How often a work meets others in its way before its caller is told, and how long it waits for a new connection.
MOST_TRIES = 12
RECONNECT_S = 20.0
PAUSE_S = 0.01

_SETTING = "set_config('{}', '{}', true)"
# A statement that times out while it waits for a standby is reported as done, though the standby may not have it.
_NOTE_COMMIT = f"INSERT INTO commits (id) VALUES (?) RETURNING {_SETTING.format('statement_timeout', '0')}"


class _LostCommit(Exception):
    """The connection broke while a transaction was committed; `outcomes` hold if it was."""

    def __init__(self, outcomes: list[Outcome], error: psycopg.Error) -> None:
        super().__init__(str(error))
        self.outcomes = outcomes
        self.error = error


class PostgresWriterThread:
    """Commit queued works and hand the outcomes of each group to `answer`, on this thread."""

    def __init__(
        self,
        pool: Pool,
        answer: Callable[[list[Outcome]], None],
        tell: Callable[[frozenset[str]], None],
        *,
        lasting: str | None,
        passing: str,
        statement_s: float = STATEMENT_S,
    ) -> None:
        self.queue = WriteQueue()
        # Counted for an operator's graphs.
        self.commits = self.works = self.retries = 0
        self.commit_s = 0.0
        self._pool = pool
        self._answer = answer
        # Called with the sessions that a commit has changed.
        self._tell = tell
        # The values of `synchronous_commit`: for commits that must last, and for the others.
        self._levels = {True: lasting, False: passing}
        self._statement_s = statement_s
        self._kept = KeptNouns()
        # Commits that did not wait for the disk, and how many of them a later one has made last.
        self._passed = self._made_last = 0
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)

    @property
    def owes_sync(self) -> bool:
        """Return True if a commit did not wait for the disk, so that a crash of the server could still undo it."""
        return self._passed > self._made_last

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def finish(self) -> None:
        """Commit what is queued and end; blocks until then."""
        self.queue.end()
        self._thread.join()

    def _run(self) -> None:
        expected = 1
        while (queued := self.queue.next_group()) is not None:
            group = [job for job in queued if job.begin()]
            self._answer(self._commit(group) if group else [])
            # One small group does not mean that fewer callers are there: those of a large one come back by and by.
            expected = max(len(group), expected // 2)
            self.queue.gather(expected, GATHER_S)

    def _commit(self, group: list[Job]) -> list[Outcome]:
        # A group may have waited for a lock that holds up one of its works, or all of them: not all wait again in turn.
        deadline = time.monotonic() + 2 * self._statement_s
        together = self._tried(group, tries=1 if len(group) > 1 else MOST_TRIES)
        if together is not None:
            return together
        outcomes: list[Outcome] = []
        for job in group:
            if time.monotonic() < deadline:
                outcomes += self._tried([job], tries=MOST_TRIES) or ()
            else:
                outcomes += _all_failed([job], timed_out())
        return outcomes

    def _tried(self, group: list[Job], tries: int) -> list[Outcome] | None:
        """Run a group until it is committed or fails for good; None if one of several works is to blame."""
        deadline = time.monotonic() + RECONNECT_S
        while True:
            tries -= 1
            try:
                return self._attempt(group)
            except psycopg.Error as error:
                is_lost = is_interruption(error)
                if len(group) > 1 and not is_lost:
                    return None
                if not is_lost and (tries <= 0 or not isinstance(error, CONFLICTS)):
                    return _all_failed(group, storage_error(error))
                if is_lost and time.monotonic() > deadline:
                    return _all_failed(group, storage_error(error))
            except StorageError as error:
                return _all_failed(group, error)
            except BaseException as error:  # noqa: BLE001 - raised where each work is awaited; the thread goes on
                return [(job, None, error) for job in group]
            self.retries += 1
            time.sleep(PAUSE_S * random.uniform(1, 8))  # noqa: S311 - two processes must not meet again at once

    def _attempt(self, group: list[Job]) -> list[Outcome]:
        commit_id, begun_at, appended = uuid.uuid4(), time.monotonic(), set[str]()
        lasts = any(job.lasting for job in group)
        try:
            with self._pool.connection() as connection:
                outcomes = self._transaction(connection, group, commit_id, self._levels[lasts], appended)
        except _LostCommit as unresolved:
            is_done = self._was_committed(commit_id)
            _log.warning("the answer to a commit was lost; it was %s", "made" if is_done else "not made")
            if not is_done:
                raise unresolved.error from None
            outcomes = unresolved.outcomes
        if any(error is None for _, _, error in outcomes):
            if lasts or self._levels[False] == self._levels[True]:
                self._made_last = self._passed
            else:
                self._passed += 1
            self.commits += 1
            self.works += len(group)
            self.commit_s += time.monotonic() - begun_at
            if appended:
                self._tell(frozenset(appended))
        return outcomes

    def _transaction(
        self,
        connection: Connection,
        group: Sequence[Job],
        commit_id: uuid.UUID,
        level: str | None,
        appended: set[str],
    ) -> list[Outcome]:
        outcomes: list[Outcome] = []
        is_sent = False
        try:
            with connection.pipeline():
                pending = Pending(appended=appended)
                db = PendingDatabase(connection, pending, is_alone=len(group) == 1)
                self._begin(connection, level)
                look_up(db, pending, self._kept, (job.about for job in group))
                outcomes += [(job, *_worked(db, pending, job)) for job in group]
                self._kept.take(pending)
                has_changes = any(error is None for _, _, error in outcomes)
                if has_changes:
                    db.end_works()
                    db.flush()
                    add(db, pending.summed_tallies())
                    db.stored(_NOTE_COMMIT, commit_id)
                    is_sent = True
                connection.execute("COMMIT" if has_changes else "ROLLBACK")
        except psycopg.Error as error:
            is_over = connection.closed or connection.info.transaction_status != TransactionStatus.INERROR
            if is_sent and is_over:
                raise _LostCommit(outcomes, error) from error
            _roll_back(connection)
            raise
        except BaseException:
            _roll_back(connection)
            raise
        return outcomes

    def _begin(self, connection: Connection, level: str | None) -> None:
        connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
        if not keeps_settings(connection):
            connection.execute(limits(self._statement_s, of="transaction"))
        if level is not None:
            connection.execute(f"SELECT {_SETTING.format('synchronous_commit', level)}".encode())

    def _was_committed(self, commit_id: uuid.UUID) -> bool:
        """Return True if a transaction was committed.

        The row of its id is inserted here: if that works, the transaction was not committed and never will be, since
        its own row would be the second one. While it is still under way, the insert waits for it.
        """
        deadline = time.monotonic() + self._statement_s
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


def _worked(db: PendingDatabase, pending: Pending, job: Job) -> tuple[Any, BaseException | None]:
    """Run one work and return its result or its error; raise the errors of PostgreSQL, which end the transaction."""
    pending.begin_work()
    try:
        result = job.work(PostgresWriter(db, pending))
    except psycopg.Error:
        raise
    except BaseException as error:  # noqa: BLE001 - raised where the work is awaited
        db.send_finished()
        db.end_work(failed=True)
        pending.drop_work()
        return None, error
    db.end_work(failed=False)
    pending.keep_work()
    return result, None


def _roll_back(connection: Connection) -> None:
    try:
        if not connection.closed:
            connection.rollback()  # of psycopg, which then forgets what it took for prepared
    except psycopg.Error:
        connection.close()


def _all_failed(group: Sequence[Job], error: StorageError) -> list[Outcome]:
    return [(job, None, raised_anew(error)) for job in group]
