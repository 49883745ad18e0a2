"""Hooks, calls of our tools and the transcript tell of one session in any order, with losses: all of it is kept, once.

A day of a client is a list of moments. At each, the client writes its transcript, and a hook may be lost, told, or told
twice; the agent may call our tools; the spool may be drained, and the transcript imported as far as it has grown. At
the end each prompt, tool call and answer that was told by any of them is in the journal exactly once.
"""

import asyncio
import json
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from shiftlog.model.caller import ClientSigns
from shiftlog.model.errors import ShiftlogError
from tests.ingest.hooks.hook_app import HookApp, open_hook_app
from tests.ingest.import_app import NOW, Claude
from tests.journal.harness import client

OURS = "mcp__plugin_shiftlog_shiftlog__"
LOST, ONCE, TWICE = 0, 1, 2
HOOK = st.sampled_from([LOST, ONCE, ONCE, TWICE])


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What happens at one moment beside the client's own work: who tells of it, and who listens then."""

    hook: int
    calls_tool: bool
    names_prompt: bool
    names_transcript: bool
    drains: bool
    imports: bool


MOMENTS = st.builds(
    Moment, hook=HOOK, calls_tool=st.booleans(), names_prompt=st.booleans(), names_transcript=st.booleans(),
    drains=st.booleans(), imports=st.booleans(),
)  # fmt: skip
TURN = st.tuples(MOMENTS, st.lists(MOMENTS, max_size=2), MOMENTS)
DAY = st.tuples(MOMENTS, st.lists(TURN, min_size=1, max_size=3), MOMENTS, st.booleans())


@dataclass(slots=True, kw_only=True)
class Day:
    """A session as it goes on, and everything that was told of it."""

    app: HookApp
    number: int
    begins: datetime
    transcript: Claude
    handle: str | None = None
    prompts: set[str] = field(default_factory=set[str])
    # Prompts whose turn an agent may have begun in that of an earlier prompt: no sign said that they differ.
    doubtful: set[str] = field(default_factory=set[str])
    calls: set[str] = field(default_factory=set[str])
    answers: dict[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def begin(cls, app: HookApp, number: int) -> "Day":
        """Begin a day after those before; its ids are its own, so that nothing counts as copied from another."""
        begins = NOW + timedelta(days=number)
        transcript = Claude(session=f"{number:08d}-0000-4000-8000-00000000000a", started=begins, letter=f"{number:x}")
        return cls(app=app, number=number, begins=begins, transcript=transcript)

    @property
    def vendor_id(self) -> str:
        return self.transcript.session

    @property
    def path(self) -> Path:
        return self.app.app.folder / "projects" / "app" / f"{self.vendor_id}.jsonl"

    def tell(self, moment: Moment, event: str, **facts: Any) -> bool:
        """Spool an event as the moment has it; return True if it was told."""
        self._wait()
        path = str(self.path) if moment.names_transcript else None
        if moment.hook == LOST:
            return False
        line = self.app.spool(event, later_s=0.2, session_id=self.vendor_id, transcript_path=path, **facts)
        if moment.hook == TWICE:  # a hook that was killed after it had written, and run again by a script
            self.app.append("hooks-20261101-again.jsonl", json.dumps(line) + "\n")
        return True

    def _wait(self) -> None:
        """Let the client's clock and that of its hooks agree: a record of the transcript takes a second."""
        self.app.at = self.begins + timedelta(seconds=len(self.transcript.records))

    async def listen(self, moment: Moment) -> None:
        """Drain and import as the moment has it."""
        self.app.app.write(f"projects/app/{self.vendor_id}.jsonl", self.transcript.records)
        self.app.later(seconds=0.5)
        if moment.drains:
            await self.app.drain()
        if moment.imports:
            await self.app.app.take(self.path)

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any] | None:
        """Call one of our tools as the client's agent, which the transcript has too; None if it is refused."""
        self.app.later(seconds=0.4)
        await self.app.drain()  # as the MCP face does, so that the client's session is known
        name = self.next_call()
        self.transcript.calls(name, f"{OURS}{tool}", **arguments)
        try:
            answer = await self.app.app.harness.call(
                tool, arguments, client("agent", signs=ClientSigns(tool_call=name))
            )
        except ShiftlogError as error:
            self.transcript.returns(name, error.message, is_error=True)
            return None
        self.transcript.returns(name, [{"type": "text", "text": json.dumps(answer)}])
        return answer

    def next_call(self) -> str:
        """Return the id of the next call of one of our tools."""
        return f"toolu_own_{self.number}_{len(self.transcript.records)}"

    async def prompt(self, moment: Moment, number: int) -> None:
        text = f"Prompt {number}"
        self.transcript.prompt(text)
        if self.tell(moment, "UserPromptSubmit", prompt=text, prompt_id=f"prompt-{self.number}-{number}"):
            self.prompts.add(text)
        if moment.calls_tool:
            await self._begin(moment, text, f"prompt-{self.number}-{number}")
        await self.listen(moment)

    async def _begin(self, moment: Moment, text: str, prompt_id: str) -> None:
        if self.handle is None:
            named = {"agent": "ClaudeCode", "title": "The day", "vendor_session_id": self.vendor_id}
            opened = await self.call("open_session", **named)
            self.handle = opened["session_id"] if opened is not None else None
        if self.handle is not None:
            if moment.names_prompt:  # the hook before the call
                about: dict[str, Any] = {"tool_name": f"{OURS}begin_turn", "tool_use_id": self.next_call()}
                self.app.spool("PreToolUse", later_s=0.1, session_id=self.vendor_id, prompt_id=prompt_id, **about)
            elif moment.hook == LOST:
                self.doubtful.add(text)
            begun = await self.call("begin_turn", session_id=self.handle, query_title=text, query_text=text)
            if begun is not None:
                self.prompts.add(text)

    async def use_tool(self, moment: Moment, name: str) -> None:
        given, answer = {"command": f"echo {name}"}, {"stdout": name, "stderr": ""}
        self.transcript.calls(name, **given).returns(name, name, toolUseResult=answer)
        about = {"tool_name": "Bash", "tool_input": given, "tool_response": answer, "tool_use_id": name}
        if self.tell(moment, "PostToolUse", **about):
            self.calls.add(name)
        await self.listen(moment)

    async def stop(self, moment: Moment, number: int) -> None:
        prompt, text = f"Prompt {number}", f"Answer {number}"
        self.transcript.says(text).ends()
        if self.tell(moment, "Stop", last_assistant_message=text) and prompt in self.prompts:
            self.answers[prompt] = text
        await self.listen(moment)

    async def end(self, moment: Moment, *, whole: bool) -> None:
        """End the session; with `whole` the transcript is imported at last, else it is lost since the last import."""
        self.tell(moment, "SessionEnd", reason="exit")
        self.app.later(seconds=0.5)
        await self.app.drain()
        if whole:
            await self.app.app.take(self.path)
        self.app.later(seconds=30)
        await self.app.drain()


async def live(day: Day, start: Moment, turns: Sequence[Any], last: Moment, *, whole: bool) -> None:
    if day.tell(start, "SessionStart", source="startup"):
        await day.listen(replace(start, imports=False))
    for number, (asked, used, stopped) in enumerate(turns):
        await day.prompt(asked, number)
        for place, moment in enumerate(used):
            await day.use_tool(moment, f"toolu_{day.number}_{number}_{place}")
        await day.stop(stopped, number)
    await day.end(last, whole=whole)


def imported(day: Day, *, whole: bool) -> None:
    """Add what the transcript told to what was told."""
    if not whole:
        return
    for record in day.transcript.records:
        content = record.get("message", {}).get("content")
        if isinstance(content, str):
            day.prompts.add(content)
        blocks = cast("list[Any]", content) if isinstance(content, list) else []
        for block in blocks:
            if block["type"] == "tool_use":
                day.calls.add(block["id"])
            elif block["type"] == "text":
                day.answers[f"Prompt {block['text'].split()[-1]}"] = block["text"]


async def check(day: Day, before: int) -> None:
    app = day.app.app
    found = [one for one in (await app.sessions()).values() if one.vendor_session_id == day.vendor_id]
    assert len(found) == len(await app.sessions()) - before
    if not day.prompts and not day.calls:
        return
    (session,) = found
    turns = await app.turns(session)
    asked = Counter(turn.query_text for turn in turns)
    assert set(asked.values()) <= {1}, asked
    entries = await app.entries(session)
    # An agent that goes on in a hook's turn gives it its own words; the beginning keeps those of the prompt.
    begun = {entry.facts.get("query_text") for entry in entries if entry.kind == "turn.begun"}
    assert day.prompts <= {*asked, *begun}, (day.prompts, asked)
    assert day.doubtful or day.prompts <= {*asked}, (day.prompts, asked)
    dialog = [entry.facts for entry in entries if entry.kind == "dialog"]
    for note in (note for turn in turns for note in turn.amendments):
        dialog += cast("list[dict[str, Any]]", note.fields.get("dialog") or [])
    called = Counter(facts["call_id"] for facts in dialog if facts.get("category") == "tool_call")
    assert set(called.values()) <= {1}, called
    assert day.calls <= set(called), (day.calls, called)
    said = Counter(facts["content"] for facts in dialog if facts.get("role") == "model" and "call_id" not in facts)
    assert all(times == 1 for text, times in said.items() if str(text).startswith("Answer")), said
    for prompt, text in day.answers.items():
        (turn,) = (turn for turn in turns if turn.query_text == prompt)
        late = str([note.fields for note in turn.amendments])
        assert turn.response == text or said[text] or text in late, (prompt, text, turn)
    assert day.app.files() == []


async def live_one(app: HookApp, number: int, planned: Any) -> None:
    start, turns, last, whole = planned
    before = len(await app.app.sessions())
    day = Day.begin(app, number)
    await live(day, start, turns, last, whole=whole)
    imported(day, whole=whole)
    await check(day, before)
    if whole:
        heads = await app.app.heads()
        await app.app.take(day.path, full=True)
        assert await app.app.heads() == heads, "telling all of it again changes nothing"


def test_whatever_tells_of_a_session_and_whatever_is_lost_each_thing_told_is_kept_once() -> None:
    numbers = count(1)
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        opening = open_hook_app(Path(folder))
        app = runner.run(opening.__aenter__())

        @settings(max_examples=settings().max_examples // 2)
        @given(DAY)
        def one_day(planned: Any) -> None:
            runner.run(live_one(app, next(numbers), planned))

        try:
            one_day()
            assert runner.run(app.app.is_sound())
        finally:
            runner.run(opening.__aexit__(None, None, None))
