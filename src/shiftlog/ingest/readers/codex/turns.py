"""The turns of a Codex thread: which one a record belongs to, how they begin and end, and the keys of their facts.

Dialog is in `dialog`; single records are read elsewhere.
"""

from typing import Any

from shiftlog.facts import transcript as f
from shiftlog.ingest.readers.codex.state import MAX_KNOWN_TURNS, CodexState, CodexTurn
from shiftlog.ingest.readers.record_reader import RecordReader, changed_values, load_state
from shiftlog.ingest.readers.records import Object, digest_of, first_line, is_drawn, object_in, text_in, turn_id
from shiftlog.model.agents import CODEX

MAX_SESSION_TALLIES = 20_000
MAX_WAITING = 256


def named_turn(payload: Object) -> str | None:
    """Return the turn that a record names."""
    found = text_in(payload, "turn_id", "turnId")
    if found is None:
        for name in ("metadata", "internal_chat_message_metadata_passthrough"):
            inner = payload.get(name)
            if inner and (found := text_in(object_in(payload, name), "turn_id")) is not None:
                break
    return found


def turn_name(thread: str, turn_id: str) -> f.Key:
    """Return the key of a thread's turn."""
    return ("turn", turn_id) if is_drawn(turn_id) else ("turn", thread, "id", turn_id)


class ThreadTurns(RecordReader[CodexState]):
    """Writes the facts of one thread in order; a turn's facts wait until its prompt is known."""

    AGENT = CODEX

    def __init__(self, hints: f.Hints, state: bytes | None = None) -> None:
        super().__init__(hints, load_state(state, CodexState))
        waiting = self.state.waiting
        self.waiting: list[f.AnyFact] = f.decode_facts(waiting) if waiting else []
        self.ref = f.VendorSession(self.state.thread or "")

    # -- the session ---------------------------------------------------------------------------------------------------

    def ensure_session(self) -> None:
        """Open the session of a file that never names it."""
        if self.state.thread is None:
            self.name_session(self.hints.session_id or "unknown")
            key: f.Key = ("session", self.ref.vendor_id)
            self.out.append(f.SessionOpened(session=self.ref, key=key, at=self.at, agent=self.AGENT))

    def name_session(self, thread: str) -> None:
        """Set the thread of all facts."""
        self.state.thread = self.state.family = thread
        self.ref = f.VendorSession(thread)

    def rename(self, title: str, source: f.TitleSource) -> None:
        """Give the session a title."""
        key = self.line_key(None, "title", title, str(int(source)))
        fact = f.SessionUpdated(
            session=self.ref, key=key, at=self.at, changes={}, title=title, title_source=source
        )  # fmt: skip
        self.out.append(fact)

    def change(self, **values: Any) -> None:
        """Write the changes of the session."""
        if changes := changed_values(self.state.written, "", values):
            key = self.line_key(None, "session", repr(sorted(changes.items())))
            self.out.append(f.SessionUpdated(session=self.ref, key=key, at=self.at, changes=changes))

    def run(self, **values: Any) -> None:
        """Write the changes of the run."""
        if changes := changed_values(self.state.written, "run.", values):
            key = self.line_key(None, "run", repr(sorted(changes.items())))
            self.out.append(f.RunUpdated(session=self.ref, key=key, at=self.at, changes=changes))

    def save(self) -> bytes:
        self.state.waiting = f.encode_facts(self.waiting) if self.waiting else b""
        return super().save()

    # -- places and keys -----------------------------------------------------------------------------------------------

    def place(self, payload: Object) -> CodexTurn | None:
        """Return the turn of a record: the one it names if it is known, else the open one."""
        state = self.state
        name = named_turn(payload)
        if name is None or (state.turn is not None and state.turn.vendor_id == name):
            return state.turn
        if state.last_turn is not None and state.last_turn.vendor_id == name:
            return state.last_turn
        if (known := state.known.get(name)) is not None:
            return CodexTurn(request_id=known, vendor_id=name, begun=True, prompt="user", interpreted=True)
        return state.turn

    def line_key(self, turn: CodexTurn | None, *parts: str) -> f.Key:
        """Return the key of a fact that only its text identifies, numbered within its turn."""
        text = "\x1f".join(parts)
        number = self.number_of(turn, "l", text)
        return ("l", self.thread_of(turn), turn.name if turn else "", f.Mac(text), number)

    def thread_of(self, turn: CodexTurn | None) -> str:
        """Return the thread in the keys of a turn's facts; a fork's copies have their origin's.

        The vendor's turn ids are unique, so all forks of a thread can share one name.
        """
        named = turn is not None and turn.vendor_id is not None
        return (self.state.family if named else None) or self.ref.vendor_id

    def _tallies(self, turn: CodexTurn | None) -> dict[str, list[int]]:
        if turn is not None:
            return turn.tallies
        if len(self.state.tallies) > MAX_SESSION_TALLIES:
            self.state.tallies.clear()
        return self.state.tallies

    def number_of(self, turn: CodexTurn | None, role: str, text: str) -> int:
        """Return the number of a text among equal ones of its turn."""
        tally = self._tallies(turn).setdefault(role + digest_of(text), [0, 0])
        tally[0] += 1
        return tally[0]

    def pair(self, turn: CodexTurn | None, role: str, text: str, *, event: bool) -> int | None:
        """Return the number of a text that is logged twice; None for the second half."""
        # The nth event and the nth item of a text are the same; only what exceeds both counts is new.
        tally = self._tallies(turn).setdefault(role + digest_of(text), [0, 0])
        before = max(tally)
        tally[0 if event else 1] += 1
        number = max(tally)
        return number if number > before else None

    def unnamed_id(self, turn: CodexTurn | None, kind: str, text: str) -> str:
        """Return an id for a call without one, equal on every reading."""
        number = self.number_of(turn, kind, text)
        return f"{self.ref.vendor_id}/{turn.name if turn else ''}/{kind}-{digest_of(text)}-{number}"

    def call_name(self, call_id: str, turn: CodexTurn | None) -> str:
        """Return the name in the keys of a call; a counting id needs its turn."""
        if is_drawn(call_id):
            return call_id
        if turn is not None and turn.vendor_id is not None and is_drawn(turn.vendor_id):
            return f"{turn.vendor_id}/{call_id}"
        return f"{self.thread_of(turn)}/{turn.name if turn else ''}/{call_id}"

    def emit(self, fact: f.AnyFact, turn: CodexTurn | None) -> None:
        """Write a fact after the beginning of its turn."""
        if turn is None or turn.begun:
            self.out.append(fact)
            return
        self.waiting.append(fact)
        if len(self.waiting) > MAX_WAITING:
            self.begin(turn)

    # -- turns ---------------------------------------------------------------------------------------------------------

    def start_turn(self, vendor_id: str | None, at: str | None) -> CodexTurn:
        """Open a turn; its beginning is written with its prompt or its first work."""
        state = self.state
        state.ordinal += 1
        request_id = turn_id(at, vendor_id, state.ordinal)
        turn = CodexTurn(
            request_id=request_id, vendor_id=vendor_id, ordinal=state.ordinal, at=at, last_at=at or self.at,
            model=state.model, effort=state.effort,
        )  # fmt: skip
        state.turn = turn
        for call_id in state.counted:
            state.answered.pop(call_id, None)
        state.counted.clear()
        state.live.append(request_id)
        if vendor_id is not None:
            state.known[vendor_id] = request_id
            if len(state.known) > MAX_KNOWN_TURNS:
                del state.known[next(iter(state.known))]
        return turn

    def begin(self, turn: CodexTurn | None, prompt: str = "", images: tuple[f.Image, ...] = ()) -> None:
        """Write the beginning of a turn once, and the facts that waited for it."""
        if turn is None or turn.begun:
            return
        turn.begun = True
        fact = f.TurnBegun(
            session=self.ref, key=self.turn_key(turn), at=turn.at or self.at, turn=turn.request_id,
            opened_by="prompt" if turn.legacy else "task", query_text=prompt, query_title=first_line(prompt),
            vendor_turn_id=turn.vendor_id, ordinal=turn.ordinal, images=images, model=turn.model,
        )  # fmt: skip
        self.out.append(fact)
        self.out.extend(self.waiting)
        self.waiting.clear()
        if turn.effort:
            self.update_turn(turn, {"reasoning_effort": turn.effort}, {})

    def turn_key(self, turn: CodexTurn) -> f.Key:
        """Return the key of a turn; a counting id needs its thread."""
        if turn.vendor_id is None:
            return ("turn", self.ref.vendor_id, turn.name)
        return turn_name(self.thread_of(turn), turn.vendor_id)

    def update_turn(self, turn: CodexTurn, sets: Object, adds: dict[str, list[Any]]) -> None:
        """Gather fields of a turn; they are written when it ends or the input does."""
        turn.sets.update(sets)
        for name, items in adds.items():
            listed = turn.adds.setdefault(name, [])
            recent = listed[-64:]
            listed.extend(item for item in items if item not in recent)
        if turn is not self.state.turn:
            self.give_fields(turn)

    def give_fields(self, turn: CodexTurn, *, ends: bool = False) -> None:
        """Write the fields gathered by a turn; its end may be the last blocker."""
        fact = turn.take_fields(self.ref, (*self.turn_key(turn), "fields"), ends=ends)
        if fact is not None:
            self.emit(fact, turn)

    def complete(self, turn: CodexTurn, response: str | None, duration_ms: int | None) -> None:
        """Complete a turn."""
        self._end(turn, self.at, status="completed", response=response or turn.last_text or None,
                  duration_ms=duration_ms)  # fmt: skip

    def fail(self, turn: CodexTurn, note: str, code: str | None, duration_ms: int | None = None) -> None:
        """Fail a turn."""
        turn.adds.setdefault("blockers", []).append(note)
        at = turn.last_at if turn.legacy else self.at
        self._end(turn, at, status="failed", response=turn.last_text or None, duration_ms=duration_ms,
                  failure_note=note, error_code=code)  # fmt: skip

    def supersede(self, turn: CodexTurn) -> None:
        """End a turn that was open when the next one started."""
        if not turn.legacy:
            self.fail(turn, "superseded: Next turn started", "superseded")
        elif turn.answered:
            self._end(turn, turn.last_at, status="completed", response=turn.last_text or None)
        else:
            self.fail(turn, "superseded: No answer before the next prompt", "superseded")

    def end_quiet(self, turn: CodexTurn) -> None:
        """End a turn that has been quiet long enough."""
        self._end(turn, turn.last_at, status="completed", response=turn.last_text or None, settled=True)

    def _end(self, turn: CodexTurn, at: str | None, **fields: Any) -> None:
        self.begin(turn)
        self.give_fields(turn, ends=fields["status"] == "failed")
        key: f.Key = (*self.turn_key(turn), "end")
        self.out.append(f.TurnEnded(session=self.ref, key=key, at=at, turn=turn.request_id, model=turn.model, **fields))
        if self.state.turn is turn:
            self.state.turn = None
        turn.last_text = ""
        self.state.last_turn = turn

    def abandon(self, number: int) -> None:
        """Note that the last turns were rolled back."""
        live = self.state.live
        count = min(max(number, 0), len(live))
        if not count:
            return
        turns = live[len(live) - count :]
        del live[len(live) - count :]
        key = self.line_key(None, "abandoned", *turns)
        self.out.append(f.Note(session=self.ref, key=key, at=self.at, kind="abandoned", body={"abandoned": turns}))
