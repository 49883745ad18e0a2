"""What a scripted model answers: steps of text and tool calls, chosen by what the request holds.

A script belongs to a prompt. The answer to a request is the step whose number is the count of answers that the
conversation already has since that prompt, so a repeated request gets the same answer, and the conversations of
several clients and subagents need no common order.
"""

import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
HOLD_S = 120
CLAUDE_PREFIX = "mcp__plugin_shiftlog_shiftlog__"
# Clients put context of their own beside the prompt, which may hold an earlier prompt, for example in a brief.
_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call; the tools of our own server have other names in each client."""

    name: str
    arguments: Json
    is_ours: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One answer of the model."""

    text: str = ""
    calls: Sequence[Call] = ()
    # The answer waits for this event.
    hold: threading.Event | None = None
    # The tokens of the request as the model counts them; None for those of every request.
    tokens_in: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message as every wire has it: who said it, its text, and the results of tools that came with it."""

    role: str
    text: str
    results: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the model was told, and by whom."""

    messages: Sequence[Message]
    tools: Sequence[str]
    system: str
    body: Json
    at: float = field(default_factory=time.monotonic)

    @property
    def text(self) -> str:
        """Everything that the model was told, system prompt and results of tools included."""
        return "\n".join([self.system, *(part for each in self.messages for part in (each.text, *each.results))])

    @property
    def results(self) -> list[str]:
        """The results of all tool calls, in order."""
        return [result for message in self.messages for result in message.results]

    def answers_since(self, prompt: str) -> int | None:
        """Return how many answers came after the last message of a user with this text; None if there is no such."""
        found: int | None = None
        for message in self.messages:
            if message.role == "user" and prompt in _REMINDER.sub("", message.text):
                found = 0
            elif message.role == "assistant" and found is not None:
                found += 1
        return found


def name_here(call: Call, tools: Sequence[str]) -> str:
    """Return a tool's name as a client lists it: before those of our server it puts a prefix of its own.

    Claude Code may list ours only later, when its model looks for them.
    """
    if not call.is_ours:
        return call.name
    ours = (name for name in tools if "shiftlog" in name and name.endswith(f"_{call.name}"))
    return next(ours, f"{CLAUDE_PREFIX}{call.name}")


Scripted = Step | Callable[[Request], Step]


def says(text: str, *, hold: threading.Event | None = None) -> Step:
    """Answer with a text."""
    return Step(text=text, hold=hold)


def calls(name: str, *, hold: threading.Event | None = None, **arguments: Any) -> Step:
    """Answer with one tool call."""
    return Step(calls=[Call(name=name, arguments=arguments)], hold=hold)


def ours(tool: str, **arguments: Any) -> Step:
    """Answer with a call of one of Shiftlog's tools."""
    return Step(calls=[Call(name=tool, arguments=arguments, is_ours=True)])


@dataclass(slots=True)
class Script:
    """The scripts of a test by their prompts, and every request that came."""

    prompts: dict[str, Sequence[Scripted]] = field(default_factory=dict[str, Sequence[Scripted]])
    requests: list[Request] = field(default_factory=list[Request])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def on(self, prompt: str, *steps: Scripted) -> None:
        """Answer a conversation whose last known prompt contains this text with these steps."""
        self.prompts[prompt] = steps

    def told(self, prompt: str) -> list[Request]:
        """Return the requests in which a user said this, in order of arrival."""
        with self._lock:
            return [request for request in self.requests if request.answers_since(prompt) is not None]

    def answer(self, request: Request) -> Step:
        """Record a request and return its answer."""
        with self._lock:
            self.requests.append(request)
        step = self._step(request)
        if step.hold is not None:
            step.hold.wait(HOLD_S)
        return step

    def _step(self, request: Request) -> Step:
        since = {prompt: request.answers_since(prompt) for prompt in self.prompts}
        known = {prompt: count for prompt, count in since.items() if count is not None}
        if not known:
            return says("Understood.")
        prompt = min(known, key=lambda name: (known[name], -len(name)))
        steps, number = self.prompts[prompt], known[prompt]
        if number >= len(steps):
            return says("Done.")
        step = steps[number]
        return step(request) if callable(step) else step
