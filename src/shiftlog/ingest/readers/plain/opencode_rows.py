"""OpenCode's database rows and storage files as lines for its reader. Pure; the caller opens the files.

A line is `{"opencode": "session" | "message" | "part", "id", "message", "data"}`: first the session, then each message
followed by its parts, in order.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import msgspec

from shiftlog.ingest.readers.records import Object, object_in, read_line, text_in, whole_in

SESSION, MESSAGE, PART = "session", "message", "part"

_COLUMNS = {"parent_id": "parentID", "project_id": "projectID", "session_id": "sessionID", "message_id": "messageID"}
_LATE = 2**53


def from_row(row: Mapping[str, Any]) -> Object:
    """Return a row of one of the three tables in the form of a storage file."""
    made: Object = {_COLUMNS.get(name, name): value for name, value in row.items() if name != "data"}
    time = {word: made.pop(f"time_{word}", None) for word in ("created", "updated")}
    document = _document(row.get("data"))
    made |= document
    known = {word: value for word, value in time.items() if value is not None}
    return {**made, "time": {**known, **object_in(document, "time")}}


def _document(data: object) -> Object:
    if isinstance(data, dict):
        return cast(Object, data)
    text = data.encode("utf-8", "replace") if isinstance(data, str) else data
    read = read_line(text) if isinstance(text, bytes) else None
    return read.record if read is not None and read.record is not None else {}


def session_lines(
    session: Object, messages: Iterable[Object], parts: Iterable[tuple[str | None, Object]]
) -> Iterator[bytes]:
    """Return the lines of one session; a part without a message id belongs to the message named by its folder."""
    of: defaultdict[str, list[Object]] = defaultdict(list)
    for folder, part in parts:
        of[text_in(part, "messageID") or folder or ""].append(part)
    yield _line(SESSION, session)
    for message in sorted(messages, key=_order):
        name = text_in(message, "id") or ""
        yield _line(MESSAGE, message)
        for part in of.get(name, ()):
            yield _line(PART, part, name)


def _order(document: Object) -> tuple[int, str]:
    created = whole_in(object_in(document, "time"), "created")
    return (created if created is not None else _LATE, text_in(document, "id") or "")


def _line(kind: str, document: Object, message: str | None = None) -> bytes:
    record = {"opencode": kind, "data": document} | ({"message": message} if message is not None else {})
    try:
        return msgspec.json.encode(record)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return b"{}"
