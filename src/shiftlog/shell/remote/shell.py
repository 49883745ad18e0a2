"""A live shell on a remote target: units go in over a wire, reports come back, and channels carry the output.

The texts are in `protocol.py`, commands in `command.py`. Whether the wire is an ssh channel or a docker client is
decided by the `RemoteHost`.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable

from anyio.abc import TaskGroup

from shiftlog.model.shell_errors import OpenFailed, ShellEnded, ShellLost, ended_because
from shiftlog.shell.engine import open_files, protocol
from shiftlog.shell.engine.command import SIGNAL_NUMBERS
from shiftlog.shell.engine.streams import CollectedOutput
from shiftlog.shell.ports import (
    CommandSpec,
    EndedReason,
    KillScope,
    OutputSink,
    ShellEnd,
    ShellKind,
    ShellSpec,
    Signal,
    Stream,
    Terminal,
)
from shiftlog.shell.remote import programs
from shiftlog.shell.remote import protocol as remote_protocol
from shiftlog.shell.remote.carrier import upload
from shiftlog.shell.remote.channels import Channels
from shiftlog.shell.remote.command import RemoteCommand
from shiftlog.shell.remote.control import ControlShell, ProcessTable
from shiftlog.shell.remote.ports import RemoteHost, Wire, WireEnd
from shiftlog.shell.remote.protocol import BashProtocol, PortableProtocol
from shiftlog.shell.remote.terminal import RemoteTerminal

_READY_S = 2.0
_END_S = 1.5
_ARRIVE_S = 0.3
_WATCH_S = 1.5
_KILLED = 128 + 9
_LABEL_CHARS = 40
#: Longer units are sent as a file, because a shell reads a pipe byte by byte.
_SHORT_UNIT = 32 * 1024


class RemoteShell:
    """One remote shell; see `LiveShell` for what each verb promises."""

    kill_scope: KillScope = "group"
    pid: int | None = None
    reaper_pid: int | None = None

    def __init__(self, host: RemoteHost, tasks: TaskGroup) -> None:
        self.loop = asyncio.get_running_loop()
        self.host = host
        self.tasks = tasks
        self.control = ControlShell(host)
        self._channels = Channels(host, self.control, tasks)
        self.startup_output = b""
        self.heard = 0  # number of reads from the wire
        self.copies: set[RemoteCommand] = set()
        self.terminals: set[RemoteTerminal] = set()
        self._wire: Wire | None = None
        self._protocol = PortableProtocol()
        self._opening = b""
        self._opened: asyncio.Future[programs.KeeperReply | str] = self.loop.create_future()
        self._reports = protocol.ReportReader()
        self._keeper_token = protocol.draw_token()
        self._token = protocol.draw_token()
        self._is_ready = False
        self._ready = asyncio.Event()
        self.cwd = "/"
        self._asked_cwd: str | None = None
        self._last_status = 0
        self._has_set_limits = False
        self._commands: dict[str, RemoteCommand] = {}
        self._foreground: RemoteCommand | None = None
        self._reason: EndedReason | None = None
        self._closing: asyncio.Future[int] | None = None
        self._main_end: asyncio.Future[WireEnd] = self.loop.create_future()
        self.ended: asyncio.Future[ShellEnd] = self.loop.create_future()
        self._starting = asyncio.Lock()  # one unit at a time: the shell's standard input is shared

    @property
    def kind(self) -> ShellKind:
        return self.control.kept.kind

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
        program = programs.keeper(
            self._keeper_token, name=protocol.draw_token()[:16], wanted=spec.shell, cwd=spec.cwd, env=spec.env
        )
        self._wire.write(program.encode())
        kept = await self._opened
        if isinstance(kept, str):
            raise OpenFailed.because(kept)
        self.control.reply = kept
        self._channels.own_pids |= {kept.keeper, kept.session}
        self._protocol = BashProtocol() if kept.words == "bash" else PortableProtocol()
        self._write(self._protocol.prepare(self._token, kept))
        await self._ready.wait()
        self._check_alive()
        self.tasks.start_soon(self.control.open)
        if spec.login:
            output = CollectedOutput()
            command = await self.start(CommandSpec(text=self._protocol.profiles), output)
            await asyncio.shield(command.ended)
            self.startup_output = bytes(output.data)
            self._last_status = 0
            self._check_alive()

    async def start(self, command: CommandSpec, sink: OutputSink) -> RemoteCommand | RemoteTerminal:
        """Start a command; returns once its text is sent, for a copy once the copy runs."""
        async with self._starting:
            await self._until_ready()
            await self._check_files()
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

    @property
    def can_be_held(self) -> bool:
        """Return False: its connection ends with this server."""
        return False

    def hold(self, **more: int) -> None:
        """Do nothing, like the next verbs: this shell ends with this server."""

    def note(self, note: bytes) -> None: ...

    def mark(self) -> None: ...

    def leave(self) -> None: ...

    async def close(self, reason: EndedReason = "closed") -> int:
        """End the shell and everything in its session; return how many processes. Repeating it is harmless."""
        return await asyncio.shield(self._begin_closing(reason))

    def lose(self) -> None:
        """Declare the shell lost, because the target does not answer."""
        self.finished(WireEnd(exit_code=None, lost=True))

    def nudge_later(self, command: RemoteCommand, after_s: float) -> None:
        """Request the report again later: an interrupted shell may have dropped the line that requests it."""

        def nudge() -> None:
            if not command.reported and self._foreground is command:
                self.ask_report(command)

        self.loop.call_later(after_s, nudge)

    def ask_report(self, command: RemoteCommand) -> None:
        """Request the report of a command that runs in the shell itself."""
        self._write(self._protocol.closing(command.token))

    def owes(self, command: RemoteCommand) -> bool:
        """Return True if the report of a command is still missing."""
        return self._foreground is command and self._closing is None

    def drop_signal(self, number: int) -> int:
        """Return the signal that makes this shell drop its command; only the bash protocol traps a special one."""
        return number if self._protocol.begins else SIGNAL_NUMBERS["interrupt"]

    def copy_signal(self, name: Signal) -> Signal:
        """Return the signal that has the wanted effect on a copy: one that a plain sh made ignores two of them."""
        return "terminate" if name in ("interrupt", "quit") and not self._protocol.begins else name

    def other_pids(self, table: ProcessTable) -> set[int]:
        """Return the processes of the session besides the foreground command's: the shell's own and those of copies."""
        found = {self.control.kept.keeper, self.control.kept.session, self.pid or 0}
        for root in (copy.root for copy in self.copies):
            if root is not None and root in table.processes:
                found |= {one.pid for one in table.family(root, self.pid)} | {table.processes[root].parent}
        return found

    # Called by the wire

    def received(self, stream: Stream, data: bytes) -> None:
        """Pass on a direct command's output and find reports; ignore everything else on the wire."""
        self.heard += 1
        data = self._channels.received(stream, data)
        if stream != "stdout" or not data:
            return
        if not self._opened.done():
            self._opening = (self._opening + data)[-1_000_000:]
            kept = programs.read_kept(self._opening, self._keeper_token, self._asked_cwd)
            if kept is not None:
                self._opened.set_result(kept)
            return
        for report in self._reports.feed(data):
            if report.kind == "pid":
                self._on_pid(report.token, int(report.value))
            elif report.kind == "end":
                self._on_end(report)
            elif report.token == self._token and not self._is_ready:
                self._begin_closing("killed")  # its reports can no longer be trusted

    def finished(self, end: WireEnd) -> None:
        """The shell or its connection has ended."""
        if not self._opened.done():
            self._opened.set_exception(ConnectionError("the target ended the wire"))
            self._opened.exception()
        if not self._main_end.done():
            self._main_end.set_result(end)
            self._ready.set()
            self.tasks.start_soon(self._over, end)

    def _on_pid(self, token: str, pid: int) -> None:
        command = self._commands.get(token)
        if token == remote_protocol.holds_token(self._token):
            self._channels.note_held(pid != 0)
        elif command is not None:
            command.on_pid(pid)
        elif token == self._token and self.pid is None:
            self.pid = pid
            self._channels.own_pids.add(pid)

    def _on_end(self, report: protocol.ShellReport) -> None:
        status, cwd = report.end()
        command = self._commands.get(report.token)
        if report.token == self._keeper_token:
            self._channels.note_over()
            self.finished(WireEnd(exit_code=status))
        elif command is not None and cwd == remote_protocol.CUT.encode():
            command.cut_status = status
        elif command is not None and not command.in_shell:
            command.on_report(status, self.cwd)
        elif report.token == self._token and not self._is_ready:
            self._is_ready = True
            self._ready.set()
            self.cwd = cwd.decode("utf-8", "surrogateescape") or self.cwd
            if command is None:
                return
            if self._protocol.begins and not command.began:
                self._begin_closing("killed")
                return
            if command.cut_status is not None:
                status = command.cut_status
            self._last_status = status
            self._foreground = None
            command.on_report(status, self.cwd)

    async def _over(self, end: WireEnd) -> None:
        """End the commands of a shell that is over, and begin to close what it left behind."""
        requested = self._reason is not None
        lost = end.lost or self._reason == "server_stopped"
        self._reason = self._reason or ("killed" if lost or end.exit_code == _KILLED else "exited")
        command, self._foreground = self._foreground, None
        if command is not None and not lost:
            await command.outputs_arrived(_ARRIVE_S)
        self._channels.give_up()
        if command is not None:
            command.finish(None if lost or requested else end.exit_code, self.cwd, self._reason, lost=lost)
        if lost:
            self._end_copies(lost=True)
        if not self.ended.done():
            why = open_files.PERHAPS_TOO_FEW if self._has_set_limits and not (requested or lost) else ""
            self.ended.set_result(ShellEnd(reason=self._reason, exit_code=end.exit_code, lost=lost, why=why))
        self._begin_closing(self._reason)

    def _end_copies(self, *, lost: bool) -> None:
        for copy in [*self.copies, *self.terminals]:
            copy.finish(None, self.cwd, self._reason, lost=lost)

    # Starting

    async def _start(self, spec: CommandSpec, sink: OutputSink) -> RemoteCommand:
        token = protocol.draw_token()
        feeds = spec.stdin_open or spec.input is not None
        # A background command reports its end on the wire, in the middle of a direct command's output.
        needs_line = feeds or spec.background or bool(self.copies)
        if isinstance(self._protocol, BashProtocol) and not (needs_line or not await self._channels.is_wire_free()):
            direct = self._channels.open_direct(token, self._keeper_token, sink)
            command = RemoteCommand(self, spec, token, direct)
            direct.on_begin = command.on_pid
            unit = self._protocol.direct(spec.text, token, self._last_status, self.control.kept)
        else:
            channel = await self._channels.open_pipes(sink, once=feeds or spec.background, feeds=feeds)
            command = RemoteCommand(self, spec, token, channel)
            if command.in_shell:
                unit = self._protocol.unit(spec.text, token, self._last_status, channel.places)
            else:
                unit = self._protocol.copy(spec.text, token, channel.places)
        path, document = await self._source(unit, token)
        self._commands[token] = command
        self._token = token if command.in_shell else protocol.draw_token()
        self._is_ready = False
        self._ready.clear()
        if command.in_shell:
            self._foreground = command
            self.loop.call_later(_WATCH_S, self._watch, command)
        self._write(self._protocol.source(path, document, in_shell=command.in_shell))
        self._write(self._protocol.closing(self._token))
        if command.in_shell:
            self._protocol.learn(spec.text)
            self._has_set_limits = self._has_set_limits or "ulimit" in spec.text
        if spec.input is not None:
            self.tasks.start_soon(command.feed, spec.input)
        return command

    async def _source(self, unit: str, token: str) -> tuple[str, str]:
        """Return the quoted path of a unit, and its here-document; a long one is first sent as a file."""
        data = unit.encode("utf-8", "surrogateescape")
        if len(data) <= _SHORT_UNIT:
            return self._protocol.here(unit, protocol.draw_token())
        path = f"{self.control.kept.directory}/u{token}"
        await upload(self.host, path, data)
        return protocol.quote(path), ""

    async def _start_terminal(self, spec: CommandSpec, sink: OutputSink) -> RemoteTerminal:
        """Run a text on a terminal of its own, with the shell's directory and exported variables."""
        name = protocol.draw_token()
        exports, script, pid = (f"{self.control.kept.directory}/{letter}{name}" for letter in "xtp")
        kept_status = self._last_status
        save = self._protocol.save_exports(protocol.quote(exports))
        saving = await self._start(CommandSpec(text=save), CollectedOutput())
        await asyncio.shield(saving.ended)
        self._last_status = kept_status
        self._check_alive()
        mark, size = protocol.draw_token(), spec.terminal or Terminal()
        program = programs.terminal_script(
            spec.text,
            mark,
            kind=self.kind,
            cwd=self.cwd,
            exports=protocol.quote(exports),
            pid=protocol.quote(pid),
            cols=size.cols,
            rows=size.rows,
        )
        await upload(self.host, script, program.encode("utf-8", "surrogateescape"))
        command = RemoteTerminal(self, spec, sink, pid_file=pid, mark=mark)
        await command.open(script)
        self.terminals.add(command)
        return command

    def _watch(self, command: RemoteCommand) -> None:
        if self.owes(command):
            self.tasks.start_soon(command.watch_silence)

    def let_go(self, command: RemoteCommand) -> None:
        """Forget a command that has ended."""
        self._commands.pop(command.token, None)
        self.copies.discard(command)
        self._channels.let_go(command)

    async def _until_ready(self) -> None:
        """Wait until the shell proves that it can run a command; end a shell that does not."""
        for _ in range(2):
            if self._is_ready or self._main_end.done() or self._closing is not None:
                break
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_READY_S):
                    await self._ready.wait()
                    continue
            self._write(self._protocol.closing(self._token))
        if not self._is_ready and self._closing is None and not self._main_end.done():
            await self.close("killed")
        self._check_alive()

    async def _check_files(self) -> None:
        """End a shell that may open too few files, if a command may have set that limit."""
        if not self._has_set_limits:
            return
        with contextlib.suppress(TimeoutError, ConnectionError):
            if open_files.tell_exhausted(await self.control.ask(open_files.query(self.pid or 0), _READY_S)):
                await self.close("killed")
                raise ended_because(open_files.TOO_FEW)

    def _check_alive(self) -> None:
        if self.ended.done() and self.ended.result().lost:
            raise ShellLost("the connection of the shell was lost")
        if self._main_end.done() or self._closing is not None:
            raise ShellEnded("the shell has ended")

    def _write(self, lines: str) -> None:
        if self._wire is not None and not self._main_end.done():
            self._wire.write(lines.encode("utf-8", "surrogateescape"))

    # Ending

    def _begin_closing(self, reason: EndedReason) -> asyncio.Future[int]:
        self._reason = self._reason or reason
        if self._closing is None:
            self._closing = self.loop.create_future()
            self.tasks.start_soon(self._close, self._closing)
        return self._closing

    async def _close(self, closed: asyncio.Future[int]) -> None:
        lost = self._main_end.done() and self._main_end.result().lost
        self.host.leave()
        self._channels.leave()
        self.control.leave()
        killed: int | None = None  # unless the target answers; it may even if the shell's own wire is lost
        if self.control.reply is not None:
            terminals = [terminal.pid for terminal in self.terminals if terminal.pid is not None]
            with contextlib.suppress(TimeoutError, ConnectionError):
                killed = await self.control.kill_session(terminals)
        if self._wire is not None and not self._main_end.done():
            await asyncio.wait([self._main_end], timeout=_END_S)
            self._wire.close()
        await self._channels.hang_up(lost=lost)
        if killed is not None:
            with contextlib.suppress(TimeoutError, ConnectionError):
                await self.control.tidy(self._channels.stuck_pids)
        self._channels.close()
        self.control.close()
        self.finished(WireEnd(exit_code=None))
        self._end_copies(lost=False)
        await self.host.close()
        await asyncio.wait([self.ended])
        closed.set_result(killed or 0)


class RemoteTarget:
    """Opens shells on the host that `connect` reaches; each shell has a connection of its own."""

    def __init__(self, connect: Callable[[TaskGroup], Awaitable[RemoteHost]], *, label: str, shown: str) -> None:
        self.label = label
        self.shown = shown
        self._connect = connect

    async def open(self, spec: ShellSpec, tasks: TaskGroup) -> RemoteShell:
        """Connect and start a shell; raises what connecting raises, or `OpenFailed` with the reason."""
        shell = RemoteShell(await self._connect(tasks), tasks)
        await shell.open(spec)
        return shell


def label_part(text: str) -> str:
    """Return a name with only the characters that ids of shells may hold."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", text)[:_LABEL_CHARS]
