"""Find the session that a call is about: named, bound to the connection, the agent's current one, or the only one.

A connection keeps nothing but its binding, which comes with each call; everything else is in the store.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from shiftlog.journal.clients import place_of
from shiftlog.journal.holders import check_fence
from shiftlog.journal.journal import Journal, resolve_session_id
from shiftlog.model.caller import Caller
from shiftlog.model.entry import Kind
from shiftlog.model.errors import SessionNotFound
from shiftlog.model.ids import check_session_id, is_alias
from shiftlog.model.limits import SESSIONLOG_CALL_S
from shiftlog.model.nouns import Session
from shiftlog.model.times import shown
from shiftlog.store.protocol import Filter, Page, Reader

CANDIDATES = 10
MOST_EARLIER = 100


@dataclass(slots=True, kw_only=True)
class Binding:
    """The session that a connection opened or last addressed, and the fence that it saw then.

    `earlier` are the fences of sessions it was bound to before, so that switching back and forth renews none. `agents`
    are those for which the connection opened sessions.
    """

    session_id: str | None = None
    fence: int | None = None
    earlier: dict[str, int] = field(default_factory=dict[str, int])
    agents: list[str] = field(default_factory=list[str])

    def bind(self, session: Session) -> None:
        """Remember a session; one that was bound before keeps the fence seen first."""
        if self.session_id == session.id:
            return
        if self.session_id is not None and self.fence is not None:
            self.earlier[self.session_id] = self.fence
        seen = self.earlier.pop(session.id, None)
        self.session_id, self.fence = session.id, session.fence if seen is None else seen
        for name in list(self.earlier)[:-MOST_EARLIER]:
            del self.earlier[name]

    def open(self, session: Session) -> None:
        """Remember a session that the connection opened, and the agent for which it did."""
        self.bind(session)
        if session.agent not in self.agents:
            self.agents.append(session.agent)

    def seen(self, session_id: str) -> int | None:
        """Return the fence that the connection saw when it bound to a session."""
        return self.fence if session_id == self.session_id else self.earlier.get(session_id)

    def see(self, session: Session) -> None:
        """Remember the present fence of a session as the one seen."""
        if session.id == self.session_id:
            self.fence = session.fence
        elif session.id in self.earlier:
            self.earlier[session.id] = session.fence


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """The origin of a call: the client, its workspace if it is known, the agent it works for, and its binding.

    `own_workspace` is the client's own where a call may name another. With `strict` an unknown parameter is refused.
    With `again` the client repeats the call because the first answer was lost.
    """

    caller: Caller
    workspace: str
    own_workspace: str | None = None
    agent: str | None = None
    binding: Binding = field(default_factory=Binding)
    timeout_s: float = SESSIONLOG_CALL_S
    strict: bool = False
    again: bool = False


def named_session_id(values: Mapping[str, Any]) -> str | None:
    """Return the session id or the number of a run that a call names, having checked the form and agent of an id."""
    given = values.get("session_id")
    if given and is_alias(given):
        return str(given)
    return check_session_id(given, values.get("agent") or None) if given else None


def current_session(reader: Reader, values: Mapping[str, Any], context: CallContext) -> Session:
    """Return the session that a call is about, and bind the connection to it.

    A named session may have ended, even be deleted; one that is not named is live. Raises SessionNotFound.
    """
    name = named_session_id(values)
    if name is not None:
        session = _named(reader, name, values.get("agent") or None)
    else:
        session = _unnamed(reader, values.get("agent") or None, context)
    if is_live(session):
        context.binding.bind(session)
    return session


def session_of_call(
    reader: Reader, values: Mapping[str, Any], context: CallContext, answered: Callable[[Session], bool]
) -> Session:
    """Return the current session, or an ended one that, as `answered` says, answered this call before.

    Without that a call that is repeated with its key after it closed the session would close another one.
    """
    repeats = bool(values.get("idempotency_key")) and named_session_id(values) is None
    bound = _bound(reader, context)
    if repeats and bound is not None and not is_live(bound) and answered(bound):
        return bound
    try:
        return current_session(reader, values, context)
    except SessionNotFound:
        where = Filter(workspace=context.workspace or None, without_subagents=True)
        last = reader.find_sessions(where, Page(limit=CANDIDATES), by_activity=True) if repeats else ()
        ended = (row.session for row in last if not is_live(row.session))
        found = next((session for session in ended if answered(session)), None)
        if found is None:
            raise
        return found


def _bound(reader: Reader, context: CallContext) -> Session | None:
    return reader.session(context.binding.session_id) if context.binding.session_id else None


def is_live(session: Session) -> bool:
    """Return True if a session accepts writes."""
    return session.is_live and not session.hidden


def _named(reader: Reader, name: str, agent: str | None) -> Session:
    session_id = resolve_session_id(reader, name)
    session = reader.session(session_id) if session_id else None
    if session is None:
        raise SessionNotFound(f"Session not found: {name}", details={"session_id": name})
    # The number of a run does not name its agent.
    check_session_id(session.id, agent)
    return session


def _unnamed(reader: Reader, given: str | None, context: CallContext) -> Session:
    agent = given or context.agent
    bound = _bound(reader, context)
    if bound is not None and is_live(bound) and given in (None, bound.agent):
        return bound
    own = _of_client(reader, context.caller)
    if own is not None and given in (None, own.agent):
        return own
    if agent is not None:
        name = reader.pointer(context.workspace, agent)
        pointed = reader.session(name) if name else None
        if pointed is not None and is_live(pointed):
            return pointed
    # Only the journal gives a subagent a session of its own; here its turns are the parent's.
    where = Filter(workspace=context.workspace or None, agent=agent, states=frozenset({"open"}), without_subagents=True)
    rows = reader.find_sessions(where, Page(limit=CANDIDATES), by_activity=True)
    if not rows and given is None and agent is not None:
        # The agent that the client was started for is a preference; only one that a call names is a condition.
        rows = reader.find_sessions(replace(where, agent=None), Page(limit=CANDIDATES), by_activity=True)
    if len(rows) == 1:
        return rows[0].session
    details: dict[str, Any] = {}
    if rows:
        details["candidates"] = [
            {
                "session_id": row.session.id,
                "agent": row.session.agent,
                "title": row.session.title,
                "last_updated": shown(row.session.last_activity),
            }
            for row in rows
        ]
    raise SessionNotFound("No active session exists", details=details)


def _of_client(reader: Reader, caller: Caller) -> Session | None:
    """Return the live session of the agent's client in which the caller runs; of a subagent its parent's."""
    session = place_of(reader, caller).session
    while session is not None and session.subagent and session.parent_session_id:
        session = reader.session(session.parent_session_id)
    return session if session is not None and is_live(session) else None


def check_binding(
    journal: Journal, reader: Reader, session: Session, context: CallContext, values: Mapping[str, Any]
) -> None:
    """Refuse a connection that was bound before a newer holder took the session over, and one of another agent.

    It may write beside a holder that only resumed the session.
    """
    seen = context.binding.seen(session.id)
    if seen not in (None, session.fence):
        grants = reader.entries(session.id, kinds=(Kind.LEASE_TAKEN,))
        # What was erased may have been a take-over.
        if any(grant.body is None or grant.facts.get("taken_over") for grant in grants[seen:]):
            check_fence(reader, session, seen)
        context.binding.see(session)
    journal.check_writer(reader, session, context.caller)
    agents = {agent for agent in (context.agent, *context.binding.agents) if agent}
    if agents and session.agent not in agents and not values.get("agent"):
        journal.check_not_held(reader, session, context.caller)
