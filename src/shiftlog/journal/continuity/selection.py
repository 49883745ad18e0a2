"""Choosing the session that an agent resumes, who may resume it, and errors that name the near misses."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from shiftlog.journal.journal import find_session
from shiftlog.journal.last_session import FINAL_STATES, Asked, last_or_any, last_sessions
from shiftlog.journal.signing.tokens import Claims, mismatch, policy_of
from shiftlog.model.caller import Caller
from shiftlog.model.errors import (
    AgentNotEntitled,
    NoResumableSession,
    RecoveryTokenRequired,
    SessionSealed,
    SessionSucceeded,
)
from shiftlog.model.moves import SessionState
from shiftlog.model.nouns import Session
from shiftlog.model.times import shown, shown_or_none
from shiftlog.store.protocol import Reader
from shiftlog.text.nearest import similar_names

OTHERS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The session to resume; `others` are the next candidates if the request named none."""

    session: Session
    others: tuple[Session, ...] = ()
    by_selection: bool = False


def choose(reader: Reader, values: Mapping[str, Any], asked: Asked, claims: Claims | None, now: datetime) -> Chosen:
    """Return the session that a token or an id names, else the last one; never an older one instead of the first."""
    if values.get("session_id"):
        session = find_session(reader, values["session_id"])
        if claims is not None and claims.session_id != session.id:
            raise mismatch("session")
        return Chosen(session=session)
    if claims is not None:
        return Chosen(session=find_session(reader, claims.session_id))
    found = last_or_any(reader, asked, now, most=OTHERS + 1)
    # Sessions that cannot be resumed come last, so that their error is shown.
    found = found or last_sessions(reader, replace(asked, own=()), now, most=OTHERS + 1, groups=(FINAL_STATES,))
    if not found:
        raise _nothing(reader, values["agent_id"], asked, now)
    return Chosen(session=found[0], others=tuple(found[1:]), by_selection=True)


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


def _nothing(reader: Reader, agent_id: str, asked: Asked, now: datetime) -> NoResumableSession:
    key = asked.agent_key or ""
    anywhere = replace(asked, since=None, with_empty=True)
    rows = last_sessions(reader, anywhere, now, most=OTHERS, groups=(frozenset(map(str, SessionState)),))
    candidates = [candidate(session) | {"why_not": final_why(session) or "outside_lookback"} for session in rows]
    days = 0 if asked.since is None else (now - asked.since).days
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
