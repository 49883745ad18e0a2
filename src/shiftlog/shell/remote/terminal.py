"""A command on a terminal of its own, over a wire with a terminal.

It gets only the shell's directory and exported variables; stdout and stderr are one stream, as on any terminal.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from anyio import CancelScope

from shiftlog.model.shell_errors import CommandNotRunning, ShellLost
from shiftlog.shell.engine import protocol
from shiftlog.shell.engine.command import ESCALATION, SIGNAL_NUMBERS
from shiftlog.shell.engine.terminal import ScreenSink, TerminalScreen, end_of_file
from shiftlog.shell.ports import CommandEnd, CommandSpec, EndedReason, OutputSink, Signal, Stream
from shiftlog.shell.remote.ports import Wire, WireEnd

if TYPE_CHECKING:
    from shiftlog.shell.remote.shell import RemoteShell

_ASK_S = 2.5
_TAKEN_S = 2.0
_BEFORE_BYTES = 64 * 1024


class RemoteTerminal:
    """One command with a terminal; see `RunningCommand` for what each verb promises."""

    root: int | None = None

    def __init__(self, shell: RemoteShell, spec: CommandSpec, sink: OutputSink, *, pid_file: str, mark: str) -> None:
        self.pid: int | None = None
        self._shell = shell
        self._spec = spec
        self.screen = TerminalScreen(spec.terminal.cols, spec.terminal.rows) if spec.terminal is not None else None
        self._sink = sink if self.screen is None else ScreenSink(self.screen, sink)
        self._pid_file = pid_file
        self._mark = mark.encode()
        self._before = b""  # bytes before the mark
        self._taken = asyncio.Event()  # the program has the terminal
        self._wire: Wire | None = None
        self._signal: Signal | None = None
        self._typed_last = b""
        self._feeding = CancelScope()
        self.ended: asyncio.Future[CommandEnd] = shell.loop.create_future()

    async def open(self, script: str) -> None:
        """Start the program on the terminal, and type the command's initial input."""
        self._sink.close("stderr")
        self._wire = await self._shell.host.open_wire(self, script=script, terminal=self._spec.terminal)
        if self._spec.input is not None:
            self._shell.tasks.start_soon(self._feed, self._spec.input)

    async def send(self, data: bytes) -> None:
        """Type the bytes once the program has the terminal; an earlier control character would signal nothing."""
        self._typed_last = data or self._typed_last
        self._typed()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._taken.wait(), _TAKEN_S)
        await self._typed().send(data)

    async def send_eof(self) -> None:
        await self.send(end_of_file(self._typed_last))

    async def signal(self, name: Signal) -> None:
        """Signal everything in the terminal's session."""
        self._typed()
        self._signal = name
        try:
            await self._send_signal(name)
        except (TimeoutError, ConnectionError):
            self._shell.lose()
            raise ShellLost("the connection of the shell was lost") from None

    def recorded(self) -> None:
        """Do nothing: no later server takes a remote shell over."""

    async def stop(self) -> CommandEnd:
        for name, patience_s in ESCALATION:
            if self.ended.done():
                break
            self._signal = name
            with contextlib.suppress(TimeoutError, ConnectionError):
                await self._send_signal(name)
                await self._send_signal("continue")
            await asyncio.wait([self.ended], timeout=patience_s)
        if not self.ended.done() and self._wire is not None:
            self._wire.close()
            self.finish(None, self._shell.cwd)
        return await asyncio.shield(self.ended)

    def received(self, stream: Stream, data: bytes) -> None:
        """Take the terminal's output as stdout, without the login messages before the program's mark."""
        if self.ended.done():
            return
        if not self._taken.is_set():
            self._before = self._before[-_BEFORE_BYTES:] + data
            _, mark, data = self._before.partition(self._mark)
            if not mark:
                return
            self._taken.set()
        if data:
            self._sink.write("stdout", data)

    def finished(self, end: WireEnd) -> None:
        """End the command with its wire."""
        self.finish(end.exit_code, self._shell.cwd, lost=end.lost)

    def finish(
        self, exit_code: int | None, cwd: str, shell_ended: EndedReason | None = None, *, lost: bool = False
    ) -> None:
        """Resolve `ended`, once."""
        if not self.ended.done():
            self._feeding.cancel()
            if not self._taken.is_set() and self._before:
                self._sink.write("stdout", self._before)
            self._taken.set()
            self._sink.close("stdout")
            self.ended.set_result(
                CommandEnd(exit_code=exit_code, cwd=cwd, signal=self._signal, lost=lost, shell_ended=shell_ended)
            )
            self._shell.terminals.discard(self)

    async def _feed(self, data: bytes) -> None:
        with self._feeding, contextlib.suppress(CommandNotRunning, ConnectionError):
            await self.send(data)
            await self.send_eof()

    async def _send_signal(self, name: Signal) -> None:
        if self.pid is None:
            reply = await self._shell.control.ask(f"cat {protocol.quote(self._pid_file)} 2>/dev/null", _ASK_S)
            if not reply.strip().isdigit():
                return
            self.pid = int(reply)
        table = await self._shell.control.table(_ASK_S)
        pids = [one.pid for one in table.sessions({self.pid}, [self.pid])]
        await self._shell.control.kill(SIGNAL_NUMBERS[name], pids, _ASK_S)

    def _typed(self) -> Wire:
        if self.ended.done() or self._wire is None:
            raise CommandNotRunning("the command is over")
        return self._wire
