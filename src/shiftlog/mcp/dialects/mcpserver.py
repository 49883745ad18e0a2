"""The mcpserver dialect: the `sessionlog_*` tools, thin over the session log that the REPL speaks to as well.

`mcpserver_listing` has the texts and the schemas of the results, `shiftlog.dialects.mcpserver` the parameters and the
behaviour.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from shiftlog.app.app import App
from shiftlog.dialects.mcpserver.current import CallContext
from shiftlog.dialects.mcpserver.errors import tool_error
from shiftlog.dialects.mcpserver.tool_requests import ALIAS_PARAMS, TOOL_PARAMS
from shiftlog.dialects.mcpserver.tools import call_tool
from shiftlog.journal.sessions import absolute, workspace_of
from shiftlog.mcp.dialects.mcpserver_listing import LISTINGS, ListedTool
from shiftlog.mcp.registry import Reply, Run, Tool
from shiftlog.model.caller import Caller
from shiftlog.model.errors import InvalidParameter
from shiftlog.params.fields import Field, Record, Text

TOOLSET = "mcpserver"
WORKSPACE = Text(
    max_chars=4_096,
    description="Ignored here, because sessionId names the session.",
    examples=("/srv/shop",),
)
_WORKSPACE_SAID = {
    "sessionlog_open": "Project in which the session becomes current, and to which a new one belongs",
    "sessionlog_submit": "Project to which a new session belongs",
    "sessionlog_query": "Project whose sessions are queried",
    "sessionlog_ingest_path": "Project at which a relative path starts",
}
# An agent may call these by habit; they are answered and not listed.
ALIAS_TEXT = "Answers calls under the name that other session logs use; see the sessionlog_* tools."


def mcpserver_tools(app: App) -> tuple[Tool, ...]:
    """Return the tools of the dialect, and the names that are answered without being listed."""
    listed = [_tool(app, name, face, TOOL_PARAMS[name]) for name, face in LISTINGS.items()]
    quiet = ListedTool(title="Session log", text=ALIAS_TEXT, output={"type": "object"})
    reading = {"mcp_session_query_history": replace(quiet, read_only=True)}
    aliases = [
        _tool(app, name, reading.get(name, quiet), fields, listed=False) for name, fields in ALIAS_PARAMS.items()
    ]
    return (*listed, *aliases)


# Unlisted names and the tools that they stand for.
_PART_OF = {
    "mcp_session_bootstrap": "sessionlog_open",
    "mcp_session_turn_begin": "sessionlog_begin_turn",
    "mcp_session_turn_complete": "sessionlog_complete_turn",
    "mcp_session_query_history": "sessionlog_query",
}


def _tool(app: App, name: str, face: ListedTool, fields: dict[str, Field], *, listed: bool = True) -> Tool:
    return Tool(
        name=name,
        toolset=TOOLSET,
        title=face.title,
        description=face.text,
        params=Record(fields={**fields, "workspacePath": _workspace_param(name)}),
        output=face.output,
        read_only=face.read_only,
        destructive=face.destructive,
        idempotent=face.idempotent,
        run=_through(app, name),
        render_error=tool_error,
        part_of=_PART_OF.get(name),
        listed=listed,
    )


def _workspace_param(name: str) -> Text:
    says = _WORKSPACE_SAID.get(name)
    if says is None:
        return WORKSPACE
    form = "its directory or one inside it, absolute or relative to your client's directory"
    return replace(WORKSPACE, description=f"{says}: {form}. Default: that of your client.")


def _through(app: App, name: str) -> Run:
    async def run(caller: Caller, arguments: dict[str, Any]) -> Reply:
        given = {key: value for key, value in arguments.items() if key.lower() != "workspacepath"}
        path = next((value for key, value in arguments.items() if key.lower() == "workspacepath"), None)
        workspace = _workspace(path, caller)
        if path is not None and name != "sessionlog_ingest_path":  # which reads there and keeps no name
            workspace = app.redactor.text(workspace).text
        context = CallContext(caller=caller, workspace=workspace, own_workspace=_workspace(None, caller), strict=True)
        return Reply(data=await call_tool(app.sessionlog, name, given, context))

    return run


def _workspace(path: object, caller: Caller) -> str:
    given = None if path is None else absolute(WORKSPACE.read(path, "workspacePath"), caller)
    if given is None:
        return caller.workspace or caller.cwd or ""
    if not Path(given).is_absolute():
        raise InvalidParameter.invalid("workspacePath", "an absolute path is expected", given)
    return workspace_of(str(Path(given).resolve()))
