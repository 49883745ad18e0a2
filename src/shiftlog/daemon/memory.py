"""A daemon without memory: where an error reaches no caller, it ends as if it was killed.

A callback of the event loop or a thread that fails half-way leaves callers waiting for ever. After the end, local
shells go on, bridges start the next daemon, and it reads from the journal what became of each call. The same holds for
the thread that writes, whatever ends it: no write would be answered any more.
"""

import asyncio
import logging
import os
import threading
from typing import Any, NoReturn

WRITER = "store-writer"

log = logging.getLogger(__name__)


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
