"""The daemon's life: open the services, accept connections, run periodic jobs, drain, end.

It ends on a signal, on request, for a newer client, after an idle time, or when its lock file is gone. In every case it
first finishes the requests that it has read, within bounds.
"""

import gc
import logging
import os
import signal
import socket
import time
from contextlib import AsyncExitStack

import anyio
from anyio.abc import TaskGroup

from shiftlog import __version__
from shiftlog.daemon.connections import Connections
from shiftlog.daemon.hello import error_line
from shiftlog.daemon.lock import DaemonLock
from shiftlog.daemon.log import set_level
from shiftlog.daemon.services import OpenServices, Services
from shiftlog.daemon.shortage import SpareDescriptor
from shiftlog.daemon.tasks import until
from shiftlog.daemon.upkeep import LEASES
from shiftlog.model.errors import InternalError, ShiftlogError, StorageError
from shiftlog.model.limits import DAEMON_DRAIN_S, RENEW_EVERY_S, SWEEP_EVERY_S

WATCH_EVERY_S = 5.0
# A full collection follows after about as many new objects as with Python's own settings, which is 85,000. Cycles whose
# objects were in use during a first collection (ended connections, shells and failed requests) wait for a later one:
# with twenty first collections of 20,000 objects before each second one, 400,000 dead objects could wait.
COLLECT_AFTER = (10_000, 1, 1)
NO_START = "The daemon cannot start: "

log = logging.getLogger(__name__)


async def serve(
    lock: DaemonLock, listener: socket.socket, open_services: OpenServices | None, *, idle_stop_s: float | None
) -> int:
    """Serve clients until the daemon ends; return the exit status. The services are by default those of the app.

    Clients may connect before the services are open. They wait for the hello, and get an error if opening fails.
    """
    daemon: Daemon | None = None

    def connected() -> set[str]:
        return daemon.connections.mcp_client_ids() if daemon is not None else set()

    try:
        async with AsyncExitStack() as stack:
            try:
                if open_services is None:
                    from shiftlog.daemon.app_services import open_app_services as open_services
                services = await stack.enter_async_context(open_services(lock.home, connected))
            except Exception as error:
                # No client has sent anything yet, so the error's text quotes none.
                refusal = _start_error(error)
                log.exception("The daemon cannot start: %s", refusal.message.removeprefix(NO_START))
                _refuse_waiting(listener, refusal)
                return 1
            set_level(services.log_level)
            collect_rarely()
            daemon = Daemon(lock, listener, services, idle_stop_s=idle_stop_s)
            await daemon.run()
        return 0
    finally:
        listener.close()


def collect_rarely() -> None:
    """Collect new objects now and then, and what the start has made never: doing so cost a tenth of every write."""
    gc.collect()
    gc.freeze()
    # Python puts a full collection off until a quarter as many objects are new as it found at the last one; that must
    # not be all that was just frozen.
    gc.collect()
    gc.set_threshold(*COLLECT_AFTER)
    gc.enable()


def _start_error(error: Exception) -> ShiftlogError:
    if isinstance(error, StorageError) and "reason" in error.details:
        return StorageError(f"{NO_START}{error.details['reason']}", hint=error.hint)
    if isinstance(error, ShiftlogError):
        return error
    if isinstance(error, FileExistsError | NotADirectoryError):  # another file has the place of a folder
        return StorageError(f"{NO_START}{error.filename} is not a directory", hint="Move it away: a new one is made")
    if isinstance(error, OSError) and error.filename:  # something is wrong with the state directory
        return StorageError(f"{NO_START}{error.filename}: {error.strerror}", hint="Run shiftlog doctor")
    return InternalError(f"{NO_START}{type(error).__name__}: {error}")


def _refuse_waiting(listener: socket.socket, error: ShiftlogError) -> None:
    """Send the clients that have already connected the reason why they are not served."""
    line = error_line(error.code, error.message, error.hint)
    while True:
        try:
            sock, _ = listener.accept()
        except OSError:
            return
        with sock:
            try:
                sock.send(line)
            except OSError:
                continue


class Daemon:
    """One running daemon."""

    def __init__(
        self, lock: DaemonLock, listener: socket.socket, services: Services, *, idle_stop_s: float | None
    ) -> None:
        self._lock = lock
        self._listener = listener
        self._services = services
        self._idle_stop_s = services.idle_stop_s if idle_stop_s is None else idle_stop_s or None
        self.connections = Connections(lock.home, services, self.end)
        self._spare = SpareDescriptor()
        self._reason = ""
        self._ending = anyio.Event()
        self._hurried = anyio.Event()
        self._background_ended = anyio.Event()

    async def run(self) -> None:
        """Serve until something ends the daemon, then drain."""
        services, clients = self._services, self.connections.mcp_client_ids
        log.info("version %s serves %s as pid %d", __version__, self._lock.home, os.getpid())
        async with anyio.create_task_group() as background:
            background.start_soon(self._obey_signals)
            background.start_soon(self._watch)
            repeat = services.upkeep.repeat
            background.start_soon(repeat, LEASES, RENEW_EVERY_S, lambda: services.renew_leases(clients()))
            background.start_soon(
                repeat, "the sweep of idle sessions", SWEEP_EVERY_S, lambda: services.sweep(clients())
            )
            background.start_soon(self._run_background)
            async with anyio.create_task_group() as connections:
                async with until(self._ending):
                    await self._accept(connections)
                await self._drain()
                connections.cancel_scope.cancel()
            background.cancel_scope.cancel()
        log.info("stopped")

    def end(self, reason: str) -> None:
        """Begin to end; a second call changes nothing."""
        if not self._ending.is_set():
            log.info("stopping: %s", reason)
            self._reason = reason
            self._ending.set()

    async def _accept(self, connections: TaskGroup) -> None:
        while True:
            try:
                await anyio.wait_readable(self._listener)
                sock, _ = self._listener.accept()
            except (BlockingIOError, anyio.ClosedResourceError):
                continue
            except OSError as error:
                log.warning("A connection could not be accepted: %s", error.strerror)
                self._spare.refuse_one(self._listener)
                await anyio.sleep(0.1)  # some descriptors will be free again
                continue
            connections.start_soon(self.connections.serve, sock)

    async def _listen_again(self) -> None:
        """Open the socket again after a cleaner of temporary files removed it; shells and clients stay."""
        log.warning("the socket was removed; listening again")
        old, self._listener = self._listener, self._lock.listen()
        anyio.notify_closing(old)
        old.close()

    async def _drain(self) -> None:
        self._lock.remove_socket()
        self._listener.close()
        with anyio.move_on_after(DAEMON_DRAIN_S):
            async with until(self._hurried):
                await self.connections.drain("retire" if self._reason == "retire" else "stop")
                await self._background_ended.wait()
        self.connections.cut()

    async def _run_background(self) -> None:
        await self._services.run_background(self.connections.draining)
        self._background_ended.set()

    async def _obey_signals(self) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for number in signals:
                if self._ending.is_set():
                    self._hurried.set()
                self.end(signal.Signals(number).name)

    async def _watch(self) -> None:
        """End the daemon after an idle time, or when its lock file is gone."""
        every_s = WATCH_EVERY_S if self._idle_stop_s is None else min(WATCH_EVERY_S, self._idle_stop_s / 4)
        in_use_at = time.monotonic()
        while True:
            await anyio.sleep(every_s)
            if not self._lock.is_held():
                self.end("the lock file is gone")
            elif not self._lock.has_socket():
                await self._services.upkeep.attempt("the socket, which was removed", self._listen_again)
            elif (reason := self._services.must_restart) is not None:
                self.end(reason)
            if self.connections.open_count or self._services.busy():
                in_use_at = time.monotonic()
            idle_s = time.monotonic() - max(in_use_at, self.connections.last_use)
            if self._idle_stop_s is not None and idle_s >= self._idle_stop_s:
                self.end("idle")
