"""A live shell on a remote target, spoken to over a wire: units go in, reports come back, lines carry the streams.

Knows wires, lines and tokens; the words are `remote_words.py`'s, commands are `inband_command.py`'s, and whether the
wire is a channel of ssh or a client of docker is the host's business.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections import deque
from collections.abc import Coroutine
from typing import Any

from shiftlog.model.shell_errors import OpenFailed, ShellEnded, ShellLost
from shiftlog.shell import framing, remote_words
from shiftlog.shell.engine_command import SIGNAL_NUMBERS
from shiftlog.shell.inband_command import InbandCommand
from shiftlog.shell.inband_terminal import InbandTerminal
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
from shiftlog.shell.remote import RemoteHost, Wire, WireEnd
from shiftlog.shell.remote_aside import Aside, Table, upload
from shiftlog.shell.remote_direct import Direct
from shiftlog.shell.remote_line import Line
from shiftlog.shell.remote_words import BashWords

_READY_S = 2.0
_ASK_S = 2.0
_END_S = 1.5
_SETTLE_S = 0.3
_KILLED = 128 + 9
#: Longer units are sent as a file: a shell reads a pipe byte by byte.
_SHORT_UNIT = 32 * 1024
_IDLE_LINES = 2
#: No program that closes what it inherits, starts another and goes away is done as soon as this.
_QUICK_S = 0.05
_SCAN_S = 0.03
_LOOKS_S = (1.5, 1.5, 3.0, 6.0, 15.0)
_ASKED_S = 0.6
_KILL_ROUNDS = 10


class InbandShell:
    """One remote shell; see `LiveShell` for what each verb promises."""

    kill_scope: KillScope = "group"
    pid: int | None = None

    def __init__(self, host: RemoteHost) -> None:
        self.loop = asyncio.get_running_loop()
        self.host = host
        self.aside = Aside(host)
        self.startup_output = b""
        self.copies: set[InbandCommand] = set()
        self.terminals: set[InbandTerminal] = set()
        self._wire: Wire | None = None
        self._kept: remote_words.Kept | None = None
        self._words: remote_words.Words = remote_words.PortableWords()
        self._opening = b""
        self._opened: asyncio.Future[remote_words.Kept | remote_words.Refused] = self.loop.create_future()
        self._reports = framing.ReportReader()
        self._keeper_token = framing.draw_token()
        self._token = framing.draw_token()
        self._direct: Direct | None = None
        self._held_by: list[Direct] = []
        self._is_held = False
        self._is_ready = False
        self._ready = asyncio.Event()
        self._cwd = "/"
        self._asked_cwd: str | None = None
        self._last_status = 0
        self._commands: dict[str, InbandCommand] = {}
        self._foreground: InbandCommand | None = None
        self._idle_lines: deque[Line] = deque()
        self._lines: set[Line] = set()
        self._scanning: asyncio.Task[bool] | None = None
        self._is_written_to = False
        self._reason: EndedReason | None = None
        self._closing: asyncio.Task[int] | None = None
        self._main_end: asyncio.Future[WireEnd] = self.loop.create_future()
        self._ended: asyncio.Future[ShellEnd] = self.loop.create_future()
        self._tasks: set[asyncio.Task[None]] = set()
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
    def kept(self) -> remote_words.Kept:
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
            raise _failed(f"it was not ready within {spec.ready_s:g} s") from None
        except (ConnectionError, ShellEnded) as error:
            await self.close("killed")
            raise _failed("the target ended it while it started") from error
        except BaseException:
            await self.close("killed")
            raise

    async def _open(self, spec: ShellSpec) -> None:
        self._asked_cwd = spec.cwd
        self._wire = await self.host.open_wire(self)
        program = remote_words.keeper(
            self._keeper_token, name=framing.draw_token()[:16], wanted=spec.shell, cwd=spec.cwd, env=spec.env
        )
        self._wire.write(program.encode())
        kept = await self._opened
        if isinstance(kept, remote_words.Refused):
            raise _failed(kept.why)
        self._kept = kept
        self._words = remote_words.words_named(kept.words)
        self._tell(self._words.prepare(self._token, kept))
        await self._ready.wait()
        self._check_alive()
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
        if self._closing is None:
            self._reason = self._reason or reason
            self._closing = self.loop.create_task(self._close())
        return await asyncio.shield(self._closing)

    def lose(self) -> None:
        """Take the shell for lost: nobody answers."""
        self.finished(WireEnd(exit_code=None, lost=True))

    def nudge_later(self, command: InbandCommand, after_s: float) -> None:
        """Ask for the report again: an interrupted shell may have dropped the line that asks for it."""

        def nudge() -> None:
            if not command.reported and self._foreground is command:
                self._tell(self._words.closing(command.token))

        self.loop.call_later(after_s, nudge)

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

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside; closing waits for nothing of it."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # What comes over the wire

    def received(self, stream: Stream, data: bytes) -> None:
        """Pass on a direct command's output and find reports; everything else on the wire is noise."""
        if self._direct is not None:
            data = self._direct.received(stream, data)
        if stream != "stdout" or not data:
            return
        if not self._opened.done():
            self._opening = (self._opening + data)[-1_000_000:]
            kept = remote_words.read_kept(self._opening, self._keeper_token, self._asked_cwd)
            if kept is not None:
                self._opened.set_result(kept)
            return
        for report in self._reports.feed(data):
            if report.kind == "pid":
                self._on_pid(report.token, int(report.value))
            elif report.kind == "end":
                self._on_end(report)
            elif report.token == self._token and not self._is_ready:
                self.spawn(self._end_unsound())

    def finished(self, end: WireEnd) -> None:
        """The shell, or the way to it, is gone."""
        if not self._opened.done():
            self._opened.set_exception(ConnectionError("the target ended the wire"))
            self._opened.exception()
        if not self._main_end.done():
            self._main_end.set_result(end)
            self._ready.set()
            self.spawn(self._over(end))

    def _on_pid(self, token: str, pid: int) -> None:
        command = self._commands.get(token)
        if token == remote_words.holds_token(self._token):
            self._on_holds(pid != 0)
        elif command is not None:
            command.on_pid(pid)
        elif token == self._token and self.pid is None:
            self.pid = pid

    def _on_end(self, report: framing.Report) -> None:
        status, cwd = report.end()
        command = self._commands.get(report.token)
        if report.token == self._keeper_token:
            if self._direct is not None and not self._direct.is_told:
                self._direct.tell_held(False)
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
                self.spawn(self._end_unsound())
                return
            if command.cut_status is not None:
                status = command.cut_status
            self._last_status = status
            self._foreground = None
            command.on_report(status, self._cwd)

    def _on_holds(self, held: bool) -> None:
        """Learn whether anything that a command left behind may still write to the wire."""
        self._is_held = held
        direct = self._direct
        if direct is not None and not direct.is_told:
            direct.tell_held(held)
            if held:
                self._held_by.append(direct)
        if not held:
            for one in self._held_by:
                one.released()
            self._held_by.clear()

    async def _over(self, end: WireEnd) -> None:
        """Resolve what depended on the shell; left-overs of a shell that ended by itself are ended too."""
        asked = self._reason is not None
        lost = end.lost or self._reason == "server_stopped"
        self._reason = self._reason or ("killed" if lost or end.exit_code == _KILLED else "exited")
        command, self._foreground = self._foreground, None
        if command is not None and not lost:
            await command.outputs_settled(_SETTLE_S)
        for direct in [*self._held_by, *([self._direct] if self._direct is not None else [])]:
            direct.give_up()
        if command is not None:
            command.finish(None if lost or asked else end.exit_code, self._cwd, self._reason, lost=lost)
        if lost:
            self._end_copies(lost=True)
        if not self._ended.done():
            self._ended.set_result(ShellEnd(reason=self._reason, exit_code=end.exit_code, lost=lost))
        if self._closing is None:
            self._closing = self.loop.create_task(self._close())

    def _end_copies(self, *, lost: bool) -> None:
        for copy in [*self.copies, *self.terminals]:
            copy.finish(None, self._cwd, self._reason, lost=lost)

    # Starting

    async def _start(self, spec: CommandSpec, sink: OutputSink) -> InbandCommand:
        token = framing.draw_token()
        feeds = spec.stdin_open or spec.input is not None
        if isinstance(self._words, BashWords) and not (feeds or spec.background or await self._may_be_written_to()):
            self._direct = direct = Direct(token, self._keeper_token, sink)
            command = InbandCommand(self, spec, token, direct)
            direct.on_begin = command.on_pid
            unit = self._words.direct(spec.text, token, self._last_status, self.kept)
        else:
            self._direct = None
            line = await self._line_for(sink, once=feeds or spec.background, feeds=feeds)
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
            self.loop.call_later(_LOOKS_S[0], self._watch, command)
        self._tell(self._words.source(place) + self._words.closing(self._token))
        if spec.input is not None:
            command.feed(spec.input)
        return command

    async def _place(self, unit: str, token: str) -> str:
        """Return where the shell finds a unit; a long one is sent as a file first."""
        data = unit.encode("utf-8", "surrogateescape")
        if len(data) <= _SHORT_UNIT:
            return remote_words.heredoc(unit, framing.draw_token())
        path = f"{self.kept.directory}/u{token}"
        await upload(self.host, path, data)
        return framing.quote(path)

    async def _start_terminal(self, spec: CommandSpec, sink: OutputSink) -> InbandTerminal:
        """Run a text on a terminal of its own, with the shell's directory and exported variables."""
        name = framing.draw_token()
        exports, script, pid = (f"{self.kept.directory}/{letter}{name}" for letter in "xtp")
        kept_status = self._last_status
        saving = await self._start(CommandSpec(text=self._words.save_exports(framing.quote(exports))), Said())
        await asyncio.shield(saving.ended)
        self._last_status = kept_status
        self._check_alive()
        program = remote_words.terminal_script(
            spec.text, kind=self.kind, cwd=self._cwd, exports=framing.quote(exports), pid=framing.quote(pid)
        )
        await upload(self.host, script, program.encode("utf-8", "surrogateescape"))
        command = InbandTerminal(self, spec, sink, pid_file=pid)
        await command.open(script)
        self.terminals.add(command)
        return command

    async def _take_line(self) -> Line:
        """Return the line that was idle longest: one just used is still getting ready for its next command."""
        while self._idle_lines:
            line = self._idle_lines.popleft()
            if not line.over:
                return line
        return await self._new_line(reusable=True)

    async def _line_for(self, sink: OutputSink, *, once: bool, feeds: bool) -> Line:
        line = await self._new_line(reusable=False, feeds=feeds) if once else await self._take_line()
        line.begin(sink)
        return line

    async def _may_be_written_to(self) -> bool:
        """Say whether something that an earlier command left behind could still write to the wire."""
        if self._scanning is not None:
            await asyncio.wait([self._scanning], timeout=_SCAN_S)
            if not self._scanning.done():
                return True
            self._is_written_to = self._scanning.result()
            self._scanning = self.loop.create_task(self._scan()) if self._is_written_to else None
        return self._is_held or self._is_written_to

    async def _scan(self) -> bool:
        """Look for processes other than the shell's own that have the wire as output; some drop the pipe that tells."""
        try:
            data = await self.aside.ask(remote_words.writers(self.kept.keeper), 5 * _ASK_S)
        except (TimeoutError, ConnectionError):
            return True
        own = {self.kept.keeper, self.kept.session, self.pid or 0}
        return any(int(word) not in own for word in data.split())

    async def _new_line(self, *, reusable: bool, feeds: bool = False) -> Line:
        line = Line(self.kept.directory, reusable=reusable, feeds=feeds)
        self._lines.add(line)
        await line.start(self.host, self.kept.session)
        return line

    def let_go(self, command: InbandCommand) -> None:
        """Forget a command that has ended; its line serves the next one if nothing of it is left."""
        self._commands.pop(command.token, None)
        self.copies.discard(command)
        line = command.line
        if isinstance(line, Direct):
            if time.monotonic() - command.since > _QUICK_S and self._closing is None:
                self._scanning = self.loop.create_task(self._scan())
            return
        if line.reusable and line.clean and len(self._idle_lines) < _IDLE_LINES and self._closing is None:
            self._idle_lines.append(line)
        else:
            line.leave()
        self._lines = {one for one in self._lines if not one.over}

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

    def _watch(self, command: InbandCommand) -> None:
        if self._foreground is command and self._closing is None:
            self.spawn(self.watch_silence(command))

    async def watch_silence(self, command: InbandCommand) -> None:
        """Look now and then whether the shell waits for its next line although it owes a report; ask, then end it."""
        looks = 0
        for pause_s in itertools.chain(_LOOKS_S, itertools.repeat(_LOOKS_S[-1])):
            await asyncio.wait([command.ended], timeout=_ASKED_S if looks else pause_s)
            if self._foreground is not command or self._closing is not None:
                return
            try:
                said = await self.aside.ask(remote_words.waiting(self.kept.keeper, self.pid or 0), _ASK_S)
            except (TimeoutError, ConnectionError):
                continue
            looks = looks + 1 if said.strip() == b"waiting" else 0
            if looks == 1:
                self._tell(self._words.closing(command.token))
            elif looks > 1 and self._foreground is command:
                await self._end_unsound()

    async def _end_unsound(self) -> None:
        """End a shell whose words can no longer be believed."""
        await self.close("killed")

    # Ending

    async def _close(self) -> int:
        killed = 0
        lost = self._main_end.done() and self._main_end.result().lost
        self.host.leave()
        if self._kept is not None and not lost:
            with contextlib.suppress(TimeoutError, ConnectionError):
                killed = await self._kill_all()
        if self._wire is not None and not self._main_end.done():
            await asyncio.wait([self._main_end], timeout=_END_S)
            self._wire.close()
        for line in self._lines:
            line.hang_up()
        if self._lines and not lost:
            await asyncio.wait([self.loop.create_task(line.gone(_READY_S / 2)) for line in self._lines])
        if self._kept is not None and not lost:
            with contextlib.suppress(TimeoutError, ConnectionError):
                await self._tidy()
        for line in self._lines:
            line.close()
        self.aside.close()
        self.finished(WireEnd(exit_code=None))
        self._end_copies(lost=False)
        await self.host.close()
        await asyncio.wait([self._ended])
        return killed

    async def _kill_all(self) -> int:
        """Kill what is in the shell's session or descends from it, until nothing is; the keeper stays to tidy up.

        What is left after the first time starts new processes faster than they can be listed: only a signal to its
        whole group reaches all of them at once.
        """
        killed: set[int] = set()
        roots = [terminal.pid for terminal in self.terminals if terminal.pid is not None]
        for number in range(_KILL_ROUNDS):
            table = await self.aside.table(_ASK_S)
            found = table.sessions({self.kept.session, *roots}, [self.kept.keeper])
            victims = [one.pid for one in found if one.pid not in self._kept_pids()]
            if not victims:
                break
            if number:
                groups = {-one.group for one in found if one.group > 1}
                await self.aside.ask(f"kill -9 -- {' '.join(map(str, groups))} 2>/dev/null", _ASK_S)
            else:
                await self.aside.kill(SIGNAL_NUMBERS["kill"], victims, _ASK_S)
            killed.update(victims)
        return len(killed)

    def _kept_pids(self) -> set[int]:
        return {self.kept.keeper, self.kept.session}

    async def _tidy(self) -> None:
        """End the programs of lines that did not go by themselves, and remove the private directory."""
        stuck = {line.pid for line in self._lines if line.pid is not None and not line.over}
        if stuck:
            table = await self.aside.table(_ASK_S)
            await self.aside.kill(9, [one.pid for one in table.sessions(stuck, stuck)], _ASK_S)
        await self.aside.ask(f"rm -rf {framing.quote(self.kept.directory)}", _ASK_S)


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


def _failed(reason: str) -> OpenFailed:
    return OpenFailed(f"shell could not be started: {reason}", details={"reason": reason, "stderr": ""})
