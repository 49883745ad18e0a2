"""Holders: which client holds a session now, and the errors for those that do not.

Writes, closes, resumes and sweeps all follow this one rule.

A lease binds while its client is connected, else until it expires or its process is gone from this host. A session
that idles for longer than the limit has no holder, also before a sweep suspends it.
"""

from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from typing import Any

from shiftlog.model.caller import Caller
from shiftlog.model.errors import LeaseLost, SessionHeld
from shiftlog.model.limits import LEASE_S
from shiftlog.model.moves import SessionState
from shiftlog.model.nouns import LEFT, Lease, Session
from shiftlog.model.times import shown
from shiftlog.store.protocol import Reader


class Holders:
    """Finds the holders of sessions. `connected` may be called from any thread."""

    def __init__(
        self,
        process_started: Callable[[int], str | None],
        host: str,
        idle_limit: timedelta,
        connected: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self._process_started = process_started
        self._host = host
        self._idle_limit = idle_limit
        self._connected = connected

    def is_live(self, lease: Lease, now: datetime) -> bool:
        """Return True if a lease still binds: its client is there, or may come back before it expires."""
        if lease.client_id in self._connected():
            return True  # the clock may have jumped since its lease was last renewed
        if lease.expires_at <= now:
            return False
        if lease.pid is None or lease.host not in (self._host, ""):
            return True
        started = self._process_started(lease.pid)
        return started is not None and lease.pid_started in (None, started)

    def is_idle(self, session: Session, now: datetime) -> bool:
        """Return True if an open session has idled for longer than the limit (0: never)."""
        is_over = bool(self._idle_limit) and session.last_activity <= now - self._idle_limit
        return is_over and session.state is SessionState.OPEN

    def lease(self, reader: Reader, session: Session, now: datetime) -> Lease | None:
        """Return the lease that binds a session now, if there is one."""
        lease = reader.lease(session.id)
        if lease is None or self.is_idle(session, now) or not self.is_live(lease, now):
            return None
        return lease

    def other(self, reader: Reader, session: Session, caller: Caller, now: datetime) -> Lease | None:
        """Return the lease of another client that holds a session, if one does."""
        lease = self.lease(reader, session, now)
        return None if lease is None or lease.client_id == caller.client_id else lease

    def own(self, reader: Reader, session: Session, caller: Caller, now: datetime) -> Lease | None:
        """Return the binding lease of this client, if it has one; it keeps it in an idle session too."""
        lease = reader.lease(session.id)
        if lease is None or lease.client_id != caller.client_id or not self.is_live(lease, now):
            return None
        return lease

    def sessions_of(self, reader: Reader, caller: Caller, now: datetime) -> frozenset[str]:
        """Return the ids of the sessions that a client holds and that are not idle."""
        if caller.client_id is None:
            return frozenset()
        names = [lease.session_id for lease in reader.leases() if lease.client_id == caller.client_id]
        found = [session for name in names if (session := reader.session(name)) is not None]
        return frozenset(session.id for session in found if self.lease(reader, session, now) is not None)


def lease_of(session: Session, caller: Caller, now: datetime) -> Lease:
    """Return a lease for the caller, under the session's present fence."""
    assert caller.client_id is not None
    return Lease(
        session_id=session.id,
        fence=session.fence,
        client_id=caller.client_id,
        agent_id=session.agent_id,
        agent_key=session.agent_key,
        face=caller.face,
        host=caller.host,
        pid=caller.pid,
        pid_started=caller.pid_started,
        since=now,
        expires_at=now + timedelta(seconds=LEASE_S),
    )


def check_fence(reader: Reader, session: Session, fence: int | None) -> None:
    """Raise LeaseLost for an old fence, and for a missing one if the session is exclusive."""
    if fence == session.fence or (fence is None and not session.exclusive):
        return
    raise LeaseLost(
        "Lease lost: a newer holder exists"
        if fence is not None
        else "Lease lost: the session is exclusive and no fence was presented",
        details={
            "fence_given": fence,
            "fence_current": session.fence,
            "held_by": shown_holder(session, reader.lease(session.id)),
        },
    )


def held(session: Session, lease: Lease, hint: str | None = None) -> SessionHeld:
    """Return the error for a session that another client holds."""
    return SessionHeld(
        "Session is held by another writer",
        details={"session_id": session.id, "held_by": shown_holder(session, lease), "fence": session.fence},
        hint=hint,
    )


def shown_holder(session: Session, lease: Lease | None) -> dict[str, Any]:
    """Return the holder of a session in the form that errors show."""
    if lease is None:
        return {"agent_id": session.agent_id, "expires_at": None}
    return {
        "agent_id": lease.agent_id,
        "face": lease.face,
        "host": lease.host,
        "pid": lease.pid,
        "since": shown(lease.since),
        "expires_at": shown(lease.expires_at) if lease.expires_at > LEFT else None,
    }
