"""A live shell on a remote target, spoken to over a wire: units go in, reports come back, lines carry the streams.

Knows wires, lines and tokens; the words are `remote_words.py`'s, commands are `inband_command.py`'s, and whether the
wire is a channel of ssh or a client of docker is the host's business.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable

from anyio.abc import TaskGroup

from shiftlog.model.shell_errors import OpenFailed, ShellEnded, ShellLost
from shiftlog.shell.engine import words as framing
from shiftlog.shell.engine.command import SIGNAL_NUMBERS
from shiftlog.shell.ports import (
    CommandSpec,
    EndedReason,
    KillScope,
    OutputSink,
    ShellEnd,
    ShellKind,
    ShellSpec,
    Stream,
)
from shiftlog.shell.remote import closing
from shiftlog.shell.remote import programs as remote_programs
from shiftlog.shell.remote import words as remote_words
from shiftlog.shell.remote.aside import Aside, Table, upload
from shiftlog.shell.remote.channels import Ways
from shiftlog.shell.remote.command import InbandCommand
from shiftlog.shell.remote.ports import RemoteHost, Wire, WireEnd
from shiftlog.shell.remote.terminal import InbandTerminal
from shiftlog.shell.remote.words import BashWords

_READY_S = 2.0
_END_S = 1.5
_SETTLE_S = 0.3
_KILLED = 128 + 9
_LABEL_CHARS = 40
#: Longer units are sent as a file: a shell reads a pipe byte by byte.
_SHORT_UNIT = 32 * 1024


class InbandShell:
    """One remote shell; see `LiveShell` for what each verb promises."""

    kill_scope: KillScope = "group"
    pid: int | None = None

    def __init__(self, host: RemoteHost, tasks: TaskGroup) -> None:
        self.loop = asyncio.get_running_loop()
        self.host = host
        self.tasks = tasks
        self.aside = Aside(host)
        self._ways = Ways(host, self.aside, tasks)
        self.startup_output = b""
        self.heard = 0  # how often anything came over the wire
        self.copies: set[InbandCommand] = set()
        self.terminals: set[InbandTerminal] = set()
        self._wire: Wire | None = None
        self._kept: remote_programs.Kept | None = None
        self._words: remote_words.Words = remote_words.PortableWords()
        self._opening = b""
        self._opened: asyncio.Future[remote_programs.Kept | remote_programs.Refused] = self.loop.create_future()
        self._reports = framing.ReportReader()
        self._keeper_token = framing.draw_token()
        self._token = framing.draw_token()
        self._is_ready = False
        self._ready = asyncio.Event()
        self._cwd = "/"
        self._asked_cwd: str | None = None
        self._last_status = 0
        self._commands: dict[str, InbandCommand] = {}
        self._foreground: InbandCommand | None = None
        self._reason: EndedReason | None = None
        self._closing: asyncio.Future[int] | None = None
        self._main_end: asyncio.Future[WireEnd] = self.loop.create_future()
        self._ended: asyncio.Future[ShellEnd] = self.loop.create_future()
        self._starting = asyncio.Lock()  # one unit at a time: the shell's standard input is shared

    @property
    def kind(self) -> ShellKind:
        return self.kept.kind

    @property
    def cwd(self) -> str:
        return self._cwd

    @property
    def ended(self) -> asyncio.Future[ShellEnd]:
        return self._ended

    @property
    def kept(self) -> remote_programs.Kept:
        """What the keeper told when the shell was opened."""
        assert self._kept is not None
        return self._kept

    async def open(self, spec: ShellSpec) -> None:
        """Start the shell on its target and wait until it is ready; raises `OpenFailed` with the reason."""
        try:
            async with asyncio.timeout(spec.ready_s):
                await self._open(spec)
        except TimeoutError:
            await self.close("unresponsive")
            raise OpenFailed.because(f"it was not ready within {spec.ready_s:g} s") from None
        except (ConnectionError, ShellEnded) as error:
            await self.close("killed")
            raise OpenFailed.because("the target ended it while it started") from error
        except BaseException:
            await self.close("killed")
            raise

    async def _open(self, spec: ShellSpec) -> None:
        self._asked_cwd = spec.cwd
        self._wire = await self.host.open_wire(self)
        program = remote_programs.keeper(
            self._keeper_token, name=framing.draw_token()[:16], wanted=spec.shell, cwd=spec.cwd, env=spec.env
        )
        self._wire.write(program.encode())
        kept = await self._opened
        if isinstance(kept, remote_programs.Refused):
            raise OpenFailed.because(kept.why)
        self._kept = kept
        self.aside.begin(kept)
        self._ways.begin(kept)
        self._words = remote_words.words_named(kept.words)
        self._tell(self._words.prepare(self._token, kept))
        await self._ready.wait()
        self._check_alive()
        self.tasks.start_soon(self.aside.open)
        if spec.login:
            said = Said()
            command = await self.start(CommandSpec(text=self._words.profiles), said)
            await asyncio.shield(command.ended)
            self.startup_output = bytes(said.data)
            self._last_status = 0
            self._check_alive()

    async def start(self, command: CommandSpec, sink: OutputSink) -> InbandCommand | InbandTerminal:
        """Start a command; returns once the shell has been told, for a copy once the copy runs."""
        async with self._starting:
            await self._until_ready()
            try:
                if command.terminal is not None:
                    return await self._start_terminal(command, sink)
                started = await self._start(command, sink)
            except ConnectionError as error:
                self.lose()
                raise ShellLost("the connection of the shell was lost") from error
            if started.copied is not None:
                await asyncio.wait([started.copied])
            return started

    async def close(self, reason: EndedReason = "closed") -> int:
        """End the shell and everything in its session; return how many processes. Repeating it is harmless."""
        self._reason = self._reason or reason
        return await asyncio.shield(self._begin_closing())

    def lose(self) -> None:
        """Take the shell for lost: nobody answers."""
        self.finished(WireEnd(exit_code=None, lost=True))

    def nudge_later(self, command: InbandCommand, after_s: float) -> None:
        """Ask for the report again: an interrupted shell may have dropped the line that asks for it."""

        def nudge() -> None:
            if not command.reported and self._foreground is command:
                self.ask_report(command)

        self.loop.call_later(after_s, nudge)

    def ask_report(self, command: InbandCommand) -> None:
        """Ask for the report of a command that runs in the shell itself."""
        self._tell(self._words.closing(command.token))

    def owes(self, command: InbandCommand) -> bool:
        """Say whether the shell still owes the report of a command."""
        return self._foreground is command and self._closing is None

    def drop_signal(self, number: int) -> int:
        """Return what makes this shell drop its command: only `framing`'s words trap the signal meant for that."""
        return number if self._words.begins else SIGNAL_NUMBERS["interrupt"]

    def other_pids(self, table: Table) -> set[int]:
        """Return the processes of the session that are not the foreground command's: the shell's own and copies'."""
        found = {self.kept.keeper, self.kept.session, self.pid or 0}
        for root in (copy.root for copy in self.copies):
            if root is not None and root in table.processes:
                found |= {one.pid for one in table.family(root)} | {table.processes[root].parent}
        return found

    # What comes over the wire

    def received(self, stream: Stream, data: bytes) -> None:
        """Pass on a direct command's output and find reports; everything else on the wire is noise."""
        self.heard += 1
        data = self._ways.received(stream, data)
        if stream != "stdout" or not data:
            return
        if not self._opened.done():
            self._opening = (self._opening + data)[-1_000_000:]
            kept = remote_programs.read_kept(self._opening, self._keeper_token, self._asked_cwd)
            if kept is not None:
                self._opened.set_result(kept)
            return
        for report in self._reports.feed(data):
            if report.kind == "pid":
                self._on_pid(report.token, int(report.value))
            elif report.kind == "end":
                self._on_end(report)
            elif report.token == self._token and not self._is_ready:
                self._end_unsound()

    def finished(self, end: WireEnd) -> None:
        """The shell, or the way to it, is gone."""
        if not self._opened.done():
            self._opened.set_exception(ConnectionError("the target ended the wire"))
            self._opened.exception()
        if not self._main_end.done():
            self._main_end.set_result(end)
            self._ready.set()
            self.tasks.start_soon(self._over, end)

    def _on_pid(self, token: str, pid: int) -> None:
        command = self._commands.get(token)
        if token == remote_words.holds_token(self._token):
            self._ways.tell_held(pid != 0)
        elif command is not None:
            command.on_pid(pid)
        elif token == self._token and self.pid is None:
            self.pid = pid
            self._ways.own_pids.add(pid)

    def _on_end(self, report: framing.Report) -> None:
        status, cwd = report.end()
        command = self._commands.get(report.token)
        if report.token == self._keeper_token:
            self._ways.tell_over()
            self.finished(WireEnd(exit_code=status))
        elif command is not None and cwd == remote_words.CUT.encode():
            command.cut_status = status
        elif command is not None and not command.in_shell:
            command.on_report(status, self._cwd)
        elif report.token == self._token and not self._is_ready:
            self._is_ready = True
            self._ready.set()
            self._cwd = cwd.decode("utf-8", "surrogateescape") or self._cwd
            if command is None:
                return
            if self._words.begins and not command.began:
                self._end_unsound()
                return
            if command.cut_status is not None:
                status = command.cut_status
            self._last_status = status
            self._foreground = None
            command.on_report(status, self._cwd)

    async def _over(self, end: WireEnd) -> None:
        """Resolve what depended on the shell; left-overs of a shell that ended by itself are ended too."""
        asked = self._reason is not None
        lost = end.lost or self._reason == "server_stopped"
        self._reason = self._reason or ("killed" if lost or end.exit_code == _KILLED else "exited")
        command, self._foreground = self._foreground, None
        if command is not None and not lost:
            await command.outputs_settled(_SETTLE_S)
        self._ways.give_up()
        if command is not None:
            command.finish(None if lost or asked else end.exit_code, self._cwd, self._reason, lost=lost)
        if lost:
            self._end_copies(lost=True)
        if not self._ended.done():
            self._ended.set_result(ShellEnd(reason=self._reason, exit_code=end.exit_code, lost=lost))
        self._begin_closing()

    def _end_copies(self, *, lost: bool) -> None:
        for copy in [*self.copies, *self.terminals]:
            copy.finish(None, self._cwd, self._reason, lost=lost)

    # Starting

    async def _start(self, spec: CommandSpec, sink: OutputSink) -> InbandCommand:
        token = framing.draw_token()
        feeds = spec.stdin_open or spec.input is not None
        # A command in the background tells its end on the wire, in the middle of what has it then.
        needs_line = feeds or spec.background or bool(self.copies)
        if isinstance(self._words, BashWords) and not (needs_line or not await self._ways.is_wire_free()):
            direct = self._ways.open_direct(token, self._keeper_token, sink)
            command = InbandCommand(self, spec, token, direct)
            direct.on_begin = command.on_pid
            unit = self._words.direct(spec.text, token, self._last_status, self.kept)
        else:
            line = await self._ways.open_line(sink, once=feeds or spec.background, feeds=feeds)
            command = InbandCommand(self, spec, token, line)
            if command.in_shell:
                unit = self._words.unit(spec.text, token, self._last_status, line.places)
            else:
                unit = self._words.copy(spec.text, token, line.places)
        place = await self._place(unit, token)
        self._commands[token] = command
        self._token = token if command.in_shell else framing.draw_token()
        self._is_ready = False
        self._ready.clear()
        if command.in_shell:
            self._foreground = command
            self.loop.call_later(closing.LOOKS_S[0], self._watch, command)
        self._tell(self._words.source(place, in_shell=command.in_shell) + self._words.closing(self._token))
        if command.in_shell:
            self._words.learn(spec.text)
        if spec.input is not None:
            command.feed(spec.input)
        return command

    async def _place(self, unit: str, token: str) -> remote_words.UnitPlace:
        """Return where the shell finds a unit; a long one is sent as a file first."""
        data = unit.encode("utf-8", "surrogateescape")
        if len(data) <= _SHORT_UNIT:
            return self._words.here(unit, framing.draw_token())
        path = f"{self.kept.directory}/u{token}"
        await upload(self.host, path, data)
        return remote_words.UnitPlace(path=framing.quote(path))

    async def _start_terminal(self, spec: CommandSpec, sink: OutputSink) -> InbandTerminal:
        """Run a text on a terminal of its own, with the shell's directory and exported variables."""
        name = framing.draw_token()
        exports, script, pid = (f"{self.kept.directory}/{letter}{name}" for letter in "xtp")
        kept_status = self._last_status
        saving = await self._start(CommandSpec(text=self._words.save_exports(framing.quote(exports))), Said())
        await asyncio.shield(saving.ended)
        self._last_status = kept_status
        self._check_alive()
        mark = framing.draw_token()
        program = remote_programs.terminal_script(
            spec.text, mark, kind=self.kind, cwd=self._cwd, exports=framing.quote(exports), pid=framing.quote(pid)
        )
        await upload(self.host, script, program.encode("utf-8", "surrogateescape"))
        command = InbandTerminal(self, spec, sink, pid_file=pid, mark=mark)
        await command.open(script)
        self.terminals.add(command)
        return command

    def _watch(self, command: InbandCommand) -> None:
        if self.owes(command):
            self.tasks.start_soon(closing.watch_silence, self, command)

    def let_go(self, command: InbandCommand) -> None:
        """Forget a command that has ended."""
        self._commands.pop(command.token, None)
        self.copies.discard(command)
        self._ways.let_go(command)

    async def _until_ready(self) -> None:
        """Wait for the proof that the shell is fit for a command; a shell that cannot give it is ended."""
        for _ in range(2):
            if self._is_ready or self._main_end.done() or self._closing is not None:
                break
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_READY_S):
                    await self._ready.wait()
                    continue
            self._tell(self._words.closing(self._token))
        if not self._is_ready and self._closing is None and not self._main_end.done():
            await self.close("killed")
        self._check_alive()

    def _check_alive(self) -> None:
        if self._ended.done() and self._ended.result().lost:
            raise ShellLost("the connection of the shell was lost")
        if self._main_end.done() or self._closing is not None:
            raise ShellEnded("the shell has ended")

    def _tell(self, lines: str) -> None:
        if self._wire is not None and not self._main_end.done():
            self._wire.write(lines.encode("utf-8", "surrogateescape"))

    # Ending

    def _end_unsound(self) -> None:
        """End a shell whose reports can no longer be trusted."""
        self._reason = self._reason or "killed"
        self._begin_closing()

    def _begin_closing(self) -> asyncio.Future[int]:
        if self._closing is None:
            self._closing = self.loop.create_future()
            self.tasks.start_soon(self._close, self._closing)
        return self._closing

    async def _close(self, closed: asyncio.Future[int]) -> None:
        lost = self._main_end.done() and self._main_end.result().lost
        self.host.leave()
        self._ways.leave()
        self.aside.leave()
        killed = await self._kill_session()
        if self._wire is not None and not self._main_end.done():
            await asyncio.wait([self._main_end], timeout=_END_S)
            self._wire.close()
        await self._ways.hang_up(lost=lost)
        if self._kept is not None and killed is not None:
            with contextlib.suppress(TimeoutError, ConnectionError):
                await closing.tidy(self.aside, self._kept, self._ways.stuck_pids)
        self._ways.close()
        self.aside.close()
        self.finished(WireEnd(exit_code=None))
        self._end_copies(lost=False)
        await self.host.close()
        await asyncio.wait([self._ended])
        closed.set_result(killed or 0)

    async def _kill_session(self) -> int | None:
        """Kill what the shell started, also where only its own wire is lost; return None where nobody answers."""
        if self._kept is None:
            return None
        terminals = [terminal.pid for terminal in self.terminals if terminal.pid is not None]
        try:
            return await closing.kill_session(self.aside, self._kept, terminals)
        except (TimeoutError, ConnectionError):
            return None


class Said:
    """A sink that keeps what was said, within reason."""

    limit = 64 * 1024

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, stream: Stream, data: bytes) -> None:
        """Keep the bytes of either stream."""
        self.data += data[: max(0, self.limit - len(self.data))]

    def close(self, stream: Stream) -> None:
        """Nothing depends on it."""


class RemoteTarget:
    """Opens shells on the host that `connect` reaches; each shell has a connection of its own."""

    def __init__(self, connect: Callable[[TaskGroup], Awaitable[RemoteHost]], *, label: str, shown: str) -> None:
        self.label = label
        self.shown = shown
        self._connect = connect

    async def open(self, spec: ShellSpec, tasks: TaskGroup) -> InbandShell:
        """Connect and start a shell; raises what connecting raises, or `OpenFailed` with the reason."""
        shell = InbandShell(await self._connect(tasks), tasks)
        await shell.open(spec)
        return shell


def label_part(text: str) -> str:
    """Return a name with only the characters that ids of shells may hold."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", text)[:_LABEL_CHARS]
