"""The session log's rules for turns: each calls the journal's rule and returns the result in the dialect's names.

A rule returns its result and the id of its turn. Deleting and replacing are in `edits`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from shiftlog.dialects.mcpserver.objects import as_shown
from shiftlog.dialects.mcpserver.requests import CLEARABLE
from shiftlog.journal import rules
from shiftlog.journal.merge import is_empty
from shiftlog.journal.pen import Pen
from shiftlog.model.errors import InvalidParameter
from shiftlog.model.ids import check_request_id
from shiftlog.model.times import shown

Values = Mapping[str, Any]
Outcome = tuple[dict[str, Any], str]
TurnRule = Callable[[Pen, Values], Outcome]


def addressed(values: Values) -> dict[str, Any]:
    """Return the values with the turn they address as `request_id`, its form checked."""
    name = values.get("turn_request_id") or values.get("request_id")
    if name:
        check_request_id(name)
    others = {key: value for key, value in values.items() if key != "turn_request_id"}
    return {**others, "request_id": name or None}


def begin_turn(pen: Pen, values: Values) -> Outcome:
    """Begin a turn; one still open is failed as superseded."""
    made = rules.begin_turn(pen, values)
    name = made["request_id"]
    result = {"turnRequestId": name, "status": made["status"], "timestamp": made["timestamp"], "requestId": name}
    if made["superseded_request_id"]:
        result["supersededTurnRequestId"] = made["superseded_request_id"]
    return result, name


def update_turn(pen: Pen, values: Values) -> Outcome:
    """Change fields of the open turn by sparse merge."""
    name = rules.update_turn(pen, values)["request_id"]
    return {**_updated(pen), "turnRequestId": name, "requestId": name}, name


def append_dialog(pen: Pen, values: Values) -> Outcome:
    """Append dialog items as given."""
    made = rules.update_turn(pen, values)
    return {"appended": len(values["dialog"]), "totalDialogItems": made["dialog_items"]}, made["request_id"]


def append_actions(pen: Pen, values: Values) -> Outcome:
    """Append actions as given."""
    made = rules.update_turn(pen, values)
    return {"appended": len(values["actions"]), "totalActions": made["actions"]}, made["request_id"]


def check_response(values: Values) -> dict[str, Any]:
    """Return the values with the fields of `payload` among them, refusing a completion without a response."""
    flat = flattened(values)
    if is_empty("response", flat.get("response")):
        raise InvalidParameter.missing("response")
    return flat


def check_failure(values: Values) -> dict[str, Any]:
    """Return the values with the fields of `payload` among them, refusing a failure that does not say why."""
    flat = flattened(values)
    note = flat.pop("failure_note", None)
    message = flat.get("error_message", note)
    if is_empty("error_message", message):
        raise InvalidParameter.missing("errorMessage")
    return {**flat, "error_message": message}


def flattened(values: Values) -> dict[str, Any]:
    """Return the fields of `payload` and the others in one; a field given flat wins."""
    payload: dict[str, Any] = values.get("payload") or {}
    inside = {name: value for name, value in payload.items() if value is not None}
    flat = {name: value for name, value in values.items() if name != "payload" and not is_empty(name, value)}
    return {**inside, **flat}


def complete_turn(pen: Pen, values: Values) -> Outcome:
    """Complete the open turn, with the other fields of the call."""
    return _finish(pen, values, "completed", completedAt="finished_at")


def fail_turn(pen: Pen, values: Values) -> Outcome:
    """Fail the open turn, with the other fields of the call."""
    return _finish(pen, values, "failed", failedAt="finished_at", errorCode="error_code")


def _finish(pen: Pen, values: Values, outcome: str, **names: str) -> Outcome:
    rules.open_turn(pen, values.get("request_id"))
    made = rules.finish_turn(pen, {**values, "outcome": outcome}, as_shown)
    name, ended = made["request_id"], {theirs: made[ours] for theirs, ours in names.items()}
    return {"turnRequestId": name, "status": made["status"], **ended, "requestId": name}, name


def close_turn(pen: Pen, values: Values) -> Outcome:
    """Append actions and complete the turn, in one."""
    turn = rules.open_turn(pen, values.get("request_id"))
    rules.update_turn(pen, {"request_id": turn.request_id, "actions": values.get("actions")})
    return complete_turn(pen, {"request_id": turn.request_id, "response": values["response"]})


def clear_section(pen: Pen, values: Values) -> Outcome:
    """Empty a section or a plain field; the journal keeps the old value."""
    clearing = {"request_id": values.get("request_id"), "clear": [CLEARABLE[values["section"]]]}
    name = rules.update_turn(pen, clearing)["request_id"]
    return {"cleared": values["section"], "lastUpdated": shown(pen.session.last_activity)}, name


def set_title(pen: Pen, values: Values) -> Outcome:
    """Give the open turn another title."""
    name = rules.update_turn(pen, values)["request_id"]
    return _updated(pen), name


def _updated(pen: Pen) -> dict[str, Any]:
    return {"updated": True, "lastUpdated": shown(pen.session.last_activity)}
