"""Pages of a session's timeline: its turns in order and the entries between them, read from the store.

`steps` joins the entries of a turn into steps.
"""

import heapq
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from shiftlog.journal.continuity.taken_back import TakenBack, taken_back
from shiftlog.journal.history.items import turn_facts
from shiftlog.model.entry import Entry, Kind
from shiftlog.model.errors import InvalidParameter, TurnNotFound
from shiftlog.model.nouns import Session, Turn
from shiftlog.model.times import millis, precise
from shiftlog.store.protocol import Filter, Page, Reader

TURNS_SHOWN = 30
LOOSE_READ = 400
ENTRIES_SHOWN = 150
# A call waits so many entries for its result before a page ends without it.
JOINED_WITHIN = 50
CHILDREN_MOST = 500
CHECKPOINTS_READ = 200
TURNS_AT_ONCE = 2_000

# Written at the moment when they happen; dialog and actions may come later, from a transcript.
LIVE = frozenset(kind for kind in Kind if kind.startswith(("command.", "checkpoint.", "shell.")))
# Kinds that are shown between turns.
LOOSE = tuple(kind for kind in Kind if not kind.startswith("turn.") and kind not in (Kind.DIALOG, Kind.ACTION))

Item = dict[str, Any]
_PLACE = re.compile(r"([0-9]{1,9})-([0-9]{1,9})", re.ASCII)
_TURN_PLACE = re.compile(r"([0-9]{1,9})-([0-9]{1,9})-([0-9]{1,15})", re.ASCII)
_NOT_LIVE = tuple(kind for kind in Kind if kind not in LIVE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A turn, or entries between turns."""

    seq: int
    turn: Turn | None = None
    entries: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPlace:
    """A position inside a turn: the last entries shown of what was recorded live and of the rest, and their time."""

    live: int = 0
    rest: int = 0
    reached_ms: int = 0

    def __str__(self) -> str:
        return f"{self.live}-{self.rest}-{self.reached_ms}"

    @classmethod
    def read(cls, text: str | None, after: int = 0) -> "TurnPlace":
        """Read the position that a page before gave, else begin behind an entry."""
        if not text:
            return cls(live=after, rest=after)
        found = _TURN_PLACE.fullmatch(text)
        if found is None:
            raise InvalidParameter.invalid("place", "the next_place of the page before", text)
        return cls(live=int(found[1]), rest=int(found[2]), reached_ms=int(found[3]))


def read_pieces(
    reader: Reader, session: Session, place: str | None, limit: int = TURNS_SHOWN
) -> tuple[list[Piece], str | None]:
    """Return the next turns and the entries between them, and the position of the next page."""
    ordinal, seq = _read_position(place)
    turns = reader.turns(session.id, after=ordinal, limit=limit + 1)
    more = len(turns) > limit
    until = turns[limit].begun_seq - 1 if more else session.head_seq
    read = reader.entries(session.id, after=seq, until=until, limit=LOOSE_READ, kinds=LOOSE)
    if len(read) == LOOSE_READ and read[-1].seq < until:
        until, more = read[-1].seq, True
    shown = [turn for turn in turns[:limit] if turn.begun_seq <= until]
    more = more or len(shown) < len(turns)
    pieces = _placed(shown, [entry for entry in read if entry.turn is None])
    last = shown[-1].ordinal if shown else ordinal
    return pieces, f"{last}-{until}" if more else None


def _placed(turns: Sequence[Turn], loose: Sequence[Entry]) -> list[Piece]:
    """Return turns, and the entries between them in groups, in the order in which they happened."""
    begun: list[datetime] = []
    for turn in turns:
        # A transcript's clock may run backwards: a turn does not begin before the one before it.
        begun.append(max([turn.begun_at, *begun[-1:]]))
    groups: dict[int, list[Entry]] = {}
    for entry in loose:
        place = sum(turn.begun_seq < entry.seq for turn in turns)
        if entry.kind in LIVE:
            place = sum((at, turn.begun_seq) < (entry.at, entry.seq) for at, turn in zip(begun, turns, strict=True))
        groups.setdefault(place, []).append(entry)
    pieces: list[Piece] = []
    for place in range(len(turns) + 1):
        if place:
            pieces.append(Piece(seq=turns[place - 1].begun_seq, turn=turns[place - 1]))
        if place in groups:
            pieces.append(Piece(seq=groups[place][0].seq, entries=tuple(groups[place])))
    return pieces


def in_order(entries: Sequence[Entry]) -> Sequence[Entry]:
    """Return entries in the order in which they happened.

    An import writes the dialog of a turn after what was recorded meanwhile, such as an undo. Each of the two keeps its
    own order, because a transcript's clock may run backwards.
    """
    if all(before.at <= after.at for before, after in pairwise(entries)):
        return entries
    live = [entry for entry in entries if entry.kind in LIVE]
    rest = [entry for entry in entries if entry.kind not in LIVE]
    return [entry for _, entry in _merged(live, rest)]


def _merged(live: Sequence[Entry], rest: Sequence[Entry], reached_ms: int = 0) -> list[tuple[int, Entry]]:
    """Merge two rows of entries by time, and return each entry with its place in time in milliseconds."""
    merged = heapq.merge(_timed(live, reached_ms), _timed(rest, reached_ms), key=lambda one: (one[0], one[1].seq))
    return list(merged)


def _timed(entries: Sequence[Entry], reached_ms: int) -> Iterator[tuple[int, Entry]]:
    """Yield each entry with its place in time, which is never before that of the one before it."""
    for entry in entries:
        reached_ms = max(reached_ms, millis(entry.at))
        yield reached_ms, entry


def _read_position(place: str | None) -> tuple[int, int]:
    if not place:
        return 0, 0
    found = _PLACE.fullmatch(place)
    if found is None:
        raise InvalidParameter.invalid("place", "the next_place of the page before", place)
    return int(found[1]), int(found[2])


def find_turn(reader: Reader, session: Session, name: str) -> Turn:
    """Return the turn with that request id."""
    turn = reader.turn(session.id, name)
    if turn is None:
        raise TurnNotFound(f"Turn not found: {name}", details={"session_id": session.id, "request_id": name})
    return turn


def late_notes(reader: Reader, session: Session, after: int) -> list[Entry]:
    """Return what was noted of turns behind an entry; an ended turn gets nothing else."""
    return reader.entries(session.id, after=after, until=session.head_seq, kinds=(Kind.IMPORT_NOTED,))


def read_turn(
    reader: Reader,
    session: Session,
    turn: Turn,
    place: TurnPlace,
    limit: int = ENTRIES_SHOWN,
    late: Sequence[Entry] | None = None,
) -> tuple[list[Entry], str | None]:
    """Return the next entries of a turn that still count, in the order in which they happened.

    The second value is the position of the next page, if there is one. A call and its result stay on one page if
    they are near each other. Who reads many turns gives the `late` notes: finding them reads the rest of the session.
    """
    room = limit + JOINED_WITHIN
    live = _read_row(reader, session, turn, place.live, room, LIVE)
    rest = _read_row(reader, session, turn, place.rest, room, _NOT_LIVE)
    if len(rest) <= room:
        late = late_notes(reader, session, turn.last_seq) if late is None else late
        shown = max(place.rest, turn.last_seq)
        rest = [*rest, *(note for note in late if note.turn == turn.request_id and note.seq > shown)][: room + 1]
    merged = _merged(live, rest, place.reached_ms)[: room + 1]
    entries = [entry for _, entry in merged]
    if len(entries) <= limit:
        return entries, None
    end = _end_of_page(entries, limit)
    if end >= len(entries):
        return entries, None
    shown = entries[:end]
    return shown, str(
        TurnPlace(
            live=max((entry.seq for entry in shown if entry.kind in LIVE), default=place.live),
            rest=max((entry.seq for entry in shown if entry.kind not in LIVE), default=place.rest),
            reached_ms=merged[end - 1][0],
        )
    )


def _read_row(
    reader: Reader, session: Session, turn: Turn, after: int, limit: int, kinds: Iterable[Kind]
) -> list[Entry]:
    """Return the next entries of some kinds that still count, one more than the limit if there are more."""
    found: list[Entry] = []
    after, until, name, kinds = max(after, turn.begun_seq - 1), turn.last_seq, turn.request_id, tuple(kinds)
    while len(found) <= limit:
        entries = reader.entries(session.id, after=after, until=until, limit=limit + 1, turn=name, kinds=kinds)
        found += [entry for entry in entries if counts(turn, entry)]
        if len(entries) <= limit:
            break
        after = entries[-1].seq
    return found[: limit + 1]


def _end_of_page(entries: Sequence[Entry], limit: int) -> int:
    """Return where a page of about `limit` entries ends, so that no call is cut off from a result soon after it."""
    names = [str(entry.facts.get("command_id") or entry.facts.get("call_id") or "") for entry in entries]
    for end in range(limit, len(entries)):
        begun = set(names[:end]) - {""}
        if begun.isdisjoint(names[end : end + JOINED_WITHIN]):
            return end
    return limit


def counts(turn: Turn, entry: Entry) -> bool:
    """Return True if an entry is still part of its turn: neither cleared nor deleted."""
    if entry.kind is Kind.DIALOG:
        return turn.keeps_dialog(entry.seq)
    return entry.kind is not Kind.ACTION or turn.keeps_action(entry.seq)


def read_children(reader: Reader, session: Session) -> list[Session]:
    """Return the sessions that a session spawned, in the order of their start."""
    rows = reader.find_sessions(Filter(parent_id=session.id), Page(limit=CHILDREN_MOST))
    return sorted((row.session for row in rows), key=lambda child: (child.started, child.id))


def is_of(child: Session, turn: Turn) -> bool:
    """Return True if a turn spawned a child: by the child's own record, else by its start time."""
    if child.parent_turn is not None:
        return child.parent_turn == turn.request_id
    return turn.begun_at <= child.started and (turn.finished_at is None or child.started <= turn.finished_at)


def read_strays(reader: Reader, session: Session, children: Sequence[Session]) -> list[Session]:
    """Return the children that no turn spawned."""
    strays, after = list(children), 0
    while strays and (turns := reader.turns(session.id, after=after, limit=TURNS_AT_ONCE)):
        strays = [child for child in strays if not any(is_of(child, turn) for turn in turns)]
        after = turns[-1].ordinal
    return strays


def turn_document(turn: Turn) -> Item:
    """Return a turn for the page and its JSON twin."""
    return {
        **turn_facts(turn),
        "begun_seq": turn.begun_seq,
        "last_seq": turn.last_seq,
        "files": [
            {
                "path": path,
                "changes": touch.changes,
                "last_type": touch.last_type,
                "seq": touch.seq,
                "seen": touch.seen,
            }
            for path, touch in turn.files.items()
        ],
    }


def entry_document(entry: Entry) -> Item:
    """Return an entry as the journal has it."""
    return {
        "seq": entry.seq,
        "kind": str(entry.kind),
        "at": precise(entry.at),
        "request_id": entry.turn,
        "body": entry.body,
        "erased": entry.body is None,
        "body_hash": entry.body_hash,
        "hash": entry.hash,
    }


def read_restores(reader: Reader, session: Session) -> list[TakenBack]:
    """Return the restores that took work of a session away and still stand."""
    saved = reader.entries(session.id, until=session.head_seq, limit=CHECKPOINTS_READ, kinds=(Kind.CHECKPOINT_SAVED,))
    return taken_back(reader, session, saved) if saved else []


def who_took_back(restores: Sequence[TakenBack], turn: Turn, entries: Sequence[Entry] = ()) -> str | None:
    """Return who took back work of a turn, wholly or in part; `entries` are those of the turn that are known."""
    commands = [str(entry.facts["command_id"]) for entry in entries if entry.facts.get("command_id")]
    touched = [(path, turn.finished_at or turn.last_updated) for path in turn.files]
    return next((one.who for one in reversed(restores) if one.takes(touched, turn, commands)), None)
