"""The pen: writes drafts onto one session's chain, keeping session and turns in step as it goes.

Rules decide by writing with a pen; nothing reaches the store before `commit`, so a rule that raises leaves nothing.
"""

from collections.abc import Callable
from datetime import datetime

from shiftlog.journal.encoding import spelled
from shiftlog.journal.projection import apply
from shiftlog.journal.texts import facet, search_text
from shiftlog.model.canonical import first_prev_hash
from shiftlog.model.entry import Body, Draft, Entry, Kind
from shiftlog.model.nouns import Session, Turn
from shiftlog.model.times import precise, truncated
from shiftlog.store.protocol import Indexed, Reader, Writer


class Pen:
    """One session under change, at one moment."""

    def __init__(
        self,
        reader: Reader,
        session_id: str,
        session: Session | None,
        now: datetime,
        *,
        test_clock: bool = False,
    ) -> None:
        self._reader = reader
        self._session_id = session_id
        self._session = session
        self._turns: dict[str, Turn] = {}
        self._changed: dict[str, None] = {}
        self._deleted: set[str] = set()
        self._test_clock = test_clock
        now = truncated(now)
        self.now = now if session is None else max(now, session.last_activity)
        # Where it is set, everything written counts as having been so at that time: what imports bring is older.
        self.as_of: datetime | None = None
        self.entries: list[Entry] = []
        self.turn_began: Callable[[str], None] | None = None
        self.warnings: list[dict[str, object]] = []

    @property
    def session(self) -> Session:
        """Return the session with everything written so far."""
        if self._session is None:
            raise LookupError("the session is not open yet")
        return self._session

    @property
    def reader(self) -> Reader:
        """Return the store as it was before this pen."""
        return self._reader

    def turn(self, request_id: str) -> Turn | None:
        """Return a turn with everything written so far."""
        if request_id not in self._turns:
            if request_id in self._deleted:
                return None
            stored = self._reader.turn(self._session_id, request_id)
            if stored is None:
                return None
            self._turns[request_id] = stored
        return self._turns[request_id]

    def write(self, kind: Kind, body: Body, turn: str | None = None, salt: bytes | None = None) -> Entry:
        """Chain one entry and move session and turn to where they stand after it."""
        if self._test_clock:
            body = {**body, "test_clock": True}
        if self.as_of is not None:
            body = {**body, "as_of": precise(self.as_of)}
        session = self._session
        entry = Entry.chained(
            Draft(kind=kind, turn=turn, body=body, salt=salt),
            seq=session.head_seq + 1 if session else 1,
            prev_hash=session.head_hash if session and session.head_hash else first_prev_hash(self._session_id),
            at=self.now,
            spelling=spelled(body),
        )
        self._session, after = apply(session, self.turn(turn) if turn else None, entry, self._session_id)
        if turn is not None and after is not None:
            self._turns[turn] = after
            self._changed[turn] = None
        elif turn is not None and self._turns.pop(turn, None) is not None:
            self._changed.pop(turn, None)
            self._deleted.add(turn)
        self.entries.append(entry)
        if kind is Kind.TURN_BEGUN and turn is not None and self.turn_began is not None:
            self.turn_began(turn)
        return entry

    def warn(self, code: str, message: str, **more: object) -> None:
        """Add a warning to the answer, once however often it is given."""
        warning = {"code": code, "message": message, **more}
        if warning not in self.warnings:
            self.warnings.append(warning)

    def commit(self, writer: Writer) -> bool:
        """Hand everything written since the last commit to the store; tell whether there was anything."""
        if not self.entries:
            return False
        writer.append(
            self._session_id,
            [Indexed(entry=entry, text=search_text(entry), facet=facet(entry)) for entry in self.entries],
        )
        writer.put_session(self.session)
        for request_id in self._deleted:
            writer.forget_turn(self._session_id, request_id)
        for request_id in self._changed:
            writer.put_turn(self._session_id, self._turns[request_id])
        self.entries = []
        self._changed.clear()
        self._deleted.clear()
        return True
