"""The door of the session log: its methods by name, over the journal's own rules.

`requests` declares the parameters, `calls` opens the transactions, `turns`, `sessions` and `imports` write. The MCP
tools are in `tools`.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio

from shiftlog.dialects.mcpserver import requests, transcripts, turns
from shiftlog.dialects.mcpserver.calls import (
    Calls,
    LogCall,
    Prepare,
    Result,
    Rule,
    check_call,
    timed_out,
    with_warnings,
)
from shiftlog.dialects.mcpserver.current import (
    CallContext,
    check_binding,
    current_session,
    is_live,
    session_of_call,
)
from shiftlog.dialects.mcpserver.errors import MethodNotFound
from shiftlog.dialects.mcpserver.history import check_history, expression_of, filter_of, find
from shiftlog.dialects.mcpserver.imports import Tally
from shiftlog.dialects.mcpserver.naming import Params
from shiftlog.dialects.mcpserver.objects import current_object, history_object
from shiftlog.dialects.mcpserver.sessions import already_exists, import_session, open_session, update_session
from shiftlog.dialects.mcpserver.threads import Threads, by_thread
from shiftlog.guard.secrets.off_loop import run_off_loop
from shiftlog.guard.secrets.redactor import Redactor
from shiftlog.journal.continuity.service import Continuity
from shiftlog.journal.journal import closed_error
from shiftlog.journal.pen import Pen
from shiftlog.journal.requests import NAME_CHARS
from shiftlog.journal.runs.service import Runs
from shiftlog.journal.sessions import transcript
from shiftlog.model.errors import SessionNotFound
from shiftlog.model.ids import check_request_id, check_session_id
from shiftlog.model.nouns import Session
from shiftlog.store.protocol import Reader, Writer

if TYPE_CHECKING:
    from shiftlog.ingest.importing.service import Imports

Show = Callable[[Result], Result]
Join = Callable[[Writer, Session], Result]

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

    def __init__(self, calls: Calls, continuity: Continuity, runs: Runs, imports: "Callable[[], Imports]") -> None:
        self.calls = calls
        self.runs = runs
        self._continuity = continuity
        self._imports = imports

    async def call(self, method: str, params: object, context: CallContext) -> Result | None:
        """Answer a method by its name; raise ShiftlogError."""
        return await self.run(_method(self.calls.redactor, method), method, params, context)

    async def run(self, method: "Method", name: str, params: object, context: CallContext) -> Result | None:
        """Answer a method or tool within its time; raise ShiftlogError."""
        operation = method.operation or name
        with anyio.move_on_after(context.timeout_s if method.is_timed else None):
            checked = (self.calls.redactor, operation, method.takes, params, context, method.prepare)
            call = await run_off_loop(params, check_call, *checked)
            return await method.answer(self, call)
        raise timed_out(context)

    async def ingest_transcripts(self, call: LogCall) -> Result:
        """Import transcripts and return the report."""
        report = await transcripts.take(self._imports(), call.values, call.context)
        return with_warnings(report, [*report.get("warnings", ()), *call.warnings])

    async def bootstrap(self, call: LogCall) -> Result:
        """Confirm that the log can be used: the store is open."""
        return {"initialized": True}

    async def current(self, call: LogCall) -> Result | None:
        """Show the current session, or None."""

        def work(reader: Reader) -> Result | None:
            try:
                session = current_session(reader, call.values, call.context)
            except SessionNotFound:
                if call.values.get("session_id"):
                    raise
                return None
            if session.hidden:
                raise SessionNotFound(f"Session not found: {session.id}", details={"session_id": session.id})
            turn = reader.turn(session.id, session.current_turn) if session.current_turn else None
            return current_object(reader, session, turn)

        shown = await self.calls.read(call, work)
        return None if shown is None else with_warnings(shown, call.warnings)

    async def open(self, call: LogCall, show: Show = dict, join: Join | None = None) -> Result:
        """Open a new session and make it the current one of its agent in this workspace; `join` takes a live one."""

        def work(writer: Writer) -> Result:
            name = call.values["session_id"]
            first, existing = self.calls.repeated(writer, call, name), writer.session(name)
            if first is not None:
                if existing is not None and is_live(existing):
                    call.context.binding.open(existing)
                return first
            if existing is None:
                return self.open_new(writer, call, show)
            if join is None or not is_live(existing):
                raise already_exists(writer, existing)
            return join(writer, existing)

        self.check_new(call)
        return await self.calls.transaction(call, work)

    def check_new(self, call: LogCall) -> None:
        """Refuse an id that holds a secret; drop the path of a transcript that does not exist."""
        self.calls.journal.refuse_secrets({"sessionId": call.values["session_id"]}, "sessionId")
        given = call.values.pop("agent_session_transcript_file", None)
        path = transcript(given, call.context.caller) if given else None
        if path is not None:
            call.values["agent_session_transcript_file"] = path
        elif given:
            call.warnings.append({"code": "ignored_param", "param": "agentSessionTranscriptFile"})

    def open_new(self, writer: Writer, call: LogCall, show: Show, **made: Any) -> Result:
        """Open a session that does not exist yet, make it current, and return it as `show` does.

        `made` are values that the call leaves to be made here.
        """
        values, context = {**call.values, **made}, call.context
        pen = self.calls.journal.pen(writer, values["session_id"], None)
        result = show(open_session(pen, values, context))
        writer.put_pointer(context.workspace, pen.session.agent, pen.session.id)
        context.binding.open(pen.session)
        return self.calls.stored(writer, call, pen, result, None)

    async def close(self, call: LogCall) -> Result:
        """Close the current session: the native close, in the log's words."""
        context = call.context
        given = {name: value for name, value in call.values.items() if name not in ("agent", "session_id")}
        client, number = context.caller.client_id, context.caller.call_id
        if call.request.key is None and client and number and not context.strict:
            # A connection that lost the answer gets it by the number of its call.
            given["idempotency_key"] = f"{client}:{number}"

        def work(reader: Reader) -> Session:
            def has_closed(session: Session) -> bool:
                return self._continuity.has_closed(reader, {"session_id": session.id, **given}, context.caller)

            _, session = self.calls.outcome(reader, call)
            session = session or session_of_call(reader, call.values, context, has_closed)
            if session.hidden:
                raise closed_error(session)
            check_binding(self.calls.journal, reader, session, context, call.values)
            return session

        session = await self.calls.read(call, work)
        answered = await self._continuity.close_session({"session_id": session.id, **given}, context.caller)
        result = _closed(session.id, answered, call.request.masked)
        return with_warnings(result, [*call.warnings, *answered["warnings"]])

    def close_within(self, writer: Writer, session_id: str, context: CallContext) -> Result:
        """Close a session within a larger transaction."""
        answered = self._continuity.close_within(writer, {"session_id": session_id}, context.caller)
        return _closed(session_id, answered, 0)

    async def query_history(self, call: LogCall) -> Result:
        """List sessions with what their turns add up to."""
        now = self.calls.journal.clock.now()
        result = await self.history(
            call, lambda reader, session: history_object(reader, session, now), "sessions", DEFAULT_LIMIT
        )
        return with_warnings(result, call.warnings)

    async def history(
        self, call: LogCall, show: Callable[[Reader, Session], Result], name: str, default_limit: int
    ) -> Result:
        """Return one page of the wanted sessions, each in the form that `show` makes."""
        values = call.values
        expression = expression_of(values, self.calls.journal.masked_text)
        where = filter_of(values, call.context.workspace, self.calls.journal.clock.now())
        offset, limit = values.get("offset", 0), values.get("limit", default_limit)

        def work(reader: Reader) -> Result:
            found, total = find(reader, where, expression, offset=offset, limit=limit)
            shown = [show(reader, session) for session in found]
            return {name: shown, "totalCount": total, "offset": offset, "limit": limit}

        return await self.calls.read(call, work)

    async def import_recovery(self, call: LogCall) -> Result:
        """Import a session with turns that was recorded elsewhere, all of it or nothing."""

        def work(writer: Writer) -> Result:
            name = call.values["session_id"]
            first = self.calls.repeated(writer, call, name)
            if first is not None:
                return first
            existing = writer.session(name)
            pen = self.calls.journal.pen(writer, name, existing)
            values, others = by_thread(writer, call.values, existing)

            def children(parent: Pen, tally: Tally) -> bool:
                threads = Threads(writer, self.calls.journal.pen, parent, tally)
                return sum(threads.store(thread, turns) for thread, turns in others.items()) > 0

            result = import_session(pen, existing, values, call.context, children)
            if existing is not None:
                check_binding(self.calls.journal, writer, existing, call.context, call.values)
                if not pen.written:
                    return self.calls.unchanged(writer, call, pen, existing, result, None)
            return self.calls.stored(writer, call, pen, result, None)

        self.check_new(call)
        return await self.calls.transaction(call, work)

    async def persist_turn(self, call: LogCall) -> Result:
        """Import, and return only that it is stored."""
        imported = await self.import_recovery(call)
        return PERSISTED | beside(imported)


def beside(result: Result) -> Result:
    """Return the journal position and the warnings of a result."""
    return {name: result[name] for name in ("journal", "warnings") if name in result}


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


def check_begin(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a beginning, the form of the new id checked."""
    check_request_id(values["request_id"])
    return dict(values)


async def begin_turn(log: Sessionlog, call: LogCall, rule: turns.TurnRule = turns.begin_turn) -> Result:
    """Begin a turn under an id that holds no secret."""
    log.calls.journal.refuse_secrets({"requestId": call.values["request_id"]}, "requestId")
    return await log.calls.write(call, rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One method or tool: its parameters, and the function that answers once they are checked.

    An `operation` is the name under which its keys count, if not its own. An import is not timed: it takes as long as
    it takes, because what it has read is stored.
    """

    takes: Params
    answer: Callable[[Sessionlog, LogCall], Awaitable[Result | None]]
    prepare: Prepare = dict
    operation: str | None = None
    is_timed: bool = True


def check_method(redactor: Redactor, method: str, given: object, context: CallContext) -> None:
    """Check everything of a call that can be checked without a store; raise ShiftlogError."""
    found = _method(redactor, method)
    check_call(redactor, method, found.takes, given, context, found.prepare)


def _method(redactor: Redactor, name: str) -> Method:
    found = METHODS.get(name)
    if found is None:
        shown = redactor.text(name).text[:NAME_CHARS]
        details = {"method_name": shown, "supported_methods": list(METHODS)}
        raise MethodNotFound(f"Method not found: {shown}", details=details)
    return found


def writing(takes: Params, rule: Rule, prepare: Prepare = dict) -> Method:
    """Return the method that runs a rule on the current session."""
    return Method(takes=takes, answer=lambda log, call: log.calls.write(call, rule), prepare=prepare)


def turn_method(takes: Params, rule: Rule, prepare: Prepare = dict) -> Method:
    """Return the method that runs a rule on the turn that a call names, or the current one."""
    return writing(takes, rule, lambda values: turns.addressed(prepare(values)))


_QUERY_HISTORY = Method(takes=requests.QUERY_HISTORY, answer=Sessionlog.query_history, prepare=check_history)
METHODS: dict[str, Method] = {
    f"{PREFIX}bootstrap": Method(takes=requests.BOOTSTRAP, answer=Sessionlog.bootstrap),
    f"{PREFIX}openSession": Method(takes=requests.OPEN_SESSION, answer=Sessionlog.open, prepare=opening),
    f"{PREFIX}currentSession": Method(takes=requests.CURRENT_SESSION, answer=Sessionlog.current),
    f"{PREFIX}beginTurn": Method(takes=requests.BEGIN_TURN, answer=begin_turn, prepare=check_begin),
    f"{PREFIX}updateTurn": turn_method(requests.UPDATE_TURN, turns.update_turn),
    f"{PREFIX}appendDialog": turn_method(requests.APPEND_DIALOG, turns.append_dialog),
    f"{PREFIX}appendActions": turn_method(requests.APPEND_ACTIONS, turns.append_actions),
    f"{PREFIX}completeTurn": turn_method(requests.COMPLETE_TURN, turns.complete_turn, turns.check_response),
    f"{PREFIX}failTurn": turn_method(requests.FAIL_TURN, turns.fail_turn, turns.check_failure),
    f"{PREFIX}closeTurn": turn_method(requests.CLOSE_TURN, turns.close_turn),
    f"{PREFIX}clearSection": turn_method(requests.CLEAR_SECTION, turns.clear_section),
    f"{PREFIX}setTurnTitle": turn_method(requests.SET_TURN_TITLE, turns.set_title),
    f"{PREFIX}setSessionTitle": writing(
        requests.SET_SESSION_TITLE, lambda pen, given: (update_session(pen, given), None)
    ),
    f"{PREFIX}closeSession": Method(takes=requests.CLOSE_SESSION, answer=Sessionlog.close),
    f"{PREFIX}queryHistory": _QUERY_HISTORY,
    f"{PREFIX}getHistory": _QUERY_HISTORY,
    f"{PREFIX}importRecovery": Method(takes=requests.IMPORT, answer=Sessionlog.import_recovery, prepare=importing),
    "repl.sessionlog.persistTurn": Method(takes=requests.IMPORT, answer=Sessionlog.persist_turn, prepare=importing),
    transcripts.METHOD: Method(takes=transcripts.INGEST, answer=Sessionlog.ingest_transcripts, is_timed=False),
}
