"""The native workspace tools: naming, listing, comparing and restoring the states of a working tree."""

from collections.abc import Mapping
from typing import Any

from shiftlog.app import workspaces as requests
from shiftlog.app.app import App
from shiftlog.mcp.registry import Tool
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
    record,
)
from shiftlog.model.caller import Caller
from shiftlog.params.fields import Record

CREATE_TEXT = """\
Create a named checkpoint before something risky (commands take automatic ones); undo is restore_checkpoint. Your git \
repository is not touched; repeats make another.
Errors: workspace_required, workspace_invalid, git_missing, checkpoint_too_large, shell_ended."""
LIST_TEXT = """\
List checkpoints, newest first; what changed: diff_checkpoint. Read-only. Errors: workspace_required."""
DIFF_TEXT = """\
Show what changed since a checkpoint, turn or command; default: what restore_checkpoint would undo. Read-only.
Errors: checkpoint_not_found, turn_not_found, nothing_to_restore, workspace_required."""
RESTORE_TEXT = """\
Restore a workspace, whole or by paths, by default one step back; look first with dry_run or diff_checkpoint.
A safety checkpoint is taken first; newer files stay unless clean; what no checkpoint holds is never touched. Repeats \
go further back.
Errors: nothing_to_restore, checkpoint_not_found, turn_not_found, shell_busy, restore_incomplete, \
sandbox_not_allowed."""

CREATED = record(
    {
        "checkpoint_id": TEXT,
        "label": TEXT,
        "kind": TEXT,
        "created_at": TEXT,
        "request_id": TEXT_OR_NULL,
        "command_id": TEXT_OR_NULL,
        "unchanged": FLAG,
        "files": NUMBER,
        "not_covered": OPEN_OBJECT,
    }
)
LISTED = record({"checkpoints": OBJECTS, "next_cursor": TEXT_OR_NULL})
DIFF = record(
    {
        "from": TEXT,
        "to": TEXT_OR_NULL,
        "files": OBJECTS,
        "files_changed": NUMBER,
        "patch": TEXT_OR_NULL,
        "truncated": FLAG,
        "budget": OBJECT_OR_NULL,
    }
)
RESTORED = record(
    {
        "restored_to": TEXT,
        "files_changed": NUMBER,
        "changes": OBJECTS,
        "changes_truncated": FLAG,
        "left_in_place": OPEN_OBJECT,
        "safety_checkpoint_id": TEXT_OR_NULL,
        "not_covered": OPEN_OBJECT,
        "failed": OBJECTS,
        "dry_run": FLAG,
        "hint": TEXT_OR_NULL,
    }
)


def workspace_tools(app: App) -> tuple[Tool, ...]:
    """Return the four workspace tools over an app."""

    def tool(name: str, says: str, params: Record, output: Schema, **kind: bool) -> Tool:
        async def call(arguments: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
            return await getattr(app.workspaces, name)(arguments, caller)  # made with the first call

        kind["idempotent"] = kind.get("read_only", False)
        return native("workspace", name, says, params, output, through(call), **kind)

    return (
        tool("create_checkpoint", CREATE_TEXT, requests.CREATE_CHECKPOINT, CREATED),
        tool("list_checkpoints", LIST_TEXT, requests.LIST_CHECKPOINTS, LISTED, read_only=True),
        tool("diff_checkpoint", DIFF_TEXT, requests.DIFF_CHECKPOINT, DIFF, read_only=True),
        tool("restore_checkpoint", RESTORE_TEXT, requests.RESTORE_CHECKPOINT, RESTORED, destructive=True),
    )
