"""One command that the engine runs: its end, its input, and signals to its processes.

A foreground command runs in the shell process itself; a copy (background, terminal) is a process of its own. The shell
calls `finish` when it learns how either ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal as signals
from typing import TYPE_CHECKING, Final

from anyio import CancelScope

from shiftlog.model.shell_errors import CommandNotRunning, StdinClosed
from shiftlog.shell.engine.kept import KeptCommand, KeptEnd
from shiftlog.shell.engine.reaper import Process, below, process_table, send, ticks_now
from shiftlog.shell.ports import CommandEnd, EndedReason, Signal, Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shiftlog.shell.engine.shell import EngineShell
    from shiftlog.shell.engine.streams import InputPipe, OutputPipe, TerminalInput
    from shiftlog.shell.engine.terminal import TerminalScreen

SIGNAL_NUMBERS: Final[dict[Signal, signals.Signals]] = {
    "interrupt": signals.SIGINT,
    "terminate": signals.SIGTERM,
    "kill": signals.SIGKILL,
    "hangup": signals.SIGHUP,
    "quit": signals.SIGQUIT,
    "stop": signals.SIGSTOP,
    "continue": signals.SIGCONT,
    "usr1": signals.SIGUSR1,
    "usr2": signals.SIGUSR2,
}
#: The signal that a shell traps to drop its foreground command, see `protocol.DROP_SIGNAL`.
DROP_NUMBER = signals.SIGRTMAX - 3
ESCALATION: tuple[tuple[Signal, float], ...] = (("interrupt", 2.0), ("terminate", 2.0), ("kill", 0.5))
_NUDGE_S = 0.1
_RESCAN_S = 0.02
_SCAN_TICKS = 2
_YOUNG_TICKS = 3
ENDING: frozenset[Signal] = frozenset({"interrupt", "terminate", "kill", "hangup", "quit"})


class EngineCommand:
    """One running command; see `RunningCommand` for what each verb promises."""

    def __init__(
        self,
        shell: EngineShell,
        kept: KeptCommand,
        outputs: Sequence[tuple[Stream, OutputPipe]],
        screen: TerminalScreen | None = None,
    ) -> None:
        self.number = kept.number
        self.kept = kept
        self.in_shell = kept.in_shell  # the shell process itself runs it
        self.screen = screen
        self.keyboard: InputPipe | TerminalInput | None = None
        self.release: Callable[[], None] | None = None
        self.on_copy: Callable[[int], None] | None = None
        self.copied: asyncio.Future[None] | None = None if self.in_shell else shell.loop.create_future()
        self._shell = shell
        self.ended: asyncio.Future[CommandEnd] = shell.loop.create_future()
        self._outputs = outputs
        self._feeding = CancelScope()

    @property
    def root(self) -> int | None:
        """The process of the copy of the shell that runs the command."""
        return self.kept.root

    @property
    def sent_signal(self) -> Signal | None:
        """The last signal that was sent to it."""
        return self.kept.sent_signal

    @property
    def lingers(self) -> bool:
        """True if a leftover process still holds one of the outputs."""
        return any(pipe.held for _, pipe in self._outputs)

    @property
    def touched(self) -> bool:
        """True if one of the outputs was ever opened."""
        return any(pipe.touched for _, pipe in self._outputs)

    def probe(self) -> None:
        """Check whether a process has one of the outputs open."""
        for _, pipe in self._outputs:
            pipe.probe()

    async def feed(self, typed: bytes | None = None) -> None:
        """Open the input; write what a pipe keeps or a terminal is given, then end-of-file if that was asked for."""
        with self._feeding, contextlib.suppress(CommandNotRunning, StdinClosed):
            keyboard = self._input()
            await keyboard.open()
            await keyboard.send(typed or b"")
            if self.kept.eof:
                await keyboard.finish()

    async def send(self, data: bytes) -> None:
        await self._input().send(data)

    async def send_eof(self) -> None:
        self.kept.eof = self.kept.terminal is None
        self._shell.save()
        await self._input().finish()

    def recorded(self) -> None:
        """Forget the command: its end is in the journal, so no later server need know of it."""
        self._shell.forget(self.number)

    async def signal(self, name: Signal) -> None:
        if self.ended.done():
            raise CommandNotRunning("the command is over")
        self.kept.sent_signal = name
        processes = self._processes()
        if self.in_shell and (name == "interrupt" or (name in ENDING and not processes)):
            self._interrupt_shell(signals.SIGINT)
        reached = self._deliver(name, processes)
        newest = ticks_now() + _SCAN_TICKS
        self._shell.loop.call_later(_RESCAN_S, self._deliver_late, name, reached, newest)

    async def stop(self) -> CommandEnd:
        """End the command step by step; a shell that does not recover is ended as `unresponsive`."""
        for name, patience_s in ESCALATION:
            if self.ended.done():
                break
            self.kept.sent_signal = name
            await self._press(name, patience_s)
        if not self.ended.done():
            await self._shell.close("unresponsive")
        return await asyncio.shield(self.ended)

    def finish(
        self,
        exit_code: int | None,
        cwd: str,
        shell_ended: EndedReason | None = None,
        *,
        lost: bool = False,
        **exit_output: bytes,
    ) -> None:
        """Read the rest of the pipes and resolve `ended`; outputs that children hold stay open."""
        if self.ended.done():
            return
        if self.release is not None:
            self.release()
        still_open: frozenset[Stream] = frozenset(
            stream for stream, pipe in self._outputs if pipe.drain(exit_output.get(stream, b""))
        )
        self._feeding.cancel()
        if self.keyboard is not None:
            self.keyboard.close()
        if self.copied is not None and not self.copied.done():
            self.copied.set_result(None)
        self.kept.end = KeptEnd(exit_code, os.fsencode(cwd), shell_ended, tuple(still_open))
        self.ended.set_result(
            CommandEnd(
                exit_code=exit_code,
                cwd=cwd,
                signal=self.sent_signal,
                lost=lost,
                shell_ended=shell_ended,
                streams_open=still_open,
            )
        )

    def close_outputs(self) -> None:
        """Close the open outputs of a shell whose whole tree is gone."""
        for _, pipe in self._outputs:
            if pipe.held:
                pipe.drain()
                pipe.close()

    def _input(self) -> InputPipe | TerminalInput:
        if self.ended.done():
            raise CommandNotRunning("the command is over")
        if self.keyboard is None:
            raise StdinClosed("the command was started with a closed standard input")
        return self.keyboard

    def _processes(self) -> list[Process]:
        """Return the processes that this command started; for a copy, the copy too."""
        tree = below(self._shell.reaper_pid, process_table())
        if not self.in_shell:
            return [] if self.root is None else _family(self.root, tree)
        others = {process.pid for root in self._shell.copies for process in _family(root, tree)}
        own = (process for process in tree if process.pid not in others and process.pid != self._shell.pid)
        return [process for process in own if process.started >= self.kept.since]

    def _interrupt_shell(self, number: int) -> None:
        if self._shell.pid is not None:
            send(self._shell.pid, number)
            self._shell.nudge_later(self, _NUDGE_S)

    async def _press(self, name: Signal, patience_s: float) -> None:
        """Send one signal to every process of the command, also to new ones, until it ends.

        The shell is signalled first, and again while there are new processes or none: a command that had not begun at
        the first signal must not go on with its next part.
        """
        reached: set[int] = set()
        deadline = self._shell.loop.time() + patience_s
        pause_s = 0.02
        while not self.ended.done() and (left_s := deadline - self._shell.loop.time()) > 0:
            processes = self._processes()
            late = [process for process in processes if process.pid not in reached]
            if self.in_shell and (late or not processes):
                self._interrupt_shell(DROP_NUMBER)
            reached |= self._deliver(name, late, wake=True)
            await asyncio.wait([self.ended], timeout=min(pause_s, left_s))
            pause_s = min(pause_s * 2, 0.25)

    def _deliver(self, name: Signal, processes: list[Process], *, wake: bool = False) -> set[int]:
        """Send a signal; a copy's own group gets it at once, so that no new child escapes it.

        Return the processes that certainly took it: one just forked may lose it on its way to becoming a program.
        """
        number = SIGNAL_NUMBERS[name]
        grouped = {one.pid for one in processes if one.group == self.root} if self.root is not None else set[int]()
        if grouped and self.root is not None:
            send(-self.root, number)
        for process in processes:
            if process.pid not in grouped:
                send(process.pid, number)
            if wake:
                send(process.pid, signals.SIGCONT)
        young = ticks_now() - _YOUNG_TICKS
        return {process.pid for process in processes if process.started < young}

    def _deliver_late(self, name: Signal, reached: set[int], newest: int) -> None:
        """Signal the children that were being started while the process table was read."""
        if not self.ended.done():
            late = [one for one in self._processes() if one.pid not in reached and one.started <= newest]
            self._deliver(name, late)


def _family(root: int, tree: list[Process]) -> list[Process]:
    """Return a process, its descendants, and other processes in its group or session."""
    table = {process.pid: process for process in tree}
    kin = {process.pid for process in below(root, table)}
    return [one for one in tree if one.pid == root or one.pid in kin or root in (one.group, one.session)]
