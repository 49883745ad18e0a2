"""Retention: what sessions said is erased once they were idle for as many days as their project is kept.

The chain stays and still verifies, as after `shiftlog erase`. Open sessions, sessions on legal hold and archived ones
are left alone.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from shiftlog.journal.journal import Journal
from shiftlog.journal.keeping.holds import hold_on
from shiftlog.model.errors import LegalHold
from shiftlog.model.moves import SessionState
from shiftlog.model.nouns import Session
from shiftlog.store.protocol import Filter, Page, Reader

AT_ONCE = 500
_STATES = frozenset(str(state) for state in SessionState if state is not SessionState.OPEN)

# Erases the bodies of some entries of a session, with what is kept elsewhere of them.
Erase = Callable[[str, list[int], str], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionTerms:
    """The days that sessions are kept, by project (name or path) and for all others; 0 keeps them for ever."""

    days: int
    projects: Mapping[str, int]

    def days_of(self, session: Session) -> int:
        """Return how many days a session is kept after its last activity; a path counts before a name."""
        workspace = (session.workspace or "").rstrip("/")
        by_path = self.projects.get(workspace)
        return self.projects.get(workspace.rpartition("/")[2], self.days) if by_path is None else by_path

    @property
    def shortest(self) -> int:
        """Return the smallest number of days after which a session is erased; 0 if none ever is."""
        return min((days for days in (self.days, *self.projects.values()) if days), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A session whose time is over, and the entries to erase; with `held` it is on legal hold and stays."""

    session: Session
    days: int
    entries: list[int]
    held: bool


class Retention:
    """Finds and erases sessions whose time is over."""

    def __init__(self, journal: Journal, terms: RetentionTerms, erase: Erase) -> None:
        self._journal = journal
        self._terms = terms
        self._erase = erase

    async def due(self) -> list[Due]:
        """Return the sessions whose time is over, also those on hold."""
        if not self._terms.shortest:
            return []
        now = self._journal.clock.now()
        return await self._journal.store.read(lambda reader: list(self._due(reader, now)))

    def _due(self, reader: Reader, now: datetime) -> Iterator[Due]:
        holds = reader.holds()
        for session in _idle(reader, now - timedelta(days=self._terms.shortest)):
            days = self._terms.days_of(session)
            if not days or session.last_activity > now - timedelta(days=days):
                continue
            if entries := reader.erasable(session.id):
                held = hold_on(session, holds) is not None
                yield Due(session=session, days=days, entries=entries, held=held)

    async def sweep(self) -> list[Due]:
        """Erase and return the sessions that are due and not on hold."""
        done: list[Due] = []
        for due in await self.due():
            if due.held:
                continue
            try:
                await self._erase(due.session.id, due.entries, f"retention: kept for {due.days} days")
            except LegalHold:
                continue  # it was set in the meantime, or on a session that repeats this one's words
            done.append(due)
        return done


def _idle(reader: Reader, since: datetime) -> Iterator[Session]:
    """Yield the sessions, deleted ones too, that are not open and were idle since a time."""
    for hidden in (False, True):
        page = Page(limit=AT_ONCE)
        where = Filter(states=_STATES, idle_since=since, hidden=hidden)
        while rows := reader.find_sessions(where, page, by_activity=True):
            yield from (row.session for row in rows)
            page = Page(limit=AT_ONCE, after=rows[-1].at)
