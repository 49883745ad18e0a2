"""Approvals: commands that need a person's permission first, and the decisions about them.

An approval holds for one shell and one exact command text, once, for ten minutes. Requests and decisions are recorded.
The face that takes a decision checks who may make it: never a process inside a shell.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import anyio

from shiftlog.model.errors import InvalidParameter, SessionClosed
from shiftlog.model.limits import APPROVAL_HOLDS, APPROVAL_WAIT_S
from shiftlog.model.shell_errors import ApprovalDeclined, ApprovalRequired
from shiftlog.model.times import precise
from shiftlog.shell.ports import ShellJournal

LOG = logging.getLogger(__name__)

Confirm = Callable[[str], Awaitable[bool | None]]
State = Literal["pending", "granted", "declined", "used", "expired"]


@dataclass(slots=True, kw_only=True)
class Approval:
    """One request for a person's permission."""

    approval_id: str
    shell_id: str
    session_id: str
    text: str
    shown: str
    asks: list[dict[str, Any]]
    asked_at: datetime
    state: State = "pending"
    decided: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def expires_at(self) -> datetime:
        """The time until which it holds."""
        return self.asked_at + APPROVAL_HOLDS

    def as_listed(self) -> dict[str, Any]:
        """Return it as an item of a list."""
        first = self.asks[0]
        return {
            "approval_id": self.approval_id,
            "kind": "command",
            "shell_id": self.shell_id,
            "session_id": self.session_id,
            "command": self.shown,
            "program": first["program"],
            "entry": first["entry"],
            "state": self.state,
            "asked_at": precise(self.asked_at),
            "expires_at": precise(self.expires_at),
        }


class Approvals:
    """All approvals of one server."""

    def __init__(self, journal: ShellJournal, now: Callable[[], datetime], wait_s: float = APPROVAL_WAIT_S) -> None:
        self._journal = journal
        self._now = now
        self.wait_s = wait_s
        self._approvals: dict[str, Approval] = {}

    def pending(self) -> list[Approval]:
        """Return the undecided requests, oldest first."""
        self._expire()
        return [approval for approval in self._approvals.values() if approval.state == "pending"]

    async def require(
        self,
        shell_id: str,
        session_id: str,
        text: str,
        shown: str,
        asks: list[dict[str, Any]],
        confirm: Confirm | None,
    ) -> Approval:
        """Wait for a person's approval, use it up and return it; raises if it is declined or not given in time."""
        deadline = asyncio.get_running_loop().time() + self.wait_s
        while True:
            self._expire()
            fitting = (one for one in self._approvals.values() if one.shell_id == shell_id and one.text == text)
            approval = next(fitting, None)
            if approval is None:
                approval = await self._record(
                    Approval(
                        approval_id=secrets.token_hex(4),
                        shell_id=shell_id,
                        session_id=session_id,
                        text=text,
                        shown=shown,
                        asks=asks,
                        asked_at=self._now(),
                    )
                )
            if approval.state == "pending":
                await self._wait(approval, confirm, deadline)
            if approval.state != "used":
                break
            # It holds once, and an equal call took it: this one needs a decision of its own.
        message = str(asks[0]["message"])
        if approval.state == "declined":
            self._approvals.pop(approval.approval_id, None)
            raise ApprovalDeclined("approval declined", details=_details(approval))
        if approval.state != "granted":
            raise ApprovalRequired(
                message,
                details=_details(approval),
                hint=f"Have `shiftlog approve {approval.approval_id}` run, then call again",
            )
        approval.state = "used"
        del self._approvals[approval.approval_id]
        return approval

    async def _record(self, approval: Approval) -> Approval:
        """Record a request; without a record there is none."""
        self._approvals[approval.approval_id] = approval
        try:
            await self._journal.approval_asked(approval.session_id, approval.as_listed())
        except BaseException:
            self._approvals.pop(approval.approval_id, None)
            raise
        return approval

    def give_back(self, approval: Approval) -> None:
        """Restore an approval whose command could not be begun."""
        approval.state = "granted"
        self._approvals[approval.approval_id] = approval

    def withdraw(self, shell_id: str) -> None:
        """Expire all requests of a shell that is over, and wake their waiters."""
        self._drop([one for one in self._approvals.values() if one.shell_id == shell_id])

    async def decide(self, approval_id: str, *, granted: bool, by: str) -> dict[str, Any]:
        """Record a person's decision about a pending request."""
        self._expire()
        asked = self._approvals.get(approval_id)
        if asked is not None and asked.state == "pending":
            await self._check_session(asked.session_id)
        approval = self._approvals.get(approval_id)
        if approval is None or approval.state != "pending":
            raise InvalidParameter.invalid("approval_id", "the id of a question that is open", approval_id)
        approval.state = "granted" if granted else "declined"
        try:
            await self._journal.approval_decided(approval.session_id, {**approval.as_listed(), "by": by})
        except BaseException:
            approval.state = "pending"  # an unrecorded decision does not count
            raise
        approval.decided.set()
        return approval.as_listed()

    async def _check_session(self, session_id: str) -> None:
        """Take the requests of a session back if it has ended, and raise SessionClosed: nothing of it would run."""
        try:
            await self._journal.check_live(session_id)
        except SessionClosed as error:
            self._drop([one for one in self._approvals.values() if one.session_id == session_id])
            says = "The session has ended, so its command will not run"
            raise SessionClosed(says, details=error.details, hint="Nothing needs your answer any more") from None

    async def _wait(self, approval: Approval, confirm: Confirm | None, deadline: float) -> None:
        async with anyio.create_task_group() as asking:
            if confirm is not None:
                asking.start_soon(self._ask, approval, confirm)
            with anyio.CancelScope(deadline=deadline):
                await approval.decided.wait()
            asking.cancel_scope.cancel()

    async def _ask(self, approval: Approval, confirm: Confirm) -> None:
        try:
            answer = await confirm(f"{approval.asks[0]['message']}\n\n{approval.shown}")
            if answer is not None and approval.state == "pending":
                await self.decide(approval.approval_id, granted=answer, by="client")
        except Exception:
            LOG.exception("the client could not be asked for approval %s", approval.approval_id)

    def _expire(self) -> None:
        now = self._now()
        self._drop([one for one in self._approvals.values() if one.expires_at <= now])

    def _drop(self, expired: list[Approval]) -> None:
        for approval in expired:
            approval.state = "expired"
            approval.decided.set()
            del self._approvals[approval.approval_id]


def _details(approval: Approval) -> dict[str, Any]:
    listed = approval.as_listed()
    return {name: listed[name] for name in ("approval_id", "expires_at", "entry", "program")}
