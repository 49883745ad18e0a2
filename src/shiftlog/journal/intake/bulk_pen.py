"""The ledger of one session during an import: entries chained and projected in bulk, then handed to the store at once.

The same chain and the same projection as the pen's. Dialog items and usage, most of what imports bring, are summed up
and folded into session and turn together; what comes out is what `projection.apply` makes of them one by one.
"""

import hashlib
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from shiftlog.facts.batch import COUNTERS, Prepared
from shiftlog.journal.adopting import adopter_of
from shiftlog.journal.encoding import prepare
from shiftlog.journal.projection import apply, rolled
from shiftlog.model.canonical import first_prev_hash
from shiftlog.model.entry import Entry, Kind
from shiftlog.model.moves import SessionState
from shiftlog.model.nouns import Session, Turn, Usage, changed
from shiftlog.model.times import parse
from shiftlog.store.protocol import Reader, Writer
from shiftlog.store.sources import Packed

_DIALOG = str(Kind.DIALOG)
_USAGE = str(Kind.USAGE)
_COUNTED = COUNTERS[: COUNTERS.index("web_searches")]


@dataclass(slots=True)
class _Sum:
    """Usage gathered and added up once: every response counts three times, and adding one to the other took longer."""

    counts: list[list[int]] = field(default_factory=list[list[int]])
    cost_usd: float | None = None

    def add(self, counts: list[int], cost_usd: float | None) -> None:
        """Count one more report."""
        self.counts.append(counts)
        if cost_usd is not None:
            self.cost_usd = cost_usd if self.cost_usd is None else self.cost_usd + cost_usd

    def plus(self, before: Usage | None) -> Usage:
        """Return the usage that was known before and what has come since."""
        sums = map(sum, zip(*self.counts, strict=True))
        used = Usage(**dict(zip(_COUNTED, sums, strict=True)), cost_usd=self.cost_usd)
        return used if before is None else before.plus(used)


@dataclass(slots=True)
class _Pending:
    """What dialog items and usage have added to a turn, or to the session as a whole, since it was folded."""

    items: int = 0
    items_hash: str = ""
    latest: str = ""
    last_seq: int = 0
    used: _Sum | None = None
    by_model: dict[str, _Sum] = field(default_factory=dict[str, _Sum])
    by_day: dict[tuple[str, str], _Sum] = field(default_factory=dict[tuple[str, str], _Sum])
    beyond: dict[tuple[str, str], _Sum] = field(default_factory=dict[tuple[str, str], _Sum])

    def count(self, counts: list[int], cost_usd: float | None) -> None:
        """Count one more report of usage."""
        if self.used is None:
            self.used = _Sum()
        self.used.add(counts, cost_usd)


class Ledger:
    """One session under import; nothing reaches the store before `flush`."""

    def __init__(self, reader: Reader, session_id: str, session: Session | None, *, test_clock: bool) -> None:
        self.id = session_id
        self._reader = reader
        self._session = session
        self._test_clock = test_clock
        self._turns: dict[str, Turn] = {}
        self._absent: set[str] = set()
        self._said: dict[str, dict[str, Any]] = {}
        self._changed: dict[str, None] = {}
        self._pending: dict[str, _Pending] = {}
        self._whole = _Pending()
        self._rows: list[Packed] = []
        self._seq = self._before = session.head_seq if session else 0
        head = session.head_hash if session and session.head_hash else first_prev_hash(session_id)
        self._head = bytes.fromhex(head[7:])

    @property
    def entries(self) -> int:
        """Return how many entries were written."""
        return self._seq - self._before

    @property
    def next_seq(self) -> int:
        """Return the place of the entry that is written next."""
        return self._seq + 1

    @property
    def exists(self) -> bool:
        """Tell whether the session is open."""
        return self._session is not None

    @property
    def is_sealed(self) -> bool:
        """Tell whether the session takes nothing any more."""
        return self._session is not None and self._session.state is SessionState.SEALED

    @property
    def session(self) -> Session:
        """Return the session with everything written so far."""
        # Only here: sums and maxima are the same whether what is pending comes before other entries or after.
        self._fold_session()
        if self._session is None:
            raise LookupError("the session is not open yet")
        return self._session

    def turn(self, request_id: str) -> Turn | None:
        """Return a turn with everything written so far."""
        if request_id in self._pending:
            self._fold_turn(request_id)
        return self._known(request_id)

    def turns(self) -> list[Turn]:
        """Return all turns with everything written so far."""
        stored = {turn.request_id: turn for turn in self._reader.turns(self.id)}
        known = {request_id: self.turn(request_id) for request_id in list(self._turns)}
        return [turn for turn in {**stored, **known}.values() if turn is not None]

    def adopter_of(self, request_id: str) -> str | None:
        """Return the turn for which a hook's turn made way."""
        return adopter_of(self._reader, self.id, request_id)

    def has_turn(self, request_id: str) -> bool:
        """Tell whether the session has a turn."""
        return self._known(request_id) is not None

    def is_open(self, request_id: str) -> bool:
        """Tell whether a turn is there and not terminal."""
        turn = self._known(request_id)
        return turn is not None and not turn.is_terminal

    def not_said(self, request_id: str, more: dict[str, Any]) -> dict[str, Any]:
        """Return those of the fields that no noun has which differ from what the turn's entries said last."""
        said = self._said.get(request_id)
        if said is None:
            said = self._said[request_id] = {}
            turn = self._known(request_id)
            # What this batch began is not stored yet, and to look for a turn goes through all entries from there on.
            if turn is not None and turn.begun_seq <= self._before:
                kinds = (Kind.TURN_UPDATED,)
                for entry in self._reader.entries(self.id, after=turn.begun_seq, turn=request_id, kinds=kinds):
                    said |= entry.facts.get("more") or {}
        fresh = {name: value for name, value in more.items() if said.get(name) != value}
        said |= fresh
        return fresh

    def _known(self, request_id: str) -> Turn | None:
        turn = self._turns.get(request_id)
        if turn is None and request_id not in self._absent:
            turn = self._reader.turn(self.id, request_id)
            if turn is None:
                self._absent.add(request_id)
            else:
                self._turns[request_id] = turn
        return turn

    def write(self, kind: Kind, at: str, body: dict[str, Any], salt: bytes, turn: str | None = None) -> None:
        """Chain one entry and move session and turn to where they stand after it."""
        if self._test_clock:
            body = {**body, "test_clock": True}
        prepared = prepare(kind, body, salt)
        if kind is Kind.USAGE:
            self._append(_USAGE, at, turn, prepared)
            self._count(at, turn, body, [body.get(name, 0) for name in _COUNTED])
            return
        digest = self._append(str(kind), at, turn, prepared)
        entry = Entry(
            seq=self._seq,
            kind=kind,
            at=parse(at),
            turn=turn,
            body=body,
            salt=salt,
            body_hash="sha256:" + prepared.body_hash.hex(),
            hash="sha256:" + digest.hex(),
        )
        before = self.turn(turn) if turn else None
        self._session, after = apply(self._session, before, entry, self.id)
        if turn is not None and after is not None:
            self._absent.discard(turn)
            self._turns[turn] = after
            self._changed[turn] = None

    def write_dialog(self, at: str, turn: str | None, prepared: Prepared) -> None:
        """Chain a dialog item that is prepared already."""
        digest = self._append(_DIALOG, at, turn, prepared)
        if turn is not None and turn in self._turns:
            pending = self._pending.get(turn) or self._pending_of(turn)
            pending.items += 1
            pending.items_hash = rolled(pending.items_hash, "sha256:" + digest.hex())
            self._moved(pending, at)
            self._whole.items += 1
        self._moved(self._whole, at)

    def write_usage(
        self, at: str, turn: str | None, prepared: Prepared, body: dict[str, Any], counts: list[int]
    ) -> None:
        """Chain a usage entry that is prepared already; `counts` are the counters in its body, in their order."""
        self._append(_USAGE, at, turn, prepared)
        self._count(at, turn, body, counts[: len(_COUNTED)])

    def write_note(self, at: str, turn: str | None, prepared: Prepared, body: dict[str, Any]) -> None:
        """Chain an `import.noted` that is prepared already; `body` holds what its projection needs."""
        digest = self._append(str(Kind.IMPORT_NOTED), at, turn, prepared)
        entry = Entry(
            seq=self._seq,
            kind=Kind.IMPORT_NOTED,
            at=parse(at),
            turn=turn,
            body=body,
            salt=prepared.salt,
            body_hash="sha256:" + prepared.body_hash.hex(),
            hash="sha256:" + digest.hex(),
        )
        self._session, _ = apply(self._session, self.turn(turn) if turn else None, entry, self.id)

    def _count(self, at: str, turn: str | None, body: dict[str, Any], counts: list[int]) -> None:
        cost_usd, model = body.get("cost_usd"), body.get("model")
        whole = self._whole
        whole.count(counts, cost_usd)
        if isinstance(model, str) and model:
            by_model = whole.by_model.get(model)
            if by_model is None:
                by_model = whole.by_model[model] = _Sum()
            by_model.add(counts, cost_usd)
        session, named = self._session, (at[:10], model if isinstance(model, str) else "")
        if session is not None and at[:10] > session.started.date().isoformat():
            whole.by_day.setdefault(named, _Sum()).add(counts, cost_usd)
        if session is not None and session.run is not None and session.run.ended_before(_time(at)):
            whole.beyond.setdefault(named, _Sum()).add(counts, cost_usd)
        self._moved(whole, at)
        if turn is not None and self._known(turn) is not None:
            pending = self._pending_of(turn)
            pending.count(counts, cost_usd)
            self._moved(pending, at)

    def _pending_of(self, turn: str) -> _Pending:
        pending = self._pending.get(turn)
        if pending is None:
            pending = self._pending[turn] = _Pending(items_hash=self._turns[turn].items_hash)
            self._changed[turn] = None
        return pending

    def _moved(self, pending: _Pending, at: str) -> None:
        pending.last_seq = self._seq
        if at > pending.latest:
            pending.latest = at

    def _append(self, kind: str, at: str, turn: str | None, prepared: Prepared) -> bytes:
        seq = self._seq = self._seq + 1
        body_hash = prepared.body_hash
        named = "null" if turn is None else f'"{turn}"'
        place = f'{{"at":"{at}","body_hash":"sha256:{body_hash.hex()}","kind":"{kind}","seq":{seq},"turn":{named}}}'
        head = self._head = hashlib.sha256(self._head + place.encode("ascii")).digest()
        self._rows.append(
            Packed(
                seq,
                kind,
                at,
                turn,
                prepared.facet,
                prepared.document,
                prepared.salt,
                body_hash,
                head,
                prepared.text,
                prepared.long_texts,
            )
        )
        return head

    def _fold_turn(self, request_id: str) -> None:
        pending, turn = self._pending.pop(request_id), self._turns[request_id]
        used = turn.usage if pending.used is None else pending.used.plus(turn.usage)
        self._turns[request_id] = changed(
            turn,
            dialog_items=turn.dialog_items + pending.items,
            items_hash=pending.items_hash,
            usage=used,
            last_updated=max(turn.last_updated, _time(pending.latest)),
            last_seq=max(turn.last_seq, pending.last_seq),
        )

    def _fold_session(self) -> None:
        pending, session = self._whole, self._session
        if session is None or not pending.last_seq:
            return
        self._whole = _Pending()
        used, by_model = session.usage, session.model_usage
        if pending.used is not None:
            used = pending.used.plus(used)
            by_model = {**by_model}
            for model, sum_of_model in pending.by_model.items():
                by_model[model] = sum_of_model.plus(by_model.get(model))
        self._session = changed(
            session,
            usage=used,
            model_usage=by_model,
            later_days=_with_days(session.later_days, pending.by_day),
            beyond_run=_with_days(session.beyond_run, pending.beyond),
            dialog_items=session.dialog_items + pending.items,
            last_activity=max(session.last_activity, _time(pending.latest)),
            head_seq=self._seq,
            head_hash="sha256:" + self._head.hex(),
        )

    def flush(self, writer: Writer) -> None:
        """Hand everything written to the store."""
        if not self._rows:
            return
        writer.append_packed(self.id, self._rows)
        for request_id in list(self._pending):
            self._fold_turn(request_id)
        session = changed(self.session, head_seq=self._seq, head_hash="sha256:" + self._head.hex())
        self._session = session
        writer.put_session(session)
        for request_id in self._changed:
            writer.put_turn(self.id, self._turns[request_id])
        self._rows = []
        self._changed.clear()


def _with_days(days: dict[str, dict[str, Usage]], more: dict[tuple[str, str], _Sum]) -> dict[str, dict[str, Usage]]:
    for (day, model), added in more.items():
        of_day = days.get(day, {})
        days = {**days, day: {**of_day, model: added.plus(of_day.get(model))}}
    return days


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
