"""The pen: the one place that chains entries, for live writes, hooks and imports.

Rules write with a pen, which keeps session and turns in step through `projection.apply`. Written entries wait in a
buffer until `commit`, so a rule that raises stores nothing. What to write is decided elsewhere.
"""

import os
from collections.abc import Callable
from datetime import datetime

from shiftlog.facts.batch import Prepared
from shiftlog.journal.activity import AUTOMATIC
from shiftlog.journal.clock import Clock
from shiftlog.journal.encoding import SALT_BYTES, prepare
from shiftlog.journal.projection import apply
from shiftlog.model.caller import NO_SIGNS
from shiftlog.model.canonical import entry_hash, first_prev_hash
from shiftlog.model.entry import CLOCK_SET_BACK, Body, Entry, Kind
from shiftlog.model.limits import CLOCK_SLACK
from shiftlog.model.nouns import Session, Turn
from shiftlog.model.times import precise, truncated
from shiftlog.store.protocol import Reader, Writer
from shiftlog.store.sources import Packed


class Pen:
    """One session under change, at one moment."""

    def __init__(
        self,
        reader: Reader,
        session_id: str,
        session: Session | None,
        clock: Clock,
        *,
        turn_moved: Callable[[str, Kind], None] | None = None,
    ) -> None:
        self.id = session_id
        self.reader = reader
        self._session = self._stored = session
        self._turns: dict[str, Turn | None] = {}
        self._changed: dict[str, None] = {}
        self._deleted: set[str] = set()
        self._rows: list[Packed] = []
        self._test_clock = clock.is_test
        now = self.clock_now = truncated(clock.now())  # leases run by the clock, entries never before the last one
        # Entries never go back in time for a small step of the clock; after a jump ahead that was set back they do.
        self._is_set_back = session is not None and session.last_activity - now > CLOCK_SLACK
        self.now = now if session is None or self._is_set_back else max(now, session.last_activity)
        # If set, entries count as made at this time: a log that is imported later is older than its entries.
        self.as_of: datetime | None = None
        # If set, entries are bookkeeping: they record no act of an agent or a person.
        self.automatic = False
        # The signs of the calling client.
        self.signs = NO_SIGNS
        self._turn_moved = turn_moved
        self._moves: list[tuple[str, Kind]] = []
        self._joined: dict[str, str] = {}
        self.warnings: list[dict[str, object]] = []

    @property
    def exists(self) -> bool:
        """Return True if the session has an entry, stored or written by this pen."""
        return self._session is not None

    @property
    def session(self) -> Session:
        """Return the session with everything written so far."""
        if self._session is None:
            raise LookupError("the session is not open yet")
        return self._session

    @property
    def written(self) -> int:
        """Return the number of entries that wait for `commit`."""
        return len(self._rows)

    @property
    def next_seq(self) -> int:
        """Return the number of the entry that is written next."""
        return self._session.head_seq + 1 if self._session else 1

    def turn(self, request_id: str) -> Turn | None:
        """Return a turn with everything written so far."""
        if request_id not in self._turns:
            self._turns[request_id] = self.reader.turn(self.id, request_id)
        return self._turns[request_id]

    def turns(self) -> list[Turn]:
        """Return all turns with everything written so far."""
        stored = {turn.request_id: turn for turn in self.reader.turns(self.id)}
        return [turn for turn in {**stored, **self._turns}.values() if turn is not None]

    def write(
        self, kind: Kind, body: Body, turn: str | None = None, *, at: str | None = None, salt: bytes | None = None
    ) -> Entry:
        """Chain one entry, by default at the pen's own time, and apply it to session and turn."""
        if self._test_clock:
            body = {**body, "test_clock": True}
        if self.as_of is not None:
            body = {**body, "as_of": precise(self.as_of)}
        elif self._is_set_back and at is None:
            body = {**body, CLOCK_SET_BACK: True}
        if self.automatic:
            body = {**body, AUTOMATIC: True}
        prepared = prepare(kind, body, salt or os.urandom(SALT_BYTES))
        return self.write_prepared(kind, body, turn, prepared, at=at)

    def write_prepared(
        self, kind: Kind, facts: Body, turn: str | None, prepared: Prepared, *, at: str | None = None
    ) -> Entry:
        """Chain an entry whose body is encoded already; `facts` holds what its projection needs."""
        session = self._session
        moment, at = (self.now, precise(self.now)) if at is None else (datetime.fromisoformat(at), at)
        hash_of_body = "sha256:" + prepared.body_hash.hex()
        seq = self.next_seq
        prev_hash = session.head_hash if session and session.head_hash else first_prev_hash(self.id)
        digest = entry_hash(prev_hash, seq=seq, kind=kind, at=at, turn=turn, hash_of_body=hash_of_body)
        entry = Entry(
            seq=seq,
            kind=kind,
            at=moment,
            turn=turn,
            body=facts,
            salt=prepared.salt,
            body_hash=hash_of_body,
            hash=digest,
        )
        self._rows.append(
            Packed(
                seq,
                kind.value,
                at,
                turn,
                prepared.facet,
                prepared.document,
                prepared.salt,
                prepared.body_hash,
                bytes.fromhex(digest[7:]),
                prepared.text,
                prepared.long_texts,
            )
        )
        self._apply(entry)
        if kind is Kind.TURN_BEGUN and turn is not None:
            self.announce(turn)
        return entry

    def _apply(self, entry: Entry) -> None:
        name = entry.turn
        before = self.turn(name) if name else None
        self._session, after = apply(self._session, before, entry, self.id)
        if name is None or after is before:
            return
        self._turns[name] = after
        if after is not None:
            self._changed[name] = None
        else:
            self._changed.pop(name, None)
            self._deleted.add(name)

    def join(self, client_id: str | None, request_id: str) -> None:
        """Store with the commit that a client works in a turn, which it began, adopted or found open."""
        if client_id is not None:
            self._joined[client_id] = request_id

    def announce(self, request_id: str, kind: Kind = Kind.TURN_BEGUN) -> None:
        """Report with the commit that this turn began or ended."""
        self._moves.append((request_id, kind))

    def warn(self, code: str, message: str, **more: object) -> None:
        """Add a warning to the answer, once however often it is given."""
        warning = {"code": code, "message": message, **more}
        if warning not in self.warnings:
            self.warnings.append(warning)

    def discard(self) -> None:
        """Drop everything written since the last commit."""
        self._session = self._stored
        for names in (self._rows, self._turns, self._changed, self._deleted, self._moves, self._joined):
            names.clear()

    def commit(self, writer: Writer) -> int:
        """Hand everything written since the last commit to the store; return how many entries that were."""
        rows, self._rows, self._stored = self._rows, [], self._session
        if not rows:
            return 0
        writer.append(self.id, rows)
        writer.put_session(self.session)
        for request_id in self._deleted:
            writer.forget_turn(self.id, request_id)
        for request_id in self._changed:
            turn = self._turns[request_id]
            assert turn is not None
            writer.put_turn(self.id, turn)
        for request_id, kind in self._moves:
            if self._turn_moved is not None:
                self._turn_moved(request_id, kind)
        for client_id, request_id in self._joined.items():
            writer.put_turn_of(self.id, client_id, request_id, self.now)
        self._changed.clear()
        self._deleted.clear()
        self._moves.clear()
        self._joined.clear()
        return len(rows)
