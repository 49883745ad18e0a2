"""What the parts of the shell room ask of each other.

A `Target` opens `LiveShell`s, a live shell starts `RunningCommand`s, and a command writes its bytes into an
`OutputSink`. The engine knows nothing of journals, budgets or policies; the service that does knows nothing of pipes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from asyncio import Future

Stream = Literal["stdout", "stderr"]
Transport = Literal["local", "ssh", "docker"]
ShellKind = Literal["bash", "sh"]
KillScope = Literal["tree", "group"]
Signal = Literal["interrupt", "terminate", "kill", "hangup", "quit", "stop", "continue", "usr1", "usr2"]
EndedReason = Literal["exited", "killed", "closed", "idle", "unresponsive", "server_stopped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellSpec:
    """How a shell is to be started; every value is already checked against the operator's rules."""

    shell: Literal["auto", "bash", "sh"] = "auto"
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    login: bool = False
    ready_s: float = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """The size of a terminal that a command asked for."""

    cols: int = 120
    rows: int = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSpec:
    """One command as the engine runs it; `terminal` and `background` run in a copy of the shell."""

    text: str
    stdin_open: bool = False
    input: bytes | None = None
    background: bool = False
    terminal: Terminal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEnd:
    """How a command ended. `lost` means that nobody can know: the connection or the shell's host went away."""

    exit_code: int | None
    cwd: str
    signal: Signal | None = None
    lost: bool = False
    shell_ended: EndedReason | None = None
    streams_open: frozenset[Stream] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellEnd:
    """How a shell ended; `lost` for a connection that went away."""

    reason: EndedReason
    exit_code: int | None
    lost: bool = False


class OutputSink(Protocol):
    """Takes a command's bytes as they come; called on the event loop, never blocks for long."""

    def write(self, stream: Stream, data: bytes) -> None:
        """Take the next bytes of a stream."""
        ...

    def close(self, stream: Stream) -> None:
        """Learn that no more bytes of this stream can come (a left-over child may delay it past the command's end)."""
        ...


class RunningCommand(Protocol):
    """A command that was started; `ended` resolves once, when the shell has finished it."""

    @property
    def ended(self) -> Future[CommandEnd]: ...

    async def send(self, data: bytes) -> None:
        """Write to the command's standard input; raises `StdinClosed` when it has none."""
        ...

    async def send_eof(self) -> None:
        """Close the command's standard input (on a terminal: type the end-of-file character)."""
        ...

    async def signal(self, name: Signal) -> None:
        """Signal the command's processes, never the shell itself (work inside the shell is interrupted)."""
        ...

    async def stop(self) -> CommandEnd:
        """End the command: interrupt, then terminate, then kill, two seconds apart; the shell survives if it can."""
        ...


class LiveShell(Protocol):
    """A started shell. `ended` resolves once, whoever ended it."""

    @property
    def kind(self) -> ShellKind: ...

    @property
    def cwd(self) -> str: ...

    @property
    def pid(self) -> int | None: ...

    @property
    def startup_output(self) -> bytes: ...

    @property
    def kill_scope(self) -> KillScope: ...

    @property
    def ended(self) -> Future[ShellEnd]: ...

    async def start(self, command: CommandSpec, sink: OutputSink) -> RunningCommand:
        """Start a command; the caller sees to it that one foreground command runs at a time."""
        ...

    async def close(self, reason: EndedReason = "closed") -> int:
        """End the shell and its whole tree; say how many processes were ended."""
        ...


class Target(Protocol):
    """A place where shells live: this machine, a host over ssh, a container."""

    async def open(self, spec: ShellSpec) -> LiveShell:
        """Start a shell; raises `OpenFailed` and its like with the reason."""
        ...
