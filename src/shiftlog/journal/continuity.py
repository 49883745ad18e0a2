"""Closing and resuming sessions: the end of a shift, its capsule and receipt, and the start of the next."""

import shlex
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from shiftlog.journal.capsule import build_capsule
from shiftlog.journal.chain import check_chain
from shiftlog.journal.continuity_requests import CLOSE_SESSION, RESUME_SESSION, reason_class
from shiftlog.journal.journal import Answered, Journal, Request, find_session, holder
from shiftlog.journal.keys import Keys, receipt_document
from shiftlog.journal.pen import Pen
from shiftlog.journal.runs import CLOSE_RUN, Runs
from shiftlog.journal.selection import choose
from shiftlog.journal.sessions import LEASE_S, take_lease
from shiftlog.model.caller import Caller
from shiftlog.model.entry import Kind
from shiftlog.model.errors import JournalTampered, SessionHeld
from shiftlog.model.ids import agent_key
from shiftlog.model.moves import SessionState, Succession
from shiftlog.model.nouns import Lease, Receipt, Session
from shiftlog.model.times import shown, shown_or_none
from shiftlog.store.protocol import Filter, Page, Reader, Writer

CAPSULE_KINDS = (
    Kind.DIALOG,
    Kind.ACTION,
    Kind.CAPSULE_SAVED,
    Kind.SESSION_CLOSED,
    Kind.COMMAND_STARTED,
    Kind.COMMAND_FINISHED,
    Kind.SHELL_OPENED,
    Kind.SHELL_ENDED,
    Kind.CHECKPOINT_SAVED,
)
CAPSULE_BYTES = 8_000
SWEPT_AT_ONCE = 1_000
CAVEAT = "Items with basis 'claimed' were written by an agent and are not verified."


class Continuity:
    """Close, suspend and resume sessions."""

    def __init__(
        self, journal: Journal, keys: Keys, runs: Runs, process_started: Callable[[int], str | None], host: str
    ) -> None:
        self._journal = journal
        self._keys = keys
        self._runs = runs
        self._process_started = process_started
        self._host = host

    # Closing

    async def close_session(self, arguments: Mapping[str, Any], caller: Caller) -> Answered:
        """End a session: figures, capsule, close entry and receipt in one transaction."""
        request = self._journal.request("close_session", CLOSE_SESSION, arguments, caller)
        return await self._journal.transaction(request, lambda writer: self._close(writer, request))

    def _close(self, writer: Writer, request: Request) -> Answered:
        session = find_session(writer, request.values["session_id"])
        first = self._journal.replay(writer, request, session.id)
        if first is not None:
            return first
        pen = self._journal.pen(writer, session.id, session)
        if not session.is_live:
            return self._already_closed(writer, session, request, pen)
        self._check_not_held(writer, session, request, pen.now)
        if not (request.caller.operator or request.values.get("on_held") == "take_over"):
            self._journal.check_lease(writer, request, session)
        self._runs.end(pen, request.values)
        values = request.values
        reason = _unless_blank(values.get("reason")) or "manual_close"
        capsule, receipt = self._end(writer, pen, reason, _unless_blank(values.get("epitaph")))
        data = _close_data(writer, pen.session, receipt, capsule, values)
        answered = _shell("close_session", pen.session, "closed", data, pen)
        self._journal.remember(writer, request, session.id, answered, _outcome(pen.session))
        return answered

    def _already_closed(self, writer: Reader, session: Session, request: Request, pen: Pen) -> Answered:
        closing = session.closing
        note = _unless_blank(request.values.get("epitaph"))
        if note and closing and note != closing.note:
            pen.warn("epitaph_ignored", "The session was closed before; its first closing note stays")
        receipts = writer.receipts(session.id)
        capsule = capsule_of(writer, session, pen.now)
        data = _close_data(writer, session, receipts[-1] if receipts else None, capsule, request.values)
        return _shell("close_session", session, "already_closed", {**data, "status": "already_closed"}, pen)

    def _end(self, writer: Writer, pen: Pen, reason: str, note: str | None = None) -> tuple[dict[str, Any], Receipt]:
        """Write capsule and close entry, sign the head and release the lease."""
        capsule = capsule_of(writer, pen.session, pen.now)
        pen.write(Kind.CAPSULE_SAVED, {"origin": "auto", "capsule": capsule})
        body: dict[str, Any] = {
            "reason": reason,
            "reason_class": reason_class(reason),
            "policy": str(Succession.ALLOWED),
        }
        if note:
            body["note"] = note
        pen.write(Kind.SESSION_CLOSED, body)
        receipt = self._signed(pen)
        pen.commit(writer)
        writer.put_receipt(receipt)
        writer.end_lease(pen.session.id)
        return capsule, receipt

    async def close_run(self, arguments: Mapping[str, Any], caller: Caller) -> Answered:
        """End a run as its launcher reports it, and close its session unless another client works in it."""
        request = self._journal.request("close_run", CLOSE_RUN, arguments, caller)

        def close_session(writer: Writer, pen: Pen, reason: str) -> bool:
            lease = writer.lease(pen.session.id)
            if lease is not None and lease.client_id != caller.client_id and self.is_live_lease(lease, pen.now):
                return False
            self._end(writer, pen, reason)
            return True

        return await self._journal.transaction(request, lambda writer: self._runs.close(writer, request, close_session))

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

    # Resuming

    async def resume_session(self, arguments: Mapping[str, Any], caller: Caller) -> Answered:
        """Continue a session of an agent: its state, its capsule and the lease. Never opens an empty one."""
        request = self._journal.request("resume_session", RESUME_SESSION, arguments, caller)
        agent_key(request.values["agent_id"])
        return await self._journal.transaction(request, lambda writer: self._resume(writer, request))

    def _resume(self, writer: Writer, request: Request) -> Answered:
        key = agent_key(request.values["agent_id"])
        first = self._journal.replay(writer, request, key)
        if first is not None:
            return first
        now = self._journal.clock.now()
        session, others = choose(writer, request.values, key, now)
        self.check_intact(writer, session.id)
        pen = self._journal.pen(writer, session.id, session)
        before = session.state
        lease = writer.lease(session.id)
        mine = lease is not None and lease.client_id == request.caller.client_id
        if not (mine and lease is not None and self.is_live_lease(lease, now)):
            self._check_not_held(writer, session, request, now)
            pen.write(Kind.SESSION_RESUMED, {"via": "resume", "state_before": str(before)})
            granted = take_lease(writer, pen, request.caller)
        else:
            granted = {"fence": lease.fence, "expires_at": shown(lease.expires_at)}
        workspace = request.caller.workspace
        if workspace and session.workspace and workspace != session.workspace:
            pen.warn("workspace_differs", "The session belongs to another workspace", workspace=session.workspace)
        pen.commit(writer)
        budget = request.values.get("capsule_budget_bytes") or CAPSULE_BYTES
        capsule = capsule_of(writer, pen.session, pen.now, budget)
        data = _resume_data(session, pen.session, granted, capsule, others)
        answered = _shell("resume_session", pen.session, "resumed", data, pen)
        self._journal.remember(writer, request, key, answered, _outcome(pen.session))
        return answered

    def check_intact(self, reader: Reader, session_id: str) -> None:
        """Refuse to go on with a journal that does not verify."""
        found = check_chain(
            session_id,
            reader.entries(session_id),
            head=reader.head(session_id),
            receipts=reader.receipts(session_id),
        )
        if not found.ok:
            raise JournalTampered(
                "Journal verification failed",
                details={"session_id": session_id, "first_bad_seq": found.seq, "kind": found.kind},
            )

    # Leases and suspension

    def _check_not_held(self, reader: Reader, session: Session, request: Request, now: datetime) -> None:
        lease = reader.lease(session.id)
        if lease is None or lease.client_id == request.caller.client_id or not self.is_live_lease(lease, now):
            return
        if request.values.get("on_held") == "take_over" or request.values.get("fence") == session.fence:
            return
        raise SessionHeld(
            "Session is held by another writer",
            details={
                "session_id": session.id,
                "held_by": holder(session, lease),
                "fence": session.fence,
            },
            hint="Pass on_held: take_over",
        )

    def is_live_lease(self, lease: Lease, now: datetime) -> bool:
        """Tell whether a lease still binds: not expired, and its process not gone from this host."""
        if lease.expires_at <= now:
            return False
        return self._may_run(lease.pid, lease.pid_started, lease.host)

    def _may_run(self, pid: int | None, pid_started: str | None, host: str | None) -> bool:
        """Tell whether a process runs, as far as it can be seen from here; a recycled pid is not it."""
        if pid is None or host not in (self._host, "", None):
            return True
        started = self._process_started(pid)
        return started is not None and pid_started in (None, started)

    async def client_gone(self, client_id: str) -> None:
        """Let the leases of a client whose connection closed run out now."""
        await self.renew([client_id], timedelta(0))

    async def renew(self, client_ids: list[str], lease_for: timedelta = timedelta(seconds=LEASE_S)) -> None:
        """Prolong the leases of clients that are still connected."""
        if client_ids:
            expires_at = self._journal.clock.now() + lease_for
            await self._journal.store.write(lambda writer: writer.renew_leases(client_ids, expires_at))

    async def suspend_stale(self, idle_limit: timedelta) -> list[str]:
        """Suspend open sessions whose holder or run is gone, or that idle for longer than the limit (0: never)."""
        gone = await self._journal.store.read(self._runs.gone)
        return await self._journal.store.write(lambda writer: self._suspend_stale(writer, idle_limit, gone))

    def _suspend_stale(self, writer: Writer, idle_limit: timedelta, gone: list[str]) -> list[str]:
        now = self._journal.clock.now()
        causes = dict.fromkeys(gone, "process_ended")
        for lease in writer.leases():
            if not self.is_live_lease(lease, now):
                writer.end_lease(lease.session_id)
                causes[lease.session_id] = "process_ended"
        if idle_limit:
            where = Filter(states=frozenset({"open"}), idle_since=now - idle_limit)
            rows = writer.find_sessions(where, Page(limit=SWEPT_AT_ONCE), by_activity=True)
            causes |= {row.session.id: "idle" for row in rows if row.session.id not in causes}
        return [name for name, cause in causes.items() if self._suspend(writer, name, cause)]

    def _suspend(self, writer: Writer, session_id: str, cause: str) -> bool:
        session = writer.session(session_id)
        if session is None:
            return False
        pen = self._journal.pen(writer, session_id, session)
        self._runs.orphan(pen)
        if session.state is not SessionState.OPEN:
            pen.commit(writer)
            return False
        pen.write(Kind.CAPSULE_SAVED, {"origin": "auto", "capsule": capsule_of(writer, pen.session, pen.now)})
        pen.write(Kind.SESSION_SUSPENDED, {"cause": cause})
        pen.commit(writer)
        writer.end_lease(session_id)
        return True


def capsule_of(reader: Reader, session: Session, now: datetime, budget_bytes: int = CAPSULE_BYTES) -> dict[str, Any]:
    """Build a session's capsule from its journal as it stands."""
    return build_capsule(
        session,
        reader.turns(session.id),
        reader.entries(session.id, kinds=CAPSULE_KINDS),
        statement=None,
        budget_bytes=budget_bytes,
        now=now,
    )


def _close_data(
    reader: Reader, session: Session, receipt: Receipt | None, capsule: dict[str, Any], values: Mapping[str, Any]
) -> dict[str, Any]:
    closing = session.closing
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
        data["summary"] = summary_of(reader, session)
    data |= {
        "capsule": capsule,
        "head_hash": session.head_hash,
        "entry_count": session.head_seq,
        "receipt": receipt_document(receipt) if receipt else None,
        "next_action": {
            "name": "resume_session",
            "arguments": {"agent_id": session.agent_id, "session_id": session.id},
        },
    }
    return data


def summary_of(reader: Reader, session: Session) -> dict[str, Any]:
    """Return the figures of a session that its close reports."""
    files = {path for turn in reader.turns(session.id) for path in turn.files}
    return {
        "turns_total": session.turns_total,
        "turns_completed": session.turns_completed,
        "turns_failed": session.turns_failed,
        "turns_open": session.turns_open,
        "dialog_items": session.dialog_items,
        "actions_total": session.actions_total,
        "files_modified": len(files),
        "tokens_total": session.tokens_total,
        "duration_seconds": int((session.last_activity - session.started).total_seconds()),
        "messages_total": session.dialog_items,
        "failures_processed": session.turns_failed,
        "pending_outcomes": session.turns_open + session.actions_unfinished,
    }


def _unless_blank(text: str | None) -> str | None:
    """Return a text as it was given, None for one that says nothing."""
    return text if text and text.strip() else None


def vendor_resume(session: Session) -> str | None:
    """Return the vendor's own command to continue a session, where its id is known."""
    vendor_id = session.vendor_session_id
    if not vendor_id:
        return None
    commands = {"ClaudeCode": "claude --resume", "Codex": "codex resume"}
    command = commands.get(session.agent)
    return f"{command} {shlex.quote(vendor_id)}" if command else None


def _resume_data(
    before: Session,
    session: Session,
    lease: dict[str, Any],
    capsule: dict[str, Any],
    others: list[dict[str, Any]],
) -> dict[str, Any]:
    reopened = before.state is SessionState.CLOSED
    return {
        "resumed_session_id": session.id,
        "session_id": session.id,
        "agent_id": session.agent_id,
        "resume_mode": "reopened" if reopened else "reattached",
        "state_before": str(before.state),
        "state": str(session.state),
        "is_active": True,
        "started_at": shown(session.started),
        "last_activity": shown(before.last_activity),
        "predecessor_session_id": session.predecessor_session_id,
        "continuity_signals": {
            "capsule": capsule["origin"],
            "open_turn": session.turns_open > 0,
            "checkpoints": len(capsule.get("checkpoints", ())),
        },
        "how_to_reattach": {
            "next_call_example": {"name": "query_history", "arguments": {"session_id": session.id}},
        },
        "vendor_resume": vendor_resume(session),
        "lease": lease,
        "head_hash": session.head_hash,
        "entry_count": session.head_seq,
        "capsule": capsule,
        "other_candidates": others,
        "honest_caveat": CAVEAT,
    }


def _shell(tool: str, session: Session, status: str, data: dict[str, Any], pen: Pen) -> Answered:
    return {
        "ok": True,
        "tool_name": tool,
        "session_id": session.id,
        "agent_id": session.agent_id,
        "status": status,
        "data": data,
        "warnings": pen.warnings,
    }


def _outcome(session: Session) -> dict[str, Any]:
    return {"code": "persisted", "session_id": session.id, "seq": session.head_seq, "hash": session.head_hash}
