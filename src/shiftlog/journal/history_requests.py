"""The parameters of query_history, and the filter that they make."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

from shiftlog.journal.journal import find_session
from shiftlog.model.errors import InvalidParameter
from shiftlog.model.fields import Choice, Integer, ListOf, Record, SessionRef, Text
from shiftlog.model.ids import agent_key
from shiftlog.model.moves import RunStatus, SessionState, TurnStatus
from shiftlog.store.protocol import Filter, Reader

KINDS = ("session", "turn", "entry", "command", "decision", "file", "run")


def _check_time(text: str, path: str) -> None:
    parse_bound(text, path, is_end=False)


def parse_bound(text: str, path: str, *, is_end: bool) -> datetime:
    """Read a date or a time; a bare date means its first or, at the end, its last second."""
    try:
        at = datetime.fromisoformat(text)
        if is_end and _is_date(text):
            at = at.replace(hour=23, minute=59, second=59, microsecond=999_999)
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidParameter.invalid(path, "an ISO 8601 date or time is expected", text) from None


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


QUERY_HISTORY = Record(
    fields={
        "session_id": SessionRef(description="Read this session: its facts, chain status and turns."),
        "request_id": Text(description="With session_id: read this turn whole, dialog and actions paged."),
        "text": Text(
            max_chars=2_000,
            description='Search: words, "phrases", prefixes (auth*), && || ! and parentheses; ranked.',
        ),
        "kinds": ListOf(item=Choice(values=KINDS), max_items=7, description='What to return; default ["session"].'),
        "agent": Text(max_chars=64, description="Agent kind."),
        "agent_id": Text(max_chars=200, description="Stable agent name."),
        "model": Text(max_chars=200, description="Model name."),
        "backend": Text(max_chars=200, description="Backend of the run."),
        "status": Choice(values=tuple(map(str, SessionState)), description="Session state."),
        "turn_status": Choice(values=tuple(map(str, TurnStatus)), description="Has a turn with this status."),
        "run_status": Choice(values=tuple(map(str, RunStatus)), description="Status of the run."),
        "tag": Text(max_chars=200, description="Has a turn with this tag."),
        "project": Text(max_chars=4_096, description="Workspace name or path."),
        "path": Text(max_chars=4_096, description="Touched files by glob (src/*.py)."),
        "from": Text(max_chars=64, check=_check_time, description="Active at or after this date or time."),
        "to": Text(max_chars=64, check=_check_time, description="Started at or before this date or time."),
        "limit": Integer(minimum=1, maximum=200, description="Items per page, 1..200; default 10."),
        "cursor": Text(max_chars=500, description="next_cursor of the page before, same question."),
        "max_chars": Integer(minimum=500, maximum=1_000_000, description="Size of the whole answer; default 12000."),
    }
)


def filter_of(reader: Reader, values: Mapping[str, Any]) -> Filter:
    """Return the filter that the parameters ask for."""
    status = values.get("status")
    return Filter(
        session_id=find_session(reader, values["session_id"]).id if values.get("session_id") else None,
        agent=values.get("agent") or None,
        agent_key=agent_key(values["agent_id"]) if values.get("agent_id") else None,
        model=values.get("model") or None,
        backend=values.get("backend") or None,
        states=frozenset({status}) if status else None,
        turn_status=values.get("turn_status"),
        run_status=values.get("run_status"),
        tag=values.get("tag") or None,
        project=values.get("project") or None,
        path=values.get("path") or None,
        from_=parse_bound(values["from"], "from", is_end=False) if values.get("from") else None,
        to=parse_bound(values["to"], "to", is_end=True) if values.get("to") else None,
    )
