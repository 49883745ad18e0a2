"""The shells that this server has opened: finding one, and raising what became of one that is over.

Shared by the service, the commands and the checkpoints. Opening, running and closing do not belong here.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from shiftlog.model.caller import Caller
from shiftlog.model.limits import ENDED_SHELLS_HELD, ENDED_SHELLS_MOST, ENDED_SHELLS_SHOWN
from shiftlog.model.shell_errors import ShellNotFound
from shiftlog.shell import bounds, results
from shiftlog.shell.approvals import Approvals
from shiftlog.shell.bounds import ShellBounds
from shiftlog.shell.ports import ShellEnd, ShellJournal
from shiftlog.shell.state import Command, Shell


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellRegistry:
    """All shells of one server, live or over."""

    journal: ShellJournal
    approvals: Approvals
    now: Callable[[], datetime]
    is_inside: Callable[[int, int], bool]  # whether one process descends from another
    shells: dict[str, Shell] = field(default_factory=dict[str, Shell])

    def live(self) -> list[Shell]:
        """Return the live shells, oldest first."""
        return [shell for shell in self.shells.values() if shell.is_live]

    def live_ids(self) -> list[str]:
        """Return the ids of the live shells, oldest first."""
        return [shell.shell_id for shell in self.live()]

    def find(self, shell_id: str) -> Shell | None:
        """Return a shell of this server, live or over."""
        return self.shells.get(shell_id)

    def find_command(self, command_id: str) -> Command | None:
        """Return a command of a shell of this server."""
        shell = self.shells.get(command_id.rpartition("#")[0])
        return shell.commands.get(command_id) if shell else None

    async def usable(self, shell_id: str) -> Shell:
        """Return a live shell, or raise what became of it."""
        shell = self.shells.get(shell_id)
        if shell is None:
            recorded = await self.journal.shell(shell_id)
            if recorded is None:
                raise not_found(shell_id)
            ended = {"cwd": recorded.opened.get("cwd"), "reason": "server_stopped"} | dict(recorded.ended or {})
            raise results.over_error(shell_id, ended, recorded.ended_at, recorded.last_command or {})
        self.check_usable(shell)
        return shell

    def check_usable(self, shell: Shell) -> None:
        """Raise what became of a shell that is over."""
        if not shell.is_live:
            told = shell.last_command or {}
            last = {name: told[name] for name in ("command_id", "state") if name in told}
            ended = results.ending_facts(shell)
            raise results.over_error(shell.shell_id, ended, shell.ended_at, last, shell.ended_because)

    def check_bounds(self, wanted: ShellBounds, caller: Caller) -> None:
        """Reject a caller inside a shell that would reach beyond it, through another shell or without one."""
        if not caller.inside:
            return
        around = self._around(caller)
        for held in map(bounds.bounds_of, around) if around else (bounds.OF_AN_ORPHAN,):
            bounds.check(held, wanted)

    def check_use(self, shell_id: str | None, caller: Caller) -> None:
        """Reject a caller inside a shell that uses a shell, or works outside of any, beyond its own bounds."""
        self.check_bounds(bounds.bounds_of(self.shells.get(shell_id or "")), caller)

    def _around(self, caller: Caller) -> list[Shell]:
        """Return the live local shells that a caller runs in."""
        pid = caller.pid
        if pid is None:
            return []
        return [shell for shell, root in self._roots() if self.is_inside(pid, root)]

    def _roots(self) -> Iterator[tuple[Shell, int]]:
        """Yield each live local shell with the process from which all of its own descend."""
        for shell in self.live():
            if shell.transport == "local" and shell.live.reaper_pid is not None:
                yield shell, shell.live.reaper_pid

    def note_end(self, shell: Shell, end: ShellEnd) -> None:
        """Mark a shell as over; its command and its own end may both report it."""
        if shell.is_live:
            shell.end("lost" if end.lost else "ended", end.reason, end.exit_code, self.now())
            shell.ended_because = shell.ended_because or end.why
            self.approvals.withdraw(shell.shell_id)

    def forget_ended(self) -> None:
        """Forget the shells that ended long ago; of those for which the journal answers, keep only the newest."""
        over = [(shell.ended_at, shell) for shell in self.shells.values() if shell.ended_at and shell.released.is_set()]
        over.sort(key=lambda one: one[0])
        recorded = [shell.shell_id for _, shell in over if shell.is_recorded]
        surplus = set(recorded[:-ENDED_SHELLS_MOST])
        for ended_at, shell in over:
            kept = ENDED_SHELLS_HELD if shell.is_recorded else ENDED_SHELLS_SHOWN
            if shell.shell_id in surplus or self.now() - ended_at > kept:
                del self.shells[shell.shell_id]


def not_found(shell_id: str) -> ShellNotFound:
    """Return the error for an id that no shell ever had."""
    return ShellNotFound(f"unknown shell_id '{shell_id}'", details={"shell_id": shell_id})
