"""The parameters of query_history, and the filter that they make."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

from shiftlog.journal.journal import find_session
from shiftlog.model.errors import InvalidParameter
from shiftlog.model.ids import agent_key
from shiftlog.model.moves import RunStatus, SessionState, TurnStatus
from shiftlog.model.search import Expr, parse, positive_terms
from shiftlog.model.times import AGES, read_iso, read_relative
from shiftlog.params.fields import Choice, Integer, ListOf, Record, SessionRef, Text, unlisted
from shiftlog.store.protocol import Filter, Reader

KINDS = ("session", "turn", "entry", "command", "decision", "file", "run")


def _check_time(text: str, path: str) -> None:
    parse_bound(text, path, is_end=False, now=datetime.now(UTC))


def parse_bound(text: str, path: str, *, is_end: bool, now: datetime | None = None) -> datetime:
    """Read a date, a time or, counted from `now`, an age such as `7d`; a bare date means its first or last second.

    Times are shown in whole seconds, so that one without a fraction means, at the end, all of its second.
    """
    relative = read_relative(text, now) if now is not None else None
    if isinstance(relative, datetime):
        return relative
    text = relative or text
    try:
        at = read_iso(text)
        if is_end and _is_date(text):
            at = at.replace(hour=23, minute=59, second=59)
        if is_end and not at.microsecond:
            at = at.replace(microsecond=999_999)
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        ages = f", or {AGES}," if now is not None else ""
        raise InvalidParameter.invalid(path, f"an ISO 8601 date or time{ages} is expected", text) from None


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def project_name(given: str | None) -> str | None:
    """Return a project's name or path as it is kept: a path may be given with a slash at its end."""
    return (given.rstrip("/") or given) if given else None


QUERY_HISTORY = Record(
    fields={
        "session_id": SessionRef(
            description="Read this session, run_id or session_id; with text or kinds: look only in it.",
            examples=(1,),
        ),
        "request_id": Text(lines=True, description="With session_id: read this turn whole."),
        "text": Text(
            lines=True,
            max_chars=2_000,
            description='Whole words in any case, all in one entry; "a phrase", prefix*, && || ! ( ). Kind session: '
            "sessions that hold a match.",
            examples=('cart && "wrong total"',),
        ),
        "kinds": ListOf(
            item=Choice(values=KINDS),
            default=["session"],
            description="What to return. session: one per piece of work; turn: one per request; command, decision, "
            "file: one each; run: tokens and cost of a whole session that named a model; entry: any recorded line.",
        ),
        "agent": Text(max_chars=64, description="Agent kind, such as Codex."),
        "agent_id": Text(max_chars=200, description="Stable name of the agent."),
        "project": Text(max_chars=4_096, description="Name or path of the project directory."),
        "path": Text(
            max_chars=4_096,
            description="Only what changed a file that matches this glob, relative to the workspace.",
            examples=("src/*.py",),
        ),
        "from": Text(
            max_chars=64,
            check=_check_time,
            description="Only what happened (sessions, runs: were active) at or after this ISO 8601 date or time, UTC.",
            examples=("2026-11-16",),
        ),
        "to": Text(
            max_chars=64,
            check=_check_time,
            description="Only what happened (sessions, runs: started) at or before; a date means its end.",
        ),
        "order": Choice(
            values=("newest", "oldest"), description="What a list of kinds begins with. Default: newest. Not with text."
        ),
        "limit": Integer(minimum=1, maximum=200, default=10, description="Items per page."),
        "cursor": Text(max_chars=500, description="next_cursor of the page before, with the same other arguments."),
        "max_chars": Integer(
            minimum=500, maximum=1_000_000, default=12_000, description="Greatest size of the answer."
        ),
        **unlisted(
            {
                "status": Choice(values=tuple(map(str, SessionState)), description="State of the session."),
                "tag": Text(lines=True, max_chars=200, description="Tag of the session."),
                "turn_status": Choice(values=tuple(map(str, TurnStatus)), description="State of a turn of it."),
                "model": Text(max_chars=200, description="Model name."),
                "backend": Text(max_chars=200, description="Program of the run."),
                "run_status": Choice(values=tuple(map(str, RunStatus)), description="State of the run."),
            }
        ),
    }
)


def check_question(values: Mapping[str, Any]) -> None:
    """Refuse a turn without its session, an invalid agent id, matches in oldest-first order, and a bad expression."""
    if values.get("request_id") and not values.get("session_id"):
        raise InvalidParameter.missing("session_id")
    if values.get("agent_id", "").strip():
        agent_key(values["agent_id"])
    if values.get("text"):
        expression(values["text"])
        if values.get("order") == "oldest":
            raise InvalidParameter.invalid("order", "no order beside text, whose matches come best first", "oldest")


def expression(text: str) -> Expr:
    """Read a search expression; refuse one that only excludes, as it would list the whole journal."""
    expr = parse(text)
    if not positive_terms(expr):
        raise InvalidParameter.invalid("text", "at least one word that is not negated", text)
    return expr


def filter_of(reader: Reader, values: Mapping[str, Any], now: datetime | None = None) -> Filter:
    """Return the filter that the parameters ask for; ages are counted from `now`, by default the present."""
    now = now or datetime.now(UTC)
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
        project=project_name(values.get("project")),
        path=values.get("path") or None,
        from_=parse_bound(values["from"], "from", is_end=False, now=now) if values.get("from") else None,
        to=parse_bound(values["to"], "to", is_end=True, now=now) if values.get("to") else None,
    )
