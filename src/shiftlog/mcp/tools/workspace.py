"""The native workspace tools: naming, listing, comparing and restoring the states of a working tree."""

from collections.abc import Mapping
from typing import Any

from shiftlog.app import workspaces as requests
from shiftlog.app.app import App
from shiftlog.mcp.registry import Run, Tool
from shiftlog.mcp.tools.adapters import through
from shiftlog.mcp.tools.outputs import OBJECTS, OPEN_OBJECT, Schema, flag, number, record, text
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

CREATED: Schema = record(
    {
        "checkpoint_id": text(),
        "label": text(),
        "kind": text(),
        "created_at": text(),
        "request_id": text(null=True),
        "command_id": text(null=True),
        "unchanged": flag(),
        "files": number(),
        "not_covered": OPEN_OBJECT,
    }
)
LISTED: Schema = record({"checkpoints": OBJECTS, "next_cursor": text(null=True)})
DIFF: Schema = record(
    {
        "from": text(),
        "to": text(null=True),
        "files": OBJECTS,
        "files_changed": number(),
        "patch": text(null=True),
        "truncated": flag(),
        "budget": {"type": ["object", "null"]},
    }
)
RESTORED: Schema = record(
    {
        "restored_to": text(),
        "files_changed": number(),
        "changes": OBJECTS,
        "changes_truncated": flag(),
        "left_in_place": OPEN_OBJECT,
        "safety_checkpoint_id": text(null=True),
        "not_covered": OPEN_OBJECT,
        "failed": OBJECTS,
        "dry_run": flag(),
        "hint": text(null=True),
    }
)


def workspace_tools(app: App) -> tuple[Tool, ...]:
    """Return the four workspace tools over an app."""

    def tool(name: str, title: str, says: str, params: Record, output: Schema, **kind: Any) -> Tool:
        return Tool(
            name=name,
            toolset="workspace",
            title=title,
            description=says,
            params=params,
            output=output,
            run=_call(app, name),
            idempotent=kind.get("read_only", False),
            **kind,
        )

    return (
        tool("create_checkpoint", "Create checkpoint", CREATE_TEXT, requests.CREATE_CHECKPOINT, CREATED),
        tool("list_checkpoints", "List checkpoints", LIST_TEXT, requests.LIST_CHECKPOINTS, LISTED, read_only=True),
        tool("diff_checkpoint", "Diff checkpoint", DIFF_TEXT, requests.DIFF_CHECKPOINT, DIFF, read_only=True),
        tool(
            "restore_checkpoint",
            "Restore checkpoint",
            RESTORE_TEXT,
            requests.RESTORE_CHECKPOINT,
            RESTORED,
            destructive=True,
        ),
    )


def _call(app: App, verb: str) -> Run:
    async def service(arguments: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        return await getattr(app.workspaces, verb)(arguments, caller)  # made with the first call

    return through(service)
