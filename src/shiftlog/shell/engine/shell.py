"""A live bash: commands go in as units, reports come back on a channel of its own, the reaper tells who has ended.

Knows pipes, tokens and processes; how such a bash is started is the target's business (`local.py`), the words that it
is spoken to in are `framing.py`'s, and policies, budgets and journals are nobody's here.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from shiftlog.model.shell_errors import ShellEnded
from shiftlog.shell.engine import terminal
from shiftlog.shell.engine import words as framing
from shiftlog.shell.engine.command import EngineCommand
from shiftlog.shell.engine.streams import InputPipe, LastWords, OutputPipe, OutputPoll, TerminalInput
from shiftlog.shell.ports import CommandSpec, EndedReason, KillScope, OutputSink, ShellEnd, ShellKind, Stream

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from shiftlog.shell.engine.reaper_link import ReaperLink

_READY_S = 2.0
_ASKS = 8
_CLOSE_S = 4.5
_UNCLAIMED_EXITS = 64
_GATE_S = 0.001
_LOOK_S = 0.5
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
        words: tuple[int, int],
        reaper: ReaperLink,
        bash: str,
        tasks: TaskGroup,
        on_over: Callable[[], None],
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.tasks = tasks
        self.copies: dict[int, EngineCommand] = {}
        self.startup_output = b""
        self._directory = str(directory)
        self._unit = f"{self._directory}/u"
        self._place = framing.word(self._unit)
        self._unit_file = os.open(self._unit, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._poll = OutputPoll(self.loop)
        self._last_unit = b""
        self._outputs: dict[Stream, OutputPipe] = {}
        self._words: dict[Stream, LastWords] = {
            "stdout": LastWords(self._poll, words[0]),
            "stderr": LastWords(self._poll, words[1]),
        }
        self._script = script
        self._reply = reply
        self._reports = framing.ReportReader()
        self._reaper = reaper
        self._bash = bash
        self._pid: int | None = None
        self._cwd = "/"
        self._last_status = 0
        self._traced = False
        self._speaks_last = False
        self._foreground: EngineCommand | None = None
        self._commands: dict[str, EngineCommand] = {}
        self._lingering: list[EngineCommand] = []
        self._exits: dict[int, int] = {}
        self._reason: EndedReason | None = None
        self._closing: asyncio.Future[int] | None = None
        self._ended: asyncio.Future[ShellEnd] = self.loop.create_future()
        self._token = framing.draw_token()
        self._gate: tuple[EngineCommand, str] | None = None
        self._watching: asyncio.TimerHandle | None = None
        self._silent_s = 0.0
        self._shaken = False
        self._is_ready = False
        self._waiter: asyncio.Future[bool] | None = None
        self._starting = asyncio.Lock()  # one unit at a time: the private place of the unit and the script are shared
        self._on_over = on_over
        self.loop.add_reader(reply, self._read_reports)
        reaper.listen(self._on_exit, self._on_gone)

    @property
    def cwd(self) -> str:
        return self._cwd

    @property
    def pid(self) -> int | None:
        return self._pid

    @property
    def reaper_pid(self) -> int:
        """The process below which every process of this shell is found."""
        return self._reaper.pid

    @property
    def ended(self) -> asyncio.Future[ShellEnd]:
        return self._ended

    async def prepare(self, ready_s: float, kind: ShellKind = "bash") -> None:
        """Send the opening lines and wait until the shell has told its pid and is ready; as `sh` it keeps to POSIX."""
        self.kind = kind
        reply, script = (framing.quote(f"{self._directory}/{name}") for name in ("reply", "script"))
        mode = framing.POSIX_MODE if kind == "sh" else ""
        self._tell(
            framing.driver(reply, script) + mode + framing.hello(self._token) + framing.closing_lines(self._token)
        )
        if not await self._hear_ready(ready_s) and not self._ended.done():
            raise TimeoutError

    async def start(self, command: CommandSpec, sink: OutputSink) -> EngineCommand:
        """Start a command; returns once the shell has been told, for a copy once the copy runs."""
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
        """End the shell and everything below it; return how many processes that were. Repeating it is harmless."""
        if self._closing is None:
            self._reason = self._reason or reason
            self._closing = self.loop.create_future()
            self._reaper.close()
        await asyncio.wait([self._closing], timeout=_CLOSE_S)
        if not self._closing.done():
            self._reaper.kill()
            self._on_gone(0)
        return await asyncio.shield(self._closing)

    def nudge_later(self, command: EngineCommand, after_s: float) -> None:
        """Ask for the report again: a shell interrupted between two lines may have dropped the line it was reading."""

        self._shaken = True

        def nudge() -> None:
            if not command.ended.done() and self._closing is None:
                self._tell(framing.closing_lines(command.token))

        self.loop.call_later(after_s, nudge)

    def _start(self, spec: CommandSpec, sink: OutputSink) -> EngineCommand:
        token = framing.draw_token()
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
        self._is_ready = False
        for words in self._words.values():
            words.forget()
        traced = self._traced and command.in_shell
        self._tell(framing.lines(self._place, token, self._last_status, traced=traced))
        self._traced = self._traced or framing.may_trap(spec.text)
        self._speaks_last = self._speaks_last or framing.may_speak_last(spec.text)
        if command.keyboard is not None:
            command.feed(spec.input)
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
            command.keyboard = InputPipe(path, command.over)
            stdin = framing.quote(path)
        if spec.background:
            gate = self._make_gate(command)
            return command, framing.copy_unit(
                spec.text, token, gate=gate, stdin=stdin, stdout=out.place, stderr=err.place
            )
        if self._traced:
            mark = token if self._speaks_last else ""
            return command, framing.traced_unit(
                spec.text, self._last_status, stdin=stdin, stdout=out.place, stderr=err.place, mark=mark
            )
        return command, framing.unit(spec.text, stdin=stdin, stdout=out.place, stderr=err.place)

    def _output(self, stream: Stream) -> OutputPipe:
        """Return a pipe that nobody holds: the last command's, or a new one when a child of it still writes there."""
        pipe = self._outputs.get(stream)
        if pipe is None or pipe.held or pipe.closed:
            path = f"{self._directory}/{stream}-{framing.draw_token()}"
            os.mkfifo(path, 0o600)
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            pipe = self._outputs[stream] = OutputPipe(self._poll, fd, stream, framing.quote(path))
        return pipe

    def _make_terminal(self, spec: CommandSpec, sink: OutputSink, token: str) -> tuple[EngineCommand, str]:
        assert spec.terminal is not None
        ours, theirs = terminal.open_terminal(spec.terminal)
        screen = terminal.TerminalScreen(spec.terminal.cols, spec.terminal.rows)
        state, script = (f"{self._directory}/{letter}{token}" for letter in "st")
        _write_file(script, f"\\builtin set --\n\\builtin eval {framing.quote(framing.whole(spec.text))}\n")
        output = OutputPipe(self._poll, ours, "stdout")
        output.begin(terminal.ScreenSink(screen, sink))
        sink.close("stderr")
        command = EngineCommand(self, spec, token, [("stdout", output)], screen)
        command.files += (state, script)
        command.keyboard = TerminalInput(ours, command.over)
        command.release = lambda: os.close(theirs)
        python = os.path.realpath(sys.executable)  # a sandbox may show the real one alone
        helper = [python, "-I", "-S", terminal.HELPER, os.ttyname(theirs), self._bash, state, script]
        gate = self._make_gate(command)
        return command, framing.terminal_unit(token, gate=gate, state=framing.quote(state), helper=helper)

    def _make_gate(self, command: EngineCommand) -> str:
        """Make the pipe at which a copy waits until the shell has let go of it."""
        path = f"{self._directory}/g{command.token}"
        os.mkfifo(path, 0o600)
        command.files += (path,)
        self._gate = (command, path)
        return framing.quote(path)

    def _open_gate(self, command: EngineCommand, path: str) -> None:
        if command.over() or self._closing is not None:
            return
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        except OSError:  # nobody waits there yet
            self.loop.call_later(_GATE_S, self._open_gate, command, path)

    async def _until_ready(self) -> None:
        """Wait for the proof that the shell is fit for a command; a shell that cannot give it is ended.

        A shell that was interrupted has to give it anew, so that no late interrupt meets the next command.
        """
        if self._shaken and self._closing is None:
            self._shaken = False
            self._token = framing.draw_token()
            self._is_ready = False
            self._tell(framing.closing_lines(self._token))
        for _ in range(_ASKS):
            if self._is_ready or self._closing is not None or await self._hear_ready(_READY_S / _ASKS):
                break
            self._tell(framing.closing_lines(self._token))  # an interrupt may have taken the first ones
        if self._closing is None and not self._is_ready:
            await self.close("killed")
        if self._closing is not None:
            raise ShellEnded("the shell has ended")

    async def _hear_ready(self, patience_s: float) -> bool:
        waiter = self._waiter = self.loop.create_future()
        timer = self.loop.call_later(patience_s, self._answer_waiter, False)
        try:
            return self._is_ready or await waiter
        finally:
            timer.cancel()
            self._waiter = None

    def _answer_waiter(self, ready: bool) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(ready)

    def _tell(self, lines: str) -> None:
        if self._closing is not None:
            return
        try:
            os.write(self._script, lines.encode())
        except BlockingIOError:
            pass  # a shell that reads none of 64 KiB of short lines is not going to read one more

    def _read_reports(self) -> None:
        try:
            data = os.read(self._reply, 65536)
        except BlockingIOError:
            return
        for report in self._reports.feed(data):
            if report.kind == "pid":
                self._on_pid(report.token, int(report.value))
            elif report.token != self._token or self._is_ready:
                continue
            elif report.kind == "end":
                self._is_ready = True
                self._answer_waiter(True)
                self._on_end(*report.end())
            else:
                self._end_unsound()

    def _watch(self) -> None:
        """Look now and then whether the shell waits for its next line although it owes this report."""
        self._silent_s = 0.0
        if self._watching is None:
            self._watching = self.loop.call_later(_LOOK_S, self._look)

    def _look(self) -> None:
        self._watching = None
        if self._foreground is None or self._closing is not None:
            return
        before, self._silent_s = self._silent_s, self._silent_s + _LOOK_S if self._awaits_words() else 0.0
        if before < _NUDGE_S <= self._silent_s:  # an interrupt may have taken the line that asks for the report
            self._tell(framing.closing_lines(self._token))
        elif self._silent_s >= _SILENT_S:
            self._end_unsound()
        self._watching = self.loop.call_later(_LOOK_S, self._look)

    def _awaits_words(self) -> bool:
        """Say whether the shell sleeps with its script as fd 0, which it never is while it runs a command.

        One that waits for a processor, or was stopped, has only not come to its words yet.
        """
        try:
            state = Path(f"/proc/{self._pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
            place = str(Path(f"/proc/{self._pid}/fd/0").readlink())
        except OSError:
            return False
        return state == b"S" and place.startswith(f"{self._directory}/script")

    def _end_unsound(self) -> None:
        """End a shell whose words can no longer be believed."""
        if self._closing is None:
            self._reason = "killed"
            self._closing = self.loop.create_future()
            self._reaper.close()

    def _on_pid(self, token: str, pid: int) -> None:
        command = self._commands.get(token)
        if command is None:
            if token == self._token and self._pid is None:
                self._pid = pid
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
        self._cwd = self._true_cwd(cwd)
        command, self._foreground = self._foreground, None
        if command is None:
            if self._gate is not None:
                self._open_gate(*self._gate)
                self._gate = None
            return
        self._last_status = status
        if command.signalled or self._began(command):
            self._finish(command, status)
        else:
            self._foreground = command
            self._end_unsound()

    def _began(self, command: EngineCommand) -> bool:
        """Say whether the shell really ran the unit: it then opened, and perhaps closed, the command's outputs."""
        if not command.touched:
            self._poll.pump()
        if not command.touched:
            command.probe()
        return command.touched

    def _true_cwd(self, told: bytes) -> str:
        """Believe the shell's own name for its directory only where the kernel agrees that it is that one."""
        try:
            real = os.readlink(b"/proc/%d/cwd" % (self._pid or 0))  # noqa: PTH115 - once per command
            if real == told or real == told + b" (deleted)":
                return os.fsdecode(told)
            return os.fsdecode(told if Path(f"/proc/{self._pid}/cwd").samefile(os.fsdecode(told)) else real)
        except OSError:
            return os.fsdecode(told)

    def _finish(self, command: EngineCommand, status: int | None) -> None:
        del self._commands[command.token]
        words: dict[str, bytes] = {}
        if self._reason == "exited" and self._speaks_last:
            place = os.fsencode(self._directory)
            words = {
                stream: framing.last_words(said.read(), place, command.token) for stream, said in self._words.items()
            }
        command.finish(status, self._cwd, self._reason, **words)
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
        """The shell process is over: what it ran is, too, and what it left behind is not to stay."""
        asked = self._reason is not None
        self._reason = self._reason or ("killed" if code < 0 else "exited")
        command, self._foreground = self._foreground, None
        if command is not None:
            began = self._began(command)
            self._finish(command, _exit_code(code) if began and not asked else None)
        if not self._ended.done():
            self._ended.set_result(ShellEnd(reason=self._reason, exit_code=_exit_code(code)))
        if self._closing is None:
            self._closing = self.loop.create_future()
            self._reaper.close()

    def _on_gone(self, count: int) -> None:
        """The reaper is gone, and with it everything below: let go of whatever is still held."""
        self._reason = self._reason or "killed"
        if self._closing is None:
            self._closing = self.loop.create_future()
        if self._closing.done():
            return
        for command in list(self._commands.values()):
            self._finish(command, None)
        for command in self._lingering:
            command.close_outputs()
        if not self._ended.done():
            self._ended.set_result(ShellEnd(reason=self._reason, exit_code=None))
        if self._watching is not None:
            self._watching.cancel()
        self.loop.remove_reader(self._reply)
        for pipe in (*self._outputs.values(), *self._words.values()):
            pipe.close()
        self._poll.close()
        for fd in (self._reply, self._script, self._unit_file):
            os.close(fd)
        shutil.rmtree(self._directory, ignore_errors=True)
        self._closing.set_result(count)
        self._on_over()


def _exit_code(code: int) -> int:
    return 128 - code if code < 0 else code


def _write_file(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        data = text.encode(errors="surrogateescape")
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
    finally:
        os.close(fd)
