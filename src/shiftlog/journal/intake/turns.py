"""Write the imported facts of a turn: changes, its end, and amendments after its end.

A transcript only fills empty fields of a turn that was written live, and unites lists; the agent's own words win.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from shiftlog.facts.batch import Incoming
from shiftlog.journal.encoding import salt_from
from shiftlog.journal.intake.origins import Origins
from shiftlog.journal.intake.pen import IntakePen, Pens
from shiftlog.journal.merge import MAX_LIST_ITEMS, TEXT_FIELDS, action_key, changes_to, dialog_key, is_empty
from shiftlog.journal.projection import seal_of
from shiftlog.model.entry import Kind
from shiftlog.model.moves import TurnStatus
from shiftlog.model.nouns import Turn
from shiftlog.model.turn_texts import LIST_FIELDS, shortened_result
from shiftlog.store.codec import blobs
from shiftlog.store.codec.documents import decode_body

SOURCE = "import"
_TEXTS = (*TEXT_FIELDS, "query_text")
# Fields that no agent writes itself: a transcript may add them to a turn that was written live.
_IMAGES = "images"


def write(pen: IntakePen, kind: Kind, at: str, body: dict[str, Any], turn: str | None = None) -> None:
    """Write an entry that is derived from others, under a salt that is derived from its position."""
    pen.write(kind, body, turn, at=at, salt=salt_from(pen.id, str(kind), str(pen.next_seq)))


def update_turn(pen: IntakePen, request_id: str, at: str, body: dict[str, Any], *, live: bool) -> None:
    """Write the fields of a turn that really change; of a terminal one as an amendment."""
    turn = pen.turn(request_id)
    if turn is None:
        return
    given: dict[str, Any] = body.get("sets") or {}
    sets = {name: value for name, value in given.items() if value is not None}
    adds: dict[str, list[Any]] = body.get("adds") or {}
    if live or turn.is_terminal:
        sets = {n: v for n, v in sets.items() if n == _IMAGES or (n in _TEXTS and is_empty(n, getattr(turn, n)))}
    if turn.is_terminal and not live and body.get("ends"):
        # The last blocker repeats an end that the turn has already: it timed out before it went on.
        adds = {**adds, "blockers": adds["blockers"][:-1]}
    incoming = {**{n: v for n, v in sets.items() if n in TEXT_FIELDS}, **_with_room(turn, adds)}
    if turn.is_terminal:
        amend(pen, turn, at, _beyond(turn, changes_to(turn, incoming)))
        return
    changes = changes_to(turn, incoming)
    prompt = sets.get("query_text")
    if prompt and prompt != turn.query_text:
        # The file was read up to between the beginning of the turn and its prompt.
        changes["set"] = {**changes.get("set", {}), "query_text": prompt}
    more = {name: value for name, value in sets.items() if name not in _TEXTS}
    if more and (more := pen.changed_fields(request_id, more)):
        changes["more"] = more
    if changes:
        write(pen, Kind.TURN_UPDATED, at, changes, request_id)


def _with_room(turn: Turn, adds: dict[str, list[Any]]) -> dict[str, list[Any]]:
    kept: dict[str, list[Any]] = {}
    for name in (*LIST_FIELDS, "commits"):
        items = adds.get(name)
        if items:
            kept[name] = items[: max(MAX_LIST_ITEMS - len(getattr(turn, name)), 0)]
    return kept


def _beyond(turn: Turn, changes: dict[str, Any]) -> dict[str, Any]:
    """Return the changes to a terminal turn that no amendment holds yet."""
    fields: dict[str, Any] = {**changes.get("set", {}), **changes.get("add", {})}
    for note in turn.amendments:
        for name, value in list(fields.items()):
            amended: Any = note.fields.get(name)
            if isinstance(value, list) and isinstance(amended, list):
                fields[name] = [item for item in value if item not in amended]  # pyright: ignore[reportUnknownVariableType]
            elif amended == value:
                del fields[name]
    return {name: value for name, value in fields.items() if value}


def amend(pen: IntakePen, turn: Turn, at: str, fields: dict[str, Any]) -> None:
    """Write an amendment of a terminal turn."""
    if any(fields.values()):
        body = {"source": SOURCE, "seal": turn.seal, "fields": fields}
        write(pen, Kind.IMPORT_NOTED, at, body, turn.request_id)


def end_turn(pen: IntakePen, request_id: str, at: str, body: dict[str, Any], *, live: bool) -> None:
    """End a turn as its transcript says; one that has ended keeps its end, and another response is an amendment."""
    turn = pen.turn(request_id)
    if turn is None:
        return
    response = body.get("response") or ""
    if turn.is_terminal:
        if live and response and response != turn.response:
            amend(pen, turn, at, _beyond(turn, {"set": {"response": response}}))
        return
    status = TurnStatus(body["status"])
    outcome: dict[str, Any] = {}
    if status is TurnStatus.COMPLETED:
        outcome["response"] = turn.response if live and turn.response else response or turn.response
    else:
        outcome |= {"failure_note": body.get("failure_note") or "", "error_code": body.get("error_code") or ""}
        if response and not turn.response:
            outcome["response"] = response
    if turn.usage is not None and not turn.token_count:
        outcome["token_count"] = turn.usage.tokens
    if body.get("model") and not (live and turn.model):
        outcome["model"] = body["model"]
    seal = seal_of(turn, {**outcome, "status": str(status), "at": at})
    more = {name: body[name] for name in ("duration_ms", "settled") if body.get(name)}
    kind = Kind.TURN_COMPLETED if status is TurnStatus.COMPLETED else Kind.TURN_FAILED
    write(pen, kind, at, {**outcome, **more, "seal": seal}, request_id)


def clear_items(pen: IntakePen, request_id: str, at: str) -> None:
    """Clear what an open turn has that came otherwise: the transcript tells it again, with all that is known of it."""
    turn = pen.turn(request_id)
    if turn is None or turn.is_terminal:
        return
    brought = [name for name, count in (("dialog", turn.dialog_items), ("actions", turn.actions)) if count]
    if brought:
        write(pen, Kind.TURN_UPDATED, at, {"clear": brought}, request_id)


class HeldItems:
    """The dialog items and actions that a turn recorded otherwise holds, so that a transcript does not tell them again.

    The session log keeps only the beginning of a long result, and numbers actions in its own order.
    """

    def __init__(self, pen: IntakePen, turn: Turn) -> None:
        kinds = (Kind.DIALOG, Kind.ACTION)
        until = min(turn.last_seq, pen.next_seq - pen.written - 1)
        stored = pen.reader.entries(pen.id, after=turn.begun_seq, until=until, turn=turn.request_id, kinds=kinds)
        spoken: list[dict[str, Any]] = []
        acted: list[dict[str, Any]] = []
        for entry in stored:
            if entry.kind is Kind.DIALOG and turn.keeps_dialog(entry.seq):
                spoken.append(entry.facts)
            elif entry.kind is Kind.ACTION and turn.keeps_action(entry.seq):
                acted.append(entry.facts)
        for note in turn.amendments:
            fields: dict[str, Any] = note.fields
            spoken += fields.get("dialog") or []
            acted += fields.get("actions") or []
        self._keys = Counter([*map(dialog_key, spoken), *(action_key(item)[1:] for item in acted)])

    def takes_dialog(self, item: Mapping[str, Any]) -> bool:
        """Return True if the turn holds an item, each of several equal ones once; a blank one says nothing."""
        if not str(item.get("content")).strip():
            return True
        return self._take(dialog_key(item)) or self._take(
            dialog_key({**item, "content": shortened_result(str(item.get("content")))})
        )

    def takes_action(self, item: Mapping[str, Any]) -> bool:
        """Return True if the turn holds an action; each of several equal ones once."""
        return self._take(action_key({"file_path": "", **item})[1:])

    def _take(self, key: tuple[Any, ...]) -> bool:
        held = self._keys[key] > 0
        self._keys[key] -= held
        return held


class HeldTurns:
    """The contents of those turns of a batch that were recorded otherwise."""

    def __init__(self, pens: Pens, origins: Origins) -> None:
        self._pens = pens
        self._origins = origins
        self._held: dict[tuple[str, str], HeldItems | None] = {}

    def of(self, session_id: str, request_id: str, item: Incoming) -> HeldItems | None:
        """Return the items of a turn that was recorded otherwise; None for a turn that only transcripts report."""
        place = session_id, request_id
        if place not in self._held:
            pen = self._pens[session_id]
            turn = pen.turn(request_id) if self._origins.is_live(session_id, item.turn) else None
            self._held[place] = HeldItems(pen, turn) if turn is not None else None
        return self._held[place]


def late_dialog(pen: IntakePen, request_id: str, items: Sequence[Incoming], held: HeldItems | None) -> None:
    """Write dialog items that came for a terminal turn, and that it does not hold, as one amendment of it."""
    turn = pen.turn(request_id)
    if turn is None:
        return
    dialog = [_item(item) for item in items]
    amend(pen, turn, items[-1].at, {"dialog": [one for one in dialog if held is None or not held.takes_dialog(one)]})


def _item(item: Incoming) -> dict[str, Any]:
    assert item.prepared is not None
    texts = {long.digest: blobs.unpack(long.data) for long in item.prepared.long_texts}
    body = decode_body(item.prepared.document, texts.__getitem__)
    return {name: value for name, value in body.items() if name != "test_clock"}
