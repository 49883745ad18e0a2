"""Legal holds: a session or project on hold is neither erased nor archived until a person lifts the hold."""

from collections.abc import Iterable
from dataclasses import replace

from shiftlog.journal.journal import Journal, find_session
from shiftlog.model.errors import InvalidParameter, LegalHold
from shiftlog.model.nouns import Session
from shiftlog.model.times import shown
from shiftlog.store.keeping import Hold, Scope
from shiftlog.store.protocol import Reader, Writer

MOST_REASON_CHARS = 1000


def hold_on(session: Session, holds: Iterable[Hold]) -> Hold | None:
    """Return the first hold that covers a session: its own, or that of its project."""
    workspace = (session.workspace or "").rstrip("/")
    projects = {workspace, workspace.rpartition("/")[2]} - {""}
    return next(
        (
            hold
            for hold in holds
            if (hold.name == session.id if hold.scope == "session" else hold.name.rstrip("/") in projects)
        ),
        None,
    )


def refuse_if_held(reader: Reader, session: Session) -> None:
    """Raise LegalHold if a session must stay as it is."""
    hold = hold_on(session, reader.holds())
    if hold is not None:
        raise LegalHold(
            f"Session {session.id} is on legal hold since {shown(hold.at)}: {hold.reason}",
            details={"session_id": session.id, "scope": hold.scope, "name": hold.name, "since": shown(hold.at)},
        )


class Holds:
    """Setting, lifting and listing legal holds."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def place(self, scope: Scope, name: str, reason: str, by: str) -> Hold:
        """Put a session or project on hold; one that is on hold already stays as it is."""
        reason = self._reason(reason)

        def work(writer: Writer) -> Hold:
            named = _named(writer, scope, name)
            placed = _in_force(writer, scope, named)
            if placed is None:
                placed = Hold(scope=scope, name=named, reason=reason, by=by, at=self._journal.clock.now())
                writer.put_hold(placed)
            return placed

        return await self._journal.store.write(work)

    async def lift(self, scope: Scope, name: str, reason: str, by: str) -> Hold:
        """Lift a hold; the record of it stays."""
        reason = self._reason(reason)

        def work(writer: Writer) -> Hold:
            named = _named(writer, scope, name)
            placed = _in_force(writer, scope, named)
            if placed is None:
                raise InvalidParameter.invalid(scope, "something that is on hold", named)
            lifted = replace(placed, lifted_at=self._journal.clock.now(), lifted_by=by, lifted_because=reason)
            writer.put_hold(lifted)
            return lifted

        return await self._journal.store.write(work)

    async def all(self, *, lifted: bool = False) -> list[Hold]:
        """Return the holds in force; with `lifted` also those that were lifted."""
        return await self._journal.store.read(lambda reader: reader.holds(lifted=lifted))

    def _reason(self, given: str) -> str:
        if not given.strip():
            raise InvalidParameter.missing("reason")
        return self._journal.masked_text(given.strip()[:MOST_REASON_CHARS])


def _named(reader: Reader, scope: Scope, name: str) -> str:
    """Return the id of a session, or a project as it is compared."""
    if scope == "session":
        return find_session(reader, name).id
    project = name.strip().rstrip("/")
    if not project:
        raise InvalidParameter.missing("project")
    return project


def _in_force(reader: Reader, scope: Scope, name: str) -> Hold | None:
    return next((hold for hold in reader.holds() if (hold.scope, hold.name) == (scope, name)), None)
