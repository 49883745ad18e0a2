"""The brief: the capsule of the last session of an agent or a directory as Markdown, for the next prompt."""

from collections.abc import Collection
from datetime import datetime

from shiftlog.journal.continuity.capsule.markdown import capsule_markdown
from shiftlog.journal.continuity.capsule.reading import capsule_of
from shiftlog.journal.journal import find_session
from shiftlog.journal.last_session import Asked, last_or_any
from shiftlog.journal.sessions import absolute, workspace_of
from shiftlog.model.caller import Caller
from shiftlog.model.errors import NoResumableSession
from shiftlog.model.ids import agent_key
from shiftlog.model.nouns import Session
from shiftlog.store.protocol import Reader

BRIEF_CHARS = 12_000


def brief(
    reader: Reader,
    caller: Caller,
    now: datetime,
    *,
    agent_id: str | None = None,
    cwd: str | None = None,
    session_id: str | None = None,
    own: Collection[str] = (),
    max_chars: int = BRIEF_CHARS,
) -> str:
    """Write the brief of a session, else of the last one: of an agent, a directory, the caller's workspace.

    `own` names the sessions that the caller is in, which are not meant unless named.
    """
    if session_id:
        session = find_session(reader, session_id)
    else:
        session = _last_session(reader, caller, now, agent_id or None, cwd or None, own)
    return capsule_markdown(capsule_of(reader, session, now), session=session, max_chars=max_chars)


def _last_session(
    reader: Reader, caller: Caller, now: datetime, agent_id: str | None, cwd: str | None, own: Collection[str]
) -> Session:
    folder = absolute(cwd, caller)
    workspace = workspace_of(folder) if folder else caller.workspace or caller.cwd
    asked = Asked(
        agent_key=agent_key(agent_id) if agent_id else None, workspace=workspace, cwd=folder or caller.cwd, own=own
    )
    found = last_or_any(reader, asked, now)
    if not found:
        raise NoResumableSession(
            "NO RESUMABLE SESSION FOUND",
            details={"agent_id": agent_id, "cwd": cwd or workspace},
            hint="Name another agent_id or cwd, or call query_history",
        )
    return found[0]
