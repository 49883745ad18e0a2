"""The prompts of programs that wait for a person's answer, listed beside the approvals of commands.

An answer is handed on once and kept nowhere. The journal records the question and that it was answered or declined,
never the answer. The face that takes an answer checks who gives it: never a process inside a shell.
"""

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from shiftlog.model.errors import InvalidParameter
from shiftlog.model.limits import PROMPT_WAIT_S
from shiftlog.model.times import precise
from shiftlog.shell.ports import ShellJournal

ANSWER_CHARS = 1024


@dataclass(slots=True, kw_only=True)
class PasswordPrompt:
    """One question of a program; `text` and `command` are masked."""

    approval_id: str
    shell_id: str
    session_id: str
    program: str
    command: str
    text: str
    asked_at: datetime
    expires_at: datetime
    state: Literal["pending", "answered", "declined", "expired"] = "pending"
    answer: str | None = field(default=None, repr=False)
    decided: asyncio.Event = field(default_factory=asyncio.Event)

    def as_listed(self) -> dict[str, Any]:
        """Return it as an item of a list, without the answer."""
        return {
            "approval_id": self.approval_id,
            "kind": "prompt",
            "shell_id": self.shell_id,
            "session_id": self.session_id,
            "command": self.command,
            "program": self.program,
            "prompt": self.text,
            "state": self.state,
            "asked_at": precise(self.asked_at),
            "expires_at": precise(self.expires_at),
        }


class PasswordPrompts:
    """All open prompts of one server."""

    def __init__(self, journal: ShellJournal, now: Callable[[], datetime], wait_s: float = PROMPT_WAIT_S) -> None:
        self._journal = journal
        self._now = now
        self._wait_s = wait_s
        self._open: dict[str, PasswordPrompt] = {}

    def pending(self) -> list[PasswordPrompt]:
        """Return the unanswered prompts, oldest first."""
        return [prompt for prompt in self._open.values() if prompt.state == "pending"]

    async def begin(self, shell_id: str, session_id: str, *, program: str, command: str, text: str) -> PasswordPrompt:
        """Record a question and list it; without a record there is none."""
        asked_at = self._now()
        prompt = PasswordPrompt(
            approval_id=secrets.token_hex(4),
            shell_id=shell_id,
            session_id=session_id,
            program=program,
            command=command,
            text=text,
            asked_at=asked_at,
            expires_at=asked_at + timedelta(seconds=self._wait_s),
        )
        await self._journal.approval_asked(session_id, prompt.as_listed())
        self._open[prompt.approval_id] = prompt
        return prompt

    async def wait(self, prompt: PasswordPrompt) -> str | None:
        """Wait for the answer and take it; return None if it is declined or does not come in time."""
        try:
            async with asyncio.timeout(self._wait_s):
                await prompt.decided.wait()
        except TimeoutError:
            prompt.state = "expired"
            await self._journal.approval_decided(prompt.session_id, {**prompt.as_listed(), "by": "time"})
        finally:
            self._open.pop(prompt.approval_id, None)
        answer, prompt.answer = prompt.answer, None
        return answer

    async def decide(self, approval_id: str, *, answer: str | None, by: str) -> dict[str, Any]:
        """Answer an open prompt, or decline it with None; what was typed is not recorded."""
        prompt = self._open.get(approval_id)
        if prompt is None or prompt.state != "pending":
            raise InvalidParameter.invalid("approval_id", "the id of a question that is open", approval_id)
        if answer is not None and (len(answer) > ANSWER_CHARS or any(sign in answer for sign in "\n\r\0")):
            raise InvalidParameter.invalid("answer", f"one line of at most {ANSWER_CHARS} characters")
        prompt.state = "declined" if answer is None else "answered"
        try:
            await self._journal.approval_decided(prompt.session_id, {**prompt.as_listed(), "by": by})
        except BaseException:
            prompt.state = "pending"  # an unrecorded decision does not count
            raise
        prompt.answer = answer
        prompt.decided.set()
        return prompt.as_listed()
