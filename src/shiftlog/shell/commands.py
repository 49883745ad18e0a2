"""Running commands in live shells: from the judged text to its recorded end, its input and its output.

A command belongs to the server, not to the client that asked for it: it is recorded before it runs and completed
after, and goes on when that client is gone. Which shells there are is the service's to know.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from shiftlog.guard.budgets.spec import read_budget
from shiftlog.guard.secrets.redactor import is_learnable, learnable_values
from shiftlog.model.caller import Caller
from shiftlog.model.errors import ShiftlogError, StorageError
from shiftlog.model.shell_errors import (
    ApprovalDeclined,
    ApprovalRequired,
    CommandNotFound,
    CommandNotRunning,
    CommandTooLarge,
    JournalUnavailable,
    ShellLimit,
    StdinClosed,
)
from shiftlog.params.arguments import conflict, missing, must_be
from shiftlog.shell import requests, results
from shiftlog.shell.approvals import Approval, Confirm
from shiftlog.shell.guarding import Judged
from shiftlog.shell.ports import CommandEnd, CommandSpec, Terminal
from shiftlog.shell.state import Command, Manner, Shell

if TYPE_CHECKING:
    from shiftlog.shell.service import Shells

MAX_COMMAND_BYTES = 4 << 20
PROGRESS_EVERY_S = 1.0
FIRST_PROGRESS_S = 0.02
END_S = 5.0

Progress = Callable[[int, str], Awaitable[None]]
Result = dict[str, Any]


class Commands:
    """The commands of all shells of one server."""

    def __init__(self, shells: "Shells") -> None:
        self._shells = shells
        self._beginning: dict[str, asyncio.Task[object]] = {}

    async def run(
        self,
        arguments: Mapping[str, Any],
        caller: Caller,
        progress: Progress | None,
        manner: Manner,
        confirm: Confirm | None,
    ) -> Result:
        """Run a command, or begin it in the background; a non-zero exit is a normal result."""
        values = requests.RUN_COMMAND.read(arguments)
        _check_run(values)
        budget = read_budget(values.get("budget"), "budget", clamp=manner.dialect)
        self._shells.check_timeout(values.get("timeout_s", 1))
        shell = await self._shells.usable(values["shell_id"])
        text: str = values["command"]
        size = len(text.encode())
        if size > MAX_COMMAND_BYTES:
            raise CommandTooLarge(
                f"command is {size} bytes; at most {MAX_COMMAND_BYTES}",
                details={"bytes": size, "max": MAX_COMMAND_BYTES},
            )
        if "\0" in text:
            raise must_be("command", "text without NUL", "format")
        judged = shell.guard.judge(text, shell.cwd, shell.foreground.judged if shell.foreground else None)
        self._learn(shell, judged, text)
        _mask_refusal(shell, judged)
        command = Command(
            command_id=shell.next_command_id(),
            text=shell.mask(text),
            judged=judged,
            shell_id=shell.shell_id,
            session_id=shell.session_id,
            cwd=shell.cwd,
            began_in=shell.cwd,
            background=bool(values.get("background")),
            terminal=bool(values.get("pty")),
        )
        if judged.syntax is not None or judged.refusal is not None:
            await self._refuse(shell, command, caller)
            return results.ran(shell, command, budget or shell.budget, manner.shown_chars)
        approval = None
        if judged.asks:
            approval = await self._approved(shell, command, text, caller, confirm)
        waits = values.get("wait_idle_s", 0) if manner.wait_idle_s is None else manner.wait_idle_s
        try:
            await self._enter(shell, command, waits)
            try:
                self._shells.check_usable(shell)
                await self._judge_again(shell, command, text, caller, confirm)
            except BaseException:
                self._let_go(shell, command)
                raise
            await self._begin_whole(shell, command, values, caller)
        except BaseException:
            if approval is not None and command.started_at is None:
                self._shells.approvals.give_back(approval)
            raise
        if not command.background:
            await self._answerable(command, progress)
            if not command.over.is_set():
                await self._shells.journal.sync()
        return results.ran(shell, command, budget or shell.budget, manner.shown_chars)

    async def _approved(
        self, shell: Shell, command: Command, text: str, caller: Caller, confirm: Confirm | None
    ) -> Approval:
        """Wait for a person to permit a command; one that is declined is recorded as refused."""
        try:
            approval = await self._shells.approvals.require(
                shell.shell_id, shell.session_id, text, command.text, command.judged.asks, confirm
            )
        except ApprovalDeclined as declined:
            command.judged = replace(command.judged, refusal=declined)
            await self._refuse(shell, command, caller)
            raise
        except ApprovalRequired:
            self._shells.check_usable(shell)  # nobody is asked about a shell that has ended meanwhile
            raise
        command.permitted = approval.entries
        return approval

    async def _enter(self, shell: Shell, command: Command, wait_s: float) -> None:
        """Wait for the command's turn: the shell itself, or a moment between two commands to be copied in."""
        if not command.background:
            await shell.enter(wait_s)
            return
        limit = self._shells.limits.background
        if len(shell.beginning) + sum(one.background for one in shell.running) >= limit:
            raise ShellLimit(f"limit reached ({limit})", details={"limit": limit, "kind": "background"})
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
        """Judge a command that waited once more where the shell has moved or defined something meanwhile."""
        command.cwd = command.began_in = shell.cwd
        if shell.guard.still_holds(command.judged, shell.cwd):
            return
        command.judged = shell.guard.judge(text, shell.cwd)
        _mask_refusal(shell, command.judged)
        if command.judged.refusal is not None:
            await self._refuse(shell, command, caller)
        if any(ask["entry"] not in command.permitted for ask in command.judged.asks):
            await self._approved(shell, command, text, caller, confirm)

    async def _begin_whole(self, shell: Shell, command: Command, values: Mapping[str, Any], caller: Caller) -> None:
        """Begin a command, to the end of it when the request is taken back: one half begun would hold the shell."""
        task = self._shells.spawn(self._begin(shell, command, values, caller))
        self._beginning[command.command_id] = task
        task.add_done_callback(lambda done: self._begun(command, done))
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            raise CallCancelled(command.command_id) from None

    def _begun(self, command: Command, task: "asyncio.Task[object]") -> None:
        self._beginning.pop(command.command_id, None)
        if not task.cancelled():
            task.exception()  # whoever waits is told; when nobody does any more, nothing ran

    def _let_go(self, shell: Shell, command: Command) -> None:
        """Free the place that a command held which does not begin."""
        shell.beginning.discard(command.command_id)
        if not command.background:
            shell.leave()

    async def _begin(self, shell: Shell, command: Command, values: Mapping[str, Any], caller: Caller) -> None:
        if not command.background:
            shell.foreground = command
        try:
            command.checkpoint_id = await self._shells.snapshots.before(shell, command)
            command.request_id = await self._shells.journal.command_started(
                shell.session_id, results.starting_facts(shell, command), caller, waited_for=not command.background
            )
        except StorageError as error:
            self._let_go(shell, command)
            raise unavailable(error) from None
        except BaseException:
            self._let_go(shell, command)
            raise
        command.output = self._shells.outputs.begin(command.command_id, shell.learned)
        given = values.get("input")
        command.stdin_open = values.get("stdin") == "open" or command.terminal
        spec = CommandSpec(
            text=values["command"],
            stdin_open=command.stdin_open,
            input=given.encode() if given is not None else None,
            background=command.background,
            terminal=Terminal(cols=values.get("cols", 120), rows=values.get("rows", 40)) if command.terminal else None,
        )
        shell.guard.command_began(command.command_id, command.permitted)
        command.state, command.started_at, command.began = "running", self._shells.now(), time.perf_counter()
        shell.commands[command.command_id] = shell.last = command
        shell.beginning.discard(command.command_id)
        try:
            command.running = await shell.live.start(spec, command.output)
        except ShiftlogError:
            # The shell went away before it could be told: nobody knows whether it was.
            gone = CommandEnd(exit_code=None, cwd=shell.cwd, lost=True, shell_ended="killed")
            await self._command_over(shell, command, gone)
            self._shells.check_usable(shell)
            raise
        if command.background or command.terminal:
            shell.guard.copy_began(command.command_id, command.permitted)
        command.running.ended.add_done_callback(
            lambda ended: self._shells.spawn(self._command_over(shell, command, ended.result()))
        )
        timeout_s = values.get("timeout_s", None if command.background else shell.timeout_s)
        if timeout_s is not None:
            keep = values.get("on_timeout") == "keep_running"
            asyncio.get_running_loop().call_later(timeout_s, self._overdue, command, keep)

    def _overdue(self, command: Command, keep_running: bool) -> None:
        if not command.is_running:
            return
        if keep_running:
            command.answer()
        else:
            self._stop(command, "timed_out")

    def _stop(self, command: Command, why: Literal["timed_out", "cancelled"]) -> None:
        if command.is_running and command.stopping is None and command.running is not None:
            command.stopping = why
            self._shells.spawn(command.running.stop())

    async def cancel(self, command_id: str) -> None:
        """End a running command because whoever asked for it took the request back; wait until it is over."""
        if (beginning := self._beginning.get(command_id)) is not None:
            await asyncio.wait([beginning])
        command = self._command(command_id)
        if command is not None and command.is_running:
            self._stop(command, "cancelled")
            await command.over.wait()

    def running_in(self, shell_id: str) -> str | None:
        """Return the foreground command of a shell, if one runs."""
        shell = self._shells.live.get(shell_id)
        return shell.foreground.command_id if shell and shell.foreground else None

    async def _answerable(self, command: Command, progress: Progress | None) -> None:
        """Wait until the command is over or the answer is due; tell the newest output meanwhile."""
        pause, told = None if progress is None else FIRST_PROGRESS_S, 0
        try:
            while not await command.answerable(pause):
                if progress is None or command.output is None:
                    continue
                newest = command.output.newest()
                if newest:
                    # An unfinished line is shown when its bytes were told already, and progress has to grow.
                    told = max(told + 1, command.output.raw_bytes)
                    await progress(told, newest)
                    pause = PROGRESS_EVERY_S
        except asyncio.CancelledError:
            raise CallCancelled(command.command_id) from None

    async def _command_over(self, shell: Shell, command: Command, end: CommandEnd) -> None:
        command.duration_ms = round((time.perf_counter() - command.began) * 1000, 1)
        assert command.output is not None
        command.output.finish(end.streams_open)
        if end.lost:
            command.state, command.exit_code = "unknown", None
            shell.last = shell.last if command.background else command  # its fate is what a lost shell tells of
        elif command.stopping is not None:
            command.state = command.stopping
            command.exit_code = 124 if command.stopping == "timed_out" else 130
        else:
            command.state, command.exit_code = "finished", end.exit_code
        command.signal = end.signal
        programs = shell.guard.programs(command.command_id)
        # Masked already but for what the shell has learned.
        command.programs = shell.redactor.value(programs, by_rule=True)[0]
        command.programs_total = shell.guard.programs_total(command.command_id)
        shell.guard.forget(command.command_id)
        if not (command.background or command.terminal):
            shell.cwd = end.cwd or shell.cwd
            command.cwd = shell.cwd
            shell.guard.ran(command.judged, to_its_end=command.state == "finished" and command.exit_code == 0)
        if end.shell_ended is not None:
            # Say so in the answer of the command that ended the shell, whichever is heard of first.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(shell.live.ended), END_S)
                self._shells.note_end(shell, shell.live.ended.result())
        try:
            await self._shells.journal.command_finished(
                shell.session_id, command.request_id, results.finishing_facts(shell, command)
            )
        except (ShiftlogError, LookupError):
            command.recorded = False
        finally:
            # Whatever becomes of the record, nobody waits for a command that is over.
            if command.background:
                shell.idle_since = time.monotonic()
            else:
                shell.leave()
            command.end()

    async def _refuse(self, shell: Shell, command: Command, caller: Caller) -> None:
        """Record a command that never runs, and raise why; of a text that does not parse its stderr says it."""
        judged = command.judged
        command.state = "syntax_error" if judged.syntax is not None else "refused"
        command.exit_code = 2 if judged.syntax is not None else None
        command.output = self._shells.outputs.begin(command.command_id, shell.learned)
        if judged.syntax is not None:
            command.output.write("stderr", f"{judged.syntax.text}\n".encode())
        command.output.finish()
        shell.commands[command.command_id] = shell.last = command
        try:
            facts = results.finishing_facts(shell, command)
            command.request_id = await self._shells.journal.command_refused(shell.session_id, facts, caller)
        except (StorageError, LookupError) as error:
            raise unavailable(error) from None
        command.end()
        if judged.refusal is not None:
            raise judged.refusal

    def _learn(self, shell: Shell, judged: Judged, text: str) -> None:
        learned = learnable_values(text) | frozenset(filter(is_learnable, judged.learned))
        if learned - shell.learned:
            shell.learned |= learned
            shell.redactor = shell.redactor.learning(learned)

    # Input and output

    async def send(self, arguments: Mapping[str, Any], caller: Caller) -> Result:
        """Write to a running command, close its stdin, signal it, in this order."""
        values = requests.SEND_INPUT.read(arguments)
        if values.get("text") is None and not values.get("eof") and values.get("signal") is None:
            raise missing("text")
        command = self._command(values["command_id"])
        if command is None or not command.is_running or command.running is None:
            raise _not_running(
                values["command_id"], command.state if command else await self._past_state(values["command_id"])
            )
        shell = self._shells.live[command.shell_id]
        text: str | None = values.get("text")
        writes = text is not None or values.get("eof")
        if writes and not command.stdin_open:
            raise StdinClosed(f"stdin of {command.command_id} is closed")
        if values.get("sensitive") and text:
            secrets = frozenset(line for line in text.splitlines() if line)
            shell.learned |= secrets
            shell.redactor = shell.redactor.learning(secrets)
            if command.output is not None:
                command.output.mask_by(self._shells.outputs.rules(shell.learned))
        facts = results.input_facts(shell, command, values)
        try:
            await self._shells.journal.command_input(shell.session_id, facts)
        except (ShiftlogError, LookupError) as error:
            raise unavailable(error) from None
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
            await command.over.wait()  # it has just ended, and how is about to be known
            raise _not_running(command.command_id, command.state) from None
        return {
            "command_id": command.command_id,
            "state": command.state,
            "bytes_written": len(text.encode()) if text else 0,
            "eof": bool(values.get("eof")),
            "signalled": values.get("signal"),
        }

    async def read(self, arguments: Mapping[str, Any], caller: Caller) -> Result:
        """Return a page of a command's output, waiting for more where asked to."""
        values = requests.READ_OUTPUT.read(arguments)
        given = [name for name in ("cursor", "from_line", "budget") if values.get(name) is not None]
        if len(given) > 1:
            raise conflict(given[1], given[0])
        if "budget" in given and values.get("max_chars") is not None:
            raise conflict("max_chars", "budget")
        budget = read_budget(values.get("budget"), "budget")
        command_id = values["command_id"]
        command = self._command(command_id)
        state, exit_code = (command.state, command.exit_code) if command else await self._past(command_id)
        output = command.output if command and command.output else self._shells.outputs.reopen(command_id)
        stream = values.get("stream", "stdout")
        at = {"cursor": values.get("cursor"), "from_line": values.get("from_line")}
        if values.get("wait_s"):
            until = values.get("wait_for", "output")
            await output.wait(stream, **at, until=until, timeout_s=values["wait_s"])
            if command is not None and output.finished:
                await command.over.wait()
        if command is not None:
            state, exit_code = command.state, command.exit_code
        if not output.finished:
            self._shells.outputs.flush()  # what was shown once is there again after a crash
        if budget is not None:
            page = output.page_by(budget, stream)
        else:
            page = output.page(stream, **at, max_chars=values.get("max_chars", 30_000))
        return {
            "command_id": command_id,
            "state": state,
            "exit_code": exit_code,
            "stream": stream,
            **page.as_dict(),
            **self._screen(command),
        }

    def _screen(self, command: Command | None) -> dict[str, Any]:
        shell = self._shells.live.get(command.shell_id) if command is not None and command.terminal else None
        return results.screen(shell, command) if shell is not None and command is not None else {}

    async def _past(self, command_id: str) -> tuple[str, int | None]:
        known = await self._shells.journal.command(command_id)
        if known is None:
            raise CommandNotFound(f"unknown command_id '{command_id}'", details={"command_id": command_id})
        if known.finished is None:
            return "unknown", None
        return str(known.finished.get("state", "unknown")), known.finished.get("exit_code")

    async def _past_state(self, command_id: str) -> str:
        return (await self._past(command_id))[0]

    def _command(self, command_id: str) -> Command | None:
        shell = self._shells.live.get(command_id.rpartition("#")[0])
        return shell.commands.get(command_id) if shell else None


class CallCancelled(asyncio.CancelledError):
    """The request of a running command was taken back; whoever serves it says whether the command goes on."""

    def __init__(self, command_id: str) -> None:
        super().__init__(command_id)
        self.command_id = command_id


def _not_running(command_id: str, state: str) -> CommandNotRunning:
    return CommandNotRunning(f"command {command_id} is {state}", details={"state": state})


def _check_run(values: Mapping[str, Any]) -> None:
    if values.get("input") is not None and values.get("stdin") == "open":
        raise conflict("input", 'stdin: "open"')
    for name in ("cols", "rows"):
        if values.get(name) is not None and not values.get("pty"):
            raise conflict(name, "pty: false")


def _mask_refusal(shell: Shell, judged: Judged) -> None:
    """Mask what a refusal, or a question to a person, repeats of the command, what the shell has learned included."""
    if judged.refusal is not None:
        judged.refusal.message = shell.mask(judged.refusal.message)
        details, _, _ = shell.redactor.value(judged.refusal.details, by_rule=True)
        judged.refusal.details = dict(details)
    for ask in judged.asks:
        ask |= {name: shell.mask(str(ask[name])) for name in ("program", "message")}


def unavailable(error: Exception) -> JournalUnavailable:
    """Say that nothing was run because it could not be recorded."""
    cause = error.message if isinstance(error, ShiftlogError) else type(error).__name__
    reason = error.details.get("reason", cause) if isinstance(error, ShiftlogError) else cause
    return JournalUnavailable("the journal cannot be written", details={"cause": reason})
