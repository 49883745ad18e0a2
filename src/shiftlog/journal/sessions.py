"""Services that open sessions and begin, update and finish turns.

Each call is checked here and handed to a rule (`rules.py`); the journal stores what the rule writes.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from itertools import chain
from os.path import normpath
from pathlib import Path
from typing import Any

from shiftlog.journal import rules
from shiftlog.journal.clients import ClientPlace, place_of, sessions_around
from shiftlog.journal.holders import held, lease_of
from shiftlog.journal.joining import join
from shiftlog.journal.journal import Answered, Journal, Request, Rule, closed_error, find_session
from shiftlog.journal.last_session import UNFINISHED_STATES, Asked, last_sessions
from shiftlog.journal.pen import Pen
from shiftlog.journal.requests import BEGIN_TURN, FINISH_TURN, OPEN_SESSION, RUN_FIELDS, UPDATE_TURN
from shiftlog.model.caller import Caller
from shiftlog.model.entry import Kind
from shiftlog.model.errors import SessionAlreadyExists, TurnNotFound
from shiftlog.model.ids import agent_key, check_session_id, free_id, is_unstable_agent_id, mint_session_id
from shiftlog.model.limits import PATH_CHARS
from shiftlog.model.moves import SessionState
from shiftlog.model.nouns import Session
from shiftlog.model.resonance import Resonance, known_backend, resolve_tier
from shiftlog.model.times import shown
from shiftlog.store.protocol import Filter, Page, Reader, Writer
from shiftlog.text.printable import CONTROLS

EXCERPT_CHARS = 2_048

# Returns warnings about the spending limits of an agent; raises if they forbid a new session.
Spending = Callable[[Reader, str, datetime], list[dict[str, Any]]]


class Sessions:
    """Open sessions and change their turns."""

    def __init__(
        self,
        journal: Journal,
        resonance: Resonance,
        process_started: Callable[[int], str | None],
        spending: Spending,
    ) -> None:
        self._journal = journal
        self._resonance = resonance
        self._process_started = process_started
        self._spending = spending

    async def open_session(
        self, arguments: Mapping[str, Any], caller: Caller, *, implicit: bool = False, resolves: bool = False
    ) -> Answered:
        """Start a session, and its run if any fact of a run is given; in a client that has a session, join it.

        An `implicit` one is opened for a call that needs a session; its title is not the agent's. Only for a launcher,
        with `resolves`, do tier, model and effort that it left out follow from the operator's table; the session of an
        agent holds only what was given. A launcher does not work in the session: its repeat takes no lease.
        """
        request = await self._journal.request_off_loop(
            "open_session", OPEN_SESSION, arguments, caller, self._check_names
        )
        values = request.values
        self._journal.refuse_secrets(values, "agent", "session_id")
        if values.get("session_id"):
            check_session_id(values["session_id"], values["agent"])
        values["cwd"] = absolute(values.get("cwd"), caller)
        values["agent_id"] = (values.get("agent_id") or "").strip() or values["agent"]
        run = self._run_of(values, len(str(arguments.get("context_excerpt") or "")), resolves=resolves)
        named = frozenset(name for name in arguments if not _is_blank(arguments[name]))
        given = named - {"title"} if implicit else named

        def work(writer: Writer) -> Answered:
            first = self._journal.replay(writer, request, "")
            if first is None:
                return self._open(writer, request, run, given)
            if resolves:
                return first
            return {**first, "lease": hold_again(self._journal, writer, first["session_id"], caller)}

        return await self._journal.transaction(request, work)

    async def begin_turn(self, arguments: Mapping[str, Any], caller: Caller) -> Answered:
        """Start a turn."""
        request = await self._journal.request_off_loop("begin_turn", BEGIN_TURN, arguments, caller)
        self._journal.refuse_secrets(request.values, "request_id")

        def begin(pen: Pen, values: Mapping[str, Any]) -> Answered:
            answered = rules.begin_turn(pen, values)
            # A caller that holds no lease, such as a command line, is another client with each call.
            pen.join(caller.client_id if caller.holds_leases else None, answered["request_id"])
            return answered

        return await self._journal.write(request, begin)

    async def update_turn(self, arguments: Mapping[str, Any], caller: Caller) -> Answered:
        """Change the open turn."""
        request = await self._journal.request_off_loop(
            "update_turn", UPDATE_TURN, arguments, caller, rules.check_update
        )
        return await self._journal.write(request, self._in_own_turn(rules.update_turn, caller))

    async def finish_turn(self, arguments: Mapping[str, Any], caller: Caller) -> Answered:
        """Complete or fail a turn."""
        request = await self._journal.request_off_loop(
            "finish_turn", FINISH_TURN, arguments, caller, rules.check_outcome
        )
        return await self._journal.write(request, self._in_own_turn(rules.finish_turn, caller))

    def _in_own_turn(self, rule: Rule, caller: Caller) -> Rule:
        """Return a rule that uses the caller's own turn without a request_id; actions replace those of their order."""

        def apply(pen: Pen, values: Mapping[str, Any]) -> Answered:
            if values.get("request_id") or (fence := values.get("fence")) == pen.session.fence:
                return going_on(pen, values)  # the present fence identifies the holder
            own = rules.turn_of_client(pen, caller.client_id)
            if own is None:
                if pen.session.current_turn:  # a caller that may not write at all gets that error first
                    self._journal.check_writer(pen.reader, pen.session, caller, fence)
                raise TurnNotFound("No active turn", details={"session_id": pen.session.id})
            return going_on(pen, {**values, "request_id": own})

        def going_on(pen: Pen, values: Mapping[str, Any]) -> Answered:
            return rule(pen, rules.replace_actions(pen, values))

        return apply

    def _check_names(self, values: Mapping[str, Any]) -> None:
        """Refuse an agent id without a key, and a backend that is not registered."""
        agent_key((values.get("agent_id") or "").strip() or values["agent"])
        backend = values.get("backend")
        if not _is_blank(backend):
            known_backend(self._resonance, str(backend))

    def _run_of(self, values: Mapping[str, Any], prompt_chars: int, *, resolves: bool) -> dict[str, Any] | None:
        given = {name: values[name] for name in RUN_FIELDS if not _is_blank(values.get(name))}
        if not given:
            return None
        backend = given.get("backend") or self._resonance.backend_of(values["agent"])
        facts: dict[str, Any] = {"session_type": given.get("session_type", "interactive_desktop"), "warnings": []}
        names = ("caller", "resonance_tier", "model", "reasoning_effort", "cwd")
        facts |= {name: given[name] for name in names if name in given}
        if backend is not None:
            facts.update(backend=backend, provider=known_backend(self._resonance, backend).provider)
        if resolves:
            facts |= self._resolved(facts)
        if "pid" in given:
            facts.update(pid=given["pid"], pid_started=self._process_started(given["pid"]))
        excerpt = given.get("context_excerpt")
        if excerpt:
            facts.update(context_excerpt=excerpt[:EXCERPT_CHARS], prompt_chars=prompt_chars)
        return facts

    def _resolved(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Return tier, model and effort from the operator's table as far as they were not given, and their names."""
        given_tier = facts.get("resonance_tier", "")
        tier, warnings = resolve_tier(self._resonance, caller=facts.get("caller", ""), tier=given_tier)
        found: dict[str, Any] = {"resonance_tier": tier}
        if "backend" in facts:
            level = self._resonance.level(facts["backend"], tier)
            found |= {"model": level.model, "reasoning_effort": level.effort}
        missing = {name: value for name, value in found.items() if value is not None and name not in facts}
        return {**missing, "resolved": list(missing), "warnings": list(warnings)}

    def _open(self, writer: Writer, request: Request, run: dict[str, Any] | None, given: frozenset[str]) -> Answered:
        values, caller = request.values, request.caller
        now = self._journal.clock.now()
        place = place_of(writer, caller, values["agent"], (values.get("vendor_session_id") or "").strip() or None)
        own = place.session if place.session is not None and place.session.is_live else None
        named = values.get("session_id")
        # A sub-agent that says who started it has a session of its own, also inside its parent's client.
        joins = own is not None and named in (None, own.id) and not values.get("parent_session_id")
        session_id = own.id if own is not None and joins else self._free_id(writer, values, now)
        over_limit = self._spending(writer, values["agent_id"], now)
        pen = self._journal.pen(writer, session_id, own if joins else None)
        pen.warnings += over_limit
        warnings: list[str] = run.pop("warnings") if run else []
        facts = self._facts(writer, values, run, place, caller)
        predecessor = self._predecessor(writer, request, facts["workspace"], now)
        if joins:
            join(writer, pen, place, facts, run, given, caller)
            lease = self._lease_beside(writer, pen, caller)
        else:
            if run is not None:
                facts["run"] = {"alias": writer.next_alias(), "host": caller.host, **run}
            pen.write(Kind.SESSION_OPENED, {name: value for name, value in facts.items() if value})
            lease = take_lease(writer, pen, caller)
        for text in warnings:
            pen.warn("caller_not_registered", text)
        if is_unstable_agent_id(values["agent_id"]):
            pen.warn("unstable_agent_id", "agent_id looks drawn anew for each run; resume needs a stable name")
        opened = _opened(pen.session, lease, predecessor) | {"joined": joins}
        return self._journal.answer(writer, request, pen, opened, "")

    def _facts(
        self, writer: Writer, values: Mapping[str, Any], run: dict[str, Any] | None, place: ClientPlace, caller: Caller
    ) -> dict[str, Any]:
        """Return the facts of a new session."""
        given = values.get("parent_session_id")
        around = place.session if place.session is not None and place.session.is_live else place.outer
        parent = find_session(writer, given, "parent_session_id").id if given else around.id if around else None
        return {
            "agent": values["agent"],
            "agent_id": spelling(writer, values["agent_id"]),
            "title": values["title"],
            "model": run.get("model") if run else None,
            "workspace": _workspace(values, caller),
            "cwd": values.get("cwd") or caller.cwd,
            "tags": [tag for tag in dict.fromkeys(values.get("tags") or ()) if tag.strip()],
            "exclusive": bool(values.get("exclusive")),
            "parent_session_id": parent,
            "vendor_session_id": (values.get("vendor_session_id") or "").strip()
            or (place.vendor_id if place.session is None else None),
            # Named before its agent writes it, so it need not be there yet.
            "transcript_path": absolute((values.get("transcript_path") or "").strip(), caller),
        }

    def _lease_beside(self, writer: Writer, pen: Pen, caller: Caller) -> dict[str, Any]:
        """Grant a joined session to the caller; beside another client of the same agent that holds it, no lease."""
        other = self._journal.holders.other(writer, pen.session, caller, pen.clock_now)
        if other is None:
            return take_lease(writer, pen, caller)
        if pen.session.exclusive:
            raise held(pen.session, other)
        if caller.client_id:
            writer.put_agent_of(caller.client_id, pen.session.agent_key, pen.now)
        return {"fence": pen.session.fence, "expires_at": None}

    def _predecessor(
        self, reader: Reader, request: Request, workspace: str | None, now: datetime
    ) -> dict[str, Any] | None:
        """Return the unfinished session that resume_session would have continued."""
        values, caller = request.values, request.caller
        asked = Asked(
            agent_key=agent_key(values["agent_id"]),
            workspace=workspace,
            cwd=values.get("cwd") or caller.cwd,
            own=self._journal.holders.sessions_of(reader, caller, now),
            around=sessions_around(reader, caller),
        )
        found = last_sessions(reader, asked, now, groups=(UNFINISHED_STATES,))
        return _shown_predecessor(found[0]) if found else None

    def _free_id(self, reader: Reader, values: Mapping[str, Any], now: Any) -> str:
        given = values.get("session_id")
        if given:
            existing = reader.session(given)
            if existing is not None:
                raise already_exists(existing)
            return given
        minted = mint_session_id(values["agent"], values["title"], now)
        return free_id(minted, lambda name: reader.head(name) is not None)


def _is_blank(value: object) -> bool:
    """Return True if a fact of a run is not given; a name is kept as it is, `unknown` too."""
    return value is None or (isinstance(value, str) and not value.strip())


def take_lease(writer: Writer, pen: Pen, caller: Caller, *, taken_over: bool = False) -> dict[str, Any]:
    """Grant the session to the caller: the fence grows by one, and a client that stays is its holder."""
    session = pen.session
    who = {"agent_id": session.agent_id, "face": caller.face, "host": caller.host, "pid": caller.pid}
    how = {"taken_over": True} if taken_over else {}
    pen.write(Kind.LEASE_TAKEN, {"fence": session.fence + 1, **who, **how})
    if caller.client_id:
        writer.put_agent_of(caller.client_id, session.agent_key, pen.now)
    if not (caller.client_id and caller.holds_leases):
        writer.end_lease(session.id)
        return {"fence": pen.session.fence, "expires_at": None}
    lease = lease_of(pen.session, caller, pen.clock_now)
    writer.put_lease(lease)
    return {"fence": lease.fence, "expires_at": shown(lease.expires_at)}


def hold_again(journal: Journal, writer: Writer, session_id: str, caller: Caller) -> dict[str, Any]:
    """Return the lease of a client that repeats the granting call; grant it anew if it was lost.

    Refuse if the session has ended since, or if another client holds it now.
    """
    session, now = find_session(writer, session_id), journal.clock.now()
    if not session.is_live:
        raise closed_error(session)
    other = journal.holders.other(writer, session, caller, now)
    if other is not None:
        raise held(session, other)
    own = journal.holders.own(writer, session, caller, now)
    if session.state is SessionState.OPEN and (own is not None or not caller.holds_leases):
        return {"fence": session.fence, "expires_at": shown(own.expires_at) if own else None}
    pen = journal.pen(writer, session.id, session)
    pen.write(Kind.SESSION_RESUMED, {"via": "repeat", "state_before": str(session.state)})
    granted = take_lease(writer, pen, caller)
    pen.commit(writer)
    return granted


def already_exists(session: Session) -> SessionAlreadyExists:
    """Return the error that answers opening a session under a taken id."""
    return SessionAlreadyExists(
        f"Session with ID {session.id} already exists",
        details={
            "session_id": session.id,
            "state": str(session.state),
            "title": session.title,
            "started": shown(session.started),
        },
    )


def absolute(cwd: str | None, caller: Caller) -> str | None:
    """Return a working directory as the client means it: its home for `~`, below its own where relative."""
    if not cwd or not cwd.strip():
        return None
    path = _expanded(cwd)
    return str(path if path.is_absolute() or not caller.cwd else Path(normpath(Path(caller.cwd, path))))


def transcript(given: str | None, caller: Caller) -> str | None:
    """Return the path of a transcript as the client means it, None where there is no such file."""
    path = absolute(given, caller)
    try:
        return path if path is not None and Path(path).is_file() else None
    except (OSError, ValueError):  # too long a name
        return None


def _expanded(cwd: str) -> Path:
    try:
        return Path(cwd).expanduser()
    except RuntimeError:  # the home of an unknown user
        return Path(cwd)


def _workspace(values: Mapping[str, Any], caller: Caller) -> str | None:
    cwd = values.get("cwd")
    if not cwd or cwd == caller.cwd:
        return caller.workspace or caller.cwd
    return workspace_of(cwd)


def workspace_of(cwd: str) -> str:
    """Return the git top level above a directory, else the directory itself."""
    path = _expanded(cwd)
    # A path beyond the limit cannot exist, and all its parents together could fill the memory.
    above = chain((path,), path.parents) if path.is_absolute() and len(cwd) <= PATH_CHARS else ()
    return str(next((folder for folder in above if _is_repository(folder)), path))


def _is_repository(folder: Path) -> bool:
    try:
        return (folder / ".git").exists()
    except OSError:  # not ours to read, or longer than any name can be
        return False


def spelling(reader: Reader, agent_id: str) -> str:
    """Return the spelling of an agent id that was used first; a new one is kept in one line, without outer space."""
    key = agent_key(agent_id)
    rows = reader.find_sessions(Filter(agent_key=key), Page(limit=1), by_activity=True)
    return rows[0].session.agent_id if rows else CONTROLS.sub(" ", agent_id).strip()


def _shown_predecessor(session: Session) -> dict[str, Any]:
    return {
        "session_id": session.id,
        "state": str(session.state),
        "last_activity": shown(session.last_activity),
        "title": session.title,
    }


def _opened(session: Session, lease: dict[str, Any], predecessor: dict[str, Any] | None) -> Answered:
    run = session.run
    return {
        "session_id": session.id,
        "run_id": run.alias if run else None,
        "agent": session.agent,
        "agent_id": session.agent_id,
        "state": str(SessionState.OPEN),
        "started": shown(session.started),
        "lease": lease,
        "resonance_tier": run.resonance_tier if run else None,
        "model": session.model,
        "reasoning_effort": run.reasoning_effort if run else None,
        "predecessor": predecessor,
    }
