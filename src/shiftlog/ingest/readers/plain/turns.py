"""Session, turns and dialog of a plain conversation, written as facts.

Tools, tokens and the reader protocol are in `conversation`.
"""

from typing import Any, Literal

import msgspec

from shiftlog.facts import transcript as f
from shiftlog.ingest.readers.actions import commentary
from shiftlog.ingest.readers.record_reader import ReaderState, RecordReader, TurnDraft, changed_values, load_state
from shiftlog.ingest.readers.records import WHOLE_LINE, digest_of, first_line, turn_id

NO_ANSWER = "superseded: No answer before the next prompt"
UNFINISHED = "Turn aborted: unfinished"
MAX_OPEN_CALLS = 4096


class ChatCall(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A call that waits for its result."""

    tool: str
    turn: str | None = None
    script: str = ""


class ChatTurn(TurnDraft, kw_only=True, omit_defaults=True):
    """The open turn."""

    name: str
    has_model: bool = False
    quiet: bool = False
    calls: list[str] = []
    texts: list[str] = []
    message: str = ""
    """The model message whose texts are the response so far."""
    failure: str | None = None
    failure_code: str | None = None


class ChatState(ReaderState, kw_only=True, omit_defaults=True):
    """The saved state of a reader; `own` belongs to the format."""

    session: str | None = None
    cwd: str | None = None
    ordinal: int = 0
    turn: ChatTurn | None = None
    turns: list[str] = []
    calls: dict[str, ChatCall] = {}
    answered: dict[str, None] = {}
    unnamed: list[str] = []
    unnamed_count: int = 0
    written: dict[str, Any] = {}
    tallies: dict[str, int] = {}
    titled: bool = False
    own: dict[str, Any] = {}


class ConversationTurns(RecordReader[ChatState]):
    """Keeps the state of one conversation and writes its facts in order."""

    BACKEND = ""

    def __init__(self, hints: f.Hints, state: bytes | None = None) -> None:
        super().__init__(hints, load_state(state, ChatState))
        self.ref = f.VendorSession(self.state.session or "")

    # -- records -------------------------------------------------------------------------------------------------------

    def unknown(self, name: str, raw: bytes | None = None) -> f.Disposition:
        """Count an unknown record and keep its raw text."""
        given = self.line if raw is None else raw
        body = self.unknown_body(name, given)
        if body is not None:
            self.open_session()
            key = self.line_key("unknown", body["unknown"], given.decode("utf-8", "replace").strip())
            turn = self.state.turn and self.state.turn.request_id
            self.out.append(f.Note(session=self.ref, key=key, at=self.state.at, turn=turn, kind="unknown", body=body))
        return f.Disposition.UNKNOWN

    def line_key(self, *parts: str) -> f.Key:
        """Return the key of a fact that only its text identifies, numbered within its turn."""
        text = "\x1f".join(parts)
        turn = self.state.turn.name if self.state.turn else ""
        return ("l", self.ref.vendor_id, turn, f.Mac(text), self._number(turn, text))

    def unnamed(self, *parts: str) -> str:
        """Return a name for something without an id, equal on every reading."""
        text = "\x1f".join(parts)
        turn = self.state.turn.name if self.state.turn else ""
        return f"{turn}/{digest_of(text)}/{self._number(turn, text)}"

    def _number(self, turn: str, text: str) -> int:
        tallies, name = self.state.tallies, f"{turn}/{digest_of(text)}"
        tallies[name] = tallies.get(name, 0) + 1
        return tallies[name]

    # -- the session ---------------------------------------------------------------------------------------------------

    def open_session(self, vendor_id: str | None = None, *, parent: str | None = None, **fields: Any) -> None:
        """Open the session once."""
        state = self.state
        if state.session is not None:
            return
        state.session = vendor_id or self.hints.session_id or "unknown"
        self.ref = f.VendorSession(state.session)
        parent = parent or self.hints.parent_id
        above = f.Parent(session=f.VendorSession(parent)) if parent and parent != state.session else None
        subagent = fields.pop("subagent", None) or (f.Subagent(kind="subagent") if above else None)
        started = fields.pop("started", None) or state.at
        state.cwd = fields.get("cwd")
        state.written |= {name: fields[name] for name in ("cwd", "branch", "version") if fields.get(name)}
        fact = f.SessionOpened(
            session=self.ref, key=("session", state.session), at=started, agent=self.AGENT, parent=above,
            subagent=subagent, **fields,
        )  # fmt: skip
        self.out.append(fact)
        # A time that only a hook knew would differ at the next reading.
        told = None if self.is_untimed else started
        self.run(backend=self.BACKEND, cwd=fields.get("cwd"), version=fields.get("version"), started=told)

    def change(self, **values: Any) -> None:
        """Write the changes of the session."""
        if changes := changed_values(self.state.written, "", values):
            key = self.line_key("session", repr(sorted(changes.items())))
            self.out.append(f.SessionUpdated(session=self.ref, key=key, at=self.state.at, changes=changes))

    def run(self, **values: Any) -> None:
        """Write the changes of the run."""
        if changes := changed_values(self.state.written, "run.", values):
            key = self.line_key("run", repr(sorted(changes.items())))
            self.out.append(f.RunUpdated(session=self.ref, key=key, at=self.state.at, changes=changes))

    def rename(self, title: str, source: f.TitleSource) -> None:
        """Give the session a title."""
        if not title.strip():
            return
        key = self.line_key("title", title, str(int(source)))
        fact = f.SessionUpdated(
            session=self.ref, key=key, at=self.state.at, changes={}, title=title.strip(), title_source=source
        )  # fmt: skip
        self.out.append(fact)

    # -- turns ---------------------------------------------------------------------------------------------------------

    def begin_turn(self, vendor_id: str | None, prompt: str, images: tuple[f.Image, ...] = ()) -> ChatTurn:
        """Open a turn; the open one ends."""
        state = self.state
        self.open_session()
        if state.turn is not None:
            self.end_turn()
        state.ordinal += 1
        name = vendor_id or f"t{state.ordinal}"
        turn = ChatTurn(
            request_id=turn_id(state.at, vendor_id, state.ordinal), name=name, ordinal=state.ordinal,
            last_at=state.at,
        )  # fmt: skip
        state.turn = turn
        state.tallies.clear()
        state.turns.append(turn.request_id)
        fact = f.TurnBegun(
            session=self.ref, key=("turn", self.ref.vendor_id, name), at=state.at, turn=turn.request_id,
            query_text=prompt, query_title=first_line(prompt), vendor_turn_id=vendor_id, ordinal=state.ordinal,
            images=images, untimed=self.is_untimed,
        )  # fmt: skip
        self.out.append(fact)
        if not state.titled and prompt.strip():
            state.titled = True
            self.rename(first_line(prompt, WHOLE_LINE), f.TitleSource.PROMPT)
        return turn

    def is_quiet(self, turn: ChatTurn) -> bool:
        """Return True if the model has finished."""
        return turn.has_model and (turn.failure is not None or (turn.quiet and not turn.calls))

    def end_turn(self, *, settled: bool = False, completed: bool = False, note: str | None = None) -> None:
        """End the open turn: as the caller says, else completed if it is quiet, else failed."""
        turn = self.state.turn
        if turn is None:
            return
        note = note or turn.failure
        if note is None and not completed and not self.is_quiet(turn):
            note = UNFINISHED if turn.has_model else NO_ANSWER
        if note is not None:
            turn.adds.setdefault("blockers", []).append(note)
        self.give_fields(ends=note is not None)
        code = turn.failure_code or ("superseded" if note == NO_ANSWER else None)
        fact = f.TurnEnded(
            session=self.ref, key=("turn", self.ref.vendor_id, turn.name, "end"),
            at=turn.last_at if settled else self.state.at, turn=turn.request_id,
            status="completed" if note is None else "failed", response="\n\n".join(turn.texts) or None,
            failure_note=note, error_code=code, model=turn.model, settled=settled,
        )  # fmt: skip
        self.out.append(fact)
        self.state.turn = None

    def give_fields(self, *, ends: bool = False) -> None:
        """Write the fields gathered by the open turn; its end may be the last blocker."""
        turn = self.state.turn
        if turn is not None:
            fact = turn.take_fields(self.ref, ("turn", self.ref.vendor_id, turn.name, "fields"), ends=ends)
            self.out += () if fact is None else (fact,)

    def add(self, name: str, *items: Any) -> None:
        """Add items to a list of the open turn."""
        if self.state.turn is not None and items:
            self.state.turn.add(name, *items)

    def touch(self, *, model: bool = False, quiet: bool = False) -> None:
        """Note that the open turn goes on."""
        turn = self.state.turn
        if turn is not None:
            turn.last_at = self.state.at or turn.last_at
            turn.has_model = turn.has_model or model
            turn.quiet = quiet

    def use_model(self, model: str | None) -> None:
        """Note the model that answers."""
        if model:
            self.run(model=model)
            if self.state.turn is not None:
                self.state.turn.model = model

    # -- dialog --------------------------------------------------------------------------------------------------------

    def say(
        self, role: Literal["user", "model", "tool", "system"], text: str, key: f.Key | None = None, *,
        reasoning: bool = False, message: str = "", images: tuple[f.Image, ...] = (), record: f.RecordIds | None = None,
        aside: bool = False, **extra: Any,
    ) -> None:  # fmt: skip
        """Write a text; a model text is part of the turn's answer unless it is an aside."""
        if not text.strip() and not images:
            return
        self.open_session()
        turn = self.state.turn
        category: Any = "reasoning" if reasoning else commentary(text) if role == "model" else "observation"
        fact = f.DialogItem(
            session=self.ref, key=key or self.line_key(role, text), at=self.state.at, record=record,
            turn=turn and turn.request_id, role=role, category=category, content=text, images=images, extra=extra,
        )  # fmt: skip
        self.out.append(fact)
        if role == "model" and not aside:
            self.touch(model=True, quiet=not reasoning)
            if turn is not None and not reasoning:
                if not message or message != turn.message:
                    turn.texts, turn.message = [], message
                turn.texts.append(text)
                turn.learn(text, is_decision=category == "decision")
