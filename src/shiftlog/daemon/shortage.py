"""A daemon that is short of descriptors or of memory, and still answers.

Without descriptors a new client gets the reason. Where an error reaches no caller, for want of memory, the daemon ends
as if it was killed: a callback of the event loop or a thread that fails half-way leaves callers waiting for ever. After
the end, local shells go on, bridges start the next daemon, and it reads from the journal what became of each call. The
same holds for the thread that writes, whatever ends it: no write would be answered any more.
"""

import asyncio
import logging
import os
import resource
import socket
import threading
from typing import Any, NoReturn

from shiftlog.daemon.hello import error_line

HINT = "Close some clients or shells; or raise the limit (ulimit -n) and run shiftlog daemon stop"
# The thread of the store that commits.
WRITER = "store-writer"

log = logging.getLogger(__name__)


class SpareDescriptor:
    """One open descriptor that is given up to accept, and refuse, a client."""

    def __init__(self) -> None:
        self._descriptor: int | None = None
        self._take()

    def refuse_one(self, listener: socket.socket) -> None:
        """Accept a waiting client with the spare descriptor, send it the reason, and close the connection."""
        if self._descriptor is None:
            self._take()
            return
        os.close(self._descriptor)
        self._descriptor = None
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        says = f"The daemon has no file descriptors left (its limit is {limit})"
        try:
            sock, _ = listener.accept()
            with sock:
                sock.send(error_line("storage_error", says, HINT))
        except OSError:
            pass
        self._take()

    def _take(self) -> None:
        try:
            self._descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            pass  # the next refusal tries again


class FrugalLoop(asyncio.SelectorEventLoop):
    """The daemon's event loop; the daemon ends when there is no memory for a callback or for the loop itself."""

    def run_forever(self) -> None:
        """Run until the loop is stopped."""
        try:
            super().run_forever()
        except MemoryError as error:
            _end(error)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Report an error that no one awaits; one of a transport closes that connection, and nothing else fails."""
        error = context.get("exception")
        if isinstance(error, MemoryError) and "handle" in context:
            _end(error)
        super().call_exception_handler(context)


class _Swallowed(logging.Handler):
    """Sees the errors that a pool of threads logs instead of telling them to the caller."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, MemoryError):
            _end(error)


def watch_threads() -> None:
    """End the daemon when a thread cannot answer its callers."""
    threading.excepthook = _on_thread_error
    logging.getLogger("concurrent.futures").addHandler(_Swallowed())


def _on_thread_error(failed: threading.ExceptHookArgs) -> None:
    error = failed.exc_value
    is_writer = failed.thread is not None and failed.thread.name == WRITER
    if error is not None and (is_writer or isinstance(error, MemoryError)):
        _end(error)
    threading.__excepthook__(failed)


def _end(error: BaseException) -> NoReturn:
    what = "No memory is left" if isinstance(error, MemoryError) else "No thread is left"
    try:
        log.critical("%s to answer callers: ending for the next daemon", what, exc_info=error)
    finally:
        os._exit(1)
