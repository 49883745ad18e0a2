"""Pages of a session's timeline: its turns in order and the entries between them, read from the store.

`steps` joins the entries of a turn into steps.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shiftlog.journal.history.items import turn_facts
from shiftlog.model.entry import Entry, Kind
from shiftlog.model.errors import InvalidParameter, TurnNotFound
from shiftlog.model.nouns import Session, Turn
from shiftlog.model.times import precise
from shiftlog.store.protocol import Filter, Page, Reader

TURNS_SHOWN = 30
LOOSE_READ = 400
ENTRIES_SHOWN = 150
CHILDREN_MOST = 500
TURNS_AT_ONCE = 2_000

# Kinds that are shown between turns.
LOOSE = tuple(kind for kind in Kind if not kind.startswith("turn.") and kind not in (Kind.DIALOG, Kind.ACTION))

Item = dict[str, Any]
_PLACE = re.compile(r"([0-9]{1,9})-([0-9]{1,9})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A turn, or entries between turns."""

    seq: int
    turn: Turn | None = None
    entries: tuple[Entry, ...] = ()


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
    pieces = [Piece(seq=turn.begun_seq, turn=turn) for turn in shown]
    gap: list[Entry] = []
    begins = [turn.begun_seq for turn in shown]
    for entry in (entry for entry in read if entry.turn is None):
        if gap and any(gap[0].seq < begun <= entry.seq for begun in begins):
            pieces.append(Piece(seq=gap[0].seq, entries=tuple(gap)))
            gap = []
        gap.append(entry)
    if gap:
        pieces.append(Piece(seq=gap[0].seq, entries=tuple(gap)))
    pieces.sort(key=lambda piece: piece.seq)
    last = shown[-1].ordinal if shown else ordinal
    return pieces, f"{last}-{until}" if more else None


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


def read_turn(
    reader: Reader, session: Session, turn: Turn, after: int, limit: int = ENTRIES_SHOWN
) -> tuple[list[Entry], int | None]:
    """Return the next entries of a turn that still count and, if there are more, the seq to go on after."""
    found: list[Entry] = []
    after = max(after, turn.begun_seq - 1)
    while len(found) <= limit:
        entries = reader.entries(session.id, after=after, until=session.head_seq, limit=limit + 1, turn=turn.request_id)
        found += [entry for entry in entries if counts(turn, entry)]
        if len(entries) <= limit:
            break
        after = entries[-1].seq
    return found[:limit], found[limit - 1].seq if len(found) > limit else None


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
