"""The parameters of the session log's methods, one table each, under the names that its clients use.

Limits and enumerations come from `journal.requests`. `read` returns checked values under the journal's names.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from shiftlog.dialects.mcpserver.naming import (
    ALIASES,
    Anything,
    MaybeBlank,
    Params,
    TextOrNumber,
    TurnFields,
    in_camel_case,
    native_name,
    params,
    required,
)
from shiftlog.journal.continuity.requests import CLOSE_SESSION as CLOSING
from shiftlog.journal.requests import (
    ACTION_ITEM,
    APPEND_ITEMS,
    COMMIT_ITEM,
    DESCRIPTION_CHARS,
    DIALOG_ITEM,
    ERROR_CHARS,
    KEY_CHARS,
    NAME_CHARS,
    PLAN_FILE,
    TITLE_CHARS,
)
from shiftlog.model.ids import AGENT_PATTERN
from shiftlog.model.limits import PATH_CHARS
from shiftlog.model.moves import TurnStatus
from shiftlog.params.fields import Choice, Field, Integer, ListOf, Record, Text

IMPORT_TURNS = 5_000
HISTORY_LIMIT = 1_000
MOST_HOURS = 1_000_000

# The lists of a turn by the names of the contract.
SECTIONS: dict[str, str] = {
    "actions": "actions",
    "tags": "tags",
    "context": "context_list",
    "contextList": "context_list",
    "dialog": "dialog",
    "processingDialog": "dialog",
    "commits": "commits",
    "designDecisions": "design_decisions",
    "requirementsDiscovered": "requirements_discovered",
    "filesModified": "files_modified",
    "blockers": "blockers",
}


# Fields

AGENT = Text(
    max_chars=64,
    pattern=AGENT_PATTERN,
    pattern_says="PascalCase letters and digits, such as ClaudeCode",
    description="Agent kind in PascalCase, the part of the session id before its first `-`.",
    examples=("Codex",),
)
# Any text is accepted here, because ids have checks and errors of their own.
SESSION_ID = TextOrNumber(lines=True, description="The session, `<Agent>-<yyyyMMddTHHmmssZ>-<suffix>`.")
REQUEST_ID = Text(lines=True, description="The turn, `req-<yyyyMMddTHHmmssZ>-<slug>`.")
TITLE = Text(lines=True, max_chars=TITLE_CHARS, description="What the session is for, up to 500 characters.")
QUERY_TITLE = Text(lines=True, max_chars=TITLE_CHARS, description="The request in one line, up to 500 characters.")
QUERY_TEXT = Text(lines=True, signs=True, description="The request in full, as it was given.")
MODEL = Text(max_chars=NAME_CHARS, description="Name of the model; `unknown` counts as not given.")
PLAN = replace(
    PLAN_FILE,
    description="Path of the plan that the turn follows, relative to the workspace or absolute, without `..`. It is "
    "stored as text; the file need not exist. `None` or left out: no plan.",
    examples=("docs/plans/upload.md",),
)
TODO = Text(
    max_chars=NAME_CHARS,
    description="Id of the to-do item that the turn works on. `None` or left out: no item.",
    examples=("TODO-17",),
)
_UNCHANGED = "`None` or left out changes nothing."
RESPONSE = Text(lines=True, signs=True, description="The answer that was given.")
KEY = Text(
    max_chars=KEY_CHARS,
    description="Text that you make up so that a retry is safe, up to 200 characters: the same key with the same "
    "arguments returns the first result and stores nothing, with other arguments it is idempotency_conflict. It counts "
    "for this session and tool, 90 days. Default: none.",
)
_HEADERS_SAID = {
    "agentSessionId": "Id that the agent's own program gave the session.",
    "agentSessionTranscriptFile": "Path of that program's transcript; ignored if there is no such file.",
    "agentExecutablePath": "Path of that program.",
    "agentExecutableVersion": "Version of that program.",
}

ACTION = in_camel_case(
    ACTION_ITEM,
    description="What was done or is planned, up to 8,192 characters.",
    type="edit, create, delete, design_decision, commit, pr_comment, issue_comment, web_reference or dependency_add; "
    "another lower_snake_case word is stored with a warning.",
    status="pending: planned; in_progress: begun; completed; failed.",
    order="Its number within the turn, which sessionlog_delete_item names it by. Default: one more than the highest of "
    "the list.",
    file_path="The file that it concerns, relative to the workspace. Default: none.",
)
DIALOG = in_camel_case(
    DIALOG_ITEM,
    role="Who said it. model: you, the agent; tool: a tool's call or output; system: the program; user: the person.",
    category="reasoning: a thought; tool_call: a call; tool_result: what it gave back; observation: something noticed; "
    "decision: a choice with its reason.",
    content="The text, up to 1,048,576 characters.",
    timestamp="When, ISO 8601 with zone, such as 2026-07-01T08:00:05Z. Default: now.",
)
COMMIT = in_camel_case(
    COMMIT_ITEM,
    files_changed="Paths that it changed, relative to the workspace.",
    author="Its author.",
    timestamp="When it was made, ISO 8601 with zone. Default: none.",
)

# The facts about the agent's own session and program, and the journal's names of them.
HEADER_FACTS = {
    "agentSessionId": "vendor_session_id",
    "agentSessionTranscriptFile": "transcript_path",
    "agentExecutablePath": "executable_path",
    "agentExecutableVersion": "executable_version",
}
HEADERS: dict[str, Field] = {name: Text(max_chars=PATH_CHARS, description=_HEADERS_SAID[name]) for name in HEADER_FACTS}


def _texts(description: str, max_chars: int | None = None) -> ListOf:
    item = Text(lines=True, signs=True) if max_chars is None else Text(lines=True, max_chars=max_chars)
    return ListOf(item=item, description=description)


# Whether a list is united with the stored one or replaces it depends on the call, which says so.
LISTS: dict[str, Field] = {
    "tags": _texts("Labels to find the turn by, such as bug.", NAME_CHARS),
    "contextList": _texts("Files, addresses and other sources that were read.", PATH_CHARS),
    "designDecisions": _texts("Decisions, each with its reason."),
    "requirementsDiscovered": _texts("Ids of requirements that were found, such as FR-AUTH-1."),
    "filesModified": _texts("Files that were changed, relative to the workspace.", PATH_CHARS),
    "blockers": _texts("What stands in the way."),
    "commits": ListOf(item=COMMIT, description="Commits that were made; one with a known sha fills that one in."),
}
PLAIN: dict[str, Field] = {
    "interpretation": Text(lines=True, signs=True, description="How the request was understood."),
    "response": RESPONSE,
    "planFile": replace(PLAN, description=f"Path of the plan that the turn follows, without `..`. {_UNCHANGED}"),
    "todoId": replace(TODO, description=f"Id of the to-do item that the turn works on. {_UNCHANGED}"),
    "model": replace(
        MODEL,
        description="Name of the model; a turn begins with that of its session. `unknown` or left out changes nothing.",
        examples=("opus",),
    ),
    "modelProvider": Text(max_chars=NAME_CHARS, description="Who serves the model, such as openai."),
    "tokenCount": Integer(
        minimum=0, maximum=2**53 - 1, description="Tokens of the whole turn so far; 0 changes nothing."
    ),
}
# Plain fields can be cleared as well as lists.
CLEARABLE = SECTIONS | {name: native_name(name) for name in PLAIN}
RICH: dict[str, Field] = {
    **PLAIN,
    **LISTS,
    "actions": ListOf(item=ACTION, description="Steps that were done or are planned."),
    "processingDialog": ListOf(item=DIALOG, description="Thoughts, tool calls, results and decisions, in order."),
}
# The parts of a turn object that rich fields do not cover: accepted, so that a turn can be sent back as it was read.
REST_OF_TURN: dict[str, Field] = {
    name: Anything(listed=False)
    for name in ("timestamp", "queryTitle", "queryText", "status", "failureNote", "amendments")
}
TURN_OBJECT = Record(fields={**REST_OF_TURN, "requestId": REQUEST_ID, **RICH})

ADDRESS: dict[str, Field] = {
    "sessionId": SESSION_ID,
    "agent": AGENT,
    "requestId": REQUEST_ID,
    "turnRequestId": REQUEST_ID,
    "idempotencyKey": KEY,
}


def _turn_params(fields: dict[str, Field], **aliases: str) -> Params:
    return params({**fields, **ADDRESS}, **aliases)


# The number of a run cannot name a new session.
NEW_SESSION_ID = Text(
    required=True,
    lines=True,
    description=SESSION_ID.description,
    examples=("Codex-20260701T080000Z-fix-upload",),
)
BOOTSTRAP = params({})
CURRENT_SESSION = params({"sessionId": SESSION_ID, "agent": AGENT})
OPEN_SESSION = params(
    {
        "sessionId": NEW_SESSION_ID,
        "title": required(TITLE),
        "agent": AGENT,
        "model": MODEL,
        **HEADERS,
        "idempotencyKey": KEY,
    }
)
BEGIN_TURN = params(
    {
        "requestId": required(REQUEST_ID),
        "queryTitle": required(QUERY_TITLE),
        "queryText": required(QUERY_TEXT),
        "planFile": PLAN,
        "todoId": TODO,
        "model": MODEL,
        "sessionId": SESSION_ID,
        "agent": AGENT,
        "idempotencyKey": KEY,
    }
)
UPDATE_TURN = _turn_params({**PLAIN, "queryTitle": QUERY_TITLE, **LISTS})
APPEND_DIALOG = _turn_params({"dialogItems": ListOf(item=DIALOG, required=True, max_items=APPEND_ITEMS)})
APPEND_ACTIONS = _turn_params(
    {"actions": ListOf(item=ACTION, required=True, max_items=APPEND_ITEMS), "queryTitle": QUERY_TITLE}
)
COMPLETE_TURN = _turn_params({**RICH, "payload": TURN_OBJECT})
FAIL_TURN = _turn_params(
    {
        "errorMessage": Text(lines=True, signs=True, max_chars=ERROR_CHARS, description="What went wrong."),
        "errorCode": Text(max_chars=NAME_CHARS, description="Short code of the failure."),
        **RICH,
        "payload": Record(
            fields={**TURN_OBJECT.fields, "failureNote": Text(lines=True, signs=True, max_chars=ERROR_CHARS)}
        ),
    },
    failurenote="errorMessage",
)
CLOSE_TURN = _turn_params({"response": required(RESPONSE), "actions": ListOf(item=ACTION, max_items=APPEND_ITEMS)})
CLEAR_SECTION = _turn_params({"section": Choice(required=True, values=tuple(CLEARABLE))})
SET_TURN_TITLE = _turn_params({"queryTitle": required(QUERY_TITLE)})
SET_SESSION_TITLE = params(
    {"title": required(TITLE), "sessionId": SESSION_ID, "agent": AGENT, "idempotencyKey": KEY}, sessiontitle="title"
)
CLOSE_SESSION = params(
    {
        **{name: CLOSING.fields[name] for name in ("reason", "epitaph", "succession_policy", "allow_rebirth")},
        "sessionId": SESSION_ID,
        "agent": AGENT,
        "idempotencyKey": KEY,
    },
    successionpolicy="succession_policy",
    allowrebirth="allow_rebirth",
)
HISTORY_FIELDS: dict[str, Field] = {
    "agent": replace(AGENT, description="Only sessions of this agent kind. Default: of all agents."),
    "model": Text(
        max_chars=NAME_CHARS, description="Part of the model's name, in any case. Default: any.", examples=("opus",)
    ),
    "text": Text(
        lines=True,
        max_chars=DESCRIPTION_CHARS,
        description="Search expression, evaluated for each turn. A term matches a part of any text or list of the "
        "turn, or of title or id of the session, in any case. A space or && is and, || is or, ! is not; quotes keep a "
        "phrase together, parentheses group. Default: any.",
        examples=('lock && !(file || "temp dir")',),
    ),
    "from": Text(
        max_chars=64,
        description="Started at or after this: a date (from 00:00:00) or an ISO 8601 time, UTC without a zone. "
        "Default: any.",
        examples=("2026-07-01",),
    ),
    "to": Text(
        max_chars=64,
        description="Last updated at or before this: a date (until 23:59:59) or an ISO 8601 time, UTC without a zone. "
        "Default: any.",
        examples=("2026-07-01T18:00:00Z",),
    ),
    "limit": Integer(minimum=0, maximum=HISTORY_LIMIT, description="Sessions per page, 0..1000; 0 only counts."),
    "offset": Integer(minimum=0, maximum=2**63 - 1, default=0, description="How many of the newest to pass over."),
    "turnStatus": Choice(values=tuple(map(str, TurnStatus)), description="Has a turn with this status. Default: any."),
    "planFile": Text(
        max_chars=PLAN_FILE.max_chars,
        description="Has a turn with exactly this plan file; `None`: one without. Default: any.",
        examples=("docs/plans/upload.md",),
    ),
    "todoId": Text(
        max_chars=NAME_CHARS,
        description="Has a turn with exactly this to-do item; `None`: one without. Default: any.",
        examples=("TODO-17",),
    ),
    "staleOlderThanHours": Integer(
        minimum=0,
        maximum=MOST_HOURS,
        description="Has a turn with turnStatus (default in_progress) that was not changed for this many hours.",
    ),
}
QUERY_HISTORY = params(
    {
        **HISTORY_FIELDS,
        "status": Choice(values=("in_progress", "completed"), description="Status of the session."),
    }
)

# Fields of records from elsewhere: beyond the rich fields, or less strict than them.
_RECORDED: dict[str, Field] = {
    "processingDialog": ListOf(
        item=Record(
            fields={
                **DIALOG.fields,
                "content": MaybeBlank(
                    required=True, lines=True, signs=True, description=DIALOG.fields["content"].description
                ),
            }
        ),
        description=RICH["processingDialog"].description,
    ),
    "queryTitle": replace(QUERY_TITLE, description=f"{QUERY_TITLE.description} Default: requestId."),
    "queryText": replace(QUERY_TEXT, description=f"{QUERY_TEXT.description} Default: queryTitle."),
    "status": Text(
        max_chars=NAME_CHARS,
        description="How the turn stands, by how the word begins. completed or partial: it is stored as completed. "
        "failed, interrupted, superseded or cancel: as failed. Any other word, or left out: as in_progress.",
        examples=("completed",),
    ),
    "failureNote": Text(lines=True, signs=True, max_chars=ERROR_CHARS, description="Why the turn failed."),
}
AMENDMENT = Record(
    fields={
        "at": replace(DIALOG.fields["timestamp"], description="When it was added, ISO 8601 with zone. Default: now."),
        "source": Text(max_chars=NAME_CHARS, description="Who added it. Default: import."),
        "fields": TurnFields(
            required=True,
            fields={**RICH, **_RECORDED},
            description='What it adds: fields of a turn, such as {"tags": ["bug"]}.',
        ),
    }
)
IMPORT_TURN = Record(
    fields={
        **TURN_OBJECT.fields,
        **_RECORDED,
        "requestId": replace(
            required(REQUEST_ID),
            description="Id of the turn, `req-<yyyyMMddTHHmmssZ>-<slug>`, unique in its session.",
            examples=("req-20260701T080005Z-upload-001",),
        ),
        "timestamp": replace(
            DIALOG.fields["timestamp"],
            description="When it began, ISO 8601 with zone. Default: the time in requestId.",
        ),
        "sourceThreadId": Text(
            max_chars=NAME_CHARS,
            description="Id of the subagent's thread that the turn is from. Default: the session itself.",
        ),
        "amendments": ListOf(item=AMENDMENT, description="What was added to the turn after its end."),
    }
)
SESSION_OBJECT_FIELDS: dict[str, Field] = {
    "agent": required(AGENT),
    "sessionId": NEW_SESSION_ID,
    "title": required(TITLE),
    "model": MODEL,
    "started": replace(DIALOG.fields["timestamp"], description="When it began, ISO 8601 with zone. Default: now."),
    "lastUpdated": replace(
        DIALOG.fields["timestamp"], description="When it was last changed, ISO 8601 with zone. Default: now."
    ),
    "status": Text(
        max_chars=NAME_CHARS,
        description="completed: a session that is not known yet is stored as closed. Any other word, or left out: as "
        "suspended. An existing session keeps its state.",
        examples=("completed",),
    ),
    **HEADERS,
    "tags": replace(LISTS["tags"], description="Labels of the session as a whole."),
    # Fields that only the store sets: accepted, so that a session can be sent back as it was read.
    **{name: Anything(listed=False) for name in ("turnCount", "totalTokens", "workspace", "state")},
    "turns": ListOf(item=IMPORT_TURN, max_items=IMPORT_TURNS, description="Turns in any order, at most 5,000."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeOrFields(Params):
    """Parameters that come as one object, named `sessionLog`, or else as its fields."""

    whole: Params

    def read(self, given: object, *, strict: bool) -> tuple[dict[str, Any], list[str]]:
        """Read the form that was given."""
        return self.whole.read(given, strict=strict) if _is_whole(given) else Params.read(self, given, strict=strict)


def _is_whole(given: object) -> bool:
    named: Mapping[object, object] = cast(Mapping[object, object], given) if isinstance(given, Mapping) else {}
    return any(str(name).lower() == "sessionlog" and value is not None for name, value in named.items())


IMPORT = WholeOrFields(
    record=Record(fields={**SESSION_OBJECT_FIELDS, "idempotencyKey": KEY}),
    aliases=ALIASES,
    whole=params({"sessionLog": Record(required=True, fields=SESSION_OBJECT_FIELDS), "idempotencyKey": KEY}),
)
