"""Reading the history: search, lists, one session or one turn whole. Reads write nothing.

An answer is a page: `items`, `total`, `next_cursor`, `truncated`. It never exceeds `max_chars`; a text that does not
fit is cut, marked as cut, and names the call that reads on.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, cast

from shiftlog.journal.chain import check_chain
from shiftlog.journal.history.cursors import Cursor, decoded
from shiftlog.journal.history.fitting import TURN_URI, fit, size
from shiftlog.journal.history.items import (
    BY_ITSELF,
    TURN_KINDS,
    Item,
    entry_item,
    file_item,
    obligation,
    run_item,
    session_facts,
    session_item,
    turn_contents,
    turn_facts,
    turn_item,
)
from shiftlog.journal.history.requests import QUERY_HISTORY, check_question, filter_of
from shiftlog.journal.history.search import FACETS, Trails, find_matches
from shiftlog.journal.intake.origins import turn_by_any_id
from shiftlog.journal.journal import Answered, Journal, find_session
from shiftlog.journal.runs.service import Runs
from shiftlog.model.caller import Caller
from shiftlog.model.errors import TurnNotFound
from shiftlog.model.ids import is_session_id
from shiftlog.model.nouns import Session, Turn
from shiftlog.model.search import mask_terms
from shiftlog.store.protocol import Filter, Page, Reader

DEFAULT_LIMIT = 10
DEFAULT_CHARS = 12_000
CONTENTS_LIMIT = 200
SHARED_SHOWN = 50
CHILDREN_SHOWN = 50
SHORTEST_ITEM = 64
_ASKED = QUERY_HISTORY.fields.keys() - {"limit", "cursor", "max_chars", "order"}


class History:
    """Answer questions about what was recorded."""

    def __init__(self, journal: Journal, runs: Runs) -> None:
        self._journal = journal
        self._runs = runs
        self._trails = Trails()

    async def query_history(
        self, arguments: Mapping[str, Any], caller: Caller, warnings: Sequence[Item] = ()
    ) -> Answered:
        """Search or list sessions, turns and entries, or read one whole; `warnings` of a face count in its size."""
        request = self._journal.request("query_history", QUERY_HISTORY, arguments, caller, check_question)
        values = {name: value for name, value in request.values.items() if not _says_nothing(value)}
        if "text" in values:  # masked whole, an operator could be taken for a part of a secret
            values["text"] = mask_terms(arguments["text"], self._journal.masked_text)
        now = self._journal.clock.now()
        if not warnings:
            return await self._journal.read(request, lambda reader: self._query(reader, values, now))
        values["max_chars"] = _chars(values) - size({"warnings": warnings})
        answered = await self._journal.read(request, lambda reader: self._query(reader, values, now))
        return {**answered, "warnings": [*answered.get("warnings", []), *warnings]}

    def _query(self, reader: Reader, values: Mapping[str, Any], now: datetime) -> Answered:
        cursor = decoded(values.get("cursor"), values)
        if "request_id" in values:
            return _one_turn(reader, values, cursor)
        if values.keys() & _ASKED == {"session_id"}:
            return _one_session(reader, values, cursor, now, self._runs)
        where = filter_of(reader, values, now)
        if "text" in values:
            return self._searched(reader, values, where, cursor, now)
        return self._listed(reader, values, where, cursor, now)

    def _listed(
        self, reader: Reader, values: Mapping[str, Any], where: Filter, cursor: Cursor, now: datetime
    ) -> Answered:
        kinds = list(dict.fromkeys(values.get("kinds") or ["session"]))
        limit = _limit(values)
        rows: list[tuple[Item, Cursor]] = []
        for part, kind in enumerate(kinds):
            if part < cursor.part:
                continue
            if len(rows) > limit:
                break
            page = Page(
                limit=limit + 1 - len(rows),
                after=cursor.after if part == cursor.part else None,
                oldest_first=values.get("order") == "oldest",
            )
            rows.extend((item, Cursor(part=part, after=at)) for item, at in self._rows(reader, kind, where, page, now))
        return fit(
            {},
            rows[:limit],
            values,
            total=sum(_count(reader, kind, where) for kind in kinds),
            is_last=len(rows) <= limit,
            max_chars=_chars(values),
        )

    def _rows(
        self, reader: Reader, kind: str, where: Filter, page: Page, now: datetime
    ) -> Iterator[tuple[Item, tuple[int, int]]]:
        match kind:
            case "session":
                for row in reader.find_sessions(where, page):
                    yield session_item(row.session, now=now, runs=self._runs), row.at
            case "run":
                for row in reader.find_sessions(replace(where, with_run=True), page):
                    if row.session.run is not None:
                        used = self._runs.usage_of(row.session, reader)
                        yield run_item(row.session, row.session.run, used), row.at
            case "turn":
                for row in reader.find_turns(where, page):
                    yield turn_item(row.session, row.turn), row.at
            case "file":
                for row in reader.find_files(where, page):
                    yield file_item(row), row.at
            case _:
                for row in reader.find_entries(where, page, FACETS.get(kind)):
                    yield entry_item(row.session_id, row.entry, kind=kind), row.at

    def _searched(
        self, reader: Reader, values: Mapping[str, Any], where: Filter, cursor: Cursor, now: datetime
    ) -> Answered:
        found = find_matches(
            reader, values, where, cursor, limit=_limit(values), now=now, trails=self._trails, runs=self._runs
        )
        return fit(
            {} if found.complete else {"total_is_lower_bound": True},
            found.rows,
            values,
            total=found.total,
            is_last=found.is_last,
            max_chars=_chars(values),
        )


def _limit(values: Mapping[str, Any], default: int = DEFAULT_LIMIT) -> int:
    """Return how many items to read: no more than could be shown, since each takes more than SHORTEST_ITEM."""
    return min(int(values.get("limit") or default), _chars(values) // SHORTEST_ITEM + 1)


def _says_nothing(value: object) -> bool:
    return value == [] or (isinstance(value, str) and not value.strip())


def _chars(values: Mapping[str, Any]) -> int:
    return int(values.get("max_chars") or DEFAULT_CHARS)


# One session, one turn


def _one_session(reader: Reader, values: Mapping[str, Any], cursor: Cursor, now: datetime, runs: Runs) -> Answered:
    session = find_session(reader, values["session_id"])
    limit = _limit(values)
    turns = reader.turns(session.id, after=cursor.after[0] if cursor.after else 0, limit=limit + 1)
    # Later pages give turns only: the facts were shown, and proving a long chain takes a while.
    return fit(
        {"session_id": session.id} if cursor.after else {"session": _session_whole(reader, session, now, runs)},
        [(turn_item(session, turn), Cursor(after=(turn.ordinal, 0))) for turn in turns[:limit]],
        values,
        total=session.turns_total,
        is_last=len(turns) <= limit,
        max_chars=_chars(values),
    )


def _session_whole(reader: Reader, session: Session, now: datetime, runs: Runs) -> Item:
    found = check_chain(
        session.id,
        reader.entries(session.id),
        head=reader.head(session.id),
        receipts=reader.receipts(session.id),
    )
    own = Filter(parent_id=session.id)
    children = reader.find_sessions(own, Page(limit=CHILDREN_SHOWN))
    return {
        **session_facts(session, runs, reader),
        **obligation(session, now),
        "chain": {"status": found.kind or "verified", "first_bad_seq": found.seq, "erased": found.erased},
        "children": [row.session.id for row in children],
        "children_total": reader.count("session", own) if len(children) == CHILDREN_SHOWN else len(children),
        **({"shared_turns": _shared_turns(reader, session)} if session.shared else {}),
    }


def _shared_turns(reader: Reader, session: Session) -> list[Item]:
    """Return the turns that an imported session copied from others; they are shown with it."""
    shown: list[Item] = []
    for shared in session.shared:
        name = str(shared.get("session") or "")
        ids = [name] if is_session_id(name) else reader.session_ids_of_vendor(name)
        wanted = cast("list[str]", shared.get("turns") or [])
        owner = reader.session(ids[0]) if ids else None
        if owner is not None:
            turns = (turn_by_any_id(reader, owner, request_id) for request_id in wanted[:SHARED_SHOWN])
            shown += [{**turn_item(owner, turn), "shared": True} for turn in turns if turn is not None]
    return shown


def _one_turn(reader: Reader, values: Mapping[str, Any], cursor: Cursor) -> Answered:
    session = find_session(reader, values["session_id"])
    turn = reader.turn(session.id, values["request_id"])
    if turn is None:
        raise TurnNotFound(
            f"Turn not found: {values['request_id']}",
            details={"session_id": session.id, "request_id": values["request_id"]},
        )
    limit = _limit(values, CONTENTS_LIMIT)
    contents = _contents(reader, session.id, turn, cursor.after[0] if cursor.after else turn.begun_seq, limit + 1)
    head = {"session_id": session.id} if cursor.after else {"session_id": session.id, "turn": turn_facts(turn)}
    warnings = [
        {"code": "ignored_field", "message": f"One turn is read whole; '{name}' was ignored", "field": name}
        for name in values
        if name in _ASKED - {"session_id", "request_id"}
    ]
    return fit(
        {**head, **({"warnings": warnings} if warnings else {})},
        [(item, Cursor(after=(item["seq"], 0))) for item in contents[:limit]],
        values,
        total=turn.dialog_items + turn.actions + _by_itself(reader, session.id, turn),
        is_last=len(contents) <= limit,
        max_chars=_chars(values),
        resource=TURN_URI,
    )


def _by_itself(reader: Reader, session_id: str, turn: Turn) -> int:
    """Count the inputs and restores of a turn; the projection has no number of them."""
    entries = reader.entries(
        session_id, after=turn.begun_seq, until=turn.last_seq, turn=turn.request_id, kinds=BY_ITSELF
    )
    return len(entries)


def _contents(reader: Reader, session_id: str, turn: Turn, after: int, limit: int) -> list[Item]:
    """Return the next contents of a turn without cleared items."""
    found: list[Item] = []
    while len(found) < limit:
        entries = reader.entries(
            session_id,
            after=after,
            until=turn.last_seq,
            limit=limit,
            turn=turn.request_id,
            kinds=TURN_KINDS,
        )
        if not entries:
            break
        found += turn_contents(turn, entries)
        after = entries[-1].seq
    return found[:limit]


# Lists


def _count(reader: Reader, kind: str, where: Filter) -> int:
    if kind == "run":
        return reader.count("session", replace(where, with_run=True))
    return reader.count("entry" if kind in FACETS else kind, where, FACETS.get(kind))
