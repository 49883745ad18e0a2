"""The session that a caller is in: that of the agent's client in whose process tree it runs.

Signals, the strongest first: the client's own session id; the client's process among those above the caller; a session
of the same agent that a hook opened in the same workspace just before the caller connected. The entry `client.joined`
records which one decided.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from shiftlog.facts.batch import origin_key
from shiftlog.journal.vendor_names import known_session
from shiftlog.model.caller import META, Caller
from shiftlog.model.moves import RunStatus
from shiftlog.model.nouns import Session
from shiftlog.store.protocol import Filter, Page, Reader

VENDOR_ID, PROCESS, WORKSPACE = "vendor_id", "process", "workspace"
CALL = "call"
UNCERTAIN = "uncertain"
# A hook reports the start of its client before the client starts its servers, or at the same time.
SAME_START = timedelta(seconds=10)
LOOKED_AT = 200
DEEPEST = 16
Processes = Sequence[tuple[int, str]]
_LIVE = frozenset({"open", "suspended"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPlace:
    """The place of a caller: in which session, and which signal says so.

    `vendor_id` is the client's own id, also before a session has it. `outer` is the session of the client that started
    this one. `attribution` is `uncertain` for a call that may be a subagent's.
    """

    session: Session | None = None
    by: str | None = None
    via: str | None = None
    vendor_id: str | None = None
    outer: Session | None = None
    attribution: str | None = None


def asked_name(tool_call: str) -> str:
    """Return the name under which a hook stored the session of a tool call before the call."""
    return f"asked:{tool_call}"


def place_of(reader: Reader, caller: Caller, agent: str | None = None, vendor_id: str | None = None) -> ClientPlace:
    """Return the place of a caller; `agent` and `vendor_id` are its call's own statements about its client."""
    above = clients_above(reader, caller.signs.processes, caller.host)
    if agent is None:
        agent = _only_agent(caller, above)
    if agent is None:
        return ClientPlace(outer=above[0] if above else None)
    found = _named(reader, caller, above, agent, vendor_id) or _by_process(above, agent)
    if found is None and (session := _beside(reader, caller, agent)) is not None:
        found = ClientPlace(session=session, by=WORKSPACE)
    found = found or ClientPlace()
    own = found.session.id if found.session is not None else None
    outer = next((each for each in above if each.id != own and not _is_former(each, found.session)), None)
    return _of_subagent(reader, caller, replace(found, outer=outer))


def sessions_around(reader: Reader, caller: Caller) -> frozenset[str]:
    """Return the ids of the caller's sessions: its client's, their parents, and that of the client around it."""
    names: set[str] = set()
    for agent in [*caller.signs.vendor_ids] or [None]:
        place = place_of(reader, caller, agent)
        for around in (place.session, place.outer):
            names.update(session.id for session in _upwards(reader, around))
    return frozenset(names)


def _upwards(reader: Reader, session: Session | None) -> Iterator[Session]:
    for _ in range(DEEPEST):
        if session is None:
            return
        yield session
        session = reader.session(session.parent_session_id) if session.parent_session_id else None


def _only_agent(caller: Caller, above: list[Session]) -> str | None:
    """Return the agent in whose client a caller runs, if its call does not say; None if several fit."""
    kinds = list(caller.signs.vendor_ids)
    if len(kinds) == 1:
        return kinds[0]
    if above and (not kinds or above[0].agent in kinds):
        return above[0].agent
    return None


def _named(reader: Reader, caller: Caller, above: list[Session], agent: str, given: str | None) -> ClientPlace | None:
    """Return the place that the client's own id names, also if no session has that id yet."""
    signs = caller.signs
    vendor_id, via = (given, CALL) if given else (signs.vendor_ids.get(agent), signs.via)
    if vendor_id is None:
        return None
    session_id = known_session(reader, agent, vendor_id)
    session = reader.session(session_id) if session_id else None
    named = ClientPlace(session=session, by=VENDOR_ID, via=via, vendor_id=vendor_id)
    if via in (CALL, META) or session is None:
        return named
    # An environment is as old as its process: the client may have begun another session since, as `/clear` does.
    later = next((each for each in above if each.agent == agent and _is_former(session, each)), None)
    return named if later is None else ClientPlace(session=later, by=PROCESS, vendor_id=later.vendor_session_id)


def _is_former(session: Session, later: Session | None) -> bool:
    """Return True if the same process had one session before the other."""
    one, other = session.run, later.run if later is not None else None
    if one is None or other is None or later is None or session.id == later.id:
        return False
    return (one.pid, one.pid_started) == (other.pid, other.pid_started) and session.started <= later.started


def clients_above(reader: Reader, processes: Processes, host: str) -> list[Session]:
    """Return the live sessions of clients that run in one of these processes, the nearest and newest first."""
    places = {process: place for place, process in enumerate(processes)}
    if not places:
        return []
    where = Filter(states=_LIVE, with_run=True, run_status=str(RunStatus.RUNNING), without_subagents=True)
    found: list[tuple[int, float, Session]] = []
    for row in reader.find_sessions(where, Page(limit=LOOKED_AT), by_activity=True):
        session, run = row.session, row.session.run
        if run is None or session.vendor_session_id is None or run.host != host:
            continue
        place = places.get((run.pid or 0, run.pid_started or ""))
        if place is not None:
            found.append((place, -session.started.timestamp(), session))
    return [session for _, _, session in sorted(found, key=lambda each: each[:2])]


def _by_process(above: list[Session], agent: str) -> ClientPlace | None:
    """Return the place of the nearest client, if it is of this agent; another agent's is around this client."""
    if not above or above[0].agent != agent:
        return None
    return ClientPlace(session=above[0], by=PROCESS, vendor_id=above[0].vendor_session_id)


def _beside(reader: Reader, caller: Caller, agent: str) -> Session | None:
    """Return the one session that a client of this agent began here just before the caller connected."""
    since, workspace = caller.signs.since, caller.workspace or caller.cwd
    if since is None or workspace is None:
        return None
    where = Filter(agent=agent, workspace=workspace, states=frozenset({"open"}), with_run=True, without_subagents=True)
    rows = reader.find_sessions(where, Page(limit=LOOKED_AT), by_activity=True)
    found = [
        row.session
        for row in rows
        if row.session.vendor_session_id is not None
        and timedelta(0) <= since - row.session.started <= SAME_START
        and not _is_elsewhere(row.session, caller)
    ]
    return found[0] if len(found) == 1 else None


def _is_elsewhere(session: Session, caller: Caller) -> bool:
    """Return True if both processes are known: the session's would have been found among those above the caller."""
    run = session.run
    return run is not None and run.pid is not None and run.host == caller.host and bool(caller.signs.processes)


def _of_subagent(reader: Reader, caller: Caller, place: ClientPlace) -> ClientPlace:
    """Return the place in the child session of the subagent that calls; clients share one connection among them."""
    session, signs = place.session, caller.signs
    if session is None or place.via in (CALL, META):
        return place
    if signs.tool_call is not None:
        key = origin_key(session.agent, asked_name(signs.tool_call))
        told = reader.origins([key]).get(key)
        if told is not None:
            return replace(place, session=reader.session(told.session_id) or session)
    where = Filter(parent_id=session.id, states=frozenset({"open"}))
    rows = reader.find_sessions(where, Page(limit=LOOKED_AT), by_activity=True)
    running = [row.session for row in rows if row.session.subagent]
    if len(running) == 1:
        return replace(place, session=running[0])
    return replace(place, attribution=UNCERTAIN) if running else place
