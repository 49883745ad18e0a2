"""A plain conversation: prompts open turns, models answer, tools are called. What the simpler formats share.

A reader of such a format subclasses `ConversationReader` and says what its records mean; this keeps the state, the
turns, the pairs of calls and results, and writes the facts.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, cast

import msgspec

from shiftlog.ingest.actions import commentary, requirement_ids
from shiftlog.ingest.actions_shell import commits_made, packages_added
from shiftlog.ingest.conversation_state import MAX_OPEN_CALLS, Call, Turn, hash_of, load, save
from shiftlog.ingest.facts import (
    Action,
    AnyFact,
    Counts,
    DialogItem,
    Disposition,
    Hints,
    Image,
    Key,
    Mac,
    Note,
    Parent,
    Record,
    RunUpdated,
    SessionOpened,
    SessionRef,
    SessionUpdated,
    Standing,
    Subagent,
    TitleSource,
    ToolCall,
    ToolResult,
    TurnBegun,
    TurnEnded,
    TurnUpdated,
    Usage,
)
from shiftlog.ingest.reading import (
    Object,
    bounded,
    call_line,
    first_line,
    raw_or_digest,
    read_line,
    relative_path,
    text_in,
    turn_id,
    utc,
)

MAX_NOTED = 1000
NO_ANSWER = "superseded: No answer before the next prompt"
UNFINISHED = "Turn aborted: unfinished"


class ConversationReader:
    """Reads one conversation; see `Reader` for the protocol. Subclasses give `take`, and `complete` to hold back."""

    AGENT = ""
    BACKEND = ""
    SHELL_TOOLS: frozenset[str] = frozenset()

    def __init__(self, hints: Hints, state: bytes | None = None) -> None:
        self.hints = hints
        self.state = load(state)
        self.out: list[AnyFact] = []
        self.ref = SessionRef(self.state.session or "")
        self.line = b""

    # -- the protocol --------------------------------------------------------------------------------------------------

    @property
    def agent(self) -> str:
        """Return the agent kind."""
        return self.AGENT

    @property
    def counts(self) -> Counts:
        """Return the dispositions of all lines so far."""
        return self.state.counts

    @property
    def newest_at(self) -> str | None:
        """Return the latest time so far."""
        return self.state.newest_at

    def feed(self, line: bytes) -> Sequence[AnyFact]:
        """Read one line."""
        read = read_line(line)
        if read is None:
            return ()
        counts = self.state.counts
        if read.record is None:
            counts.bad += 1
            return ()
        counts.replaced += read.replaced
        self.line = line
        disposition = self.take(read.record)
        setattr(counts, disposition.value, getattr(counts, disposition.value) + 1)
        return self.given()

    def skip_oversized(self) -> None:
        """Count a line that was too long to be fed."""
        self.state.counts.bad += 1
        self.state.counts.oversized += 1

    def finish(self) -> Sequence[AnyFact]:
        """Write what was held back."""
        self.complete()
        self.give_fields()
        return self.given()

    def standings(self) -> Sequence[Standing]:
        """Return the open turn."""
        turn = self.state.turn
        if turn is None:
            return ()
        settles = ("failed" if turn.failure else "completed") if self._is_quiet(turn) else None
        return (
            Standing(
                session=self.ref, turn=turn.request_id, last_at=turn.last_at, quiet=self._is_quiet(turn),
                settles_as=settles,
            ),
        )  # fmt: skip

    def settle(self, sessions: Iterable[SessionRef] | None = None) -> Sequence[AnyFact]:
        """End the open turn if the model has said its last word."""
        turn = self.state.turn
        if turn is not None and self._is_quiet(turn) and (sessions is None or self.ref in set(sessions)):
            self.end_turn(settled=True)
        return self.given()

    def save(self) -> bytes:
        """Return the state to go on from."""
        return save(self.state)

    def given(self) -> Sequence[AnyFact]:
        """Return the facts written since the last time."""
        facts, self.out = self.out, []
        return facts

    # -- for subclasses ------------------------------------------------------------------------------------------------

    def take(self, record: Object) -> Disposition:
        """Read one record."""
        raise NotImplementedError

    def complete(self) -> None:
        """Write what is held back, because there is no more for now."""

    def set_time(self, value: object) -> str | None:
        """Take a record's time where it has one; return the time that holds."""
        at = utc(value)
        if at is not None:
            self.state.at = at
            if self.state.newest_at is None or at > self.state.newest_at:
                self.state.newest_at = at
        return self.state.at

    def counted(self, name: str) -> Disposition:
        """Count a record of which nothing is kept."""
        names = self.state.counts.counted_names
        names[name] = names.get(name, 0) + 1
        return Disposition.COUNTED

    def unknown(self, name: str, raw: bytes | None = None) -> Disposition:
        """Count what no rule knows and keep its raw text."""
        names, name = self.state.counts.unknown_names, name[:200]
        names[name] = names.get(name, 0) + 1
        if names[name] <= MAX_NOTED:
            self.open_session()
            given = self.line if raw is None else raw
            key = self.line_key("unknown", name, given.decode("utf-8", "replace").strip())
            turn = self.state.turn and self.state.turn.request_id
            body = {"unknown": name, **raw_or_digest(given)}
            self.out.append(Note(session=self.ref, key=key, at=self.state.at, turn=turn, kind="unknown", body=body))
        return Disposition.UNKNOWN

    def line_key(self, *parts: str) -> Key:
        """Return the key of a fact that only its text tells apart, numbered within its turn."""
        text = "\x1f".join(parts)
        turn = self.state.turn.name if self.state.turn else ""
        name = f"{turn}/{hash_of(text)}"
        self.state.tallies[name] = number = self.state.tallies.get(name, 0) + 1
        return ("l", self.ref.vendor_id, turn, Mac(text), number)

    # -- the session ---------------------------------------------------------------------------------------------------

    def open_session(self, vendor_id: str | None = None, *, parent: str | None = None, **fields: Any) -> None:
        """Open the session once."""
        state = self.state
        if state.session is not None:
            return
        state.session = vendor_id or self.hints.session_id or "unknown"
        self.ref = SessionRef(state.session)
        parent = parent or self.hints.parent_id
        above = Parent(session=SessionRef(parent)) if parent and parent != state.session else None
        subagent = fields.pop("subagent", None) or (Subagent(kind="subagent") if above else None)
        started = fields.pop("started", None) or state.at
        state.cwd = fields.get("cwd")
        self.out.append(
            SessionOpened(
                session=self.ref, key=("session", state.session), at=started, agent=self.AGENT, parent=above,
                subagent=subagent, **fields,
            )
        )  # fmt: skip
        self.run(backend=self.BACKEND, cwd=fields.get("cwd"), version=fields.get("version"), started=started)

    def change(self, **values: Any) -> None:
        """Write what changed of the session."""
        if changes := self._changed("", values):
            key = self.line_key("session", repr(sorted(changes.items())))
            self.out.append(SessionUpdated(session=self.ref, key=key, at=self.state.at, changes=changes))

    def run(self, **values: Any) -> None:
        """Write what changed of the session's process side."""
        if changes := self._changed("run.", values):
            key = self.line_key("run", repr(sorted(changes.items())))
            self.out.append(RunUpdated(session=self.ref, key=key, at=self.state.at, changes=changes))

    def _changed(self, prefix: str, values: Object) -> Object:
        written = self.state.written
        changes: Object = {}
        for name, value in values.items():
            if value and written.get(prefix + name) != value:
                changes[name] = written[prefix + name] = value
        return changes

    def rename(self, title: str, source: TitleSource) -> None:
        """Give the session a title."""
        if not title.strip():
            return
        key = self.line_key("title", title, str(int(source)))
        self.out.append(
            SessionUpdated(
                session=self.ref, key=key, at=self.state.at, changes={}, title=title.strip()[:500], title_source=source
            )
        )  # fmt: skip

    # -- turns ---------------------------------------------------------------------------------------------------------

    def begin_turn(self, vendor_id: str | None, prompt: str, images: tuple[Image, ...] = ()) -> Turn:
        """Open a turn; one still open ends."""
        state = self.state
        self.open_session()
        if state.turn is not None:
            self.end_turn()
        state.ordinal += 1
        name = vendor_id or f"t{state.ordinal}"
        turn = Turn(
            request_id=turn_id(state.at, vendor_id, state.ordinal), name=name, ordinal=state.ordinal,
            last_at=state.at,
        )  # fmt: skip
        state.turn = turn
        state.tallies.clear()
        state.turns.append(turn.request_id)
        self.out.append(
            TurnBegun(
                session=self.ref, key=("turn", self.ref.vendor_id, name), at=state.at, turn=turn.request_id,
                query_text=prompt, query_title=first_line(prompt), vendor_turn_id=vendor_id, ordinal=state.ordinal,
                images=images,
            )
        )  # fmt: skip
        if not state.titled and prompt.strip():
            state.titled = True
            self.rename(first_line(prompt), TitleSource.PROMPT)
        return turn

    def _is_quiet(self, turn: Turn) -> bool:
        return turn.has_model and (turn.failure is not None or (turn.quiet and not turn.calls))

    def end_turn(self, *, settled: bool = False, completed: bool = False, note: str | None = None) -> None:
        """End the open turn: as told, else well if it is quiet, else for what it lacks."""
        turn = self.state.turn
        if turn is None:
            return
        note = note or turn.failure
        if note is None and not completed and not self._is_quiet(turn):
            note = UNFINISHED if turn.has_model else NO_ANSWER
        if note is not None:
            turn.adds.setdefault("blockers", []).append(note)
        self.give_fields()
        self.out.append(
            TurnEnded(
                session=self.ref, key=("turn", self.ref.vendor_id, turn.name, "end"),
                at=turn.last_at if settled else self.state.at, turn=turn.request_id,
                status="completed" if note is None else "failed", response="\n\n".join(turn.texts) or None,
                failure_note=note, error_code=_code(note, turn.failure_code), model=turn.model, settled=settled,
            )
        )  # fmt: skip
        self.state.turn = None

    def give_fields(self) -> None:
        """Write the fields that the open turn has gathered."""
        turn = self.state.turn
        if turn is None or not (turn.sets or turn.adds):
            return
        sets, adds = turn.sets, turn.adds
        turn.sets, turn.adds = {}, {}
        text = msgspec.json.encode({"sets": sets, "adds": adds}, order="deterministic").decode("utf-8", "replace")
        key: Key = ("turn", self.ref.vendor_id, turn.name, "fields", Mac(text))
        self.out.append(
            TurnUpdated(session=self.ref, key=key, at=turn.last_at, turn=turn.request_id, sets=sets, adds=adds)
        )

    def add(self, name: str, *items: Any) -> None:
        """Add items to a list of the open turn."""
        if self.state.turn is not None and items:
            listed = self.state.turn.adds.setdefault(name, [])
            listed.extend(item for item in items if item not in listed[-64:])

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
        self, role: Literal["user", "model", "tool", "system"], text: str, key: Key | None = None, *,
        reasoning: bool = False, message: str = "", images: tuple[Image, ...] = (), record: Record | None = None,
        aside: bool = False, **extra: Any,
    ) -> None:  # fmt: skip
        """Write a text; one of the model that is no aside is part of the turn's answer."""
        if not text.strip() and not images:
            return
        self.open_session()
        turn = self.state.turn
        category: Any = "reasoning" if reasoning else commentary(text) if role == "model" else "observation"
        self.out.append(
            DialogItem(
                session=self.ref, key=key or self.line_key(role, text), at=self.state.at, record=record,
                turn=turn and turn.request_id, role=role, category=category, content=text, images=images, extra=extra,
            )
        )  # fmt: skip
        if role == "model" and not aside:
            self.touch(model=True, quiet=not reasoning)
            if turn is not None and not reasoning:
                self._learn(turn, text, message, decision=category == "decision")

    def _learn(self, turn: Turn, text: str, message: str, *, decision: bool) -> None:
        if not message or message != turn.message:
            turn.texts, turn.message = [], message
        turn.texts.append(text)
        if not turn.interpreted:
            turn.interpreted = True
            turn.sets["interpretation"] = text
        if decision:
            self.add("design_decisions", text)
        self.add("requirements_discovered", *requirement_ids(text))

    # -- tools ---------------------------------------------------------------------------------------------------------

    def call(self, call_id: str | None, tool: str, given: Any, *, record: Record | None = None, **extra: Any) -> str:
        """Write a call unless it is known; return its id."""
        state = self.state
        self.open_session()
        if call_id is None:
            state.unnamed_count += 1
            call_id = f"{self.ref.vendor_id}/{state.unnamed_count}"
            state.unnamed.append(call_id)
        if call_id in state.calls or call_id in state.answered:
            return call_id
        turn = state.turn
        self.touch(model=True)
        if turn is not None:
            turn.calls.append(call_id)
        if len(state.calls) >= MAX_OPEN_CALLS:
            del state.calls[next(iter(state.calls))]
        script = script_of(given) if tool in self.SHELL_TOOLS else ""
        state.calls[call_id] = Call(tool=tool, turn=turn and turn.request_id, script=script)
        self.out.append(
            ToolCall(
                session=self.ref, key=("call", self.ref.vendor_id, call_id), at=state.at, turn=turn and turn.request_id,
                record=record, tool=tool, call_id=call_id, content=call_line(tool, given), input=bounded(given),
                extra=extra,
            )
        )  # fmt: skip
        return call_id

    def answer(
        self, call_id: str | None, text: str, *, is_error: bool = False, exit_code: int | None = None,
        interrupted: bool = False, duration_ms: int | None = None, images: tuple[Image, ...] = (),
    ) -> bool:  # fmt: skip
        """Write the result of a call, and what a shell call did; return False if it was answered before."""
        state = self.state
        self.open_session()
        if call_id is None or (call_id not in state.calls and state.unnamed):
            call_id = state.unnamed.pop(0) if state.unnamed else call_id or f"{self.ref.vendor_id}/-"
        if call_id in state.answered:
            return False
        call = state.calls.pop(call_id, None)
        if len(state.answered) >= MAX_OPEN_CALLS:
            del state.answered[next(iter(state.answered))]
        state.answered[call_id] = None
        turn = state.turn
        if turn is not None and call_id in turn.calls:
            turn.calls.remove(call_id)
        self.touch()
        failed = is_error or exit_code not in (None, 0)
        self.out.append(
            ToolResult(
                session=self.ref, key=("result", self.ref.vendor_id, call_id), at=state.at,
                turn=call.turn if call else turn and turn.request_id, call_id=call_id, tool=call.tool if call else None,
                content=text, is_error=failed, exit_code=exit_code, duration_ms=duration_ms, interrupted=interrupted,
                orphan=call is None, images=images,
            )
        )  # fmt: skip
        if call is not None and call.script and not failed:
            self._read_script(call_id, call.script, text)
        return True

    def _read_script(self, call_id: str, script: str, text: str) -> None:
        for number, commit in enumerate(commits_made(script, text)):
            extra = {"sha": commit.sha, "branch": commit.branch} if commit.sha else {}
            self.act(call_id, f"commit/{number}", type="commit", description=f"git: {commit.message}", extra=extra)
            if commit.sha:
                self.add("commits", {"sha": commit.sha, "branch": commit.branch, "message": commit.message})
        for manager, name in packages_added(script):
            self.act(call_id, f"package/{manager}/{name}", type="dependency_add", description=f"{manager}: {name}")

    def act(self, call_id: str, what: str, **fields: Any) -> None:
        """Write an action of a call."""
        turn = self.state.turn
        self.out.append(
            Action(
                session=self.ref, key=("action", self.ref.vendor_id, call_id, what), at=self.state.at,
                turn=turn and turn.request_id, call_id=call_id, **fields,
            )
        )  # fmt: skip

    def edit(self, call_id: str, path: str, *, created: bool = False, failed: bool = False, diff: str | None = None,
             approximate: bool = False) -> None:  # fmt: skip
        """Write a file that a call changed."""
        shown = relative_path(path, self.state.cwd)
        name = shown.rpartition("/")[2] or shown
        self.act(
            call_id, shown, type="create" if created else "edit", file_path=shown,
            description=f"{'Created' if created else 'Edited'} {name}", status="failed" if failed else "completed",
            diff=None if failed else diff, approximate=approximate and diff is not None,
        )  # fmt: skip
        if not failed:
            self.add("files_modified", shown)

    def use(self, key: Key, vendor: Object, **fields: Any) -> None:
        """Write the tokens of a response; nothing if there are none."""
        if any(value for value in fields.values() if isinstance(value, int) and not isinstance(value, bool)):
            turn = self.state.turn
            self.out.append(
                Usage(
                    session=self.ref, key=key, at=self.state.at, turn=turn and turn.request_id, vendor=vendor, **fields
                )
            )


def _code(note: str | None, code: str | None) -> str | None:
    return code or ("superseded" if note == NO_ANSWER else None)


def script_of(given: Any) -> str:
    """Return the command of a shell tool's input."""
    if isinstance(given, dict):
        return text_in(cast(Object, given), "command", "cmd", "script") or ""
    return given if isinstance(given, str) else ""


def as_raw(value: object) -> bytes:
    """Return a part of a record as the text that is kept of it."""
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return repr(value).encode("utf-8", "replace")
