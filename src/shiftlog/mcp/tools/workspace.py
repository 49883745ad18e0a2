"""The native workspace tools: naming, listing, comparing and restoring the states of a working tree."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from shiftlog.app import workspaces as requests
from shiftlog.app.app import App
from shiftlog.mcp.registry import Run, Tool
from shiftlog.mcp.tools import short_answers
from shiftlog.mcp.tools.adapters import native, through
from shiftlog.mcp.tools.outputs import (
    FLAG,
    NUMBER,
    OBJECT_OR_NULL,
    OBJECTS,
    OPEN_OBJECT,
    TEXT,
    TEXT_OR_NULL,
    Schema,
    answer,
    one_of,
    record,
    said,
)
from shiftlog.mcp.tools.short_answers import shortened, with_detail
from shiftlog.model.caller import Caller

CREATE_TEXT = """\
Create a named checkpoint of a workspace's files, to which restore_checkpoint can go back.
Use it to mark a good state. Not needed to undo a command or a turn: files are saved before each.
It changes neither files nor your git repository. Not saved: what .gitignore excludes, secrets such as .env, files \
over 50 MiB (not_covered counts them). Kept for ever; each call makes another.
Returns checkpoint_id, files, unchanged (true: equal to the one before).
Errors: workspace_required (open_shell with workspace), workspace_invalid (open_shell with it once), git_missing (ask \
the operator), checkpoint_too_large (extend .gitignore), shell_not_found (list_shells), shell_ended (use workspace)."""
LIST_TEXT = """\
List a workspace's checkpoints, newest first, each with its time, turn and command.
Use it to choose a target for restore_checkpoint; diff_checkpoint shows what changed. The 500 newest automatic ones \
and all named ones are kept. Read-only.
Returns checkpoints, 50 a page, and next_cursor.
Errors: workspace_required, workspace_invalid (open_shell with workspace), shell_not_found (list_shells)."""
DIFF_TEXT = """\
Show which files differ between a checkpoint and now, or between two checkpoints.
Use it to review work; to undo it, restore_checkpoint. The start is one of checkpoint_id, before_turn or \
before_command; default: the state before the last change. Files that no checkpoint holds (ignored, secret, \
huge) are not compared. Read-only.
Returns files, files_changed, patch (secrets masked; over 30,000 characters cut: narrow paths).
Errors: checkpoint_not_found, turn_not_found, command_not_found (list_checkpoints), nothing_to_restore (no checkpoint \
yet), workspace_required, workspace_invalid (open_shell with workspace), shell_not_found (list_shells)."""
RESTORE_TEXT = """\
Restore a workspace's files as they were before the last change, a command or a turn, or at a checkpoint.
The target is one of checkpoint_id, before_turn or before_command; default: undo the last change of files, each repeat \
one more. Look first: dry_run lists the files, diff_checkpoint shows their lines.
All that changed since is saved, then overwritten, whoever changed it; restoring safety_checkpoint_id undoes the \
restore. Files created since stay; to undo all, set clean. Files that no checkpoint holds (ignored, secret, \
huge), git history (use git) and running processes are not touched. It is recorded in the open turn.
Returns restored_to, changes, left_in_place (files created since), failed, safety_checkpoint_id.
Errors: nothing_to_restore (no earlier state), checkpoint_not_found, turn_not_found, command_not_found \
(list_checkpoints), shell_busy (a command runs; wait or send_input), restore_incomplete (see details.failed), \
workspace_required, workspace_invalid (open_shell with workspace), shell_not_found (list_shells), sandbox_not_allowed \
(the operator forbids writes)."""

_NOT_COVERED = said(OPEN_OBJECT, "Counts of files that were not saved: ignored, secret, too_large.")
CREATED = record(
    {
        "checkpoint_id": TEXT,
        "label": TEXT,
        "kind": TEXT,
        "created_at": TEXT,
        "request_id": TEXT_OR_NULL,
        "command_id": TEXT_OR_NULL,
        "unchanged": said(FLAG, "True: the files equal those of the checkpoint before."),
        "files": said(NUMBER, "Files saved."),
        "not_covered": _NOT_COVERED,
    }
)
_KIND = said(
    one_of(*requests.KINDS),
    "manual: create_checkpoint; auto: before a command; open: when a shell opened; turn, end: before and after a turn; "
    "safety: before a restore.",
)
_LISTED: Schema = {
    "type": "object",
    "properties": {
        "checkpoint_id": TEXT,
        "label": TEXT,
        "kind": _KIND,
        "created_at": TEXT,
        "request_id": TEXT_OR_NULL,
        "command_id": TEXT_OR_NULL,
        "files_changed": said({"type": ["integer", "null"]}, "Against the one before."),
        "current": said(FLAG, "The present position; a restore without target goes back from here."),
    },
}
LISTED = record({"checkpoints": {"type": "array", "items": _LISTED}, "next_cursor": TEXT_OR_NULL})
DIFF = record(
    {
        "from": TEXT,
        "to": said(TEXT_OR_NULL, "Null: the files now."),
        "files": said(OBJECTS, "path, status, insertions, deletions, binary."),
        "files_changed": NUMBER,
        "patch": TEXT_OR_NULL,
        "truncated": FLAG,
        "budget": OBJECT_OR_NULL,
    }
)
RESTORED = answer(
    {"restored_to": TEXT, "files_changed": NUMBER},
    {
        "changes": said(OBJECTS, "path and action: written, created, deleted, mode."),
        "changes_truncated": FLAG,
        "left_in_place": said(OPEN_OBJECT, "count and paths of files created since."),
        "safety_checkpoint_id": said(TEXT_OR_NULL, "Restoring it undoes this restore."),
        "not_covered": _NOT_COVERED,
        "failed": said(OBJECTS, "path and why."),
        "dry_run": FLAG,
        "hint": TEXT_OR_NULL,
    },
)


def workspace_tools(app: App) -> tuple[Tool, ...]:
    """Return the four workspace tools over an app."""

    def call(name: str) -> Run:
        async def run(arguments: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
            return await getattr(app.workspaces, name)(arguments, caller)  # made with the first call

        return through(run)

    tool = partial(native, "workspace")
    return (
        tool(
            "create_checkpoint",
            "Create a checkpoint",
            CREATE_TEXT,
            requests.CREATE_CHECKPOINT,
            CREATED,
            call("create_checkpoint"),
        ),
        tool(
            "list_checkpoints",
            "List checkpoints",
            LIST_TEXT,
            requests.LIST_CHECKPOINTS,
            LISTED,
            call("list_checkpoints"),
            read_only=True,
            idempotent=True,
        ),
        tool(
            "diff_checkpoint",
            "Compare with a checkpoint",
            DIFF_TEXT,
            requests.DIFF_CHECKPOINT,
            DIFF,
            call("diff_checkpoint"),
            read_only=True,
            idempotent=True,
        ),
        tool(
            "restore_checkpoint",
            "Restore files",
            RESTORE_TEXT,
            with_detail(requests.RESTORE_CHECKPOINT, listed=False),
            RESTORED,
            shortened(short_answers.RESTORE_CHECKPOINT, call("restore_checkpoint")),
            destructive=True,
        ),
    )
