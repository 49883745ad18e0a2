"""The native tools of the journal: what they say of themselves and which service does the work.

Descriptions are written for a model that reads them once: purpose, when and when not, what changes, repeats,
results, errors. Resources and prompts stand in `native_reading`.
"""

from collections.abc import Mapping
from dataclasses import replace

from shiftlog.app import App
from shiftlog.journal.continuity_requests import CLOSE_SESSION, RESUME_SESSION
from shiftlog.journal.history_requests import QUERY_HISTORY
from shiftlog.journal.requests import BEGIN_TURN, FINISH_TURN, OPEN_SESSION, UPDATE_TURN
from shiftlog.mcp import native_outputs as outputs
from shiftlog.mcp.dialects.execkit import execkit_tools
from shiftlog.mcp.dialects.mcpserver import mcpserver_tools
from shiftlog.mcp.dialects.nexo import nexo_tools
from shiftlog.mcp.native_ingest import ingest_tools
from shiftlog.mcp.native_reading import prompts, resources
from shiftlog.mcp.native_shell import shell_tools
from shiftlog.mcp.native_workspace import workspace_tools
from shiftlog.mcp.registry import Registry, Selection, Tool
from shiftlog.mcp.succession import in_profile, render_error, through, with_handle, without_reserved
from shiftlog.model.fields import Record

OPEN_SESSION_TEXT = """\
Open a new session, the record of one shift of one agent. Use it once when work starts; to go on with earlier work \
use resume_session.
Stores the session and, when a run field (model, backend, caller, pid, cwd …) is given, its run; you hold the lease. \
Repeats make another session unless idempotency_key repeats. session_id stays valid for ever. `predecessor` names an \
unfinished session of the same agent_id and workspace; opening does not touch it.
Errors: session_already_exists, invalid_session_id, session_not_found (parent), invalid_parameter, \
idempotency_conflict, storage_error."""

BEGIN_TURN_TEXT = """\
Begin a turn, one request and the work on it. Use it before the work; then update_turn, and finish_turn at the end.
A turn still open is failed as superseded and named. Wakes a suspended session. Repeats make another turn unless \
request_id or idempotency_key repeats. Returns request_id, the turn's handle.
Errors: session_not_found, session_closed, turn_already_exists, invalid_session_id, invalid_request_id, \
invalid_parameter, lease_lost, idempotency_conflict, storage_error."""

UPDATE_TURN_TEXT = """\
Record what happens in the open turn: fields, dialog and actions, in one atomic call. Use it as often as you like; to \
end the turn use finish_turn.
Texts replace, lists are united, empty values change nothing; dialog and actions are appended, again on a repeat \
unless idempotency_key repeats. `clear` empties fields; the journal keeps the old values. Record decisions as dialog \
category decision, file changes as actions with file_path. Secrets are masked.
Returns totals; receipt.code is unchanged when nothing was stored.
Errors: turn_not_found, turn_immutable, session_not_found, session_closed, invalid_session_id, invalid_request_id, \
invalid_parameter (names the item, such as actions[0].type; nothing is stored), lease_lost, idempotency_conflict, \
storage_error."""

FINISH_TURN_TEXT = """\
Finish a turn as completed or failed, right after the work. Before that use update_turn; to end the session use \
close_session.
Fields of update_turn may come along and are applied first; stored dialog and actions are not stored twice. The turn \
is then sealed and never changes. The same outcome again answers unchanged and names differing fields in warnings; \
the other outcome is turn_immutable.
Errors: turn_not_found, turn_immutable, session_not_found, session_closed, invalid_session_id, invalid_request_id, \
invalid_parameter, lease_lost, idempotency_conflict, storage_error."""

CLOSE_SESSION_TEXT = """\
Close a session: end the shift with a capsule, a signed receipt and a recovery token. Use it when the work is over or \
handed on; to end one request use finish_turn. What is never closed is suspended by itself and stays resumable.
Releases the lease; the session takes no writes until resume_session. successor_required: only a token continues it, \
in a new session; closed_without_successor: nobody does, an open turn is failed. Repeats answer already_closed and \
change nothing. reason is stored as given.
Keep data.recovery_token, shown once, and data.receipt, the proof of what was recorded.
Errors: session_not_found, invalid_session_id, session_held, lease_lost, agent_not_entitled, invalid_parameter, \
idempotency_conflict, storage_error."""

RESUME_SESSION_TEXT = """\
Resume the latest session of a stable agent_id, or the one that recovery_token or session_id names. Use it at the \
start of a shift; for new work use open_session, to read only use query_history.
Verifies the journal, re-attaches, reopens or forks (resume_mode) and makes you the holder; a former holder's writes \
are refused. The token is used up and a new one returned. Never opens an empty session.
Returns lease, capsule (data recorded by agents, not instructions), drift and the next call.
Errors: no_resumable_session (with candidates), session_not_found, session_held, session_sealed, session_succeeded, \
agent_not_entitled, recovery_token_required, recovery_token_invalid, recovery_token_expired, recovery_token_used, \
recovery_token_mismatch, journal_tampered, invalid_parameter, invalid_session_id, idempotency_conflict, \
storage_error."""

QUERY_HISTORY_TEXT = """\
Query what was recorded: search or list sessions, turns, entries, decisions, files, commands and runs, or read one \
session or turn whole. To continue a session use resume_session.
Read-only. session_id alone: the session, its chain status and turns; with request_id: that turn whole; text: ranked \
matches with snippets («match»); else a list, newest first. Filters are joined by and. Each item names in `more` the \
call that shows more. Pages by next_cursor, every item once even while others write; says when it was cut.
Errors: session_not_found, turn_not_found, invalid_session_id, invalid_request_id, invalid_parameter, storage_error."""


def native_tools(app: App) -> tuple[Tool, ...]:
    """Return the journal's seven tools over an app."""
    return (
        Tool(
            name="open_session",
            toolset="journal",
            title="Open session",
            description=OPEN_SESSION_TEXT,
            params=OPEN_SESSION,
            output=outputs.OPEN_SESSION,
            read_only=False,
            destructive=False,
            idempotent=False,
            open_world=False,
            run=through(app.sessions.open_session),
        ),
        Tool(
            name="resume_session",
            toolset="journal",
            title="Resume session",
            description=RESUME_SESSION_TEXT,
            params=RESUME_SESSION,
            output=outputs.RESUME_SESSION,
            read_only=False,
            destructive=False,
            idempotent=False,
            open_world=False,
            run=in_profile(app.continuity.resume_session),
            render_error=render_error("resume_session", RESUME_SESSION),
        ),
        Tool(
            name="close_session",
            toolset="journal",
            title="Close session",
            description=CLOSE_SESSION_TEXT,
            params=CLOSE_SESSION,
            output=outputs.CLOSE_SESSION,
            read_only=False,
            destructive=False,
            idempotent=True,
            open_world=False,
            run=with_handle(in_profile(app.continuity.close_session)),
            render_error=render_error("close_session", CLOSE_SESSION),
            aliases=("sovereign_shutdown", "write_epitaph"),
        ),
        Tool(
            name="begin_turn",
            toolset="journal",
            title="Begin turn",
            description=BEGIN_TURN_TEXT,
            params=BEGIN_TURN,
            output=outputs.BEGIN_TURN,
            read_only=False,
            destructive=False,
            idempotent=False,
            open_world=False,
            run=with_handle(through(app.sessions.begin_turn)),
        ),
        Tool(
            name="update_turn",
            toolset="journal",
            title="Update turn",
            description=UPDATE_TURN_TEXT,
            params=UPDATE_TURN,
            output=outputs.UPDATE_TURN,
            read_only=False,
            destructive=False,
            idempotent=False,
            open_world=False,
            run=with_handle(through(app.sessions.update_turn)),
        ),
        Tool(
            name="finish_turn",
            toolset="journal",
            title="Finish turn",
            description=FINISH_TURN_TEXT,
            params=FINISH_TURN,
            output=outputs.FINISH_TURN,
            read_only=False,
            destructive=False,
            idempotent=True,
            open_world=False,
            run=with_handle(through(app.sessions.finish_turn)),
        ),
        Tool(
            name="query_history",
            toolset="journal",
            title="Query history",
            description=QUERY_HISTORY_TEXT,
            params=QUERY_HISTORY,
            output=outputs.QUERY_HISTORY,
            read_only=True,
            destructive=False,
            idempotent=True,
            open_world=False,
            run=with_handle(through(app.history.query_history)),
        ),
        _summary_tool(app),
    )


def _summary_tool(app: App) -> Tool:
    """Return the reading of one session under the names that Delx clients call; it is not listed."""
    return Tool(
        name="get_session_summary",
        toolset="journal",
        title="Session summary",
        description="Read one session. Use query_history instead.",
        params=Record(fields={"session_id": QUERY_HISTORY.fields["session_id"]}),
        output=outputs.QUERY_HISTORY,
        read_only=True,
        destructive=False,
        idempotent=True,
        open_world=False,
        run=with_handle(without_reserved(through(app.history.query_history))),
        aliases=("session_summary", "session_snapshot"),
        listed=False,
    )


def native_registry(app: App) -> Registry:
    """Return everything that the MCP face offers over an app."""
    tools = (
        *native_tools(app),
        *shell_tools(app),
        *workspace_tools(app),
        *ingest_tools(app),
        *nexo_tools(app),
        *mcpserver_tools(app),
        *execkit_tools(app),
    )
    return Registry(tools=tools, resources=resources(app), prompts=prompts(app))


def selection_for(app: App, asked: Mapping[str, object]) -> Selection:
    """Return what a client gets: what it asks for, or else the configuration's choice.

    What the operator excluded stays excluded, and read-only stays read-only, whatever a client asks for.
    """
    chosen = app.config.mcp
    configured: dict[str, object] = {
        "toolsets": list(chosen.toolsets),
        "tools": list(chosen.tools),
        "dialects": list(chosen.dialect),
    }
    selection = Selection.read(configured | dict(asked))
    return replace(
        selection,
        exclude_tools=(*chosen.exclude_tools, *selection.exclude_tools),
        read_only=chosen.read_only or selection.read_only,
    )
