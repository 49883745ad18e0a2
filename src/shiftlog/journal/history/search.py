"""Text search over the history: ranked matches with snippets, page by page.

Ranks move while others write. So a page does not continue at a position: it shows what earlier pages have not shown.
"""

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

from shiftlog.journal.history.cursors import Cursor
from shiftlog.journal.history.items import Item, entry_item, file_item, run_item, session_item, turn_item
from shiftlog.journal.history.requests import expression
from shiftlog.journal.history.snippets import snippet
from shiftlog.journal.runs.service import Runs
from shiftlog.journal.texts import COMMAND, DECISION, search_text
from shiftlog.model.search import Expr, matches
from shiftlog.store.protocol import FileRow, Filter, Hit, Page, Reader, TurnRow, Unit

RANKED_MOST = 10_000
FACETS = {"decision": (DECISION,), "command": (COMMAND,)}
_UNITS: dict[str, Unit] = {"session": "session", "run": "session", "turn": "turn", "file": "turn"}
_TRAILS_KEPT = 32
_AT_ONCE = 500

Key = tuple[object, ...]
Row = TypeVar("Row", TurnRow, FileRow)


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """One match: its kind, the entry that was found and, for a file, the path."""

    kind: str
    hit: Hit
    file: FileRow | None = None

    @property
    def key(self) -> Key:
        """Return the identity of the match; the entry that fits best may change between pages."""
        if self.kind in ("session", "run"):
            return self.kind, self.hit.session_id
        if self.kind in ("turn", "file"):
            return self.kind, self.hit.session_id, self.hit.turn, self.file.path if self.file else None
        return self.kind, self.hit.session_id, self.hit.seq


@dataclass(frozen=True, slots=True, kw_only=True)
class Matches:
    """A page of matches as rows for the answer; `complete` is false where too many matched to rank them all."""

    rows: Sequence[tuple[Item, Cursor]]
    total: int
    complete: bool
    is_last: bool


class Trails:
    """The results that the pages of recent searches have shown. A forgotten search continues by position."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, list[Key]] = OrderedDict()
        # Reads run in several threads; the lock protects the table and its lists.
        self._lock = threading.Lock()

    def shown(self, trail: int, count: int) -> list[Key] | None:
        """Return the results shown up to a place on a trail; None for a forgotten trail."""
        with self._lock:
            kept = self._kept.get(trail)
            return None if kept is None or len(kept) < count else kept[:count]

    def extend(self, trail: int, count: int, before: Sequence[Key], more: Sequence[Key]) -> int:
        """Add the results of a page and return its trail; a page that is read again begins a branch."""
        with self._lock:
            kept = self._kept.get(trail)
            if kept is None or len(kept) != count:
                trail = secrets.randbits(48)
                kept = list(before)
            self._kept[trail] = kept
            self._kept.move_to_end(trail)
            kept.extend(more)
            while len(self._kept) > _TRAILS_KEPT:
                self._kept.popitem(last=False)
            return trail


def find_matches(
    reader: Reader,
    values: Mapping[str, Any],
    where: Filter,
    cursor: Cursor,
    *,
    limit: int,
    now: datetime,
    trails: Trails,
    runs: Runs,
) -> Matches:
    """Return the best matches that no page before the cursor has shown."""
    expr = expression(values["text"])
    count, trail = cursor.after or (0, 0)
    ranked: list[Match] = []
    total, complete = 0, True
    for kind in dict.fromkeys(values.get("kinds") or ("session",)):
        found, of_kind, whole = _ranked(reader, kind, expr, where, count + limit + 1)
        ranked += found
        total += of_kind
        complete = complete and whole
    ranked.sort(key=lambda match: -match.hit.score)
    shown = trails.shown(trail, count)
    if shown is None:
        shown = [match.key for match in ranked[:count]]
    known = frozenset(shown)
    fresh = [match for match in ranked if match.key not in known]
    page = fresh[:limit]
    trail = trails.extend(trail, count, shown, [match.key for match in page])
    rows = [
        (item, Cursor(after=(count + n, trail)))
        for n, match in enumerate(page, start=1)
        for item in _items(reader, match, expr, now, runs)
    ]
    return Matches(rows=rows, total=total, complete=complete, is_last=len(fresh) <= limit)


def _ranked(reader: Reader, kind: str, expr: Expr, where: Filter, limit: int) -> tuple[list[Match], int, bool]:
    """Return the best matches of one kind, how many there are, and whether all were ranked."""
    asks_turn = where.asks_turn or where.from_ is not None or where.to is not None
    picky = kind == "file" or (kind == "turn" and asks_turn)
    found = reader.search(
        expr,
        replace(where, with_run=True) if kind == "run" else where,
        unit=_UNITS.get(kind, "entry"),
        limit=RANKED_MOST if picky else limit,
        most=RANKED_MOST,
        facets=FACETS.get(kind),
    )
    if not picky:
        return [Match(kind=kind, hit=hit) for hit in found.hits], found.total, found.complete
    # The store finds sessions by any of their turns; here the turn itself, or its files, must fit.
    picked = list(_picked(reader, kind, where, found.hits, expr))
    return picked, len(picked), found.complete


def _picked(reader: Reader, kind: str, where: Filter, hits: Sequence[Hit], expr: Expr) -> Iterator[Match]:
    """Yield the fitting turns, or their files: first those whose own names match."""
    fitting: dict[str, dict[str, list[FileRow | None]]] = {}
    for hit in hits:
        if hit.session_id not in fitting:
            fitting[hit.session_id] = _fitting(reader, kind, replace(where, session_id=hit.session_id))
        files = fitting[hit.session_id].get(hit.turn or "", ())
        for file in sorted(files, key=lambda file: file is None or not matches(expr, file.path)):
            yield Match(kind=kind, hit=hit, file=file)


def _fitting(reader: Reader, kind: str, where: Filter) -> dict[str, list[FileRow | None]]:
    """Return the turns of one session that fit the filter, each with its fitting files."""
    fitting: dict[str, list[FileRow | None]] = {}
    if kind == "turn":
        return {row.turn.request_id: [None] for row in _all(lambda page: reader.find_turns(where, page))}
    for row in _all(lambda page: reader.find_files(where, page)):
        fitting.setdefault(row.request_id, []).append(row)
    return fitting


def _all(find: Callable[[Page], list[Row]]) -> Iterator[Row]:
    after: tuple[int, int] | None = None
    while True:
        rows = find(Page(limit=_AT_ONCE, after=after))
        yield from rows
        if len(rows) < _AT_ONCE:
            return
        after = rows[-1].at


def _items(reader: Reader, match: Match, expr: Expr, now: datetime, runs: Runs) -> Iterator[Item]:
    hit = match.hit
    session = reader.session(hit.session_id)
    found = reader.entries(hit.session_id, after=hit.seq - 1, until=hit.seq)
    if session is None or not found:
        return
    entry = found[0]
    turn = reader.turn(session.id, entry.turn) if entry.turn else None
    mark = {
        "score": round(hit.score, 4),
        "snippet": snippet(search_text(entry.kind, entry.facts), expr),
        "seq": entry.seq,
    }
    match match.kind:
        case "session":
            yield {**session_item(session, now=now, runs=runs), **mark}
        case "run" if session.run is not None:
            yield {**run_item(session, session.run, runs.usage_of(session, reader)), **mark}
        case "turn" if turn is not None:
            yield {**turn_item(session, turn), **mark}
        case "file" if match.file is not None:
            yield {**file_item(match.file), **mark}
        case _:
            yield {**entry_item(session.id, entry, kind=match.kind), **mark}
