"""The shells of one server: opening, running, reading, signalling, listing and closing them.

Every face calls these six verbs and gets the same objects. Running commands is `running`'s part; what drives a shell
is the engine's, what may run the guard's, what is kept of outputs the keeper's.
"""

import asyncio
import contextlib
import itertools
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from shiftlog.guard.budgets.spec import Budget, read_budget
from shiftlog.guard.secrets.redactor import Redactor, learnable_values
from shiftlog.model.caller import Caller
from shiftlog.model.errors import ShiftlogError
from shiftlog.model.shell_errors import SandboxNotAllowed, ShellEnded, ShellLimit, ShellLost, ShellNotFound
from shiftlog.model.times import precise
from shiftlog.params.arguments import must_be
from shiftlog.shell import requests, results
from shiftlog.shell.approvals import Approvals, Confirm
from shiftlog.shell.commands import Commands, Progress, Result, unavailable
from shiftlog.shell.guarding import looser
from shiftlog.shell.opening import Opener, Ready
from shiftlog.shell.outputs.keeper import OutputKeeper
from shiftlog.shell.ports import EndedReason, ShellEnd
from shiftlog.shell.recording import ShellJournal
from shiftlog.shell.snapshots import NoSnapshots, Snapshots
from shiftlog.shell.state import NATIVE, Manner, Shell

FLUSH_S = 1.0
SWEEP_TICKS = 15
SHOWN_FOR = timedelta(hours=24)
CLOSE_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellLimits:
    """What the operator allows; no argument raises any of it."""

    timeout_s_max: int = 3600
    shells: int = 64
    session_shells: int = 64
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
    on_close: Callable[[], None] = lambda: None
    is_inside: Callable[[int, int], bool] = lambda _pid, _ancestor: False
    _implicit: set[str] = field(default_factory=set[str])
    # Keeps a shell from joining an implicit session that is just about to end with its last one.
    _homes: asyncio.Lock = field(default_factory=asyncio.Lock)
    live: dict[str, Shell] = field(default_factory=dict[str, Shell])
    commands: Commands = field(init=False)
    approvals: Approvals = field(init=False)
    _opening: Counter[str] = field(default_factory=Counter[str])
    _tasks: set["asyncio.Task[object]"] = field(default_factory=set["asyncio.Task[object]"])
    _sweeper: "asyncio.Task[None] | None" = None

    def __post_init__(self) -> None:
        self.commands = Commands(self)
        self.approvals = Approvals(self.journal, self.now)

    def live_ids(self) -> list[str]:
        """Name the shells that live."""
        return [shell.shell_id for shell in self.live.values() if shell.is_live]

    def find(self, shell_id: str) -> Shell | None:
        """Return a shell of this server, over or not."""
        return self.live.get(shell_id)

    # Opening and closing

    async def open_shell(self, arguments: Mapping[str, Any], caller: Caller, manner: Manner = NATIVE) -> Result:
        """Open a shell and record it; nothing is left behind when that fails."""
        values = requests.OPEN_SHELL.read(arguments)
        budget = read_budget(values.get("output_budget"), "output_budget", clamp=manner.dialect)
        values["dialect"] = manner.dialect
        timeout_s = values.get("timeout_s", min(120, self.limits.timeout_s_max))
        self.check_timeout(timeout_s)
        if len(self.live_ids()) + self._opening.total() >= self.limits.shells:
            raise _limit_reached(self.limits.shells, "shells")
        belongs_to = values.get("session_id") or ""
        self._opening[belongs_to] += 1
        try:
            await self.opener.check(values, caller)
            self.snapshots.check(values)
            self._check_enclosing(values.get("sandbox"), caller)
            async with self._homes:
                home = await self.journal.home(values.get("session_id"), caller)
                self._opening[belongs_to] -= 1
                belongs_to = home.session_id
                self._opening[belongs_to] += 1
            live = sum(shell.session_id == belongs_to for shell in self.live.values() if shell.is_live)
            if live + self._opening[belongs_to] > self.limits.session_shells:
                raise _limit_reached(self.limits.session_shells, "session_shells")
            if home.implicit:
                self._implicit.add(home.session_id)
            ready = None
            try:
                ready = await self.opener.open(values, caller)
                shell = self._shell(ready, home.session_id, values, budget, timeout_s, implicit=home.implicit)
                shell.checkpoints = await self.snapshots.attach(shell, values)
                await self._record_opened(shell)
            except BaseException:
                await asyncio.shield(self.spawn(self._give_up(ready, belongs_to)))
                raise
        finally:
            self._opening -= Counter((belongs_to,))
        shell.guard.watch(shell.roots)
        self.live[shell.shell_id] = shell
        ready.live.ended.add_done_callback(lambda ended: self.spawn(self._shell_over(shell, ended.result())))
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().create_task(self._sweep())
        return results.opened(shell, ready.startup_output)

    async def _record_opened(self, shell: Shell) -> None:
        try:
            await self.journal.shell_opened(shell.session_id, results.opening_facts(shell))
        except ShiftlogError as error:
            raise unavailable(error) from None

    async def _give_up(self, ready: Ready | None, session_id: str) -> None:
        """Leave nothing behind of a shell that did not come to be: no process, and no session that is only its own."""
        if ready is not None:
            await ready.live.close()
            await ready.guard.close()
        if self._ends_with_this(session_id, opening=1):
            await self.journal.abandon(session_id)

    def _check_enclosing(self, mode: str | None, caller: Caller) -> None:
        """Refuse who works inside a confined shell a looser one beside it, to open or to work in."""
        mode = mode or "full-access"
        for shell in self.live.values():
            pid = shell.live.pid
            if not shell.is_live or shell.transport != "local" or pid is None or caller.pid is None:
                continue
            if looser(mode, shell.guard.sandbox) and self.is_inside(caller.pid, pid):
                raise SandboxNotAllowed(
                    f"sandbox '{mode}' is not permitted", details={"mode": mode, "max": shell.guard.sandbox}
                )

    def check_restoring(self, shell_id: str | None, caller: Caller) -> None:
        """Refuse who works inside a confined shell to change by a checkpoint what it could not write there."""
        shell = self.live.get(shell_id) if shell_id is not None else None
        self._check_enclosing(None if shell is None else shell.guard.sandbox, caller)

    def _check_reach(self, shell_id: object, caller: Caller) -> None:
        shell = self.live.get(shell_id) if isinstance(shell_id, str) else None
        if shell is not None:
            self._check_enclosing(shell.guard.sandbox, caller)

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
            name=self.redactor.text(values["name"], by_rule=True).text if values.get("name") else None,
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
        shell = self.live.get(values["shell_id"])
        if shell is None:
            known = await self.journal.shell(values["shell_id"])
            if known is None:
                raise _not_found(values["shell_id"])
            return results.closed_already(values["shell_id"], known)
        if not shell.is_live:
            return results.closed(shell, [], already=True, killed=0)
        return await self._close(shell, "closed", values.get("reason"))

    async def _close(self, shell: Shell, reason: EndedReason, why: str | None = None) -> Result:
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
            *(self._close(shell, "server_stopped") for shell in self.live.values() if shell.is_live),
            return_exceptions=True,
        )
        while self._tasks:
            await asyncio.wait(self._tasks)
        self.on_close()

    async def recover(self) -> None:
        """Record the end of what an earlier server left: its commands are of unknown fate, its shells over."""
        for known in await self.journal.left(self.now()):
            if known.shell_id in self.live:
                continue
            for command in known.unfinished:
                facts = results.unknown_facts(command.started or {})
                await self.journal.command_finished(known.session_id, command.request_id, facts)
            facts = results.left_facts(known)
            await self.journal.shell_ended(
                known.session_id, facts, close_session=bool(known.opened.get("implicit_session"))
            )

    # Commands

    async def run_command(
        self,
        arguments: Mapping[str, Any],
        caller: Caller,
        progress: Progress | None = None,
        manner: Manner = NATIVE,
        confirm: Confirm | None = None,
    ) -> Result:
        """Run a command, or begin it in the background; a non-zero exit is a normal result."""
        self._check_reach(arguments.get("shell_id"), caller)
        return await self.commands.run(arguments, caller, progress, manner, confirm)

    async def send_input(self, arguments: Mapping[str, Any], caller: Caller) -> Result:
        """Write to a running command, close its stdin, signal it, in this order."""
        self._check_reach(str(arguments.get("command_id")).rpartition("#")[0], caller)
        return await self.commands.send(arguments, caller)

    async def read_output(self, arguments: Mapping[str, Any], caller: Caller) -> Result:
        """Return a page of a command's output, waiting for more where asked to."""
        return await self.commands.read(arguments, caller)

    async def cancel(self, command_id: str) -> None:
        """End a running command because whoever asked for it took the request back; wait until it is over."""
        await self.commands.cancel(command_id)

    # Listing

    async def list_shells(self, arguments: Mapping[str, Any], caller: Caller) -> Result:
        """List the shells, newest first."""
        values = requests.LIST_SHELLS.read(arguments)
        wanted = await self.journal.session_id(values["session_id"]) if values.get("session_id") else None
        rows = [shell.as_listed() for shell in self.live.values() if shell.is_live or values.get("include_ended")]
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

    def forget(self, command_ids: Iterable[str]) -> int:
        """Let go of what finished commands said and wrote; return how many of them had output."""
        wanted = list(command_ids)
        for command_id in wanted:
            shell = self.live.get(command_id.rpartition("#")[0])
            if shell is not None:
                shell.forget(command_id)
        return self.outputs.forget(wanted)

    async def usable(self, shell_id: str) -> Shell:
        """Return a shell that commands can be run in, or raise what became of it."""
        shell = self.live.get(shell_id)
        if shell is None:
            known = await self.journal.shell(shell_id)
            if known is None:
                raise _not_found(shell_id)
            raise results.ended_error(shell_id, known)
        self.check_usable(shell)
        return shell

    def check_usable(self, shell: Shell) -> None:
        """Raise what became of a shell that is over."""
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

    def check_timeout(self, timeout_s: int) -> None:
        """Refuse what is longer than the operator allows, or no time at all."""
        if not 1 <= timeout_s <= self.limits.timeout_s_max:
            raise must_be("timeout_s", f"an integer of 1 to {self.limits.timeout_s_max}", "range")

    def note_end(self, shell: Shell, end: ShellEnd) -> None:
        """Note that a shell is over, whoever hears of it first."""
        if shell.is_live:
            shell.end("lost" if end.lost else "ended", end.reason, end.exit_code, self.now())
            self.approvals.withdraw(shell.shell_id)

    async def _shell_over(self, shell: Shell, end: ShellEnd) -> None:
        self.note_end(shell, end)
        # The one that ended the shell is recorded before the shell's own end.
        for command in [one for one in shell.commands.values() if not one.over.is_set()]:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(command.over.wait(), CLOSE_S)
        async with self._homes:
            closing = self._ends_with_this(shell.session_id, opening=0)
            with contextlib.suppress(ShiftlogError, LookupError):
                await self.journal.shell_ended(shell.session_id, results.ending_facts(shell), close_session=closing)
        await shell.live.close(end.reason)  # what it left behind may still be on its way out
        await shell.guard.close()

    def _ends_with_this(self, session_id: str, *, opening: int) -> bool:
        """Tell whether an implicit session has no live shell left, and none on its way but so many."""
        siblings = any(one.session_id == session_id and one.is_live for one in self.live.values())
        return session_id in self._implicit and not siblings and self._opening[session_id] <= opening

    def spawn(self, work: Coroutine[Any, Any, object]) -> "asyncio.Task[object]":
        """Do something that outlives the request at hand; closing waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _sweep(self) -> None:
        """Bring outputs to disk as they grow, close what idles too long, and forget what ended long ago."""
        for tick in itertools.count(1):
            await asyncio.sleep(FLUSH_S)
            self.outputs.flush()
            with contextlib.suppress(ShiftlogError):
                await self.journal.sync()
            if tick % SWEEP_TICKS:
                continue
            now, ttl = time.monotonic(), self.limits.idle_ttl_s
            for shell in list(self.live.values()):
                if shell.is_live and ttl and not shell.running and now - shell.idle_since >= ttl:
                    self.spawn(self._close(shell, "idle"))
                elif shell.ended_at is not None and self.now() - shell.ended_at > SHOWN_FOR:
                    del self.live[shell.shell_id]


def _limit_reached(limit: int, kind: str) -> ShellLimit:
    return ShellLimit(f"limit reached ({limit})", details={"limit": limit, "kind": kind})


def _not_found(shell_id: str) -> ShellNotFound:
    return ShellNotFound(f"unknown shell_id '{shell_id}'", details={"shell_id": shell_id})
