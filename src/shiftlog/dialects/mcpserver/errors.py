"""Errors in the session log's form: one table of hints and details, and the shape around them.

Codes and messages are the journal's own. Names in `details` become those of the dialect, hints name its methods.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from shiftlog.dialects.mcpserver.naming import dialect_name, to_dialect
from shiftlog.journal.journal import TAKE_IT_OVER
from shiftlog.model.errors import InvalidParameter, SessionHeld, ShiftlogError, StorageError, UnknownTool
from shiftlog.model.moves import LIVE, SessionState
from shiftlog.model.nouns import Session
from shiftlog.model.turn_texts import LIST_FIELDS

OPEN_FIRST = "Call workflow.sessionlog.openSession first"
BEGIN_FIRST = "Call workflow.sessionlog.beginTurn first"
OPEN_ANOTHER = "Call workflow.sessionlog.openSession with a new session ID"
RETRYABLE = frozenset({"command_timeout", "storage_error"})


class AmbiguousItem(InvalidParameter):
    """A key that fits several items of a section."""

    code = "ambiguous_item"

    @classmethod
    def of(cls, key: str, section: str, count: int) -> "AmbiguousItem":
        """Return the error for a key that fits `count` items of a section."""
        return cls(f"Item key is ambiguous: {key}", details={"section": section, "count": count})


class MethodNotFound(UnknownTool):
    """No method has that name."""

    code = "method_not_found"


_OF_HOLDER = ("sessionId", "heldBy", "fence")
_CLOSE_THERE = "Close it where it is held, or call the tool close_session with on_held: take_over"

# Code → its hint and the details that are shown. Other codes show all details with their own hint.
SHOWN: Mapping[str, tuple[str | None, tuple[str, ...]]] = {
    "session_not_found": (OPEN_FIRST, ("operation", "sessionId", "candidates")),
    "session_already_exists": ("Use a new session ID", ("sessionId", "status", "started")),
    "session_closed": (OPEN_ANOTHER, ("sessionId", "state", "closedAt")),
    "invalid_session_id": (None, ("providedId", "agent", "expectedFormat", "regex")),
    "invalid_request_id": (None, ("providedId", "expectedFormat", "regex")),
    "turn_not_found": (BEGIN_FIRST, ("operation", "sessionId", "requestId")),
    "turn_already_exists": ("Use a new request ID", ("requestId", "sessionId", "existingTurnStatus")),
    "turn_immutable": (
        "Begin a new turn instead",
        ("turnRequestId", "currentStatus", "requestId", "completedAt"),
    ),
    "invalid_parameter": (None, ("parameter", "value", "constraint", "allowed")),
    "ambiguous_item": (None, ("section", "count")),
    "method_not_found": (None, ("methodName", "supportedMethods")),
    "transcript_not_found": (None, ("searched",)),
    "idempotency_conflict": (None, ()),
    "session_held": ("Work in a session of your own: call workflow.sessionlog.openSession", _OF_HOLDER),
    "lease_lost": (None, ("fenceGiven", "fenceCurrent", "heldBy")),
    "storage_error": (None, ("reason",)),
    "command_timeout": (None, ("reason",)),
    "internal_error": (None, ("reason",)),
}


def payload(error: ShiftlogError) -> dict[str, Any]:
    """Return the error in the form of an envelope, without its `requestId`."""
    details: dict[str, Any] = to_dialect(error.details)
    hint, names = SHOWN.get(error.code, (error.hint, tuple(details)))
    if isinstance(error, SessionHeld) and error.hint == TAKE_IT_OVER:
        hint = _CLOSE_THERE  # a close by a client that may take it over
    details = {name: details[name] for name in names if name in details}
    message = error.message
    if isinstance(error, StorageError) and message.startswith("Storage error:"):
        message = "Storage error"  # the contract's; the reason is in the details
    if error.code == "invalid_parameter":
        details.setdefault("value", None)
        name = details.get("parameter")
        if name in LIST_FIELDS:  # refused by a rule of the journal, in its own spelling
            details["parameter"] = dialect_name(name)
            message = message.replace(f"'{name}'", f"'{dialect_name(name)}'", 1)
    body = {
        "code": error.code,
        "message": message,
        "retryable": error.code in RETRYABLE,
        "details": details,
    }
    if hint:
        details["hint"] = body["hint"] = hint
    return body


def tool_error(error: ShiftlogError) -> dict[str, Any]:
    """Return the error as a tool shows it."""
    body = payload(error)
    body.pop("hint", None)
    return {"code": body["code"], "error": body["message"], **body}


def status_of(session: Session, subagents: Sequence[Session]) -> str:
    """Return the status that the session log shows; turns of subagents count among the session's own."""
    if session.state not in LIVE:
        return "completed"
    each = (session, *subagents)
    is_over = any(one.turns_total for one in each) and not any(one.turns_open for one in each)
    return "completed" if session.state is SessionState.SUSPENDED and is_over else "in_progress"
