"""Runs commands in live shells: from the judged text to the recorded end, with input and output in between.

A command belongs to the server, not to the client that requested it: it is recorded before it runs and after, and it
continues when that client disconnects. Opening and closing shells is the service's part.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

import anyio

from shiftlog.guard.budgets.spec import read_budget
from shiftlog.guard.secrets.redactor import is_learnable, learnable_values
from shiftlog.model.caller import Caller
from shiftlog.model.errors import ShiftlogError, StorageError
from shiftlog.model.limits import COMMAND_END_S, PROGRESS_EVERY_S
from shiftlog.model.shell_errors import (
    ApprovalDeclined,
    ApprovalRequired,
    CommandNotFound,
    CommandNotRunning,
    ShellEnded,
    StdinClosed,
)
from shiftlog.params.wording import missing, must_be
from shiftlog.shell import code_reading, requests, results, unrun
from shiftlog.shell.approvals import Approval, Approvals, Confirm
from shiftlog.shell.beginning import masked, not_running, spec_of
from shiftlog.shell.engine import open_files
from shiftlog.shell.notes import command_note
from shiftlog.shell.outputs.keeper import OutputKeeper
from shiftlog.shell.ports import CallCancelled, CommandEnd, ShellJournal, Snapshots
from shiftlog.shell.registry import ShellRegistry
from shiftlog.shell.requests import Conventions
from shiftlog.shell.state import Command, Shell

FIRST_PROGRESS_S = 0.02

Progress = Callable[[int, str], Awaitable[None]]
Result = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLimits:
    """The operator's limits for commands."""

    timeout_s_max: int = 3600
    background: int = 16

    def check_timeout(self, timeout_s: int) -> None:
        """Reject a timeout outside of the operator's limit."""
        if not 1 <= timeout_s <= self.timeout_s_max:
            raise must_be("timeout_s", f"an integer of 1 to {self.timeout_s_max}", "range")


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """The commands of all shells of one server."""

    registry: ShellRegistry
    journal: ShellJournal
    outputs: OutputKeeper
    snapshots: Snapshots
    approvals: Approvals
    limits: CommandLimits
    now: Callable[[], datetime]
    _beginning: dict[str, "asyncio.Future[None]"] = field(default_factory=dict[str, "asyncio.Future[None]"])

    async def run_command(
        self,
        arguments: Mapping[str, Any],
        caller: Caller,
        progress: Progress | None = None,
        conventions: Conventions = requests.NATIVE,
        confirm: Confirm | None = None,
        began: Callable[[str], Awaitable[None]] | None = None,
    ) -> Result:
        """Run a command, or begin it in the background; a non-zero exit is a normal result.

        `began` gets the id of a command that runs, as soon as it does.
        """
        values = requests.read_run_command(arguments)
        budget = read_budget(values.get("budget"), "budget", clamp=conventions.dialect)
        self.limits.check_timeout(values.get("timeout_s", 1))
        shell = await self.registry.usable(values["shell_id"])
        self.registry.check_use(shell.shell_id, caller)
        shell.used_by = caller.client_id
        command = await self._judged(shell, values)
        if command.judgement.syntax is not None or command.judgement.refusal is not None:
            await self._refuse(shell, command, caller)
        else:
            waits = values.get("wait_idle_s", 0) if conventions.wait_idle_s is None else conventions.wait_idle_s
            answerer = confirm if caller.inside is False else None  # a program inside would answer its own question
            await self._begin_allowed(shell, command, values, caller, answerer, waits)
            if began is not None:
                await began(command.command_id)
            if not command.background:
                await self._answerable(command, progress)
                if not command.over.is_set():
                    await self.journal.sync()
        return results.ran(shell, command, budget or shell.budget, conventions.shown_chars)

    async def _judged(self, shell: Shell, values: Mapping[str, Any]) -> Command:
        """Judge a command text; if a command runs, as it will be behind that one."""
        text: str = values["command"]
        behind = shell.foreground.judgement if shell.foreground else None
        judgement = await code_reading.judge(shell, text, behind)
        learned = learnable_values(text) | frozenset(filter(is_learnable, judgement.learned))
        if learned - shell.learned:
            shell.learn(learned)
        return Command(
            command_id=shell.next_command_id(),
            text=shell.mask(text),
            judgement=masked(shell, judgement),
            shell_id=shell.shell_id,
            session_id=shell.session_id,
            cwd=shell.cwd,
            began_in=shell.cwd,
            background=bool(values.get("background")),
            terminal=bool(values.get("pty")),
        )

    # Beginning

    async def _begin_allowed(
        self,
        shell: Shell,
        command: Command,
        values: Mapping[str, Any],
        caller: Caller,
        confirm: Confirm | None,
        wait_s: float,
    ) -> None:
        """Begin a command once it is approved and has its turn; an unused approval stays valid."""
        text, approval = values["command"], None
        shell.queued[command.command_id] = command
        try:
            if command.judgement.asks:
                approval = await self._approved(shell, command, text, caller, confirm)
            await self._take_turn(shell, command, text, caller, confirm, wait_s)
            await self._begin_whole(shell, command, values, caller)
        except BaseException as error:
            if approval is not None and command.started_at is None:
                self.approvals.give_back(approval)
            if command.is_queued and (command.waited or isinstance(error, asyncio.CancelledError)):
                unrun.cancel(self.journal, self.outputs, shell, command, caller)
            raise
        finally:
            shell.queued.pop(command.command_id, None)

    async def _take_turn(
        self, shell: Shell, command: Command, text: str, caller: Caller, confirm: Confirm | None, wait_s: float
    ) -> None:
        """Wait until a command may begin, and judge it once more if the shell changed meanwhile."""
        command.waited = shell.state == "busy" and wait_s > 0
        await self._enter(shell, command, wait_s)
        try:
            self.registry.check_usable(shell)
            await self._judge_again(shell, command, text, caller, confirm)
            self.registry.check_usable(shell)  # judging may have waited for a person
        except BaseException:
            shell.abandon(command)
            raise

    async def _approved(
        self, shell: Shell, command: Command, text: str, caller: Caller, confirm: Confirm | None
    ) -> Approval:
        """Wait for a person's approval; a declined command is recorded as refused."""
        try:
            approval = await self.approvals.require(
                shell.shell_id, shell.session_id, text, command.text, command.judgement.asks, confirm
            )
        except ApprovalDeclined as declined:
            command.judgement = replace(command.judgement, refusal=declined)
            await self._refuse(shell, command, caller)
            raise
        except ApprovalRequired:
            self.registry.check_usable(shell)  # the shell may have ended meanwhile
            raise
        command.permitted = [str(ask["entry"]) for ask in approval.asks]
        return approval

    async def _enter(self, shell: Shell, command: Command, wait_s: float) -> None:
        """Wait for the command's turn: the shell itself, or for a background command a pause to copy the shell."""
        if not command.background:
            await shell.enter(wait_s)
            return
        if len(shell.beginning) + sum(one.background for one in shell.running) >= self.limits.background:
            raise unrun.limit_reached(self.limits.background, "background")
        shell.beginning.add(command.command_id)
        if shell.state == "busy":
            try:
                await shell.enter(wait_s)
            except BaseException:
                shell.beginning.discard(command.command_id)
                raise
            shell.leave()

    async def _judge_again(
        self, shell: Shell, command: Command, text: str, caller: Caller, confirm: Confirm | None
    ) -> None:
        """Judge a command that waited again if the shell, or a file that it runs, may have changed meanwhile."""
        command.cwd = command.began_in = shell.cwd
        runs_files = command.waited and bool(command.judgement.files)
        if shell.guard.still_holds(command.judgement, shell.cwd) and not runs_files:
            return
        command.judgement = masked(shell, await code_reading.judge(shell, text))
        if command.judgement.refusal is not None:
            await self._refuse(shell, command, caller)
        if any(ask["entry"] not in command.permitted for ask in command.judgement.asks):
            await self._approved(shell, command, text, caller, confirm)

    async def _begin_whole(self, shell: Shell, command: Command, values: Mapping[str, Any], caller: Caller) -> None:
        """Begin a command completely even if the request is cancelled: half begun, it would block the shell."""
        command.is_queued = False
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._beginning[command.command_id] = begun
        shell.tasks.start_soon(self._carry_out, shell, command, values, caller, begun)
        try:
            await asyncio.shield(begun)
        except asyncio.CancelledError:
            raise CallCancelled(command.command_id) from None

    async def _carry_out(
        self,
        shell: Shell,
        command: Command,
        values: Mapping[str, Any],
        caller: Caller,
        begun: "asyncio.Future[None]",
    ) -> None:
        """The life of one command, as a task of its shell: begin it, wait for its end, record that."""
        try:
            await self._begin(shell, command, values, caller)
            begun.set_result(None)
        except Exception as error:  # noqa: BLE001 - raised to the caller of the command
            begun.set_exception(error)
            begun.exception()  # read here: a cancelled request does not read it
            return
        finally:
            if not begun.done():
                begun.set_exception(ShellEnded("the shell has ended"))
                begun.exception()
            self._beginning.pop(command.command_id, None)
        try:
            await self._finish(shell, command, await self._ended(shell, command, values))
        finally:
            if not command.over.is_set():  # the shell's task group was cancelled
                command.state, command.recorded = "unknown", False
                command.end()

    async def _begin(self, shell: Shell, command: Command, values: Mapping[str, Any], caller: Caller) -> None:
        if not command.background:
            shell.foreground = command
        try:
            open_files.check_own()  # a shell that gets half of a command has to be ended
            command.checkpoint_id = await self.snapshots.before(shell, command)
            command.request_id = await self.journal.command_started(
                shell.session_id, results.starting_facts(shell, command), caller, waited_for=not command.background
            )
            if values.get("input"):
                fed = results.input_facts(shell, command, {"text": values["input"], "eof": True})
                await self.journal.command_input(shell.session_id, fed)
        except StorageError as error:
            shell.abandon(command)
            raise unrun.unavailable(error) from None
        except BaseException:
            shell.abandon(command)
            raise
        command.output = self.outputs.begin(command.command_id, shell.learned)
        command.stdin_open = values.get("stdin") == "open" or command.terminal
        in_shell = not (command.background or command.terminal)
        shell.guard.command_began(command.command_id, command.permitted if in_shell else [], shell.live.reaper_pid)
        command.state, command.started_at, command.began = "running", self.now(), time.perf_counter()
        shell.commands[command.command_id] = shell.last = command
        shell.beginning.discard(command.command_id)
        try:
            call = (caller.client_id, caller.call_id)
            note = command_note(shell, command, values, call) if shell.live.can_be_held else b""
            command.running = await shell.live.start(spec_of(shell, command, values, note), command.output)
        except ShiftlogError as told:
            shell.ended_because = str(told.details.get("why", ""))
            # The shell ended before it confirmed the command: whether the command ran is unknown.
            gone = CommandEnd(exit_code=None, cwd=shell.cwd, lost=True, shell_ended="killed")
            await self._finish(shell, command, gone)
            self.registry.check_usable(shell)
            raise

    # Ending

    async def _ended(self, shell: Shell, command: Command, values: Mapping[str, Any]) -> CommandEnd:
        """Wait for the end of a command; at its timeout stop it, or only let its caller have an answer."""
        timeout_s = values.get("timeout_s", None if command.background else shell.timeout_s)
        return await self._ended_within(command, timeout_s, keeps=values.get("on_timeout") == "keep_running")

    async def _ended_within(self, command: Command, timeout_s: float | None, *, keeps: bool) -> CommandEnd:
        assert command.running is not None
        ended = command.running.ended
        await asyncio.wait([ended], timeout=timeout_s)
        if not ended.done():
            if keeps:
                command.answer_due.set()
            else:
                await self._stop(command, "timed_out")
            await asyncio.wait([ended])
        return ended.result()

    async def go_on(self, shell: Shell, command: Command, over_at: float | None, *, keeps_running: bool) -> None:
        """Wait for the end of a command that an earlier server began, and record it."""
        left_s = None if over_at is None else max(0.0, over_at - time.time())
        try:
            end = await self._ended_within(command, left_s, keeps=keeps_running)
            await self._finish(shell, command, end)
        finally:
            if not command.over.is_set():
                command.state, command.recorded = "unknown", False
                command.end()

    async def _stop(self, command: Command, why: Literal["timed_out", "cancelled"]) -> None:
        if command.is_running and command.stopping is None and command.running is not None:
            command.stopping = why
            await command.running.stop()

    async def cancel(self, command_id: str) -> None:
        """End a command whose request was cancelled, and wait until it is over."""
        if (beginning := self._beginning.get(command_id)) is not None:
            await asyncio.wait([beginning])
        command = self.registry.find_command(command_id)
        if command is not None and command.is_running:
            # In the shell's own task group, so that stopping survives a second cancellation of this request.
            self.registry.shells[command.shell_id].tasks.start_soon(self._stop, command, "cancelled")
            await command.over.wait()

    def running_in(self, shell_id: str) -> str | None:
        """Return the foreground command of a shell, if one runs."""
        shell = self.registry.find(shell_id)
        return shell.foreground.command_id if shell and shell.foreground else None

    async def _answerable(self, command: Command, progress: Progress | None) -> None:
        """Wait until the command is over or the answer is due; report the newest output meanwhile."""
        pause, reported = None if progress is None else FIRST_PROGRESS_S, 0
        try:
            while not command.answer_due.is_set():
                with anyio.move_on_after(pause):
                    await command.answer_due.wait()
                    return
                newest = command.output.newest() if command.output is not None else ""
                if progress is not None and command.output is not None and newest:
                    # A line that was still open is shown again once it grew; progress must grow with it.
                    reported = max(reported + 1, command.output.raw_bytes)
                    await progress(reported, newest)
                    pause = PROGRESS_EVERY_S
        except asyncio.CancelledError:
            raise CallCancelled(command.command_id) from None

    async def _finish(self, shell: Shell, command: Command, end: CommandEnd) -> None:
        """Note how a command ended, record it, and let the next one in."""
        command.duration_ms = round((time.perf_counter() - command.began) * 1000, 1)
        assert command.output is not None
        await command.output.catch_up()
        command.output.finish(end.streams_open)
        if end.lost:
            command.state, command.exit_code = "unknown", None
            shell.last = shell.last if command.background else command  # a lost shell reports its fate
        elif command.stopping is not None:
            command.state = command.stopping
            command.exit_code = 124 if command.stopping == "timed_out" else 130
        else:
            command.state, command.exit_code = "finished", end.exit_code
            command.is_vouched = shell.guard.vouches
        command.signal = end.signal
        programs, command.programs_total = shell.guard.command_ended(command.command_id)
        # Masked already, except for the values that this shell has learned.
        command.programs = shell.redactor.value(programs, by_rule=True)[0]
        if not (command.background or command.terminal):
            shell.cwd = end.cwd or shell.cwd
            command.cwd = shell.cwd
            before = shell.guard.defined
            shell.guard.ran(command.judgement, to_its_end=command.state == "finished" and command.exit_code == 0)
            if shell.guard.defined != before:
                shell.note_down()
        if end.shell_ended is not None:
            # The answer of the command that ended the shell says so, whichever end is reported first.
            await asyncio.wait([shell.live.ended], timeout=COMMAND_END_S)
            if shell.live.ended.done():
                self.registry.note_end(shell, shell.live.ended.result())
        try:
            await self.journal.command_finished(
                shell.session_id, command.request_id, results.finishing_facts(shell, command)
            )
            if command.running is not None:
                command.running.recorded()
        except (ShiftlogError, LookupError):
            command.recorded = False
        finally:
            if command.background:
                shell.idle_since = time.monotonic()
            else:
                shell.leave()
            command.end()

    async def _refuse(self, shell: Shell, command: Command, caller: Caller) -> None:
        await unrun.refuse(self.journal, self.outputs, shell, command, caller)

    # Input and output

    async def send_input(self, arguments: Mapping[str, Any], caller: Caller) -> Result:
        """Write to a running command, close its stdin, signal it, in this order."""
        values = requests.SEND_INPUT.read(arguments)
        if values.get("text") is None and not values.get("eof") and values.get("signal") is None:
            raise missing("text")
        command = self.registry.find_command(values["command_id"])
        shell = self.registry.shells[command.shell_id] if command is not None else None
        if shell is not None:
            self.registry.check_use(shell.shell_id, caller)
        if command is None or shell is None or command.running is None or not command.is_running:
            state = command.state if command else (await self._recorded(values["command_id"]))["state"]
            raise not_running(values["command_id"], state)
        await self.journal.check_caller(shell.session_id, caller)
        text: str | None = values.get("text")
        if (text is not None or values.get("eof")) and not command.stdin_open:
            raise StdinClosed(f"stdin of {command.command_id} is closed")
        if values.get("sensitive") and text:
            self.learn(shell, frozenset(line for line in text.splitlines() if line))
        try:
            await self.journal.command_input(shell.session_id, results.input_facts(shell, command, values))
        except (ShiftlogError, LookupError) as error:
            raise unrun.unavailable(error) from None
        try:
            if text is not None:
                await command.running.send(text.encode())
            if values.get("eof"):
                await command.running.send_eof()
                command.stdin_open = command.terminal
            if values.get("signal"):
                command.signal = values["signal"]
                await command.running.signal(values["signal"])
        except CommandNotRunning:
            await command.over.wait()  # it has just ended, and its state is about to be set
            raise not_running(command.command_id, command.state) from None
        return {
            "command_id": command.command_id,
            "state": command.state,
            "bytes_written": len(text.encode()) if text else 0,
            "eof": bool(values.get("eof")),
            "signalled": values.get("signal"),
        }

    def learn(self, shell: Shell, values: frozenset[str]) -> None:
        """Mask these values in everything that a shell and its running commands show from now on."""
        shell.learn(values)
        for command in shell.running:
            if command.output is not None:
                command.output.mask_by(self.outputs.rules(shell.learned))

    async def read_output(self, arguments: Mapping[str, Any], caller: Caller) -> Result:
        """Return a page of a command's output, waiting for more if requested."""
        values = requests.read_read_output(arguments)
        budget = read_budget(values.get("budget"), "budget")
        command_id = values["command_id"]
        command = self.registry.find_command(command_id)
        ended = results.ending(command) if command else await self._recorded(command_id)
        output = command.output if command and command.output else self.outputs.reopen(command_id)
        stream = values.get("stream", "stdout")
        at = {"cursor": values.get("cursor"), "from_line": values.get("from_line")}
        if values.get("wait_s"):
            until = values.get("wait_for", "output")
            await output.wait(stream, **at, until=until, timeout_s=values["wait_s"])
            if command is not None and output.finished:
                await command.over.wait()
        if command is not None:
            ended = results.ending(command)
        if not output.finished:
            self.outputs.flush()  # output that was shown must survive a crash
            if command is not None and (owner := self.registry.find(command.shell_id)) is not None:
                owner.live.mark()
        if budget is not None:
            page = output.page_by(budget, stream)
        else:
            page = output.page(stream, **at, max_chars=values.get("max_chars", 30_000))
        shell = self.registry.find(command.shell_id) if command is not None and command.terminal else None
        return {
            "command_id": command_id,
            **ended,
            "stream": stream,
            **page.as_dict(),
            **(results.screen(shell, command) if shell is not None and command is not None else {}),
        }

    async def _recorded(self, command_id: str) -> Result:
        """Return state and exit code of a command that only the journal has."""
        recorded = await self.journal.command(command_id)
        if recorded is None:
            raise CommandNotFound(f"unknown command_id '{command_id}'", details={"command_id": command_id})
        return results.recorded_ending(recorded.finished or {})
