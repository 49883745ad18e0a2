"""The session log's history: sessions by its own filters and substring search, paged by offset.

Reads write nothing. Ranked full text with snippets is in `journal.history`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

from shiftlog.dialects.mcpserver.objects import NONE, TURNS_AT_ONCE, items_of, turns_with_items
from shiftlog.dialects.mcpserver.search import Expression, covers, decided, matches, parse
from shiftlog.dialects.mcpserver.subagents import SubagentSession, subagents_of
from shiftlog.journal.history.requests import parse_bound
from shiftlog.model.entry import Entry
from shiftlog.model.moves import TurnStatus
from shiftlog.model.nouns import Session, Turn
from shiftlog.model.turn_texts import ITEM_TEXTS, own_texts, texts_in
from shiftlog.store.protocol import Filter, Page, Reader

LOOKED_AT = 200
MOST_PARTS = 20
MOST_COVERS = 8
# Between the texts of a turn, so that no term can match across two of them.
SEPARATOR = "\x00"


def filter_of(values: Mapping[str, Any], workspace: str, now: datetime) -> Filter:
    """Return the filter that the parameters ask for, but for `text`."""
    status, hours = values.get("status"), values.get("stale_older_than_hours")
    turn_status = values.get("turn_status")
    if hours is not None:
        turn_status = turn_status or str(TurnStatus.IN_PROGRESS)
    started_from, active_to = _bounds(values)
    return Filter(
        workspace=workspace or None,
        agent=values.get("agent") or None,
        model_part=values.get("model") or None,
        started_from=started_from,
        active_to=active_to,
        finished=None if status is None else status == "completed",
        turn_status=turn_status,
        plan_file=_absent_as_empty(values.get("plan_file")),
        todo_id=_absent_as_empty(values.get("todo_id")),
        untouched_since=None if hours is None else now - timedelta(hours=hours),
        without_subagents=True,
    )


def check_history(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a query; refuse invalid times and an invalid expression."""
    _bounds(values)
    expression_of(values)
    return dict(values)


def _bounds(values: Mapping[str, Any]) -> tuple[datetime | None, datetime | None]:
    """Return the requested span of time; raise InvalidParameter if a text is not a time."""
    start, end = values.get("from"), values.get("to")
    return (
        parse_bound(start, "from", is_end=False) if start else None,
        parse_bound(end, "to", is_end=True) if end else None,
    )


def _absent_as_empty(value: str | None) -> str | None:
    return "" if value == NONE else value or None


def expression_of(values: Mapping[str, Any], mask: Callable[[str], str] = str) -> Expression | None:
    """Return the search expression of the parameters; raise InvalidParameter for an invalid one.

    With `mask` a secret is looked for as it is stored. It sees the terms alone: in the whole text it could take an
    operator for a part of a secret.
    """
    text = values.get("text") or ""
    return parse(text, mask) if text.strip() else None


def find(
    reader: Reader, where: Filter, expression: Expression | None, *, offset: int, limit: int
) -> tuple[list[Session], int]:
    """Return one page of the matching sessions, and how many match in all."""
    if expression is None:
        found = reader.recent_sessions(where, offset=offset, limit=limit) if limit else []
        return found, reader.count("session", where)
    page: list[Session] = []
    total = 0
    for session in _all_sessions(reader, where):
        if _session_matches(reader, session, where, expression):
            if offset <= total < offset + limit:
                page.append(session)
            total += 1
    return page, total


def _all_sessions(reader: Reader, where: Filter) -> Iterator[Session]:
    offset = 0
    while sessions := reader.recent_sessions(where, offset=offset, limit=LOOKED_AT):
        yield from sessions
        offset += len(sessions)


def _session_matches(reader: Reader, session: Session, where: Filter, expression: Expression) -> bool:
    """Return True if one of a session's turns matches the text and the filter."""
    own = SEPARATOR.join((session.title, session.id)).casefold()
    children = list(subagents_of(reader, session))
    if not session.turns_total and not any(child.session.turns_total for child in children):
        return matches(expression, own)
    if decided(expression, own) is False:
        return False
    searched = [_Searched(session=session, own=own), *(_searched_of(child, own) for child in children)]
    return any(
        where.fits(turn) and matches(expression, one.text_of(turn, entries))
        for one in searched
        for turn, entries in _turns_in_question(reader, one, expression)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Searched:
    """A session to search, and the text that all its turns match; a subagent's turns are shown as its parent's."""

    session: Session
    own: str
    child: SubagentSession | None = None

    def text_of(self, turn: Turn, entries: list[Entry]) -> str:
        """Return the searchable text of a turn, folded."""
        named = self.child.request_id(turn).casefold() + SEPARATOR if self.child else ""
        return self.own + SEPARATOR + named + turn_text(turn, entries)

    def is_of_turns(self, cover: tuple[str, ...]) -> bool:
        """Return True if every match of the terms lies within one text of a turn."""
        prefix = self.child.prefix.casefold() if self.child else ""
        return all(
            term.isprintable()
            and term not in self.own
            and not any(prefix.endswith(term[:length]) for length in range(1, len(term)))
            for term in cover
        )


def _searched_of(child: SubagentSession, own: str) -> _Searched:
    marks = SEPARATOR.join((child.prefix, *child.marks())).casefold()
    return _Searched(session=child.session, own=own + SEPARATOR + marks, child=child)


def _turns_in_question(reader: Reader, one: _Searched, expression: Expression) -> Iterator[tuple[Turn, list[Entry]]]:
    """Yield the turns that may match; the store excludes those that surely do not."""
    session_id = one.session.id
    of_turns = [cover for cover in covers(expression) if len(cover) <= MOST_PARTS and one.is_of_turns(cover)]
    # The texts of a turn's entries are indexed; its status is not.
    sure = [cover for cover in of_turns if not _statuses_with(cover)]
    names: Iterator[str] | None = None
    if sure:
        names = reader.turns_that_may_hold(session_id, sure[:MOST_COVERS])
    elif of_turns:
        names = _named_or_with_status(reader, session_id, min(of_turns, key=lambda cover: len(_statuses_with(cover))))
    if names is None:
        yield from turns_with_items(reader, session_id)
        return
    for name in names:
        turn = reader.turn(session_id, name)
        if turn is not None:
            yield turn, items_of(reader, session_id, [turn])[name]


def _statuses_with(cover: tuple[str, ...]) -> list[TurnStatus]:
    return [status for status in TurnStatus if any(term in status for term in cover)]


def _named_or_with_status(reader: Reader, session_id: str, cover: tuple[str, ...]) -> Iterator[str] | None:
    """Return the ids of turns whose status or texts may hold one of the terms; None if that may be any turn."""
    statuses = _statuses_with(cover)
    # Most turns are completed: one that matches is soonest found by looking at them in their order.
    by_texts = None if TurnStatus.COMPLETED in statuses else reader.turns_that_may_hold(session_id, [cover])
    if by_texts is None:
        return None
    by_status = (_turns_with(reader, session_id, status) for status in statuses)
    return chain(chain.from_iterable(by_status), by_texts)


def _turns_with(reader: Reader, session_id: str, status: TurnStatus) -> Iterator[str]:
    where, page = Filter(session_id=session_id, turn_status=status), Page(limit=TURNS_AT_ONCE)
    while rows := reader.find_turns(where, page):
        yield from (row.turn.request_id for row in rows)
        page = Page(limit=TURNS_AT_ONCE, after=rows[-1].at)


def turn_text(turn: Turn, entries: list[Entry]) -> str:
    """Return the searchable text of a turn's own fields and items, folded."""
    texts = list(own_texts(turn))
    for amendment in turn.amendments:
        texts.extend(texts_in(amendment.fields))
    for entry in entries:
        texts.extend(str(entry.facts.get(name, "")) for name in ITEM_TEXTS[entry.kind])
    return SEPARATOR.join(texts).casefold()
