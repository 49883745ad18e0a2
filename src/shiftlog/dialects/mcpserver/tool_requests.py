"""The parameters of the session log's MCP tools, and of the names that are only called and never listed.

They are checked as the methods' parameters are; an unknown name is refused.
"""

from dataclasses import dataclass, replace
from typing import cast

from shiftlog.dialects.mcpserver import requests
from shiftlog.dialects.mcpserver import transcripts as ingest
from shiftlog.dialects.mcpserver.requests import JsonOf, Params, required
from shiftlog.journal.requests import APPEND_ITEMS, ERROR_CHARS, NAME_CHARS, PATH_CHARS
from shiftlog.params.fields import Choice, Field, Given, ListOf, Record, Schema, Text

SESSION: dict[str, Field] = {
    "agent": required(requests.AGENT),
    "sessionId": requests.TextOrNumber(
        required=True,
        lines=True,
        description="The session, `<Agent>-<yyyyMMddTHHmmssZ>-<suffix>`; it begins with the agent.",
    ),
}
TURN: dict[str, Field] = {
    **SESSION,
    "requestId": required(requests.REQUEST_ID),
}
_SECTION_ALIASES = {"contextList": "context", "processingDialog": "dialog"}
SECTION = Choice(
    required=True,
    values=tuple(name for name in requests.SECTIONS if name not in _SECTION_ALIASES),
    aliases=_SECTION_ALIASES,
    description="Which list of the turn.",
)
OUTCOME = Record(
    fields={
        **requests.TURN_OBJECT.fields,
        "failureNote": Text(lines=True, max_chars=ERROR_CHARS, description="What went wrong."),
        "errorMessage": Text(lines=True, max_chars=ERROR_CHARS, description="The same as failureNote."),
        "errorCode": Text(max_chars=NAME_CHARS, description="Short code of the failure."),
    }
)
REPLACEMENT = Record(
    required=True,
    fields={**requests.TURN_OBJECT.fields, "queryTitle": requests.QUERY_TITLE, "queryText": requests.QUERY_TEXT},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionObject(Record):
    """A session as it is read and sent back; its schema has the names of that object and its unknown headers."""

    def type_schema(self) -> Schema:
        schema = _tolerant(Record.type_schema(self))
        properties = {"sourceType" if name == "agent" else name: part for name, part in schema["properties"].items()}
        properties |= {name: {"type": ["string", "null"]} for name in requests.HEADERS}
        return {**schema, "properties": properties, "required": ["sourceType", "sessionId", "title"]}


def _tolerant(schema: Schema) -> Schema:
    """Return a schema that forbids no unknown parts, at any depth."""
    return {
        name: _tolerant(cast(Schema, part)) if isinstance(part, dict) else part
        for name, part in schema.items()
        if name != "additionalProperties"
    }


def _json(description: str, inner: Field) -> JsonOf:
    return JsonOf(inner=inner, required=inner.required, description=description)


_OWN_PARAMS: dict[str, dict[str, Field]] = {
    "sessionlog_open": {
        **SESSION,
        "title": replace(requests.TITLE, description="What the session is for; default: its id."),
        "model": requests.MODEL,
    },
    "sessionlog_begin_turn": {
        **TURN,
        "planFile": requests.PLAN_FILE,
        "todoId": requests.TODO,
        "queryTitle": replace(requests.QUERY_TITLE, description="The request in one line; default: requestId."),
        "queryText": Text(lines=True, description="The request in full; default: queryTitle."),
    },
    "sessionlog_dialog": {
        **TURN,
        "itemsJson": _json(
            "Dialog items in order, a list or its JSON text.",
            ListOf(item=requests.DIALOG, required=True, max_items=APPEND_ITEMS),
        ),
    },
    "sessionlog_complete_turn": {
        **TURN,
        "turnJson": _json("`response` and other fields of the turn, an object or its JSON text.", OUTCOME),
    },
    "sessionlog_fail_turn": {
        **TURN,
        "turnJson": _json("`failureNote` and other fields of the turn, an object or its JSON text.", OUTCOME),
    },
    "sessionlog_submit": {
        "json": JsonOf(
            inner=SessionObject(required=True, fields=requests.SESSION_OBJECT_FIELDS),
            required=True,
            recorded_elsewhere=True,
            description="A session with turns, an object or its JSON text; parts that are not known are ignored.",
        )
    },
    "sessionlog_query": dict(requests.HISTORY_FIELDS),
    "sessionlog_replace_turn": {
        **TURN,
        "turnJson": _json("The new fields of the turn, an object or its JSON text.", REPLACEMENT),
    },
    "sessionlog_replace_section": {
        **TURN,
        "section": SECTION,
        "sectionJson": _json("The new items, a list or its JSON text.", ListOf(item=Given(), required=True)),
    },
    "sessionlog_clear_section": {
        **TURN,
        "section": Choice(
            required=True, values=tuple(requests.CLEARABLE), description="Which list or plain field of the turn."
        ),
    },
    "sessionlog_delete_item": {
        **TURN,
        "section": SECTION,
        "itemKey": requests.TextOrNumber(
            required=True,
            lines=True,
            description="Which item: the value in a list of texts, a commit's sha, an action's order, a dialog item's "
            "place from 1.",
        ),
    },
    "sessionlog_delete_turn": dict(TURN),
    "sessionlog_delete_session": dict(SESSION),
    "sessionlog_ingest_path": {**ingest.FIELDS, "agent": required(ingest.AGENT)},
}
# Reading has nothing to repeat, and an import of transcripts stores each fact once by itself.
_WITHOUT_KEY = ("sessionlog_query", "sessionlog_ingest_path")
TOOL_PARAMS: dict[str, dict[str, Field]] = {
    name: fields if name in _WITHOUT_KEY else {**fields, "idempotencyKey": requests.KEY}
    for name, fields in _OWN_PARAMS.items()
}
_SUFFIX = Text(max_chars=PATH_CHARS, description="What the new id ends with.")
ALIAS_PARAMS: dict[str, dict[str, Field]] = {
    "mcp_session_bootstrap": {
        "agent": required(requests.AGENT),
        "sessionIdSuffix": _SUFFIX,
        "model": requests.MODEL,
        "title": requests.TITLE,
        "idempotencyKey": requests.KEY,
    },
    "mcp_session_update": {
        "agent": requests.AGENT,
        "sessionId": requests.SESSION_ID,
        "title": requests.TITLE,
        "model": requests.MODEL,
        "status": Choice(values=("in_progress", "completed"), description="`completed` closes the session."),
        "idempotencyKey": requests.KEY,
    },
    "mcp_session_turn_begin": {
        "agent": requests.AGENT,
        "sessionId": requests.SESSION_ID,
        "requestIdSuffix": _SUFFIX,
        "queryTitle": requests.QUERY_TITLE,
        "queryText": requests.QUERY_TEXT,
        "planFile": requests.PLAN_FILE,
        "todoId": requests.TODO,
        "model": requests.MODEL,
        "idempotencyKey": requests.KEY,
    },
    "mcp_session_turn_update": dict(requests.UPDATE_TURN.record.fields),
    "mcp_session_turn_complete": dict(requests.COMPLETE_TURN.record.fields),
    "mcp_session_query_history": dict(requests.QUERY_HISTORY.record.fields),
}


def tool_params(name: str) -> Params:
    """Return what a tool takes."""
    return requests.params(TOOL_PARAMS.get(name) or ALIAS_PARAMS[name])
