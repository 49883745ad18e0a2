"""A live bash on this machine: commands go in as lines of its script, reports come back, a reaper reports exits.

Works with pipes, reports and processes. `local.py` starts such a bash, `words.py` has the texts; policies, budgets and
journals do not belong here.

A report counts only if the kernel says that the shell itself wrote it and if it was asked for; where a trap could have
written it, only with a second one. The kernel tells the directory. Anything else that the shell reports ends it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from anyio import move_on_after

from shiftlog.model.shell_errors import ShellEnded
from shiftlog.shell.engine import open_files, protocol, terminal, words
from shiftlog.shell.engine.command import EngineCommand
from shiftlog.shell.engine.place import ShellPlace
from shiftlog.shell.engine.reaper import descends
from shiftlog.shell.engine.script import DueReports, Script
from shiftlog.shell.engine.streams import (
    FreeOutputs,
    InputPipe,
    OutputPipe,
    OutputPoll,
    ShellOutput,
    TerminalInput,
)
from shiftlog.shell.ports import CommandSpec, EndedReason, KillScope, OutputSink, ShellEnd, ShellKind, Stream

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from shiftlog.shell.engine.local import ReaperLink

_READY_S = 2.0
_TRIES = 8
_CLOSE_S = 4.5
_UNCLAIMED_EXITS = 64
_GATE_S = 0.001
_CHECK_S = 0.5
_NUDGE_S = 1.0
_SILENT_S = 3.0
_MOST_ASKED = 100


class EngineShell:
    """One bash in its private directory; see `LiveShell` for what each verb promises."""

    kill_scope: KillScope = "tree"
    kind: ShellKind = "bash"

    def __init__(
        self,
        directory: Path,
        *,
        script: Script,
        outputs: tuple[int, int],
        reaper: ReaperLink,
        bash: str,
        cwd: str,
        careful: bool,
        tasks: TaskGroup,
        on_over: Callable[[], None] | None,
        own_terminals: bool = False,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.tasks = tasks
        self.copies: dict[int, EngineCommand] = {}
        self.startup_output = b""
        self._directory = str(directory)
        self._poll = OutputPoll(self.loop)
        self._ways = ""
        self._outputs = FreeOutputs(self._poll, self._directory)
        self._own_outputs: dict[Stream, ShellOutput] = {
            "stdout": ShellOutput(self._poll, outputs[0]),
            "stderr": ShellOutput(self._poll, outputs[1]),
        }
        self._script = script
        self._reaper = reaper
        self.reaper_pid = reaper.pid  # every process of this shell descends from it
        self._bash = bash
        self.pid: int | None = None
        self._process = ""  # the shell's directory in /proc
        self._place = ShellPlace(cwd)
        self._last_status = 0
        self._careful = careful  # a command may have set traps or TIMEFORMAT
        self._traced = False
        self._may_trap_exit = False
        self._foreground: EngineCommand | None = None
        self._copying: EngineCommand | None = None
        self._commands: dict[int, EngineCommand] = {}
        self._lingering: list[EngineCommand] = []
        self._exits: dict[int, int] = {}
        self._reason: EndedReason | None = None
        self._closing: asyncio.Future[int] | None = None
        self.ended: asyncio.Future[ShellEnd] = self.loop.create_future()
        self._number = 0
        self._due = DueReports()
        self._reported: int | None = None  # the status in the first one of this command
        self._gate: tuple[EngineCommand, str] | None = None
        self._watching: asyncio.TimerHandle | None = None
        self._silent_s = 0.0
        self._shaken = False
        self._ready = asyncio.Event()  # the shell has reported and waits for its next line
        self._starting = asyncio.Lock()  # one command at a time: the script and its reports are shared
        self._on_over = on_over
        self._own_terminals = own_terminals
        script.listen(self._read_reports)
        reaper.listen(self._on_exit, self._on_gone)

    @property
    def cwd(self) -> str:
        """The directory of the shell after its last command."""
        return self._place.path

    async def prepare(self, ready_s: float, kind: ShellKind = "bash") -> None:
        """Send the opening lines and wait until the shell has reported its pid and is ready; `sh` means POSIX mode."""
        self.kind = kind
        self._script.write(words.driver() + (protocol.POSIX_MODE if kind == "sh" else ""))
        self._ask()
        if not await self._hear_ready(ready_s) and not self.ended.done():
            raise TimeoutError

    async def start(self, command: CommandSpec, sink: OutputSink) -> EngineCommand:
        """Start a command; returns once its text is sent, for a copy once the copy runs."""
        async with self._starting:
            await self._until_ready()
            if self.pid is not None and open_files.are_exhausted(self.pid):
                await self.close("killed")
                raise ShellEnded(open_files.TOO_FEW)
            try:
                started = self._start(command, sink)
            except OSError as error:
                await self.close("killed")
                raise ShellEnded("the shell's private directory is gone, so the shell was ended") from error
            if started.copied is not None:
                await asyncio.wait([started.copied])
            return started

    async def close(self, reason: EndedReason = "closed") -> int:
        """End the shell and its whole tree; return how many processes were ended. Repeating it is harmless."""
        closing = self._begin_closing(reason)
        await asyncio.wait([closing], timeout=_CLOSE_S)
        if not closing.done():
            self._reaper.kill()
            self._on_gone(0)
        return await asyncio.shield(closing)

    def _begin_closing(self, reason: EndedReason) -> asyncio.Future[int]:
        """Have the reaper end the tree; the first reason counts."""
        if self._closing is None:
            self._reason = self._reason or reason
            self._closing = self.loop.create_future()
            self._reaper.close()
        return self._closing

    def nudge_later(self, command: EngineCommand, after_s: float) -> None:
        """Request the report again, now and later: an interrupted shell drops the line that it is reading."""

        if not self._shaken:
            self._ask()
        self._shaken = True

        def nudge() -> None:
            if not command.ended.done():
                self._ask()

        self.loop.call_later(after_s, nudge)

    def _start(self, spec: CommandSpec, sink: OutputSink) -> EngineCommand:
        may_trap_exit = self._may_trap_exit or protocol.may_trap_exit(spec.text)
        self._careful = self._careful or may_trap_exit or protocol.may_set_format(spec.text)
        self._number += 1
        number = self._number
        if spec.terminal is not None:
            command, line = self._make_terminal(spec, sink, number)
        else:
            command, line = self._make_piped(spec, sink, number)
        self._commands[number] = command
        if command.in_shell:
            self._foreground = command
            self._watch()
        else:
            self._copying = command
        self._reported = None
        self._ready.clear()
        for output in self._own_outputs.values():
            output.data = b""
        if self._careful:  # what a trap wrote in front of the report is seen before this second one
            line += words.report(self._due.draw(number), careful=False)
        self._script.write(line)
        self._traced = self._traced or protocol.may_trap(spec.text)
        self._may_trap_exit = may_trap_exit
        if command.keyboard is not None:
            self.tasks.start_soon(command.feed, spec.input)
        return command

    def _ask(self) -> None:
        """Request a report; an interrupt may have dropped the line that requested the last one."""
        if self._closing is None and len(self._due) < _MOST_ASKED:
            self._script.write(words.report(self._due.draw(self._number)))

    def _make_piped(self, spec: CommandSpec, sink: OutputSink, number: int) -> tuple[EngineCommand, str]:
        out, err = self._outputs.take("stdout"), self._outputs.take("stderr")
        out.begin(sink)
        err.begin(sink)
        command = EngineCommand(self, spec, number, [("stdout", out), ("stderr", err)])
        stdin = "/dev/null"
        if spec.stdin_open or spec.input is not None:
            path = f"{self._directory}/i{number}"
            os.mkfifo(path, 0o600)
            command.files += (path,)
            command.keyboard = InputPipe(path, command.ended.done)
            stdin = protocol.quote(path)
        due = self._due.draw(number)
        if spec.background:
            gate = self._make_gate(command)
            unit = words.copy_unit(spec.text, gate=gate, stdin=stdin, stdout=out.path, stderr=err.path)
            return command, words.any_line(f"\\builtin . {words.ANY_UNIT}", unit, due)
        if self._traced:
            if self._may_trap_exit:
                command.mark = protocol.draw_token()
            unit = protocol.traced_unit(
                spec.text,
                self._last_status,
                stdin=stdin,
                stdout=out.path,
                stderr=err.path,
                mark=command.mark,
            )
            return command, words.any_line(protocol.source(words.ANY_UNIT, traced=True), unit, due)
        ways = f"{stdin} {out.path} {err.path}"
        new_ways, self._ways = "" if ways == self._ways else ways, ways
        text = protocol.whole(spec.text)
        return command, words.line(text, self._last_status, due, ways=new_ways, careful=self._careful)

    def _make_terminal(self, spec: CommandSpec, sink: OutputSink, number: int) -> tuple[EngineCommand, str]:
        assert spec.terminal is not None
        root = f"/proc/{self.pid}/root" if self._own_terminals else ""
        ours, theirs = terminal.open_terminal(spec.terminal, root)
        screen = terminal.TerminalScreen(spec.terminal.cols, spec.terminal.rows)
        output = OutputPipe(self._poll, ours, "stdout")
        output.begin(terminal.ScreenSink(screen, sink))
        sink.close("stderr")
        command = EngineCommand(self, spec, number, [("stdout", output)], screen)
        command.keyboard = TerminalInput(ours, command.ended.done)
        command.release = lambda: os.close(theirs)
        python = os.path.realpath(sys.executable)  # a sandbox may show the real one alone
        helper = [python, "-I", "-S", terminal.HELPER, terminal.name_of(ours, theirs, root), self._bash]
        unit = words.terminal_unit(spec.text, gate=self._make_gate(command), helper=helper)
        return command, words.any_line(f"\\builtin . {words.ANY_UNIT}", unit, self._due.draw(number))

    def _make_gate(self, command: EngineCommand) -> str:
        """Make the pipe at which a copy waits until the shell is done with the unit."""
        path = f"{self._directory}/g{command.number}"
        os.mkfifo(path, 0o600)
        command.files += (path,)
        self._gate = (command, path)
        return protocol.quote(path)

    def _let_go(self) -> None:
        """Let a new copy begin: the process between is gone, so that only the reaper can collect its status."""
        gate, self._gate = self._gate, None
        if self._copying is not None:
            self._begin_closing("killed")  # the shell never said which process it is
        elif gate is not None:
            copied = gate[0].copied
            if copied is not None and not copied.done():
                copied.set_result(None)
            self._open_gate(*gate)

    def _open_gate(self, command: EngineCommand, path: str) -> None:
        if command.ended.done() or self._closing is not None:
            return
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        except OSError:  # the copy is not there yet
            self.loop.call_later(_GATE_S, self._open_gate, command, path)

    async def _until_ready(self) -> None:
        """Wait until the shell proves that it can run a command; end a shell that does not.

        An interrupted shell must prove it again, so that no late interrupt hits the next command.
        """
        if self._shaken and self._closing is None:
            self._shaken = False
            self._ways = ""  # an interrupt may have dropped the line that named them
            self._ready.clear()
            self._number, self._reported = self._number + 1, None
            self._ask()
        for _ in range(_TRIES):
            if self._closing is not None or await self._hear_ready(_READY_S / _TRIES):
                break
            self._ask()
        if self._closing is None and not self._ready.is_set():
            await self.close("killed")
        if self._closing is not None:
            raise ShellEnded("the shell has ended")

    async def _hear_ready(self, patience_s: float) -> bool:
        if not self._ready.is_set():
            with move_on_after(patience_s):
                await self._ready.wait()
        return self._ready.is_set()

    def _read_reports(self) -> None:
        self._take_reports()
        status = self._reported
        if status is None or (self._careful and self._due) or self._closing is not None or self._ready.is_set():
            return
        self._ready.set()
        self._on_end(status)

    def _take_reports(self) -> bool:
        """Take the next reports; return False if there are none now."""
        reports = self._script.read()
        for pid, value in reports:
            if not self._process:
                self._meet(pid)
            if pid == self.pid:
                self._take_report(value)
            elif self._copying is not None and self._is_new_copy(value):
                self._take_copy(self._copying, value)
        return bool(reports)

    def _meet(self, pid: int) -> None:
        """Note the shell's own process: it reports before it has run any command."""
        self.pid, self._process = pid, f"/proc/{pid}"
        self._place.follow(pid)

    def _take_report(self, value: int) -> None:
        asked_for, status = self._due.take(value)
        if asked_for is None:
            self._begin_closing("killed")  # its reports can no longer be trusted
        elif self._reported is None and asked_for == self._number:
            self._reported = status

    def _watch(self) -> None:
        """Check now and then whether the shell waits for its next line although a report is missing."""
        self._silent_s = 0.0
        if self._watching is None:
            self._watching = self.loop.call_later(_CHECK_S, self._check)

    def _check(self) -> None:
        self._watching = None
        if self._foreground is None or self._closing is not None:
            return
        before, self._silent_s = self._silent_s, self._silent_s + _CHECK_S if self._awaits_line() else 0.0
        if before < _NUDGE_S <= self._silent_s:  # an interrupt may have dropped the line that requests the report
            self._ask()
        elif self._silent_s >= _SILENT_S:
            self._begin_closing("killed")
        self._watching = self.loop.call_later(_CHECK_S, self._check)

    def _awaits_line(self) -> bool:
        """Return True if the shell sleeps at its script, as it never does while it runs a command.

        A shell that waits for a processor or was stopped has only not reached the next line yet.
        """
        return self._script.is_input_of(self._process)

    def _is_new_copy(self, pid: int) -> bool:
        return pid not in (self.pid, self._reaper.child, *self.copies) and (
            pid in self._exits or descends(pid, self.reaper_pid)
        )

    def _take_copy(self, command: EngineCommand, pid: int) -> None:
        self._copying = None
        command.root = pid
        self.copies[pid] = command
        if pid in self._exits:
            self._on_exit(pid, self._exits.pop(pid))

    def _on_end(self, status: int) -> None:
        self._place.look()
        command, self._foreground = self._foreground, None
        if command is None:
            self._let_go()
            return
        self._last_status = status
        if command.sent_signal is not None or self._began(command):
            self._finish(command, status)
        else:
            self._foreground = command
            self._begin_closing("killed")

    def _began(self, command: EngineCommand) -> bool:
        """Return True if the shell ran the unit: then it has opened the command's outputs."""
        if not command.touched:
            self._poll.pump()
        if not command.touched:
            command.probe()
        return command.touched

    def _finish(self, command: EngineCommand, status: int | None) -> None:
        del self._commands[command.number]
        trapped: dict[str, bytes] = {}
        if self._reason == "exited" and self._may_trap_exit:
            folder = os.fsencode(self._directory)
            for stream, output in self._own_outputs.items():
                trapped[stream] = protocol.exit_output(output.read(), folder, command.mark)
        command.finish(status, self.cwd, self._reason, **trapped)
        for path in command.files:
            Path(path).unlink(missing_ok=True)
        if command.lingers:
            self._lingering = [one for one in self._lingering if one.lingers]
            self._lingering.append(command)

    def _on_exit(self, pid: int, status: int) -> None:
        if pid == self._reaper.child:
            while self._take_reports():
                pass
            self._on_shell_exit(os.waitstatus_to_exitcode(status))
        elif pid in self.copies:
            self._finish(self.copies.pop(pid), _exit_code(os.waitstatus_to_exitcode(status)))
        else:
            self._exits[pid] = status
            if len(self._exits) > _UNCLAIMED_EXITS:
                del self._exits[next(iter(self._exits))]

    def _on_shell_exit(self, code: int) -> None:
        """The shell process has exited: finish its command, and have the reaper end what it left behind."""
        requested = self._reason is not None
        self._reason = self._reason or ("killed" if code < 0 else "exited")
        command, self._foreground = self._foreground, None
        if command is not None:
            began = self._began(command)
            self._finish(command, _exit_code(code) if began and not requested else None)
        if not self.ended.done():
            self.ended.set_result(ShellEnd(reason=self._reason, exit_code=_exit_code(code)))
        self._begin_closing(self._reason)

    def _on_gone(self, count: int) -> None:
        """The reaper and its whole tree are gone: finish all commands and release everything."""
        self._reason = self._reason or "killed"
        if self._closing is None:
            self._closing = self.loop.create_future()
        if self._closing.done():
            return
        for command in list(self._commands.values()):
            self._finish(command, None)
        for command in self._lingering:
            command.close_outputs()
        if not self.ended.done():
            self.ended.set_result(ShellEnd(reason=self._reason, exit_code=None))
        if self._watching is not None:
            self._watching.cancel()
        for pipe in (self._outputs, *self._own_outputs.values()):
            pipe.close()
        self._poll.close()
        self._script.close()
        shutil.rmtree(self._directory, ignore_errors=True)
        self._closing.set_result(count)
        if self._on_over is not None:
            self._on_over()


def _exit_code(code: int) -> int:
    return 128 - code if code < 0 else code
