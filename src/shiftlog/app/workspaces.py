"""Checkpoints joined with shells and journal: the four workspace tools, and the checkpoints that shells ask for.

The package `workspace` makes and restores checkpoints. This module finds the workspace, session and turn of each.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, cast

from shiftlog.app.checkpoint_log import JournalCheckpointLog
from shiftlog.guard.budgets.spec import read_budget
from shiftlog.guard.budgets.text import shape_text
from shiftlog.guard.secrets.redactor import Redactor
from shiftlog.journal.shells.log import ShellLog
from shiftlog.model.caller import Caller
from shiftlog.model.errors import ShiftlogError
from shiftlog.model.moves import UNFINISHED
from shiftlog.model.shell_errors import (
    GitMissing,
    SandboxNotAllowed,
    WorkspaceInvalid,
    WorkspaceRequired,
)
from shiftlog.params.fields import Boolean, Choice, Integer, ListOf, RawText, Record, unlisted
from shiftlog.params.wording import SHELL, conflict, missing
from shiftlog.shell import requests
from shiftlog.shell.outputs.command_output import DEFAULT_CHARS
from shiftlog.shell.registry import ShellRegistry
from shiftlog.shell.state import Command, Shell
from shiftlog.store.protocol import Filter, Page, Reader
from shiftlog.workspace.checkpoints import LABEL_CHARS, Checkpoints, Workspace
from shiftlog.workspace.history import RestoreTarget, working_since
from shiftlog.workspace.ports import Busy, Cause, CheckpointKind, CheckpointLimits, Location, Runner, Scope
from shiftlog.workspace.rules import read_scope
from shiftlog.workspace.runner import LocalRunner
from shiftlog.workspace.shadow import WorkspaceGone

log = logging.getLogger(__name__)

KINDS = ("manual", "auto", "open", "turn", "end", "safety")
_WHERE: dict[str, Any] = {
    "shell_id": RawText(
        max_chars=300, description="Any shell of the workspace, remote ones too. Give this or workspace."
    ),
    "workspace": RawText(
        max_chars=4096,
        description="Its absolute path on this machine, as given to open_shell.",
    ),
}
_TARGET: dict[str, Any] = {
    "checkpoint_id": RawText(max_chars=64, description="Its id, or 4 or more of its first characters."),
    "before_turn": RawText(
        max_chars=300,
        description="A request_id: the state before this turn, or the first saved in it.",
    ),
    "before_command": RawText(max_chars=300, description="A command_id: the state before this command."),
}
SESSIONS_AT_ONCE = 500
_UNFINISHED = Filter(states=frozenset(map(str, UNFINISHED)))
LISTS_OF_NAMES = ("files", "changes", "left_in_place", "failed")
_PATHS = ListOf(
    item=RawText(max_chars=4096),
    max_items=64,
    description="Only these files or directories, relative to the workspace. Default: all.",
    examples=(["src/cart.py"],),
)

CREATE_CHECKPOINT = Record(
    fields={
        **_WHERE,
        "label": RawText(
            max_chars=LABEL_CHARS,
            default="checkpoint",
            description="A name for it; names may repeat.",
            examples=("tests pass",),
        ),
    }
).worded(SHELL)
LIST_CHECKPOINTS = Record(
    fields={
        **_WHERE,
        "request_id": RawText(max_chars=300, description="Only those of this turn."),
        "cursor": RawText(max_chars=200, description="next_cursor of the page before."),
        **unlisted(
            {
                "limit": Integer(minimum=1, maximum=200, default=50, description="Checkpoints per page."),
                "kind": Choice(
                    values=KINDS,
                    description="Default: all. manual: create_checkpoint; auto: before a command; open: when a shell "
                    "opened; turn: before a turn; end: after it; safety: before a restore.",
                ),
            }
        ),
    }
).worded(SHELL)
DIFF_CHECKPOINT = Record(
    fields={
        **_WHERE,
        **_TARGET,
        "to": RawText(max_chars=64, description="Newer side, a checkpoint_id. Default: the files now."),
        "format": Choice(
            values=("summary", "patch"),
            default="summary",
            description="patch adds a unified diff.",
        ),
        "paths": _PATHS,
        **unlisted({"budget": requests.like_budget("Part of the patch to return; see budget of run_command.")}),
    }
).worded(SHELL)
RESTORE_CHECKPOINT = Record(
    fields={
        **_WHERE,
        **_TARGET,
        "paths": _PATHS,
        "clean": Boolean(
            default=False,
            description="Also delete files created since, within paths; they are saved first.",
        ),
        "dry_run": Boolean(default=False, description="Only report what would change."),
    }
).worded(SHELL)

Result = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """A workspace that a shell works in."""

    workspace: Workspace
    automatic: bool


class Workspaces:
    """Checkpoints of the workspaces of shells, and of local ones that have some."""

    def __init__(
        self,
        *,
        log: JournalCheckpointLog,
        shell_log: ShellLog,
        shells: ShellRegistry,
        redactor: Redactor,
        runner_of: Callable[[Shell], Runner | None],
        permit: Callable[[str, Caller], None],
        sandbox_max: str,
        data: Path,
        now: Callable[[], datetime],
        limits: CheckpointLimits,
    ) -> None:
        self.log = log
        self._shell_log = shell_log
        self._shells = shells
        self._redactor = redactor
        self._runner_of = runner_of
        self._permit = permit
        self._sandbox_max = sandbox_max
        self.checkpoints = Checkpoints(log, data=str(data), busy=self._busy, now=now, limits=limits)
        self._attached: dict[str, Attached] = {}

    def check_permitted(self, workspace: Workspace, caller: Caller) -> None:
        """Reject a workspace that the operator does not permit."""
        self._permit(workspace.location.path, caller)

    # For shells

    async def attach(self, shell: Shell, values: Mapping[str, Any]) -> dict[str, Any]:
        """Take the first checkpoint of a shell's workspace; from now on its commands are covered."""
        if shell.workspace is None:
            return {"enabled": False, "reason": "no_workspace", "baseline_id": None}
        runner = self._runner_of(shell)
        scope = _scope(values)
        try:
            if runner is None:
                raise GitMissing("checkpoints need git on the target")
            workspace = await self.checkpoints.open(runner, shell.workspace, scope, session_id=shell.session_id)
            if runner.target is None and workspace.location.path != shell.workspace:
                raise WorkspaceGone(shell.workspace, "it was replaced while the shell opened")
            automatic = bool(values.get("auto_snapshot", True))
            self._attached[shell.shell_id] = Attached(workspace=workspace, automatic=automatic)
            baseline = None
            if automatic:
                created = await self.checkpoints.save(workspace, kind="open", cause=Cause(session_id=shell.session_id))
                baseline = created.checkpoint_id
                self.checkpoints.copy_borrowed_soon(workspace)
        except GitMissing:
            return {"enabled": False, "reason": "git_missing", "baseline_id": None}
        return {"enabled": True, "reason": None, "baseline_id": baseline}

    async def attach_again(self, shell: Shell, values: Mapping[str, Any]) -> None:
        """Go on covering the workspace of a shell that an earlier server opened; no checkpoint is taken now."""
        runner = self._runner_of(shell)
        if shell.workspace is None or runner is None:
            return
        with suppress(GitMissing):
            scope, automatic = _scope(values), bool(values.get("auto_snapshot", True))
            workspace = await self.checkpoints.open(runner, shell.workspace, scope, session_id=shell.session_id)
            self._attached[shell.shell_id] = Attached(workspace=workspace, automatic=automatic)

    def check(self, values: Mapping[str, Any]) -> None:
        """Check sub-paths and patterns before a shell is opened."""
        _scope(values)

    async def before(self, shell: Shell, command: Command) -> str | None:
        """Return the checkpoint that undoes a command; unless the command only reads, the workspace is saved first."""
        attached = self._attached.get(shell.shell_id)
        if attached is None or not attached.automatic:
            return None
        if command.judgement.read_only:
            here = await self.checkpoints.current(attached.workspace)
            return here.checkpoint_id if here else None
        await self._shell_log.check_live(shell.session_id)
        cause = Cause(
            session_id=shell.session_id,
            request_id=await self._shell_log.open_turn(shell.session_id),
            command_id=command.command_id,
        )
        try:
            return (await self.checkpoints.save(attached.workspace, kind="auto", cause=cause)).checkpoint_id
        except WorkspaceGone:
            return None  # its directory is gone: the command may be the one that brings it back

    async def turn_moved(self, session_id: str, request_id: str, moment: Literal["turn", "end"]) -> None:
        """Save the workspaces of a session's live shells at the beginning or end of a turn."""
        for shell in self._shells.live():
            attached = self._attached.get(shell.shell_id)
            if shell.session_id == session_id and attached is not None and attached.automatic:
                cause = Cause(session_id=session_id, request_id=request_id)
                try:
                    if moment == "turn" or await self._is_worked_in(attached.workspace, cause):
                        await self.checkpoints.save(attached.workspace, kind=moment, cause=cause)
                except ShiftlogError as error:  # the turn has begun or ended all the same
                    log.warning("No checkpoint of %s for turn %s: %s", shell.workspace, request_id, error.message)

    async def after(self, shell: Shell) -> None:
        """Save the workspace at the end of a shell, so that later changes are not attributed to its last command."""
        attached = self._attached.get(shell.shell_id)
        cause = Cause(session_id=shell.session_id)
        if attached is None or not attached.automatic or not await self._is_worked_in(attached.workspace, cause):
            return
        try:
            await self.checkpoints.save(attached.workspace, kind="end", label="shell ended", cause=cause)
        except ShiftlogError as error:  # the shell is over all the same
            log.warning("No checkpoint of %s at the end of its shell: %s", shell.workspace, error.message)

    async def _is_worked_in(self, workspace: Workspace, by: Cause) -> bool:
        """Return True if the last checkpoint was made for work of a session, and of a turn if one is named."""
        cause = working_since(await self.log.read(workspace.location))
        return cause is not None and cause.session_id == by.session_id and by.request_id in (None, cause.request_id)

    def _busy(self, location: Location) -> Busy | None:
        """Return the command that runs in a shell on a workspace, if one does."""
        for shell in self._shells.live():
            attached = self._attached.get(shell.shell_id)
            if attached is None or attached.workspace.location != location:
                continue
            for command in shell.running or ([shell.foreground] if shell.foreground else []):
                return Busy(
                    shell_id=shell.shell_id,
                    command_id=command.command_id,
                    since=command.started_at or shell.created_at,
                )
        return None

    # The tools

    async def create_checkpoint(self, arguments: Mapping[str, Any], caller: Caller) -> Result:
        """Name a state of the workspace."""
        values = CREATE_CHECKPOINT.read(arguments)
        workspace, cause = await self._asked(values, caller)
        await self._check_session(cause)
        label = self._mask(values, values["label"])[:LABEL_CHARS] if values.get("label") else None
        created = await self.checkpoints.save(workspace, kind="manual", label=label, cause=cause)
        return created.as_dict()

    async def list_checkpoints(self, arguments: Mapping[str, Any], caller: Caller) -> Result:
        """List the checkpoints of a workspace, newest first."""
        values = LIST_CHECKPOINTS.read(arguments)
        workspace, _ = await self._asked(values, caller)
        listing = await self.checkpoints.list(
            workspace,
            request_id=values.get("request_id"),
            kind=cast("CheckpointKind | None", values.get("kind")),
            limit=values.get("limit", 50),
            cursor=values.get("cursor"),
        )
        return listing.as_dict()

    async def diff_checkpoint(self, arguments: Mapping[str, Any], caller: Caller) -> Result:
        """Show what changed since a checkpoint."""
        values = DIFF_CHECKPOINT.read(arguments)
        as_patch = values.get("format") == "patch"
        if values.get("budget") is not None and not as_patch:
            raise conflict("budget", 'format: "summary"')
        budget = read_budget(values.get("budget"), "budget")
        workspace, _ = await self._asked(values, caller)
        found = await self.checkpoints.diff(
            workspace, _target(values), to=values.get("to"), as_patch=as_patch, paths=values.get("paths", ())
        )
        shown = self._with_names(values, found.as_dict())
        if found.patch is not None:
            shaped = shape_text(self._mask(values, found.patch), budget, DEFAULT_CHARS)
            report = None if budget is None or budget.keeps_everything else shaped.report.as_dict()
            shown |= {
                "patch": shaped.text,
                "truncated": bool(shown["truncated"]) or shaped.truncated,
                "budget": report,
            }
        return shown

    async def file_patch(self, path: str, file: str, since: str, until: str) -> str:
        """Return the patch of a file in a local workspace between two checkpoints."""
        workspace = await self.checkpoints.open(LocalRunner(), path)
        return self._mask({}, await self.checkpoints.patch_between(workspace, since, until, file))

    async def restore_checkpoint(self, arguments: Mapping[str, Any], caller: Caller) -> Result:
        """Go back to a checkpoint; a safety checkpoint holds what is overwritten."""
        values = RESTORE_CHECKPOINT.read(arguments)
        shell = await self._shells.usable(values["shell_id"]) if values.get("shell_id") else None
        mode = shell.guard.sandbox if shell is not None else self._sandbox_max
        if mode == "read-only":
            details = {"mode": mode, "max": self._sandbox_max}
            raise SandboxNotAllowed(f"sandbox '{mode}' is not permitted", details=details)
        if not values.get("dry_run"):
            self._shells.check_use(values.get("shell_id"), caller)
        workspace, cause = await self._asked(values, caller)
        if not values.get("dry_run"):
            await self._check_session(cause)
        restored = await self.checkpoints.restore(
            workspace,
            _target(values),
            paths=values.get("paths", ()),
            clean=bool(values.get("clean")),
            dry_run=bool(values.get("dry_run")),
            cause=cause,
        )
        return self._with_names(values, restored.as_dict())

    async def gc(self) -> int:
        """Remove automatic checkpoints beyond the limit, of every local workspace that is still there.

        Checkpoints of turns stay while their session may go on.
        """
        unfinished = await self._shell_log.read(_unfinished_sessions)
        gone = 0
        for location in await self.log.locations():
            if location.target is None and Path(location.path).is_dir():
                workspace = await self.checkpoints.open(LocalRunner(), location.path)
                gone += await self.checkpoints.gc(workspace, unfinished)
        return gone

    async def _asked(self, values: Mapping[str, Any], caller: Caller) -> tuple[Workspace, Cause]:
        """Return the workspace that a call names, and on whose behalf it is made."""
        if values.get("shell_id") is not None and values.get("workspace") is not None:
            raise conflict("workspace", "shell_id")
        if values.get("shell_id") is not None:
            shell = await self._shells.usable(values["shell_id"])
            attached = self._attached.get(shell.shell_id)
            if attached is None:
                if shell.workspace is not None:
                    raise GitMissing("checkpoints need git on the target", details={"found": None})
                raise WorkspaceRequired("checkpoints require an explicit workspace")
            request_id = await self._shell_log.open_turn(shell.session_id)
            by = caller.client_name if caller.operator else None
            return attached.workspace, Cause(session_id=shell.session_id, request_id=request_id, by=by)
        if values.get("workspace") is None:
            raise missing("shell_id")
        workspace = await self.checkpoints.open(LocalRunner(), values["workspace"])
        if not caller.operator:
            self.check_permitted(workspace, caller)
        if not await self.log.read(workspace.location):
            why = "it has no checkpoints"
            raise WorkspaceInvalid(f"workspace {values['workspace']} cannot be used: {why}", details={"why": why})
        return workspace, Cause(by=caller.client_name)

    async def _check_session(self, cause: Cause) -> None:
        """Refuse a call whose checkpoint would be recorded in a session that has ended."""
        if cause.session_id is not None:
            await self._shell_log.check_live(cause.session_id)

    def _mask(self, values: Mapping[str, Any], text: str) -> str:
        shell = self._shells.find(values["shell_id"]) if values.get("shell_id") else None
        return shell.mask(text) if shell is not None else self._redactor.text(text, by_rule=True).text

    def _with_names(self, values: Mapping[str, Any], answer: Result) -> Result:
        """Mask secrets in names of files."""
        shell = self._shells.find(values["shell_id"]) if values.get("shell_id") else None
        redactor = self._redactor if shell is None else shell.redactor
        lists = {key: answer[key] for key in LISTS_OF_NAMES if key in answer}
        return answer | redactor.value(lists, by_rule=True, path_fields=frozenset(("path", "paths")))[0]


def _scope(values: Mapping[str, Any]) -> Scope:
    return read_scope(
        values.get("paths", ()),
        values.get("checkpoint_ignores", ()),
        include_ignored=bool(values.get("include_ignored")),
    )


def _target(values: Mapping[str, Any]) -> RestoreTarget:
    return RestoreTarget(
        checkpoint_id=values.get("checkpoint_id"),
        before_turn=values.get("before_turn"),
        before_command=values.get("before_command"),
    )


def _unfinished_sessions(reader: Reader) -> list[str]:
    found: list[str] = []
    after: tuple[int, int] | None = None
    while rows := reader.find_sessions(_UNFINISHED, Page(limit=SESSIONS_AT_ONCE, after=after)):
        found += [row.session.id for row in rows]
        after = rows[-1].at
    return found
