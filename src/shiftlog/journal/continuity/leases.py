"""Leases: which client holds a session, until when, and the suspension of sessions that lost their holder or idle."""

from datetime import datetime, timedelta

from shiftlog.journal.continuity.capsule.reading import capsule_of
from shiftlog.journal.continuity.requests import TAKE_OVER
from shiftlog.journal.holders import held
from shiftlog.journal.journal import TAKE_IT_OVER, Journal, Request
from shiftlog.journal.runs.service import Runs
from shiftlog.model.caller import Caller
from shiftlog.model.entry import Kind
from shiftlog.model.limits import LEASE_S
from shiftlog.model.moves import SessionState
from shiftlog.model.nouns import LEFT, Session
from shiftlog.store.protocol import Filter, Page, Reader, Writer

SWEPT_AT_ONCE = 1_000
PROCESS_ENDED, IDLE = "process_ended", "idle"


class Leases:
    """Check and renew leases; suspend sessions that lost their holder or idle."""

    def __init__(self, journal: Journal, runs: Runs) -> None:
        self._journal = journal
        self._runs = runs
        self._holders = journal.holders

    # Leases

    def check_not_held(self, reader: Reader, session: Session, request: Request, now: datetime) -> None:
        """Refuse to close what another client holds, unless it takes over or knows the present fence."""
        lease = self._holders.other(reader, session, request.caller, now)
        values = request.values
        if lease is None or values.get("on_held") == TAKE_OVER or values.get("fence") == session.fence:
            return
        raise held(session, lease, hint=TAKE_IT_OVER)

    async def renew(self, client_ids: list[str]) -> None:
        """Prolong the leases of clients that are still connected."""
        if client_ids:
            expires_at = self._journal.clock.now() + timedelta(seconds=LEASE_S)
            await self._journal.store.write(lambda writer: writer.renew_leases(client_ids, expires_at))

    async def leave(self, client_id: str) -> None:
        """End the leases of a client that left, also for a clock that is set back later."""
        await self._journal.store.write(lambda writer: writer.renew_leases([client_id], LEFT))

    # Suspension

    async def suspend_stale(self, idle_limit: timedelta) -> list[str]:
        """Suspend open sessions whose holder or run is gone, or that idle for longer than the limit (0: never)."""
        gone = await self._journal.store.read(self._runs.gone)
        return await self._journal.store.write(lambda writer: self._suspend_stale(writer, idle_limit, gone))

    def _suspend_stale(self, writer: Writer, idle_limit: timedelta, gone: list[str]) -> list[str]:
        now = self._journal.clock.now()
        # Another sweep may have acted since the read, and the session may have been resumed.
        still = (writer.session(name) for name in gone)
        causes = {session.id: PROCESS_ENDED for session in still if session and self._runs.is_gone(session)}
        for lease in writer.leases():
            if not self._holders.is_live(lease, now):
                writer.end_lease(lease.session_id)
                causes[lease.session_id] = PROCESS_ENDED
        if idle_limit:
            where = Filter(states=frozenset({"open"}), idle_since=now - idle_limit)
            rows = writer.find_sessions(where, Page(limit=SWEPT_AT_ONCE), by_activity=True)
            causes |= {row.session.id: IDLE for row in rows if row.session.id not in causes}
        return [name for name, cause in causes.items() if self._suspend(writer, name, cause)]

    def suspended_if_left(self, writer: Writer, session: Session, caller: Caller) -> Session:
        """Suspend an open session that lost its holder or idles; return it as it is now."""
        cause = self._cause(writer, session, caller)
        if cause is None or not self._suspend(writer, session.id, cause):
            return session
        return writer.session(session.id) or session

    def _cause(self, reader: Reader, session: Session, caller: Caller) -> str | None:
        """Return why an open session counts as left alone, None if it does not; for its holder it never does."""
        if session.state is not SessionState.OPEN:
            return None
        now = self._journal.clock.now()
        lease = reader.lease(session.id)
        if lease is not None and lease.client_id == caller.client_id:
            return None
        if (lease is not None and not self._holders.is_live(lease, now)) or self._runs.is_gone(session):
            return PROCESS_ENDED
        return IDLE if self._holders.is_idle(session, now) else None

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
