"""Takes over the shells that an earlier server left: the engine's part, the guard, the record and the running commands.

A shell that cannot be taken over (another version, another policy, no record of it) is ended, never left half used.
"""

import asyncio
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import TaskGroup

from shiftlog.guard.budgets.spec import read_budget
from shiftlog.model.errors import ShiftlogError
from shiftlog.model.shells import KnownShell
from shiftlog.shell import notes
from shiftlog.shell.askpass.door import AskpassDoor
from shiftlog.shell.engine.holders import ClaimedShell, ClaimFailed, HolderRecord, ShellHolders
from shiftlog.shell.engine.kept import KeptCommand
from shiftlog.shell.engine.local import adopt
from shiftlog.shell.guard import CommandJudgement, ShellPolicy
from shiftlog.shell.notes import CommandNote, ShellNote
from shiftlog.shell.outputs.command_output import CommandOutput
from shiftlog.shell.outputs.keeper import OutputKeeper
from shiftlog.shell.ports import Stream
from shiftlog.shell.sandbox.supervision import Supervision
from shiftlog.shell.state import Command, Shell

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class TakenShell:
    """A shell that was taken over, and its commands that run or whose end is not recorded."""

    shell: Shell
    known: KnownShell
    commands: list[tuple[Command, CommandNote]] = field(default_factory=list[tuple[Command, CommandNote]])


@dataclass(slots=True, kw_only=True)
class Takeover:
    """One look for held shells, at the start of a server."""

    holders: ShellHolders
    policy: ShellPolicy
    outputs: OutputKeeper
    now: Callable[[], datetime]
    new_tasks: Callable[[], Awaitable[TaskGroup]]
    find: Callable[[str], Awaitable[KnownShell | None]]
    _supervisions: dict[int, Supervision] = field(default_factory=dict[int, Supervision])

    async def run(self, left: dict[str, KnownShell]) -> list[TakenShell]:
        """Take over every held shell that the journal knows as open; end the others.

        `left` are those of late; an older one, as after a jump of the clock, is looked for on its own.
        """
        taken: list[TakenShell] = []
        records = await asyncio.to_thread(self.holders.listed, prune=True)
        # All at once: clients wait meanwhile, and each holder that does not answer takes as long as a claim may.
        at_once = anyio.CapacityLimiter(max(1, len(records)))
        claims = await asyncio.gather(*(self._claim(record, at_once) for record in records))
        for claimed in claims:
            if claimed is not None:
                try:
                    taken.append(await self._take(claimed, left))
                except ClaimFailed as failed:
                    _log_end(claimed.link.pid, failed)
        # Program starts that were recorded meanwhile are heard only now, when every shell and command is known again.
        for supervision in self._supervisions.values():
            supervision.attach(asyncio.get_running_loop())
        return taken

    async def _claim(self, record: HolderRecord, at_once: anyio.CapacityLimiter) -> ClaimedShell | None:
        try:
            return await anyio.to_thread.run_sync(self.holders.claim, record, limiter=at_once)
        except (ClaimFailed, OSError) as failed:
            _log_end(record.pid, failed)
            return None

    async def _take(self, claimed: ClaimedShell, left: dict[str, KnownShell]) -> TakenShell:
        try:
            note = notes.read_shell_note(claimed.note)
            known = left.get(note.shell_id) or await self.find(note.shell_id)
            if known is None or known.ended is not None:
                raise ClaimFailed("the journal does not know it as open")
            if note.policy != notes.policy_digest(self.policy.policy):
                raise ClaimFailed("the operator's policy has changed")
            return await self._adopt(claimed, note, known)
        except (msgspec.MsgspecError, LookupError, ValueError, TypeError, OSError, ShiftlogError) as error:
            claimed.refuse()
            raise ClaimFailed(f"it cannot be used: {error}") from None
        except ClaimFailed:
            claimed.refuse()
            raise

    async def _adopt(self, claimed: ClaimedShell, note: ShellNote, known: KnownShell) -> TakenShell:
        held = claimed.descriptors
        supervision = self._supervision(held.pop("supervisor", None))
        guard = self.policy.resumed(note, supervision)
        askpass = AskpassDoor(None, (note.askpass, held.pop("askpass"))) if note.askpass else None
        tasks = await self.new_tasks()
        learned = frozenset(note.learned)
        redactor = self.policy.redactor
        live = adopt(claimed, tasks, None if guard.launcher is None else guard.launcher.close, self.holders)
        given = note.given
        shell = Shell(
            shell_id=note.shell_id,
            session_id=note.session_id,
            implicit=note.implicit,
            transport="local",
            target=None,
            name=note.name,
            live=live,
            guard=guard,
            tasks=tasks,
            redactor=redactor.learning(learned) if learned else redactor,
            workspace=given.get("workspace"),
            timeout_s=given["timeout_s"],
            used_by=note.used_by,
            budget=read_budget(given.get("given_budget"), "output_budget", clamp=bool(given.get("dialect"))),
            created_at=note.created_at,
            askpass=askpass,
            cwd=live.cwd,
            learned=learned,
            given=given,
            numbers=known.numbers,
            checkpoints=note.checkpoints,
        )
        taken = TakenShell(shell=shell, known=known)
        unfinished = {str((one.started or {}).get("command_id")) for one in known.unfinished}
        began: dict[int, tuple[CommandOutput, CommandNote, bool]] = {}

        def sink_of(kept: KeptCommand) -> CommandOutput | None:
            told = notes.read_command_note(kept.note)
            is_open = told.command_id in unfinished
            pipes = [pipe for pipe in claimed.state.pipes.values() if pipe.command == kept.number]
            if not is_open and not any(pipe.lingers and not pipe.ended for pipe in pipes):
                return None
            marks: dict[Stream, bytes] = {pipe.stream: pipe.mark for pipe in pipes if is_open or not pipe.ended}
            output = self.outputs.resume(told.command_id, learned, marks)
            began[kept.number] = (output, told, is_open)
            return output

        shell.numbers = max(shell.numbers, *self._numbers(claimed))
        live.resume(claimed, sink_of)
        for fd in held.values():  # of commands that are over
            os.close(fd)
        for number, (output, told, is_open) in began.items():
            if is_open:
                command = self._command(shell, told, output)
                command.running = live.resumed[number]
                guard.command_resumed(command.command_id, command.running.root)
                taken.commands.append((command, told))
            else:
                output.finish(pipe.stream for pipe in claimed.state.pipes.values() if pipe.command == number)
        shell.last_recorded = known.last_command
        shell.last = shell.commands.get(str((known.last_command or {}).get("command_id")))
        return taken

    def _numbers(self, claimed: ClaimedShell) -> list[int]:
        ids = [notes.read_command_note(one.note).command_id for one in claimed.state.commands.values()]
        return [int(one.rpartition("#")[2]) for one in ids] or [0]

    def _supervision(self, fd: int | None) -> Supervision | None:
        """Return the supervisor behind a socket; the shells of one daemon share it."""
        if fd is None:
            return None
        inode = os.fstat(fd).st_ino
        if inode in self._supervisions:
            os.close(fd)
        else:
            self._supervisions[inode] = Supervision(adopted=socket.socket(fileno=fd))
        return self._supervisions[inode]

    def _command(self, shell: Shell, told: CommandNote, output: CommandOutput) -> Command:
        judgement = CommandJudgement(
            verdict=told.verdict,  # pyright: ignore[reportArgumentType]
            read_only=told.read_only,
            cwd=os.fsdecode(told.cwd),
            after=notes.definitions(told.after),
            after_stop=notes.definitions(told.after_stop),
        )
        command = Command(
            command_id=told.command_id,
            text=told.text,
            judgement=judgement,
            shell_id=shell.shell_id,
            session_id=shell.session_id,
            cwd=os.fsdecode(told.cwd),
            began_in=os.fsdecode(told.cwd),
            background=told.background,
            terminal=told.terminal,
            request_id=told.request_id,
            checkpoint_id=told.checkpoint_id,
            state="running",
            is_queued=False,
            started_at=told.started_at,
            began=time.perf_counter() - max(0.0, (self.now() - told.started_at).total_seconds()),
            output=output,
            stdin_open=told.stdin_open,
            permitted=told.permitted,
        )
        shell.commands[command.command_id] = shell.last = command
        if not command.background:
            shell.state, shell.foreground = "busy", command
        return command


def _log_end(pid: int, failed: Exception) -> None:
    log.warning("A held shell (pid %d) was ended: %s", pid, failed)
