"""Resuming a session: admit the agent, then re-attach, reopen, fork or only read; with capsule, lease and token."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shiftlog.journal.chain import check_chain
from shiftlog.journal.continuity.answers import keep, repeated, shell, vendor_resume, with_token
from shiftlog.journal.continuity.capsule.build import DEFAULT_BUDGET_BYTES
from shiftlog.journal.continuity.capsule.reading import WHOLE_BYTES, capsule_of
from shiftlog.journal.continuity.drift import Left
from shiftlog.journal.continuity.forking import fork
from shiftlog.journal.continuity.handover import Handover
from shiftlog.journal.continuity.leases import Leases, held
from shiftlog.journal.continuity.requests import FORK, READ_ONLY, TAKE_OVER
from shiftlog.journal.continuity.selection import (
    Chosen,
    candidate,
    check_entitled,
    check_final,
    choose,
    final_why,
    is_entitled,
    without_expired_offer,
)
from shiftlog.journal.journal import Answered, Journal, Request
from shiftlog.journal.pen import Pen
from shiftlog.journal.sessions import take_lease
from shiftlog.journal.signing.tokens import Claims, Tokens, check_holder, mismatch
from shiftlog.model.entry import Entry, Kind
from shiftlog.model.errors import JournalTampered, ShiftlogError
from shiftlog.model.ids import agent_key, is_unstable_agent_id
from shiftlog.model.moves import SessionState
from shiftlog.model.nouns import Session
from shiftlog.model.times import parse, shown
from shiftlog.store.protocol import Reader, Writer

CAVEAT = "Items with basis 'claimed' were written by an agent and are not verified."


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """The session that goes on, and how."""

    session: Session
    mode: str
    lease: dict[str, Any] | None
    capsule: dict[str, Any]


class Resumer:
    """Continue sessions."""

    def __init__(
        self, journal: Journal, tokens: Tokens, leases: Leases, handover: Handover, *, require_token: bool
    ) -> None:
        self._journal = journal
        self._tokens = tokens
        self._leases = leases
        self._handover = handover
        self._require_token = require_token

    def resume(self, writer: Writer, request: Request) -> tuple[Answered, Left]:
        """Continue the session that a request names or chooses, and say what was left; never opens an empty one."""
        values, now = request.values, self._journal.clock.now()
        key = agent_key(values["agent_id"])
        first = repeated(self._journal, writer, request, key, self._tokens)
        if first is not None:
            return first, _left(first["data"], writer.session(first["session_id"]))
        claims = None
        if "recovery_token" in values:
            claims = self._tokens.check(writer, values["recovery_token"], now)
        chosen = choose(writer, values, key, claims, now)
        if claims is not None:
            check_holder(claims, key)
        try:
            return self._resume(writer, request, chosen, key, claims, now)
        except ShiftlogError as error:
            if chosen.by_selection:
                error.details["candidates"] = [
                    candidate(each) | {"why_not": self._why_not(writer, each, request, key)}
                    for each in (chosen.session, *chosen.others)
                ]
            raise

    def _resume(
        self, writer: Writer, request: Request, chosen: Chosen, key: str, claims: Claims | None, now: datetime
    ) -> tuple[Answered, Left]:
        before, since = self._admit(writer, request, chosen.session, key, claims, now)
        warnings = _warnings(request, before)
        resumed = self._go_on(writer, request, before, key, now)
        issued = None
        if resumed.mode != READ_ONLY:
            if claims is not None:
                self._tokens.spend(writer, request.values["recovery_token"], now)
            issued = self._tokens.issue(writer, resumed.session, now)
        elif request.caller.client_id:
            writer.put_agent_of(request.caller.client_id, before.agent_key, now)
        data = _data(before, resumed, chosen, since, attested=claims is not None)
        answered = with_token(shell(request, resumed.session, "resumed", data, warnings), issued)
        keep(self._journal, writer, request, key, answered, issued)
        return answered, self._left(writer, answered["data"], before)

    def _left(self, reader: Reader, data: dict[str, Any], before: Session) -> Left:
        """Return all that a session left behind, also what its capsule had no room for."""
        truncated = data["capsule"]["truncated"]
        if not {*truncated, *truncated.get("cut", ())} & {"files_touched", "shells"}:
            return _left(data, before)
        whole = capsule_of(reader, before, self._journal.clock.now(), WHOLE_BYTES)
        return _left({**data, "capsule": whole}, before)

    # Who may

    def _admit(
        self, writer: Writer, request: Request, session: Session, key: str, claims: Claims | None, now: datetime
    ) -> tuple[Session, int | None]:
        """Return the session that the agent may go on with, and how many entries its token does not cover."""
        session = self._handover.without_expired_offer(writer, session, now)
        check_final(session)
        # Holding the session proves more than a token does.
        holds = self._leases.own_lease(writer, session, request.caller, now) is not None
        check_entitled(session, key, claims, require_token=self._require_token and not holds)
        entries = check_intact(writer, session.id)
        since = None if claims is None else _entries_since(entries, claims)
        return self._leases.suspended_if_left(writer, session, request.caller), since

    def _why_not(self, reader: Reader, session: Session, request: Request, key: str) -> str | None:
        now = self._journal.clock.now()
        if not is_entitled(without_expired_offer(session, now), key, with_token=False):
            return final_why(session) or "not_entitled"
        is_held = self._leases.other_holder(reader, session, request.caller, now) is not None
        return final_why(session) or ("held" if is_held else None)

    # How

    def _go_on(self, writer: Writer, request: Request, session: Session, key: str, now: datetime) -> Resumed:
        own = session.agent_key == key
        if not session.is_live and not (own and session.state is SessionState.CLOSED):
            return self._fork(writer, request, session, beside=False)
        budget = request.values.get("capsule_budget_bytes") or DEFAULT_BUDGET_BYTES
        lease = self._leases.other_holder(writer, session, request.caller, now)
        on_held = request.values.get("on_held")
        if lease is not None and on_held == FORK:
            return self._fork(writer, request, session, beside=True)
        if lease is not None and on_held == READ_ONLY:
            capsule = capsule_of(writer, session, now, budget)
            return Resumed(session=session, mode=READ_ONLY, lease=None, capsule=capsule)
        if lease is not None and on_held != TAKE_OVER:
            raise held(session, lease)
        mine = self._leases.own_lease(writer, session, request.caller, now)
        pen = self._journal.pen(writer, session.id, session)
        if mine is not None:
            granted = {"fence": mine.fence, "expires_at": shown(mine.expires_at)}
        else:
            granted = self._attach(writer, request, pen)
        capsule = capsule_of(writer, pen.session, now, budget)
        mode = "reopened" if session.state is SessionState.CLOSED else "reattached"
        return Resumed(session=pen.session, mode=mode, lease=granted, capsule=capsule)

    def _attach(self, writer: Writer, request: Request, pen: Pen) -> dict[str, Any]:
        if pen.session.offer is not None:
            pen.write(Kind.HANDOFF_ENDED, {"how": "revoked", "reason": "Reopened by its own agent"})
        pen.write(Kind.SESSION_RESUMED, {"via": "resume", "state_before": str(pen.session.state)})
        granted = take_lease(writer, pen, request.caller, taken_over=request.values.get("on_held") == TAKE_OVER)
        pen.commit(writer)
        return granted

    def _fork(self, writer: Writer, request: Request, predecessor: Session, *, beside: bool) -> Resumed:
        budget = request.values.get("capsule_budget_bytes") or DEFAULT_BUDGET_BYTES
        capsule = capsule_of(writer, predecessor, self._journal.clock.now(), budget)
        session, lease = fork(
            self._journal,
            writer,
            predecessor,
            request.caller,
            agent_id=request.values["agent_id"],
            capsule=capsule,
            beside=beside,
        )
        return Resumed(session=session, mode="forked", lease=lease, capsule=capsule)


def check_intact(reader: Reader, session_id: str) -> Sequence[Entry]:
    """Return the entries of a session's journal; refuse to go on with one that does not verify."""
    entries = reader.entries(session_id)
    found = check_chain(session_id, entries, head=reader.head(session_id), receipts=reader.receipts(session_id))
    if not found.ok:
        raise JournalTampered(
            "Journal verification failed",
            details={"session_id": session_id, "first_bad_seq": found.seq, "kind": found.kind},
        )
    return entries


def _entries_since(entries: Sequence[Entry], claims: Claims) -> int:
    """Count the entries after the head that a token is bound to, which must lie on the chain."""
    for after, entry in enumerate(reversed(entries)):
        if entry.hash == claims.head_hash:
            return after
    raise mismatch("head")


def _warnings(request: Request, session: Session) -> list[dict[str, object]]:
    warnings: list[dict[str, object]] = []
    workspace = request.caller.workspace
    if workspace and session.workspace and workspace != session.workspace:
        message = "The session belongs to another workspace"
        warnings.append({"code": "workspace_differs", "message": message, "workspace": session.workspace})
    if is_unstable_agent_id(request.values["agent_id"]):
        message = "agent_id looks drawn anew for each run; resume needs a stable name"
        warnings.append({"code": "unstable_agent_id", "message": message})
    return warnings


def _left(data: dict[str, Any], session: Session | None) -> Left:
    """Return what the session that was resumed left behind, as its capsule knows it."""
    capsule = data["capsule"]
    return Left(
        workspace=session.workspace if session else None,
        since=parse(data["last_activity"]),
        touched=[item["path"] for item in capsule["files_touched"]],
        shells=[shell["shell_id"] for shell in capsule["shells"] if shell["state"] != "ended"],
    )


def _data(before: Session, resumed: Resumed, chosen: Chosen, since: int | None, *, attested: bool) -> dict[str, Any]:
    session, capsule = resumed.session, resumed.capsule
    return {
        "resumed_session_id": session.id,
        "session_id": session.id,
        "agent_id": session.agent_id,
        "resume_mode": resumed.mode,
        "state_before": str(before.state),
        "state": str(session.state),
        "is_active": session.is_live,
        "attested": attested,
        "started_at": shown(session.started),
        "last_activity": shown(before.last_activity),
        "predecessor_session_id": session.predecessor_session_id,
        "entries_since_token": since,
        "wellness_score_at_last_touch": None,
        "continuity_signals": {
            "capsule": capsule["origin"],
            "open_turn": capsule["open_turn"] is not None,
            "checkpoints": len(capsule["checkpoints"]) + capsule["truncated"].get("checkpoints", 0),
        },
        "how_to_reattach": {
            "header": f"x-delx-session-id: {session.id}",
            "query_param": f"?session_id={session.id}",
            "next_call_example": {"name": "query_history", "arguments": {"session_id": session.id}},
        },
        "vendor_resume": vendor_resume(before),
        "lease": resumed.lease,
        "recovery_token": None,
        "recovery_token_expires_at": None,
        "head_hash": session.head_hash,
        "entry_count": session.head_seq,
        "capsule": capsule,
        "other_candidates": [candidate(other) for other in chosen.others],
        "drift": None,
        "honest_caveat": CAVEAT,
    }
