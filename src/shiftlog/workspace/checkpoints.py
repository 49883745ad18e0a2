"""The checkpoint service: saves, lists, compares and restores the states of a workspace.

The rules of the contract meet here. A runner reaches the target, a log keeps the records; only one caller at a time
works on a shadow repository.
"""

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from shiftlog.model.errors import ShiftlogError
from shiftlog.model.limits import CHECKPOINT_CLOSE_S
from shiftlog.model.shell_errors import (
    CursorInvalid,
    NothingToRestore,
    RestoreIncomplete,
    ShellBusy,
    WorkspaceRequired,
)
from shiftlog.model.times import precise, truncated
from shiftlog.workspace import history, keeping, names, results
from shiftlog.workspace.carrying_out import carry_out
from shiftlog.workspace.coverage import count_not_covered
from shiftlog.workspace.differences import differences, patch
from shiftlog.workspace.history import RestoreTarget
from shiftlog.workspace.ports import (
    Busy,
    Cause,
    CheckpointKind,
    CheckpointLimits,
    CheckpointLog,
    Location,
    Record,
    Restored,
    Runner,
    Saved,
    Scope,
)
from shiftlog.workspace.restoring import RestorePlan, plan_restore
from shiftlog.workspace.rules import read_paths, roots, wrong
from shiftlog.workspace.runner import LockTimeout
from shiftlog.workspace.scan import TreeScan, keep_state, read_status, update_index
from shiftlog.workspace.seed import first_scan
from shiftlog.workspace.shadow import Shadow, ShadowBroken, find_shadow, invalid, prepare, write_excludes
from shiftlog.workspace.tables import ModesCache

log = logging.getLogger(__name__)

LABEL_CHARS = 200
LIST_MOST = 200
FILES_NAMED = 100
NOT_WRITTEN = "it could not be written"

LABELS: dict[CheckpointKind, str] = {
    "manual": "checkpoint",
    "auto": "before command",
    "open": "shell opened",
    "turn": "turn opened",
    "end": "turn ended",
    "safety": "before restore",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """An open workspace; several may share one shadow repository."""

    shadow: Shadow
    session_id: str | None = None
    caches: dict[str, ModesCache] = field(default_factory=dict[str, ModesCache], repr=False, compare=False)

    @property
    def location(self) -> Location:
        """The workspace as records name it."""
        return self.shadow.location

    def cache(self, shadow: Shadow) -> ModesCache:
        """Return the cache of a scope."""
        return self.caches.setdefault(shadow.key, ModesCache())


class Checkpoints:
    """Saves and restores workspaces. `busy` returns the command that runs in a shell on a location, if any.

    A command must count as running before its automatic checkpoint is requested: then either the restore sees it and
    refuses, or its checkpoint waits for the restore to end.
    """

    def __init__(
        self,
        log: CheckpointLog,
        *,
        data: str | None = None,
        busy: Callable[[Location], Busy | None] = lambda _: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        limits: CheckpointLimits | None = None,
    ) -> None:
        self._log = log
        self._data = data
        self.busy = busy
        self._now = now
        self._limits = limits or CheckpointLimits()
        # One per shadow repository: callers in this process queue here instead of polling the lock file.
        self._locks: dict[tuple[str | None, str], asyncio.Lock] = {}
        self._background: asyncio.Task[None] | None = None
        self._to_copy: MemoryObjectSendStream[Workspace] | None = None

    async def open(
        self, runner: Runner, path: str | None, scope: Scope | None = None, *, session_id: str | None = None
    ) -> Workspace:
        """Check and prepare a workspace; raises `WorkspaceRequired`, `WorkspaceInvalid` or `GitMissing`."""
        if path is None:
            raise WorkspaceRequired("checkpoints require an explicit workspace")
        data = self._data if runner.target is None else None
        shadow = await find_shadow(runner, path, scope or Scope(), data)
        return Workspace(shadow=shadow, session_id=session_id)

    async def save(
        self,
        workspace: Workspace,
        *,
        kind: CheckpointKind = "manual",
        label: str | None = None,
        cause: Cause | None = None,
    ) -> results.Created:
        """Take a checkpoint; an automatic one of an unchanged workspace reuses the current position."""
        if label is not None and len(label) > LABEL_CHARS:
            raise wrong("label", f"at most {LABEL_CHARS} characters", "range")
        cause = cause or Cause(session_id=workspace.session_id)
        async with self._entered(workspace) as shadow:
            records = await self._log.read(workspace.location)
            here = history.position(records)
            scan = await self._scan(workspace, shadow, here)
            if kind != "manual" and here is not None and self._holds(here, scan):
                await keep_state(shadow, scan)
                if kind in ("turn", "auto", "end"):
                    mark = replace(here, kind=kind, at=truncated(self._now()), cause=cause, reused=True, changes=None)
                    await self._log.append(workspace.location, mark)
                return _created(here, unchanged=True, not_covered=None)
            saved = await self._commit(workspace, shadow, scan, records, kind, label or LABELS[kind], cause)
            counts = await count_not_covered(shadow, scan) if kind == "manual" else None
            return _created(saved, unchanged=here is not None and here.tree == scan.tree, not_covered=counts)

    async def between(self, workspace: Workspace, old_id: str, new_id: str) -> Sequence[results.FileDiff]:
        """Return the files that differ between two checkpoints, without a look at the working tree."""
        records = await self._log.read(workspace.location)
        old, new = history.find(records, old_id), history.find(records, new_id)
        if old.tree == new.tree:
            return ()
        async with self._entered(workspace) as shadow:
            for side in (old, new):
                await keeping.check_stored(shadow, side)
            found = await differences(shadow, old.tree, new.tree, roots(shadow.scope.paths))
        return tuple(difference.shown() for difference in found if not difference.is_directory)

    async def patch_between(self, workspace: Workspace, old_id: str, new_id: str, path: str) -> str:
        """Return the patch of one file between two checkpoints, without a look at the working tree."""
        limits = read_paths([path])
        records = await self._log.read(workspace.location)
        old, new = history.find(records, old_id), history.find(records, new_id)
        async with self._entered(workspace) as shadow:
            for side in (old, new):
                await keeping.check_stored(shadow, side)
            return (await patch(shadow, old.tree, new.tree, limits))[0]

    async def current(self, workspace: Workspace) -> Saved | None:
        """Return the current position."""
        return history.position(await self._log.read(workspace.location))

    async def list(
        self,
        workspace: Workspace,
        *,
        request_id: str | None = None,
        kind: CheckpointKind | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> results.Listing:
        """Return the stored checkpoints, newest first."""
        if not 1 <= limit <= LIST_MOST:
            raise wrong("limit", f"an integer of 1 to {LIST_MOST}", "range")
        records = await self._log.read(workspace.location)
        stored = await keeping.stored_ids(workspace.shadow)
        here = history.position(records)
        lines = [saved for saved in reversed(history.checkpoints(records)) if saved.checkpoint_id in stored]
        if cursor is not None:
            last = next((number for number, saved in enumerate(lines) if f"k1.{saved.checkpoint_id}" == cursor), None)
            if last is None:
                raise CursorInvalid(f"cursor is not valid for {workspace.location.path}")
            lines = lines[last + 1 :]
        chosen = [
            saved
            for saved in lines
            if (kind is None or saved.kind == kind) and (request_id is None or saved.cause.request_id == request_id)
        ]
        page = chosen[:limit]
        return results.Listing(
            checkpoints=tuple(results.Listed(saved=saved, current=saved is here) for saved in page),
            next_cursor=f"k1.{page[-1].checkpoint_id}" if len(chosen) > limit else None,
        )

    async def diff(
        self,
        workspace: Workspace,
        target: RestoreTarget | None = None,
        *,
        to: str | None = None,
        as_patch: bool = False,
        paths: Sequence[str] = (),
    ) -> results.CheckpointDiff:
        """Return the changes from a checkpoint to another one or to the working tree."""
        limits = read_paths([*paths])
        async with self._entered(workspace) as opened:
            records = await self._log.read(workspace.location)
            new = history.find(records, to, "to") if to is not None else None
            scan, shadow, old = await self._target(workspace, opened, records, target or RestoreTarget())
            await keep_state(shadow, scan)
            for side in (old, new):
                if side is not None:
                    await keeping.check_stored(shadow, side)
            old_tree = old.tree if old is not None else scan.tree
            new_tree = new.tree if new is not None else scan.tree
            inside = names.meet(roots(limits), roots(shadow.scope.paths))
            found = await differences(shadow, old_tree, new_tree, inside, lines=True) if inside is not None else []
            text, cut = await patch(shadow, old_tree, new_tree, limits) if as_patch else (None, False)
        here = old or history.position(records)
        return results.CheckpointDiff(
            from_id=here.checkpoint_id if here is not None else "",
            to_id=new.checkpoint_id if new is not None else None,
            files=tuple(difference.shown() for difference in found),
            files_changed=len(found),
            patch=text,
            truncated=cut,
        )

    async def restore(
        self,
        workspace: Workspace,
        target: RestoreTarget | None = None,
        *,
        paths: Sequence[str] = (),
        clean: bool = False,
        dry_run: bool = False,
        cause: Cause | None = None,
    ) -> results.RestoreResult:
        """Go back to a checkpoint; raise `RestoreIncomplete` with the result if a path could not be restored.

        A workspace that was deleted is made again.
        """
        limits = read_paths([*paths])
        if target is not None and target.checkpoint_id is not None:
            history.check_id(target.checkpoint_id)
        cause = cause or Cause(session_id=workspace.session_id)
        async with self._entered(workspace, create=not dry_run) as opened:
            if not dry_run:
                self._refuse_while_busy(workspace.location)
            records = await self._log.read(workspace.location)
            scan, shadow, found = await self._target(workspace, opened, records, target or RestoreTarget())
            if found is not None:
                await keeping.check_stored(shadow, found)
            here = history.position(records)
            safety = here if here is not None and self._holds(here, scan) else None
            if dry_run or safety is not None:
                await keep_state(shadow, scan)
            else:
                own = replace(cause, command_id=None)
                safety = await self._commit(workspace, shadow, scan, records, "safety", LABELS["safety"], own)
            aim = found or safety
            inside = names.meet(roots(limits), roots(shadow.scope.paths))
            wanted = await differences(shadow, scan.tree, aim.tree, inside) if aim and inside is not None else []
            plan = await plan_restore(shadow, wanted, clean=clean, roots=inside or (), aim=aim.tree if aim else "")
            counts = await count_not_covered(shadow, scan, roots(limits))
            if not dry_run and aim is not None and safety is not None:
                await self._carry_out(workspace, shadow, plan, aim)
                restored = Restored(
                    checkpoint_id=aim.checkpoint_id,
                    safety_checkpoint_id=safety.checkpoint_id,
                    at=truncated(self._now()),
                    cause=cause,
                    paths=limits,
                    clean=clean,
                    files_changed=len(plan.actions),
                    left_in_place=len(plan.left),
                    failed=len(plan.failed),
                    back_to=aim.at,
                    changed=tuple(names.shown(path) for path in sorted(plan.actions)[:FILES_NAMED]),
                    turn=target.before_turn if target is not None else None,
                )
                await self._log.append(workspace.location, history.with_commands(records, restored))
        result = _restored(plan, aim, safety, counts, dry_run=dry_run)
        if result.failed and not dry_run:
            raise RestoreIncomplete(result.failure_text, details=result.as_dict())
        return result

    def copy_borrowed_soon(self, workspace: Workspace) -> None:
        """Run `copy_borrowed` in the background, so that a new shell does not wait for it.

        The task group lives in a task of its own, because the tasks of requests come and go.
        """
        if self._background is None:
            self._to_copy, copies = anyio.create_memory_object_stream[Workspace](math.inf)
            self._background = asyncio.create_task(self._run_copies(copies))
        assert self._to_copy is not None
        self._to_copy.send_nowait(workspace)

    async def aclose(self) -> None:
        """End the background copies within a limit; a copy that was not made is made by the next shell."""
        if self._background is not None and self._to_copy is not None:
            self._to_copy.close()
            with anyio.move_on_after(CHECKPOINT_CLOSE_S):
                await self._background

    async def _run_copies(self, copies: MemoryObjectReceiveStream[Workspace]) -> None:
        async with anyio.create_task_group() as tasks, copies:
            async for workspace in copies:
                tasks.start_soon(self._copy_or_log, workspace)

    async def _copy_or_log(self, workspace: Workspace) -> None:
        try:
            await self.copy_borrowed(workspace)
        except (ShiftlogError, OSError) as error:
            log.warning("%s still needs the user's repository: %s", workspace.location.path, error)

    async def copy_borrowed(self, workspace: Workspace) -> bool:
        """Copy the objects that checkpoints borrow from the user's repository; return False if there are none."""
        async with self._exclusive(workspace):
            if not await keeping.is_borrowing(workspace.shadow):
                return False
            await keeping.copy_borrowed(workspace.shadow)
            return True

    async def gc(self, workspace: Workspace, open_sessions: Collection[str]) -> int:
        """Remove automatic checkpoints beyond the limit and reclaim space; return how many were removed."""
        async with self._exclusive(workspace):
            records = await self._log.read(workspace.location)
            stored = await keeping.stored_ids(workspace.shadow)
            gone = history.droppable(records, stored, self._limits.automatic_kept, open_sessions)
            await keeping.forget(workspace.shadow, gone)
            return len(gone)

    @asynccontextmanager
    async def _entered(self, workspace: Workspace, *, create: bool = False) -> AsyncGenerator[Shadow]:
        """Hold the shadow repository, and its workspace open; all file work goes through what this yields."""
        async with self._exclusive(workspace), workspace.shadow.entered(create=create) as shadow:
            yield shadow

    @asynccontextmanager
    async def _exclusive(self, workspace: Workspace) -> AsyncGenerator[None]:
        shadow = workspace.shadow
        line = self._locks.setdefault((shadow.location.target, shadow.git_dir), asyncio.Lock())
        async with line, AsyncExitStack() as held:
            try:
                try:
                    await held.enter_async_context(shadow.runner.lock(shadow.lock_path))
                except FileNotFoundError:  # the repository was removed: its checkpoints are lost, new ones can be taken
                    await prepare(shadow)
                    await held.enter_async_context(shadow.runner.lock(shadow.lock_path))
            except LockTimeout:
                raise invalid(shadow.location.path, "another process holds its checkpoints") from None
            yield

    async def _scan(
        self, workspace: Workspace, shadow: Shadow, here: Saved | None, created: Collection[bytes] = ()
    ) -> TreeScan:
        cache = workspace.cache(shadow)
        position = here.checkpoint_id if here is not None else None
        try:
            # Before the first checkpoint there is no status to read.
            seen = await read_status(shadow, position) if here is not None or cache.tree else None
            if seen is None:
                return await first_scan(shadow, cache, position, self._limits)
            return await update_index(shadow, cache, seen, self._limits, created=created)
        except ShadowBroken:
            # Borrowed objects may be gone, or a crash left a torn index: start again from the files.
            cache.forget()
            return await first_scan(shadow, cache, position, self._limits, borrow=False)

    def _holds(self, here: Saved, scan: TreeScan) -> bool:
        return here.tree == scan.tree and scan.position_stored

    async def _commit(
        self,
        workspace: Workspace,
        shadow: Shadow,
        scan: TreeScan,
        records: Sequence[Record],
        kind: CheckpointKind,
        label: str,
        cause: Cause,
    ) -> Saved:
        before = history.checkpoints(records)[-1:]
        compare = before[0].tree if before else None
        made, changed = await keeping.commit(shadow, scan, compare)
        count = len(changed)
        if not changed.keys().isdisjoint((b"modes", b"beside")) and compare is not None:
            count = len(await differences(shadow, compare, scan.tree))
        saved = Saved(
            checkpoint_id=made,
            tree=scan.tree,
            kind=kind,
            label=label,
            at=truncated(self._now()),
            cause=cause,
            scope=shadow.scope,
            files=scan.state.files,
            files_changed=count,
            changes=keeping.changes_since(records, changed)
            if before and before[0] is history.position(records)
            else None,
        )
        await self._log.append(workspace.location, saved)
        return saved

    async def _target(
        self, workspace: Workspace, shadow: Shadow, records: Sequence[Record], target: RestoreTarget
    ) -> tuple[TreeScan, Shadow, Saved | None]:
        """Find the target and scan the workspace with the scope of the target.

        Without a checkpoint the target is the workspace as it is: the turn or command came after the last change.
        """
        here = history.position(records)
        named, found = await history.resolve(self._log, workspace.location, records, target, workspace.session_id)
        scan: TreeScan | None = None
        if not named:
            scan = await self._scan(workspace, shadow, here)
            found = history.default_target(records, scan.tree)
            if found is None:
                await keep_state(shadow, scan)
                raise NothingToRestore("no checkpoint to restore")
        if found is not None and found.scope != shadow.scope:
            if scan is not None:
                await keep_state(shadow, scan)
            shadow = replace(shadow, scope=found.scope)
            await write_excludes(shadow)
            scan = None
        return scan or await self._scan(workspace, shadow, here), shadow, found

    async def _carry_out(self, workspace: Workspace, shadow: Shadow, plan: RestorePlan, aim: Saved) -> None:
        """Follow the plan, then scan again: paths that still differ from the target failed."""
        if not plan.actions:
            return
        reasons = await carry_out(shadow, plan)
        after = await self._scan(workspace, shadow, aim, created=plan.created())
        await keep_state(shadow, after)
        for difference in await differences(shadow, after.tree, aim.tree):
            if plan.actions.pop(difference.path, None) is not None:
                plan.failed[difference.path] = reasons.get(difference.path, NOT_WRITTEN)

    def _refuse_while_busy(self, location: Location) -> None:
        busy = self.busy(location)
        if busy is not None:
            raise ShellBusy(
                f"shell {busy.shell_id} is running {busy.command_id}",
                details={"command_id": busy.command_id, "since": precise(busy.since)},
                hint="Wait for its end with read_output, or end it with send_input or close_shell, then restore again",
            )


def _created(saved: Saved, *, unchanged: bool, not_covered: results.NotCovered | None) -> results.Created:
    return results.Created(
        checkpoint_id=saved.checkpoint_id,
        label=saved.label,
        kind=saved.kind,
        created_at=saved.at,
        request_id=saved.cause.request_id,
        command_id=saved.cause.command_id,
        unchanged=unchanged,
        files=saved.files,
        not_covered=not_covered,
    )


def _restored(
    plan: RestorePlan, aim: Saved | None, safety: Saved | None, counts: results.NotCovered, *, dry_run: bool
) -> results.RestoreResult:
    return results.RestoreResult(
        restored_to=aim.checkpoint_id if aim is not None else "",
        changes=tuple(
            results.Change(path=plan.shown(path), action=plan.actions[path]) for path in sorted(plan.actions)
        ),
        left_in_place=tuple(names.shown(path) for path in sorted(plan.left)),
        safety_checkpoint_id=safety.checkpoint_id if safety is not None else None,
        not_covered=counts,
        failed=tuple(results.Failure(path=plan.shown(path), reason=plan.failed[path]) for path in sorted(plan.failed)),
        dry_run=dry_run,
    )
