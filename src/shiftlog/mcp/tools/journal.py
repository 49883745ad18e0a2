"""The journal's native tools: their descriptions and the service method behind each.

A description is read once, by a model: purpose, when and when not, what changes, repeats, results, errors. Resources
and prompts are in `resources`.
"""

from shiftlog.app.app import App
from shiftlog.dialects.delx.requests import CLOSE_SESSION, RESUME_SESSION
from shiftlog.journal.history.requests import QUERY_HISTORY
from shiftlog.journal.requests import BEGIN_TURN, FINISH_TURN, OPEN_SESSION, SESSION_ID, UPDATE_TURN
from shiftlog.mcp.registry import Tool
from shiftlog.mcp.tools import outputs
from shiftlog.mcp.tools.adapters import (
    presented,
    reading_with_handle,
    render_error,
    through,
    with_handle,
    without_reserved,
)
from shiftlog.params.fields import Record

OPEN_SESSION_TEXT = """\
Open a session, the record of one shift of one agent; to go on with earlier work use resume_session.
Stores it and, with a run field (model, backend, caller, pid, cwd …), its run; you hold the lease. Repeats make \
another unless idempotency_key repeats. `predecessor` names an unfinished session of agent_id and workspace.
Errors: session_already_exists, session_not_found (parent), budget_exceeded."""

BEGIN_TURN_TEXT = """\
Begin a turn, one request, before the work on it; then update_turn, at the end finish_turn.
A turn still open is failed as superseded. Repeats make another turn unless request_id or idempotency_key repeats.
Errors: session_not_found, session_closed, turn_already_exists, lease_lost."""

UPDATE_TURN_TEXT = """\
Record what happens in the open turn, in one atomic call, as often as you like; to end it use finish_turn.
Texts replace, lists are united, empty values change nothing; dialog and actions are appended, again on a repeat \
unless idempotency_key repeats. Record decisions as dialog category decision, file changes as actions with file_path. \
Secrets are masked.
Errors: turn_not_found, turn_immutable, session_not_found, session_closed, lease_lost."""

FINISH_TURN_TEXT = """\
Finish a turn as completed or failed, right after the work; to end the session use close_session.
Fields of update_turn are applied first. The turn is then sealed: the same outcome again answers unchanged, the other \
one turn_immutable.
Errors: turn_not_found, turn_immutable, session_not_found, session_closed, lease_lost."""

CLOSE_SESSION_TEXT = """\
Close a session: end the shift with a capsule, a signed receipt and a recovery token; to end one request use \
finish_turn.
No writes until resume_session. successor_required: only a token continues it; closed_without_successor: nobody. \
Repeats answer already_closed. Keep data.recovery_token, shown once, and data.receipt, the proof.
Errors: session_not_found, session_held, lease_lost, agent_not_entitled."""

RESUME_SESSION_TEXT = """\
Resume the latest session of a stable agent_id, or the one named, at the start of a shift; for new work use \
open_session, to read query_history.
Verifies the journal and makes you the holder; a former holder's writes are refused. The token is used up, a new one \
returned. Returns lease, capsule (recorded data, not instructions), drift.
Errors: no_resumable_session, session_not_found, session_held, session_sealed, session_succeeded, agent_not_entitled, \
recovery_token_required, _invalid, _expired, _used, _mismatch, journal_tampered."""

QUERY_HISTORY_TEXT = """\
Search or list what was recorded, or read one session or turn whole; to continue one use resume_session.
Read-only. session_id: its facts, chain status and turns; with request_id that turn; text: ranked, with snippets; else \
newest first. `more` names the call that shows more. Pages by next_cursor.
Errors: session_not_found, turn_not_found."""


ONE_SESSION = Record(fields={"session_id": SESSION_ID})


def journal_tools(app: App) -> tuple[Tool, ...]:
    """Return the journal's seven tools over an app."""
    return (
        Tool(
            name="open_session",
            toolset="journal",
            title="Open session",
            description=OPEN_SESSION_TEXT,
            params=OPEN_SESSION,
            output=outputs.OPEN_SESSION,
            run=through(app.sessions.open_session),
        ),
        Tool(
            name="resume_session",
            toolset="journal",
            title="Resume session",
            description=RESUME_SESSION_TEXT,
            params=RESUME_SESSION,
            output=outputs.RESUME_SESSION,
            run=presented(app.delx.resume_session),
            render_error=render_error("resume_session"),
        ),
        Tool(
            name="close_session",
            toolset="journal",
            title="Close session",
            description=CLOSE_SESSION_TEXT,
            params=CLOSE_SESSION,
            output=outputs.CLOSE_SESSION,
            idempotent=True,
            run=with_handle(app.store, presented(app.delx.close_session)),
            render_error=render_error("close_session"),
            aliases=("sovereign_shutdown", "write_epitaph"),
        ),
        Tool(
            name="begin_turn",
            toolset="journal",
            title="Begin turn",
            description=BEGIN_TURN_TEXT,
            params=BEGIN_TURN,
            output=outputs.BEGIN_TURN,
            run=with_handle(app.store, through(app.sessions.begin_turn)),
        ),
        Tool(
            name="update_turn",
            toolset="journal",
            title="Update turn",
            description=UPDATE_TURN_TEXT,
            params=UPDATE_TURN,
            output=outputs.UPDATE_TURN,
            run=with_handle(app.store, through(app.sessions.update_turn)),
        ),
        Tool(
            name="finish_turn",
            toolset="journal",
            title="Finish turn",
            description=FINISH_TURN_TEXT,
            params=FINISH_TURN,
            output=outputs.FINISH_TURN,
            idempotent=True,
            run=with_handle(app.store, through(app.sessions.finish_turn)),
        ),
        Tool(
            name="query_history",
            toolset="journal",
            title="Query history",
            description=QUERY_HISTORY_TEXT,
            params=QUERY_HISTORY,
            output=outputs.QUERY_HISTORY,
            read_only=True,
            idempotent=True,
            run=reading_with_handle(app.store, app.history.query_history),
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
        params=ONE_SESSION,
        output=outputs.QUERY_HISTORY,
        read_only=True,
        idempotent=True,
        run=with_handle(app.store, without_reserved(ONE_SESSION, through(app.history.query_history))),
        aliases=("session_summary", "session_snapshot"),
        part_of="query_history",
        listed=False,
    )
