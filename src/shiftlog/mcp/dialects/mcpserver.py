"""The mcpserver dialect: the `sessionlog_*` tools, thin over the session log that the REPL speaks to as well.

This module has names, texts and schemas; `shiftlog.dialects.mcpserver` has the parameters and the behaviour.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shiftlog.app.app import App
from shiftlog.dialects.mcpserver.current import CallContext
from shiftlog.dialects.mcpserver.errors import tool_error
from shiftlog.dialects.mcpserver.tool_requests import ALIAS_PARAMS, TOOL_PARAMS
from shiftlog.dialects.mcpserver.tools import call_tool
from shiftlog.journal.sessions import absolute, workspace_of
from shiftlog.mcp.registry import Reply, Run, Tool
from shiftlog.model.caller import Caller
from shiftlog.model.errors import InvalidParameter
from shiftlog.params.fields import Field, Record, Schema, Text

TOOLSET = "mcpserver"
WORKSPACE = Text(max_chars=4_096, description="Directory of the workspace; default: the server's.")
# An agent may call these by habit; they are answered and not listed.
ALIAS_TEXT = "Answers calls under the name that other session logs use; see the sessionlog_* tools."

_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer"}
_TRUE: Schema = {"type": "boolean", "const": True}
_JOURNAL: Schema = {
    "type": "object",
    "properties": {
        "sessionId": _TEXT,
        "turnRequestId": _TEXT,
        "seq": _COUNT,
        "hash": _TEXT,
        "changed": {"type": "boolean"},
        "redactions": _COUNT,
    },
    "required": ["sessionId", "seq", "hash", "changed", "redactions"],
}
_WARNINGS: Schema = {"type": "array", "items": {"type": "object"}}


def _written(**properties: Schema) -> Schema:
    """Describe the result of a write: its own keys, the journal position, and warnings if there are any."""
    shown: dict[str, Schema] = {"success": _TRUE, **properties, "journal": _JOURNAL}
    return {"type": "object", "properties": {**shown, "warnings": _WARNINGS}, "required": list(shown)}


_TURN = {"turnRequestId": _TEXT, "requestId": _TEXT, "status": _TEXT}


@dataclass(frozen=True, slots=True, kw_only=True)
class _ListedTool:
    """A tool as clients see it listed."""

    title: str
    text: str
    output: Schema
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False


_ADDRESSED = (
    "session_not_found (sessionlog_open first), session_closed (use a new session), invalid_session_id, "
    "invalid_parameter (names the argument), lease_lost (another client took over), idempotency_conflict"
)
_OPEN_TURN = (
    "turn_not_found (begin it first), turn_immutable (it is finished; begin another), invalid_request_id, "
    f"{_ADDRESSED}, storage_error (try again)"
)

LISTINGS: dict[str, _ListedTool] = {
    "sessionlog_open": _ListedTool(
        title="Open session log",
        text="""\
Open the session log of one agent session under its id, or join it when it exists and is not closed. Use it once when \
work starts; sessionlog_begin_turn records each request after that, sessionlog_submit stores a log kept elsewhere.
Makes the session the current one of the agent in the workspace. Repeating is harmless: created is false, and a title \
or model that was not given is filled. A closed session is never re-opened. The id stays valid for ever.
Returns created and started (the server's clock, not the time in the id).
Errors: session_already_exists (closed or deleted; use a new id), invalid_session_id (form, or it does not begin with \
agent), invalid_parameter, idempotency_conflict, storage_error.""",
        output=_written(agent=_TEXT, sessionId=_TEXT, created={"type": "boolean"}, started=_TEXT),
        idempotent=True,
    ),
    "sessionlog_begin_turn": _ListedTool(
        title="Begin logged turn",
        text=f"""\
Begin a turn: one request and the work on it, under an id of your own. Use it before working on a request; while you \
work use sessionlog_dialog, at the end sessionlog_complete_turn or sessionlog_fail_turn.
A turn still open is failed as superseded and named in supersededTurnRequestId. An id is used once in its session and \
never re-opens a turn. planFile and todoId may be `None`.
Returns turnRequestId, status in_progress and timestamp.
Errors: turn_already_exists (use a new id), invalid_request_id, {_ADDRESSED}, storage_error.""",
        output=_written(**_TURN, timestamp=_TEXT),
    ),
    "sessionlog_dialog": _ListedTool(
        title="Append dialog",
        text=f"""\
Append dialog items to an open turn: reasoning, tool calls, results, observations, decisions. Use it while you work; \
to change other fields of the turn use sessionlog_replace_section or sessionlog_complete_turn.
Each item has role (model, tool, system, user), category (reasoning, tool_call, tool_result, observation, decision), \
content, and optionally timestamp (ISO 8601 with zone). The whole call is stored or nothing; a repeat without its \
idempotencyKey appends again. Secrets are masked before anything is stored.
Returns appended and totalDialogItems.
Errors: {_OPEN_TURN}; a bad item is named as itemsJson[2].role.""",
        output=_written(totalDialogItems=_COUNT, appended=_COUNT),
    ),
    "sessionlog_complete_turn": _ListedTool(
        title="Complete logged turn",
        text=f"""\
Complete an open turn with its response. Use it right after the work; for work that failed use sessionlog_fail_turn.
turnJson carries response and any other field of the turn: texts replace, lists are united with what is stored, empty \
values change nothing. response may be stored already. Afterwards the turn is sealed and never changes.
Returns status completed and completedAt.
Errors: {_OPEN_TURN}; invalid_parameter for response when none is given or stored.""",
        output=_written(**_TURN, completedAt=_TEXT),
    ),
    "sessionlog_fail_turn": _ListedTool(
        title="Fail logged turn",
        text=f"""\
Fail an open turn with the reason. Use it right after the work failed; for work that succeeded use \
sessionlog_complete_turn.
turnJson carries failureNote, optionally errorCode, and any other field of the turn, merged as when completing. \
Afterwards the turn is sealed and never changes.
Returns status failed, failedAt and errorCode.
Errors: {_OPEN_TURN}; invalid_parameter for failureNote when none is given.""",
        output=_written(**_TURN, failedAt=_TEXT, errorCode=_TEXT),
    ),
    "sessionlog_submit": _ListedTool(
        title="Submit session log",
        text="""\
Submit a whole session log with its turns that was recorded elsewhere. Use it to recover or to copy a log; to record \
work as it happens use sessionlog_open and sessionlog_begin_turn.
All or nothing. Turns that are not known are added, open ones merged; what is new for a finished turn becomes an \
amendment beside it. Submitting the same again changes nothing. An unknown session is stored as suspended, or closed \
when its status is completed; an existing one is neither closed, re-opened nor made current.
Returns id, the session.
Errors: session_closed (sealed or deleted), invalid_session_id, invalid_request_id, invalid_parameter (at most 5000 \
turns), idempotency_conflict, storage_error.""",
        output=_written(id=_TEXT),
        idempotent=True,
    ),
    "sessionlog_query": _ListedTool(
        title="Query session log",
        text="""\
Query the session logs of the workspace: whole sessions with their turns, dialog and actions. Use a small limit, \
since every match is shown whole; for ranked search with snippets use query_history.
Read-only. Filters are joined by and; agent, model (part of the name), from/to (dates or times), turnStatus, \
planFile, todoId, staleOlderThanHours. text matches case-insensitive substrings, with "phrases", && || ! and \
parentheses. Newest first; page with offset; limit 0 only counts.
Returns totalCount and items. Errors: invalid_parameter, storage_error.""",
        output={
            "type": "object",
            "properties": {
                "totalCount": _COUNT,
                "items": {"type": "array", "items": {"type": "object"}},
                "limit": _COUNT,
                "offset": _COUNT,
            },
            "required": ["totalCount", "items", "limit", "offset"],
        },
        read_only=True,
        idempotent=True,
    ),
    "sessionlog_ingest_path": _ListedTool(
        title="Ingest transcripts",
        text="""\
Ingest the transcripts of an agent's past sessions from a file or folder. Use it when sessions were not recorded as \
they happened; sessionlog_submit stores a log that you hold yourself.
Reads only under the agents' own folders, the operator's roots and the workspace. Masks secrets and stores each fact \
once: repeating changes nothing. Never opens, closes or makes current a session.
Returns success and what was stored, by agent and by kind.
Errors: transcript_not_found (nothing recognised there), invalid_parameter (path not allowed, agent does not fit), \
storage_error.""",
        output={"type": "object", "properties": {"success": _TRUE, "ok": {"type": "boolean"}}, "required": ["success"]},
        idempotent=True,
    ),
    "sessionlog_replace_turn": _ListedTool(
        title="Replace turn",
        text=f"""\
Replace fields of an open turn: each field given takes the place of the stored one, lists whole. Use it to correct a \
turn; to add to lists use sessionlog_complete_turn or sessionlog_dialog, to empty one sessionlog_clear_section.
Fields that are absent or empty stay. The journal keeps the old values.
Returns lastUpdated.
Errors: {_OPEN_TURN}.""",
        output=_written(lastUpdated=_TEXT),
        destructive=True,
        idempotent=True,
    ),
    "sessionlog_replace_section": _ListedTool(
        title="Replace section",
        text=f"""\
Replace one list of an open turn by another. Use it to correct tags, actions, dialog and the like; to take out a \
single item use sessionlog_delete_item, to empty the list sessionlog_clear_section.
sectionJson holds at least one item, of the form that the section has. The journal keeps the old list.
Returns lastUpdated.
Errors: {_OPEN_TURN}.""",
        output=_written(lastUpdated=_TEXT),
        destructive=True,
        idempotent=True,
    ),
    "sessionlog_clear_section": _ListedTool(
        title="Clear section",
        text=f"""\
Clear one list or plain field of an open turn. Use it to empty what was recorded by mistake; to take out a single \
item use sessionlog_delete_item, to set other values sessionlog_replace_section.
The journal keeps the old value. Clearing what is empty changes nothing.
Returns lastUpdated.
Errors: {_OPEN_TURN}.""",
        output=_written(lastUpdated=_TEXT),
        destructive=True,
        idempotent=True,
    ),
    "sessionlog_delete_item": _ListedTool(
        title="Delete item",
        text=f"""\
Delete one item from a list of an open turn. Use it for a single wrong entry; for the whole list use \
sessionlog_clear_section.
itemKey is the value itself in a list of texts, the sha of a commit, the order of an action, the place (from 1) of a \
dialog item. The journal keeps the item. A repeat is refused, since the item is gone.
Returns lastUpdated.
Errors: ambiguous_item (several actions have that order), invalid_parameter for itemKey when there is no such item, \
{_OPEN_TURN}.""",
        output=_written(lastUpdated=_TEXT),
        destructive=True,
    ),
    "sessionlog_delete_turn": _ListedTool(
        title="Delete turn",
        text=f"""\
Delete an open turn from its session. Use it for a turn begun by mistake; work that was done is ended with \
sessionlog_complete_turn or sessionlog_fail_turn instead.
The turn is gone from queries and counts; its entries stay in the journal. Finished turns cannot be deleted.
Returns lastUpdated.
Errors: {_OPEN_TURN}.""",
        output=_written(lastUpdated=_TEXT),
        destructive=True,
    ),
    "sessionlog_delete_session": _ListedTool(
        title="Delete session log",
        text="""\
Delete a session log: hide it from every query. Use it for a session opened by mistake; to end work that was done use \
close_session.
The journal is kept and still verifies; the id stays taken, and every later write to it is refused. It cannot be \
undone.
Returns tombstoned: true.
Errors: session_not_found, session_closed (deleted already), invalid_session_id, invalid_parameter, lease_lost, \
idempotency_conflict, storage_error.""",
        output=_written(tombstoned=_TRUE),
        destructive=True,
    ),
}


def mcpserver_tools(app: App) -> tuple[Tool, ...]:
    """Return the tools of the dialect, and the names that are answered without being listed."""
    listed = [_tool(app, name, face, TOOL_PARAMS[name]) for name, face in LISTINGS.items()]
    quiet = _ListedTool(title="Session log", text=ALIAS_TEXT, output={"type": "object"})
    reading = {"mcp_session_query_history": replace(quiet, read_only=True)}
    aliases = [
        _tool(app, name, reading.get(name, quiet), fields, listed=False) for name, fields in ALIAS_PARAMS.items()
    ]
    return (*listed, *aliases)


# What an unlisted name stands for.
_PART_OF = {
    "mcp_session_bootstrap": "sessionlog_open",
    "mcp_session_turn_begin": "sessionlog_begin_turn",
    "mcp_session_turn_complete": "sessionlog_complete_turn",
    "mcp_session_query_history": "sessionlog_query",
}


def _tool(app: App, name: str, face: _ListedTool, fields: dict[str, Field], *, listed: bool = True) -> Tool:
    return Tool(
        name=name,
        toolset=TOOLSET,
        title=face.title,
        description=face.text,
        params=Record(fields={**fields, "workspacePath": WORKSPACE}),
        output=face.output,
        read_only=face.read_only,
        destructive=face.destructive,
        idempotent=face.idempotent,
        run=_through(app, name),
        render_error=tool_error,
        part_of=_PART_OF.get(name),
        listed=listed,
    )


def _through(app: App, name: str) -> Run:
    async def run(caller: Caller, arguments: dict[str, Any]) -> Reply:
        given = {key: value for key, value in arguments.items() if key.lower() != "workspacepath"}
        path = next((value for key, value in arguments.items() if key.lower() == "workspacepath"), None)
        workspace = _workspace(path, caller)
        if path is not None and name != "sessionlog_ingest_path":  # which reads there and keeps no name
            workspace = app.redactor.text(workspace).text
        context = CallContext(caller=caller, workspace=workspace, strict=True)
        return Reply(data=await call_tool(app.sessionlog, name, given, context))

    return run


def _workspace(path: object, caller: Caller) -> str:
    given = None if path is None else absolute(WORKSPACE.read(path, "workspacePath"), caller)
    if given is None:
        return caller.workspace or caller.cwd or ""
    if not Path(given).is_absolute():
        raise InvalidParameter.invalid("workspacePath", "an absolute path is expected", given)
    return workspace_of(str(Path(given).resolve()))
