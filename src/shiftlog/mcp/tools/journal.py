"""The journal's native tools: their descriptions and the service method behind each.

A description is read once, by a model: purpose, when and when not, what changes, repeats, results, errors. Resources
and prompts are in `resources`.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from shiftlog.app.app import App
from shiftlog.dialects.delx.refusals import refusal
from shiftlog.dialects.delx.requests import CLOSE_SESSION, RESUME_SESSION
from shiftlog.journal.history.requests import QUERY_HISTORY
from shiftlog.journal.requests import BEGIN_TURN, FINISH_TURN, OPEN_SESSION, SESSION_ID, UPDATE_TURN
from shiftlog.mcp.registry import Tool
from shiftlog.mcp.tools import outputs
from shiftlog.mcp.tools.adapters import (
    native,
    presented,
    reading_with_handle,
    through,
    with_handle,
    without_reserved,
)
from shiftlog.model.caller import Caller
from shiftlog.params.fields import Record

T = TypeVar("T")

OPEN_SESSION_TEXT = """\
Open a session, the record of one shift of one agent; to go on with earlier work use resume_session.
Stores it and, with a run field (model, backend, caller, pid, cwd …), its run; you hold the lease. In a client whose \
session is recorded already it joins that one (`joined`), with your title; elsewhere repeats make another unless \
idempotency_key repeats. `predecessor` names an unfinished session of agent_id and workspace.
Errors: session_already_exists, session_not_found (parent), budget_exceeded."""

BEGIN_TURN_TEXT = """\
Begin a turn, one request, before the work on it; then update_turn, at the end finish_turn.
A turn still open is failed as superseded. Repeats make another turn unless request_id or idempotency_key repeats.
Errors: session_not_found, session_closed, turn_already_exists, session_held, lease_lost."""

UPDATE_TURN_TEXT = """\
Record what happens in the open turn, in one atomic call, as often as you like; to end it use finish_turn.
Texts replace, lists are united, empty values change nothing; dialog and actions are appended, again on a repeat \
unless idempotency_key repeats. Record decisions as dialog category decision, file changes as actions with file_path. \
Secrets are masked.
Errors: turn_not_found, turn_immutable, session_not_found, session_closed, session_held, lease_lost."""

FINISH_TURN_TEXT = """\
Finish a turn as completed or failed, right after the work; to end the session use close_session.
Fields of update_turn are applied first. The turn is then sealed: the same outcome again answers unchanged, the other \
one turn_immutable.
Errors: turn_not_found, turn_immutable, session_not_found, session_closed, session_held, lease_lost."""

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
    """Return the journal's seven tools over an app, and the one that only Delx clients call."""
    tool, handled = partial(native, "journal"), partial(with_handle, app.store)
    sessions, delx, history = app.sessions, app.delx, app.history

    def told(service: Callable[[Mapping[str, Any], Caller], Awaitable[T]]) -> Callable[..., Awaitable[T]]:
        """Return a service that knows what the hooks of its caller's client have told."""

        async def run(arguments: Mapping[str, Any], caller: Caller) -> T:
            await app.hear_hooks(caller)
            return await service(arguments, caller)

        return run

    return (
        tool(
            "open_session", OPEN_SESSION_TEXT, OPEN_SESSION, outputs.OPEN_SESSION, through(told(sessions.open_session))
        ),
        tool(
            "resume_session",
            RESUME_SESSION_TEXT,
            RESUME_SESSION,
            outputs.RESUME_SESSION,
            presented(told(delx.resume_session)),
            render_error=partial(refusal, "resume_session"),
        ),
        tool(
            "close_session",
            CLOSE_SESSION_TEXT,
            CLOSE_SESSION,
            outputs.CLOSE_SESSION,
            handled(presented(delx.close_session)),
            idempotent=True,
            render_error=partial(refusal, "close_session"),
            aliases=("sovereign_shutdown", "write_epitaph"),
        ),
        tool("begin_turn", BEGIN_TURN_TEXT, BEGIN_TURN, outputs.BEGIN_TURN, handled(through(sessions.begin_turn))),
        tool("update_turn", UPDATE_TURN_TEXT, UPDATE_TURN, outputs.UPDATE_TURN, handled(through(sessions.update_turn))),
        tool(
            "finish_turn",
            FINISH_TURN_TEXT,
            FINISH_TURN,
            outputs.FINISH_TURN,
            handled(through(sessions.finish_turn)),
            idempotent=True,
        ),
        tool(
            "query_history",
            QUERY_HISTORY_TEXT,
            QUERY_HISTORY,
            outputs.QUERY_HISTORY,
            reading_with_handle(app.store, history.query_history),
            read_only=True,
            idempotent=True,
        ),
        # Reads one session under the names that Delx clients call; it is not listed.
        Tool(
            name="get_session_summary",
            toolset="journal",
            title="Session summary",
            description="Read one session. Use query_history instead.",
            params=ONE_SESSION,
            output=outputs.QUERY_HISTORY,
            read_only=True,
            idempotent=True,
            run=handled(without_reserved(ONE_SESSION, through(history.query_history))),
            aliases=("session_summary", "session_snapshot"),
            part_of="query_history",
            listed=False,
        ),
    )
