"""Holders: which client holds a session now. Writes, closes, resumes and sweeps all follow this one rule.

A lease binds while its client is connected, else until it expires or its process is gone from this host. A session
that idles for longer than the limit has no holder, also before a sweep suspends it.
"""

from collections.abc import Callable, Collection
from datetime import datetime, timedelta

from shiftlog.model.caller import Caller
from shiftlog.model.moves import SessionState
from shiftlog.model.nouns import Lease, Session
from shiftlog.store.protocol import Reader


class Holders:
    """Tell who holds which session. `connected` may be called from any thread."""

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
        """Return the lease of this client, if it has one that binds; to idle does not cost the holder itself."""
        lease = reader.lease(session.id)
        if lease is None or lease.client_id != caller.client_id or not self.is_live(lease, now):
            return None
        return lease

    def sessions_of(self, reader: Reader, caller: Caller, now: datetime) -> frozenset[str]:
        """Name the sessions that a client is in: those that it holds and has not left idle."""
        if caller.client_id is None:
            return frozenset()
        names = [lease.session_id for lease in reader.leases() if lease.client_id == caller.client_id]
        found = [session for name in names if (session := reader.session(name)) is not None]
        return frozenset(session.id for session in found if self.lease(reader, session, now) is not None)
