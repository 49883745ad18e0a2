"""The rules of turns: the entries that each request writes, given the session. Rules touch nothing but their pen.

Checks come in the order of the contract: does the turn exist, is it open, then its content. Leases come after them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from shiftlog.journal.hooked import adopting
from shiftlog.journal.merge import action_key, changes_to, dialog_key, effective_clear, fresh, is_empty
from shiftlog.journal.pen import Pen
from shiftlog.journal.projection import seal_of
from shiftlog.journal.requests import KNOWN_ACTION_TYPES, TURN_FIELDS
from shiftlog.model.entry import Entry, Kind
from shiftlog.model.errors import InvalidParameter, TurnAlreadyExists, TurnImmutable, TurnNotFound
from shiftlog.model.ids import check_request_id, free_id, mint_request_id
from shiftlog.model.moves import TURN_MOVES, TurnStatus
from shiftlog.model.nouns import Turn
from shiftlog.model.times import parse, precise, shown, shown_or_none

Request = Mapping[str, Any]
# Returns a stored item in the form in which a client reads it and may send it back.
ItemForm = Callable[[Entry], Mapping[str, Any]]

SUPERSEDED = "superseded"
SUPERSEDED_NOTE = "Superseded by subsequent beginTurn without explicit complete/fail"


def begin_turn(pen: Pen, request: Request) -> dict[str, Any]:
    """Start a turn. A turn that is still open fails as superseded, unless a hook began it for the same prompt."""
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
    hooked = adopting.turn_of_hook(pen)
    is_earlier = hooked is not None and adopting.is_of_earlier_prompt(pen, hooked)
    hooked = None if is_earlier else hooked
    if hooked is not None and not request_id:
        return adopting.go_on_in(pen, hooked, request)
    request_id = request_id or free_id(
        mint_request_id(request["query_title"], pen.now), lambda name: pen.turn(name) is not None
    )
    body: dict[str, Any] = {"query_title": request["query_title"], "query_text": request["query_text"]}
    superseded = None
    if hooked is not None and adopting.make_way(pen, hooked):
        body[adopting.ADOPTS] = hooked.request_id
    elif not is_earlier:  # the stop or the transcript of an earlier prompt reports its end
        superseded = supersede_open_turn(pen, SUPERSEDED_NOTE)
    for name in ("model", "plan_file", "todo_id"):
        if not is_empty(name, request.get(name)):
            body[name] = request[name]
    body.setdefault("model", pen.session.model)
    for name in ("tags", "context_list"):
        if items := fresh((), request.get(name) or ()):
            body[name] = items
    pen.write(Kind.TURN_BEGUN, body, request_id)
    return adopting.begun(pen, request_id, superseded)


def supersede_open_turn(pen: Pen, note: str) -> str | None:
    """Fail the turn begun last if it is still open, and return its id."""
    current = pen.session.current_turn
    turn = pen.turn(current) if current else None
    if turn is None or turn.is_terminal:
        return None
    end_turn(pen, turn, TurnStatus.FAILED, _failure(note, SUPERSEDED))
    return turn.request_id


def check_update(request: Request) -> None:
    """Refuse an update that holds nothing besides ids."""
    if not any(name in request for name in TURN_FIELDS):
        says = "at least one field besides the ids is needed"
        raise InvalidParameter(
            f"Parameter 'response' is invalid: {says}",
            details={
                "parameter": "response",
                "value": None,
                "constraint": says,
                "allowed": list(TURN_FIELDS),
                "problem": "missing",
            },
        )


def update_turn(pen: Pen, request: Request) -> dict[str, Any]:
    """Change the open turn: fields by sparse merge, dialog and actions appended as given."""
    turn = open_turn(pen, request.get("request_id"))
    write_changes(pen, turn, request)
    turn = _known(pen, turn.request_id)
    return {
        "session_id": pen.session.id,
        "request_id": turn.request_id,
        "updated": True,
        "last_updated": shown(turn.last_updated),
        "dialog_items": turn.dialog_items,
        "actions": turn.actions,
    }


def replace_actions(pen: Pen, request: Request) -> Request:
    """Remove the actions of a turn whose order is given again: the new ones report their progress.

    Actions that the journal recorded by itself, such as commands, stay, whatever their order. Of several actions with
    one order in a call the last counts. An action keeps its file unless a new one is given.
    """
    actions: Sequence[Mapping[str, Any]] = request.get("actions") or ()
    given = {item["order"]: item for item in actions if item.get("order") is not None}
    turn = pen.turn(request.get("request_id") or pen.session.current_turn or "") if given else None
    if turn is None or turn.is_terminal:
        return request
    stored = pen.reader.entries(
        pen.session.id, after=turn.begun_seq, until=turn.last_seq, turn=turn.request_id, kinds=(Kind.ACTION,)
    )
    replaced = [
        entry
        for entry in stored
        if entry.facts.get("order") in given and "command_id" not in entry.facts and turn.keeps_action(entry.seq)
    ]
    if replaced:
        dropped = [
            {"seq": entry.seq, "file_path": entry.facts.get("file_path", ""), "status": entry.facts.get("status")}
            for entry in replaced
        ]
        pen.write(Kind.TURN_UPDATED, {"drop": {"actions": dropped}}, turn.request_id)
    files = {int(entry.facts["order"]): str(entry.facts.get("file_path", "")) for entry in replaced}
    return {**request, "actions": [_going_on(item, files) for item in actions if _is_last(item, given)]}


def _is_last(item: Mapping[str, Any], given: Mapping[int, Mapping[str, Any]]) -> bool:
    return item.get("order") is None or given[item["order"]] is item


def _going_on(item: Mapping[str, Any], files: Mapping[int, str]) -> Mapping[str, Any]:
    kept = files.get(item["order"]) if item.get("order") is not None else None
    return {**item, "file_path": kept} if kept and not item.get("file_path") else item


def check_outcome(request: Request) -> None:
    """Refuse a failure that does not say what went wrong."""
    if request["outcome"] == TurnStatus.FAILED and is_empty("error_message", request.get("error_message")):
        raise InvalidParameter.missing("error_message")


def as_stored(entry: Entry) -> Mapping[str, Any]:
    """Return an item as it is stored."""
    return entry.facts


def finish_turn(pen: Pen, request: Request, form: ItemForm = as_stored) -> dict[str, Any]:
    """End a turn, after applying the fields that came along; the same outcome again changes nothing.

    Items that the turn holds already, as stored or in this form, are not stored twice.
    """
    outcome = TurnStatus(request["outcome"])
    turn = addressed_turn(pen, request.get("request_id"))
    if turn.is_terminal:
        if turn.status is not outcome:
            raise immutable(turn)
        _warn_of_ignored(pen, turn, request, form)
    elif outcome is TurnStatus.COMPLETED:
        _complete(pen, turn, request, form)
    else:
        _fail(pen, turn, request, form)
    turn = _known(pen, turn.request_id)
    return {
        "session_id": pen.session.id,
        "request_id": turn.request_id,
        "status": str(turn.status),
        "finished_at": shown_or_none(turn.finished_at),
        "error_code": turn.error_code,
    }


def _complete(pen: Pen, turn: Turn, request: Request, form: ItemForm) -> None:
    from_seq = pen.next_seq
    write_changes(pen, turn, {**request, "response": None}, form)
    turn = _known(pen, turn.request_id)
    given = request.get("response")
    response = turn.response if is_empty("response", given) else str(given)
    if is_empty("response", response):
        raise InvalidParameter.missing("response")
    for name in ("error_message", "error_code"):
        if not is_empty(name, request.get(name)):
            _ignored(pen, name, "A completed turn has no error")
    end_turn(pen, turn, TurnStatus.COMPLETED, {"response": response}, from_seq)


def _fail(pen: Pen, turn: Turn, request: Request, form: ItemForm) -> None:
    write_changes(pen, turn, request, form)
    code = request.get("error_code")
    outcome = _failure(str(request["error_message"]), "" if is_empty("error_code", code) else str(code))
    end_turn(pen, _known(pen, turn.request_id), TurnStatus.FAILED, outcome)


def _failure(message: str, code: str) -> dict[str, Any]:
    return {"failure_note": f"{code}: {message}" if code else message, "error_code": code}


def end_turn(pen: Pen, turn: Turn, status: TurnStatus, outcome: dict[str, Any], from_seq: int | None = None) -> None:
    """Write the terminal entry of a turn, with the seal over all that the turn holds.

    `from_seq` is the first entry of the request that ends it: a blocker in that request stays open.
    """
    if status not in TURN_MOVES[turn.status]:
        raise immutable(turn)
    kind = Kind.TURN_COMPLETED if status is TurnStatus.COMPLETED else Kind.TURN_FAILED
    seal = seal_of(turn, {**outcome, "status": str(status), "at": precise(pen.now)})
    begins = {"from_seq": from_seq} if from_seq not in (None, pen.next_seq) else {}
    pen.write(kind, {**outcome, **begins, "seal": seal}, turn.request_id)
    pen.announce(turn.request_id, kind)


def addressed_turn(pen: Pen, request_id: str | None) -> Turn:
    """Return the named turn, else the one that began last, even if it is terminal."""
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


def turn_of_client(pen: Pen, client_id: str | None) -> str | None:
    """Return the turn of a client that names none; None if there is none, or only another client's.

    It is the turn that the client began or joined, or that a hook began since; else the last, if no client began it.
    """
    current = pen.turn(pen.session.current_turn or "")
    last = current.request_id if current else None
    if client_id is None or current is None:
        return last
    mine = pen.reader.turn_of(pen.session.id, client_id)
    own = pen.turn(mine) if mine else None
    if own is not None and not (own.is_terminal and adopting.is_begun_by_hook(pen, current)):
        return own.request_id
    return last if pen.reader.client_of_turn(pen.session.id, current.request_id) in (None, client_id) else None


def open_turn_id(pen: Pen) -> str | None:
    """Return the id of the turn that began last if it is still open."""
    turn = pen.turn(pen.session.current_turn or "")
    return turn.request_id if turn is not None and not turn.is_terminal else None


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


def write_changes(pen: Pen, turn: Turn, request: Request, united_by: ItemForm | None = None) -> None:
    """Merge fields into an open turn; with `united_by`, items that it holds already are not stored twice."""
    cleared = effective_clear(turn, request.get("clear") or ())
    if cleared:
        pen.write(Kind.TURN_UPDATED, {"clear": cleared}, turn.request_id)
        turn = _known(pen, turn.request_id)
    body = changes_to(turn, request)
    if body:
        pen.write(Kind.TURN_UPDATED, body, turn.request_id)
    dialog: Sequence[Mapping[str, Any]] = request.get("dialog") or ()
    actions: Sequence[Mapping[str, Any]] = request.get("actions") or ()
    if united_by is not None and (dialog or actions):
        dialog, actions = not_stored(pen, turn, dialog, actions, form=united_by)
    for item in dialog:
        at = parse(item["timestamp"]) if item.get("timestamp") else pen.now
        body = {name: item[name] for name in ("role", "category", "content")}
        pen.write(Kind.DIALOG, {**body, "timestamp": shown(at)}, turn.request_id)
    order = next_order(pen, turn) if actions else 0
    for item in actions:
        order = _write_action(pen, turn.request_id, item, order)
    given: dict[str, Any] = request.get("usage") or {}
    usage = {name: value for name, value in given.items() if value}
    if usage:
        pen.write(Kind.USAGE, usage, turn.request_id)


def next_order(pen: Pen, turn: Turn) -> int:
    """Return the order of a turn's next action; actions that were cleared or deleted no longer count."""
    if not turn.dropped or pen.written:  # entries that wait for the commit cannot be read
        return turn.last_order + 1
    stored = pen.reader.entries(
        pen.session.id, after=turn.begun_seq, until=turn.last_seq, turn=turn.request_id, kinds=(Kind.ACTION,)
    )
    kept = (int(entry.facts.get("order", 0)) for entry in stored if turn.keeps_action(entry.seq))
    return max(kept, default=0) + 1


def _write_action(pen: Pen, request_id: str, item: Mapping[str, Any], next_one: int) -> int:
    """Write an action and return the order of the next one."""
    kind = item["type"]
    if kind not in KNOWN_ACTION_TYPES:
        pen.warn(
            "nonstandard_action_type",
            f"Action type '{kind}' is not a standard one; stored as given",
            type=kind,
        )
    given = item.get("order")
    order = next_one if given is None else given
    body = {
        "order": order,
        "description": item["description"],
        "type": kind,
        "status": item["status"],
        "file_path": item.get("file_path", ""),
    }
    pen.write(Kind.ACTION, body, request_id)
    return max(next_one, order + 1)


def not_stored(
    pen: Pen,
    turn: Turn,
    dialog: Iterable[Mapping[str, Any]],
    actions: Iterable[Mapping[str, Any]],
    amended: Sequence[Mapping[str, Any]] = (),
    form: ItemForm = as_stored,
) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Return the items that neither the turn, the amended fields nor an earlier item of the same call holds."""
    stored = pen.reader.entries(
        pen.session.id,
        after=turn.begun_seq,
        until=turn.last_seq,
        turn=turn.request_id,
        kinds=(Kind.DIALOG, Kind.ACTION),
    )
    spoken_of = [e for e in stored if e.kind is Kind.DIALOG and turn.keeps_dialog(e.seq)]
    acted_on = [e for e in stored if e.kind is Kind.ACTION and turn.keeps_action(e.seq)]
    spoken_keys = [dialog_key(known) for e in spoken_of for known in (e.facts, form(e))]
    acted_keys = [action_key(known) for e in acted_on for known in (e.facts, form(e))]
    spoken_keys += [dialog_key(item) for fields in amended for item in fields.get("dialog", ())]
    acted_keys += [action_key(item) for fields in amended for item in fields.get("actions", ())]
    spoken = ((dialog_key(_with_time(item)), item) for item in dialog)
    acted = ((action_key({"file_path": "", **item}), item) for item in actions)
    return _fresh(spoken_keys, spoken), _fresh(acted_keys, acted)


def _fresh(
    stored: Iterable[tuple[Any, ...]], given: Iterable[tuple[tuple[Any, ...], Mapping[str, Any]]]
) -> list[Mapping[str, Any]]:
    """Return the items with a new key. An item without a time or order of its own is known if all else is equal."""
    keys = set(stored)
    rests = {key[1:] for key in keys}
    fresh: list[Mapping[str, Any]] = []
    for key, item in given:
        if (key[1:] in rests) if key[0] is None else (key in keys):
            continue
        keys.add(key)
        rests.add(key[1:])
        fresh.append(item)
    return fresh


def _with_time(item: Mapping[str, Any]) -> dict[str, Any]:
    given = item.get("timestamp")
    return {**item, "timestamp": shown(parse(given)) if given else None}


def _warn_of_ignored(pen: Pen, turn: Turn, request: Request, form: ItemForm) -> None:
    """Name the given fields that differ from what the terminal turn holds."""
    changes = changes_to(turn, request)
    differing: list[str] = [*changes.get("set", ()), *changes.get("add", ())]
    code, message = request.get("error_code"), request.get("error_message")
    if not is_empty("error_code", code) and code != turn.error_code:
        differing.append("error_code")
    if not is_empty("error_message", message) and turn.failure_note not in (message, f"{turn.error_code}: {message}"):
        differing.append("error_message")
    dialog, actions = not_stored(pen, turn, request.get("dialog") or (), request.get("actions") or (), form=form)
    given: dict[str, Any] = request.get("usage") or {}
    usage = {name: value for name, value in given.items() if value}
    known = {name: getattr(turn.usage, name, None) for name in usage}
    more = {
        "dialog": dialog,
        "actions": actions,
        "usage": usage != known,
        "clear": effective_clear(turn, request.get("clear") or ()),
    }
    differing += [name for name, differs in more.items() if differs]
    for name in differing:
        _ignored(pen, name, "The turn is terminal and holds another value")


def _ignored(pen: Pen, name: str, reason: str) -> None:
    pen.warn("ignored_field", f"{reason}; '{name}' was ignored", field=name)
