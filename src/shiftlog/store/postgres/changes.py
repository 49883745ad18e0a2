"""News of changed sessions between processes: announced with NOTIFY, received with LISTEN.

Changes are announced after their commit, several at once, in a transaction of their own: a NOTIFY inside a commit would
make the commits of all processes wait for one another. An announcement can get lost, so a listener must look by itself
now and then; it is told when it should look at everything.
"""

import logging
import queue
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator

import psycopg

from shiftlog.store.postgres.connections import CONNECT_S, Connection, Pool, is_pooled

CHANNEL = "shiftlog_changes"
# Announcements of one process are at least this far apart.
ANNOUNCE_EVERY_S = 0.05
# PostgreSQL takes 8,000 bytes with a notification.
PAYLOAD_BYTES = 7_000
# A listener whose own message does not come back within this time hears nothing.
ECHO_S = 5.0
ECHO_EVERY_S = 30.0
RETRY_S = 1.0
RETRY_LIMIT_S = 30.0
_ECHO = "echo:"
# No row is written, so there is nothing to wait for the disk for.
_ANNOUNCE = (
    "SELECT set_config('synchronous_commit', 'off', true), pg_notify(%s, payload) FROM unnest(%s::text[]) AS payload"
)

# Called with the ids of changed sessions; None means that any may have changed.
Heard = Callable[[frozenset[str] | None], None]

log = logging.getLogger(__name__)


class Announcer:
    """A thread that announces the changed sessions of this process to the others."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._changed: queue.SimpleQueue[frozenset[str] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="store-announcer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def finish(self) -> None:
        """Announce what waits and end; blocks until then."""
        self._changed.put(None)
        self._thread.join()

    def tell(self, session_ids: frozenset[str]) -> None:
        """Announce sessions soon; never waits."""
        self._changed.put(session_ids)

    def _run(self) -> None:
        is_ending = False
        while not is_ending:
            ids: set[str] = set()
            item = self._changed.get()
            while True:
                if item is None:
                    is_ending = True
                else:
                    ids |= item
                if self._changed.empty():
                    break
                item = self._changed.get()
            if ids:
                self._announce(ids)
                if not is_ending:
                    time.sleep(ANNOUNCE_EVERY_S)

    def _announce(self, ids: set[str]) -> None:
        try:
            with self._pool.connection() as connection:
                connection.execute(_ANNOUNCE, (CHANNEL, list(payloads(ids))))
        except psycopg.Error as error:
            log.warning("changes could not be announced: %s", type(error).__name__)


def payloads(ids: Iterable[str]) -> Iterator[str]:
    """Yield the ids joined by spaces, in texts that fit into a notification."""
    line = ""
    for name in sorted(ids):
        if len(line) + len(name) >= PAYLOAD_BYTES:
            yield line
            line = ""
        line = f"{line} {name}" if line else name
    if line:
        yield line


class ChangeListener:
    """A thread that hears which sessions any process has changed, on a connection of its own.

    `is_hearing` is False while there is no connection, and behind a pooler, which drops notifications.
    """

    def __init__(self, url: str, heard: Heard) -> None:
        self.is_hearing = False
        self._url = url
        self._heard = heard
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="store-listener", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def finish(self) -> None:
        """End the thread; blocks for a moment."""
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        wait_s = RETRY_S
        while not self._ending.is_set():
            try:
                with psycopg.connect(
                    self._url, autocommit=True, connect_timeout=CONNECT_S, prepare_threshold=None
                ) as connection:
                    wait_s = RETRY_S if self._listen(connection) else RETRY_LIMIT_S
            except psycopg.Error as error:
                log.warning("listening for changes ended: %s", type(error).__name__)
                wait_s = min(wait_s * 2, RETRY_LIMIT_S)
            if self.is_hearing:
                self.is_hearing = False
                self._heard(None)
            self._ending.wait(wait_s)

    def _listen(self, connection: Connection) -> bool:
        """Pass on announcements; return False if the connection turns out to receive none, True at the end."""
        if is_pooled(connection):  # the first echo may pass: both statements can meet the same connection behind it
            return self._deaf()
        connection.execute(f"LISTEN {CHANNEL}".encode())
        echo, asked_at = self._ask_for_echo(connection), time.monotonic()
        while not self._ending.is_set():
            for told in connection.notifies(timeout=0.5, stop_after=1):
                if told.payload == echo:
                    echo = ""
                    if not self.is_hearing:
                        self.is_hearing = True
                        self._heard(None)  # for what was changed before we listened
                elif not told.payload.startswith(_ECHO):
                    self._heard(frozenset(told.payload.split()))
            waited_s = time.monotonic() - asked_at
            if echo and waited_s > ECHO_S:
                return self._deaf()
            if not echo and waited_s > ECHO_EVERY_S:
                echo, asked_at = self._ask_for_echo(connection), time.monotonic()
        return True

    @staticmethod
    def _deaf() -> bool:
        log.warning("no notification comes through, as behind a pooler; pages look for changes by themselves")
        return False

    @staticmethod
    def _ask_for_echo(connection: Connection) -> str:
        """Send a message to ourselves."""
        echo = f"{_ECHO}{uuid.uuid4().hex}"
        connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, echo))
        return echo
