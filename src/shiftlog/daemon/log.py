"""The daemon's log: one file of bounded size that never holds data from clients.

Exceptions are written as their type and their stack without text, and records of other libraries as their location
alone, because both may quote arguments.
"""

import logging
import os
import sys
import traceback
from datetime import UTC, datetime
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from types import TracebackType
from typing import cast

from shiftlog.link.files import open_regular

LOG_BYTES = 1_000_000
OLD_FILES = 2


class ContentFreeFormatter(logging.Formatter):
    """Formats records without the values that clients sent."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line, and the stack of the exception if there is one."""
        at = datetime.fromtimestamp(record.created, UTC)
        ours = record.name.partition(".")[0] == "shiftlog"
        said = record.getMessage() if ours else f"a message at {record.module}:{record.lineno}"
        line = f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z {record.levelname} {record.name}: {said}"
        if record.exc_info and record.exc_info[1] is not None:
            line += "\n" + described(record.exc_info[1])
        return line


def described(error: BaseException) -> str:
    """Return type and stack of an exception, its causes and its group members, without their text."""
    places = [
        f"    {frame.filename}:{frame.lineno} in {frame.name}" for frame in traceback.extract_tb(error.__traceback__)
    ]
    parts = ["\n".join([f"  {type(error).__module__}.{type(error).__qualname__}", *places])]
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        parts += [described(member) for member in group.exceptions]
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None:
        parts.append("  caused by\n" + described(cause))
    return "\n".join(parts)


class _File(RotatingFileHandler):
    """A log file that also takes the process's stdout and stderr, and keeps them when it is rotated."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, into a new file if the log was deleted or moved away, as tools that rotate logs do."""
        if self.stream is not None and not self._is_in_place(self.stream.fileno()):
            self._replace(self.stream)
        super().emit(record)

    def _replace(self, old: TextIOWrapper) -> None:
        """Open the file again; if that cannot be, the old one takes this record, and the next record tries again."""
        try:
            self.stream = self._open()
        except OSError:
            return
        old.close()
        self.adopt_streams()

    def _open(self) -> TextIOWrapper:
        """Open the file; a named pipe in its place would stop the daemon."""
        append = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        return open(open_regular(self.baseFilename, append), "a", encoding="utf-8")  # noqa: PTH123 - a descriptor has no path

    def _is_in_place(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.stat(self.baseFilename), os.fstat(descriptor))  # noqa: PTH116
        except OSError:
            return False

    def doRollover(self) -> None:  # noqa: N802  # the name is the base class's
        super().doRollover()
        self.adopt_streams()

    def adopt_streams(self) -> None:
        if self.stream is not None:
            for descriptor in (1, 2):
                os.dup2(self.stream.fileno(), descriptor)


def open_log(path: str, level: str, *, foreground: bool) -> None:
    """Send all records to the file, or to stderr in the foreground, from `level` upwards."""
    if foreground:
        handler: logging.Handler = logging.StreamHandler(sys.stderr)
    else:
        file = _File(path, maxBytes=LOG_BYTES, backupCount=OLD_FILES, encoding="utf-8")
        file.adopt_streams()
        handler = file
    handler.setFormatter(ContentFreeFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.captureWarnings(True)
    set_level(level)
    sys.excepthook = _log_uncaught


def set_level(level: str) -> None:
    """Set the lowest level of our own records; other libraries log from WARNING on."""
    logging.getLogger("shiftlog").setLevel(level.upper())


def _log_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    logging.getLogger("shiftlog.daemon").critical("The daemon ended", exc_info=(kind, error, trace))
