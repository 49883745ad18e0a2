"""The interfaces between the parts of this package, and what it needs from the packages beside it.

A `Target` opens `LiveShell`s, a live shell starts `RunningCommand`s, and a command writes its bytes into an
`OutputSink`. The service records through a `ShellJournal` and takes checkpoints through `Snapshots`; `app` provides
both. Nothing here does any work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from datetime import datetime

    from anyio.abc import TaskGroup

    from shiftlog.model.caller import Caller
    from shiftlog.model.shells import Facts, KnownCommand, KnownShell, ShellHome
    from shiftlog.shell.engine.terminal import TerminalScreen
    from shiftlog.shell.sandbox.launch import Launch
    from shiftlog.shell.state import Command, Shell

Stream = Literal["stdout", "stderr"]
Transport = Literal["local", "ssh", "docker"]
ShellKind = Literal["bash", "sh"]
KillScope = Literal["tree", "group"]
Signal = Literal["interrupt", "terminate", "kill", "hangup", "quit", "stop", "continue", "usr1", "usr2"]
EndedReason = Literal["exited", "killed", "closed", "idle", "unresponsive", "server_stopped"]

STREAMS: tuple[Stream, Stream] = ("stdout", "stderr")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellSpec:
    """The way to start a shell; every value is already checked against the operator's rules."""

    shell: Literal["auto", "bash", "sh"] = "auto"
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    login: bool = False
    ready_s: float = 8.0
    directories: tuple[str, ...] = ()
    """Directories on this machine that end with the shell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """The size of the terminal for a command."""

    cols: int = 120
    rows: int = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSpec:
    """One command for the engine; `terminal` and `background` commands run in a copy of the shell."""

    text: str
    stdin_open: bool = False
    input: bytes | None = None
    background: bool = False
    terminal: Terminal | None = None
    note: bytes = b""
    """Facts about the command for a later server that takes the shell over."""
    on_copy: Callable[[int], None] | None = None
    """Called with the process of a copy on this machine before it runs any of the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEnd:
    """The end of a command. `lost` means that its fate is unknown: the connection or the shell's host went away."""

    exit_code: int | None
    cwd: str
    signal: Signal | None = None
    lost: bool = False
    shell_ended: EndedReason | None = None
    streams_open: frozenset[Stream] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellEnd:
    """The end of a shell; `lost` if its connection went away; `why` is in words, if that is known."""

    reason: EndedReason
    exit_code: int | None
    lost: bool = False
    why: str = ""


class CallCancelled(asyncio.CancelledError):
    """The caller of a running command cancelled the request; the face decides whether the command goes on."""

    def __init__(self, command_id: str) -> None:
        super().__init__(command_id)
        self.command_id = command_id


class OutputSink(Protocol):
    """Takes a command's bytes as they come; called on the event loop, never blocks for long."""

    def write(self, stream: Stream, data: bytes) -> None:
        """Take the next bytes of a stream."""
        ...

    def close(self, stream: Stream) -> None:
        """End a stream; a leftover child may delay this past the command's end."""
        ...

    @property
    def is_behind(self) -> bool:
        """True if it has not worked through what it took; then no more should be read for now."""
        return False

    def mark(self, stream: Stream) -> bytes | None:
        """Store all bytes so far, and return what a later server needs to go on after them; None if it cannot now.

        A sink that stores nothing has nothing to go on with.
        """
        return b""

    def tear(self, stream: Stream) -> None:
        """Learn that a later server misses bytes of a stream."""


class RunningCommand(Protocol):
    """A started command; `ended` resolves once, when the shell has finished it."""

    @property
    def ended(self) -> asyncio.Future[CommandEnd]: ...

    @property
    def root(self) -> int | None:
        """The process of the copy of a local shell that runs the command, if one does."""
        ...

    @property
    def screen(self) -> TerminalScreen | None:
        """Return the screen of the command's terminal, if it has one."""
        ...

    async def send(self, data: bytes) -> None:
        """Write to the command's standard input; raises `StdinClosed` when it has none."""
        ...

    async def send_eof(self) -> None:
        """Close the command's standard input (on a terminal: type the end-of-file character)."""
        ...

    async def signal(self, name: Signal) -> None:
        """Signal the command's processes, never the shell itself (work inside the shell is interrupted)."""
        ...

    def recorded(self) -> None:
        """Learn that the end of the command is in the journal."""
        ...

    async def stop(self) -> CommandEnd:
        """End the command: interrupt, then terminate, then kill, two seconds apart; the shell survives if it can."""
        ...


class LiveShell(Protocol):
    """A started shell. `ended` resolves once, however the shell ends."""

    @property
    def kind(self) -> ShellKind: ...

    @property
    def cwd(self) -> str: ...

    @property
    def pid(self) -> int | None: ...

    @property
    def reaper_pid(self) -> int | None:
        """The process that all processes of a local shell descend from."""
        ...

    @property
    def startup_output(self) -> bytes: ...

    @property
    def kill_scope(self) -> KillScope: ...

    @property
    def ended(self) -> asyncio.Future[ShellEnd]: ...

    async def start(self, command: CommandSpec, sink: OutputSink) -> RunningCommand:
        """Start a command; the caller ensures that only one foreground command runs at a time."""
        ...

    async def close(self, reason: EndedReason = "closed") -> int:
        """End the shell and its whole tree; return how many processes were ended."""
        ...

    @property
    def can_be_held(self) -> bool:
        """True if the shell can outlive this server; without that the next verbs do nothing."""
        ...

    def hold(self, **more: int) -> None:
        """Let the shell outlive this server, with further descriptors for the next one; raises `OSError`."""
        ...

    def note(self, note: bytes) -> None:
        """Record what the service must know of the shell if a later server takes it over."""
        ...

    def mark(self) -> None:
        """Have the outputs stored that came since the last time."""
        ...

    def leave(self) -> None:
        """Stop using the shell and leave it to the next server."""
        ...


class Target(Protocol):
    """One place where shells run: this machine, a host over ssh, a container."""

    @property
    def label(self) -> str:
        """The part of a shell's id that names the target."""
        ...

    @property
    def shown(self) -> str | None:
        """The target's name in results; None for this machine."""
        ...

    async def open(self, spec: ShellSpec, tasks: TaskGroup) -> LiveShell:
        """Start a shell whose background work runs in `tasks`; raises `OpenFailed` and its like with the reason."""
        ...


class Targets(Protocol):
    """The targets of one transport."""

    async def check(self, values: Mapping[str, Any]) -> None:
        """Raise what the operator does not permit, before any contact."""
        ...

    def find(self, values: Mapping[str, Any], launcher: Launch | None = None) -> Target:
        """Return the target that the arguments of open_shell name; a local shell starts through the launcher."""
        ...


class Snapshots(Protocol):
    """Takes checkpoints for shells; a shell without workspace has none."""

    def check(self, values: Mapping[str, Any]) -> None:
        """Reject a scope that checkpoints cannot cover, before the shell is opened."""
        ...

    async def attach(self, shell: Shell, values: Mapping[str, Any]) -> dict[str, Any]:
        """Begin to cover a shell's workspace; return the `checkpoints` object of its result."""
        ...

    async def attach_again(self, shell: Shell, values: Mapping[str, Any]) -> None:
        """Go on covering the workspace of a shell that an earlier server opened."""
        ...

    async def before(self, shell: Shell, command: Command) -> str | None:
        """Return the checkpoint that undoes a command that is about to run, None if nothing is covered."""
        ...

    async def after(self, shell: Shell) -> None:
        """Save the workspace as a shell that has ended leaves it, if its commands may have changed it."""
        ...


class ShellJournal(Protocol):
    """The journal as shells need it; a fact is durable when the call returns. A failed write raises StorageError.

    One exception keeps short commands fast: the start of a command that its caller waits for survives a crash of this
    process at once, and a loss of power only after `sync` or any later fact. No answer has mentioned it before that.
    """

    async def home(self, session_id: str | None, caller: Caller, title: str) -> ShellHome:
        """Find the session of a new shell: the named one, else the one the caller has open, else a new implicit one.

        The new one gets the title.
        """
        ...

    async def session_id(self, name: str) -> str:
        """Return the id of the session with this name, in any of its forms."""
        ...

    async def check_live(self, session_id: str) -> None:
        """Raise SessionClosed for a session that has ended, SessionNotFound for an unknown one."""
        ...

    async def abandon(self, session_id: str) -> None:
        """Close an implicit session whose shell never came up."""
        ...

    async def shell_opened(self, session_id: str, facts: Facts) -> None: ...

    async def shell_ended(self, session_id: str, facts: Facts, *, close_session: bool) -> None:
        """Record an end; an implicit session ends with its last shell."""
        ...

    async def command_started(self, session_id: str, facts: Facts, caller: Caller, *, waited_for: bool) -> str | None:
        """Record a start and return the open turn, if any; raise if the caller may not write."""
        ...

    async def sync(self) -> None:
        """Make all recorded starts durable."""
        ...

    async def command_finished(self, session_id: str, request_id: str | None, facts: Facts) -> None:
        """Record an end, and the command as an action of the turn it began in."""
        ...

    async def command_refused(self, session_id: str, facts: Facts, caller: Caller) -> str | None:
        """Record a command that never ran, also as an action of the open turn; return that turn."""
        ...

    async def approval_asked(self, session_id: str, facts: Facts) -> None: ...

    async def approval_decided(self, session_id: str, facts: Facts) -> None: ...

    async def command_input(self, session_id: str, facts: Facts) -> None: ...

    async def check_caller(self, session_id: str, caller: Caller) -> None:
        """Refuse a caller that may not write the session: fenced off, or of another agent while a client holds it."""
        ...

    async def shells(self, since: datetime) -> Sequence[KnownShell]:
        """Return the shells opened since a time, newest first."""
        ...

    async def left(self, now: datetime) -> Sequence[KnownShell]:
        """Return the shells of the last month without a recorded end."""
        ...

    async def undecided(self, session_id: str) -> Sequence[Facts]:
        """Return the questions of a session that no decision followed, oldest first."""
        ...

    async def shell(self, shell_id: str) -> KnownShell | None: ...

    async def command(self, command_id: str) -> KnownCommand | None: ...

    async def knows_run(self, run: str) -> bool:
        """Return True if any shell's id begins with these four digits."""
        ...
