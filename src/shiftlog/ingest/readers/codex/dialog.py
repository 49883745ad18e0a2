"""The dialog of a Codex thread: texts logged once or twice, and user messages that wait for their turn.

Handlers in `events`, `items` and `calls` write through it; it reads no lines.
"""

from collections.abc import Sequence
from typing import Any, Literal

from shiftlog.facts.transcript import DialogItem, Image, Key, Mac, RecordIds, TitleSource
from shiftlog.ingest.readers.actions import commentary
from shiftlog.ingest.readers.codex.state import CodexTurn, HeldMessage
from shiftlog.ingest.readers.codex.text import is_injected, split_prompt
from shiftlog.ingest.readers.codex.turns import ThreadTurns
from shiftlog.ingest.readers.records import WHOLE_LINE, Object, digest_of, first_line, shown_images

MAX_HELD = 16

Role = Literal["user", "model", "tool", "system"]


class Rollout(ThreadTurns):
    """Writes the dialog of one thread; user messages wait until their turn is known."""

    # -- texts ---------------------------------------------------------------------------------------------------------

    def observe(self, text: str, turn: CodexTurn | None, *, role: Role = "system", **extra: Any) -> None:
        """Write a text that is logged once."""
        if not text.strip():
            return
        self._say(self.line_key(turn, role, text), turn, role, "observation", text, extra=extra)

    def _say(self, key: Key, turn: CodexTurn | None, role: Role, category: Any, text: str, **more: Any) -> None:
        name, more = turn and turn.request_id, {"at": self.at, **more}
        item = DialogItem(session=self.ref, key=key, turn=name, role=role, category=category, content=text, **more)
        self.emit(item, turn)

    def hear_model(
        self, text: str, turn: CodexTurn | None, *, event: bool, phase: str | None, record: RecordIds | None = None,
        images: tuple[Image, ...] = (),
    ) -> None:  # fmt: skip
        """Write a model text unless its other half was written."""
        if not text.strip() and not images:
            return
        self.work(turn, quiet=True)
        number = self.pair(turn, "m", text, event=event)
        if number is None:
            return
        category: Any = commentary(text, reasoning=phase in ("commentary", "context"))
        key, extra = self._text_key(turn, "model", text, number), {"phase": phase} if phase else {}
        self._say(key, turn, "model", category, text, record=record, images=images, extra=extra)
        if turn is not None:
            turn.answered, turn.last_text = True, text
            turn.learn(text, is_decision=category == "decision")
            if turn is not self.state.turn:
                self.give_fields(turn)

    def hear_reasoning(self, texts: Sequence[str], turn: CodexTurn | None, *, event: bool) -> None:
        """Write each part of a reasoning unless its other half was written."""
        self.work(turn)
        for text in texts:
            number = self.pair(turn, "r", text, event=event) if text.strip() else None
            if number is not None:
                self._say(self._text_key(turn, "reasoning", text, number), turn, "model", "reasoning", text)

    def _text_key(self, turn: CodexTurn | None, role: str, text: str, number: int) -> Key:
        return ("m", self.thread_of(turn), turn.name if turn else "", role, Mac(text), number)

    def work(self, turn: CodexTurn | None, *, quiet: bool = False) -> None:
        """Note that a turn is working, or may just have finished."""
        self.begin(turn)
        if turn is not None:
            turn.quiet, turn.last_at = quiet, self.at

    def decide(self, text: str, turn: CodexTurn | None) -> None:
        """Write a plan, which is always a decision."""
        if not text.strip():
            return
        self.begin(turn)
        self._say(self.line_key(turn, "plan", text), turn, "model", "decision", text, extra={"plan": True})
        if turn is not None:
            self.update_turn(turn, {}, {"design_decisions": [text]})

    # -- user messages -------------------------------------------------------------------------------------------------

    def hear_user(self, held: HeldMessage) -> None:
        """Take a user message: the prompt of a turn without one, else held until the next record shows its turn."""
        if len(self.state.held) >= MAX_HELD and (self.state.held[-1].event or len(self.state.held) >= 4 * MAX_HELD):
            self.release()
        turn = self._hinted(held)
        if is_injected(held.text):
            self.observe(held.text, turn, injected=True)
        elif turn is not None and not self.state.held and self._is_of(turn, held):
            self._take_user(held, turn)
        else:
            self.state.held.append(held)

    def _is_of(self, turn: CodexTurn, held: HeldMessage) -> bool:
        if turn.prompt != "user" or held.turn_hint is not None:
            return not turn.legacy
        events, items = turn.tallies.get("u" + digest_of(held.text), (0, 0))
        return items > events if held.event else events > items

    def _hinted(self, held: HeldMessage) -> CodexTurn | None:
        turn, last = self.state.turn, self.state.last_turn
        if held.turn_hint is None:
            return turn
        return next((known for known in (turn, last) if known is not None and known.vendor_id == held.turn_hint), None)

    @property
    def awaits_more(self) -> bool:
        """Return True if later records may tell the turn of held messages."""
        state = self.state
        if state.newest_at is None:
            return False  # without times it would wait for ever
        return state.modern or state.names_turns or not any(one.event for one in state.held)

    def release(self) -> None:
        """Place held user messages, because no start of their turn can follow."""
        state = self.state
        held, state.held = state.held, []
        rest = list(held)
        if not state.modern:
            for message in [one for one in held if one.event]:
                rest.remove(message)
                if state.turn is not None:
                    self.supersede(state.turn)
                turn = self.start_turn(None, message.at)
                turn.legacy = True
                self._take_user(message, turn)
                twin = next((one for one in rest if not one.event and one.text == message.text), None)
                if twin is not None:
                    rest.remove(twin)
                    self._take_user(twin, turn)
        for message in rest:
            self._take_user(message, state.turn)

    def hand_over(self, turn: CodexTurn) -> None:
        """Give held user messages to the turn that has just started."""
        held, self.state.held = self.state.held, []
        for message in held:
            self._take_user(message, turn)

    def _take_user(self, held: HeldMessage, turn: CodexTurn | None) -> None:
        number = self.pair(turn, "u", held.text, event=held.event)
        if number is None:
            return
        if turn is not None:
            turn.last_at, turn.quiet = held.at or turn.last_at, False
        prompt, context = split_prompt(held.text)
        if turn is not None and turn.prompt != "user":
            self._set_prompt(turn, prompt, held.images, "user")
        else:
            key, at = self._text_key(turn, "user", held.text, number), held.at or self.at
            record = RecordIds(message_id=held.message_id) if held.message_id else None
            self._say(key, turn, "user", "observation", prompt, at=at, images=held.images, record=record)
        if turn is not None and context:
            self.update_turn(turn, {}, {"context_list": [context]})

    def hear_agent(self, text: str, turn: CodexTurn | None, *, inbound: bool, extra: Object) -> None:
        """Take a message between agents; one to this thread is the prompt of a turn without another."""
        if inbound and turn is not None and turn.prompt == "none":
            self._set_prompt(turn, text, (), "agent")
        self.observe(text, turn, role="user" if inbound else "tool", **extra)

    def _set_prompt(
        self, turn: CodexTurn, text: str, images: tuple[Image, ...], source: Literal["agent", "user"]
    ) -> None:
        turn.prompt = source
        if not self.state.titled and (title := first_line(text, WHOLE_LINE)):
            self.state.titled = True
            self.rename(title, TitleSource.PROMPT)
        if not turn.begun:
            self.begin(turn, text, images)
        else:
            sets: Object = {"query_text": text, "query_title": first_line(text)}
            if images:
                sets["images"] = shown_images(images)
            self.update_turn(turn, sets, {})
