"""One turn for a prompt that both a hook and its agent begin.

An agent that names no id continues the hook's turn. An agent that names its own id gets that turn, and the hook's is
deleted if nothing but its beginning was recorded; later requests for it find the agent's. A turn that has stopped, or
whose prompt is another one than the agent's, is left to its stop or its transcript: the hook of the agent's prompt was
lost.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from shiftlog.facts.batch import origin_key
from shiftlog.journal.clients import asked_name
from shiftlog.journal.hooked.stops import read_stops
from shiftlog.journal.merge import fresh, is_empty
from shiftlog.journal.pen import Pen
from shiftlog.model.entry import Entry, Kind
from shiftlog.model.nouns import Turn
from shiftlog.model.times import shown
from shiftlog.store.protocol import Reader

Request = Mapping[str, Any]

BY_HOOK = "hook"
ADOPTS = "adopts"
# A prompt and the beginning of its turn by the agent are no further apart.
SAME_MOMENT = timedelta(minutes=10)
_ITEMS = (Kind.TURN_UPDATED, Kind.DIALOG, Kind.ACTION)
# Facts of items that come from a vendor's own record; items that an agent reported itself have none of them.
_OF_VENDOR = ("call_id", "record", "vendor")


def turn_of_hook(pen: Pen) -> Turn | None:
    """Return the open turn that a hook began just now and that no agent has adopted yet."""
    turn = pen.turn(pen.session.current_turn or "")
    if turn is None or turn.is_terminal or pen.now - turn.begun_at > SAME_MOMENT:
        return None
    if not is_begun_by_hook(pen, turn):
        return None
    later = pen.reader.entries(pen.session.id, after=turn.begun_seq, turn=turn.request_id, kinds=_ITEMS)
    return None if any(map(_is_of_agent, later)) else turn


def is_of_earlier_prompt(pen: Pen, turn: Turn) -> bool:
    """Return True if a hook's turn belongs to an earlier prompt than the request: it stopped, or the prompts differ."""
    stop = read_stops(pen.reader).get(pen.id)
    if stop is not None and stop.turn == turn.request_id:
        return True
    asked = _prompt_of_request(pen)
    (begun,) = _beginning(pen, turn)
    return asked is not None and begun.facts.get("prompt_id") not in (None, asked)


def _prompt_of_request(pen: Pen) -> str | None:
    """Return the client's id of the prompt that the request belongs to: from the call, or from the hook before it."""
    signs = pen.signs
    if signs.prompt_id is not None or signs.tool_call is None:
        return signs.prompt_id
    key = origin_key(pen.session.agent, asked_name(signs.tool_call))
    told = pen.reader.origins([key]).get(key)
    return (told.doc or {}).get("prompt_id") if told is not None else None


def is_begun_by_hook(pen: Pen, turn: Turn) -> bool:
    """Return True if a hook began a turn, at its user's prompt."""
    begun = _beginning(pen, turn)
    return bool(begun) and begun[0].facts.get("opened_by") == BY_HOOK


def _beginning(pen: Pen, turn: Turn) -> Sequence[Entry]:
    return pen.reader.entries(pen.session.id, after=turn.begun_seq - 1, limit=1, turn=turn.request_id)


def _is_of_agent(entry: Entry) -> bool:
    if entry.kind is Kind.TURN_UPDATED:
        return bool(entry.facts.get("adopted"))
    return not any(name in entry.facts for name in _OF_VENDOR)


def go_on_in(pen: Pen, turn: Turn, request: Request) -> dict[str, Any]:
    """Adopt the hook's turn under its id, with the agent's title and text."""
    names = ("query_title", "query_text", "model", "plan_file", "todo_id")
    sets = {name: request[name] for name in names if not is_empty(name, request.get(name))}
    adds = {name: fresh(getattr(turn, name), request.get(name) or ()) for name in ("tags", "context_list")}
    body = {"set": sets, "add": {name: items for name, items in adds.items() if items}, "adopted": True}
    pen.write(Kind.TURN_UPDATED, {name: value for name, value in body.items() if value}, turn.request_id)
    pen.announce(turn.request_id)
    return begun(pen, turn.request_id, None)


def begun(pen: Pen, request_id: str, superseded: str | None) -> dict[str, Any]:
    """Return the answer to a request that began a turn."""
    turn = pen.turn(request_id)
    return {
        "session_id": pen.session.id,
        "request_id": request_id,
        "status": "in_progress",
        "timestamp": shown(turn.begun_at if turn else pen.now),
        "superseded_request_id": superseded,
    }


def make_way(pen: Pen, turn: Turn) -> bool:
    """Take the hook's turn out of its session, if nothing but its beginning is recorded."""
    if turn.last_seq != turn.begun_seq:
        return False
    pen.write(Kind.TURN_UPDATED, {"deleted": True, "current_turn": None}, turn.request_id)
    return True


def adopter_of(reader: Reader, session_id: str, request_id: str) -> str | None:
    """Return the turn for which a hook's turn made way."""
    for entry in reader.entries(session_id, kinds=(Kind.TURN_BEGUN,)):
        if entry.facts.get(ADOPTS) == request_id:
            return entry.turn
    return None
