"""The rules of turns: what each request writes, given the session as it stands. Pure: a pen is the only hand.

Checks come in the order of the contract: turn existence, turn state, then content. Leases are checked before.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from shiftlog.journal.merge import (
    LIST_FIELDS,
    TEXT_FIELDS,
    action_key,
    changes_to,
    dialog_key,
    effective_clear,
    is_empty,
)
from shiftlog.journal.pen import Pen
from shiftlog.journal.projection import seal_of
from shiftlog.journal.requests import KNOWN_ACTION_TYPES, TURN_FIELDS
from shiftlog.model.entry import Kind
from shiftlog.model.errors import InvalidParameter, TurnAlreadyExists, TurnImmutable, TurnNotFound
from shiftlog.model.ids import check_request_id, mint_request_id, numbered
from shiftlog.model.moves import TURN_MOVES, TurnStatus
from shiftlog.model.nouns import Turn
from shiftlog.model.times import parse, precise, shown, shown_or_none

Request = Mapping[str, Any]

SUPERSEDED = "superseded"
SUPERSEDED_NOTE = "Superseded by subsequent beginTurn without explicit complete/fail"


def begin_turn(pen: Pen, request: Request) -> dict[str, Any]:
    """Start a turn; one still open is failed as superseded in the same transaction."""
    request_id = request.get("request_id") or ""
    if request_id:
        check_request_id(request_id)
        existing = pen.turn(request_id)
        if existing is not None:
            raise TurnAlreadyExists(
                "Turn with request ID already exists in current session",
                details={
                    "request_id": request_id,
                    "session_id": pen.session.id,
                    "existing_turn_status": str(existing.status),
                },
            )
    else:
        request_id = _free_request_id(pen, request["query_title"])
    superseded = supersede_open_turn(pen, SUPERSEDED_NOTE)
    body: dict[str, Any] = {"query_title": request["query_title"], "query_text": request["query_text"]}
    for name in ("model", "plan_file", "todo_id"):
        if not is_empty(name, request.get(name)):
            body[name] = request[name]
    body.setdefault("model", pen.session.model)
    for name in ("tags", "context_list"):
        items = [item for item in dict.fromkeys(request.get(name) or ()) if item.strip()]
        if items:
            body[name] = items
    pen.write(Kind.TURN_BEGUN, body, request_id)
    return {
        "session_id": pen.session.id,
        "request_id": request_id,
        "status": "in_progress",
        "timestamp": shown(pen.now),
        "superseded_request_id": superseded,
    }


def _free_request_id(pen: Pen, title: str) -> str:
    minted = mint_request_id(title, pen.now)
    n = 1
    while pen.turn(numbered(minted, n)) is not None:
        n += 1
    return numbered(minted, n)


def supersede_open_turn(pen: Pen, note: str) -> str | None:
    """Fail the turn begun last if it is still open, and return its id."""
    current = pen.session.current_turn
    turn = pen.turn(current) if current else None
    if turn is None or turn.is_terminal:
        return None
    _end_turn(pen, turn, TurnStatus.FAILED, _failure(note, SUPERSEDED))
    return turn.request_id


def update_turn(pen: Pen, request: Request) -> dict[str, Any]:
    """Change the open turn: fields by sparse merge, dialog and actions appended as given."""
    if not any(name in request for name in TURN_FIELDS):
        raise InvalidParameter(
            "Parameter 'response' is invalid: at least one field besides the ids is needed",
            details={
                "parameter": "response",
                "value": None,
                "constraint": "at least one field besides the ids is needed",
                "allowed": list(TURN_FIELDS),
                "problem": "missing",
            },
        )
    turn = open_turn(pen, request.get("request_id"))
    _write_changes(pen, turn, request, united=False)
    turn = _known(pen, turn.request_id)
    return {
        "session_id": pen.session.id,
        "request_id": turn.request_id,
        "updated": True,
        "last_updated": shown(turn.last_updated),
        "dialog_items": turn.dialog_items,
        "actions": turn.actions,
    }


def finish_turn(pen: Pen, request: Request) -> dict[str, Any]:
    """End a turn, after applying the fields that came along; the same outcome again changes nothing."""
    outcome = TurnStatus(request["outcome"])
    turn = addressed_turn(pen, request.get("request_id"))
    if turn.is_terminal:
        if turn.status is not outcome:
            raise immutable(turn)
        _warn_of_ignored(pen, turn, request)
    elif outcome is TurnStatus.COMPLETED:
        _complete(pen, turn, request)
    else:
        _fail(pen, turn, request)
    turn = _known(pen, turn.request_id)
    return {
        "session_id": pen.session.id,
        "request_id": turn.request_id,
        "status": str(turn.status),
        "finished_at": shown_or_none(turn.finished_at),
        "error_code": turn.error_code,
    }


def _complete(pen: Pen, turn: Turn, request: Request) -> None:
    _write_changes(pen, turn, {**request, "response": None}, united=True)
    turn = _known(pen, turn.request_id)
    given = request.get("response")
    response = turn.response if is_empty("response", given) else str(given)
    if is_empty("response", response):
        raise InvalidParameter.missing("response")
    _end_turn(pen, turn, TurnStatus.COMPLETED, {"response": response})


def _fail(pen: Pen, turn: Turn, request: Request) -> None:
    message = request.get("error_message")
    if is_empty("error_message", message):
        raise InvalidParameter.missing("error_message")
    _write_changes(pen, turn, request, united=True)
    _end_turn(
        pen,
        _known(pen, turn.request_id),
        TurnStatus.FAILED,
        _failure(str(message), request.get("error_code") or ""),
    )


def _failure(message: str, code: str) -> dict[str, Any]:
    return {"failure_note": f"{code}: {message}" if code else message, "error_code": code}


def _end_turn(pen: Pen, turn: Turn, status: TurnStatus, outcome: dict[str, Any]) -> None:
    if status not in TURN_MOVES[turn.status]:
        raise immutable(turn)
    kind = Kind.TURN_COMPLETED if status is TurnStatus.COMPLETED else Kind.TURN_FAILED
    seal = seal_of(turn, {**outcome, "status": str(status), "at": precise(pen.now)})
    pen.write(kind, {**outcome, "seal": seal}, turn.request_id)


def addressed_turn(pen: Pen, request_id: str | None) -> Turn:
    """Return the turn named, else the one begun last, even if it is terminal."""
    if request_id:
        check_request_id(request_id)
        turn = pen.turn(request_id)
        if turn is None:
            raise TurnNotFound(
                f"Turn not found: {request_id}",
                details={"session_id": pen.session.id, "request_id": request_id},
            )
        return turn
    current = pen.session.current_turn
    turn = pen.turn(current) if current else None
    if turn is None:
        raise TurnNotFound("No active turn", details={"session_id": pen.session.id})
    return turn


def open_turn(pen: Pen, request_id: str | None) -> Turn:
    """Return the addressed turn, refusing one that is terminal."""
    turn = addressed_turn(pen, request_id)
    if turn.is_terminal:
        raise immutable(turn)
    return turn


def immutable(turn: Turn) -> TurnImmutable:
    """Return the error that answers any change of a terminal turn."""
    return TurnImmutable(
        f"Turn is immutable (status: {turn.status})",
        details={
            "turn_request_id": turn.request_id,
            "request_id": turn.request_id,
            "current_status": str(turn.status),
            "completed_at": shown_or_none(turn.finished_at),
        },
    )


def _known(pen: Pen, request_id: str) -> Turn:
    turn = pen.turn(request_id)
    if turn is None:
        raise TurnNotFound(f"Turn not found: {request_id}", details={"request_id": request_id})
    return turn


def _write_changes(pen: Pen, turn: Turn, request: Request, *, united: bool) -> None:
    body: dict[str, Any] = {}
    cleared = effective_clear(turn, request.get("clear") or ())
    if cleared:
        pen.write(Kind.TURN_UPDATED, {"clear": cleared}, turn.request_id)
        turn = _known(pen, turn.request_id)
    body = changes_to(turn, request)
    if body:
        pen.write(Kind.TURN_UPDATED, body, turn.request_id)
    dialog = [_dialog_body(item, pen.now) for item in request.get("dialog") or ()]
    actions: list[dict[str, Any]] = list(request.get("actions") or ())
    if united and (dialog or actions):
        dialog, actions = _not_stored(pen, turn, dialog, actions)
    for item in dialog:
        pen.write(Kind.DIALOG, item, turn.request_id)
    for item in actions:
        _write_action(pen, turn.request_id, item)
    usage = {name: value for name, value in (request.get("usage") or {}).items() if value}
    if usage:
        pen.write(Kind.USAGE, usage, turn.request_id)


def _dialog_body(item: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    at = parse(item["timestamp"]) if item.get("timestamp") else now
    return {
        "role": item["role"],
        "category": item["category"],
        "content": item["content"],
        "timestamp": shown(at),
    }


def _write_action(pen: Pen, request_id: str, item: Mapping[str, Any]) -> None:
    kind = item["type"]
    if kind not in KNOWN_ACTION_TYPES:
        pen.warn("nonstandard_action_type", f"Action type '{kind}' is not a standard one; stored as given", type=kind)
    order = item.get("order")
    body = {
        "order": _known(pen, request_id).last_order + 1 if order is None else order,
        "description": item["description"],
        "type": kind,
        "status": item["status"],
        "file_path": item.get("file_path", ""),
    }
    pen.write(Kind.ACTION, body, request_id)


def _not_stored(
    pen: Pen, turn: Turn, dialog: list[dict[str, Any]], actions: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    stored = pen.reader.entries(
        pen.session.id,
        after=turn.begun_seq,
        until=turn.last_seq,
        turn=turn.request_id,
        kinds=(Kind.DIALOG, Kind.ACTION),
    )
    said = {dialog_key(e.facts) for e in stored if e.kind is Kind.DIALOG and e.seq > turn.dialog_floor}
    acts = [e.facts for e in stored if e.kind is Kind.ACTION and e.seq > turn.actions_floor]
    numbered_acts = {action_key(facts) for facts in acts}
    plain_acts = {action_key(facts)[1:] for facts in acts}
    fresh: list[dict[str, Any]] = []
    for item in actions:
        key = action_key({"file_path": "", **item})
        # Without an order of its own an action is the stored one if all else is equal.
        if (key[1:] in plain_acts) if key[0] is None else (key in numbered_acts):
            continue
        fresh.append(item)
    return [item for item in dialog if dialog_key(item) not in said], fresh


def _warn_of_ignored(pen: Pen, turn: Turn, request: Request) -> None:
    stored: dict[str, Any] = {name: getattr(turn, name) for name in (*TEXT_FIELDS, "token_count")}
    stored["error_code"] = turn.error_code
    for name, value in stored.items():
        given = request.get(name)
        if not is_empty(name, given) and given != value:
            _ignored(pen, name)
    message = request.get("error_message")
    if message and turn.failure_note not in (message, f"{turn.error_code}: {message}"):
        _ignored(pen, "error_message")
    for name in LIST_FIELDS:
        if set(request.get(name) or ()) - set(getattr(turn, name)):
            _ignored(pen, name)
    dialog = [_dialog_body(item, pen.now) for item in request.get("dialog") or ()]
    dialog, actions = _not_stored(pen, turn, dialog, list(request.get("actions") or ()))
    more = {"dialog": dialog, "actions": actions, "commits": changes_to(turn, request).get("add", {}).get("commits")}
    for name in (*(name for name, items in more.items() if items), "usage", "clear"):
        if more.get(name) or request.get(name):
            _ignored(pen, name)


def _ignored(pen: Pen, name: str) -> None:
    pen.warn("ignored_field", f"The turn is terminal; '{name}' differs from what is stored and was ignored", field=name)
