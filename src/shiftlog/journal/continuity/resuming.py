"""Resuming a session: admit the agent, then re-attach, reopen, fork or only read; with capsule, lease and token."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from shiftlog.journal import rules
from shiftlog.journal.activity import last_of_agent
from shiftlog.journal.chain import check_chain
from shiftlog.journal.clients import sessions_around
from shiftlog.journal.continuity.answers import keep, repeated, shell, vendor_resume, with_token
from shiftlog.journal.continuity.capsule.build import DEFAULT_BUDGET_BYTES
from shiftlog.journal.continuity.capsule.reading import WHOLE_BYTES, capsule_of
from shiftlog.journal.continuity.drift import Left
from shiftlog.journal.continuity.forking import fork
from shiftlog.journal.continuity.handover import Handover
from shiftlog.journal.continuity.leases import Leases
from shiftlog.journal.continuity.requests import FORK, READ_ONLY, TAKE_OVER
from shiftlog.journal.continuity.selection import (
    Chosen,
    candidate,
    check_entitled,
    check_final,
    choose,
    final_why,
    is_entitled,
)
from shiftlog.journal.continuity.taken_back import in_words, shown_taken_back, taken_back
from shiftlog.journal.holders import held
from shiftlog.journal.journal import Answered, Journal, Request, find_session
from shiftlog.journal.last_session import Asked, without_expired_offer
from shiftlog.journal.pen import Pen
from shiftlog.journal.sessions import hold_again, take_lease
from shiftlog.journal.signing.tokens import Claims, Tokens, check_holder, mismatch
from shiftlog.model.entry import Entry, Kind
from shiftlog.model.errors import JournalTampered, ShiftlogError
from shiftlog.model.ids import agent_key, is_unstable_agent_id
from shiftlog.model.limits import LEASE_S, LOOKBACK_DAYS
from shiftlog.model.moves import SessionState
from shiftlog.model.nouns import Session
from shiftlog.model.times import precise, shown
from shiftlog.store.keeping import is_archived
from shiftlog.store.protocol import Reader, Writer

# A holder that resumes its own session is active with that; so soon after its last activity it needs no entry.
NOTED_AFTER = timedelta(seconds=LEASE_S)
CAVEAT = "Items with basis 'claimed' were written by an agent and are not verified."


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """The session that an agent may go on with, as it was left; `entries_since` counts those after its token."""

    session: Session
    entries: Sequence[Entry]
    entries_since: int | None

    @property
    def worked_until(self) -> datetime:
        """Return when the session's agent last did something."""
        return last_of_agent(self.entries) or self.session.last_activity


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
        self._holders = journal.holders
        self._handover = handover
        self._require_token = require_token

    def resume(self, writer: Writer, request: Request) -> tuple[Answered, Left]:
        """Continue the session that a request names or chooses, and say what was left; never opens an empty one."""
        values, now = request.values, self._journal.clock.now()
        key = agent_key(values["agent_id"])
        first = repeated(self._journal, writer, request, key, self._tokens)
        if first is not None:
            first = self._as_of_now(writer, first, request)
            return first, _left(first["data"], writer.session(first["session_id"]))
        claims = None
        if "recovery_token" in values:
            claims = self._tokens.check(writer, values["recovery_token"], now)
        asked = self._asked(writer, request, key, now)
        chosen = choose(writer, values, asked, claims, now)
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
        admitted = self._admit(writer, request, chosen.session, key, claims, now)
        before = admitted.session
        drift = _drift(writer, admitted)
        warnings = _warnings(request, before, drift)
        resumed = self._go_on(writer, request, before, key, now)
        issued = None
        if resumed.mode != READ_ONLY:
            if claims is not None:
                self._tokens.spend(writer, request.values["recovery_token"], now)
            issued = self._tokens.issue(writer, resumed.session, now)
        elif request.caller.client_id:
            writer.put_agent_of(request.caller.client_id, before.agent_key, now)
        data = _data(admitted, resumed, chosen, drift, attested=claims is not None)
        answered = with_token(shell(request, resumed.session, "resumed", data, warnings), issued)
        keep(self._journal, writer, request, key, answered, issued)
        return answered, self._left(writer, answered["data"], before)

    def _as_of_now(self, writer: Writer, answered: Answered, request: Request) -> Answered:
        """Return a repeated answer as it is so now: refused if the session has ended or is held by another client."""
        session = find_session(writer, answered["session_id"])
        check_final(session)
        data = answered["data"]
        if data["resume_mode"] == READ_ONLY:
            present = {"state": str(session.state), "is_active": session.is_live}
            return {**answered, "data": {**data, **present}}
        lease = hold_again(self._journal, writer, session.id, request.caller)
        return {**answered, "data": {**data, "lease": lease}}

    def _asked(self, reader: Reader, request: Request, key: str, now: datetime) -> Asked:
        caller = request.caller
        days = request.values.get("lookback_days") or LOOKBACK_DAYS
        return Asked(
            agent_key=key,
            workspace=caller.workspace or caller.cwd,
            cwd=caller.cwd,
            own=self._holders.sessions_of(reader, caller, now),
            around=sessions_around(reader, caller),
            since=now - timedelta(days=days),
        )

    def _left(self, reader: Reader, data: dict[str, Any], before: Session) -> Left:
        """Return all that a session left behind, also what its capsule had no room for."""
        truncated = data["capsule"]["truncated"]
        is_folded = any("files" in item for item in data["capsule"]["files_touched"])
        if not is_folded and not {*truncated, *truncated.get("cut", ())} & {"files_touched", "shells"}:
            return _left(data, before)
        whole = capsule_of(reader, before, self._journal.clock.now(), WHOLE_BYTES)
        return _left({**data, "capsule": whole}, before)

    # Who may

    def _admit(
        self, writer: Writer, request: Request, session: Session, key: str, claims: Claims | None, now: datetime
    ) -> Admitted:
        """Return the session that the agent may go on with."""
        session = self._handover.without_expired_offer(writer, session, now)
        check_final(session)
        # Holding the session proves more than a token does.
        holds = self._holders.own(writer, session, request.caller, now) is not None
        check_entitled(session, key, claims, require_token=self._require_token and not holds)
        entries = check_intact(writer, session.id)
        since = None if claims is None else _entries_since(entries, claims)
        session = self._leases.suspended_if_left(writer, session, request.caller)
        return Admitted(session=session, entries=entries, entries_since=since)

    def _why_not(self, reader: Reader, session: Session, request: Request, key: str) -> str | None:
        now = self._journal.clock.now()
        if not is_entitled(without_expired_offer(session, now), key, with_token=False):
            return final_why(session) or "not_entitled"
        is_held = self._holders.other(reader, session, request.caller, now) is not None
        return final_why(session) or ("held" if is_held else None)

    # How

    def _go_on(self, writer: Writer, request: Request, session: Session, key: str, now: datetime) -> Resumed:
        own = session.agent_key == key
        if not session.is_live and not (own and session.state is SessionState.CLOSED):
            return self._fork(writer, request, session, beside=False)
        budget = request.values.get("capsule_budget_bytes") or DEFAULT_BUDGET_BYTES
        lease = self._holders.other(writer, session, request.caller, now)
        on_held = request.values.get("on_held")
        if lease is not None and on_held == FORK:
            return self._fork(writer, request, session, beside=True)
        if lease is not None and on_held == READ_ONLY:
            capsule = capsule_of(writer, session, now, budget)
            return Resumed(session=session, mode=READ_ONLY, lease=None, capsule=capsule)
        if lease is not None and on_held != TAKE_OVER:
            raise held(session, lease)
        mine = self._holders.own(writer, session, request.caller, now)
        pen = self._journal.pen(writer, session.id, session)
        if mine is not None:
            if now - session.last_activity >= NOTED_AFTER:
                pen.write(Kind.SESSION_RESUMED, {"via": "resume", "state_before": str(session.state)})
                pen.commit(writer)
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
        open_turn = rules.open_turn_id(pen)
        if open_turn is not None:
            pen.join(request.caller.client_id, open_turn)
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
    head = reader.head(session_id)
    if head is not None and head[0] == 0:
        raise is_archived(session_id)
    entries = reader.entries(session_id)
    found = check_chain(session_id, entries, head=head, receipts=reader.receipts(session_id))
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


def _drift(reader: Reader, admitted: Admitted) -> dict[str, Any]:
    """Return what the journal knows of drift: since when, and what was taken back since."""
    since = admitted.worked_until
    texts = {
        str(entry.facts.get("command_id")): str(entry.facts.get("command", ""))
        for entry in admitted.entries
        if entry.kind is Kind.COMMAND_STARTED
    }
    restores = taken_back(reader, admitted.session, admitted.entries)
    return {"since": precise(since), "taken_back": shown_taken_back(restores, since, texts)}


def _warnings(request: Request, session: Session, drift: dict[str, Any]) -> list[dict[str, object]]:
    warnings: list[dict[str, object]] = [
        {"code": "taken_back", "message": in_words(item), **item} for item in drift["taken_back"]
    ]
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
        since=datetime.fromisoformat(data["drift"]["since"]),
        touched=[item["path"] for item in capsule["files_touched"]],
        shells=[shell["shell_id"] for shell in capsule["shells"] if shell["state"] != "ended"],
        taken_back=data["drift"]["taken_back"],
    )


def _data(
    admitted: Admitted, resumed: Resumed, chosen: Chosen, drift: dict[str, Any], *, attested: bool
) -> dict[str, Any]:
    before, session, capsule = admitted.session, resumed.session, resumed.capsule
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
        "entries_since_token": admitted.entries_since,
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
        "drift": drift,
        "honest_caveat": CAVEAT,
    }
