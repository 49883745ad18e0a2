"""A live bash on this machine: commands go in as units, reports come back on their own pipe, a reaper reports exits.

Works with pipes, tokens and processes. `local.py` starts such a bash, `protocol.py` has the texts; policies, budgets
and journals do not belong here.
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
from shiftlog.shell.engine import protocol, terminal
from shiftlog.shell.engine.command import EngineCommand
from shiftlog.shell.engine.streams import InputPipe, OutputPipe, OutputPoll, ShellOutput, TerminalInput
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
_SHORT_UNIT = 64 * 1024


class EngineShell:
    """One bash in its private directory; see `LiveShell` for what each verb promises."""

    kill_scope: KillScope = "tree"
    kind: ShellKind = "bash"

    def __init__(
        self,
        directory: Path,
        *,
        script: int,
        reply: int,
        outputs: tuple[int, int],
        reaper: ReaperLink,
        bash: str,
        tasks: TaskGroup,
        on_over: Callable[[], None] | None,
        own_terminals: bool = False,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.tasks = tasks
        self.copies: dict[int, EngineCommand] = {}
        self.startup_output = b""
        self._directory = str(directory)
        self._unit = protocol.quote(f"{self._directory}/u")
        self._unit_file = os.open(f"{self._directory}/u", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._poll = OutputPoll(self.loop)
        self._last_unit = b""
        self._outputs: dict[Stream, OutputPipe] = {}
        self._own_outputs: dict[Stream, ShellOutput] = {
            "stdout": ShellOutput(self._poll, outputs[0]),
            "stderr": ShellOutput(self._poll, outputs[1]),
        }
        self._script = script
        self._reply = reply
        self._reports = protocol.ReportReader()
        self._reaper = reaper
        self.reaper_pid = reaper.pid  # every process of this shell descends from it
        self._bash = bash
        self.pid: int | None = None
        self.cwd = "/"
        self._last_status = 0
        self._traced = False
        self._may_trap_exit = False
        self._foreground: EngineCommand | None = None
        self._commands: dict[str, EngineCommand] = {}
        self._lingering: list[EngineCommand] = []
        self._exits: dict[int, int] = {}
        self._reason: EndedReason | None = None
        self._closing: asyncio.Future[int] | None = None
        self.ended: asyncio.Future[ShellEnd] = self.loop.create_future()
        self._token = protocol.draw_token()
        self._gate: tuple[EngineCommand, str] | None = None
        self._watching: asyncio.TimerHandle | None = None
        self._silent_s = 0.0
        self._shaken = False
        self._ready = asyncio.Event()  # the shell has reported and waits for its next line
        self._starting = asyncio.Lock()  # one unit at a time: the unit's file and the script are shared
        self._on_over = on_over
        self._own_terminals = own_terminals
        self.loop.add_reader(reply, self._read_reports)
        reaper.listen(self._on_exit, self._on_gone)

    async def prepare(self, ready_s: float, kind: ShellKind = "bash") -> None:
        """Send the opening lines and wait until the shell has reported its pid and is ready; `sh` means POSIX mode."""
        self.kind = kind
        reply, script = (protocol.quote(f"{self._directory}/{name}") for name in ("reply", "script"))
        mode = protocol.POSIX_MODE if kind == "sh" else ""
        self._write(
            protocol.driver(reply, script) + mode + protocol.hello(self._token) + protocol.closing_lines(self._token)
        )
        if not await self._hear_ready(ready_s) and not self.ended.done():
            raise TimeoutError

    async def start(self, command: CommandSpec, sink: OutputSink) -> EngineCommand:
        """Start a command; returns once its text is sent, for a copy once the copy runs."""
        async with self._starting:
            await self._until_ready()
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
        """Request the report again later: an interrupted shell may have dropped the line that it was reading."""

        self._shaken = True

        def nudge() -> None:
            if not command.ended.done() and self._closing is None:
                self._write(protocol.closing_lines(command.token))

        self.loop.call_later(after_s, nudge)

    def _start(self, spec: CommandSpec, sink: OutputSink) -> EngineCommand:
        token = protocol.draw_token()
        if spec.terminal is not None:
            command, text = self._make_terminal(spec, sink, token)
        else:
            command, text = self._make_piped(spec, sink, token)
        self._write_unit(text)
        self._commands[token] = command
        if command.in_shell:
            self._foreground = command
            self._watch()
        self._token = token
        self._ready.clear()
        for output in self._own_outputs.values():
            output.data = b""
        traced = self._traced and command.in_shell
        self._write(protocol.lines(self._unit, token, self._last_status, traced=traced))
        self._traced = self._traced or protocol.may_trap(spec.text)
        self._may_trap_exit = self._may_trap_exit or protocol.may_trap_exit(spec.text)
        if command.keyboard is not None:
            self.tasks.start_soon(command.feed, spec.input)
        return command

    def _write_unit(self, text: str) -> None:
        data = text.encode()
        if data == self._last_unit:
            return
        if len(data) != len(self._last_unit):
            os.ftruncate(self._unit_file, 0)
        written = os.pwrite(self._unit_file, data, 0)
        while written < len(data):
            written += os.pwrite(self._unit_file, data[written:], written)
        self._last_unit = data if len(data) < _SHORT_UNIT else b""

    def _make_piped(self, spec: CommandSpec, sink: OutputSink, token: str) -> tuple[EngineCommand, str]:
        out, err = self._output("stdout"), self._output("stderr")
        out.begin(sink)
        err.begin(sink)
        command = EngineCommand(self, spec, token, [("stdout", out), ("stderr", err)])
        stdin = "/dev/null"
        if spec.stdin_open or spec.input is not None:
            path = f"{self._directory}/i{token}"
            os.mkfifo(path, 0o600)
            command.files += (path,)
            command.keyboard = InputPipe(path, command.ended.done)
            stdin = protocol.quote(path)
        if spec.background:
            gate = self._make_gate(command)
            return command, protocol.copy_unit(
                spec.text, token, gate=gate, stdin=stdin, stdout=out.path, stderr=err.path
            )
        if self._traced:
            mark = token if self._may_trap_exit else ""
            return command, protocol.traced_unit(
                spec.text, self._last_status, stdin=stdin, stdout=out.path, stderr=err.path, mark=mark
            )
        return command, protocol.unit(spec.text, stdin=stdin, stdout=out.path, stderr=err.path)

    def _output(self, stream: Stream) -> OutputPipe:
        """Return a free pipe: the last command's, or a new one if a leftover child still holds that."""
        pipe = self._outputs.get(stream)
        if pipe is None or pipe.held or pipe.closed:
            path = f"{self._directory}/{stream}-{protocol.draw_token()}"
            os.mkfifo(path, 0o600)
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            pipe = self._outputs[stream] = OutputPipe(self._poll, fd, stream, protocol.quote(path))
        return pipe

    def _make_terminal(self, spec: CommandSpec, sink: OutputSink, token: str) -> tuple[EngineCommand, str]:
        assert spec.terminal is not None
        root = f"/proc/{self.pid}/root" if self._own_terminals else ""
        ours, theirs = terminal.open_terminal(spec.terminal, root)
        screen = terminal.TerminalScreen(spec.terminal.cols, spec.terminal.rows)
        state, script = (f"{self._directory}/{letter}{token}" for letter in "st")
        text = f"\\builtin set --\n\\builtin eval {protocol.quote(protocol.whole(spec.text))}\n"
        with os.fdopen(os.open(script, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(text.encode(errors="surrogateescape"))
        output = OutputPipe(self._poll, ours, "stdout")
        output.begin(terminal.ScreenSink(screen, sink))
        sink.close("stderr")
        command = EngineCommand(self, spec, token, [("stdout", output)], screen)
        command.files += (state, script)
        command.keyboard = TerminalInput(ours, command.ended.done)
        command.release = lambda: os.close(theirs)
        python = os.path.realpath(sys.executable)  # a sandbox may show the real one alone
        helper = [python, "-I", "-S", terminal.HELPER, terminal.name_of(ours, theirs, root), self._bash, state, script]
        gate = self._make_gate(command)
        return command, protocol.terminal_unit(token, gate=gate, state=protocol.quote(state), helper=helper)

    def _make_gate(self, command: EngineCommand) -> str:
        """Make the pipe at which a copy waits until the shell is done with the unit."""
        path = f"{self._directory}/g{command.token}"
        os.mkfifo(path, 0o600)
        command.files += (path,)
        self._gate = (command, path)
        return protocol.quote(path)

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
            self._token = protocol.draw_token()
            self._ready.clear()
            self._write(protocol.closing_lines(self._token))
        for _ in range(_TRIES):
            if self._closing is not None or await self._hear_ready(_READY_S / _TRIES):
                break
            self._write(protocol.closing_lines(self._token))  # an interrupt may have dropped the first ones
        if self._closing is None and not self._ready.is_set():
            await self.close("killed")
        if self._closing is not None:
            raise ShellEnded("the shell has ended")

    async def _hear_ready(self, patience_s: float) -> bool:
        if not self._ready.is_set():
            with move_on_after(patience_s):
                await self._ready.wait()
        return self._ready.is_set()

    def _write(self, lines: str) -> None:
        if self._closing is not None:
            return
        try:
            os.write(self._script, lines.encode())
        except BlockingIOError:
            pass  # the pipe holds 64 KiB of unread lines: the shell reads no more

    def _read_reports(self) -> None:
        try:
            data = os.read(self._reply, 65536)
        except BlockingIOError:
            return
        for report in self._reports.feed(data):
            if report.kind == "pid":
                self._on_pid(report.token, int(report.value))
            elif report.token != self._token or self._ready.is_set():
                continue
            elif report.kind == "end":
                self._ready.set()
                self._on_end(*report.end())
            else:
                self._begin_closing("killed")  # its reports can no longer be trusted

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
            self._write(protocol.closing_lines(self._token))
        elif self._silent_s >= _SILENT_S:
            self._begin_closing("killed")
        self._watching = self.loop.call_later(_CHECK_S, self._check)

    def _awaits_line(self) -> bool:
        """Return True if the shell sleeps with its script as fd 0, as it never does while it runs a command.

        A shell that waits for a processor or was stopped has only not reached the next line yet.
        """
        try:
            state = Path(f"/proc/{self.pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
            stdin = str(Path(f"/proc/{self.pid}/fd/0").readlink())
        except OSError:
            return False
        return state == b"S" and stdin.startswith(f"{self._directory}/script")

    def _on_pid(self, token: str, pid: int) -> None:
        command = self._commands.get(token)
        if command is None:
            if token == self._token and self.pid is None:
                self.pid = pid
            return
        if command.root is not None or command.in_shell:
            return
        command.root = pid
        self.copies[pid] = command
        if command.copied is not None:
            command.copied.set_result(None)
        if pid in self._exits:
            self._on_exit(pid, self._exits.pop(pid))

    def _on_end(self, status: int, cwd: bytes) -> None:
        self.cwd = self._true_cwd(cwd)
        command, self._foreground = self._foreground, None
        if command is None:
            if self._gate is not None:
                self._open_gate(*self._gate)
                self._gate = None
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

    def _true_cwd(self, reported: bytes) -> str:
        """Return the reported directory if the kernel confirms it, else the kernel's own name for it."""
        try:
            real = os.readlink(b"/proc/%d/cwd" % (self.pid or 0))  # noqa: PTH115 - once per command
            if real == reported or real == reported + b" (deleted)":
                return os.fsdecode(reported)
            return os.fsdecode(reported if Path(f"/proc/{self.pid}/cwd").samefile(os.fsdecode(reported)) else real)
        except OSError:
            return os.fsdecode(reported)

    def _finish(self, command: EngineCommand, status: int | None) -> None:
        del self._commands[command.token]
        trapped: dict[str, bytes] = {}
        if self._reason == "exited" and self._may_trap_exit:
            folder = os.fsencode(self._directory)
            for stream, output in self._own_outputs.items():
                trapped[stream] = protocol.exit_output(output.read(), folder, command.token)
        command.finish(status, self.cwd, self._reason, **trapped)
        for path in command.files:
            Path(path).unlink(missing_ok=True)
        if command.lingers:
            self._lingering = [one for one in self._lingering if one.lingers]
            self._lingering.append(command)

    def _on_exit(self, pid: int, status: int) -> None:
        if pid == self._reaper.child:
            self._read_reports()
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
        self.loop.remove_reader(self._reply)
        for pipe in (*self._outputs.values(), *self._own_outputs.values()):
            pipe.close()
        self._poll.close()
        for fd in (self._reply, self._script, self._unit_file):
            os.close(fd)
        shutil.rmtree(self._directory, ignore_errors=True)
        self._closing.set_result(count)
        if self._on_over is not None:
            self._on_over()


def _exit_code(code: int) -> int:
    return 128 - code if code < 0 else code
