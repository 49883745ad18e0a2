"""The MCP tools of the session log that no method offers: join a session, replace and delete, whole sessions.

The tools name session and turn in every call. What models read of them stands with the MCP face.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from shiftlog.dialects.mcpserver import edits, requests, transcripts, turns
from shiftlog.dialects.mcpserver.calls import LogCall, Prepare, Result, Rule, wake
from shiftlog.dialects.mcpserver.current import CallContext, check_binding, current_session
from shiftlog.dialects.mcpserver.history import check_history
from shiftlog.dialects.mcpserver.naming import dialect_name, params, to_dialect
from shiftlog.dialects.mcpserver.objects import session_object
from shiftlog.dialects.mcpserver.service import (
    METHODS,
    PREFIX,
    Method,
    Sessionlog,
    begin_turn,
    beside,
    check_begin,
    importing,
    opening,
    turn_method,
    writing,
)
from shiftlog.dialects.mcpserver.sessions import delete_session, facts_lacking, update_session
from shiftlog.dialects.mcpserver.tool_requests import QUERY_LIMIT, tool_params
from shiftlog.journal import rules
from shiftlog.journal.merge import is_empty
from shiftlog.journal.pen import Pen
from shiftlog.model.entry import Kind
from shiftlog.model.errors import InvalidParameter
from shiftlog.model.ids import free_id, mint_request_id, mint_session_id
from shiftlog.model.nouns import Session
from shiftlog.model.times import shown
from shiftlog.store.protocol import Writer

Values = Mapping[str, Any]
Run = Callable[[Sessionlog, LogCall], Awaitable[Result]]

EVERYWHERE = ""


def _given(values: Values, *names: str) -> str | None:
    """Return the first of these texts that is not blank, else None."""
    return next((str(values[name]) for name in names if not is_empty(name, values.get(name))), None)


def _succeeding(method: Method) -> Method:
    """Return a method whose result says that it succeeded."""

    async def run(log: Sessionlog, call: LogCall) -> Result:
        return {"success": True, **(await method.answer(log, call) or {})}

    return replace(method, answer=run)


def _tool(name: str, run: Run, prepare: Prepare = dict) -> Method:
    return Method(takes=tool_params(name), answer=run, prepare=prepare)


def _turn_tool(name: str, rule: Rule, prepare: Prepare = dict) -> Method:
    return _succeeding(turn_method(tool_params(name), rule, prepare))


# Sessions


def _opening(values: Values) -> dict[str, Any]:
    return {**opening(values), "title": _given(values, "title") or values["session_id"]}


async def _open(log: Sessionlog, call: LogCall) -> Result:
    return await log.open(call, _opened, lambda writer, existing: _join(log, writer, call, existing))


def _join(log: Sessionlog, writer: Writer, call: LogCall, existing: Session) -> Result:
    """Make an existing session current, and fill its missing facts."""
    pen = log.calls.journal.pen(writer, existing.id, existing)
    lacking = facts_lacking(existing, call.values)
    if lacking:
        wake(pen)
        pen.write(Kind.SESSION_UPDATED, lacking)
        check_binding(log.calls.journal, writer, existing, call.context, call.values)
    writer.put_pointer(call.context.workspace, existing.agent, existing.id)
    known = {"agent": existing.agent, "sessionId": existing.id, "started": shown(existing.started)}
    result = _opened(known, created=False)
    if pen.written:
        return log.calls.stored(writer, call, pen, result, None)
    return log.calls.unchanged(writer, call, pen, existing, result, None)


def _opened(made: Result, *, created: bool = True) -> Result:
    agent, name, started = made["agent"], made["sessionId"], made["started"]
    return {"success": True, "agent": agent, "sessionId": name, "created": created, "started": started}


def _submitted(values: Values) -> dict[str, Any]:
    return importing({"session_log": values["json"], "idempotency_key": values.get("idempotency_key")})


async def _submit(log: Sessionlog, call: LogCall) -> Result:
    made = await log.import_recovery(call)
    return {"success": True, "id": made["sessionId"], **beside(made)}


async def _query(log: Sessionlog, call: LogCall) -> Result:
    tokens_of = log.runs.tokens_of
    return await log.history(
        call, lambda reader, session: session_object(reader, session, tokens_of), "items", QUERY_LIMIT
    )


async def _delete_session(log: Sessionlog, call: LogCall) -> Result:
    def work(writer: Writer) -> Result:
        session = current_session(writer, call.values, call.context)
        first = log.calls.repeated(writer, call, session.id)
        if first is not None:
            return first
        pen = log.calls.journal.pen(writer, session.id, session)
        delete_session(pen)
        check_binding(log.calls.journal, writer, session, call.context, call.values)
        return log.calls.stored(writer, call, pen, {"success": True, "tombstoned": True}, None)

    return await log.calls.transaction(call, work)


# Turns


def _begin(values: Values) -> dict[str, Any]:
    title = _given(values, "query_title") or values["request_id"]
    return {**values, "query_title": title, "query_text": _given(values, "query_text") or title}


async def _begin_turn(log: Sessionlog, call: LogCall) -> Result:
    return await begin_turn(log, call, lambda pen, values: turns.begin_turn(pen, _begin(values)))


def _outcome(values: Values) -> dict[str, Any]:
    """Return the fields of `turnJson` beside the address."""
    given: dict[str, Any] = values.get("turn_json") or {}
    fields = {name: value for name, value in given.items() if value is not None and name != "request_id"}
    fields["error_message"] = _given(fields, "error_message", "failure_note")
    fields.pop("failure_note", None)
    return {**fields, **{name: value for name, value in values.items() if name != "turn_json"}}


def _fail(pen: Pen, values: Values) -> tuple[Result, str]:
    if not values.get("error_message"):
        # The order of checks puts a terminal turn first, because its note is stored.
        rules.open_turn(pen, values.get("request_id"))
        raise InvalidParameter.missing("failureNote")
    return turns.fail_turn(pen, values)


def _complete(pen: Pen, values: Values) -> tuple[Result, str]:
    return turns.complete_turn(pen, {**values, "error_message": None, "error_code": None})


def _renamed(old: str, new: str) -> Prepare:
    return lambda values: {new if name == old else name: value for name, value in values.items()}


def _section_items(values: Values) -> dict[str, Any]:
    """Return the values with the new items of the section, checked as its items are."""
    field = requests.RICH[dialect_name(requests.SECTIONS[values["section"]])]
    given = {"sectionJson": to_dialect(values["section_json"])}
    read, _ = params({"sectionJson": field}).read(given, strict=True)
    return {**{name: value for name, value in values.items() if name != "section_json"}, "items": read["section_json"]}


def _edit(rule: edits.Edit) -> Rule:
    def edited(pen: Pen, values: Values) -> tuple[Result, str]:
        name = rule(pen, values)
        return {"lastUpdated": shown(pen.session.last_activity)}, name

    return edited


# Call-time aliases


async def _alias_bootstrap(log: Sessionlog, checked: LogCall) -> Result:
    call = replace(checked, scope=EVERYWHERE)
    values = call.values
    source = _given(values, "session_id_suffix", "model", "title") or "session"

    def work(writer: Writer) -> Result:
        first = log.calls.repeated(writer, call, EVERYWHERE)
        if first is not None:
            return first
        minted = mint_session_id(values["agent"], source, log.calls.journal.clock.now())
        session_id = free_id(minted, lambda name: writer.head(name) is not None)
        title = _given(values, "title") or session_id
        made = {"session_id": session_id, "title": title}
        return log.open_new(writer, call, lambda shown: {"initialized": True, **_opened(shown)}, **made)

    return await log.calls.transaction(call, work)


async def _alias_update(log: Sessionlog, call: LogCall) -> Result:
    def rule(pen: Pen, values: Values) -> tuple[Result, None]:
        return {"success": True, "sessionId": pen.session.id, **update_session(pen, values)}, None

    def close(writer: Writer, result: Result) -> Result:
        if "closed" in result:
            return result  # the first result of a key that was used before
        closed = log.close_within(writer, result["sessionId"], call.context)
        journal = {**closed["journal"], "redactions": result["journal"]["redactions"]}
        ended = {name: closed[name] for name in ("status", "closedAt", "closed")}
        whole = {**result, **ended, "lastUpdated": closed["closedAt"], "journal": journal}
        log.calls.keep(writer, call, whole)
        return whole

    if call.values.get("status") == "completed":
        return await log.calls.write(call, rule, close)
    return await log.calls.write(call, rule)


def _begin_minted(pen: Pen, values: Values) -> tuple[Result, str]:
    source = _given(values, "request_id_suffix", "query_title", "query_text") or "turn"
    minted = mint_request_id(source, pen.now)
    request_id = free_id(minted, lambda name: pen.turn(name) is not None)
    return turns.begin_turn(pen, _begin({**values, "request_id": request_id}))


def _alias_of(method: str) -> Method:
    return replace(_succeeding(METHODS[PREFIX + method]), operation=PREFIX + method)


TOOLS: dict[str, Method] = {
    "sessionlog_open": _tool("sessionlog_open", _open, _opening),
    "sessionlog_begin_turn": _succeeding(_tool("sessionlog_begin_turn", _begin_turn, check_begin)),
    "sessionlog_dialog": _turn_tool("sessionlog_dialog", turns.append_dialog, _renamed("items_json", "dialog")),
    "sessionlog_complete_turn": _turn_tool("sessionlog_complete_turn", _complete, _outcome),
    "sessionlog_fail_turn": _turn_tool("sessionlog_fail_turn", _fail, _outcome),
    "sessionlog_submit": _tool("sessionlog_submit", _submit, _submitted),
    "sessionlog_query": _tool("sessionlog_query", _query, check_history),
    "sessionlog_ingest_path": _succeeding(
        replace(METHODS[transcripts.METHOD], takes=tool_params("sessionlog_ingest_path"))
    ),
    "sessionlog_replace_turn": _turn_tool(
        "sessionlog_replace_turn", _edit(edits.replace_turn), _renamed("turn_json", "turn")
    ),
    "sessionlog_replace_section": _turn_tool(
        "sessionlog_replace_section", _edit(edits.replace_section), _section_items
    ),
    "sessionlog_clear_section": _turn_tool(
        "sessionlog_clear_section", _edit(lambda pen, values: turns.clear_section(pen, values)[1])
    ),
    "sessionlog_delete_item": _turn_tool("sessionlog_delete_item", _edit(edits.delete_item)),
    "sessionlog_delete_turn": _turn_tool("sessionlog_delete_turn", _edit(edits.delete_turn)),
    "sessionlog_delete_session": _tool("sessionlog_delete_session", _delete_session),
    "mcp_session_bootstrap": _tool(
        "mcp_session_bootstrap", _alias_bootstrap, lambda values: {**values, "session_id": None}
    ),
    "mcp_session_update": _tool("mcp_session_update", _alias_update),
    "mcp_session_turn_begin": _succeeding(writing(tool_params("mcp_session_turn_begin"), _begin_minted)),
    "mcp_session_turn_update": _alias_of("updateTurn"),
    "mcp_session_turn_complete": _alias_of("completeTurn"),
    "mcp_session_query_history": _alias_of("queryHistory"),
}


async def call_tool(log: Sessionlog, name: str, given: object, context: CallContext) -> Result:
    """Answer a tool by its name; raise ShiftlogError."""
    return await log.run(TOOLS[name], name, given, context) or {}
