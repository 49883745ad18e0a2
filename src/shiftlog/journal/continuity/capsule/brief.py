"""The brief: the capsule of the last session of an agent or a directory as Markdown, for the next prompt."""

from datetime import datetime

from shiftlog.journal.continuity.capsule.markdown import capsule_markdown
from shiftlog.journal.continuity.capsule.reading import capsule_of
from shiftlog.journal.journal import find_session
from shiftlog.journal.sessions import absolute, workspace_of
from shiftlog.model.caller import Caller
from shiftlog.model.errors import NoResumableSession
from shiftlog.model.ids import agent_key
from shiftlog.model.nouns import Session
from shiftlog.store.protocol import Filter, Page, Reader

BRIEF_CHARS = 12_000
LOOKED_AT = 50


def brief(
    reader: Reader,
    caller: Caller,
    now: datetime,
    *,
    agent_id: str | None = None,
    cwd: str | None = None,
    session_id: str | None = None,
    max_chars: int = BRIEF_CHARS,
) -> str:
    """Write the brief of a session, else of the one active last: of an agent, a directory, the caller's workspace."""
    if session_id:
        session = find_session(reader, session_id)
    else:
        session = _last_session(reader, caller, agent_id or None, cwd or None)
    return capsule_markdown(capsule_of(reader, session, now), session=session, max_chars=max_chars)


def _last_session(reader: Reader, caller: Caller, agent_id: str | None, cwd: str | None) -> Session:
    folder = absolute(cwd, caller)
    workspace = workspace_of(folder) if folder else None
    if agent_id is None and workspace is None:
        workspace = caller.workspace or caller.cwd
    where = Filter(agent_key=agent_key(agent_id) if agent_id else None, workspace=workspace)
    rows = reader.find_sessions(where, Page(limit=LOOKED_AT), by_activity=True)
    if not rows:
        raise NoResumableSession(
            "NO RESUMABLE SESSION FOUND",
            details={"agent_id": agent_id, "cwd": cwd or workspace},
            hint="Name another agent_id or cwd, or call query_history",
        )
    return min((row.session for row in rows), key=_says_little)


def _says_little(session: Session) -> tuple[bool, bool]:
    """Rank sessions by what they tell who goes on; of equals the one active last counts.

    A spawned session is a part of its parent's work, and an untouched one may be the caller's own.
    """
    is_untouched = not session.turns_total and session.last_activity == session.started
    return session.parent_session_id is not None, is_untouched
