"""The parameters of the session log's MCP tools, and of the names that are only called and never listed.

They are checked as the methods' parameters are; an unknown name is refused.
"""

from dataclasses import dataclass, replace
from typing import cast

from shiftlog.dialects.mcpserver import requests
from shiftlog.dialects.mcpserver import transcripts as ingest
from shiftlog.dialects.mcpserver.naming import JsonOf, Params, TextOrNumber, params, required
from shiftlog.journal.requests import APPEND_ITEMS, ERROR_CHARS, NAME_CHARS
from shiftlog.model.ids import MAX_ID_CHARS, REQUEST_REGEX, SESSION_REGEX
from shiftlog.model.limits import PATH_CHARS
from shiftlog.params.fields import Choice, Field, Given, ListOf, Record, Schema, Text, Wrapped, unlisted

QUERY_LIMIT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class NewId(Wrapped):
    """An id that the caller makes up; its form is for the schema alone, since a wrong one has an error of its own."""

    form: str

    def type_schema(self) -> Schema:
        return {"type": "string", "maxLength": MAX_ID_CHARS, "pattern": self.form}


SESSION: dict[str, Field] = {
    "agent": replace(
        required(requests.AGENT),
        description="Agent kind in PascalCase: the first part of the session's id. If sessionId is a run_id: the first "
        "part of that session's session_id.",
    ),
    "sessionId": TextOrNumber(
        required=True,
        lines=True,
        description="The session: the id that sessionlog_open got, or the number that open_session calls run_id.",
        examples=("Codex-20260701T080000Z-fix-upload",),
    ),
}
TURN: dict[str, Field] = {
    **SESSION,
    "requestId": replace(
        required(requests.REQUEST_ID),
        description="The turn: the id that sessionlog_begin_turn got.",
        examples=("req-20260701T080005Z-upload-001",),
    ),
}
_SECTION_ALIASES = {"contextList": "context", "processingDialog": "dialog"}
_IN_A_TURN = "context is what a turn shows as contextList, dialog what it shows as processingDialog."
SECTION = Choice(
    required=True,
    values=tuple(name for name in requests.SECTIONS if name not in _SECTION_ALIASES),
    aliases=_SECTION_ALIASES,
    description=f"The list. {_IN_A_TURN}",
    examples=("tags",),
)

_TURN_FIELDS: dict[str, Field] = {
    "response": requests.RESPONSE,
    **requests.RICH,
    **requests.REST_OF_TURN,
    "requestId": replace(requests.REQUEST_ID, listed=False),  # the argument requestId names the turn
}
_FAILURE: dict[str, Field] = {
    "failureNote": Text(
        lines=True,
        max_chars=ERROR_CHARS,
        description="Why it failed, up to 65,536 characters. failureNote (or errorMessage) is required.",
        examples=("No runner is free",),
    ),
    "errorCode": Text(
        max_chars=NAME_CHARS,
        description="Short code of your own, stored before the note as `no_runner: …`. Default: none.",
        examples=("no_runner",),
    ),
    "errorMessage": Text(
        lines=True,
        max_chars=ERROR_CHARS,
        description="Alias of failureNote. If both are given, errorMessage is stored.",
        examples=("No runner is free",),
    ),
}
# A completed turn has no failure: fields about one are accepted and ignored.
COMPLETION = Record(fields={**_TURN_FIELDS, **unlisted(_FAILURE)})
# The failure comes first, and takes the place of the ignored field of that name.
FAILURE = Record(fields={**_FAILURE, **_TURN_FIELDS, **_FAILURE})
_WHOLE = {
    name: replace(field, description=f"{field.description} The list replaces the stored one.")
    for name, field in _TURN_FIELDS.items()
    if isinstance(field, ListOf)
} | {"commits": replace(requests.RICH["commits"], description="All commits of the turn, in place of the stored ones.")}
REPLACEMENT = Record(
    required=True,
    fields={**_TURN_FIELDS, **_WHOLE, "queryTitle": requests.QUERY_TITLE, "queryText": requests.QUERY_TEXT},
)
_ITEM = Given(
    shape={
        "anyOf": [
            {"type": "string", "description": "In every list but actions, dialog and commits."},
            {**requests.ACTION.schema(), "description": "In actions."},
            {**requests.DIALOG.schema(), "description": "In dialog."},
            {**requests.COMMIT.schema(), "description": "In commits."},
        ]
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionObject(Record):
    """A session as it is read and sent back; its schema has the names of that object and its unknown headers."""

    def type_schema(self) -> Schema:
        schema = _tolerant(Record.type_schema(self))
        properties = {"sourceType" if name == "agent" else name: part for name, part in schema["properties"].items()}
        properties |= {name: {**properties[name], "type": ["string", "null"]} for name in requests.HEADERS}
        properties["sessionId"] |= {"maxLength": MAX_ID_CHARS, "pattern": SESSION_REGEX}
        properties["turns"]["items"]["properties"]["requestId"] |= {"maxLength": MAX_ID_CHARS, "pattern": REQUEST_REGEX}
        return {**schema, "properties": properties, "required": ["sourceType", "sessionId", "title"]}


def _tolerant(schema: Schema) -> Schema:
    """Return a schema that forbids no unknown parts, at any depth."""
    return {
        name: _tolerant(cast(Schema, part)) if isinstance(part, dict) else part
        for name, part in schema.items()
        if name != "additionalProperties"
    }


def _json(description: str, inner: Field, *examples: object) -> JsonOf:
    return JsonOf(inner=inner, required=inner.required, description=description, examples=examples)


_OWN_PARAMS: dict[str, dict[str, Field]] = {
    "sessionlog_open": {
        **SESSION,
        "sessionId": NewId(
            required=True,
            inner=TextOrNumber(required=True, lines=True),
            form=SESSION_REGEX,
            description="Id that you make up: agent, UTC time, and a few lower-case words or digits joined by `-`.",
            examples=("Codex-20260701T080000Z-fix-upload",),
        ),
        "title": replace(
            requests.TITLE, description="What the session is for, up to 500 characters. Default: sessionId."
        ),
        "model": replace(
            requests.MODEL, description="Model that the agent runs on. Default: `unknown`.", examples=("opus",)
        ),
    },
    "sessionlog_begin_turn": {
        **SESSION,
        "requestId": NewId(
            required=True,
            inner=required(requests.REQUEST_ID),
            form=REQUEST_REGEX,
            description="Id that you make up, new in this session: req, UTC time, and a few lower-case words or digits "
            "joined by `-`.",
            examples=("req-20260701T080005Z-upload-001",),
        ),
        "planFile": requests.PLAN,
        "todoId": requests.TODO,
        "queryTitle": replace(
            requests.QUERY_TITLE, description="The request in one line, up to 500 characters. Default: requestId."
        ),
        "queryText": Text(lines=True, description="The request in full, as it was given. Default: queryTitle."),
    },
    "sessionlog_dialog": {
        **TURN,
        "itemsJson": _json(
            "1 to 1,000 items in order, a list or its JSON text.",
            ListOf(item=requests.DIALOG, required=True, max_items=APPEND_ITEMS),
            [{"role": "tool", "category": "tool_result", "content": "2 passed"}],
        ),
    },
    "sessionlog_complete_turn": {
        **TURN,
        "turnJson": _json(
            "Fields of the turn, an object or its JSON text. response is required unless it is stored already. Of a "
            "list give only new items; duplicates are skipped. The same dialog item: equal role, category and content "
            "(and timestamp, if given). The same action: equal description, type and filePath (and order, if given), "
            "whatever its status. To change a stored action use sessionlog_replace_section first.",
            COMPLETION,
            {"response": "Fixed; 200 runs are green", "filesModified": ["src/up.py"]},
        ),
    },
    "sessionlog_fail_turn": {
        **TURN,
        "turnJson": _json(
            "Fields of the turn, an object or its JSON text. Always give it, since failureNote (or errorMessage) is "
            "required. The other fields are merged as in turnJson of sessionlog_complete_turn.",
            FAILURE,
            {"failureNote": "No runner is free", "errorCode": "no_runner"},
        ),
    },
    "sessionlog_submit": {
        "json": JsonOf(
            inner=SessionObject(required=True, fields=requests.SESSION_OBJECT_FIELDS),
            required=True,
            recorded_elsewhere=True,
            description="A session with its turns, as an item of sessionlog_query, an object or its JSON text. Parts "
            "that are not listed here are ignored; unknown ones are named in warnings.",
            examples=(
                {
                    "sourceType": "Codex",
                    "sessionId": "Codex-20260701T080000Z-fix-upload",
                    "title": "Fix upload",
                    "turns": [{"requestId": "req-20260701T080005Z-upload-001", "status": "completed"}],
                },
            ),
        )
    },
    "sessionlog_query": {
        **requests.HISTORY_FIELDS,
        "limit": replace(requests.HISTORY_FIELDS["limit"], default=QUERY_LIMIT),
    },
    "sessionlog_replace_turn": {
        **TURN,
        "turnJson": _json(
            "The fields to replace, an object or its JSON text. Lists whole; empty values change nothing.",
            REPLACEMENT,
            {"queryTitle": "Upload", "tags": ["bug"]},
        ),
    },
    "sessionlog_replace_section": {
        **TURN,
        "section": SECTION,
        "sectionJson": _json(
            "All items of the new list, at least one, a list or its JSON text. Objects for actions, dialog and "
            "commits, texts for the others.",
            ListOf(item=_ITEM, required=True),
            ["bug", "upload"],
            [{"order": 1, "description": "Lock temp dir", "type": "edit", "status": "completed", "filePath": "up.py"}],
        ),
    },
    "sessionlog_clear_section": {
        **TURN,
        "section": Choice(
            required=True,
            values=tuple(name for name in requests.CLEARABLE if name not in _SECTION_ALIASES),
            aliases=_SECTION_ALIASES,
            description=f"The list or plain field. {_IN_A_TURN}",
            examples=("tags",),
        ),
    },
    "sessionlog_delete_item": {
        **TURN,
        "section": SECTION,
        "itemKey": TextOrNumber(
            required=True,
            lines=True,
            description="The item, as sessionlog_query shows it in turns: in actions its order; in dialog its place in "
            "processingDialog, counted from 1; in commits its whole sha; in other lists its whole text, letter by "
            "letter.",
            examples=("bug", 1),
        ),
    },
    "sessionlog_delete_turn": dict(TURN),
    "sessionlog_delete_session": dict(SESSION),
    "sessionlog_ingest_path": {**ingest.FIELDS, "agent": required(ingest.AGENT)},
}
# Reads need no key, and an import of transcripts stores each fact only once anyway.
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
        "planFile": requests.PLAN,
        "todoId": requests.TODO,
        "model": requests.MODEL,
        "idempotencyKey": requests.KEY,
    },
    "mcp_session_turn_update": dict(requests.UPDATE_TURN.record.fields),
    "mcp_session_turn_complete": dict(requests.COMPLETE_TURN.record.fields),
    "mcp_session_query_history": dict(requests.QUERY_HISTORY.record.fields),
}


def tool_params(name: str) -> Params:
    """Return the parameters of a tool."""
    return params(TOOL_PARAMS.get(name) or ALIAS_PARAMS[name])
