"""Closing a session: statement, capsule, closing note, close entry, receipt and token, in one transaction."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from shiftlog.journal import rules
from shiftlog.journal.activity import BY, PERSON
from shiftlog.journal.continuity.answers import keep, repeated, shell, summary_of, with_token
from shiftlog.journal.continuity.capsule.reading import capsule_from, capsule_of, read_material
from shiftlog.journal.continuity.leases import Leases
from shiftlog.journal.continuity.requests import TAKE_OVER, reason_class
from shiftlog.journal.continuity.selection import check_own
from shiftlog.journal.journal import Answered, Journal, Request, find_session
from shiftlog.journal.pen import Pen
from shiftlog.journal.runs.service import Runs
from shiftlog.journal.sessions import spelling
from shiftlog.journal.signing.keys import Keys, receipt_document
from shiftlog.journal.signing.tokens import Tokens
from shiftlog.model.entry import Kind
from shiftlog.model.ids import agent_key
from shiftlog.model.limits import SUCCESSOR_DAYS
from shiftlog.model.moves import SessionState, Succession, TurnStatus
from shiftlog.model.nouns import Receipt, Session
from shiftlog.model.times import precise, shown_or_none
from shiftlog.store.protocol import Reader, Writer

DEFAULT_REASON = "manual_close"
# Stands in place of a control character.
MENDED = "\ufffd"
UNCONTINUED = "Session closed without successor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The wanted end of a session."""

    reason: str = DEFAULT_REASON
    note: str | None = None
    policy: Succession = Succession.ALLOWED
    statement: Mapping[str, Any] | None = None
    by_person: bool = False


class Closer:
    """End sessions."""

    def __init__(
        self, journal: Journal, keys: Keys, runs: Runs, tokens: Tokens, leases: Leases, *, require_token: bool
    ) -> None:
        self._journal = journal
        self._keys = keys
        self._runs = runs
        self._tokens = tokens
        self._leases = leases
        self._require_token = require_token

    def close(self, writer: Writer, request: Request) -> Answered:
        """Close the session that a request names; one that is closed already is left as it is."""
        values, caller = request.values, request.caller
        session = find_session(writer, values["session_id"])
        first = repeated(self._journal, writer, request, session.id, self._tokens)
        if first is not None:
            return self._as_of_now(writer, first, session, request)
        check_own(writer, session, caller)
        if not session.is_live:
            return self._already_closed(writer, session, request, self._journal.pen(writer, session.id, session))
        session = self._leases.suspended_if_left(writer, session, caller)
        pen = self._journal.pen(writer, session.id, session)
        self._leases.check_not_held(writer, session, request, pen.clock_now)
        # The operator holds no lease, but a fence that was named must be the present one.
        is_free = caller.operator and "fence" not in values
        if not (is_free or values.get("on_held") == TAKE_OVER):
            self._journal.check_writer(writer, session, caller, values.get("fence"))
        self._runs.end(pen, values)
        _warn_of_rebirth(pen, values)
        if request.replaced:
            pen.warn("text_mended", f"Control characters in {', '.join(request.replaced)} were replaced by {MENDED}")
        ending = Ending(
            reason=_unless_blank(values.get("reason")) or DEFAULT_REASON,
            note=_unless_blank(values.get("epitaph")),
            policy=_policy(values) or Succession.ALLOWED,
            statement=values.get("capsule"),
            by_person=caller.operator,
        )
        capsule, receipt = self.end(writer, pen, ending)
        is_final = pen.session.state is SessionState.SEALED
        issued = None if is_final else self._tokens.issue(writer, pen.session, pen.now)
        data = self._data(writer, pen.session, capsule, receipt, values)
        answered = with_token(shell(request, pen.session, "closed", data, pen.warnings), issued)
        keep(self._journal, writer, request, session.id, answered, issued)
        return answered

    def _as_of_now(self, writer: Writer, answered: Answered, session: Session, request: Request) -> Answered:
        """Return a repeated answer with the session's present state; refuse if it goes on with another client."""
        if session.is_live:
            self._leases.check_not_held(writer, session, request, self._journal.clock.now())
        return {**answered, "data": {**answered["data"], "state": str(session.state)}}

    def end(self, writer: Writer, pen: Pen, ending: Ending) -> tuple[dict[str, Any], Receipt]:
        """Write everything that ends a session, sign its head and release its lease; return capsule and receipt.

        Earlier tokens are revoked.
        """
        if ending.statement:
            pen.write(Kind.CAPSULE_SAVED, {"origin": "agent", "statement": dict(ending.statement)})
        if ending.policy is Succession.NONE:
            fail_open_turns(pen, {"failure_note": UNCONTINUED, "error_code": ""})
        self._offer(pen, ending)
        pen.commit(writer)
        material = read_material(writer, pen.session)
        capsule = capsule_from(material, pen.session, pen.now)
        pen.write(Kind.CAPSULE_SAVED, {"origin": capsule["origin"], "capsule": capsule})
        pen.write(Kind.SESSION_CLOSED, _close_body(ending, pen))
        pen.commit(writer)
        receipt = self._signed(pen)
        writer.put_receipt(receipt)
        writer.end_lease(pen.session.id)
        writer.revoke_tokens(pen.session.id, pen.now)
        return capsule_from(material, pen.session, pen.now), receipt

    def _offer(self, pen: Pen, ending: Ending) -> None:
        """Offer the session to the agent that the statement names; its own agent needs no offer."""
        named = str((ending.statement or {}).get("handoff_to") or "")
        if named and ending.policy is Succession.NONE:
            pen.warn("handoff_ignored", "The policy allows no successor, so the session was not offered")
            return
        if not named or agent_key(named) == pen.session.agent_key:
            return
        expires_at = precise(pen.now + self._tokens.ttl)
        pen.write(Kind.HANDOFF_OFFERED, {"agent_id": spelling(pen.reader, named), "expires_at": expires_at})

    def _already_closed(self, writer: Writer, session: Session, request: Request, pen: Pen) -> Answered:
        closing, values = session.closing, request.values
        note, policy = _unless_blank(values.get("epitaph")), _policy(values)
        _warn_of_rebirth(pen, values)
        if note and closing and note != closing.note:
            pen.warn("epitaph_ignored", "The session was closed before; its first closing note stays")
        if policy and closing and policy is not closing.policy:
            pen.warn("policy_unchanged", f"The session was closed before; its policy stays {closing.policy}")
        if values.get("capsule"):
            pen.warn("capsule_ignored", "The session was closed before; the statement was not kept")
        self._runs.warn_of_ignored(pen, values)
        receipts = writer.receipts(session.id)
        capsule = capsule_of(writer, session, pen.now)
        data = self._data(writer, session, capsule, receipts[-1] if receipts else None, values)
        data["status"] = "already_closed"
        # Without a token the session can be continued only where none is needed.
        arguments = {"agent_id": session.agent_id, "session_id": session.id}
        is_free = session.state is SessionState.CLOSED and not self._require_token
        data["next_action"] = {"name": "resume_session", "arguments": arguments} if is_free else None
        answered = with_token(shell(request, session, "already_closed", data, pen.warnings), None)
        if request.key is not None:
            keep(self._journal, writer, request, session.id, answered, None)
        return answered

    def _data(
        self,
        reader: Reader,
        session: Session,
        capsule: dict[str, Any],
        receipt: Receipt | None,
        values: Mapping[str, Any],
    ) -> dict[str, Any]:
        closing, offer = session.closing, session.offer
        data: dict[str, Any] = {
            "session_id": session.id,
            "agent_id": session.agent_id,
            "status": "closed",
            "state": str(session.state),
            "reason": closing.reason if closing else None,
            "reason_class": closing.reason_class if closing else None,
            "closed_at": shown_or_none(closing.at if closing else None),
            "succession_policy": str(closing.policy) if closing else None,
            "closed_without_successor": session.state is SessionState.SEALED,
            "successor_deadline": shown_or_none(closing.successor_deadline if closing else None),
            "epitaph_created": bool(closing and closing.note),
            "closing_note": closing.note if closing else None,
        }
        if values.get("include_summary", True):
            data["summary"] = summary_of(reader, session, tokens=self._runs.tokens_of(session))
        agent_id = (offer.agent_id if offer else None) or session.agent_id
        return data | {
            "capsule": capsule,
            "recovery_token": None,
            "recovery_token_expires_at": None,
            "head_hash": session.head_hash,
            "entry_count": session.head_seq,
            "receipt": receipt_document(receipt) if receipt else None,
            "next_action": {
                "name": "resume_session",
                "arguments": {"agent_id": agent_id, "recovery_token": None},
            },
        }

    def _signed(self, pen: Pen) -> Receipt:
        session = pen.session
        return self._keys.sign(
            Receipt(
                session_id=session.id,
                seq=session.head_seq,
                head_hash=session.head_hash,
                at=pen.now.replace(microsecond=0),
                key_id="",
                signature="",
                test_clock=self._journal.clock.is_test,
            )
        )


def fail_open_turns(pen: Pen, outcome: dict[str, Any]) -> None:
    """Fail every turn of a session that is still open."""
    if not pen.session.turns_open:
        return
    for stored in pen.reader.turns(pen.session.id):
        turn = pen.turn(stored.request_id)
        if turn is not None and not turn.is_terminal:
            rules.end_turn(pen, turn, TurnStatus.FAILED, outcome)


def _policy(values: Mapping[str, Any]) -> Succession | None:
    """Return the policy that a request asks for, by either of its two parameters."""
    given, rebirth = values.get("succession_policy"), values.get("allow_rebirth")
    if given:
        return Succession(given)
    if rebirth is None:
        return None
    return Succession.ALLOWED if rebirth else Succession.NONE


def _warn_of_rebirth(pen: Pen, values: Mapping[str, Any]) -> None:
    policy, rebirth = _policy(values), values.get("allow_rebirth")
    if rebirth is not None and rebirth is (policy is Succession.NONE):
        pen.warn("allow_rebirth_ignored", f"allow_rebirth disagrees with succession_policy; {policy} counts")


def _close_body(ending: Ending, pen: Pen) -> dict[str, Any]:
    body: dict[str, Any] = {
        "reason": ending.reason,
        "reason_class": reason_class(ending.reason),
        "policy": str(ending.policy),
    }
    if ending.note:
        body["note"] = ending.note
    if ending.by_person:
        body[BY] = PERSON
    if ending.policy is Succession.REQUIRED:
        body["successor_deadline"] = precise(pen.now + timedelta(days=SUCCESSOR_DAYS))
    return body


def _unless_blank(text: str | None) -> str | None:
    """Return a text as it was given, None for one that says nothing."""
    return text if text and text.strip() else None
