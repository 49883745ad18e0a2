"""The log of a team's server: one JSON object per line on standard error, with request ids and without contents."""

import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime

from shiftlog.daemon.log import described, set_level
from shiftlog.web.answers import encoded

# The id of the request that the current task serves.
REQUEST_ID: ContextVar[str | None] = ContextVar("request_id", default=None)


class JsonFormatter(logging.Formatter):
    """Formats records without values that clients sent: errors by type and stack, other libraries by location."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        ours = record.name.partition(".")[0] == "shiftlog"
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {
            "at": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage() if ours else f"a message at {record.module}:{record.lineno}",
        }
        if (request_id := REQUEST_ID.get()) is not None:
            line["request_id"] = request_id
        line |= getattr(record, "facts", {})
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = described(record.exc_info[1])
        return encoded(line).decode()


def open_json_log(level: str) -> None:
    """Send all records to standard error as JSON, ours from `level` upwards, others from WARNING."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.captureWarnings(True)
    set_level(level)
