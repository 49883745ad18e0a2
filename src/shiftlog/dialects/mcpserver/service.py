"""The session log: its methods by name, over the rules that every face shares.

What a method asks for stands in `sessionlog_requests`, the transaction around it in `sessionlog_calls`, what it writes
in the modules beside them.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from shiftlog.dialects.mcpserver import requests, turns
from shiftlog.dialects.mcpserver import transcripts as ingest
from shiftlog.dialects.mcpserver.calls import Asked, Calls, Prepare, Result, check_call, with_warnings
from shiftlog.dialects.mcpserver.current import (
    Place,
    check_binding,
    closed,
    current_session,
    is_live,
    session_asked_about,
)
from shiftlog.dialects.mcpserver.errors import MethodNotFound
from shiftlog.dialects.mcpserver.history import check_history, expression_of, filter_of, find
from shiftlog.dialects.mcpserver.imports import Tally
from shiftlog.dialects.mcpserver.objects import current_object, history_object
from shiftlog.dialects.mcpserver.sessions import already_exists, import_session, open_session, update_session
from shiftlog.dialects.mcpserver.threads import Threads, by_thread
from shiftlog.guard.secrets.redactor import Redactor
from shiftlog.journal.continuity.service import Continuity
from shiftlog.journal.pen import Pen
from shiftlog.journal.requests import NAME_CHARS
from shiftlog.journal.runs.service import Runs
from shiftlog.journal.sessions import transcript
from shiftlog.model.errors import SessionNotFound
from shiftlog.model.ids import check_request_id, check_session_id
from shiftlog.model.nouns import Session
from shiftlog.store.protocol import Reader, Writer

TakeTranscripts = Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]

PREFIX = "workflow.sessionlog."
DEFAULT_LIMIT = 10
PERSISTED = {
    "persisted": True,
    "degraded": False,
    "persistenceStrategy": "primary",
    "failsafePath": None,
    "message": "persisted",
}


class Sessionlog:
    """Answer the session log's calls."""

    def __init__(self, calls: Calls, continuity: Continuity, runs: Runs, take_transcripts: TakeTranscripts) -> None:
        self.calls = calls
        self.runs = runs
        self._continuity = continuity
        self._take_transcripts = take_transcripts

    async def call(self, method: str, params: object, place: Place) -> Result | None:
        """Answer a method by its name within its time; raise ShiftlogError."""
        if method == ingest.METHOD:
            return await self.answer(method, params, place)  # as long as it takes: what it has read is stored
        return await self.calls.within(place, lambda: self.answer(method, params, place))

    async def answer(self, method: str, params: object, place: Place) -> Result | None:
        """Answer a method by its name, however long it takes."""
        found, asked = checked(self.calls.redactor, method, params, place)
        return await found.answer(self, asked)

    async def ingest_transcripts(self, asked: Asked) -> Result:
        """Import transcripts and say what it came to."""
        report = await self.take(asked.values, asked.place)
        return with_warnings(report, [*report.get("warnings", ()), *asked.warnings])

    async def take(self, values: Mapping[str, Any], place: Place) -> Result:
        """Hand a checked request to the import."""
        return ingest.completed(await self._take_transcripts(ingest.values_from(dict(values), place)))

    async def bootstrap(self, asked: Asked) -> Result:
        """Say that the log can be used; an open store is all that it takes."""
        return {"initialized": True}

    async def current(self, asked: Asked) -> Result | None:
        """Show the current session, or None."""

        def work(reader: Reader) -> Result | None:
            try:
                session = current_session(reader, asked.values, asked.place)
            except SessionNotFound:
                if asked.values.get("session_id"):
                    raise
                return None
            if session.hidden:
                raise SessionNotFound(f"Session not found: {session.id}", details={"session_id": session.id})
            turn = reader.turn(session.id, session.current_turn) if session.current_turn else None
            return current_object(reader, session, turn)

        shown = await self.calls.read(asked, work)
        return None if shown is None else with_warnings(shown, asked.warnings)

    async def open(self, asked: Asked) -> Result:
        """Open a new session and make it the current one of its agent in this workspace."""

        def work(writer: Writer) -> Result:
            name = asked.values["session_id"]
            first, existing = self.calls.repeated(writer, asked, name), writer.session(name)
            if first is not None:
                if existing is not None and is_live(existing):
                    asked.place.binding.bind(existing)
                return first
            if existing is not None:
                raise already_exists(writer, existing)
            return self.open_new(writer, asked)

        self.check_new(asked)
        return await self.calls.transaction(asked, work)

    def check_new(self, asked: Asked) -> None:
        """Refuse an id that holds a secret, and forget a transcript that does not exist."""
        self.calls.journal.refuse_secrets({"sessionId": asked.values["session_id"]}, "sessionId")
        _forget_missing_transcript(asked)

    def open_new(self, writer: Writer, asked: Asked, show: Callable[[Result], Result] = dict, **made: Any) -> Result:
        """Open a session that does not exist yet, make it current, and tell of it as `show` does.

        `made` are values that the call leaves to be made here.
        """
        values, place = {**asked.values, **made}, asked.place
        pen = self.calls.journal.pen(writer, values["session_id"], None)
        result = show(open_session(pen, values, place))
        writer.put_pointer(place.workspace, pen.session.agent, pen.session.id)
        place.binding.bind(pen.session)
        return self.calls.stored(writer, asked, pen, result, None)

    async def set_session_title(self, asked: Asked) -> Result:
        """Give the current session another title."""
        return await self.calls.write(asked, lambda pen, values: (update_session(pen, values), None))

    async def close(self, asked: Asked) -> Result:
        """Close the current session: the native close, in the log's words."""
        place = asked.place
        given = {name: value for name, value in asked.values.items() if name not in ("agent", "session_id")}
        client, number = place.caller.client_id, place.caller.call_id
        if asked.request.key is None and client and number and not place.strict:
            # A connection that asks again because the answer was lost gets it by the number of its call.
            given["idempotency_key"] = f"{client}:{number}"

        def work(reader: Reader) -> Session:
            def has_closed(session: Session) -> bool:
                return self._continuity.has_closed(reader, {"session_id": session.id, **given}, place.caller)

            session = self.calls.lost_session(reader, asked)
            if session is None:
                session = session_asked_about(reader, asked.values, place, has_closed)
            if session.hidden:
                raise closed(session)
            check_binding(reader, session, place)
            return session

        session = await self.calls.read(asked, work)
        answered = await self._continuity.close_session({"session_id": session.id, **given}, place.caller)
        result = _closed(session.id, answered, asked.request.masked)
        return with_warnings(result, [*asked.warnings, *answered["warnings"]])

    def close_within(self, writer: Writer, session_id: str, place: Place) -> Result:
        """Close a session as a part of a transaction that does more."""
        answered = self._continuity.close_within(writer, {"session_id": session_id}, place.caller)
        return _closed(session_id, answered, 0)

    async def query_history(self, asked: Asked) -> Result:
        """List sessions with what their turns add up to."""
        now = self.calls.journal.clock.now()
        result = await self.history(
            asked, lambda reader, session: history_object(reader, session, now), "sessions", DEFAULT_LIMIT
        )
        return with_warnings(result, asked.warnings)

    async def history(
        self, asked: Asked, show: Callable[[Reader, Session], Result], name: str, default_limit: int
    ) -> Result:
        """Return one page of the sessions that were asked for, each as `show` shows it."""
        values = asked.values
        expression = expression_of(values, self.calls.journal.masked_text)
        where = filter_of(values, asked.place.workspace, self.calls.journal.clock.now())
        offset, limit = values.get("offset", 0), values.get("limit", default_limit)

        def work(reader: Reader) -> Result:
            found, total = find(reader, where, expression, offset=offset, limit=limit)
            shown = [show(reader, session) for session in found]
            return {name: shown, "totalCount": total, "offset": offset, "limit": limit}

        return await self.calls.read(asked, work)

    async def import_recovery(self, asked: Asked) -> Result:
        """Import a session with turns that was recorded elsewhere, all of it or nothing."""

        def work(writer: Writer) -> Result:
            name = asked.values["session_id"]
            first = self.calls.repeated(writer, asked, name)
            if first is not None:
                return first
            existing = writer.session(name)
            pen = self.calls.journal.pen(writer, name, existing)
            values, others = by_thread(writer, asked.values, existing)

            def children(parent: Pen, tally: Tally) -> bool:
                threads = Threads(writer, self.calls.journal.pen, parent, tally)
                return sum(threads.store(thread, turns) for thread, turns in others.items()) > 0

            result = import_session(pen, existing, values, asked.place, children)
            if existing is not None:
                check_binding(writer, existing, asked.place)
                if not pen.written:
                    return self.calls.unchanged(writer, asked, pen, existing, result, None)
            return self.calls.stored(writer, asked, pen, result, None)

        self.check_new(asked)
        return await self.calls.transaction(asked, work)

    async def persist_turn(self, asked: Asked) -> Result:
        """Import, and say only that it is safe."""
        imported = await self.import_recovery(asked)
        return PERSISTED | {name: imported[name] for name in ("journal", "warnings") if name in imported}


def _closed(session_id: str, answered: Mapping[str, Any], masked: int) -> Result:
    data, changed = answered["data"], answered["status"] == "closed"
    return {
        "sessionId": session_id,
        "status": "completed",
        "closedAt": data["closed_at"],
        "closed": True,
        "state": data["state"],
        "recoveryToken": data.get("recovery_token"),
        "recoveryTokenExpiresAt": data.get("recovery_token_expires_at"),
        "journal": {
            "sessionId": session_id,
            "seq": data["entry_count"],
            "hash": data["head_hash"],
            "changed": changed,
            "redactions": masked if changed else 0,
        },
    }


def opening(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of an opening with their agent, whose name the id begins with."""
    name = check_session_id(values["session_id"], values.get("agent") or None)
    return {**values, "agent": name.split("-", 1)[0]}


def importing(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an import, the ids in it checked."""
    whole: dict[str, Any] = values.get("session_log") or {}
    flat = {**whole, **{name: value for name, value in values.items() if name != "session_log"}}
    check_session_id(flat["session_id"], flat["agent"])
    for turn in flat.get("turns") or ():
        check_request_id(turn["request_id"])
    return flat


def _forget_missing_transcript(asked: Asked) -> None:
    given = asked.values.get("agent_session_transcript_file")
    if not given:
        return
    path = transcript(given, asked.place.caller)
    if path is not None:
        asked.values["agent_session_transcript_file"] = path
    else:
        del asked.values["agent_session_transcript_file"]
        asked.warnings.append({"code": "ignored_param", "param": "agentSessionTranscriptFile"})


def check_begin(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a beginning, the form of the new id checked."""
    check_request_id(values["request_id"])
    return dict(values)


async def _begin_turn(log: Sessionlog, asked: Asked) -> Result:
    log.calls.journal.refuse_secrets({"requestId": asked.values["request_id"]}, "requestId")
    return await log.calls.write(asked, turns.begin_turn)


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """What a method takes, and who answers it once that is checked."""

    takes: requests.Params
    answer: Callable[[Sessionlog, Asked], Awaitable[Result | None]]
    prepare: Prepare = dict


def checked(redactor: Redactor, method: str, given: object, place: Place) -> tuple[Method, Asked]:
    """Return who answers a method, and the call with all checked that no store is needed for; raise ShiftlogError."""
    found = METHODS.get(method)
    if found is None:
        name = redactor.text(method).text[:NAME_CHARS]
        details = {"method_name": name, "supported_methods": list(METHODS)}
        raise MethodNotFound(f"Method not found: {name}", details=details)
    return found, check_call(redactor, method, found.takes, given, place, found.prepare)


def _turn_method(takes: requests.Params, rule: turns.TurnRule, prepare: Prepare = dict) -> Method:
    async def answer(log: Sessionlog, asked: Asked) -> Result:
        return await log.calls.write(asked, rule)

    return Method(takes=takes, answer=answer, prepare=lambda values: turns.addressed(prepare(values)))


_QUERY_HISTORY = Method(takes=requests.QUERY_HISTORY, answer=Sessionlog.query_history, prepare=check_history)
METHODS: dict[str, Method] = {
    f"{PREFIX}bootstrap": Method(takes=requests.BOOTSTRAP, answer=Sessionlog.bootstrap),
    f"{PREFIX}openSession": Method(takes=requests.OPEN_SESSION, answer=Sessionlog.open, prepare=opening),
    f"{PREFIX}currentSession": Method(takes=requests.CURRENT_SESSION, answer=Sessionlog.current),
    f"{PREFIX}beginTurn": Method(takes=requests.BEGIN_TURN, answer=_begin_turn, prepare=check_begin),
    f"{PREFIX}updateTurn": _turn_method(requests.UPDATE_TURN, turns.update_turn),
    f"{PREFIX}appendDialog": _turn_method(requests.APPEND_DIALOG, turns.append_dialog),
    f"{PREFIX}appendActions": _turn_method(requests.APPEND_ACTIONS, turns.append_actions),
    f"{PREFIX}completeTurn": _turn_method(requests.COMPLETE_TURN, turns.complete_turn, turns.check_response),
    f"{PREFIX}failTurn": _turn_method(requests.FAIL_TURN, turns.fail_turn, turns.check_failure),
    f"{PREFIX}closeTurn": _turn_method(requests.CLOSE_TURN, turns.close_turn),
    f"{PREFIX}clearSection": _turn_method(requests.CLEAR_SECTION, turns.clear_section),
    f"{PREFIX}setTurnTitle": _turn_method(requests.SET_TURN_TITLE, turns.set_title),
    f"{PREFIX}setSessionTitle": Method(takes=requests.SET_SESSION_TITLE, answer=Sessionlog.set_session_title),
    f"{PREFIX}closeSession": Method(takes=requests.CLOSE_SESSION, answer=Sessionlog.close),
    f"{PREFIX}queryHistory": _QUERY_HISTORY,
    f"{PREFIX}getHistory": _QUERY_HISTORY,
    f"{PREFIX}importRecovery": Method(takes=requests.IMPORT, answer=Sessionlog.import_recovery, prepare=importing),
    "repl.sessionlog.persistTurn": Method(takes=requests.IMPORT, answer=Sessionlog.persist_turn, prepare=importing),
    ingest.METHOD: Method(takes=ingest.INGEST, answer=Sessionlog.ingest_transcripts),
}
