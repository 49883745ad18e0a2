"""The shells of one server: opening, running, reading, signalling, listing and closing them.

Every face calls these six verbs and gets the same objects. A command is recorded before it runs and completed after;
it belongs to the server, not to the client that asked, so it goes on when that client is gone. What drives a shell
is the engine's, what may run the guard's, what is kept of outputs the keeper's.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from shiftlog.guard.budget import Budget, read_budget
from shiftlog.guard.redaction import Redactor, learnable_values
from shiftlog.model.caller import Caller
from shiftlog.model.errors import ShiftlogError, StorageError
from shiftlog.model.shell_errors import (
    CommandNotFound,
    CommandNotRunning,
    CommandTooLarge,
    JournalUnavailable,
    ShellEnded,
    ShellLimit,
    ShellLost,
    ShellNotFound,
    StdinClosed,
)
from shiftlog.model.times import precise
from shiftlog.shell import requests, results
from shiftlog.shell.arguments import conflict, missing, must_be
from shiftlog.shell.guarding import Judged
from shiftlog.shell.live import Command, Shell
from shiftlog.shell.opening import Opener, Ready
from shiftlog.shell.output_keeper import OutputKeeper
from shiftlog.shell.ports import CommandEnd, CommandSpec, ShellEnd, Terminal
from shiftlog.shell.recording import ShellJournal
from shiftlog.shell.snapshots import NoSnapshots, Snapshots

MAX_COMMAND_BYTES = 4 << 20
SWEEP_S = 15.0
PROGRESS_EVERY_S = 1.0
SHOWN_FOR = timedelta(hours=24)
CLOSE_S = 5.0

Progress = Callable[[int, str], Awaitable[None]]
Result = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellLimits:
    """What the operator allows; no argument raises any of it."""

    timeout_s_max: int = 3600
    shells: int = 64
    background: int = 16
    idle_ttl_s: int = 1800


@dataclass(slots=True, kw_only=True)
class Shells:
    """All shells of one server."""

    journal: ShellJournal
    outputs: OutputKeeper
    opener: Opener
    redactor: Redactor
    now: Callable[[], datetime]
    limits: ShellLimits = field(default_factory=ShellLimits)
    snapshots: Snapshots = field(default_factory=NoSnapshots)
    _live: dict[str, Shell] = field(default_factory=dict[str, Shell])
    _opening: int = 0
    _tasks: set["asyncio.Task[None]"] = field(default_factory=set["asyncio.Task[None]"])
    _sweeper: "asyncio.Task[None] | None" = None

    def live_ids(self) -> list[str]:
        """Name the shells that live."""
        return [shell.shell_id for shell in self._live.values() if shell.is_live]

    def find(self, shell_id: str) -> Shell | None:
        """Return a shell of this server, over or not."""
        return self._live.get(shell_id)

    # Opening and closing

    async def open_shell(self, arguments: Mapping[str, Any], caller: Caller) -> Result:
        """Open a shell and record it; nothing is left behind when that fails."""
        values = requests.OPEN_SHELL.read(arguments)
        budget = read_budget(values.get("output_budget"), "output_budget")
        timeout_s = values.get("timeout_s", min(120, self.limits.timeout_s_max))
        self._check_timeout(timeout_s)
        if len(self.live_ids()) + self._opening >= self.limits.shells:
            raise ShellLimit(
                f"limit reached ({self.limits.shells})", details={"limit": self.limits.shells, "kind": "shells"}
            )
        self._opening += 1
        try:
            await self.opener.check(values, caller)
            home = await self.journal.home(values.get("session_id"), caller)
            try:
                ready = await self.opener.open(values, caller)
            except BaseException:
                if home.implicit:
                    await self.journal.abandon(home.session_id)
                raise
            shell = self._shell(ready, home.session_id, values, budget, timeout_s, implicit=home.implicit)
            shell.checkpoints = await self.snapshots.attach(shell, values)
            try:
                await self.journal.shell_opened(shell.session_id, results.opening_facts(shell))
            except ShiftlogError as error:
                await ready.live.close()
                await ready.guard.close()
                raise unavailable(error) from None
        finally:
            self._opening -= 1
        self._live[shell.shell_id] = shell
        ready.live.ended.add_done_callback(lambda ended: self._spawn(self._shell_over(shell, ended.result())))
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().create_task(self._sweep())
        return results.opened(shell, ready.startup_output)

    def _shell(
        self,
        ready: Ready,
        session_id: str,
        values: Mapping[str, Any],
        budget: Budget | None,
        timeout_s: int,
        *,
        implicit: bool,
    ) -> Shell:
        learned = frozenset(value for name in ("password",) if (value := values.get(name))) | learnable_values(
            " ".join(f"{name}={value}" for name, value in values.get("env", {}).items())
        )
        return Shell(
            shell_id=ready.shell_id,
            session_id=session_id,
            implicit=implicit,
            transport=ready.transport,
            target=ready.target,
            name=self.redactor.text(values["name"]).text if values.get("name") else None,
            live=ready.live,
            guard=ready.guard,
            redactor=self.redactor.learning(learned) if learned else self.redactor,
            workspace=values.get("workspace"),
            checkpoints={},
            timeout_s=timeout_s,
            budget=budget,
            created_at=self.now(),
            cwd=ready.live.cwd,
            learned=learned,
        )

    async def close_shell(self, arguments: Mapping[str, Any], caller: Caller) -> Result:
        """End a shell and its whole tree; a shell that is over already says so."""
        values = requests.CLOSE_SHELL.read(arguments)
        shell = self._live.get(values["shell_id"])
        if shell is None:
            known = await self.journal.shell(values["shell_id"])
            if known is None:
                raise _not_found(values["shell_id"])
            return results.closed_already(values["shell_id"], known)
        if not shell.is_live:
            return results.closed(shell, [], already=True, killed=0)
        return await self._close(shell, "closed", values.get("reason"))

    async def _close(self, shell: Shell, reason: Any, why: str | None = None) -> Result:
        stopped = shell.running
        for command in stopped:
            command.stopping = command.stopping or "cancelled"
        killed = await shell.live.close(reason)
        for command in stopped:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(command.over.wait(), CLOSE_S)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(shell.over.wait(), CLOSE_S)
        return results.closed(shell, stopped, already=False, killed=killed)

    async def aclose(self) -> None:
        """End everything that lives; the journal says that the server stopped."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        await asyncio.gather(
            *(self._close(shell, "server_stopped") for shell in self._live.values() if shell.is_live),
            return_exceptions=True,
        )
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def recover(self) -> None:
        """Record the end of what an earlier server left: its commands are of unknown fate, its shells over."""
        for known in await self.journal.shells(self.now() - timedelta(days=30)):
            if known.ended is not None or known.shell_id in self._live or not known.shell_id:
                continue
            last = known.last_command
            if last is not None and not last["finished"]:
                await self.journal.command_finished(known.session_id, None, results.unknown_facts(last))
            facts = results.left_facts(known)
            await self.journal.shell_ended(
                known.session_id, facts, close_session=bool(known.opened.get("implicit_session"))
            )

    # Running

    async def run_command(
        self, arguments: Mapping[str, Any], caller: Caller, progress: Progress | None = None
    ) -> Result:
        """Run a command, or begin it in the background; a non-zero exit is a normal result."""
        values = requests.RUN_COMMAND.read(arguments)
        _check_run(values)
        budget = read_budget(values.get("budget"), "budget")
        self._check_timeout(values.get("timeout_s", 1))
        shell = await self._usable(values["shell_id"])
        text: str = values["command"]
        size = len(text.encode())
        if size > MAX_COMMAND_BYTES:
            raise CommandTooLarge(
                f"command is {size} bytes; at most {MAX_COMMAND_BYTES}",
                details={"bytes": size, "max": MAX_COMMAND_BYTES},
            )
        if "\0" in text:
            raise must_be("command", "text without NUL", "format")
        judged = shell.guard.judge(text)
        self._learn(shell, judged, text)
        command = Command(
            command_id=shell.next_command_id(),
            text=shell.mask(text),
            judged=judged,
            shell_id=shell.shell_id,
            session_id=shell.session_id,
            cwd=shell.cwd,
            background=bool(values.get("background")),
            terminal=bool(values.get("pty")),
        )
        if judged.syntax is not None or judged.refusal is not None:
            return await self._refuse(shell, command)
        waits = values.get("wait_idle_s", 0)
        if command.background:
            if len([one for one in shell.running if one.background]) >= self.limits.background:
                raise ShellLimit(
                    f"limit reached ({self.limits.background})",
                    details={"limit": self.limits.background, "kind": "background"},
                )
            if shell.state == "busy":
                # A copy of the shell is made between commands.
                await shell.enter(waits)
                shell.leave()
        else:
            await shell.enter(waits)
        try:
            self._check_usable(shell)
            await self._begin(shell, command, values)
        except BaseException:
            if not command.background and shell.foreground is None:
                shell.leave()
            raise
        if command.background:
            return results.ran(shell, command, budget or shell.budget)
        await self._answerable(command, progress)
        return results.ran(shell, command, budget or shell.budget)

    async def _begin(self, shell: Shell, command: Command, values: Mapping[str, Any]) -> None:
        if not command.background:
            shell.foreground = command
        try:
            command.checkpoint_id = await self.snapshots.before(shell, command)
            command.request_id = await self.journal.command_started(
                shell.session_id, results.starting_facts(shell, command)
            )
        except StorageError as error:
            shell.foreground = None
            raise unavailable(error) from None
        except BaseException:
            shell.foreground = None
            raise
        command.output = self.outputs.begin(command.command_id, shell.learned)
        given = values.get("input")
        command.stdin_open = values.get("stdin") == "open" or command.terminal
        spec = CommandSpec(
            text=values["command"],
            stdin_open=command.stdin_open,
            input=given.encode() if given is not None else None,
            background=command.background,
            terminal=Terminal(cols=values.get("cols", 120), rows=values.get("rows", 40)) if command.terminal else None,
        )
        shell.guard.command_began(command.command_id)
        command.state, command.started_at, command.began = "running", self.now(), time.perf_counter()
        shell.commands[command.command_id] = shell.last = command
        command.running = await shell.live.start(spec, command.output)
        shell.guard.accepted(values["command"])
        command.running.ended.add_done_callback(
            lambda ended: self._spawn(self._command_over(shell, command, ended.result()))
        )
        timeout_s = values.get("timeout_s", None if command.background else shell.timeout_s)
        if timeout_s is not None:
            keep = values.get("on_timeout") == "keep_running"
            asyncio.get_running_loop().call_later(timeout_s, self._overdue, command, keep)

    def _overdue(self, command: Command, keep_running: bool) -> None:
        if not command.is_running:
            return
        if keep_running:
            command.overdue.set()
        else:
            self._stop(command, "timed_out")

    def _stop(self, command: Command, why: Any) -> None:
        if command.is_running and command.stopping is None and command.running is not None:
            command.stopping = why
            self._spawn(_awaited(command.running.stop()))

    async def cancel(self, command_id: str) -> None:
        """End a running command because whoever asked for it took the request back; wait until it is over."""
        command = self._command(command_id)
        if command is not None and command.is_running:
            self._stop(command, "cancelled")
            await command.over.wait()

    def running_in(self, shell_id: str) -> str | None:
        """Return the foreground command of a shell, if one runs."""
        shell = self._live.get(shell_id)
        return shell.foreground.command_id if shell and shell.foreground else None

    async def _answerable(self, command: Command, progress: Progress | None) -> None:
        """Wait until the command is over or the answer is due; tell the newest output meanwhile."""
        over = asyncio.ensure_future(command.over.wait())
        overdue = asyncio.ensure_future(command.overdue.wait())
        try:
            pause = 0.0 if progress is None else 0.02
            while not (command.over.is_set() or command.overdue.is_set()):
                await asyncio.wait((over, overdue), timeout=pause or None, return_when=asyncio.FIRST_COMPLETED)
                if progress is None or command.output is None or command.over.is_set():
                    continue
                newest = command.output.newest()
                if newest:
                    await progress(command.output.raw_bytes, newest)
                    pause = PROGRESS_EVERY_S
        except asyncio.CancelledError:
            raise CallCancelled(command.command_id) from None
        finally:
            over.cancel()
            overdue.cancel()

    async def _command_over(self, shell: Shell, command: Command, end: CommandEnd) -> None:
        command.duration_ms = round((time.perf_counter() - command.began) * 1000, 1)
        assert command.output is not None
        command.output.finish(end.streams_open)
        if end.lost:
            command.state, command.exit_code = "unknown", None
        elif command.stopping is not None:
            command.state = command.stopping
            command.exit_code = 124 if command.stopping == "timed_out" else 130
        else:
            command.state, command.exit_code = "finished", end.exit_code
        command.signal = end.signal
        if not (command.background or command.terminal):
            shell.cwd = end.cwd or shell.cwd
            command.cwd = shell.cwd
        if end.shell_ended is not None:
            # Say so in the answer of the command that ended the shell, whichever is heard of first.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(shell.live.ended), CLOSE_S)
                self._note_end(shell, shell.live.ended.result())
        try:
            await self.journal.command_finished(
                shell.session_id, command.request_id, results.finishing_facts(shell, command)
            )
        except (ShiftlogError, LookupError):
            command.recorded = False
        if not command.background:
            shell.leave()
        command.over.set()

    async def _refuse(self, shell: Shell, command: Command) -> Result:
        """Record a command that never runs, and answer or raise why."""
        judged = command.judged
        command.state = "syntax_error" if judged.syntax is not None else "refused"
        command.exit_code = 2 if judged.syntax is not None else None
        shell.commands[command.command_id] = shell.last = command
        try:
            await self.journal.command_finished(shell.session_id, None, results.finishing_facts(shell, command))
        except (ShiftlogError, LookupError) as error:
            raise unavailable(error) from None
        command.over.set()
        if judged.refusal is not None:
            raise judged.refusal
        return results.ran(shell, command, None)

    def _learn(self, shell: Shell, judged: Judged, text: str) -> None:
        learned = judged.learned or learnable_values(text)
        if learned - shell.learned:
            shell.learned |= learned
            shell.redactor = shell.redactor.learning(learned)

    # Input and output

    async def send_input(self, arguments: Mapping[str, Any], caller: Caller) -> Result:
        """Write to a running command, close its stdin, signal it, in this order."""
        values = requests.SEND_INPUT.read(arguments)
        if values.get("text") is None and not values.get("eof") and values.get("signal") is None:
            raise missing("text")
        command = self._command(values["command_id"])
        if command is None or not command.is_running or command.running is None:
            state = command.state if command else await self._past_state(values["command_id"])
            raise CommandNotRunning(f"command {values['command_id']} is {state}", details={"state": state})
        shell = self._live[command.shell_id]
        text: str | None = values.get("text")
        writes = text is not None or values.get("eof")
        if writes and not command.stdin_open:
            raise StdinClosed(f"stdin of {command.command_id} is closed")
        if values.get("sensitive") and text:
            secrets = frozenset(line for line in text.splitlines() if line)
            shell.learned |= secrets
            shell.redactor = shell.redactor.learning(secrets)
            if command.output is not None:
                command.output.mask_by(self.outputs.rules(shell.learned))
        facts = results.input_facts(shell, command, values)
        try:
            await self.journal.command_input(shell.session_id, facts)
        except (ShiftlogError, LookupError) as error:
            raise unavailable(error) from None
        if text is not None:
            await command.running.send(text.encode())
        if values.get("eof"):
            await command.running.send_eof()
            command.stdin_open = command.terminal
        if values.get("signal"):
            command.signal = values["signal"]
            await command.running.signal(values["signal"])
        return {
            "command_id": command.command_id,
            "state": command.state,
            "bytes_written": len(text.encode()) if text else 0,
            "eof": bool(values.get("eof")),
            "signalled": values.get("signal"),
        }

    async def read_output(self, arguments: Mapping[str, Any], caller: Caller) -> Result:
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
        if command is not None and command.output is None:
            return results.empty_page(command, values.get("stream", "stdout"))
        output = command.output if command and command.output else self.outputs.reopen(command_id)
        stream = values.get("stream", "stdout")
        at = {"cursor": values.get("cursor"), "from_line": values.get("from_line")}
        if values.get("wait_s"):
            until = values.get("wait_for", "output")
            await output.wait(stream, **at, until=until, timeout_s=values["wait_s"])
            if command is not None and output.finished:
                await command.over.wait()
        if command is not None:
            state, exit_code = command.state, command.exit_code
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
        }

    async def _past(self, command_id: str) -> tuple[str, int | None]:
        known = await self.journal.command(command_id)
        if known is None:
            raise CommandNotFound(f"unknown command_id '{command_id}'", details={"command_id": command_id})
        if known.finished is None:
            return "unknown", None
        return str(known.finished.get("state", "unknown")), known.finished.get("exit_code")

    async def _past_state(self, command_id: str) -> str:
        return (await self._past(command_id))[0]

    async def list_shells(self, arguments: Mapping[str, Any], caller: Caller) -> Result:
        """List the shells, newest first."""
        values = requests.LIST_SHELLS.read(arguments)
        wanted = values.get("session_id")
        rows = [shell.as_listed() for shell in self._live.values() if shell.is_live or values.get("include_ended")]
        if values.get("include_ended"):
            here = {row["shell_id"] for row in rows}
            since = self.now() - SHOWN_FOR
            rows += [
                results.listed(known)
                for known in await self.journal.shells(since)
                if known.shell_id and known.shell_id not in here and (known.ended_at or since) >= since
            ]
        if wanted is not None:
            rows = [row for row in rows if row["session_id"] == wanted]
        rows.sort(key=lambda row: (row["created_at"], row["shell_id"]), reverse=True)
        return results.paged(rows, values.get("limit", 50), values.get("cursor"))

    # Keeping house

    async def _usable(self, shell_id: str) -> Shell:
        shell = self._live.get(shell_id)
        if shell is None:
            known = await self.journal.shell(shell_id)
            if known is None:
                raise _not_found(shell_id)
            raise results.ended_error(shell_id, known)
        self._check_usable(shell)
        return shell

    def _check_usable(self, shell: Shell) -> None:
        last = shell.last
        if shell.state == "lost":
            raise ShellLost(
                f"connection of shell {shell.shell_id} was lost",
                details={
                    "command_id": last.command_id if last else None,
                    "fate": last.state if last else None,
                    "cwd": shell.mask(shell.cwd),
                },
            )
        if not shell.is_live:
            raise ShellEnded(
                f"shell {shell.shell_id} ended ({shell.ended_reason})",
                details={
                    "ended_reason": shell.ended_reason,
                    "exit_code": shell.exit_code,
                    "cwd": shell.mask(shell.cwd),
                    "ended_at": precise(shell.ended_at) if shell.ended_at else None,
                },
            )

    def _command(self, command_id: str) -> Command | None:
        shell = self._live.get(command_id.rpartition("#")[0])
        return shell.commands.get(command_id) if shell else None

    def _check_timeout(self, timeout_s: int) -> None:
        if timeout_s > self.limits.timeout_s_max:
            raise must_be("timeout_s", f"an integer of 1 to {self.limits.timeout_s_max}", "range")

    def _note_end(self, shell: Shell, end: ShellEnd) -> None:
        if shell.is_live:
            shell.end("lost" if end.lost else "ended", end.reason, end.exit_code, self.now())

    async def _shell_over(self, shell: Shell, end: ShellEnd) -> None:
        self._note_end(shell, end)
        for command in shell.running:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(command.over.wait(), CLOSE_S)
        siblings = [one for one in self._live.values() if one.session_id == shell.session_id and one.is_live]
        with contextlib.suppress(ShiftlogError, LookupError):
            await self.journal.shell_ended(
                shell.session_id, results.ending_facts(shell), close_session=shell.implicit and not siblings
            )
        await shell.guard.close()

    def _spawn(self, work: "Any") -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _sweep(self) -> None:
        """Close what idles too long, and forget what ended long ago."""
        while True:
            await asyncio.sleep(SWEEP_S)
            now, ttl = time.monotonic(), self.limits.idle_ttl_s
            for shell in list(self._live.values()):
                if shell.is_live and ttl and not shell.running and now - shell.idle_since >= ttl:
                    self._spawn(_awaited(self._close(shell, "idle")))
                elif shell.ended_at is not None and self.now() - shell.ended_at > SHOWN_FOR:
                    del self._live[shell.shell_id]


class CallCancelled(asyncio.CancelledError):
    """The request of a running command was taken back; whoever serves it says whether the command goes on."""

    def __init__(self, command_id: str) -> None:
        super().__init__(command_id)
        self.command_id = command_id


async def _awaited(work: Awaitable[object]) -> None:
    await work


def _check_run(values: Mapping[str, Any]) -> None:
    if values.get("input") is not None and values.get("stdin") == "open":
        raise conflict("input", 'stdin: "open"')
    for name in ("cols", "rows"):
        if values.get(name) is not None and not values.get("pty"):
            raise conflict(name, "pty: false")


def _not_found(shell_id: str) -> ShellNotFound:
    return ShellNotFound(f"unknown shell_id '{shell_id}'", details={"shell_id": shell_id})


def unavailable(error: Exception) -> JournalUnavailable:
    """Say that nothing was run because it could not be recorded."""
    cause = error.message if isinstance(error, ShiftlogError) else type(error).__name__
    reason = error.details.get("reason", cause) if isinstance(error, ShiftlogError) else cause
    return JournalUnavailable("the journal cannot be written", details={"cause": reason})
