"""Import a session with turns that was recorded elsewhere: all of it becomes entries, or nothing.

Known items are not stored again, an open turn is merged, and a terminal turn gets an amendment. An import never closes,
re-opens or makes current a session that exists.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from shiftlog.dialects.mcpserver.naming import native_name
from shiftlog.dialects.mcpserver.objects import as_shown
from shiftlog.dialects.mcpserver.requests import HEADER_FACTS
from shiftlog.journal import rules
from shiftlog.journal.merge import TEXT_FIELDS, fresh_commits, is_empty
from shiftlog.journal.pen import Pen
from shiftlog.model.entry import Kind
from shiftlog.model.moves import TurnStatus
from shiftlog.model.nouns import Turn
from shiftlog.model.times import COMPACT, parse, precise, shown, truncated
from shiftlog.model.turn_texts import LIST_FIELDS

Values = Mapping[str, Any]

SOURCE = "import"
CLOSE_REASON = "imported"

_QUERY = ("query_title", "query_text")

_STATUSES: tuple[tuple[tuple[str, ...], TurnStatus], ...] = (
    (("failed", "interrupted", "superseded", "cancel"), TurnStatus.FAILED),
    (("completed", "partial"), TurnStatus.COMPLETED),
)


@dataclass(slots=True, kw_only=True)
class Tally:
    """The fate of the turns of an import."""

    imported: int = 0
    merged: int = 0
    skipped: int = 0
    amended: int = 0

    def add(self, other: "Tally") -> None:
        """Add the counts of further turns."""
        self.imported += other.imported
        self.merged += other.merged
        self.skipped += other.skipped
        self.amended += other.amended


def status_in(text: str | None) -> TurnStatus:
    """Return the status that a word of another system means."""
    word = (text or "").strip().casefold()
    for beginnings, status in _STATUSES:
        if word.startswith(beginnings):
            return status
    return TurnStatus.IN_PROGRESS


def session_facts(values: Values) -> dict[str, Any]:
    """Return the non-empty facts of a session from an import or an opening."""
    facts = {name: values.get(name) for name in ("title", "model")}
    facts |= {fact: values.get(native_name(name)) for name, fact in HEADER_FACTS.items()}
    return {name: value for name, value in facts.items() if not is_empty(name, value)}


def create_session(pen: Pen, values: Values, facts: Mapping[str, Any]) -> None:
    """Write the first entries of a session that is not known yet: suspended, or closed if it was completed."""
    started, last_updated = _span(values, pen.now)
    pen.as_of = last_updated if last_updated != pen.now else None
    body = {**facts, "state": "suspended", "started": precise(started), "tags": _tags(values)}
    pen.write(Kind.SESSION_OPENED, {name: value for name, value in body.items() if value})


def close_created(pen: Pen, values: Values) -> None:
    """Close a session that was just created, if it came as completed."""
    if (values.get("status") or "").strip().casefold() == TurnStatus.COMPLETED:
        body = {"reason": CLOSE_REASON, "reason_class": "other", "policy": "successor_allowed"}
        pen.write(Kind.SESSION_CLOSED, body)


def merge_session(pen: Pen, values: Values) -> None:
    """Write what an import changes of a session that exists: empty values change nothing, the span only grows."""
    session = pen.session
    changes = {n: v for n, v in session_facts(values).items() if v != getattr(session, n)}
    tags = [tag for tag in _tags(values) if tag not in session.tags]
    if tags:
        changes["tags"] = [*session.tags, *tags]
    # The beginning of a known turn never changes.
    timed = [turn for turn in values.get("turns") or () if turn.get("timestamp")]
    new = [turn for turn in timed if pen.turn(turn["request_id"]) is None]
    started = min(filter(None, (_time(values.get("started")), *_turn_times(new))), default=session.started)
    if shown(started) < shown(session.started):  # as it was shown, it may come back
        changes["started"] = precise(started)
    given = _time(values.get("last_updated"))
    latest = None if given is None else min(truncated(given), pen.now)
    pen.as_of = max(session.last_activity, latest) if latest else None
    if changes or (latest is not None and latest > session.last_activity):
        pen.write(Kind.SESSION_UPDATED, changes)


def import_turns(pen: Pen, turns: Sequence[Values], tally: Tally) -> None:
    """Write the new parts of the turns, the earliest turn first, and count the outcomes."""
    for turn in sorted(turns, key=lambda turn: begun_at(turn, pen.now)):
        _import_turn(pen, turn, tally)


def note_import(pen: Pen, tally: Tally, *, elsewhere: bool = False) -> str:
    """Write the entry of the import, if it changed this or another session; return its hash."""
    if pen.written or elsewhere:
        counts = {"imported": tally.imported, "merged": tally.merged, "amended": tally.amended}
        return pen.write(Kind.IMPORT_NOTED, {"source": SOURCE, **counts}).hash
    return pen.session.import_hash or pen.session.head_hash


def begun_at(turn: Values, now: datetime) -> datetime:
    """Return when a turn began: as it says, else as its id says, and never later than now."""
    given = _time(turn.get("timestamp"))
    if given is None:
        given = datetime.strptime(turn["request_id"].split("-")[1], COMPACT).replace(tzinfo=UTC)
    return min(truncated(given), now)


def _import_turn(pen: Pen, incoming: Values, tally: Tally) -> None:
    turn = pen.turn(incoming["request_id"])
    notes: Sequence[Values] = incoming.get("amendments") or ()
    if turn is None:
        _begin(pen, incoming)
        _amend(pen, incoming["request_id"], notes)
        tally.imported += 1
        return
    if turn.is_terminal:
        tally.skipped += 1
        tally.amended += _amend(pen, turn.request_id, ({"fields": incoming}, *notes))
        return
    before = pen.written
    _merge(pen, turn, incoming)
    _amend(pen, turn.request_id, notes)
    changed = pen.written > before
    tally.merged += changed
    tally.skipped += not changed


def _amend(pen: Pen, request_id: str, notes: Sequence[Values]) -> bool:
    """Write the new fields of each note to a terminal turn; return True if there were any. An open turn gets none."""
    before = pen.written
    for note in notes:
        turn = rules.addressed_turn(pen, request_id)
        fields = amendment_to(pen, turn, note["fields"]) if turn.is_terminal else {}
        if fields:
            body = {"source": note.get("source") or SOURCE, "seal": turn.seal, "fields": fields}
            given = _time(note.get("at"))
            when = {} if given is None else {"at": precise(min(given, pen.now))}
            pen.write(Kind.IMPORT_NOTED, body | when, request_id)
    return pen.written > before


def _begin(pen: Pen, incoming: Values) -> None:
    name = incoming["request_id"]
    title, text = (None if is_empty(field, incoming.get(field)) else incoming[field] for field in _QUERY)
    body: dict[str, Any] = {
        "query_title": title or name,
        "query_text": text or title or name,
        "timestamp": precise(begun_at(incoming, pen.now)),
        "imported": True,
        "model": pen.session.model,
    }
    for field in ("model", "plan_file", "todo_id"):
        if not is_empty(field, incoming.get(field)):
            body[field] = incoming[field]
    pen.write(Kind.TURN_BEGUN, body, name)
    _merge(pen, rules.addressed_turn(pen, name), incoming, ended=_last_heard_of(incoming, pen))


def _last_heard_of(incoming: Values, pen: Pen) -> datetime:
    """Return the end of an imported turn: its last item, else the end of the session, else its beginning."""
    begun = begun_at(incoming, pen.now)
    spoken = [parse(item["timestamp"]) for item in incoming.get("dialog") or () if item.get("timestamp")]
    latest = max(spoken, default=pen.as_of or begun)
    return min(max(truncated(latest), begun), pen.now)


def _merge(pen: Pen, turn: Turn, incoming: Values, ended: datetime | None = None) -> None:
    """Merge an imported turn into an open one, and end it if the import says so, at the known time or now."""
    rules.write_changes(pen, turn, incoming, as_shown)
    text = incoming.get("query_text")
    if not is_empty("query_text", text) and text != turn.query_text:
        pen.write(Kind.TURN_UPDATED, {"set": {"query_text": text}}, turn.request_id)
    status = status_in(incoming.get("status"))
    turn = rules.addressed_turn(pen, turn.request_id)
    session_as_of, pen.as_of = pen.as_of, ended or pen.as_of
    if status is TurnStatus.COMPLETED:
        rules.end_turn(pen, turn, status, {"response": turn.response})
    elif status is TurnStatus.FAILED:
        rules.end_turn(pen, turn, status, {"failure_note": _failure_note(incoming), "error_code": ""})
    pen.as_of = session_as_of


def _failure_note(incoming: Values) -> str:
    note = (incoming.get("failure_note") or "").strip()
    word = (incoming.get("status") or "").strip()
    return note or ("" if word.casefold() == TurnStatus.FAILED else word)


def amendment_to(pen: Pen, turn: Turn, incoming: Values) -> dict[str, Any]:
    """Return the fields that neither a terminal turn nor its amendments hold yet."""
    earlier: list[Mapping[str, Any]] = [note.fields for note in turn.amendments]
    fields: dict[str, Any] = {}
    for name in (*TEXT_FIELDS, "query_text", "token_count"):
        value = incoming.get(name)
        known = [getattr(turn, name), *(note[name] for note in earlier if name in note)]
        if not is_empty(name, value) and value not in known:
            fields[name] = value
    for name in LIST_FIELDS:
        known_items = {*getattr(turn, name), *(item for note in earlier for item in note.get(name, ()))}
        fields[name] = [i for i in dict.fromkeys(incoming.get(name) or ()) if i.strip() and i not in known_items]
    known_commits = [*turn.commits, *(commit for note in earlier for commit in note.get("commits", ()))]
    fields["commits"] = fresh_commits(known_commits, incoming.get("commits") or ())
    fields |= _items_beyond(pen, turn, incoming, earlier)
    fields |= _outcome_beyond(turn, incoming, earlier)
    return {name: value for name, value in fields.items() if value}


def _items_beyond(pen: Pen, turn: Turn, incoming: Values, earlier: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    given = incoming.get("dialog") or (), incoming.get("actions") or ()
    dialog, actions = rules.not_stored(pen, turn, *given, amended=earlier, form=as_shown)
    return {
        "dialog": [{**item, "timestamp": shown(_time(item.get("timestamp")) or pen.now)} for item in dialog],
        "actions": [{"file_path": "", **item} for item in actions],
    }


def _outcome_beyond(turn: Turn, incoming: Values, earlier: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    status = status_in(incoming.get("status"))
    beyond: dict[str, str] = {}
    if status is not TurnStatus.IN_PROGRESS and status is not turn.status:
        beyond["status"] = str(status)
    # A completed turn has no failure, also when it is new.
    note = "" if status is TurnStatus.COMPLETED else (incoming.get("failure_note") or "").strip()
    if note and note != turn.failure_note:
        beyond["failure_note"] = note
    return {name: value for name, value in beyond.items() if all(note.get(name) != value for note in earlier)}


def _tags(values: Values) -> list[str]:
    return [tag for tag in dict.fromkeys(values.get("tags") or ()) if tag.strip()]


def _time(text: str | None) -> datetime | None:
    return parse(text) if text else None


def _turn_times(turns: Sequence[Values]) -> list[datetime]:
    return [parse(turn["timestamp"]) for turn in turns if turn.get("timestamp")]


def _span(values: Values, now: datetime) -> tuple[datetime, datetime]:
    """Return the beginning and the last update of an imported session; absent times are now."""
    times = _turn_times(values.get("turns") or ())
    started = min(_time(values.get("started")) or now, *times, now)
    latest = max(_time(values.get("last_updated")) or now, *times, started)
    return truncated(started), min(truncated(latest), now)
