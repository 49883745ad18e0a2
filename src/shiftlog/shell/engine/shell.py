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
from collections.abc import Callable
from typing import TYPE_CHECKING

from anyio import move_on_after

from shiftlog.model.shell_errors import ShellEnded, ended_because
from shiftlog.shell.engine import open_files, protocol, words
from shiftlog.shell.engine.command import EngineCommand
from shiftlog.shell.engine.held_state import HeldState
from shiftlog.shell.engine.kept import KeptCommand, KeptShell, Ledger
from shiftlog.shell.engine.making import make_piped, make_terminal
from shiftlog.shell.engine.place import ShellPlace
from shiftlog.shell.engine.reaper import descends
from shiftlog.shell.engine.resuming import resume_commands
from shiftlog.shell.engine.script import DueReports, Script
from shiftlog.shell.engine.streams import ShellOutput
from shiftlog.shell.ports import CommandSpec, EndedReason, KillScope, OutputSink, ShellEnd, ShellKind, Stream

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from shiftlog.shell.engine.directory import PipeDirectory
    from shiftlog.shell.engine.holders import ClaimedShell, ShellHolders
    from shiftlog.shell.engine.links import ClaimedLink, ReaperLink

_READY_S = 2.0
_TRIES = 8
_CLOSE_S = 4.5
_UNCLAIMED_EXITS = 64
_GATE_S = 0.001
_CHECK_S = 0.5
_NUDGE_S = 1.0
_SILENT_S = 3.0
_MOST_ASKED = 100
_AT_ONCE_CHARS = 32 * 1024  # fits into the socket in any encoding


class EngineShell(HeldState):
    """One bash in its private directory; see `LiveShell` for what each verb promises."""

    kill_scope: KillScope = "tree"

    def __init__(
        self,
        kept: KeptShell,
        ledger: Ledger,
        directory: PipeDirectory,
        *,
        script: Script,
        outputs: tuple[int, int],
        reaper: ReaperLink | ClaimedLink,
        tasks: TaskGroup,
        on_over: Callable[[], None] | None,
        holders: ShellHolders | None = None,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.tasks = tasks
        super().__init__(kept, ledger, directory, reaper, holders)
        self.kind: ShellKind = "sh" if kept.kind == "sh" else "bash"
        self.copies: dict[int, EngineCommand] = {}
        self.startup_output = b""
        self._own_outputs: dict[Stream, ShellOutput] = {
            "stdout": ShellOutput(self.poll, outputs[0]),
            "stderr": ShellOutput(self.poll, outputs[1]),
        }
        self._script = script
        self._process = ""  # the shell's directory in /proc
        self._place = ShellPlace(os.fsdecode(kept.cwd))
        self._commands: dict[int, EngineCommand] = {}
        self._lingering: list[EngineCommand] = []
        self._exits: dict[int, int] = {}
        self._reason: EndedReason | None = None
        self.ended: asyncio.Future[ShellEnd] = self.loop.create_future()
        self.due = DueReports(kept.due, kept.taken)
        self._stale: frozenset[int] = frozenset()  # reports that an earlier server took, but did not remove
        self._is_adopted = False
        self.resumed: dict[int, EngineCommand] = {}  # the commands of an earlier server, by number
        self._watching: asyncio.TimerHandle | None = None
        self._silent_s = 0.0
        self._ready = asyncio.Event()  # the shell has reported and waits for its next line
        self._starting = asyncio.Lock()  # one command at a time: the script and its reports are shared
        self._on_over = on_over
        script.on_sent = self._all_sent
        script.listen(self._read_reports)
        reaper.listen(self._on_exit, self._on_gone)

    @property
    def pid(self) -> int | None:
        """The process of the shell itself, once it has reported."""
        return self.kept.pid

    @property
    def _foreground(self) -> EngineCommand | None:
        return self._commands.get(self.kept.foreground)

    @property
    def _copying(self) -> EngineCommand | None:
        return self._commands.get(self.kept.copying)

    def leave(self) -> None:
        """Stop using the shell and leave it to its holder."""
        self.mark()
        self.save()
        if self._watching is not None:
            self._watching.cancel()
        self.poll.close()
        self._script.close()
        self.reaper.leave()

    @property
    def cwd(self) -> str:
        """The directory of the shell after its last command."""
        return self._place.path

    async def prepare(self, ready_s: float, kind: ShellKind = "bash") -> None:
        """Send the opening lines and wait until the shell has reported its pid and is ready; `sh` means POSIX mode."""
        self.kind = kind
        self.kept.kind = kind
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
                raise ended_because(open_files.TOO_FEW)
            try:
                started = self._start(command, sink)
            except OSError as error:
                await self.close("killed")
                is_gone = isinstance(error, FileNotFoundError)
                raise ended_because("its private directory is gone" if is_gone else str(error.strerror)) from error
            if started.copied is not None:
                await asyncio.wait([started.copied])
            return started

    async def close(self, reason: EndedReason = "closed") -> int:
        """End the shell and its whole tree; return how many processes were ended. Repeating it is harmless."""
        closing = self._begin_closing(reason)
        await asyncio.wait([closing], timeout=_CLOSE_S)
        if not closing.done():
            self.reaper.kill()
            self._on_gone(0)
        return await asyncio.shield(closing)

    def _begin_closing(self, reason: EndedReason) -> asyncio.Future[int]:
        """Have the reaper end the tree; the first reason counts."""
        if self._closing is None:
            self._reason = self._reason or reason
            self._closing = self.loop.create_future()
            self.reaper.close()
        return self._closing

    def nudge_later(self, command: EngineCommand, after_s: float) -> None:
        """Request the report again, now and later: an interrupted shell drops the line that it is reading."""

        if not self.kept.shaken:
            self.kept.shaken = True
            self._ask()

        def nudge() -> None:
            if not command.ended.done():
                self._ask()

        self.loop.call_later(after_s, nudge)

    def _start(self, spec: CommandSpec, sink: OutputSink) -> EngineCommand:
        kept = self.kept
        may_trap_exit = kept.may_trap_exit or protocol.may_trap_exit(spec.text)
        kept.careful = kept.careful or may_trap_exit or protocol.may_set_format(spec.text)
        kept.number += 1
        if spec.terminal is not None:
            command, line = make_terminal(self, spec, spec.terminal, sink)
        else:
            command, line = make_piped(self, spec, sink)
        number = command.number
        command.on_copy = spec.on_copy
        self._commands[number] = command
        kept.commands[number] = command.kept
        if command.in_shell:
            kept.foreground = number
            self._watch()
        else:
            kept.copying = number
        kept.reported = None
        self._ready.clear()
        for output in self._own_outputs.values():
            output.data = b""
        if kept.careful:  # what a trap wrote in front of the report is seen before this second one
            line += words.report(self.due.draw(number), careful=False)
        kept.traced = kept.traced or protocol.may_trap(spec.text)
        kept.may_trap_exit = may_trap_exit
        self._send(line)
        if command.keyboard is not None:
            self.tasks.start_soon(command.feed, spec.input if spec.terminal is not None else None)
        return command

    def _send(self, line: str) -> None:
        """Write a line, after a record of what it makes the shell do.

        A server that is killed while a long line is on its way leaves half a line, and its shell must be ended.
        """
        self.kept.is_sending = len(line) > _AT_ONCE_CHARS
        self.save()
        if self._script.write(line) and self.kept.is_sending:
            self._all_sent()

    def _all_sent(self) -> None:
        self.kept.is_sending = False
        self.save()

    def _ask(self) -> None:
        """Request a report; an interrupt may have dropped the line that requested the last one."""
        if self._closing is None and len(self.due) < _MOST_ASKED:
            line = words.report(self.due.draw(self.kept.number))
            self.save()
            self._script.write(line)

    def _let_go(self) -> None:
        """Let a new copy begin: the process between is gone, so that only the reaper can collect its status."""
        if self._copying is not None:
            self._begin_closing("killed")  # the shell never said which process it is
            return
        for number in list(self.kept.gates):
            command = self._commands.get(number)
            if command is None:
                del self.kept.gates[number]
                continue
            if command.copied is not None and not command.copied.done():
                command.copied.set_result(None)
                self._open_gate(command, self.kept.gates[number])

    def _open_gate(self, command: EngineCommand, path: str, until: float = float("inf")) -> None:
        if command.ended.done() or self._closing is not None or self.loop.time() > until:
            return
        try:
            os.close(self.directory.open(path, os.O_WRONLY))
        except OSError:  # the copy is not there yet
            self.loop.call_later(_GATE_S, self._open_gate, command, path, until)
        else:
            self.kept.gates.pop(command.number, None)

    def resume(self, claimed: ClaimedShell, sinks: Callable[[KeptCommand], OutputSink | None]) -> None:
        """Go on where an earlier server was: with its commands, their outputs, and what happened meanwhile.

        `sinks` returns None for a command whose end is recorded and whose outputs are over.
        """
        kept, self._is_adopted = self.kept, True
        self._stale = frozenset(kept.taken)
        if kept.pid is not None:
            self._meet(kept.pid)
        resume_commands(self, claimed, sinks)
        if kept.is_sending:
            self._begin_closing("server_stopped")  # half a line may be on its way
        elif kept.reported is not None and not (kept.careful and self.due):
            self._ready.set()
        for pid, status in claimed.exits.items():
            if pid == self.reaper.child or not descends(pid, self.reaper_pid):
                self._on_exit(pid, status)
        if self._foreground is not None:
            self._watch()
        for number, path in list(kept.gates.items()):
            command = self._commands.get(number)
            if command is not None and number != kept.copying and self._ready.is_set():
                self._open_gate(command, path, self.loop.time() + _READY_S)

    def adopt(self, command: EngineCommand) -> None:
        """Take a command of an earlier server as one of this one."""
        self._commands[command.number] = command
        if command.root is not None:
            self.copies[command.root] = command

    def linger(self, command: EngineCommand) -> None:
        """Go on reading what the leftover processes of a command write."""
        self._lingering.append(command)

    async def _until_ready(self) -> None:
        """Wait until the shell proves that it can run a command; end a shell that does not.

        An interrupted shell must prove it again, so that no late interrupt hits the next command.
        """
        kept = self.kept
        if kept.shaken and self._closing is None:
            kept.shaken = False
            kept.ways = ""  # an interrupt may have dropped the line that named them
            self._ready.clear()
            kept.number, kept.reported = kept.number + 1, None
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
        if self._take_reports():
            self.save()
            self._script.consume()

    def _take_reports(self) -> bool:
        """Take the next reports and what follows from them; return False if there are none now."""
        reports = self._script.read()
        self.kept.taken.clear()
        for pid, value in reports:
            if not self._process:
                self._meet(pid)
            if pid == self.pid:
                self._take_report(value)
            elif self._copying is not None and (copy := self._new_copy(value)) is not None:
                self._take_copy(self._copying, copy)
        kept = self.kept
        if kept.reported is None or (kept.careful and self.due) or self._closing is not None or self._ready.is_set():
            return bool(reports)
        self._ready.set()
        self._on_end(kept.reported)
        return bool(reports)

    def _meet(self, pid: int) -> None:
        """Note the shell's own process: it reports before it has run any command."""
        self.kept.pid, self._process = pid, f"/proc/{pid}"
        self._place.follow(pid)

    def _take_report(self, value: int) -> None:
        asked_for, status = self.due.take(value)
        if asked_for is None:
            if value // words.STATUSES not in self._stale:
                self._begin_closing("killed")  # its reports can no longer be trusted
        elif self.kept.reported is None and asked_for == self.kept.number:
            self.kept.reported = status

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

    def _new_copy(self, value: int) -> int | None:
        """Return the process of a new copy from its report; None if a process that was left behind wrote it."""
        pid = words.copied_pid(value, self.kept.copy_key)
        if pid is None or pid in (self.pid, self.reaper.child, *self.copies):
            return None
        return pid if pid in self._exits or descends(pid, self.reaper_pid) else None

    def _take_copy(self, command: EngineCommand, pid: int) -> None:
        self.kept.copying = 0
        command.kept.root = pid
        self.copies[pid] = command
        if command.on_copy is not None:
            command.on_copy(pid)
        if pid in self._exits:
            self._on_exit(pid, self._exits.pop(pid))

    def _on_end(self, status: int) -> None:
        self._place.look()
        command = self._foreground
        if command is None:
            self._let_go()
            return
        self.kept.last_status = status
        if command.sent_signal is not None or self._began(command):
            self.kept.foreground = 0
            self._finish(command, status)
        elif self._is_adopted:  # the last server was killed before it could send the line
            self.kept.foreground = 0
            self._finish(command, None, lost=True)
        else:
            self._begin_closing("killed")

    def _began(self, command: EngineCommand) -> bool:
        """Return True if the shell ran the unit: then it has opened the command's outputs."""
        if not command.touched:
            self.poll.pump()
        if not command.touched:
            command.probe()
        return command.touched

    def _finish(self, command: EngineCommand, status: int | None, *, lost: bool = False) -> None:
        del self._commands[command.number]
        trapped: dict[str, bytes] = {}
        if self._reason == "exited" and self.kept.may_trap_exit:
            folder = os.fsencode(self.kept.directory)
            for stream, output in self._own_outputs.items():
                trapped[stream] = protocol.exit_output(output.read(), folder, command.kept.mark)
        command.finish(status, self.cwd, self._reason, lost=lost, **trapped)
        for path in command.kept.files:
            self.directory.remove(path)
        if command.lingers or self._lingering:
            self._lingering = [one for one in self._lingering if one.lingers]
            self._lingering += [command] if command.lingers else []
            self.outputs.forget(self.kept.pipes)
            for one in [one for one in self.kept.commands.values() if one.is_recorded]:
                self.forget(one.number)
        elif command.kept.terminal is not None:
            self.outputs.forget(self.kept.pipes)

    def _on_exit(self, pid: int, status: int) -> None:
        if pid == self.reaper.child:
            while self._take_reports():
                self._script.consume()
            self._on_shell_exit(os.waitstatus_to_exitcode(status))
            self.save()
        elif pid in self.copies:
            self._finish(self.copies.pop(pid), _exit_code(os.waitstatus_to_exitcode(status)))
            self.save()
        else:
            self._exits[pid] = status
            if len(self._exits) > _UNCLAIMED_EXITS:
                del self._exits[next(iter(self._exits))]

    def _on_shell_exit(self, code: int) -> None:
        """The shell process has exited: finish its command, and have the reaper end what it left behind."""
        requested = self._reason is not None
        self._reason = self._reason or ("killed" if code < 0 else "exited")
        command = self._foreground
        self.kept.foreground = 0
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
        for pipe in (self.outputs, *self._own_outputs.values()):
            pipe.close()
        self.poll.close()
        self._script.close()
        self._ledger.close()
        self.directory.close()
        shutil.rmtree(self.kept.directory, ignore_errors=True)
        self._closing.set_result(count)
        if self._on_over is not None:
            self._on_over()


def _exit_code(code: int) -> int:
    return 128 - code if code < 0 else code
