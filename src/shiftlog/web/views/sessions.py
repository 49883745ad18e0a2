"""The list of sessions: filtered or searched by the query, grouped by day, children under their parent.

A family (a session and its descendants) is listed once, by its newest activity.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from itertools import groupby
from typing import Any

from starlette.requests import Request

from shiftlog.app.app import App
from shiftlog.journal.history.items import session_item
from shiftlog.journal.history.requests import filter_of
from shiftlog.model.caller import LIBRARY
from shiftlog.model.errors import InvalidParameter
from shiftlog.model.moves import SessionState, TurnStatus
from shiftlog.model.nouns import Session
from shiftlog.model.times import parse, shown
from shiftlog.store.protocol import Filter, Page, Reader, SessionRow
from shiftlog.web.answers import PageView
from shiftlog.web.present.texts import between, day_name

FAMILIES = 40
ROWS_AT_ONCE = 60
READS_MOST = 20
WATCHED = 20
CHILDREN_SHOWN = 30
GENERATIONS = 64
SEARCH_CHARS = 400_000
FILTERS = ("agent", "agent_id", "model", "status", "project", "path", "tag", "turn_status", "from", "to")
KINDS = ("session", "turn", "entry", "decision", "command", "file")

Item = dict[str, Any]
_CURSOR = re.compile(r"([0-9]{1,15})-([0-9]{1,15})", re.ASCII)


async def sessions_page(app: App, request: Request) -> PageView:
    """List or search sessions, as the query says."""
    query = request.query_params
    filters = {name: value for name in FILTERS if (value := query.get(name, "").strip())}
    check_states(filters)
    # Read before the list itself: the stream of events reports later changes.
    mark = mark_of(await app.store.read(newest_heads))
    text, kind = query.get("q", "").strip(), query.get("kind") or "session"
    if kind not in KINDS:
        raise InvalidParameter.invalid("kind", "one of " + ", ".join(KINDS), kind, allowed=list(KINDS))
    if text:
        data = await _search(app, text, kind, filters, query.get("cursor"))
    else:
        data = await _list(app, filters, query.get("cursor"))
    data |= {"filters": filters, "q": text, "kind": kind}
    now = app.clock.now()
    extra = {
        "days": _days(data["items"], now) if not text else [],
        "state_names": list(map(str, SessionState)),
        "kinds": KINDS,
        "known": _completions(data["items"]),
        "is_first": "cursor" not in query,
        "mark": mark,
    }
    return PageView(data=data, template="sessions.html", part="_sessions.html", extra=extra)


async def _list(app: App, filters: Mapping[str, str], cursor: str | None) -> Item:
    now = app.clock.now()
    after = _position(cursor)

    def work(reader: Reader) -> Item:
        where = filter_of(reader, filters)
        if filters:
            rows = reader.find_sessions(where, Page(limit=FAMILIES + 1, after=after), by_activity=True)
            items = [_row(app, reader, row.session, now) for row in rows[:FAMILIES]]
            last = rows[FAMILIES - 1] if len(rows) > FAMILIES else None
        else:
            items, last = _families(app, reader, after, now)
        return {
            "items": items,
            # Counting by a filter reads every row; the store keeps the total.
            "total": reader.count("session", where) if filters else reader.counts().sessions,
            "next_cursor": f"{last.at[0]}-{last.at[1]}" if last else None,
        }

    return await app.store.read(work)


def _families(
    app: App, reader: Reader, after: tuple[int, int] | None, now: datetime
) -> tuple[list[Item], SessionRow | None]:
    items: list[Item] = []
    rows: list[SessionRow] = []
    # A large family has many rows, and is gathered for the first of them alone; it waits for its newest.
    known: set[str] = set()
    waiting: dict[str, tuple[Session, list[Session]]] = {}
    for _ in range(READS_MOST):
        rows = reader.find_sessions(Filter(), Page(limit=ROWS_AT_ONCE, after=after), by_activity=True)
        for row in rows:
            after = row.at
            if row.session.id not in known:
                head = _head(reader, row.session)
                children = _below(reader, head)
                known.update(one.id for one in (head, *children))
                newest = max((head, *children), key=lambda one: (one.last_activity, one.id))
                waiting[newest.id] = (head, children)
            if row.session.id in waiting:
                items.append(_family(app, reader, *waiting.pop(row.session.id), now))
            if len(items) == FAMILIES:
                return items, row
        if len(rows) < ROWS_AT_ONCE:
            return items, None
    return items, rows[-1]


def _family(app: App, reader: Reader, head: Session, below: list[Session], now: datetime) -> Item:
    item = _row(app, reader, head, now)
    item["children"] = [_row(app, reader, child, now) for child in below[:CHILDREN_SHOWN]]
    item["children_total"] = len(below)
    item["family_activity"] = shown(max((head, *below), key=lambda one: one.last_activity).last_activity)
    return item


def _row(app: App, reader: Reader, session: Session, now: datetime) -> Item:
    """Return a session as lists show it."""
    item = session_item(session, now=now, runs=app.runs)
    used = app.runs.usage_of(session, reader)
    ends = None if session.state is SessionState.OPEN and session.turns_open else item["last_activity"]
    item |= {
        "cost_usd": used.cost_usd if used else None,
        "files": reader.count_files(session.id),
        "turns_failed": session.turns_failed,
        "duration_s": int(between(item["started"], ends, now)),
        "parent_session_id": session.parent_session_id,
        "children": [],
        "children_total": 0,
    }
    del item["more"]
    return item


async def _search(app: App, text: str, kind: str, filters: Mapping[str, str], cursor: str | None) -> Item:
    arguments: Item = {"text": text, "kinds": [kind], "limit": FAMILIES, "max_chars": SEARCH_CHARS, **filters}
    if cursor:
        arguments["cursor"] = cursor
    try:
        found = await app.history.query_history(arguments, LIBRARY)
    except InvalidParameter as error:
        if error.details.get("parameter") != "text":
            raise
        # In the address it is called q.
        raise InvalidParameter.invalid("q", str(error.details["constraint"]), error.details["value"]) from None
    items: list[Item] = found["items"]
    names = {str(item["session_id"]) for item in items}

    def titles(reader: Reader) -> dict[str, str]:
        return {name: session.title for name in names if (session := reader.session(name)) is not None}

    known = await app.store.read(titles)
    for item in items:
        item.pop("more", None)
        item["session_title"] = known.get(str(item["session_id"]), "")
    return {
        "items": items,
        "total": found["total"],
        "total_is_lower_bound": bool(found.get("total_is_lower_bound")),
        "next_cursor": found["next_cursor"],
    }


def newest_heads(reader: Reader) -> dict[str, int]:
    """Return the head of the journal of each session that was active last."""
    rows = reader.find_sessions(Filter(), Page(limit=WATCHED), by_activity=True)
    return {row.session.id: row.session.head_seq for row in rows}


def mark_of(heads: Mapping[str, int]) -> str:
    """Return a short hash of the list's state, by which a client names what it has seen."""
    return hashlib.sha256(repr(sorted(heads.items())).encode()).hexdigest()[:16]


def check_states(filters: Mapping[str, str]) -> None:
    """Reject unknown states instead of returning an empty list."""
    for name, states in (("status", SessionState), ("turn_status", TurnStatus)):
        if filters.get(name) not in (None, *states):
            raise InvalidParameter.invalid(name, "one of " + ", ".join(states), filters[name], allowed=list(states))


def _position(cursor: str | None) -> tuple[int, int] | None:
    if not cursor:
        return None
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise InvalidParameter.invalid("cursor", "the next_cursor of the page before", cursor)
    return int(found[1]), int(found[2])


def _head(reader: Reader, session: Session) -> Session:
    """Return the first ancestor of a session."""
    for _ in range(GENERATIONS):
        above = reader.session(session.parent_session_id) if session.parent_session_id else None
        if above is None or above.hidden:
            break
        session = above
    return session


def _below(reader: Reader, head: Session) -> list[Session]:
    """Return the descendants of a session in the order of their start."""
    found: dict[str, Session] = {}
    level = [head]
    for _ in range(GENERATIONS):
        rows = [
            row.session
            for parent in level
            for row in reader.find_sessions(Filter(parent_id=parent.id), Page(limit=500))
            if row.session.id not in found and row.session.id != head.id
        ]
        if not rows:
            break
        found |= {session.id: session for session in rows}
        level = rows
    return sorted(found.values(), key=lambda session: (session.started, session.id))


def _days(items: Iterable[Item], now: datetime) -> list[tuple[str, str, list[Item]]]:
    """Return the items of each day under its name, in this machine's time zone."""

    def day(item: Item) -> date:
        return parse(str(item.get("family_activity", item["last_activity"]))).astimezone().date()

    today = now.astimezone().date()
    return [(one.isoformat(), day_name(one, today), list(group)) for one, group in groupby(items, day)]


def _completions(items: Iterable[Item]) -> dict[str, list[str]]:
    """Return the values of the listed items, offered as completions of filters."""
    rows = [row for item in items for row in (item, *item.get("children", ()))]
    names = ("agent", "agent_id", "model", "project")
    return {name: sorted({str(row[name]) for row in rows if row.get(name)}) for name in names}
