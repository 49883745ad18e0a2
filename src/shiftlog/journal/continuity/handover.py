"""Handing a session over: offered to an agent or to anyone with the token, then accepted, declined, revoked or expired.

Accepting is resuming with the token of the offer, see `resuming`. Each step is an entry of the session's
own journal; the acceptance names the successor and its chain, whose first entry names this one.
"""

from datetime import datetime
from typing import Any

from shiftlog.journal.activity import BY, PERSON
from shiftlog.journal.continuity.closing import Closer, Ending
from shiftlog.journal.continuity.leases import Leases
from shiftlog.journal.continuity.requests import REASON_CHARS, TAKE_OVER
from shiftlog.journal.continuity.selection import check_final
from shiftlog.journal.journal import Answered, Journal, Request, find_session
from shiftlog.journal.pen import Pen
from shiftlog.journal.requests import NAME_CHARS, SESSION_ID
from shiftlog.journal.sessions import spelling
from shiftlog.journal.signing.tokens import MAX_CHARS, Tokens, check_holder, mismatch
from shiftlog.model.entry import Kind
from shiftlog.model.errors import InvalidParameter, RecoveryTokenRequired
from shiftlog.model.ids import agent_key
from shiftlog.model.nouns import Session
from shiftlog.model.times import precise, shown
from shiftlog.params.fields import Choice, Record, SessionRef, Text
from shiftlog.store.protocol import Filter, Page, Reader, Writer

OFFERS_LISTED = 1_000
HANDED_OVER = "handed over"
DECLINED, REVOKED, EXPIRED = "declined", "revoked", "expired"

_REASON = Text(lines=True, mends=True, max_chars=REASON_CHARS, description="Why, in any words.")
OFFER = Record(
    fields={
        "session_id": SESSION_ID,
        "agent_id": Text(max_chars=NAME_CHARS, description="The agent; default: anyone with the token."),
        "reason": _REASON,
        "on_held": Choice(values=("refuse", TAKE_OVER), description="If a client holds the session; default refuse."),
    }
)
END_OFFER = Record(
    fields={
        "session_id": SessionRef(description="The session; default: the one that the token names."),
        "agent_id": Text(max_chars=NAME_CHARS, description="Who declines."),
        "recovery_token": Text(max_chars=MAX_CHARS, description="The token of the offer."),
        "reason": _REASON,
    }
)


class Handover:
    """Offer sessions, and end offers that are not accepted."""

    def __init__(self, journal: Journal, tokens: Tokens, closer: Closer, leases: Leases) -> None:
        self._journal = journal
        self._tokens = tokens
        self._closer = closer
        self._leases = leases

    def offer(self, writer: Writer, request: Request) -> Answered:
        """Offer a session and return the token that accepts it; one that is still open is closed first."""
        values = request.values
        session = find_session(writer, values["session_id"])
        check_final(session)
        # A blank name is refused, so that an offer meant for one agent never becomes one for all.
        to = values.get("agent_id")
        if to is not None and agent_key(to) == session.agent_key:
            raise InvalidParameter.invalid("agent_id", "another agent than the session's own", to)
        session = self._leases.suspended_if_left(writer, session, request.caller)
        pen = self._journal.pen(writer, session.id, session)
        by_person = request.caller.operator
        if session.is_live:
            self._leases.check_not_held(writer, session, request, pen.clock_now)
            self._closer.end(writer, pen, Ending(reason=values.get("reason") or HANDED_OVER, by_person=by_person))
        if pen.session.offer is not None:
            _end(pen, REVOKED, "Replaced by another offer")
        expires_at = pen.now + self._tokens.ttl
        body = {"agent_id": spelling(writer, to) if to else None, "expires_at": precise(expires_at)}
        body |= {"reason": values.get("reason"), BY: PERSON if by_person else None}
        pen.write(Kind.HANDOFF_OFFERED, {name: value for name, value in body.items() if value})
        pen.commit(writer)
        issued = self._tokens.issue(writer, pen.session, pen.now)
        return {
            **shown_offer(pen.session),
            "recovery_token": issued.text,
            "recovery_token_expires_at": shown(issued.expires_at),
        }

    def decline(self, writer: Writer, request: Request) -> Answered:
        """End an offer for the agent that it was made to, which shows its token."""
        values = request.values
        session = self._named(writer, request)
        if "recovery_token" in values or not request.caller.operator:
            self._check_token(writer, session, request)
        named, offer = values.get("agent_id"), session.offer
        if named and offer and offer.agent_key not in (None, agent_key(named)):
            raise mismatch("agent")
        return self._ended(writer, session, DECLINED, values.get("reason"), named)

    def revoke(self, writer: Writer, request: Request) -> Answered:
        """Take an offer back; its token is worth nothing then."""
        session = self._named(writer, request)
        return self._ended(writer, session, REVOKED, request.values.get("reason"), None)

    def expire(self, writer: Writer) -> list[str]:
        """End the offers whose time is over."""
        now = self._journal.clock.now()
        return [each.id for each in offered(writer) if self.without_expired_offer(writer, each, now) is not each]

    def without_expired_offer(self, writer: Writer, session: Session, now: datetime) -> Session:
        """End the offer of a session if its time is over; return the session as it is now."""
        if session.offer is None or session.offer.expires_at > now:
            return session
        pen = self._journal.pen(writer, session.id, session)
        _end(pen, EXPIRED, None)
        pen.commit(writer)
        return pen.session

    def _named(self, writer: Writer, request: Request) -> Session:
        """Return the session that a request names, by its id or by the token of its offer, if that still stands."""
        name, token = request.values.get("session_id"), request.values.get("recovery_token")
        if name is None and token is None:
            raise InvalidParameter.missing("session_id")
        session = find_session(writer, name or self._tokens.read(token or "").session_id)
        return self.without_expired_offer(writer, session, self._journal.clock.now())

    def _check_token(self, reader: Reader, session: Session, request: Request) -> None:
        text = request.values.get("recovery_token")
        if text is None:
            raise RecoveryTokenRequired("Recovery token required", details={"session_id": session.id})
        offer = session.offer
        key = (offer.agent_key if offer else None) or session.agent_key
        claims = self._tokens.check(reader, text, self._journal.clock.now())
        if claims.session_id != session.id:
            raise mismatch("session")
        check_holder(claims, key)

    def _ended(self, writer: Writer, session: Session, how: str, reason: str | None, agent_id: str | None) -> Answered:
        if session.offer is None:
            raise InvalidParameter.invalid("session_id", "a session that is on offer", session.id)
        pen = self._journal.pen(writer, session.id, session)
        shown_before = shown_offer(session)
        _end(pen, how, reason, agent_id)
        pen.commit(writer)
        writer.revoke_tokens(session.id, pen.now)
        return {**shown_before, "ended": how, "reason": reason}


def offered(reader: Reader) -> list[Session]:
    """Return the sessions that are on offer, the one active last first."""
    rows = reader.find_sessions(Filter(offered=True), Page(limit=OFFERS_LISTED), by_activity=True)
    return [row.session for row in rows]


def shown_offer(session: Session) -> dict[str, Any]:
    """Show a session that is on offer."""
    offer = session.offer
    return {
        "session_id": session.id,
        "agent_id": session.agent_id,
        "title": session.title,
        "state": str(session.state),
        "offered_to": offer.agent_id if offer else None,
        "offered_at": shown(offer.at) if offer else None,
        "expires_at": shown(offer.expires_at) if offer else None,
    }


def _end(pen: Pen, how: str, reason: str | None, agent_id: str | None = None) -> None:
    facts = {"how": how, "reason": reason, "agent_id": agent_id}
    pen.write(Kind.HANDOFF_ENDED, {name: value for name, value in facts.items() if value})
