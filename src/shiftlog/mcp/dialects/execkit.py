"""The execkit dialect: seven `session_*` tools over the same shells and checkpoints as the native ones.

Parameters and texts are in `execkit_listing`. A faulty argument is a JSON-RPC error that names it; every other error
is plain text, as clients of execkit expect.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, cast

import mcp_types as types
from mcp.shared.exceptions import MCPError

from shiftlog.app.app import App
from shiftlog.guard.budgets.spec import KEEP_MODES
from shiftlog.mcp.calls import current_call
from shiftlog.mcp.dialects.execkit_listing import (
    CHECKPOINT,
    CHECKPOINT_TEXT,
    CHECKPOINTS_TEXT,
    CREATE,
    CREATE_TEXT,
    DESTROY_TEXT,
    EXEC,
    EXEC_TEXT,
    LIST,
    LIST_TEXT,
    ONE,
    RESTORE,
    RESTORE_TEXT,
)
from shiftlog.mcp.registry import Reply, Run, Tool
from shiftlog.mcp.tools.adapters import Service
from shiftlog.mcp.tools.shell import named, run_cancellable
from shiftlog.model.caller import Caller
from shiftlog.model.errors import InternalError, InvalidParameter, ShiftlogError
from shiftlog.model.shell_errors import (
    BudgetInvalid,
    ContainerNotRunning,
    GitMissing,
    NothingToRestore,
    PolicyDenied,
    PolicyUndecidable,
    ShellEnded,
    ShellLimit,
    ShellLost,
    ShellNotFound,
    SshKeyNotPermitted,
    WorkspaceRequired,
)
from shiftlog.params.fields import Record
from shiftlog.shell.requests import CONTAINER, Conventions

TOOLSET = "execkit"
SHOWN_CHARS = 100_000
TIMEOUT_S = 120
SUMMARY_CHARS = 200
TRANSCRIPT_CHARS = 2_000

_SSH_ONLY = ("host", "user", "password", "key_path", "fingerprint", "port")
_WITH_WORKSPACE = ("paths", "checkpoint_ignores")

Body = Callable[[App, Caller, dict[str, Any]], Awaitable[Reply]]


def execkit_tools(app: App) -> tuple[Tool, ...]:
    """Return the seven tools over an app."""

    def tool(name: str, title: str, says: str, params: Record, body: Body, **kind: Any) -> Tool:
        return Tool(
            name=name,
            toolset=TOOLSET,
            title=title,
            description=says,
            params=params,
            run=_checked(app, params, body),
            render_error=partial(_said, name),
            annotated=bool(kind),
            **kind,
        )

    return (
        tool("session_create", "Create session", CREATE_TEXT, CREATE, _create),
        tool("session_exec", "Run in session", EXEC_TEXT, EXEC, _exec, destructive=True, open_world=True),
        tool("session_list", "List sessions", LIST_TEXT, LIST, _list, read_only=True, idempotent=True),
        tool("session_destroy", "Destroy session", DESTROY_TEXT, ONE, _destroy, destructive=True, idempotent=True),
        tool("session_checkpoint", "Save checkpoint", CHECKPOINT_TEXT, CHECKPOINT, _checkpoint, read_only=False),
        tool(
            "session_checkpoints",
            "List checkpoints",
            CHECKPOINTS_TEXT,
            ONE,
            _checkpoints,
            read_only=True,
            idempotent=True,
        ),
        tool("session_restore", "Restore checkpoint", RESTORE_TEXT, RESTORE, _restore, destructive=True),
    )


# Faults of arguments for which clients of execkit know a text, by parameter and problem.
_CREATE_FAULTS: Mapping[tuple[object, object], str] = {
    ("transport", "range"): 'transport must be "local", "ssh" or "docker"',
    ("user", "missing"): "ssh: 'user' required, or a host alias that gives it",
}


def _checked(app: App, params: Record, body: Body) -> Run:
    async def run(caller: Caller, arguments: dict[str, Any]) -> Reply:
        values: dict[str, Any] = {}
        try:
            values = params.read(arguments)
            return await body(app, named(caller), values)
        except (ShellNotFound, ShellEnded, ShellLost):
            unknown = f"unknown session_id '{values.get('session_id', '')}'; call session_list to see live sessions"
            raise _TextError(unknown, create=False) from None
        except InvalidParameter as error:
            if text := _CREATE_FAULTS.get((error.details.get("parameter"), error.details.get("problem"))):
                raise _TextError(text) from None
            mask = app.redactor
            error.message = mask.text(error.message, by_rule=True).text
            error.details = dict(mask.value(error.details, by_rule=True)[0])
            raise MCPError(types.INVALID_PARAMS, error.message, error.as_dict()) from None

    return run


async def _create(app: App, caller: Caller, values: dict[str, Any]) -> Reply:
    transport = values["transport"]
    given = {name: value for name, value in values.items() if value not in (None, "", [])}
    if given.get("port") == 0:
        del given["port"]
    ignored = [
        name
        for name in given
        if (name in _SSH_ONLY and transport != "ssh")
        or (name == "container" and transport != "docker")
        or (name in _WITH_WORKSPACE and "workspace" not in given)
    ]
    wanted = {name: value for name, value in given.items() if name not in ignored}
    if "output_budget" in wanted:
        wanted["output_budget"] = _checked_budget(wanted["output_budget"])
    if transport == "docker":
        if "container" not in wanted:
            raise _TextError("docker: 'container' required")
        if not re.fullmatch(CONTAINER, wanted["container"]):
            raise _TextError("invalid docker container name/id")
    if transport == "ssh" and "host" not in wanted:
        raise _TextError("ssh: 'host' required")
    opened = await app.shells.open_shell(wanted, caller, Conventions(dialect=True))
    answer = {"session_id": opened["shell_id"], "journal_session_id": opened["session_id"]}
    return Reply(data={**answer, "ignored": ignored} if ignored else answer)


async def _exec(app: App, caller: Caller, values: dict[str, Any]) -> Reply:
    shell_id = values["session_id"]
    _known(app, shell_id)
    seconds = values.get("timeout_secs")
    most = app.shells.commands.limits.timeout_s_max
    timeout_s = max(1, min((caller.command_timeout_s or TIMEOUT_S) if seconds is None else seconds, most))
    arguments: dict[str, Any] = {"shell_id": shell_id, "command": values["command"], "timeout_s": timeout_s}
    arguments["budget"] = _checked_budget(values.get("budget"))
    manner = Conventions(dialect=True, shown_chars=SHOWN_CHARS, wait_idle_s=timeout_s)
    ran = await run_cancellable(app, arguments, caller, manner)
    if ran["state"] == "unknown":
        shell = app.shells.registry.find(shell_id)
        transport = shell.transport if shell else "ssh"
        raise _TextError(
            f"pty/transport error: {transport} session closed; whether the command finished is unknown", create=False
        )
    await _log(app, shell_id, ran)
    names = ("command", "stdout", "stderr", "exit_code", "duration_ms", "cwd", "truncated", "timed_out")
    answer: dict[str, Any] = {name: ran[name] for name in names}
    answer["duration_ms"] = round(ran["duration_ms"])
    answer |= {name: ran[name] for name in ("budget", "hint") if ran[name] is not None}
    if ran["shell_state"] in ("ended", "lost"):
        answer["session_closed"] = True
    return Reply(data=answer)


async def _every(service: Service, caller: Caller, rows: str, **request: object) -> list[dict[str, Any]]:
    """Read all pages of a list."""
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        page = await service({**request, "limit": 200, "cursor": cursor}, caller)
        found += page[rows]
        cursor = page["next_cursor"]
        if cursor is None:
            return found


async def _list(app: App, caller: Caller, values: dict[str, Any]) -> Reply:
    rows = await _every(app.shells.list_shells, caller, "shells")
    names = {"session_id": "shell_id", "transport": "transport", "idle_secs": "idle_s"}
    return Reply(data=[{name: row[own] for name, own in names.items()} for row in rows])


async def _destroy(app: App, caller: Caller, values: dict[str, Any]) -> Reply:
    shell = app.shells.registry.find(values["session_id"])
    if shell is None or not shell.is_live:
        return Reply(data={"destroyed": False})
    await app.shells.close_shell({"shell_id": values["session_id"]}, caller)
    return Reply(data={"destroyed": True})


async def _checkpoint(app: App, caller: Caller, values: dict[str, Any]) -> Reply:
    _known(app, values["session_id"])
    arguments = {"shell_id": values["session_id"], "label": values.get("label") or None}
    saved = await app.workspaces.create_checkpoint(arguments, caller)
    return Reply(data={"checkpoint_id": saved["checkpoint_id"]})


async def _checkpoints(app: App, caller: Caller, values: dict[str, Any]) -> Reply:
    _known(app, values["session_id"])
    try:
        rows = await _every(app.workspaces.list_checkpoints, caller, "checkpoints", shell_id=values["session_id"])
    except WorkspaceRequired:
        return Reply(data=[])
    return Reply(data=[{"id": row["checkpoint_id"], "label": row["label"], "created": _unix_time(row)} for row in rows])


async def _restore(app: App, caller: Caller, values: dict[str, Any]) -> Reply:
    _known(app, values["session_id"])
    wanted = values.get("checkpoint_id")
    if wanted is not None and not re.fullmatch(r"[0-9a-f]{4,40}", wanted):
        raise _TextError("invalid checkpoint id", create=False)
    arguments = {"shell_id": values["session_id"], "clean": True, "checkpoint_id": wanted}
    restored = await app.workspaces.restore_checkpoint(arguments, caller)
    names = ("restored_to", "files_changed", "safety_checkpoint_id", "left_in_place")
    return Reply(data={name: restored[name] for name in names})


def _known(app: App, shell_id: str) -> None:
    shell = app.shells.registry.find(shell_id)
    if shell is None or not shell.is_live:
        raise ShellNotFound(f"unknown shell_id '{shell_id}'", details={"shell_id": shell_id})


def _without_nulls(budget: object) -> object:
    if not isinstance(budget, Mapping):
        return budget
    members = cast(Mapping[str, object], budget)
    return {name: _without_nulls(value) for name, value in members.items() if value is not None}


async def _log(app: App, shell_id: str, ran: Mapping[str, Any]) -> None:
    """Send a log message about a command to a client that set a log level."""
    shell = app.shells.registry.find(shell_id)
    summary = f"{ran['command'].strip()[:SUMMARY_CHARS]} → exit {ran['exit_code']}"
    said = [text for text in (ran["stdout"], ran["stderr"]) if text]
    data = {
        "session": shell_id,
        "transport": shell.transport if shell else None,
        "summary": summary,
        "transcript": "\n".join(["$ " + ran["command"], *said])[-TRANSCRIPT_CHARS:],
    }
    await current_call().log("info" if ran["exit_code"] == 0 else "warning", data, f"execkit/{shell_id}")


class _TextError(InternalError):
    """An error that reaches a client of execkit as its text alone."""

    def __init__(self, text: str, *, create: bool = True) -> None:
        super().__init__(f"session_create failed: pty/transport error: {text}" if create else text)


def _said(tool: str, error: ShiftlogError) -> str:
    text = error.message
    if isinstance(error, _TextError | PolicyDenied | PolicyUndecidable):
        return text
    if isinstance(error, ShellLimit):
        return f"session limit reached ({error.details.get('limit')}); destroy unused sessions"
    if isinstance(error, BudgetInvalid):
        return f"invalid output budget: {text}"
    if isinstance(error, WorkspaceRequired):
        return "unsupported: checkpoints require an explicit workspace"
    if isinstance(error, GitMissing):
        return "unsupported: checkpoints need git on the remote host"
    if isinstance(error, NothingToRestore):
        return "no checkpoint to restore"
    if tool == "session_restore":
        return f"restore failed: {text}"
    if tool == "session_create":
        return f"session_create failed: pty/transport error: {_create_text(error)}"
    return text


def _create_text(error: ShiftlogError) -> str:
    if isinstance(error, SshKeyNotPermitted):
        return "ssh: key_path not permitted"
    if isinstance(error, ContainerNotRunning):
        return f"docker: {error.message}"
    return error.message


def _checked_budget(budget: object) -> object:
    """Return a budget without nulls; refuse an unknown keep mode in execkit's words."""
    budget = given = _without_nulls(budget)
    for name in ("keep", "mode"):
        given = cast(Mapping[str, object], given).get(name) if isinstance(given, Mapping) else None
    if isinstance(given, str) and given not in KEEP_MODES:
        raise _TextError(f"unknown keep mode: {given}", create=False)
    return budget


def _unix_time(row: Mapping[str, Any]) -> str:
    """Return when a listed checkpoint was made, in whole seconds since the epoch."""
    return str(int(datetime.fromisoformat(str(row["created_at"])).timestamp()))
