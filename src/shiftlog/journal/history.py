"""Reading the history: search, lists, one session or one turn whole. Reads write nothing.

An answer is a page: `items`, `total`, `next_cursor`, `truncated`. It never exceeds `max_chars`; what does not fit
is cut, says so, and names where to read on.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from shiftlog.journal.chain import check_chain
from shiftlog.journal.cursors import Cursor, decoded
from shiftlog.journal.fitting import fit_answer, fit_items
from shiftlog.journal.history_items import (
    Item,
    entry_item,
    file_item,
    run_item,
    session_facts,
    session_item,
    turn_contents,
    turn_facts,
    turn_item,
)
from shiftlog.journal.history_requests import QUERY_HISTORY, filter_of
from shiftlog.journal.journal import Answered, Journal, find_session
from shiftlog.journal.snippets import snippet
from shiftlog.journal.texts import COMMAND, DECISION, search_text
from shiftlog.model.caller import Caller
from shiftlog.model.entry import Entry, Kind
from shiftlog.model.errors import InvalidParameter, TurnNotFound
from shiftlog.model.nouns import Session
from shiftlog.model.search import Expr, parse, positive_terms
from shiftlog.store.protocol import Filter, Hit, Page, Reader, Unit

DEFAULT_LIMIT = 10
DEFAULT_CHARS = 12_000
RANKED_MOST = 10_000
_UNITS: dict[str, Unit] = {"session": "session", "run": "session", "turn": "turn", "file": "turn"}
_FACETS = {"decision": (DECISION,), "command": (COMMAND,)}


class History:
    """Answer questions about what was recorded."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def query_history(self, arguments: Mapping[str, Any], caller: Caller) -> Answered:
        """Search or list sessions, turns and entries, or read one of them whole."""
        values = self._journal.request("query_history", QUERY_HISTORY, arguments, caller).values
        now = self._journal.clock.now()
        return await self._journal.store.read(lambda reader: _query(reader, values, now))


def _query(reader: Reader, values: Mapping[str, Any], now: datetime) -> Answered:
    cursor = decoded(values.get("cursor"), values)
    if values.get("request_id"):
        if not values.get("session_id"):
            raise InvalidParameter.missing("session_id")
        return _one_turn(reader, values, cursor)
    if values.get("session_id") and not values.get("text") and not values.get("kinds"):
        return _one_session(reader, values, cursor)
    where = filter_of(reader, values)
    if values.get("text"):
        return _searched(reader, values, where, cursor, now)
    return _listed(reader, values, where, cursor, now)


def _limit(values: Mapping[str, Any]) -> int:
    return int(values.get("limit") or DEFAULT_LIMIT)


def _chars(values: Mapping[str, Any]) -> int:
    return int(values.get("max_chars") or DEFAULT_CHARS)


# One session, one turn


def _one_session(reader: Reader, values: Mapping[str, Any], cursor: Cursor) -> Answered:
    session = find_session(reader, values["session_id"])
    after = cursor.after[0] if cursor.after else 0
    turns = reader.turns(session.id, after=after, limit=_limit(values) + 1)
    shown_turns = turns[: _limit(values)]
    found = check_chain(
        session.id,
        reader.entries(session.id),
        head=reader.head(session.id),
        receipts=reader.receipts(session.id),
    )
    facts = session_facts(session)
    facts["chain"] = {"status": found.kind or "verified", "first_bad_seq": found.seq, "erased": found.erased}
    facts["children"] = [
        row.session.id for row in reader.find_sessions(Filter(parent_id=session.id), Page(limit=50))
    ]
    rows = [(turn_item(session.id, turn), (turn.ordinal, 0)) for turn in shown_turns]
    return fit_answer(
        {"session": facts},
        rows,
        values,
        total=session.turns_total,
        is_last=len(turns) <= _limit(values),
        max_chars=_chars(values),
    )


def _one_turn(reader: Reader, values: Mapping[str, Any], cursor: Cursor) -> Answered:
    session = find_session(reader, values["session_id"])
    turn = reader.turn(session.id, values["request_id"])
    if turn is None:
        raise TurnNotFound(
            f"Turn not found: {values['request_id']}",
            details={
                "session_id": session.id,
                "request_id": values["request_id"],
                "operation": "query_history",
            },
        )
    after = cursor.after[0] if cursor.after else turn.begun_seq
    limit = _limit(values) if values.get("limit") else 200
    entries = reader.entries(
        session.id,
        after=max(after, min(turn.dialog_floor, turn.actions_floor)),
        until=turn.last_seq,
        limit=limit + 1,
        turn=turn.request_id,
        kinds=(Kind.DIALOG, Kind.ACTION),
    )
    rows = [(item, (int(item["seq"]), 0)) for item in turn_contents(turn, entries[:limit])]
    return fit_answer(
        {"session_id": session.id, "turn": turn_facts(turn)},
        rows,
        values,
        total=turn.dialog_items + turn.actions,
        is_last=len(entries) <= limit,
        max_chars=_chars(values),
    )


# Lists


def _listed(
    reader: Reader, values: Mapping[str, Any], where: Filter, cursor: Cursor, now: datetime
) -> Answered:
    kinds = values.get("kinds") or ["session"]
    limit = _limit(values)
    rows: list[tuple[Item, Cursor]] = []
    is_last = True
    for part, kind in enumerate(kinds):
        if part < cursor.part:
            continue
        if len(rows) > limit:
            break
        page = Page(limit=limit + 1 - len(rows), after=cursor.after if part == cursor.part else None)
        rows.extend((item, Cursor(part=part, after=at)) for item, at in _rows(reader, kind, where, page, now))
    is_last = len(rows) <= limit
    total = sum(_count(reader, kind, where) for kind in kinds)
    return fit_items(rows[:limit], values, total=total, is_last=is_last, max_chars=_chars(values))


def _rows(
    reader: Reader, kind: str, where: Filter, page: Page, now: datetime
) -> Iterator[tuple[Item, tuple[int, int]]]:
    match kind:
        case "session":
            for row in reader.find_sessions(where, page):
                yield session_item(row.session, now=now), row.at
        case "run":
            for row in reader.find_sessions(_with_run(where), page):
                if row.session.run is not None:
                    yield run_item(row.session, row.session.run), row.at
        case "turn":
            for row in reader.find_turns(where, page):
                yield turn_item(row.session.id, row.turn), row.at
        case "file":
            for row in reader.find_files(where, page):
                yield file_item(row), row.at
        case _:
            for row in reader.find_entries(where, page, _FACETS.get(kind)):
                yield entry_item(row.session_id, row.entry, kind=kind), row.at


def _count(reader: Reader, kind: str, where: Filter) -> int:
    if kind == "run":
        return reader.count("session", _with_run(where))
    return reader.count("entry" if kind in _FACETS else kind, where, _FACETS.get(kind))


def _with_run(where: Filter) -> Filter:
    return replace(where, with_run=True)


# Text search


def _searched(
    reader: Reader, values: Mapping[str, Any], where: Filter, cursor: Cursor, now: datetime
) -> Answered:
    expr = parse(values["text"])
    if not positive_terms(expr):
        raise InvalidParameter.invalid("text", "at least one word that is not negated", values["text"])
    kinds = values.get("kinds") or ["session"]
    start = cursor.after[0] if cursor.after else 0
    limit = _limit(values)
    units: list[tuple[str, Hit]] = []
    total, complete = 0, True
    for kind in kinds:
        found = reader.search(
            expr,
            _with_run(where) if kind == "run" else where,
            unit=_UNITS.get(kind, "entry"),
            limit=start + limit,
            most=RANKED_MOST,
            facets=_FACETS.get(kind),
        )
        total += found.total
        complete = complete and found.complete
        units.extend((kind, hit) for hit in found.hits)
    units.sort(key=lambda unit: -unit[1].score)
    rows = [
        (item, Cursor(after=(start + n + 1, 0)))
        for n, (kind, hit) in enumerate(units[start : start + limit])
        for item in _hit_items(reader, kind, hit, expr, now)
    ]
    answered = fit_items(
        rows,
        values,
        total=total,
        is_last=start + limit >= total,
        max_chars=_chars(values),
    )
    if not complete:
        answered["total_is_lower_bound"] = True
    return answered


def _hit_items(reader: Reader, kind: str, hit: Hit, expr: Expr, now: datetime) -> Iterator[Item]:
    session = reader.session(hit.session_id)
    found = reader.entries(hit.session_id, after=hit.seq - 1, until=hit.seq)
    if session is None or not found:
        return
    entry = found[0]
    mark = {"score": round(hit.score, 4), "snippet": snippet(search_text(entry), expr), "seq": entry.seq}
    for item in _items_at(reader, kind, session, entry, now):
        yield {**item, **mark}


def _items_at(reader: Reader, kind: str, session: Session, entry: Entry, now: datetime) -> Iterator[Item]:
    turn = reader.turn(session.id, entry.turn) if entry.turn else None
    match kind:
        case "session":
            yield session_item(session, now=now)
        case "run" if session.run is not None:
            yield run_item(session, session.run)
        case "turn" if turn is not None:
            yield turn_item(session.id, turn)
        case "file" if turn is not None:
            for row in reader.find_files(Filter(session_id=session.id), Page(limit=50)):
                if row.request_id == turn.request_id:
                    yield file_item(row)
        case _:
            yield entry_item(session.id, entry, kind=kind)
