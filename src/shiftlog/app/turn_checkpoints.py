"""Checkpoints of turns whose agent has hooks: the workspace when a turn begins and ends, and what changed between.

The daemon saves beside its other work, so a hook never waits longer than its limit. The records of the workspace say
which turns were saved; here is only what runs now. What was saved and why is `app.workspaces`.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import anyio
from anyio.abc import TaskGroup

from shiftlog.journal.intake.hook_sessions import known_session
from shiftlog.journal.intake.hooks import HookIntake
from shiftlog.journal.seen_files import SeenFiles
from shiftlog.model.caller import Caller
from shiftlog.model.errors import ShiftlogError
from shiftlog.model.limits import HOOK_CHECKPOINT_RETRY_S, HOOK_CHECKPOINT_S, HOOK_FRESH, HOOK_LATE_S
from shiftlog.model.times import parse
from shiftlog.store.protocol import Reader
from shiftlog.workspace import history
from shiftlog.workspace.checkpoints import Workspace
from shiftlog.workspace.ports import Cause, CheckpointKind
from shiftlog.workspace.results import FileDiff
from shiftlog.workspace.runner import LocalRunner
from shiftlog.workspace.shadow import WorkspaceGone, invalid

if TYPE_CHECKING:
    from shiftlog.app.app import App

# The checkpoint before a tool call: made, still being made, or impossible.
Readiness = Literal["saved", "late", "none"]

# The hook of a starting session waits for its brief, so preparing its workspace comes after that.
PREPARE_AFTER_S = 0.05
SEEN_MOST = 1_000
SEEN_TYPES = {"added": "create", "deleted": "delete"}

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class HookedTurn:
    """The newest turn of a session whose agent has hooks, and the workspace that it works in."""

    session_id: str
    request_id: str
    workspace: str
    is_open: bool


@dataclass(slots=True, eq=False)
class _Save:
    """A checkpoint that is being made."""

    turn: HookedTurn
    kind: CheckpointKind
    done: anyio.Event = field(default_factory=anyio.Event)


def is_fresh(at: str) -> bool:
    """Return True if an event came so recently that the workspace is still as it was then."""
    return abs(datetime.now(UTC) - parse(at)) <= HOOK_FRESH


class TurnCheckpoints:
    """Saves the workspaces of agents with hooks."""

    def __init__(self, app: "App", intake: HookIntake) -> None:
        self._app = app
        self._intake = intake
        self._mode = app.config.hooks.checkpoints
        self._workspaces: dict[str, Workspace] = {}
        self._running: list[_Save] = []
        # Workspaces that could not be saved, each with the time until which it is left alone.
        self._failed: dict[str, float] = {}
        # Runs the saves. Without it, as in a program without a daemon, each caller waits for its own save.
        self.tasks: TaskGroup | None = None

    @property
    def is_on(self) -> bool:
        """Return True if the operator wants checkpoints of turns."""
        return self._mode != "off"

    async def turn_of(self, agent: str, vendor_id: str) -> HookedTurn | None:
        """Return the newest turn of the session with the vendor's id; None without a turn or a workspace."""
        if not vendor_id:
            return None

        def work(reader: Reader) -> HookedTurn | None:
            session_id = known_session(reader, agent, vendor_id)
            session = reader.session(session_id) if session_id else None
            turn = reader.turn(session.id, session.current_turn) if session and session.current_turn else None
            where = (session.workspace or session.cwd) if session else None
            if session is None or turn is None or not where:
                return None
            return HookedTurn(
                session_id=session.id, request_id=turn.request_id, workspace=where, is_open=not turn.is_terminal
            )

        return await self._app.store.read(work)

    # The moments of a turn

    async def prepare(self, workspace: str) -> None:
        """Prepare the shadow repository of a workspace beside other work, so that its first prompt waits less."""
        if self.is_on and self.tasks is not None:
            self.tasks.start_soon(self._prepare, workspace)

    async def _prepare(self, workspace: str) -> None:
        await anyio.sleep(PREPARE_AFTER_S)
        try:
            await self._opened(workspace)
        except Exception as error:  # noqa: BLE001 - the first turn says in the record why it cannot be saved
            log.info("no checkpoints of %s: %s", workspace, error)

    async def begin(self, turn: HookedTurn) -> None:
        """Save the workspace before the turn changes it, unless it was saved already."""
        if self.is_on and turn.is_open and not self._runs(turn, "turn") and not await self._mark(turn):
            await self._start(turn, "turn", lambda: self._save(turn, "turn"))

    async def before_call(self, turn: HookedTurn, call_id: str | None) -> Readiness:
        """Wait, up to a limit, until the workspace is saved as it was before a tool call that may change files."""
        if not turn.is_open or not self._may_save(turn):
            return "none"
        await self.begin(turn)
        ready = await self._wait(turn, HOOK_LATE_S)
        if ready and self._mode == "call" and call_id:
            await self._start(turn, "auto", lambda: self._save(turn, "auto", call_id))
            ready = await self._wait(turn, HOOK_CHECKPOINT_S)
        if not ready:
            return "late"
        return "saved" if self._may_save(turn) else "none"

    async def end(self, turn: HookedTurn, wait_s: float) -> None:
        """Save the workspace as the turn leaves it, and add the changed files to the turn; wait up to a limit."""
        if self.is_on and not self._runs(turn, "end"):
            await self._start(turn, "end", lambda: self._finish(turn))
        await self._wait(turn, wait_s)

    async def settle(self, limit_s: float) -> None:
        """Wait, up to a limit, for every save that runs."""
        with anyio.move_on_after(limit_s):
            for save in list(self._running):
                await save.done.wait()

    # Saving

    def _runs(self, turn: HookedTurn, kind: CheckpointKind) -> bool:
        return any(one.turn.request_id == turn.request_id and one.kind == kind for one in self._of(turn))

    def _of(self, turn: HookedTurn) -> list[_Save]:
        return [one for one in self._running if one.turn.session_id == turn.session_id]

    async def _wait(self, turn: HookedTurn, limit_s: float) -> bool:
        """Return True if every save of the session was done within a limit."""
        with anyio.move_on_after(limit_s):
            for save in self._of(turn):
                await save.done.wait()
        return not self._of(turn)

    async def _start(self, turn: HookedTurn, kind: CheckpointKind, work: Callable[[], Awaitable[None]]) -> None:
        if not self._may_save(turn):
            return
        save = _Save(turn, kind)
        self._running.append(save)

        async def run() -> None:
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - a checkpoint must never stop the daemon
                await self._note_failure(turn, error)
            finally:
                self._running.remove(save)
                save.done.set()

        if self.tasks is None:
            await run()
        else:
            self.tasks.start_soon(run)

    def _may_save(self, turn: HookedTurn) -> bool:
        return time.monotonic() >= self._failed.get(turn.workspace, 0.0)

    async def _note_failure(self, turn: HookedTurn, error: Exception) -> None:
        """Leave a workspace that cannot be saved alone for a while, and say so in the record."""
        reason = error.message if isinstance(error, ShiftlogError) else type(error).__name__
        log.warning("no checkpoint of turn %s: %s", turn.request_id, reason)
        self._workspaces.pop(turn.workspace, None)
        self._failed[turn.workspace] = time.monotonic() + HOOK_CHECKPOINT_RETRY_S
        shown = self._app.redactor.text(reason, by_rule=True).text
        await self._intake.note(turn.session_id, turn.request_id, {"checkpoint": "failed", "reason": shown})

    async def _opened(self, path: str) -> Workspace:
        """Return a workspace, open, if the operator permits it and it is a project."""
        workspace = self._workspaces.get(path)
        if workspace is None:
            workspaces = self._app.workspaces
            home = Path(self._app.environ.get("HOME") or Path.home())
            if home.is_relative_to(path):
                raise invalid(path, "it holds the home directory; only projects below it are saved")
            workspace = await workspaces.checkpoints.open(LocalRunner(), path)
            workspaces.check_permitted(workspace, Caller(face="hook", workspace=path, cwd=path))
            self._workspaces[path] = workspace
        return workspace

    async def _mark(self, turn: HookedTurn) -> str | None:
        """Return the checkpoint of the turn's beginning."""
        if not self._may_save(turn):
            return None
        try:
            workspace = await self._opened(turn.workspace)
        except (ShiftlogError, OSError) as error:
            await self._note_failure(turn, error)
            return None
        records = await self._app.workspaces.log.read(workspace.location)
        return history.turn_mark(records, turn.request_id, turn.session_id)

    async def _save(self, turn: HookedTurn, kind: CheckpointKind, call_id: str | None = None) -> None:
        cause = Cause(session_id=turn.session_id, request_id=turn.request_id, call_id=call_id)
        checkpoints = self._app.workspaces.checkpoints
        workspace = await self._opened(turn.workspace)
        try:
            await checkpoints.save(workspace, kind=kind, cause=cause)
        except WorkspaceGone:  # its directory was replaced
            self._workspaces.pop(turn.workspace, None)
            workspace = await self._opened(turn.workspace)
            await checkpoints.save(workspace, kind=kind, cause=cause)
        if kind == "turn":
            checkpoints.copy_borrowed_soon(workspace)

    async def _finish(self, turn: HookedTurn) -> None:
        for save in self._of(turn):
            if save.kind != "end":
                await save.done.wait()
        first = await self._mark(turn)
        if first is None:
            return
        await self._save(turn, "end")
        workspace = await self._opened(turn.workspace)
        last = await self._app.workspaces.checkpoints.current(workspace)
        if last is None:
            return
        found = await self._app.workspaces.checkpoints.between(workspace, first, last.checkpoint_id)
        if found:
            seen = SeenFiles(
                files=self._named(found), since=first, until=last.checkpoint_id, workspace=workspace.location.path
            )
            await self._intake.add_seen(turn.session_id, turn.request_id, seen)

    def _named(self, found: Sequence[FileDiff]) -> dict[str, str]:
        """Return changed files by name, masked, each with the kind of its change."""
        mask = self._app.redactor
        return {
            mask.value({"path": file.path}, by_rule=True, path_fields=frozenset({"path"}))[0]["path"]: SEEN_TYPES.get(
                file.status, "edit"
            )
            for file in found[:SEEN_MOST]
        }
