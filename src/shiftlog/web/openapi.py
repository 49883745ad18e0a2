"""The OpenAPI description of the page's JSON: which addresses there are, what they take, what they answer."""

from typing import Any

from shiftlog import __version__
from shiftlog.model.moves import SessionState, TurnStatus
from shiftlog.web.views.sessions import KINDS
from shiftlog.web.views.usage import DIMENSIONS

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_OBJECT: Schema = {"type": "object"}
_NULL_TEXT: Schema = {"type": ["string", "null"]}


def _record(*required: str, **fields: Schema) -> Schema:
    return {"type": "object", "required": list(required), "properties": fields}


def _list(item: Schema) -> Schema:
    return {"type": "array", "items": item}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _query(name: str, says: str, schema: Schema | None = None) -> Schema:
    return {"name": name, "in": "query", "description": says, "schema": schema or {"type": "string", "maxLength": 2000}}


def _path(name: str, says: str, schema: Schema | None = None) -> Schema:
    return {"name": name, "in": "path", "required": True, "description": says, "schema": schema or _NAMED}


_NAMED: Schema = {"type": "string", "minLength": 1, "maxLength": 300}
_SESSION = _path("session_id", "The id of a session, the number of its run, or the vendor's own id.")
_FILTERS = [
    _query("agent", "Agent kind."),
    _query("agent_id", "Stable agent name."),
    _query("model", "Model name."),
    _query("project", "Workspace name or path."),
]
_ACTIVE = [
    _query("from", "Active at or after this date or time; of turns, entries and files their own time counts."),
    _query("to", "Started at or before this date or time; of turns, entries and files their own time counts."),
]
_USED = [
    _query("from", "Used at or after this date or time, a whole run at its start; without either the last 30 days."),
    _query("to", "Used at or before this date or time, a whole run at its start."),
]
_ENTRY = _record(
    "seq", "kind", "at", "request_id", "body", "erased", "body_hash", "hash",
    seq=_COUNT, kind=_TEXT, at=_TEXT, request_id=_NULL_TEXT, body={"type": ["object", "null"]},
    erased={"type": "boolean"}, body_hash=_TEXT, hash=_TEXT,
)  # fmt: skip
_SCHEMAS: dict[str, Schema] = {
    "Error": _record(
        "error", error=_record("code", "message", code=_TEXT, message=_TEXT, details=_OBJECT, hint=_NULL_TEXT)
    ),
    "Entry": _ENTRY,
    "Turn": _record("request_id", "ordinal", "status", request_id=_TEXT, ordinal=_COUNT, status=_TEXT),
    "Session": _record("session_id", "agent", "title", "state", session_id=_TEXT, title=_TEXT, state=_TEXT),
    "SessionList": _record(
        "items", "total", "next_cursor", "filters",
        items=_list(_record("session_id", session_id=_TEXT)), total=_COUNT, next_cursor=_NULL_TEXT, filters=_OBJECT,
    ),
    "SessionPage": _record(
        "session", "timeline", "next_place",
        session=_ref("Session"), timeline=_list(_record("kind", "seq", kind=_TEXT, seq=_COUNT)), next_place=_NULL_TEXT,
    ),
    "Outline": _record(
        "session_id", "turns", "errors", "files", "decisions", "commits",
        session_id=_TEXT, turns=_list(_ref("OutlineTurn")),
        errors=_list(_record("seq", "outcome", seq=_COUNT, outcome=_TEXT)), errors_total=_COUNT,
        files=_list(_record("path", path=_TEXT)), files_total=_COUNT, decisions=_list(_OBJECT),
        commits=_list(_OBJECT),
    ),
    "OutlineTurn": _record(
        "request_id", "ordinal", "title", "status", "errors", "duration_s",
        request_id=_TEXT, ordinal=_COUNT, title=_TEXT, status=_TEXT, errors=_COUNT, duration_s={"type": "number"},
    ),
    "Matches": _record(
        "session_id", "q", "total", "matches",
        session_id=_TEXT, q=_TEXT, total=_COUNT, terms=_list(_TEXT),
        matches=_list(_record("seq", "request_id", seq=_COUNT, request_id=_NULL_TEXT)),
    ),
    "Now": _record("overview", overview=_record("questions", "awaiting", "working", "failed")),
    "Replay": _record(
        "session_id", "scenes",
        session_id=_TEXT,
        scenes=_list(_record(
            "request_id", "from_seq", "to_seq", "title", "begun_ms", "ended_ms",
            request_id=_NULL_TEXT, from_seq=_COUNT, to_seq=_COUNT, title=_TEXT, begun_ms=_COUNT, ended_ms=_COUNT,
        )),
    ),
    "TurnPage": _record(
        "session_id", "turn", "entries", "next_place",
        session_id=_TEXT, turn=_ref("Turn"), entries=_list(_ref("Entry")), next_place=_NULL_TEXT,
    ),
    "Entries": _record(
        "session_id", "entries", "total", "next_after",
        session_id=_TEXT, entries=_list(_ref("Entry")), total=_COUNT, next_after={"type": ["integer", "null"]},
    ),
    "OneEntry": _record("session_id", "entry", session_id=_TEXT, entry=_ref("Entry"), total=_COUNT),
    "Checkpoint": _record(
        "session_id", "checkpoint", "since", "changes",
        session_id=_TEXT, checkpoint=_OBJECT, since=_NULL_TEXT, changes={"type": ["object", "null"]},
    ),
    "Handover": _record(
        "session", "capsule", "markdown", "lineage",
        session=_ref("Session"), capsule=_OBJECT, markdown=_TEXT, lineage=_OBJECT,
    ),
    "Trust": _record(
        "session", "chain", "receipts",
        session=_ref("Session"), receipts=_list(_ref("Receipt")),
        chain=_record("ok", "entries", ok={"type": "boolean"}, entries=_COUNT, kind=_NULL_TEXT),
    ),
    "Palette": _record("q", "items", q=_TEXT, items=_list(_record("kind", "title", "href", kind=_TEXT, title=_TEXT))),
    "Projects": _record("projects", projects=_list(_record("project", project=_NULL_TEXT))),
    "Project": _record("project", "sessions", "files", "decisions", "open", "usage", project=_TEXT),
    "FileTouches": _record("path", "touches", "total", path=_TEXT, touches=_list(_OBJECT), total=_COUNT),
    "Decisions": _record("items", "next_cursor", items=_list(_OBJECT), next_cursor=_NULL_TEXT),
    "Undo": _record("session_id", "turn", "files", "patch", session_id=_TEXT, turn=_ref("Turn")),
    "Receipt": _record("session_id", "seq", "head_hash", "at", "key_id", "signature", session_id=_TEXT, seq=_COUNT),
    "Usage": _record("filters", "total", "by", "budgets", total=_OBJECT, by=_OBJECT, budgets=_list(_OBJECT)),
    "Output": _record("command_id", "stream", "text", "next_cursor", "eof", text=_TEXT, next_cursor=_NULL_TEXT),
}  # fmt: skip


def _answer(says: str, schema: str | None, media: str = "application/json") -> Schema:
    content = {media: {"schema": _ref(schema) if schema else _TEXT}}
    return {"description": says, "content": content}


def _operation(says: str, answer: Schema, parameters: list[Schema], **more: str) -> Schema:
    refusals = {
        "400": "Something asked for makes no sense",
        "401": "Neither cookie nor token",
        "403": "A foreign page or host",
        "404": "There is none",
    }
    responses = {status: _answer(text, "Error") for status, text in (refusals | more).items()}
    return {"get": {"summary": says, "parameters": parameters, "responses": {"200": answer} | responses}}


def description() -> Schema:
    """Return the whole description."""
    number = {"type": "integer", "minimum": 0, "maximum": 1_000_000_000}
    seq = _path("seq", "Position of an entry in its journal.", number)
    after = _query("after", "Only what comes after this entry.", number)
    one = "/sessions/{session_id}"
    listing = [
        _query("q", 'Search: words, "phrases", prefixes (auth*), && || ! and parentheses.'),
        _query("kind", "What to search.", {"type": "string", "enum": list(KINDS)}),
        *_FILTERS,
        *_ACTIVE,
        _query("status", "Session state.", {"type": "string", "enum": list(map(str, SessionState))}),
        _query("turn_status", "Has a turn with this status.", {"type": "string", "enum": list(map(str, TurnStatus))}),
        _query("path", "Touched files by glob (src/*.py)."),
        _query("tag", "It or a turn of it has this tag."),
        _query("group", "How the page groups sessions.", {"type": "string", "enum": ["day", "project"]}),
        _query("cursor", "next_cursor of the page before, same question."),
    ]
    timeline = [
        _SESSION,
        _query("turn", "Begin with this turn."),
        _query("place", "next_place of the page before."),
    ]
    axis = _query("axis", "How the strip of turns is drawn.", {"type": "string", "enum": ["turn", "time"]})
    words = {**_query("q", "Search expression, as in the list."), "required": True}
    turn = [
        _SESSION,
        _path("request_id", "The id of a turn."),
        after,
        _query("place", "The next_place of the page before."),
    ]
    entries = [
        _SESSION,
        after,
        _query("limit", "Entries per page.", {"type": "integer", "minimum": 1, "maximum": 1000}),
    ]
    output = [
        _path("command_id", "The id of a command, such as 1a2b3c4d-1#7."),
        _query("stream", "Which stream.", {"type": "string", "enum": ["stdout", "stderr"]}),
        _query("cursor", "next_cursor of the page before."),
    ]
    usage = [*_FILTERS, *_USED]
    project = _path("project", "The name of a project.")
    of_project = _query("project", "Only of this project.")
    later = _query("cursor", "next_cursor of the page before.")
    file = [
        {**_query("path", "The path of the file, below its workspace."), "required": True},
        of_project,
        _query("line", "Only turns that wrote this text."),
    ]
    by = _query("by", "Which table.", {"type": "string", "enum": list(DIMENSIONS)})
    form = _path("form", "The format.", {"type": "string", "enum": ["html", "md", "jsonl"]})
    kinds = ("text/html", "text/markdown", "application/x-ndjson")
    exports: Schema = {"description": "The file", "content": {media: {"schema": _TEXT} for media in kinds}}
    paths = {
        "/sessions.json": _operation("List or search sessions", _answer("A page", "SessionList"), listing),
        f"{one}.json": _operation("Read a session's timeline", _answer("A page", "SessionPage"), timeline),
        f"{one}/outline.json": _operation(
            "Turns, errors, files and decisions", _answer("They", "Outline"), [_SESSION, axis]
        ),
        f"{one}/find.json": _operation("Search a session", _answer("Entries in order", "Matches"), [_SESSION, words]),
        f"{one}/replay.json": _operation("What a replay plays", _answer("Scenes in order", "Replay"), [_SESSION]),
        f"{one}/turns/{{request_id}}.json": _operation("Read a turn", _answer("A page", "TurnPage"), turn),
        f"{one}/entries.json": _operation("Read the journal", _answer("A page", "Entries"), entries),
        f"{one}/entries/{{seq}}.json": _operation("Read an entry", _answer("It", "OneEntry"), [_SESSION, seq]),
        f"{one}/checkpoints/{{seq}}.json": _operation(
            "What changed up to a checkpoint", _answer("It", "Checkpoint"), [_SESSION, seq]
        ),
        f"{one}/handover.json": _operation("Read the capsule", _answer("It", "Handover"), [_SESSION]),
        f"{one}/handover.md": _operation("The capsule as Markdown", _answer("It", None, "text/markdown"), [_SESSION]),
        f"{one}/trust.json": _operation("Check the chain now", _answer("What was found", "Trust"), [_SESSION]),
        f"{one}/receipts/{{seq}}.json": _operation("A receipt", _answer("It", "Receipt"), [_SESSION, seq]),
        f"{one}/export.{{form}}": _operation("A session as a file", exports, [_SESSION, form]),
        "/now.json": _operation("What waits, works and failed lately", _answer("They", "Now"), []),
        "/palette.json": _operation(
            "Find by name", _answer("What fits", "Palette"), [_query("q", "A part of a name.")]
        ),
        "/projects.json": _operation("List projects", _answer("All", "Projects"), []),
        "/projects/{project}.json": _operation("Read a project", _answer("It", "Project"), [project]),
        "/files.json": _operation("Every turn that touched a file", _answer("They", "FileTouches"), [*file]),
        "/decisions.json": _operation("List decisions", _answer("A page", "Decisions"), [of_project, later]),
        f"{one}/turns/{{request_id}}/undo.json": _operation(
            "What taking a turn back would change", _answer("It", "Undo"), [*turn[:2]]
        ),
        "/usage.json": _operation("Tokens and cost", _answer("Totals", "Usage"), usage),
        "/usage.csv": _operation("One table of usage", _answer("It", None, "text/csv"), [*usage, by]),
        "/outputs/{command_id}.json": _operation(
            "Read a command's output", _answer("A page", "Output"), output, **{"410": "No longer kept"}
        ),
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Shiftlog page",
            "version": __version__,
            "description": "What agents did, read-only. Without .json the same addresses are pages for people.",
        },
        "paths": paths,
        "components": {"schemas": _SCHEMAS, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{"token": []}],
    }
