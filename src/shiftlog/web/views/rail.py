"""The list of sessions beside every page: filtered, grouped by day or project, children under their parent.

A family (a session and its descendants) is listed once, by its newest activity.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Any

from starlette.datastructures import QueryParams

from shiftlog.app.app import App
from shiftlog.journal.history.items import first_run, session_item
from shiftlog.journal.history.requests import filter_of
from shiftlog.model.errors import InvalidParameter
from shiftlog.model.moves import SessionState, TurnStatus
from shiftlog.model.nouns import Session
from shiftlog.model.times import parse, shown
from shiftlog.store.protocol import Filter, Page, Reader, SessionRow
from shiftlog.web.present.texts import between, day_name

FAMILIES = 50
ROWS_AT_ONCE = 60
READS_MOST = 20
WATCHED = 20
CHILDREN_SHOWN = 30
GENERATIONS = 64
FILTERS = ("agent", "agent_id", "model", "status", "project", "path", "tag", "turn_status", "from", "to")
GROUPS = ("day", "project")
DAYS_APART = 7

Item = dict[str, Any]
_CURSOR = re.compile(r"([0-9]{1,15})-([0-9]{1,15})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rail:
    """The list as its template shows it."""

    items: list[Item]
    groups: list[tuple[str, str, list[Item]]]
    group: str
    filters: dict[str, str]
    total: int
    next_cursor: str | None
    is_first: bool
    mark: str
    current: str | None = None
    asking: frozenset[str] = frozenset()
    known: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    state_names: tuple[str, ...] = tuple(map(str, SessionState))

    def without(self, name: str) -> dict[str, str]:
        """Return the filters without one."""
        return {key: value for key, value in self.filters.items() if key != name}

    def with_(self, name: str, value: str) -> dict[str, str]:
        """Return the filters with one set."""
        return {**self.filters, name: value}

    def mark_of(self, item: Item) -> tuple[str, str]:
        """Return the state of a session in words, and the class that draws it."""
        if item["session_id"] in self.asking:
            return "Waits for you", "asks"
        if item["state"] == "open":
            return ("Working", "works") if item["turns_open"] else ("Open", "open")
        known = {"suspended": ("Suspended", "paused"), "awaiting_successor": ("Awaits a successor", "asks")}
        return known.get(item["state"], (str(item["state"]).replace("_", " ").capitalize(), "over"))


def filters_of(query: QueryParams) -> dict[str, str]:
    """Return the filters that an address names; raise InvalidParameter for an unknown state."""
    filters = {name: value for name in FILTERS if (value := query.get(name, "").strip())}
    check_states(filters)
    return filters


async def read_rail(app: App, query: QueryParams, current: str | None = None) -> Rail:
    """Read the part of the list that an address asks for; `current` is the session of the page."""
    filters = filters_of(query)
    group = query.get("group") or "day"
    if group not in GROUPS:
        raise InvalidParameter.invalid("group", "one of " + ", ".join(GROUPS), group, allowed=list(GROUPS))
    # Read before the list itself: the stream of events reports later changes.
    mark = mark_of(await app.store.read(newest_heads))
    cursor = None if query.get("q") else query.get("cursor")
    data = await _list(app, filters, cursor)
    now = app.clock.now()
    items: list[Item] = data["items"]
    return Rail(
        **data,
        groups=_days(items, now) if group == "day" else _projects(items),
        group=group,
        filters=filters,
        is_first=cursor is None,
        mark=mark,
        current=current,
        asking=frozenset(str(one["session_id"]) for one in app.shells.open_questions())
        if app.live_shells()
        else frozenset(),
        known=_completions(items),
    )


async def _list(app: App, filters: Mapping[str, str], cursor: str | None) -> Item:
    now = app.clock.now()
    after = _position(cursor)

    def work(reader: Reader) -> Item:
        where = filter_of(reader, filters, now)
        if filters:
            rows = reader.find_sessions(where, Page(limit=FAMILIES + 1, after=after), by_activity=True)
            items = [list_row(app, reader, row.session, now) for row in rows[:FAMILIES]]
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
    item = list_row(app, reader, head, now)
    item["children"] = [list_row(app, reader, child, now) for child in below[:CHILDREN_SHOWN]]
    item["children_total"] = len(below)
    item["family_activity"] = shown(max((head, *below), key=lambda one: one.last_activity).last_activity)
    return item


def list_row(app: App, reader: Reader, session: Session, now: datetime) -> Item:
    """Return a session as lists show it."""
    item = session_item(session, now=now, runs=app.runs) | first_run(session, reader)
    used = app.runs.usage_of(session, reader)
    above = reader.session(session.parent_session_id) if session.parent_session_id else None
    ends = None if session.state is SessionState.OPEN and session.turns_open else item["last_activity"]
    item |= {
        "cost_usd": used.cost_usd if used else None,
        "files": reader.count_files(session.id),
        "turns_failed": session.turns_failed,
        "duration_s": int(between(item["started"], ends, now)),
        "parent_session_id": session.parent_session_id,
        "parent_title": above.title if above is not None and not above.hidden else None,
        "children": [],
        "children_total": 0,
    }
    del item["more"]
    return item


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
    """Return the items of each day, beyond a week of each month, under its name in this machine's time zone."""
    today = now.astimezone().date()

    def span(item: Item) -> tuple[str, str]:
        day = parse(str(item.get("family_activity", item["last_activity"]))).astimezone().date()
        if (today - day).days < DAYS_APART:
            return day.isoformat(), day_name(day, today)
        is_this_month = (day.year, day.month) == (today.year, today.month)
        return f"{day:%Y-%m}", f"Earlier in {day:%B}" if is_this_month else f"{day:%B %Y}"

    return [(key, name, list(group)) for (key, name), group in groupby(items, span)]


def _projects(items: Iterable[Item]) -> list[tuple[str, str, list[Item]]]:
    """Return the items of each project, the one active last first."""
    found: dict[str, list[Item]] = {}
    for item in items:
        found.setdefault(str(item["project"] or ""), []).append(item)
    return [(name, name or "No project", group) for name, group in found.items()]


def _completions(items: Iterable[Item]) -> dict[str, list[str]]:
    """Return the values of the listed items, offered as completions of filters."""
    rows = [row for item in items for row in (item, *item.get("children", ()))]
    names = ("agent", "agent_id", "model", "project")
    return {name: sorted({str(row[name]) for row in rows if row.get(name)}) for name in names}
