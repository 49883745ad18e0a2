"""The one answer to "what was the last session here?", for resuming, predecessors, briefs and the start of a client.

Unfinished sessions come before closed ones; then those of the same workspace, of another workspace of the same
project, of the same agent elsewhere; then the one active last. Never a sealed, succeeded, hidden or empty one, never
one that the caller is in, and never a subagent's, which is a part of its parent's work.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from shiftlog.journal.worktrees import worktrees
from shiftlog.model.moves import UNFINISHED, SessionState
from shiftlog.model.nouns import Session, changed
from shiftlog.store.protocol import Filter, Page, Reader

READ_AT_ONCE = 50
FAR_AHEAD = timedelta(days=1)
UNFINISHED_STATES = frozenset(map(str, UNFINISHED))
CLOSED_STATES = frozenset({str(SessionState.CLOSED)})
FINAL_STATES = frozenset({str(SessionState.SEALED), str(SessionState.SUCCEEDED)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The wanted sessions: an agent and those offered to it, or of any agent in a workspace or its project.

    `cwd` is a directory in that workspace. `own` names the sessions that the caller holds; `around` those of the client
    that it runs in, which are never an answer. `since` bounds the last activity; `with_empty` asks for empty ones too.
    """

    agent_key: str | None = None
    workspace: str | None = None
    cwd: str | None = None
    own: Collection[str] = ()
    around: Collection[str] = ()
    since: datetime | None = None
    with_empty: bool = False


def last_sessions(
    reader: Reader, asked: Asked, now: datetime, *, most: int = 1, groups: Collection[frozenset[str]] | None = None
) -> list[Session]:
    """Return the last sessions, the best answer first; `groups` are the states to search, one after the other."""
    found: dict[str, Session] = {}
    for states in groups or (UNFINISHED_STATES, CLOSED_STATES):
        for session in _ranked(reader, asked, states, now):
            found.setdefault(session.id, session)
            if len(found) == most:
                return list(found.values())
    return list(found.values())


def last_or_any(reader: Reader, asked: Asked, now: datetime, *, most: int = 1) -> list[Session]:
    """Return the last sessions; only if there is none the caller's own, and empty ones."""
    anyway = replace(asked, own=())
    ways = (asked, anyway, replace(asked, with_empty=True), replace(anyway, with_empty=True))
    return next((found for way in ways if (found := last_sessions(reader, way, now, most=most))), list[Session]())


def is_empty(session: Session) -> bool:
    """Return True if a session has nothing to continue: no turn, command or statement, and no hand-over."""
    is_launched = session.run is not None and session.run.caller is not None
    note = session.closing.note if session.closing else None
    return not (session.turns_total or session.has_work or session.predecessor_session_id or is_launched or note)


def without_expired_offer(session: Session, now: datetime) -> Session:
    """Return a session without its offer if that has expired."""
    return session if session.offer is None or session.offer.expires_at > now else changed(session, offer=None)


def _ranked(reader: Reader, asked: Asked, states: frozenset[str], now: datetime) -> Iterator[Session]:
    """Yield the sessions of some states by place, then by their last activity."""
    here: list[str | None] = [asked.workspace] if asked.workspace else []
    elsewhere: list[str | None] = [None] if asked.agent_key is not None else []
    for group in (here, _other_places(reader, asked), elsewhere):
        rows = [row for place in group for row in _in_place(reader, asked, place, states, now)]
        yield from sorted(rows, key=lambda each: (each.parent_session_id is None, _active(each, now)), reverse=True)


def _active(session: Session, now: datetime) -> datetime:
    """Return when a session was active last; a time far ahead is a mistake of the transcript that it comes from."""
    return session.last_activity if session.last_activity <= now + FAR_AHEAD else session.started


def _in_place(reader: Reader, asked: Asked, place: str | None, states: frozenset[str], now: datetime) -> list[Session]:
    """Return the first sessions of a place that count, the agent's own and those offered to it."""
    where = Filter(workspace=place, states=states, from_=asked.since, agent_key=asked.agent_key)
    found = _counting(reader, where, asked, now)
    if asked.agent_key is not None:
        offered = replace(where, agent_key=None, offered_to=asked.agent_key)
        found += _counting(reader, offered, asked, now)
    return found


def _counting(reader: Reader, where: Filter, asked: Asked, now: datetime) -> list[Session]:
    """Read pages until one holds a session that counts, so that many empty ones hide none."""
    after: tuple[int, int] | None = None
    while rows := reader.find_sessions(where, Page(limit=READ_AT_ONCE, after=after), by_activity=True):
        found = [row.session for row in rows if _counts(row.session, asked, now)]
        if found or len(rows) < READ_AT_ONCE:
            return found
        after = rows[-1].at
    return []


def _counts(session: Session, asked: Asked, now: datetime) -> bool:
    if session.subagent or session.id in asked.own or session.id in asked.around:
        return False
    # A final session is an answer even if it is empty: its error is worth showing.
    if is_empty(session) and not asked.with_empty and str(session.state) not in FINAL_STATES:
        return False
    # An expired offer counts as ended even before a sweep ends it.
    is_own = asked.agent_key in (None, session.agent_key)
    return is_own or without_expired_offer(session, now).offer is not None


def _other_places(reader: Reader, asked: Asked) -> list[str]:
    """Return the other workspaces of a project: as imports know them, and the worktrees of its repository."""
    if asked.workspace is None:
        return []
    folders = [asked.workspace, *([asked.cwd] if asked.cwd else [])]
    projects = {project for folder in folders if (project := reader.project_of(folder))}
    known = [path for project in projects for path in reader.paths_of(project)]
    return [place for place in dict.fromkeys((*folders, *known, *worktrees(asked.workspace))) if place != folders[0]]
