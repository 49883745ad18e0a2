"""The session log's history: sessions by its own filters and its own substring search, paged by offset.

Reads write nothing. Ranked full text with snippets is the work of `history`.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, cast

from shiftlog.journal.history_requests import parse_bound
from shiftlog.journal.sessionlog_children import children_of
from shiftlog.journal.sessionlog_objects import NONE, items_of, turns_with_items
from shiftlog.journal.sessionlog_search import Expression, covers, matches, parse
from shiftlog.model.entry import Entry, Kind
from shiftlog.model.moves import TurnStatus
from shiftlog.model.nouns import Session, Turn
from shiftlog.store.protocol import Filter, Reader

LOOKED_AT = 200
MOST_PARTS = 20
MOST_COVERS = 8
# Between the texts of a turn, so that no term can match across two of them.
SEPARATOR = "\x00"
_PLAIN = (
    "request_id",
    "query_title",
    "query_text",
    "interpretation",
    "response",
    "model",
    "model_provider",
    "plan_file",
    "todo_id",
    "failure_note",
)
_LISTS = (
    "tags",
    "context_list",
    "design_decisions",
    "requirements_discovered",
    "files_modified",
    "blockers",
    "commits",
)


def filter_of(values: Mapping[str, Any], workspace: str, now: datetime) -> Filter:
    """Return the filter that the parameters ask for, but for `text`."""
    status, hours = values.get("status"), values.get("stale_older_than_hours")
    turn_status = values.get("turn_status")
    if hours is not None:
        turn_status = turn_status or str(TurnStatus.IN_PROGRESS)
    return Filter(
        workspace=workspace or None,
        agent=values.get("agent") or None,
        model_part=values.get("model") or None,
        started_from=parse_bound(values["from"], "from", is_end=False) if values.get("from") else None,
        active_to=parse_bound(values["to"], "to", is_end=True) if values.get("to") else None,
        finished=None if status is None else status == "completed",
        turn_status=turn_status,
        plan_file=_absent_as_empty(values.get("plan_file")),
        todo_id=_absent_as_empty(values.get("todo_id")),
        untouched_since=None if hours is None else now - timedelta(hours=hours),
        without_subagents=True,
    )


def _absent_as_empty(value: str | None) -> str | None:
    return "" if value == NONE else value or None


def expression_of(values: Mapping[str, Any]) -> Expression | None:
    """Return the search expression that the parameters ask for; raise InvalidParameter for one that is wrong."""
    text = values.get("text") or ""
    return parse(text) if text.strip() else None


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
        if _session_matches(reader, session, expression):
            if offset <= total < offset + limit:
                page.append(session)
            total += 1
    return page, total


def _all_sessions(reader: Reader, where: Filter) -> Iterator[Session]:
    offset = 0
    while sessions := reader.recent_sessions(where, offset=offset, limit=LOOKED_AT):
        yield from sessions
        offset += len(sessions)


def _session_matches(reader: Reader, session: Session, expression: Expression) -> bool:
    own = SEPARATOR.join((session.title, session.id)).casefold()
    sessions = [session, *(child.session for child in children_of(reader, session))]
    if not any(each.turns_total for each in sessions):
        return matches(expression, own)
    return any(
        matches(expression, own + SEPARATOR + turn_text(turn, entries))
        for each in sessions
        for turn, entries in _turns_in_question(reader, each, expression, own)
    )


def _turns_in_question(
    reader: Reader, session: Session, expression: Expression, own: str
) -> Iterator[tuple[Turn, list[Entry]]]:
    """Yield the turns that may match; the store narrows them down where it can be sure."""
    sure = [cover for cover in covers(expression) if len(cover) <= MOST_PARTS and _is_of_turns(cover, own)]
    names = reader.turns_that_may_hold(session.id, sure[:MOST_COVERS]) if sure else None
    if names is None:
        yield from turns_with_items(reader, session.id)
        return
    for name in names:
        turn = reader.turn(session.id, name)
        if turn is not None:
            yield turn, items_of(reader, session.id, [turn])[name]


def _is_of_turns(cover: tuple[str, ...], own: str) -> bool:
    """Tell whether only a turn's own texts can hold the terms, and hold them as they stand in JSON text."""
    return all(term.isprintable() and '"' not in term and "\\" not in term and term not in own for term in cover)


def turn_text(turn: Turn, entries: list[Entry]) -> str:
    """Return everything that a turn is found by, folded."""
    texts: list[str] = [getattr(turn, name) or "" for name in _PLAIN]
    for name in _LISTS:
        texts.extend(_words(getattr(turn, name)))
    for amendment in turn.amendments:
        texts.extend(_words(amendment.fields))
    for entry in entries:
        names = ("content",) if entry.kind is Kind.DIALOG else ("description", "type", "file_path")
        texts.extend(str(entry.facts.get(name, "")) for name in names)
    return SEPARATOR.join(texts).casefold()


def _words(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in cast(Mapping[str, object], value).values():
            yield from _words(item)
    elif isinstance(value, list | tuple):
        for item in cast(list[object], value):
            yield from _words(item)
