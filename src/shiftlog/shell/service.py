"""The shells of one server: opening, listing and closing them; `Shells.commands` runs commands in them.

Every face calls these verbs and gets the same objects. The engine drives a shell, the guard decides what may run, and
`outputs` keeps what commands write.
"""

import asyncio
import contextlib
import itertools
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

import anyio
from anyio.abc import TaskGroup, TaskStatus

from shiftlog.guard.budgets.spec import read_budget
from shiftlog.model.caller import Caller
from shiftlog.model.errors import SessionClosed, SessionNotFound, ShiftlogError, StorageError
from shiftlog.model.limits import ENDED_SHELLS_SHOWN, SHELL_CLOSE_S
from shiftlog.model.shells import KnownCommand, ShellHome
from shiftlog.shell import requests, results
from shiftlog.shell.approvals import Approvals
from shiftlog.shell.askpass.door import AskingShell
from shiftlog.shell.askpass.prompts import PasswordPrompts
from shiftlog.shell.bounds import asked_bounds
from shiftlog.shell.commands import Commands, Result
from shiftlog.shell.engine.holders import ShellHolders
from shiftlog.shell.notes import policy_digest, shell_note
from shiftlog.shell.opening import Opener
from shiftlog.shell.outputs.keeper import OutputKeeper
from shiftlog.shell.ports import EndedReason, ShellEnd, ShellJournal, Snapshots
from shiftlog.shell.registry import ShellRegistry, not_found
from shiftlog.shell.requests import NATIVE, Conventions
from shiftlog.shell.state import Shell
from shiftlog.shell.takeover import Takeover
from shiftlog.shell.transfers import Transfers
from shiftlog.shell.unrun import limit_reached, unavailable
from shiftlog.text.titles import IMPLICIT_TITLE

LOG = logging.getLogger(__name__)
FLUSH_S = 1.0
SWEEP_TICKS = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellLimits:
    """The operator's limits; no argument raises any of them."""

    shells: int = 64
    session_shells: int = 64
    idle_ttl_s: int = 1800


@dataclass(slots=True, kw_only=True)
class Shells:
    """All shells of one server.

    The service has one task with one task group; below it each shell has a task group of its own, for its commands
    and the engine's watchers. `aclose` ends all of it in bounded time.
    """

    registry: ShellRegistry
    commands: Commands
    transfers: Transfers
    approvals: Approvals
    prompts: PasswordPrompts
    journal: ShellJournal
    outputs: OutputKeeper
    snapshots: Snapshots
    opener: Opener
    now: Callable[[], datetime]
    connected: Callable[[], Collection[str]] = tuple
    holders: ShellHolders | None = None  # if given, local shells outlive this server
    limits: ShellLimits = field(default_factory=ShellLimits)
    _implicit: set[str] = field(default_factory=set[str])
    # Keeps a new shell from joining an implicit session that is about to end with its last shell.
    _homes: anyio.Lock = field(default_factory=anyio.Lock)
    # Commands of shells that were taken over which no longer run, and whose end is not recorded yet.
    _unknown: list[KnownCommand] = field(default_factory=list[KnownCommand])
    _opening: Counter[str] = field(default_factory=Counter[str])
    _tasks: TaskGroup | None = None
    _task: "asyncio.Task[None] | None" = None
    _started: anyio.Event = field(default_factory=anyio.Event)
    _closing: anyio.Event = field(default_factory=anyio.Event)

    # Opening and closing

    async def open_shell(
        self, arguments: Mapping[str, Any], caller: Caller, conventions: Conventions = NATIVE, *, title: str = ""
    ) -> Result:
        """Open a shell and record it; if that fails, nothing is left behind.

        `title` is that of a session which is opened for it alone; else the shell's name is.
        """
        values = requests.OPEN_SHELL.read(arguments)
        values["given_budget"] = values.get("output_budget")
        values["output_budget"] = read_budget(values.get("output_budget"), "output_budget", clamp=conventions.dialect)
        values["dialect"] = conventions.dialect
        most_s = self.commands.limits.timeout_s_max
        self.commands.limits.check_timeout(values.setdefault("timeout_s", min(120, most_s)))
        while len(self.registry.live()) + self._opening.total() >= self.limits.shells:
            await self._make_room(caller)
        belongs_to = values.get("session_id") or ""
        self._opening[belongs_to] += 1
        try:
            await self.opener.check(values, caller)
            self.snapshots.check(values)
            self.registry.check_bounds(asked_bounds(values), caller)
            async with self._homes:
                title = title or values.get("name") or IMPLICIT_TITLE
                home = await self.journal.home(values.get("session_id"), caller, title)
                self._opening[belongs_to] -= 1
                belongs_to = home.session_id
                self._opening[belongs_to] += 1
            live = sum(shell.session_id == belongs_to for shell in self.registry.live())
            if live + self._opening[belongs_to] > self.limits.session_shells:
                raise limit_reached(self.limits.session_shells, "session_shells")
            if home.implicit:
                self._implicit.add(home.session_id)
            shell = await self._open(values, home, caller)
        finally:
            self._opening -= Counter((belongs_to,))
        self._hold(shell)
        self._begin(shell)
        return results.opened(shell)

    def _begin(self, shell: Shell) -> None:
        """Make a shell known, and begin to watch it and to answer its programs."""
        self.registry.shells[shell.shell_id] = shell
        shell.tasks.start_soon(self._serve, shell)
        if shell.askpass is not None:
            asking = AskingShell(
                shell_id=shell.shell_id,
                session_id=shell.session_id,
                mask=shell.mask,
                learn=partial(self.commands.learn, shell),
            )
            shell.tasks.start_soon(shell.askpass.serve, asking, self.prompts)

    def _hold(self, shell: Shell) -> None:
        """Let a shell outlive this server, where that can be."""
        if not shell.live.can_be_held:
            return
        try:
            self._note(shell)
        except UnicodeEncodeError:  # its workspace has a name that is no text
            shell.note_down = lambda: None
            return
        more: dict[str, int] = {}
        launcher = shell.guard.launcher
        if launcher is not None and launcher.supervision is not None:
            more["supervisor"] = launcher.supervision.descriptor
        if shell.askpass is not None:
            more["askpass"] = shell.askpass.descriptor
        try:
            shell.live.hold(**more)
            shell.is_held = True
        except OSError as error:
            LOG.warning("Shell %s will end with this daemon: %s", shell.shell_id, error)

    def _note(self, shell: Shell) -> None:
        digest = policy_digest(self.opener.policy.policy)
        shell.note_down = lambda: shell.live.note(shell_note(shell, digest))
        shell.note_down()

    async def take_over(self) -> None:
        """Go on with the shells that an earlier server left, and with the commands that run in them.

        It records nothing, so that a full disk ends no shell; `recover` records the commands that are not known.
        """
        if self.holders is None:
            return
        takeover = Takeover(
            holders=self.holders,
            policy=self.opener.policy,
            outputs=self.outputs,
            now=self.now,
            new_tasks=self._new_tasks,
            find=self.journal.shell,
        )
        left_over = {one.shell_id: one for one in await self.journal.left(self.now())}
        for taken in await takeover.run(left_over):
            shell = taken.shell
            if shell.implicit:
                self._implicit.add(shell.session_id)
            shell.is_held = True
            self._note(shell)
            if shell.workspace is not None:
                with contextlib.suppress(ShiftlogError, OSError):
                    await self.snapshots.attach_again(shell, shell.given)
            self._begin(shell)
            for command, note in taken.commands:
                shell.tasks.start_soon(
                    partial(self.commands.go_on, keeps_running=note.keeps_running), shell, command, note.over_at
                )
            going_on = {command.command_id for command, _ in taken.commands}
            self._unknown += [
                left for left in taken.known.unfinished if (left.started or {}).get("command_id") not in going_on
            ]
            LOG.info("took over shell %s with %d running commands", shell.shell_id, len(taken.commands))

    async def answer_waiting(self, patience_s: float) -> None:
        """Let the connected clients of running commands have an answer: this server goes, the commands go on.

        Those that end in a moment are waited for.
        """
        present = self.connected()
        held = [shell for shell in self.registry.live() if shell.is_held and self.holders and shell.used_by in present]
        waiting = [command for shell in held for command in shell.running]
        with anyio.move_on_after(patience_s):
            for command in waiting:
                await command.over.wait()
        for command in waiting:
            command.answer_due.set()

    async def _make_room(self, caller: Caller) -> None:
        """Close the shell that is idle for longest among those of clients that have left; raise if there is none."""
        present = self.connected()
        gone = [
            shell
            for shell in self.registry.live()
            if shell.used_by not in present and shell.state == "idle" and not shell.running and not shell.queued
        ]
        # Without the caller in it, the list of clients is not one to go by.
        if caller.client_id not in present or not gone:
            raise limit_reached(self.limits.shells, "shells")
        await self._close(min(gone, key=lambda shell: shell.idle_since), "idle")

    async def _open(self, values: Mapping[str, Any], home: ShellHome, caller: Caller) -> Shell:
        tasks = await self._new_tasks()
        shell = None
        try:
            shell = await self.opener.open(values, home, tasks, caller.client_id)
            shell.checkpoints = await self.snapshots.attach(shell, values)
            try:
                await self.journal.shell_opened(shell.session_id, results.opening_facts(shell))
            except ShiftlogError as error:
                raise unavailable(error) from None
        except BaseException:
            with anyio.CancelScope(shield=True):
                # Leave no process of a shell that failed to open, and no session that exists only for it.
                if shell is not None:
                    await shell.live.close()
                    shell.guard.close()
                    if shell.askpass is not None:
                        shell.askpass.close()
                if self._ends_with_this(home.session_id, opening=1):
                    await self.journal.abandon(home.session_id)
            tasks.cancel_scope.cancel()
            raise
        return shell

    async def _new_tasks(self) -> TaskGroup:
        """Open the task group of a shell, and with the first one that of the service.

        The service's group lives in a task of its own, because the tasks of requests come and go.
        """
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        await self._started.wait()
        assert self._tasks is not None
        return await self._tasks.start(self._hold_tasks)

    async def _run(self) -> None:
        async with anyio.create_task_group() as self._tasks:
            self._tasks.start_soon(self._sweep)
            self._started.set()
            await self._closing.wait()
            async with anyio.create_task_group() as releasing:
                for shell in self.registry.shells.values():
                    releasing.start_soon(self._release, shell)
            self._tasks.cancel_scope.cancel()

    async def _hold_tasks(self, *, task_status: TaskStatus[TaskGroup]) -> None:
        """Keep the task group of one shell open until it is cancelled; a fault in it ends this shell alone."""
        tasks = anyio.create_task_group()
        try:
            async with tasks:
                task_status.started(tasks)
                await anyio.sleep_forever()
        except* Exception:
            LOG.exception("a task of a shell failed")
            for shell in [shell for shell in self.registry.live() if shell.tasks is tasks]:
                self.registry.note_end(shell, ShellEnd(reason="killed", exit_code=None, lost=True))
                with contextlib.suppress(RuntimeError):  # a remote shell cannot close without its task group
                    await self._retire(shell, "killed")

    async def close_shell(self, arguments: Mapping[str, Any], caller: Caller) -> Result:
        """End a shell and its whole tree; closing it again only says so."""
        values = requests.CLOSE_SHELL.read(arguments)
        shell = self.registry.find(values["shell_id"])
        if shell is None:
            recorded = await self.journal.shell(values["shell_id"])
            if recorded is None:
                raise not_found(values["shell_id"])
            return results.closed_already(values["shell_id"], recorded)
        if not shell.is_live:
            return results.closed(shell, [], already=True, killed=0)
        return await self._close(shell, "closed")

    async def _close(self, shell: Shell, reason: EndedReason) -> Result:
        stopped = shell.running
        for command in stopped:
            command.stopping = command.stopping or "cancelled"
        if not stopped:
            await self.snapshots.after(shell)
        killed = await shell.live.close(reason)
        for event in (*(command.over for command in stopped), shell.over):
            with anyio.move_on_after(SHELL_CLOSE_S):
                await event.wait()
        return results.closed(shell, stopped, already=False, killed=killed)

    async def aclose(self) -> None:
        """Leave the shells that are held to the next server, and end all others; the journal records their end.

        Cancels what does not end in time.
        """
        self._closing.set()
        if self._task is not None:
            with anyio.CancelScope(shield=True):
                await self._task
        if not any(shell.is_left for shell in self.registry.shells.values()):
            self.opener.policy.close()

    async def _release(self, shell: Shell) -> None:
        if shell.is_live and shell.is_held and self.holders is not None:
            shell.is_left = True
            shell.live.leave()
            if shell.askpass is not None:
                shell.askpass.leave()
            shell.tasks.cancel_scope.cancel()
            return
        with anyio.move_on_after(SHELL_CLOSE_S * 2):
            if shell.is_live:
                await self._close(shell, "server_stopped")
            await shell.released.wait()
        shell.tasks.cancel_scope.cancel()

    async def recover(self) -> None:
        """Record the end of what an earlier server left: questions expired, commands are unknown, shells over."""
        while self._unknown:
            await self._end_unknown(self._unknown[0])
            del self._unknown[0]
        found = await self.journal.left(self.now())
        for session_id in dict.fromkeys(left.session_id for left in found):
            await self._end_questions(session_id)
        for left in found:
            if left.shell_id in self.registry.shells:
                continue
            for command in left.unfinished:
                await self._end_unknown(command)
            siblings = any(shell.session_id == left.session_id for shell in self.registry.live())
            closing = bool(left.opened.get("implicit_session")) and not siblings
            await self.journal.shell_ended(left.session_id, results.left_facts(left), close_session=closing)

    async def _end_questions(self, session_id: str) -> None:
        """Record that questions expired whose caller waited in an earlier server; their commands did not begin."""
        undecided = await self.journal.undecided(session_id)
        here = {question["approval_id"] for question in self.open_questions()}
        for asked in undecided:
            if asked["approval_id"] not in here:
                facts = {**asked, "state": "expired", "by": "server_stopped"}
                await self.journal.approval_decided(session_id, facts)

    async def _end_unknown(self, command: KnownCommand) -> None:
        facts = results.unknown_facts(command.started or {})
        await self.journal.command_finished(command.session_id, command.request_id, facts)

    # Listing

    async def list_shells(self, arguments: Mapping[str, Any], caller: Caller) -> Result:
        """List the shells, newest first."""
        values = requests.LIST_SHELLS.read(arguments)
        wanted = await self.journal.session_id(values["session_id"]) if values.get("session_id") else None
        ended = values.get("include_ended")
        rows = [shell.as_listed() for shell in self.registry.shells.values() if shell.is_live or ended]
        if ended:
            here = {row["shell_id"] for row in rows}
            since = self.now() - ENDED_SHELLS_SHOWN
            rows += [
                results.listed(recorded)
                for recorded in await self.journal.shells(since)
                if recorded.shell_id and recorded.shell_id not in here and (recorded.ended_at or since) >= since
            ]
        if wanted is not None:
            rows = [row for row in rows if row["session_id"] == wanted]
        rows.sort(key=lambda row: (row["created_at"], row["shell_id"]), reverse=True)
        return results.paged(rows, values.get("limit", 50), values.get("cursor"))

    def open_questions(self) -> list[Result]:
        """List what waits for a person, oldest first: commands that need approval, and prompts of programs."""
        found = [one.as_listed() for one in (*self.approvals.pending(), *self.prompts.pending())]
        return sorted(found, key=lambda item: item["asked_at"])

    # Keeping house

    def forget(self, command_ids: Iterable[str]) -> int:
        """Remove the texts and outputs of finished commands; return how many of them had output."""
        wanted = list(command_ids)
        for command_id in wanted:
            shell = self.registry.find(command_id.rpartition("#")[0])
            if shell is not None:
                shell.forget(command_id)
        return self.outputs.forget(wanted)

    async def _serve(self, shell: Shell) -> None:
        """Wait for a shell's end, record it after the ends of its commands, and end its task group."""
        await asyncio.wait([shell.live.ended])
        end = shell.live.ended.result()
        self.registry.note_end(shell, end)
        for command in [one for one in (shell.commands | shell.queued).values() if not one.over.is_set()]:
            with anyio.move_on_after(SHELL_CLOSE_S):
                await command.over.wait()
        await self._retire(shell, end.reason)
        shell.tasks.cancel_scope.cancel()

    async def _retire(self, shell: Shell, reason: EndedReason) -> None:
        """Record the end of a shell and release what held it."""
        await self.snapshots.after(shell)
        async with self._homes:
            closing = self._ends_with_this(shell.session_id, opening=0)
            with contextlib.suppress(ShiftlogError, LookupError):
                await self.journal.shell_ended(shell.session_id, results.ending_facts(shell), close_session=closing)
                shell.is_recorded = True
        try:
            await shell.live.close(reason)  # its processes may still be ending
        finally:
            shell.guard.close()
            shell.trim(kept=0)
            try:
                await self._drop_temp(shell.session_id)
            finally:
                shell.released.set()
                self.registry.forget_ended()

    async def _drop_temp(self, session_id: str) -> None:
        """Remove the temporary directory of a session that is closed and has no shell."""
        if self._opening[session_id] or any(shell.session_id == session_id for shell in self.registry.live()):
            return
        try:
            await self.journal.check_live(session_id)
        except (SessionClosed, SessionNotFound):
            await asyncio.to_thread(self.opener.temps.remove, session_id)
        except StorageError:
            pass  # the next sweep looks again

    def _ends_with_this(self, session_id: str, *, opening: int) -> bool:
        """Return True if an implicit session has no live shell, and at most so many that are being opened."""
        siblings = any(shell.session_id == session_id for shell in self.registry.live())
        return session_id in self._implicit and not siblings and self._opening[session_id] <= opening

    async def _sweep(self) -> None:
        """Look after the shells again and again: what fails now, as without descriptors, must not end all of them."""
        failed = False
        for tick in itertools.count(1):
            await anyio.sleep(FLUSH_S)
            try:
                await self._look_after(tick)
                failed = False
            except Exception:
                if not failed:
                    LOG.exception("looking after the shells failed, and is tried again")
                failed = True

    async def _look_after(self, tick: int) -> None:
        """Write growing outputs to disk, close idle shells, and forget shells that ended long ago."""
        self.outputs.flush()
        for shell in self.registry.live():
            shell.live.mark()
        with contextlib.suppress(ShiftlogError):
            await self.journal.sync()
        if tick % SWEEP_TICKS == 0:
            self._sweep_shells()
            for session_id in self.opener.temps.sessions():
                await self._drop_temp(session_id)

    def _sweep_shells(self) -> None:
        now, ttl = time.monotonic(), self.limits.idle_ttl_s
        for shell in list(self.registry.shells.values()):
            if shell.is_live and ttl and not shell.running and now - shell.idle_since >= ttl:
                shell.tasks.start_soon(self._close, shell, "idle")
        self.registry.forget_ended()
