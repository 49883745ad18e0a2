"""The state of one shell and of its commands, as the service keeps it.

Only bookkeeping on the event loop: `service.py` and `commands.py` start, stop and record.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from shiftlog.guard.budgets.spec import Budget
from shiftlog.guard.budgets.text import elide_middle
from shiftlog.guard.secrets.redactor import Redactor
from shiftlog.model.limits import SHELL_COMMANDS_KEPT
from shiftlog.model.shell_errors import ShellBusy
from shiftlog.model.shells import Facts
from shiftlog.model.times import precise
from shiftlog.shell.outputs.command_output import CommandOutput
from shiftlog.shell.outputs.text import shown_name
from shiftlog.shell.ports import EndedReason, LiveShell, RunningCommand, Transport

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from shiftlog.shell.askpass.door import AskpassDoor
    from shiftlog.shell.guard import CommandJudgement, ShellGuard

ECHO_CHARS = 2_000

ShellState = Literal["opening", "idle", "busy", "ended", "lost"]
CommandState = Literal["queued", "running", "finished", "timed_out", "cancelled", "refused", "syntax_error", "unknown"]
LOST_HINT = "the connection was lost; the command may still be running or may have finished"


@dataclass(slots=True, kw_only=True)
class Command:
    """One command, from its request until its shell is forgotten."""

    command_id: str
    text: str
    judgement: "CommandJudgement"
    shell_id: str
    session_id: str
    cwd: str
    began_in: str = ""  # `cwd` changes to the directory in which it ended
    background: bool = False
    terminal: bool = False
    request_id: str | None = None
    checkpoint_id: str | None = None
    state: CommandState = "queued"
    is_queued: bool = True  # until its beginning can no longer be prevented
    waited: bool = False  # for another command of its shell
    exit_code: int | None = None
    is_vouched: bool = True  # no program could have changed the exit code
    signal: str | None = None
    started_at: datetime | None = None
    began: float = field(default_factory=time.perf_counter)
    duration_ms: float = 0.0
    output: CommandOutput | None = None
    running: RunningCommand | None = None
    stdin_open: bool = False
    permitted: list[str] = field(default_factory=list[str])
    programs: list[dict[str, Any]] | None = None
    programs_total: int = 0
    stopping: Literal["timed_out", "cancelled"] | None = None
    answer_due: asyncio.Event = field(default_factory=asyncio.Event)  # its caller waits for this
    over: asyncio.Event = field(default_factory=asyncio.Event)
    recorded: bool = True

    def end(self) -> None:
        """Mark the command as over and recorded."""
        self.over.set()
        self.answer_due.set()

    @property
    def is_running(self) -> bool:
        """Return True while it runs."""
        return self.state == "running"

    @property
    def echo(self) -> str:
        """The text for results, shortened in its middle."""
        return elide_middle(self.text, ECHO_CHARS)


@dataclass(slots=True, kw_only=True)
class Shell:
    """One shell, live or over."""

    shell_id: str
    session_id: str
    implicit: bool
    transport: Transport
    target: str | None
    name: str | None
    live: LiveShell
    guard: "ShellGuard"
    tasks: "TaskGroup"  # its commands and the engine's watchers; cancelled when the shell is over
    redactor: Redactor
    workspace: str | None
    timeout_s: int
    used_by: str | None  # the client that opened it or ran the last command
    budget: Budget | None
    created_at: datetime
    askpass: "AskpassDoor | None" = None  # where its programs ask a person for passwords
    state: ShellState = "idle"
    ended_reason: EndedReason | None = None
    ended_because: str = ""
    exit_code: int | None = None
    ended_at: datetime | None = None
    cwd: str = ""
    numbers: int = 0
    foreground: Command | None = None
    commands: dict[str, Command] = field(default_factory=dict[str, Command])
    queued: dict[str, Command] = field(default_factory=dict[str, Command])  # not yet begun, maybe never
    last: Command | None = None
    last_recorded: Facts | None = None  # the last command of an earlier server
    idle_since: float = field(default_factory=time.monotonic)
    is_recorded: bool = False  # its end is in the journal
    learned: frozenset[str] = frozenset()
    checkpoints: dict[str, Any] = field(default_factory=dict[str, Any])
    given: dict[str, Any] = field(default_factory=dict[str, Any])  # arguments that a later server needs
    is_held: bool = False  # it outlives this server
    is_left: bool = False  # to the next server
    note_down: Callable[[], None] = lambda: None  # records the shell for a later server
    beginning: set[str] = field(default_factory=set[str])  # background commands not yet running
    over: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)  # recorded, and its task group has ended
    _waiting: deque["asyncio.Future[None]"] = field(default_factory=deque["asyncio.Future[None]"])

    @property
    def is_live(self) -> bool:
        """Return True if commands can be run."""
        return self.state in ("idle", "busy")

    @property
    def running(self) -> list[Command]:
        """The commands that run now."""
        return [command for command in self.commands.values() if command.is_running]

    def next_command_id(self) -> str:
        """Return the id of the next command; refused commands get one too."""
        self.numbers += 1
        return f"{self.shell_id}#{self.numbers}"

    def learn(self, values: frozenset[str]) -> None:
        """Mask these values in everything that this shell shows from now on."""
        self.learned |= values
        self.redactor = self.redactor.learning(values)
        self.note_down()

    def forget(self, command_id: str) -> None:
        """Drop a finished command and its text."""
        command = self.commands.get(command_id)
        if command is not None and command.over.is_set():
            command.text = ""
            del self.commands[command_id]

    def trim(self, kept: int = SHELL_COMMANDS_KEPT) -> None:
        """Drop the oldest finished commands beyond a limit; journal and disk keep them, so they are read from there."""
        surplus = len(self.commands) - kept
        for command in list(self.commands.values())[: max(0, surplus)]:
            if command.over.is_set() and command.recorded and command is not self.last:
                del self.commands[command.command_id]

    async def enter(self, wait_s: float) -> None:
        """Wait in order until no foreground command runs; raise ShellBusy after `wait_s`."""
        if self.state == "idle" and not self._waiting:
            self.state = "busy"
            return
        if wait_s <= 0:
            raise self._busy()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await asyncio.wait_for(turn, wait_s)
        except TimeoutError:
            raise self._busy() from None
        except BaseException:
            if turn.done() and not turn.cancelled():
                self.leave()
            raise
        finally:
            if turn in self._waiting:
                self._waiting.remove(turn)

    def leave(self) -> None:
        """Let the next foreground command in."""
        self.foreground = None
        self.idle_since = time.monotonic()
        self.trim()
        if not self.is_live:
            return
        self.state = "idle"
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                self.state = "busy"
                turn.set_result(None)
                return

    def abandon(self, command: Command) -> None:
        """Give up the turn of a command that does not begin."""
        self.beginning.discard(command.command_id)
        if not command.background:
            self.leave()

    def end(self, state: Literal["ended", "lost"], reason: EndedReason, exit_code: int | None, at: datetime) -> None:
        """Mark the shell as over and wake all waiting commands, which then check its state."""
        self.state, self.ended_reason, self.exit_code, self.ended_at = state, reason, exit_code, at
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
        self.over.set()

    def _busy(self) -> ShellBusy:
        command = self.foreground
        name = command.command_id if command else "a command"
        since = precise(command.started_at) if command and command.started_at else None
        return ShellBusy(
            f"shell {self.shell_id} is running {name}",
            details={"command_id": command.command_id if command else None, "since": since},
        )

    @property
    def shown_workspace(self) -> str | None:
        """The workspace for results."""
        return None if self.workspace is None else shown_name(self.workspace)

    def mask(self, text: str) -> str:
        """Mask the secrets in a text."""
        return self.redactor.text(shown_name(text), by_rule=True).text

    @property
    def last_command(self) -> dict[str, Any] | None:
        """The last command as an item of list_shells has it."""
        last = self.last
        if last is None:
            return last_listed(self.last_recorded)
        return {
            "command_id": last.command_id,
            "command": last.echo,
            "state": last.state,
            "exit_code": last.exit_code,
        }

    def as_listed(self) -> dict[str, Any]:
        """Return the shell as an item of list_shells."""
        busy = bool(self.running)
        return {
            "shell_id": self.shell_id,
            "session_id": self.session_id,
            "name": self.name,
            "transport": self.transport,
            "target": self.target,
            "state": self.state,
            "ended_reason": self.ended_reason,
            "exit_code": self.exit_code,
            "cwd": self.mask(self.cwd),
            "workspace": self.shown_workspace,
            "sandbox": self.guard.sandbox,
            "enforcement": self.guard.enforcement,
            "running": [command.command_id for command in self.running],
            "last_command": self.last_command,
            "idle_s": 0 if busy else int(time.monotonic() - self.idle_since),
            "created_at": precise(self.created_at),
        }


def last_listed(recorded: Facts | None) -> dict[str, Any] | None:
    """Return the recorded last command of a shell as an item of list_shells has it."""
    if recorded is None:
        return None
    return {
        "command_id": recorded.get("command_id"),
        "command": elide_middle(str(recorded.get("command", "")), 2_000),
        "state": recorded.get("state", "unknown"),
        "exit_code": recorded.get("exit_code"),
    }
