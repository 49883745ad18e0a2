"""Makes the commands of a live bash: their pipes or their terminal, and the lines that start them."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from shiftlog.shell.engine import protocol, terminal, words
from shiftlog.shell.engine.command import EngineCommand
from shiftlog.shell.engine.kept import KeptCommand, KeptPipe, RawMemory
from shiftlog.shell.engine.reaper import ticks_now
from shiftlog.shell.engine.streams import InputPipe, TerminalInput, TerminalOutput
from shiftlog.shell.ports import STREAMS, CommandSpec, OutputSink, Terminal

if TYPE_CHECKING:
    from shiftlog.shell.engine.shell import EngineShell


def make_piped(shell: EngineShell, spec: CommandSpec, sink: OutputSink) -> tuple[EngineCommand, str]:
    """Make a command with pipes, and the line that starts it."""
    kept, number = shell.kept, shell.kept.number
    names = tuple(shell.outputs.take(stream, kept.pipes, number) for stream in STREAMS)
    out, err = (shell.outputs.pipes[name] for name in names)
    out.begin(sink, number)
    err.begin(sink, number)
    command = EngineCommand(shell, _kept_command(shell, spec, names), [("stdout", out), ("stderr", err)])
    stdin = "/dev/null"
    if spec.stdin_open or spec.input is not None:
        path = shell.directory.make(f"i{number}")
        command.kept.files += (path,)
        command.kept.stdin, command.kept.eof = path, spec.input is not None
        command.keyboard = keyboard = InputPipe(shell.directory, command.ended.done, shell.reaper, f"in-{number}")
        keyboard.prepare(path, spec.input or b"")
        stdin = protocol.quote(path)
    due = shell.due.draw(number)
    if spec.background:
        gate = _make_gate(shell, command)
        unit = words.copy_unit(spec.text, _copy_key(shell), gate=gate, stdin=stdin, stdout=out.path, stderr=err.path)
        return command, words.any_line(f"\\builtin . {words.ANY_UNIT}", unit, due)
    if kept.traced:
        if kept.may_trap_exit:
            command.kept.mark = protocol.draw_token()
        unit = protocol.traced_unit(
            spec.text,
            kept.last_status,
            stdin=stdin,
            stdout=out.path,
            stderr=err.path,
            mark=command.kept.mark,
        )
        return command, words.any_line(protocol.source(words.ANY_UNIT, traced=True), unit, due)
    ways = f"{stdin} {out.path} {err.path}"
    new_ways, kept.ways = "" if ways == kept.ways else ways, ways
    text = protocol.whole(spec.text)
    return command, words.line(text, kept.last_status, due, ways=new_ways, careful=kept.careful)


def _kept_command(shell: EngineShell, spec: CommandSpec, pipes: tuple[str, ...]) -> KeptCommand:
    in_shell = not spec.background and spec.terminal is None
    return KeptCommand(shell.kept.number, in_shell, ticks_now() - 1, spec.note, pipes)


def make_terminal(shell: EngineShell, spec: CommandSpec, size: Terminal, sink: OutputSink) -> tuple[EngineCommand, str]:
    """Make a command with a terminal, and the line that starts it."""
    kept, name = shell.kept, f"tty-{shell.kept.number}"
    root = f"/proc/{shell.pid}/root" if kept.own_terminals else ""
    ours, theirs = terminal.open_terminal(size, root)
    kept.pipes[name] = KeptPipe(stream="stdout", path="")
    raw, between = RawMemory(), os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    shell.reaper.keep(**{name: ours, f"raw-{name}": raw.fd, f"in-{name}": between[0], f"out-{name}": between[1]})
    screen = terminal.TerminalScreen(size.cols, size.rows)
    output = TerminalOutput(shell.poll, ours, raw, kept.pipes[name], shell.save, between)
    shell.outputs.add(name, output)
    output.begin(terminal.ScreenSink(screen, sink), kept.number)
    sink.close("stderr")
    command = EngineCommand(shell, _kept_command(shell, spec, (name,)), [("stdout", output)], screen)
    command.kept.terminal = (size.cols, size.rows)
    command.kept.eof = spec.input is not None
    command.keyboard = TerminalInput(ours, command.ended.done)
    command.release = lambda: os.close(theirs)
    python = os.path.realpath(sys.executable)  # a sandbox may show the real one alone
    helper = [python, "-I", "-S", terminal.HELPER, terminal.name_of(ours, theirs, root), kept.bash]
    unit = words.terminal_unit(spec.text, _copy_key(shell), gate=_make_gate(shell, command), helper=helper)
    return command, words.any_line(f"\\builtin . {words.ANY_UNIT}", unit, shell.due.draw(command.number))


def _copy_key(shell: EngineShell) -> int:
    shell.kept.copy_key = words.draw_copy_key()
    return shell.kept.copy_key


def _make_gate(shell: EngineShell, command: EngineCommand) -> str:
    """Make the pipe at which a copy waits until the shell is done with the unit."""
    path = shell.directory.make(f"g{command.number}")
    command.kept.files += (path,)
    shell.kept.gates[command.number] = path
    return protocol.quote(path)
