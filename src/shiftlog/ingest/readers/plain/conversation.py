"""The base of readers of plain conversations: tools, actions, tokens and the reader protocol.

A reader subclasses `ConversationReader` and reads its records; sessions, turns and dialog are in `turns`.
"""

from collections.abc import Iterable, Sequence
from typing import Any, cast

import msgspec

from shiftlog.facts import transcript as f
from shiftlog.ingest.readers.plain.turns import MAX_OPEN_CALLS, ChatCall, ConversationTurns
from shiftlog.ingest.readers.records import Object, bounded, call_line, relative_path, text_in
from shiftlog.ingest.readers.shell_actions import commits_made, packages_added
from shiftlog.text.guarded_command import with_own_command


class ConversationReader(ConversationTurns):
    """Reads one conversation. Subclasses give `read_record`, and `complete` if they hold something back."""

    SHELL_TOOLS: frozenset[str] = frozenset()

    # -- the protocol --------------------------------------------------------------------------------------------------

    def finish(self) -> Sequence[f.AnyFact]:
        """Write what was held back."""
        self.complete()
        self.give_fields()
        return self.given()

    def standings(self) -> Sequence[f.Standing]:
        """Return the open turn."""
        turn = self.state.turn
        if turn is None:
            return ()
        ends_as = ("failed" if turn.failure else "completed") if self.is_quiet(turn) else None
        return (
            f.Standing(
                session=self.ref, turn=turn.request_id, last_at=turn.last_at, quiet=self.is_quiet(turn),
                ends_as=ends_as,
            ),
        )  # fmt: skip

    def end_idle(self, sessions: Iterable[f.VendorSession] | None = None) -> Sequence[f.AnyFact]:
        """End the open turn if the model has finished."""
        turn = self.state.turn
        if turn is not None and self.is_quiet(turn) and (sessions is None or self.ref in set(sessions)):
            self.end_turn(settled=True)
        return self.given()

    # -- for subclasses ------------------------------------------------------------------------------------------------

    def complete(self) -> None:
        """Write what is held back, because the input ends for now."""

    # -- tools ---------------------------------------------------------------------------------------------------------

    def call(
        self, call_id: str | None, tool: str, given: Any, *, record: f.RecordIds | None = None, **extra: Any
    ) -> str:
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
        if tool in self.SHELL_TOOLS:
            given = with_own_command(given)
        script = _script_of(given) if tool in self.SHELL_TOOLS else ""
        state.calls[call_id] = ChatCall(tool=tool, turn=turn and turn.request_id, script=script)
        fact = f.ToolCall(
            session=self.ref, key=("call", self.ref.vendor_id, call_id), at=state.at, turn=turn and turn.request_id,
            record=record, tool=tool, call_id=call_id, content=call_line(tool, given), input=bounded(given),
            extra=extra,
        )  # fmt: skip
        self.out.append(fact)
        return call_id

    def answer(
        self, call_id: str | None, text: str, *, is_error: bool = False, exit_code: int | None = None,
        interrupted: bool = False, duration_ms: int | None = None, images: tuple[f.Image, ...] = (),
    ) -> bool:  # fmt: skip
        """Write the result of a call, and the actions of a shell call; return False if it was answered before."""
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
        fact = f.ToolResult(
            session=self.ref, key=("result", self.ref.vendor_id, call_id), at=state.at,
            turn=call.turn if call else turn and turn.request_id, call_id=call_id, tool=call.tool if call else None,
            content=text, is_error=failed, exit_code=exit_code, duration_ms=duration_ms, interrupted=interrupted,
            orphan=call is None, images=images,
        )  # fmt: skip
        self.out.append(fact)
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
        fact = f.Action(
            session=self.ref, key=("action", self.ref.vendor_id, call_id, what), at=self.state.at,
            turn=turn and turn.request_id, call_id=call_id, **fields,
        )  # fmt: skip
        self.out.append(fact)

    def edit(self, call_id: str, path: str, *, created: bool = False, failed: bool = False, diff: str | None = None,
             approximate: bool = False) -> None:  # fmt: skip
        """Write a file changed by a call."""
        shown = relative_path(path, self.state.cwd)
        name = shown.rpartition("/")[2] or shown
        self.act(
            call_id, shown, type="create" if created else "edit", file_path=shown,
            description=f"{'Created' if created else 'Edited'} {name}", status="failed" if failed else "completed",
            diff=None if failed else diff, approximate=approximate and diff is not None,
        )  # fmt: skip
        if not failed:
            self.add("files_modified", shown)

    def use(self, key: f.Key, vendor: Object, **fields: Any) -> None:
        """Write the tokens of a response, if there are any."""
        if any(value for value in fields.values() if isinstance(value, int) and not isinstance(value, bool)):
            turn = self.state.turn
            fact = f.UsageFact(
                session=self.ref, key=key, at=self.state.at, turn=turn and turn.request_id, vendor=vendor, **fields
            )
            self.out.append(fact)


def _script_of(given: Any) -> str:
    if isinstance(given, dict):
        return text_in(cast(Object, given), "command", "cmd", "script") or ""
    return given if isinstance(given, str) else ""


def as_raw(value: object) -> bytes:
    """Return a part of a record as raw text."""
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return repr(value).encode("utf-8", "replace")
