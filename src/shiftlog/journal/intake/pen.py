"""The pen of imports and hooks: the journal's pen with a few questions that only they ask.

Chaining, projecting and buffering are inherited from `journal/pen.py` unchanged.
"""

from typing import Any

from shiftlog.journal.clock import Clock
from shiftlog.journal.pen import Pen
from shiftlog.model.entry import Kind
from shiftlog.model.moves import SessionState
from shiftlog.model.nouns import Session
from shiftlog.store.protocol import Reader, Writer


class IntakePen(Pen):
    """One session that facts from elsewhere are written into."""

    def __init__(self, reader: Reader, session_id: str, session: Session | None, clock: Clock) -> None:
        super().__init__(reader, session_id, session, clock)
        self._other_fields: dict[str, dict[str, Any]] = {}

    @property
    def is_sealed(self) -> bool:
        """Return True if the session takes no more entries."""
        return self.exists and self.session.state is SessionState.SEALED

    def has_turn(self, request_id: str) -> bool:
        """Return True if the session has this turn."""
        return self.turn(request_id) is not None

    def is_open(self, request_id: str) -> bool:
        """Return True if the session has this turn and it is not terminal."""
        turn = self.turn(request_id)
        return turn is not None and not turn.is_terminal

    def changed_fields(self, request_id: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the fields that `Turn` lacks and whose last recorded value differs."""
        recorded = self._other_fields.get(request_id)
        if recorded is None:
            recorded = self._other_fields[request_id] = {}
            turn = self.turn(request_id)
            # A turn that this pen began is not stored yet, and the store would read all entries from there on.
            if turn is not None and turn.begun_seq < self.next_seq - self.written:
                kinds = (Kind.TURN_UPDATED,)
                for entry in self.reader.entries(self.id, after=turn.begun_seq, turn=request_id, kinds=kinds):
                    recorded |= entry.facts.get("more") or {}
        fresh = {name: value for name, value in fields.items() if recorded.get(name) != value}
        recorded |= fresh
        return fresh


class Pens(dict[str, IntakePen]):
    """The pens of one batch by session id, each made when it is first needed."""

    def __init__(self, writer: Writer, clock: Clock) -> None:
        super().__init__()
        self._writer = writer
        self._clock = clock

    def __missing__(self, session_id: str) -> IntakePen:
        session = self._writer.session(session_id)
        pen = self[session_id] = IntakePen(self._writer, session_id, session, self._clock)
        return pen
