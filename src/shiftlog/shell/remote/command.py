"""One command in a remote shell: its end, its input, and signals to its processes.

The command is over when the shell has reported its end and all its own output has arrived. A leftover child may hold
the channel open; its later output is dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from typing import TYPE_CHECKING

from anyio import CancelScope, move_on_after

from shiftlog.model.shell_errors import CommandNotRunning, StdinClosed
from shiftlog.shell.engine.command import DROP_NUMBER, ENDING, ESCALATION, SIGNAL_NUMBERS
from shiftlog.shell.ports import CommandEnd, CommandSpec, EndedReason, Signal
from shiftlog.shell.remote.channels import DirectChannel
from shiftlog.shell.remote.control import ProcessTable
from shiftlog.shell.remote.pipe_channel import PipeChannel
from shiftlog.shell.remote.programs import waiting

if TYPE_CHECKING:
    from shiftlog.shell.engine.terminal import TerminalScreen
    from shiftlog.shell.remote.shell import RemoteShell

#: If the streams of an ended command are still open after this, a leftover child is assumed to hold them.
HELD_S = 0.02
_PROBE_S = 3.0
_ASK_S = 2.5
_NUDGE_S = 0.25
#: The pauses between the checks on a shell that reports nothing.
_CHECKS_S = (1.5, 1.5, 3.0, 6.0, 15.0)
_AGAIN_S = 0.6


class RemoteCommand:
    """One running command; see `RunningCommand` for what each verb promises."""

    screen: TerminalScreen | None = None

    def __init__(self, shell: RemoteShell, spec: CommandSpec, token: str, channel: PipeChannel | DirectChannel) -> None:
        self.token = token
        self.channel = channel
        self.in_shell = not spec.background
        self.began = False
        self.reported = False
        self.cut_status: int | None = None
        self.copied: asyncio.Future[None] | None = None if self.in_shell else shell.loop.create_future()
        self._shell = shell
        self.root: int | None = None  # the process of a copy
        self.since = time.monotonic()
        self.ended: asyncio.Future[CommandEnd] = shell.loop.create_future()
        self._arrived = asyncio.Event()
        self._end: tuple[int, str] = (0, "")
        self._signal: Signal | None = None
        self._feeding = CancelScope()
        self._input = channel if isinstance(channel, PipeChannel) and channel.feeds else None
        channel.on_end = self._on_streams
        if not self.in_shell:
            shell.copies.add(self)

    # Called by the shell and the channel

    def on_pid(self, pid: int) -> None:
        """Note that the command runs; for a copy, also its process."""
        self.began = True
        if self.copied is not None and not self.copied.done():
            self.root = pid
            self.copied.set_result(None)

    def on_report(self, status: int, cwd: str) -> None:
        """Note the reported end; the last bytes may still arrive."""
        if self.reported:
            return
        self.reported = True
        self._end = (status, cwd)
        if self.channel.arrived:
            self.finish(status, cwd)
        else:
            self._shell.tasks.start_soon(self._finish_late)

    def finish(
        self, exit_code: int | None, cwd: str, shell_ended: EndedReason | None = None, *, lost: bool = False
    ) -> None:
        """Resolve `ended`, once."""
        if self.ended.done():
            return
        self._feeding.cancel()
        if self._input is not None:
            self._input.finish_input()
        if self.copied is not None and not self.copied.done():
            self.copied.set_result(None)
        self.ended.set_result(
            CommandEnd(
                exit_code=exit_code,
                cwd=cwd,
                signal=self._signal,
                lost=lost,
                shell_ended=shell_ended,
                streams_open=frozenset() if lost or shell_ended else self.channel.open_streams,
            )
        )
        self._shell.let_go(self)

    async def outputs_arrived(self, timeout_s: float) -> None:
        """Wait until the command's own output has arrived; output of its children may still follow."""
        with move_on_after(timeout_s):
            if not self.channel.arrived:
                await self._arrived.wait()

    async def watch_silence(self) -> None:
        """Check now and then whether the shell waits for its next line although it owes this command's report.

        The first time, request the report again; the second time, end the shell. While anything else arrives, a slow
        connection may only be holding the report up. How long a command may take is the caller's to limit.
        """
        shell, silences = self._shell, 0
        for pause_s in itertools.chain(_CHECKS_S, itertools.repeat(_CHECKS_S[-1])):
            heard = shell.heard
            await asyncio.wait([self.ended], timeout=_AGAIN_S if silences else pause_s)
            if not shell.owes(self):
                return
            try:
                said = await shell.control.ask(waiting(shell.control.kept.keeper, shell.pid or 0), _ASK_S)
            except (TimeoutError, ConnectionError):
                continue
            is_silent = said.strip() == b"waiting" and (silences > 0 or shell.heard == heard)
            silences = silences + 1 if is_silent else 0
            if silences == 1:
                shell.ask_report(self)
            elif silences > 1 and shell.owes(self):
                await shell.close("killed")

    # Called by the service

    async def feed(self, data: bytes) -> None:
        """Write the command's initial input, followed by end-of-file."""
        with self._feeding, contextlib.suppress(ConnectionError, CommandNotRunning, StdinClosed):
            await self.send(data)
            await self.send_eof()

    async def send(self, data: bytes) -> None:
        await self._open_input().send(data)

    async def send_eof(self) -> None:
        self._open_input().finish_input()
        self._input = None

    async def signal(self, name: Signal) -> None:
        if self.ended.done():
            raise CommandNotRunning("the command is over")
        self._signal = name
        try:
            table = await self._shell.control.table(_ASK_S)
            pids = self._processes(table)
            if self.in_shell and (name == "interrupt" or (name in ENDING and not pids)):
                await self._interrupt_shell(SIGNAL_NUMBERS["interrupt"])
            sent = name if self.in_shell else self._shell.copy_signal(name)
            await self._shell.control.kill(SIGNAL_NUMBERS[sent], pids, _ASK_S)
        except (TimeoutError, ConnectionError):
            self._shell.lose()

    def recorded(self) -> None:
        """Do nothing: no later server takes a remote shell over."""

    async def stop(self) -> CommandEnd:
        """End the command step by step; a shell that does not recover is ended, one that does not answer is lost."""
        answered = False
        for name, patience_s in ESCALATION:
            if self.ended.done():
                break
            self._signal = name
            with contextlib.suppress(TimeoutError, ConnectionError):
                table = await self._shell.control.table(_ASK_S)
                answered = True
                pids = self._processes(table)
                if self.in_shell:
                    await self._interrupt_shell(DROP_NUMBER)
                await self._shell.control.kill(SIGNAL_NUMBERS[name], pids, _ASK_S)
                await self._shell.control.kill(SIGNAL_NUMBERS["continue"], pids, _ASK_S)
            await asyncio.wait([self.ended], timeout=patience_s)
        if not self.ended.done():
            if answered:
                await self._shell.close("unresponsive")
            else:
                self._shell.lose()
        return await asyncio.shield(self.ended)

    # Inside

    def _on_streams(self) -> None:
        if self.channel.arrived:
            self._arrived.set()
            if self.reported and not self.ended.done():
                self.finish(*self._end)
        if self.ended.done() and isinstance(self.channel, PipeChannel) and not self.channel.clean:
            self.channel.leave()

    async def _finish_late(self) -> None:
        """Wait for the last bytes; if a child holds the streams, mark where the command's own output ends."""
        await self.outputs_arrived(HELD_S if isinstance(self.channel, PipeChannel) else _PROBE_S)
        if isinstance(self.channel, PipeChannel) and not self.ended.done() and not self.channel.arrived:
            mark, places = self.channel.probe()
            script = "; ".join(f"printf %s {mark} >{place} &" for place in places).replace("&;", "&")
            with contextlib.suppress(TimeoutError, ConnectionError):
                await self._shell.control.ask(f"{script} wait", _PROBE_S)
                await self.outputs_arrived(_PROBE_S)
        self.finish(*self._end)

    def _open_input(self) -> PipeChannel:
        if self.ended.done():
            raise CommandNotRunning("the command is over")
        if self._input is None:
            raise StdinClosed("the command's standard input is closed")
        return self._input

    async def _interrupt_shell(self, number: int) -> None:
        if self._shell.pid is not None:
            await self._shell.control.kill(self._shell.drop_signal(number), [self._shell.pid], _ASK_S)
            self._shell.nudge_later(self, _NUDGE_S)

    def _processes(self, table: ProcessTable) -> list[int]:
        """Return the processes that this command started; for a copy, the copy too."""
        if not self.in_shell:
            return [] if self.root is None else [one.pid for one in table.family(self.root, self._shell.pid)]
        others, kept = self._shell.other_pids(table), self._shell.control.kept
        session = table.sessions({kept.session}, [kept.keeper])
        return [one.pid for one in session if one.pid not in others and table.started_since(one, self.since)]
