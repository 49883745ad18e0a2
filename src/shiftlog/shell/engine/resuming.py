"""Takes the commands of a held shell over: their outputs, their input, and the ends that were not recorded."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

from shiftlog.shell.engine import terminal
from shiftlog.shell.engine.command import EngineCommand
from shiftlog.shell.engine.kept import KeptCommand, RawMemory
from shiftlog.shell.engine.streams import InputPipe, OutputPipe, TerminalInput, TerminalOutput
from shiftlog.shell.ports import CommandEnd

if TYPE_CHECKING:
    from collections.abc import Callable

    from shiftlog.shell.engine.holders import ClaimedShell
    from shiftlog.shell.engine.shell import EngineShell
    from shiftlog.shell.ports import OutputSink


def resume_commands(
    shell: EngineShell, claimed: ClaimedShell, sinks: Callable[[KeptCommand], OutputSink | None]
) -> None:
    """Make the pipes and the commands of a shell anew; nothing is read before all of them are there."""
    for name, kept in list(shell.kept.pipes.items()):
        fd, raw = claimed.descriptors.pop(name, -1), claimed.descriptors.pop(f"raw-{name}", -1)
        if fd < 0 or raw < 0:
            del shell.kept.pipes[name]
            continue
        if kept.path:
            pipe = OutputPipe(shell.poll, fd, RawMemory(raw), kept, shell.save)
        else:
            between = (claimed.descriptors.pop(f"in-{name}"), claimed.descriptors.pop(f"out-{name}"))
            pipe = TerminalOutput(shell.poll, fd, RawMemory(raw), kept, shell.save, between)
        shell.outputs.add(name, pipe)
    for kept in list(shell.kept.commands.values()):
        sink = sinks(kept)
        if sink is None:
            del shell.kept.commands[kept.number]
        else:
            _resume(shell, claimed, kept, sink)


def _resume(shell: EngineShell, claimed: ClaimedShell, kept: KeptCommand, sink: OutputSink) -> None:
    pipes = [shell.outputs.pipes[name] for name in kept.pipes if name in shell.outputs.pipes]
    own = [pipe for pipe in pipes if pipe.kept.command == kept.number]
    screen = None
    if kept.terminal is not None:
        screen = terminal.TerminalScreen(*kept.terminal)
        sink = terminal.ScreenSink(screen, sink)
        sink.close("stderr")
    command = EngineCommand(shell, kept, [(pipe.kept.stream, pipe) for pipe in own], screen)
    if command.copied is not None and kept.number != shell.kept.copying and kept.number not in shell.kept.gates:
        command.copied.set_result(None)
    for pipe in own:
        pipe.resume(sink)
    if kept.end is not None:
        end = kept.end
        command.ended.set_result(
            CommandEnd(
                exit_code=end.exit_code,
                cwd=os.fsdecode(end.cwd),
                signal=kept.sent_signal,
                shell_ended=end.shell_ended,
                streams_open=frozenset(end.streams_open),
            )
        )
        if command.lingers:
            shell.linger(command)
        shell.resumed[kept.number] = command
        return
    shell.adopt(command)
    shell.resumed[kept.number] = command
    if kept.terminal is not None:
        command.keyboard = TerminalInput(own[0].fileno, command.ended.done)
        with suppress(OSError):  # a full-screen program draws its screen again
            os.killpg(os.tcgetpgrp(own[0].fileno), signal.SIGWINCH)
    elif kept.stdin and f"in-{kept.number}" in claimed.descriptors:
        name = f"in-{kept.number}"
        keyboard = InputPipe(shell.directory, command.ended.done, shell.reaper, name)
        keyboard.adopt(claimed.descriptors.pop(name), claimed.descriptors.pop(f"pending-{name}"))
        command.keyboard = keyboard
        shell.tasks.start_soon(command.feed)
