"""Events of agents' hooks on their way from the spool into the journal; grown transcripts are imported first.

Each event is taken once: the import of its transcript may be repeated, then its entries and the spool's cursor are one
transaction. An event that cannot be taken is set aside with the reason. What hooks get to print is in `hook_answers`.
"""

import logging
import os
import socket
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import msgspec

from shiftlog.app.guard_state import GuardState
from shiftlog.app.import_worker import composer_for
from shiftlog.app.imports import worker_settings
from shiftlog.app.queued_calls import QueuedCalls
from shiftlog.app.turn_checkpoints import TurnCheckpoints, is_fresh
from shiftlog.facts.hook import HookFact
from shiftlog.ingest.hooks.events import Spooled, fact_of, name_of, read_spooled
from shiftlog.ingest.hooks.spool import CALLS, HOOKS, HookSpool, SpoolLine
from shiftlog.ingest.hooks.transcripts import present, transcripts_of
from shiftlog.ingest.importing.ports import ImportOptions
from shiftlog.journal.hooked.stops import Stop
from shiftlog.journal.intake.hooks import HookIntake
from shiftlog.journal.sessions import workspace_of
from shiftlog.link import processes
from shiftlog.model.errors import ShiftlogError, is_of_the_machine
from shiftlog.model.limits import (
    HOOK_CATCH_UP_S,
    HOOK_CLOCK_SKEW,
    HOOK_END_S,
    HOOK_EVENT_ATTEMPTS,
    HOOK_POLL_S,
    HOOK_RETRY_S,
    HOOK_SETTLE_S,
)
from shiftlog.model.times import parse
from shiftlog.store.sources import Source

if TYPE_CHECKING:
    from shiftlog.app.app import App
    from shiftlog.app.guard import Guard
    from shiftlog.ingest.importing.composer import Composer

GROWS = frozenset({"Stop", "StopFailure", "SubagentStop", "PreCompact", "SessionEnd"})
OPENS = frozenset({"SessionStart", "UserPromptSubmit"})
STOPPED = frozenset({"Stop", "StopFailure", "SubagentStop", "SessionEnd"})
ENDS = frozenset({"Stop", "StopFailure", "SessionEnd"})

# A line that is no event is kept, when it is set aside, up to this size.
UNREADABLE_BYTES = 1 << 20

log = logging.getLogger(__name__)


class Hooks:
    """Takes what hooks and client scripts spooled into the journal."""

    def __init__(self, app: "App") -> None:
        self.app = app
        self.spool = HookSpool(folder=app.spool_folder)
        self.intake = HookIntake(app.store, app.clock, app.config.runs.backend_of, socket.gethostname())
        self.calls = QueuedCalls(app, self.spool)
        self.turns = TurnCheckpoints(app, self.intake)
        self.guard_state = GuardState(app.home)
        # False if another process drains the spool.
        self.is_mine = True
        # One drain at a time: two would take the same lines, and only one of them could move the cursor.
        self._turn = anyio.Lock()
        # How often each event has failed, and why the spool does not move.
        self._failures: Counter[str] = Counter()
        self._fault: str | None = None
        self._asked: anyio.Event | None = None
        self._taken = anyio.Event()

    @cached_property
    def guard(self) -> "Guard":
        """Return the guard for agents' own tools; it loads the rules of shells, so it is built when it is needed."""
        from shiftlog.app.guard import Guard

        return Guard(self.app, self.intake, self.guard_state)

    async def aclose(self) -> None:
        """End the commands that run for the guard."""
        if "guard" in self.__dict__:
            await self.guard.aclose()

    @cached_property
    def composer(self) -> "Composer":
        """Return the composer that masks the texts of events; without its key events wait."""
        return composer_for(worker_settings(self.app))

    @property
    def fault(self) -> str | None:
        """Return why the spool does not move; None if it does."""
        return self._fault or self.spool.stuck_reason()

    # Draining

    async def drain(self, taken_sign: anyio.Event | None = None) -> int:
        """Take everything that waits in the spool; return how many events there were.

        The sign is set as soon as what waited is in the journal: the rest is tidying, for which no hook has to wait.
        """
        async with self._turn:
            with self.spool.draining() as self.is_mine:
                if not self.is_mine:
                    return 0
                await self.calls.drain()
                taken = 0
                while done := await self._drain_once(taken_sign):
                    taken += done
                for session_id, stop in await self._due_stops():
                    if stop.transcript is not None:
                        await self._grow([stop.transcript], seen_at=parse(stop.at), has_stopped=True)
                    await self.intake.end_stopped(session_id, stop)
                return taken

    async def carry_out_queued(self) -> None:
        """Carry out the calls that a client script queued, so that a newer one does not come before them."""
        if self.app.read_params is not None and self.spool.names(CALLS):
            async with self._turn:
                with self.spool.draining() as mine:
                    if mine:
                        await self.calls.drain()

    async def _drain_once(self, taken_sign: anyio.Event | None) -> int:
        sources: list[Source] = []
        for name in self.spool.names(HOOKS):
            source = self.spool.at(name, await self.intake.cursor(self.spool.path(name)))
            if source is not None:
                sources.append(source)
        latest = {source.path: source for source in sources}
        taken = 0
        for line in self.spool.merged(sources):
            await self._take(line)
            latest[line.after.path] = line.after
            taken += 1
        if taken_sign is not None:
            taken_sign.set()
        for source in latest.values():
            if await anyio.to_thread.run_sync(self.spool.remove, source):
                await self.intake.forget(source.path)
        return taken

    async def _take(self, line: SpoolLine) -> None:
        spooled = read_spooled(line.data)
        if spooled is None:
            await self._set_line_aside(line)
            return
        # The hook has no test clock, so either clock may be the later one.
        if parse(spooled.at) > max(self.app.clock.now(), datetime.now(UTC)) + HOOK_CLOCK_SKEW:
            await self._set_aside(spooled, line.after, f"its time lies in the future: {spooled.at}")
            return
        try:
            if name_of(spooled.event) in ENDS:
                await self._end_turn(spooled)
            fact = await self._prepared(spooled)
            await self.intake.take(fact, line.after)
            if fact.name == "UserPromptSubmit" and fact.agent_id is None and is_fresh(fact.at):
                await self._begin_turn(fact.agent, fact.vendor_id)
            elif fact.name == "SessionStart" and fact.cwd is not None and is_fresh(fact.at):
                await self.turns.prepare(workspace_of(fact.cwd))
        except Exception as error:
            # The edge of the hook's face: what one event breaks must not keep the others waiting for ever.
            if self._may_pass(spooled.id, error):
                raise
            log.exception("spool: an event cannot be taken")
            await self._set_aside(spooled, line.after, _reason(error))
        self._failures.pop(spooled.id, None)

    def _may_pass(self, name: str, error: Exception) -> bool:
        """Return True if an event is tried again: a few times only, unless the machine is at fault."""
        if is_of_the_machine(error):
            return True
        if not isinstance(error, OSError) and not (isinstance(error, ShiftlogError) and error.retryable):
            return False
        self._failures[name] += 1
        return self._failures[name] < HOOK_EVENT_ATTEMPTS

    async def _prepared(self, spooled: Spooled) -> HookFact:
        fact = fact_of(spooled, self.composer)
        roots = [root.folder for root in self.app.imports.roots()] + [Path(one) for one in self.app.config.ingest.roots]
        paths = transcripts_of(spooled, roots)
        if fact.name == "UserPromptSubmit" and paths.session is not None:
            # The transcript tells how the turn before the new prompt ended, for example by an interruption.
            await self._grow([paths.session], seen_at=parse(fact.at), has_stopped=True)
        if fact.name in GROWS:
            await self._grow(paths.to_read(fact.name), seen_at=parse(fact.at), has_stopped=fact.name in STOPPED)
        above = processes.lineage(fact.pid) if fact.name in OPENS and fact.pid is not None else ()
        # A process that came to the pid since is another one.
        if above and above[0] != (fact.pid, fact.pid_started):
            above = ()
        return msgspec.structs.replace(fact, transcript_path=paths.session, processes=above)

    async def _grow(self, paths: Iterable[str], *, seen_at: datetime, has_stopped: bool) -> None:
        found = present(paths)
        if not found:
            return
        try:
            stopped_at = seen_at if has_stopped else None
            options = ImportOptions(paths=found, jobs=0, stopped_at=stopped_at, seen_at=seen_at)
            report = await self.app.imports.run(options)
        except ShiftlogError as error:
            if error.retryable:
                raise
            log.warning("hook: %s", error.message)
            return
        for error in report.errors:
            log.warning("hook: %s", error["message"])

    async def _begin_turn(self, agent: str, vendor_id: str) -> None:
        turn = await self.turns.turn_of(agent, vendor_id)
        if turn is not None:
            await self.turns.begin(turn)

    async def _end_turn(self, spooled: Spooled) -> None:
        event = spooled.event
        if event.get("agent_id") is None and is_fresh(spooled.at):
            turn = await self.turns.turn_of(spooled.agent, str(event.get("session_id") or ""))
            if turn is not None and (turn.is_open or name_of(event) != "SessionEnd"):
                await self.turns.end(turn, HOOK_END_S)

    async def _set_aside(self, spooled: Spooled, cursor: Source, reason: str) -> None:
        item = {
            "kind": "hook",
            "at": spooled.at,
            "agent": spooled.agent,
            "event": name_of(spooled.event),
            "content": self.app.redactor.value(spooled.event)[0],
        }
        now = self.app.clock.now()
        await anyio.to_thread.run_sync(lambda: self.spool.set_aside(spooled.id, item, reason, now))
        await self.intake.move(cursor)

    async def _set_line_aside(self, line: SpoolLine) -> None:
        """Set aside a line that is no event: torn by a crash, nested too deeply, or of another program."""
        log.warning("spool: a line of %s is torn", Path(line.after.path).name)
        if line.data.strip():
            text = line.data.decode("utf-8", "replace") if len(line.data) <= UNREADABLE_BYTES else None
            content, now = self.app.redactor.value(text)[0], self.app.clock.now()
            await anyio.to_thread.run_sync(lambda: self.spool.set_line_aside(line, content, now))
        await self.intake.move(line.after)

    async def _due_stops(self) -> list[tuple[str, Stop]]:
        now = self.app.clock.now()
        return [(session_id, stop) for session_id, stop in (await self.intake.stops()).items() if stop.is_due(now)]

    # Waiting

    async def settled(self) -> None:
        """Take what waits in the spool, and wait for the checkpoints that are being made."""
        await self.caught_up(HOOK_SETTLE_S)
        await self.turns.settle(HOOK_SETTLE_S)

    async def caught_up(self, limit_s: float = HOOK_CATCH_UP_S) -> None:
        """Wait a short time until the spool is drained: a hook or a client waits for the answer."""
        if self._asked is None:
            # The hook that asks may go away; an event that was taken by half would have no checkpoint.
            with anyio.CancelScope(shield=True):
                await self.drain()
            return
        caught_up = self._taken
        self._asked.set()
        with anyio.move_on_after(limit_s):
            await caught_up.wait()

    # Watching

    async def run(self, draining: anyio.Event) -> None:
        """Drain whenever something comes, until the daemon drains itself; a failure is logged and tried again."""
        async with anyio.create_task_group() as self.turns.tasks:
            await self._run(draining)
        self.turns.tasks = None

    async def _run(self, draining: anyio.Event) -> None:
        seen: dict[str, tuple[int, int]] | None = None
        while not draining.is_set():
            wait_s = HOOK_POLL_S
            # Whoever asks from here on waits for the next round: this one may have read past its line.
            self._asked, taken, self._taken = anyio.Event(), self._taken, anyio.Event()
            found = self.spool.looks()
            try:
                if found != seen or await self._due_stops():
                    await self.drain(taken)
                    # As it was before: a line that came while this round ended is news to the next one.
                    seen = found if self.is_mine else None
                    self._note_fault(None)
            except Exception as error:  # noqa: BLE001 - the spool must never stop the daemon
                self._note_fault(_reason(error))
                wait_s = HOOK_RETRY_S
            taken.set()
            with anyio.move_on_after(wait_s):
                async with anyio.create_task_group() as waiting:
                    for event in (draining, self._asked):
                        waiting.start_soon(_ended_by, event, waiting.cancel_scope)
        self._asked = None

    def _note_fault(self, reason: str | None) -> None:
        if reason is not None and reason != self._fault:
            log.warning("spool: %s", reason)
        self._fault = reason


def _reason(error: Exception) -> str:
    """Return why an event could not be taken, without values of it."""
    if isinstance(error, ShiftlogError):
        reason = error.details.get("reason")
        return f"{error.code}: {error.message}" + (f" ({reason})" if reason else "")
    if isinstance(error, OSError) and error.errno:
        return f"{type(error).__name__}: {os.strerror(error.errno)}"
    return f"internal_error: {type(error).__name__}"


async def _ended_by(event: anyio.Event, scope: anyio.CancelScope) -> None:
    await event.wait()
    scope.cancel()
