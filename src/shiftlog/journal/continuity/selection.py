"""Choosing the session that an agent resumes, who may resume it, and errors that name the near misses."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from shiftlog.journal.journal import find_session
from shiftlog.journal.signing.tokens import Claims, mismatch, policy_of
from shiftlog.model.caller import Caller
from shiftlog.model.errors import (
    AgentNotEntitled,
    NoResumableSession,
    RecoveryTokenRequired,
    SessionSealed,
    SessionSucceeded,
)
from shiftlog.model.limits import LOOKBACK_DAYS
from shiftlog.model.moves import UNFINISHED, SessionState
from shiftlog.model.nouns import Session, changed
from shiftlog.model.times import shown, shown_or_none
from shiftlog.store.protocol import Filter, Page, Reader
from shiftlog.text.nearest import similar_names

OTHERS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The session to resume; `others` are the next candidates if the request named none."""

    session: Session
    others: tuple[Session, ...] = ()
    by_selection: bool = False


def choose(reader: Reader, values: Mapping[str, Any], key: str, claims: Claims | None, now: datetime) -> Chosen:
    """Return the session that a token or an id names, else the latest; never an older one instead of the first."""
    if values.get("session_id"):
        session = find_session(reader, values["session_id"])
        if claims is not None and claims.session_id != session.id:
            raise mismatch("session")
        return Chosen(session=session)
    if claims is not None:
        return Chosen(session=find_session(reader, claims.session_id))
    days = values.get("lookback_days") or LOOKBACK_DAYS
    since = now - timedelta(days=days)
    unfinished = frozenset(map(str, UNFINISHED))
    found = [
        session
        for states in (unfinished, frozenset({"closed"}))
        for session in _sessions(reader, key, states, since)
        # An expired offer counts as ended even before a sweep ends it.
        if session.agent_key == key or without_expired_offer(session, now).offer
    ]
    # A session that cannot be resumed is chosen only if there is no other, so that its own error is shown.
    found = found or _sessions(reader, key, frozenset({"sealed", "succeeded"}), since)
    if not found:
        raise _nothing(reader, values["agent_id"], key, days)
    return Chosen(session=found[0], others=tuple(found[1 : OTHERS + 1]), by_selection=True)


def check_final(session: Session) -> None:
    """Refuse a session whose end is final."""
    closed_at = shown_or_none(session.closing.at if session.closing else None)
    details: dict[str, Any] = {"session_id": session.id, "closed_at": closed_at}
    if session.state is SessionState.SEALED:
        raise SessionSealed("Session is sealed: closed without successor", details=details)
    if session.state is SessionState.SUCCEEDED:
        details["successor_session_id"] = session.successor_session_id
        raise SessionSucceeded("Session was continued by a successor", details=details)


def check_entitled(session: Session, key: str, claims: Claims | None, *, require_token: bool) -> None:
    """Refuse an agent that may not continue a session, or not without its token."""
    if not is_entitled(session, key, with_token=claims is not None):
        raise AgentNotEntitled(
            "Agent may not continue or close this session",
            details={"session_id": session.id, "entitled": _entitled(session)},
        )
    if claims is not None:
        if claims.policy != policy_of(session):
            raise mismatch("policy")
        return
    own = session.agent_key == key
    if require_token or session.state is SessionState.AWAITING_SUCCESSOR or not own:
        raise RecoveryTokenRequired("Recovery token required", details={"session_id": session.id})


def check_own(reader: Reader, session: Session, caller: Caller) -> None:
    """Refuse the client of another agent, unless it holds the session or is the operator."""
    client = caller.client_id
    if caller.operator or client is None:
        return
    key = reader.agent_of(client)
    if key in (None, session.agent_key) or reader.grant(session.id, client) == session.fence:
        return
    raise AgentNotEntitled(
        "Agent may not continue or close this session",
        details={"session_id": session.id, "entitled": [session.agent_id]},
    )


def without_expired_offer(session: Session, now: datetime) -> Session:
    """Return a session as it stands once an offer whose time is over is ended."""
    return session if session.offer is None or session.offer.expires_at > now else changed(session, offer=None)


def is_entitled(session: Session, key: str, *, with_token: bool) -> bool:
    """Return True if an agent may continue a session, given the token where it needs one."""
    own, offer = session.agent_key == key, session.offer
    if offer is None or session.is_live:
        return own
    offered = with_token if offer.agent_key is None else offer.agent_key == key
    # A session that must be continued is only for the agent that it was offered to.
    return offered if session.state is SessionState.AWAITING_SUCCESSOR else own or offered


def _entitled(session: Session) -> list[str]:
    own, offer = [session.agent_id], session.offer
    if offer is None or session.is_live:
        return own
    offered = [offer.agent_id or "anyone with the token"]
    return offered if session.state is SessionState.AWAITING_SUCCESSOR else own + offered


def candidate(session: Session) -> dict[str, Any]:
    """Show a session that could be resumed."""
    return {
        "session_id": session.id,
        "agent_id": session.agent_id,
        "title": session.title,
        "state": str(session.state),
        "last_activity": shown(session.last_activity),
    }


def _sessions(reader: Reader, key: str, states: frozenset[str], since: datetime | None) -> list[Session]:
    """Return the newest sessions of an agent and of those handed to it."""
    page = Page(limit=OTHERS + 1)
    own = Filter(agent_key=key, states=states, from_=since)
    offered = Filter(offered_to=key, states=states, from_=since)
    rows = [row for where in (own, offered) for row in reader.find_sessions(where, page, by_activity=True)]
    found = {row.session.id: row for row in sorted(rows, key=lambda row: row.at, reverse=True)}
    return [row.session for row in found.values()]


def _nothing(reader: Reader, agent_id: str, key: str, days: int) -> NoResumableSession:
    rows = _sessions(reader, key, frozenset(map(str, SessionState)), None)[:OTHERS]
    candidates = [candidate(session) | {"why_not": final_why(session) or "outside_lookback"} for session in rows]
    return NoResumableSession(
        "NO RESUMABLE SESSION FOUND",
        details={
            "agent_id": agent_id,
            "lookback_days": days,
            "candidates": candidates,
            "similar_agent_ids": _similar(reader, key),
        },
    )


def _similar(reader: Reader, key: str) -> list[str]:
    """Return names near one that has no session, those that begin or go on with it among them."""
    # A store lists a limited number of names in order, so names with the same beginning are read separately.
    known = dict(reader.agent_ids(like=key[:2])) | dict(reader.agent_ids())
    known.pop(key, None)
    similar = similar_names(key, known, most=OTHERS, least=0.4)
    similar += [other for other in known if key in other and other not in similar]
    return [known[other] for other in similar[:OTHERS]]


def final_why(session: Session) -> str | None:
    """Return why a session can never be resumed again, None if it can."""
    return {SessionState.SEALED: "sealed", SessionState.SUCCEEDED: "succeeded"}.get(session.state)
