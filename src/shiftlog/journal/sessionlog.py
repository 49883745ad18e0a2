"""The session log: its methods by name over the rules that every face shares, and the transaction around each.

Checks come in the contract's order: parameters, forms of ids, session, a repeated key, turn, lease. What a call asks
for stands in `sessionlog_requests`, what it does in the modules beside this one.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import anyio

from shiftlog.guard.redaction import Redactor
from shiftlog.journal import sessionlog_requests as requests
from shiftlog.journal import sessionlog_turns as turns
from shiftlog.journal.continuity import Continuity
from shiftlog.journal.journal import Journal, Request
from shiftlog.journal.pen import Pen
from shiftlog.journal.sessionlog_current import (
    Place,
    check_binding,
    closed,
    current_session,
    is_live,
    named_session_id,
)
from shiftlog.journal.sessionlog_errors import MethodNotFound
from shiftlog.journal.sessionlog_history import expression_of, filter_of, find
from shiftlog.journal.sessionlog_objects import current_object, history_object
from shiftlog.journal.sessionlog_sessions import (
    already_exists,
    import_session,
    open_session,
    update_session,
)
from shiftlog.model.entry import Kind
from shiftlog.model.errors import CommandTimeout, InvalidParameter, SessionNotFound, ShiftlogError
from shiftlog.model.ids import check_request_id, check_session_id
from shiftlog.model.moves import SessionState
from shiftlog.model.nouns import Session
from shiftlog.store.protocol import Reader, Writer

T = TypeVar("T")
Result = dict[str, Any]
Rule = Callable[[Pen, Mapping[str, Any]], tuple[Result, str | None]]
Prepare = Callable[[Mapping[str, Any]], dict[str, Any]]

PREFIX = "workflow.sessionlog."
DEFAULT_LIMIT = 10
STALE_CHECK = timedelta(seconds=1)
PERSISTED = {
    "persisted": True,
    "degraded": False,
    "persistenceStrategy": "primary",
    "failsafePath": None,
    "message": "persisted",
}
_NAMES = frozenset({"session_id", "request_id", "turn_request_id", "idempotency_key", "agent"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A checked and redacted call, where it comes from, and what of it was ignored."""

    request: Request
    place: Place
    warnings: list[dict[str, object]]
    deadline: float

    @property
    def values(self) -> dict[str, Any]:
        """Return the checked values."""
        return self.request.values


class Sessionlog:
    """Answer the session log's calls."""

    def __init__(self, journal: Journal, redactor: Redactor, continuity: Continuity, idle_limit: timedelta) -> None:
        self._journal = journal
        self._redactor = redactor
        self._continuity = continuity
        self._idle_limit = idle_limit
        self._looked_at: datetime | None = None

    async def call(self, method: str, params: object, place: Place) -> Result | None:
        """Answer a method by its name; raise ShiftlogError, and CommandTimeout when nothing was written in time."""
        answer = METHODS.get(method)
        if answer is None:
            known = {"method_name": method[:200], "supported_methods": list(METHODS)}
            raise MethodNotFound(f"Method not found: {self._journal.masked_text(method[:200])}", details=known)
        return await self.within(place, lambda: answer(self, method, params, place))

    async def within(self, place: Place, work: Callable[[], Awaitable[T]]) -> T:
        """Run a call within its time; what is not done by then never happens."""
        with anyio.move_on_after(place.timeout_s):
            await self._suspend_stale()
            return await work()
        raise _timed_out(place)

    async def _suspend_stale(self) -> None:
        """Suspend what idles or lost its holder before anybody is told that it is open."""
        now = self._journal.clock.now()
        if self._looked_at is None or abs(now - self._looked_at) >= STALE_CHECK:
            self._looked_at = now
            await self._continuity.suspend_stale(self._idle_limit)

    # How a call is asked, written and read

    def asked(
        self, method: str, params: requests.Params, given: object, place: Place, prepare: Prepare = dict
    ) -> Asked:
        """Check a call's parameters and mask the secrets in them; `prepare` sees them before the ids are checked."""
        ignored: list[str] | None = None if place.strict else []
        try:
            values = prepare(params.read(given, ignored))
            named_session_id(values)
        except ShiftlogError as error:
            raise self._journal.masked(error) from None
        masked = 0
        for name, value in values.items():
            if name not in _NAMES:
                values[name], count, _ = self._redactor.value(value)
                masked += count
        return Asked(
            request=Request(operation=method, values=values, masked=masked, caller=place.caller),
            place=place,
            warnings=[{"code": "ignored_param", "param": self._journal.masked_text(name)} for name in ignored or ()],
            deadline=time.monotonic() + place.timeout_s,
        )

    async def write(self, asked: Asked, rule: Rule) -> Result:
        """Run a rule on the current session and store what it writes."""
        return await self.transaction(asked, lambda writer: self._apply(writer, asked, rule))

    def _apply(self, writer: Writer, asked: Asked, rule: Rule) -> Result:
        session = current_session(writer, asked.values, asked.place)
        first = self.repeated(writer, asked, session.id)
        if first is not None:
            return first
        if not is_live(session):
            raise closed(session)
        pen = self._journal.pen(writer, session.id, session)
        if session.state is SessionState.SUSPENDED:
            pen.write(Kind.SESSION_RESUMED, {"via": "write"})
        before = len(pen.entries)
        result, turn = rule(pen, asked.values)
        check_binding(writer, session, asked.place)
        if len(pen.entries) == before:
            return self.unchanged(writer, asked, pen, session, result, turn)
        return self.stored(writer, asked, pen, result, turn)

    async def transaction(self, asked: Asked, work: Callable[[Writer], Result]) -> Result:
        """Run work as one transaction that is taken back when the call's time is over."""

        def timed(writer: Writer) -> Result:
            result = self._lost(writer, asked) or work(writer)
            if time.monotonic() > asked.deadline:
                raise _timed_out(asked.place)
            return result

        return await self._journal.transaction(asked.request, timed)

    async def read(self, asked: Asked, work: Callable[[Reader], T]) -> T:
        """Run work over one consistent state."""
        return await self._journal.read(asked.request, work)

    def _lost(self, reader: Reader, asked: Asked) -> Result | None:
        """Return the answer that a client lost with its connection, if the call was carried out."""
        caller = asked.place.caller
        if not asked.place.again or caller.client_id is None or caller.call_id is None:
            return None
        outcome = reader.outcome(caller.client_id, caller.call_id)
        return None if outcome is None else outcome["result"]

    def repeated(self, reader: Reader, asked: Asked, scope: str) -> Result | None:
        """Return the first result of a call whose key was used before."""
        first = self._journal.replay(reader, asked.request, scope)
        return None if first is None else first["result"]

    def pen(self, writer: Writer, session_id: str, session: Session | None) -> Pen:
        """Return a pen for a session at this moment."""
        return self._journal.pen(writer, session_id, session)

    def stored(self, writer: Writer, asked: Asked, pen: Pen, result: Result, turn: str | None) -> Result:
        """Commit a pen and complete the result."""
        pen.commit(writer)
        return self._remembered(writer, asked, pen.session, pen, result, turn, changed=True)

    def unchanged(
        self, writer: Writer, asked: Asked, pen: Pen, session: Session, result: Result, turn: str | None
    ) -> Result:
        """Complete the result of a call that has nothing to store."""
        if "lastUpdated" in result:
            result = {**result, "lastUpdated": turns.last_updated(session)}
        return self._remembered(writer, asked, session, pen, result, turn, changed=False)

    def _remembered(
        self,
        writer: Writer,
        asked: Asked,
        session: Session,
        pen: Pen,
        result: Result,
        turn: str | None,
        *,
        changed: bool,
    ) -> Result:
        journal: Result = {"sessionId": session.id}
        if turn is not None:
            journal["turnRequestId"] = turn
        journal |= {
            "seq": session.head_seq,
            "hash": session.head_hash,
            "changed": changed,
            "redactions": asked.request.masked if changed else 0,
        }
        warnings = [*asked.warnings, *pen.warnings]
        result = {**result, "journal": journal} | ({"warnings": warnings} if warnings else {})
        kept = {"session_id": session.id, "result": result}
        self._journal.remember(writer, asked.request, session.id, kept, kept)
        return result

    # The methods

    async def bootstrap(self, method: str, params: object, place: Place) -> Result:
        """Say that the log can be used; an open store is all that it takes."""
        return {"initialized": True}

    async def current(self, method: str, params: object, place: Place) -> Result | None:
        """Show the current session, or None."""
        asked = self.asked(method, requests.CURRENT_SESSION, params, place)

        def work(reader: Reader) -> Result | None:
            try:
                session = current_session(reader, asked.values, place)
            except SessionNotFound:
                if asked.values.get("session_id"):
                    raise
                return None
            turn = reader.turn(session.id, session.current_turn) if session.current_turn else None
            return current_object(session, turn)

        return await self.read(asked, work)

    async def open(self, method: str, params: object, place: Place) -> Result:
        """Open a new session and make it the current one of its agent in this workspace."""
        asked = self.asked(method, requests.OPEN_SESSION, params, place, opening)
        self._journal.refuse_secrets({"sessionId": asked.values["session_id"]}, "sessionId")
        drop_missing_transcript(asked)

        def work(writer: Writer) -> Result:
            name = asked.values["session_id"]
            first = self.repeated(writer, asked, name)
            if first is not None:
                return first
            existing = writer.session(name)
            if existing is not None:
                raise already_exists(existing)
            return self.opened(writer, asked)

        return await self.transaction(asked, work)

    def opened(self, writer: Writer, asked: Asked) -> Result:
        """Open a session that does not exist yet, and make it current."""
        values, place = asked.values, asked.place
        pen = self.pen(writer, values["session_id"], None)
        result = open_session(pen, values, place)
        writer.put_pointer(place.workspace, pen.session.agent, pen.session.id)
        place.binding.bind(pen.session)
        return self.stored(writer, asked, pen, result, None)

    async def set_session_title(self, method: str, params: object, place: Place) -> Result:
        """Give the current session another title."""
        asked = self.asked(method, requests.SET_SESSION_TITLE, params, place)
        return await self.write(asked, lambda pen, values: (update_session(pen, values), None))

    async def close(self, method: str, params: object, place: Place) -> Result:
        """Close the current session: the native close, in the log's words."""
        asked = self.asked(method, requests.CLOSE_SESSION, params, place)

        def work(reader: Reader) -> Session:
            session = current_session(reader, asked.values, place)
            if session.hidden:
                raise closed(session)
            check_binding(reader, session, place)
            return session

        session = await self.read(asked, work)
        given = {name: value for name, value in asked.values.items() if name not in ("agent", "session_id")}
        answered = await self._continuity.close_session({"session_id": session.id, **given}, place.caller)
        data = answered["data"]
        journal = {
            "sessionId": session.id,
            "seq": data["entry_count"],
            "hash": data["head_hash"],
            "changed": answered["status"] == "closed",
            "redactions": asked.request.masked,
        }
        warnings = [*asked.warnings, *answered["warnings"]]
        return {
            "sessionId": session.id,
            "status": "completed",
            "closedAt": data["closed_at"],
            "closed": True,
            "state": data["state"],
            "recoveryToken": data.get("recovery_token"),
            "recoveryTokenExpiresAt": data.get("recovery_token_expires_at"),
            "journal": journal,
        } | ({"warnings": warnings} if warnings else {})

    async def query_history(self, method: str, params: object, place: Place) -> Result:
        """List sessions with what their turns add up to."""
        asked = self.asked(method, requests.QUERY_HISTORY, params, place)
        values = asked.values
        expression, now = expression_of(values), self._journal.clock.now()
        where = filter_of(values, place.workspace, now)
        offset, limit = values.get("offset", 0), values.get("limit", DEFAULT_LIMIT)

        def work(reader: Reader) -> Result:
            found, total = find(reader, where, expression, offset=offset, limit=limit)
            sessions = [history_object(reader, session) for session in found]
            return {"sessions": sessions, "totalCount": total, "offset": offset, "limit": limit}

        result = await self.read(asked, work)
        return result | ({"warnings": asked.warnings} if asked.warnings else {})

    async def import_recovery(self, method: str, params: object, place: Place) -> Result:
        """Import a session with turns that was recorded elsewhere, all of it or nothing."""
        asked = self.asked(method, import_params(params), params, place, importing)
        return await self.imported(asked)

    async def imported(self, asked: Asked) -> Result:
        """Import what was asked, whatever face asked for it."""
        drop_missing_transcript(asked)

        def work(writer: Writer) -> Result:
            name = asked.values["session_id"]
            first = self.repeated(writer, asked, name)
            if first is not None:
                return first
            existing = writer.session(name)
            pen = self.pen(writer, name, existing)
            result = import_session(pen, existing, asked.values, asked.place)
            if existing is not None:
                check_binding(writer, existing, asked.place)
                if not pen.entries:
                    return self.unchanged(writer, asked, pen, existing, result, None)
            return self.stored(writer, asked, pen, result, None)

        return await self.transaction(asked, work)

    async def persist_turn(self, method: str, params: object, place: Place) -> Result:
        """Import, and say only that it is safe."""
        imported = await self.import_recovery(method, params, place)
        return PERSISTED | {name: imported[name] for name in ("journal", "warnings") if name in imported}


def _timed_out(place: Place) -> CommandTimeout:
    return CommandTimeout("Command timed out", details={"reason": f"not done within {place.timeout_s:g} s"})


def opening(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of an opening with their agent, whose name the id begins with."""
    name = check_session_id(values["session_id"], values.get("agent") or None)
    return {**values, "agent": name.split("-", 1)[0]}


def import_params(given: object) -> requests.Params:
    """Return which of its two forms an import has: one object, or its fields."""
    whole = isinstance(given, Mapping) and any(str(name).lower() == "sessionlog" for name in given)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return requests.IMPORT_WHOLE if whole else requests.IMPORT_FLAT


def importing(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an import, the ids in it checked."""
    whole: dict[str, Any] = values.get("session_log") or {}
    flat = {**whole, **{name: value for name, value in values.items() if name != "session_log"}}
    check_session_id(flat["session_id"], flat["agent"])
    for turn in flat.get("turns") or ():
        check_request_id(turn["request_id"])
    return flat


def drop_missing_transcript(asked: Asked) -> None:
    """Keep the path of a transcript only where the file exists."""
    path = asked.values.get("agent_session_transcript_file")
    if path and not Path(path).expanduser().is_file():
        del asked.values["agent_session_transcript_file"]
        asked.warnings.append({"code": "ignored_param", "param": "agentSessionTranscriptFile"})


Method = Callable[[Sessionlog, str, object, Place], Awaitable[Result | None]]


def _turn_method(params: requests.Params, rule: turns.TurnRule, prepare: Prepare = dict) -> Method:
    async def answer(log: Sessionlog, method: str, given: object, place: Place) -> Result:
        asked = log.asked(method, params, given, place, lambda values: turns.addressed(prepare(values)))
        return await log.write(asked, rule)

    return answer


async def _begin_turn(log: Sessionlog, method: str, given: object, place: Place) -> Result:
    asked = log.asked(method, requests.BEGIN_TURN, given, place, turns.addressed)
    log.refuse_secret("requestId", asked.values["request_id"])
    return await log.write(asked, turns.begin_turn)


METHODS: dict[str, Method] = {
    f"{PREFIX}bootstrap": Sessionlog.bootstrap,
    f"{PREFIX}openSession": Sessionlog.open,
    f"{PREFIX}currentSession": Sessionlog.current,
    f"{PREFIX}beginTurn": _begin_turn,
    f"{PREFIX}updateTurn": _turn_method(requests.UPDATE_TURN, turns.update_turn),
    f"{PREFIX}appendDialog": _turn_method(requests.APPEND_DIALOG, turns.append_dialog),
    f"{PREFIX}appendActions": _turn_method(requests.APPEND_ACTIONS, turns.append_actions),
    f"{PREFIX}completeTurn": _turn_method(requests.COMPLETE_TURN, turns.complete_turn, turns.check_response),
    f"{PREFIX}failTurn": _turn_method(requests.FAIL_TURN, turns.fail_turn, turns.check_failure),
    f"{PREFIX}closeTurn": _turn_method(requests.CLOSE_TURN, turns.close_turn),
    f"{PREFIX}clearSection": _turn_method(requests.CLEAR_SECTION, turns.clear_section),
    f"{PREFIX}setTurnTitle": _turn_method(requests.SET_TURN_TITLE, turns.set_title),
    f"{PREFIX}setSessionTitle": Sessionlog.set_session_title,
    f"{PREFIX}closeSession": Sessionlog.close,
    f"{PREFIX}queryHistory": Sessionlog.query_history,
    f"{PREFIX}getHistory": Sessionlog.query_history,
    f"{PREFIX}importRecovery": Sessionlog.import_recovery,
    "repl.sessionlog.persistTurn": Sessionlog.persist_turn,
}
