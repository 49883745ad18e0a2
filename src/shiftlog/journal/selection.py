"""Choosing the session that an agent resumes; when none can be, an error that names the near misses."""

import difflib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from shiftlog.journal.journal import find_session
from shiftlog.model.errors import AgentNotEntitled, NoResumableSession, SessionSealed, SessionSucceeded
from shiftlog.model.moves import UNFINISHED, SessionState
from shiftlog.model.nouns import Session
from shiftlog.model.times import shown, shown_or_none
from shiftlog.store.protocol import Filter, Page, Reader

LOOKBACK_DAYS = 30
OTHERS = 5


def choose(
    reader: Reader, values: Mapping[str, Any], key: str, now: datetime
) -> tuple[Session, list[dict[str, Any]]]:
    """Return the session to resume and the next candidates; never an older one instead of the first."""
    if values.get("session_id"):
        session = find_session(reader, values["session_id"])
        check_entitled(session, key)
        check_resumable(session)
        return session, []
    days = values.get("lookback_days") or LOOKBACK_DAYS
    since = now - timedelta(days=days)
    unfinished = frozenset(map(str, UNFINISHED))
    found = _sessions(reader, key, unfinished, since) + _sessions(reader, key, frozenset({"closed"}), since)
    if found:
        return found[0], [_candidate(session, None) for session in found[1 : OTHERS + 1]]
    final = _sessions(reader, key, frozenset({"sealed", "succeeded"}), since)
    if final:
        check_resumable(final[0])
    raise _nothing(reader, values["agent_id"], key, days)


def check_entitled(session: Session, key: str) -> None:
    """Refuse an agent that is not the session's own."""
    if session.agent_key != key:
        raise AgentNotEntitled(
            "Agent may not continue or close this session",
            details={"session_id": session.id, "entitled": [session.agent_id]},
        )


def check_resumable(session: Session) -> None:
    """Refuse a session whose end is final."""
    closed_at = shown_or_none(session.closing.at if session.closing else None)
    details: dict[str, Any] = {"session_id": session.id, "closed_at": closed_at}
    if session.state is SessionState.SEALED:
        raise SessionSealed("Session is sealed: closed without successor", details=details)
    if session.state is SessionState.SUCCEEDED:
        details["successor_session_id"] = session.successor_session_id
        raise SessionSucceeded("Session was continued by a successor", details=details)


def _sessions(reader: Reader, key: str, states: frozenset[str], since: datetime) -> list[Session]:
    where = Filter(agent_key=key, states=states, from_=since)
    rows = reader.find_sessions(where, Page(limit=OTHERS + 1), by_activity=True)
    return [row.session for row in rows]


def _nothing(reader: Reader, agent_id: str, key: str, days: int) -> NoResumableSession:
    rows = reader.find_sessions(Filter(agent_key=key), Page(limit=OTHERS), by_activity=True)
    known = dict(reader.agent_ids())
    known.pop(key, None)
    similar = difflib.get_close_matches(key, list(known), n=5, cutoff=0.4)
    similar += [other for other in known if key in other and other not in similar]
    return NoResumableSession(
        "NO RESUMABLE SESSION FOUND",
        details={
            "agent_id": agent_id,
            "lookback_days": days,
            "candidates": [_candidate(row.session, _why_not(row.session)) for row in rows],
            "similar_agent_ids": [known[other] for other in similar[:5]],
        },
    )


def _why_not(session: Session) -> str:
    final = {SessionState.SEALED: "sealed", SessionState.SUCCEEDED: "succeeded"}
    return final.get(session.state, "outside_lookback")


def _candidate(session: Session, why_not: str | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "session_id": session.id,
        "agent_id": session.agent_id,
        "title": session.title,
        "state": str(session.state),
        "last_activity": shown(session.last_activity),
    }
    if why_not is not None:
        row["why_not"] = why_not
    return row
