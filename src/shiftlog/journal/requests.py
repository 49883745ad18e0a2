"""The parameters of opening sessions and writing turns: one table per call, for its schema and its check."""

from shiftlog.journal.merge import CLEARABLE
from shiftlog.model.errors import InvalidParameter
from shiftlog.model.ids import AGENT_PATTERN
from shiftlog.model.resonance import TIERS
from shiftlog.model.times import parse
from shiftlog.params.fields import (
    Boolean,
    Choice,
    Field,
    Integer,
    ListOf,
    Number,
    Record,
    Repeated,
    SessionRef,
    Text,
    TypeOnly,
)

TITLE_CHARS = 500
NAME_CHARS = 200
PATH_CHARS = 4_096
PLAN_FILE_CHARS = 2_048
DESCRIPTION_CHARS = 8_192
ERROR_CHARS = 65_536
KEY_CHARS = 200
APPEND_ITEMS = 1_000

ROLES = ("model", "tool", "system", "user")
CATEGORIES = ("reasoning", "tool_call", "tool_result", "observation", "decision")
ACTION_STATUSES = ("completed", "in_progress", "failed", "pending")
STANDARD_ACTION_TYPES = (
    "edit",
    "create",
    "delete",
    "design_decision",
    "commit",
    "pr_comment",
    "issue_comment",
    "web_reference",
    "dependency_add",
)
KNOWN_ACTION_TYPES = frozenset(
    {
        *STANDARD_ACTION_TYPES,
        "session_log",
        "license_violation",
        "origin_violation",
        "origin_review",
        "entity_violation",
        "copilot_invocation",
        "policy_change",
    }
)
SESSION_TYPES = ("interactive_desktop", "interactive_chat", "headless")


def _check_plan_file(text: str, path: str) -> None:
    if ".." in text.replace("\\", "/").split("/"):
        raise InvalidParameter.invalid(path, "a path without '..'", text)


def _check_time(text: str, path: str) -> None:
    try:
        parse(text)
    except ValueError:
        raise InvalidParameter.invalid(path, "an ISO 8601 time with a zone is expected", text) from None


SESSION_ID = SessionRef(
    required=True,
    description="Id, run alias or vendor id.",
)
REQUEST_ID = Text(lines=True, description="Default: the one you began last.")
IDEMPOTENCY_KEY = Text(
    max_chars=KEY_CHARS,
    description="Safe repeats.",
)
FENCE = Integer(minimum=0, description="Of your lease.")
COMMON: dict[str, Field] = {"idempotency_key": IDEMPOTENCY_KEY, "fence": FENCE}

PLAN_FILE = Text(max_chars=PLAN_FILE_CHARS, check=_check_plan_file, description="Without `..`.")
TAGS = ListOf(item=Text(lines=True, max_chars=NAME_CHARS), description="Labels; added.")
CONTEXT_LIST = ListOf(item=Text(lines=True, max_chars=PATH_CHARS), description="What was read; added.")

PROMPT = Text(lines=True, signs=True, max_chars=2**31, description="Prompt.")
RUN_FIELDS: dict[str, Field] = {
    "model": Text(max_chars=NAME_CHARS, description="As given."),
    "reasoning_effort": Text(max_chars=40, description="Default from the tier."),
    "resonance_tier": Choice(values=TIERS, or_blank=True, description="Default from the caller."),
    "backend": Text(max_chars=NAME_CHARS, description="Default by agent."),
    "caller": Text(max_chars=NAME_CHARS, description="Who launches the run."),
    "session_type": Choice(values=SESSION_TYPES, or_blank=True, description="Kind of run."),
    "cwd": Text(max_chars=PATH_CHARS, description="Default: the client's."),
    "pid": Integer(minimum=1, maximum=2**32 - 1, or_blank=True, description="Of the agent."),
    "context_excerpt": PROMPT,
}

OPEN_SESSION = Record(
    fields={
        "agent": Text(
            required=True,
            max_chars=64,
            pattern=AGENT_PATTERN,
            pattern_says="PascalCase letters and digits, such as ClaudeCode",
            description="ClaudeCode, Codex, …",
        ),
        "title": Text(required=True, lines=True, max_chars=TITLE_CHARS, description="Its purpose."),
        "session_id": Text(lines=True, description="`<Agent>-<yyyyMMddTHHmmssZ>-<slug>`; minted."),
        "agent_id": Text(max_chars=NAME_CHARS, description="Stable name; default: the kind."),
        **RUN_FIELDS,
        "parent_session_id": SessionRef(description="Spawned this one."),
        "vendor_session_id": Text(max_chars=NAME_CHARS, description="The agent's own id."),
        "transcript_path": Text(max_chars=PATH_CHARS, description="The agent's transcript."),
        "tags": ListOf(item=Text(lines=True, max_chars=NAME_CHARS), max_items=50, description="Labels."),
        "exclusive": Boolean(description="Writers need the fence."),
        "idempotency_key": IDEMPOTENCY_KEY,
    }
)

BEGIN_TURN = Record(
    fields={
        "session_id": SESSION_ID,
        "query_title": Text(required=True, lines=True, max_chars=TITLE_CHARS, description="In one line."),
        "query_text": Text(required=True, lines=True, signs=True, description="In full."),
        "request_id": Text(lines=True, description="`req-<yyyyMMddTHHmmssZ>-<slug>`; minted."),
        "model": Text(max_chars=NAME_CHARS, description="Default: the session's."),
        "plan_file": PLAN_FILE,
        "todo_id": Text(max_chars=NAME_CHARS, description="To-do item."),
        "tags": TAGS,
        "context_list": CONTEXT_LIST,
        **COMMON,
    }
)

DIALOG_ITEM = Record(
    fields={
        "role": Choice(required=True, values=ROLES),
        "category": Choice(required=True, values=CATEGORIES),
        "content": Text(required=True, lines=True, signs=True),
        "timestamp": Text(max_chars=64, check=_check_time, description="ISO 8601."),
    }
)
ACTION_ITEM = Record(
    fields={
        "description": Text(required=True, lines=True, signs=True, max_chars=DESCRIPTION_CHARS),
        "type": Text(
            required=True,
            pattern=r"[a-z][a-z0-9_]{0,63}",
            pattern_says="lower_snake_case, such as " + ", ".join(STANDARD_ACTION_TYPES),
            description="edit, create, delete, commit, design_decision …",
        ),
        "status": Choice(required=True, values=ACTION_STATUSES),
        "order": Integer(minimum=0),
        "file_path": Text(lines=True, max_chars=PATH_CHARS),
    }
)
COMMIT_ITEM = Record(
    fields={
        "sha": Text(required=True, max_chars=NAME_CHARS),
        "branch": Text(max_chars=PATH_CHARS),
        "message": Text(lines=True, signs=True),
        "author": Text(max_chars=TITLE_CHARS),
        "timestamp": Text(max_chars=64),
        "files_changed": ListOf(item=Text(lines=True, max_chars=PATH_CHARS)),
    }
)
USAGE = Record(
    fields={
        "input_tokens": Integer(minimum=0, description="Not cached."),
        "cached_input_tokens": Integer(minimum=0),
        "cache_creation_tokens": Integer(minimum=0),
        "output_tokens": Integer(minimum=0),
        "reasoning_tokens": Integer(minimum=0, description="Part of output."),
        "cost_usd": Number(),
    },
    description="Tokens and cost to add.",
)

TURN_FIELDS: dict[str, Field] = {
    "response": Text(lines=True, signs=True, description="Answer given."),
    "interpretation": Text(lines=True, signs=True, description="As understood."),
    "query_title": Text(lines=True, max_chars=TITLE_CHARS, description="Better title."),
    "token_count": Integer(minimum=0, maximum=2**53 - 1, description="Of the turn so far."),
    "tags": TAGS,
    "context_list": CONTEXT_LIST,
    "design_decisions": ListOf(item=Text(lines=True, signs=True), description="Added."),
    "requirements_discovered": ListOf(item=Text(lines=True, signs=True), description="Ids; added."),
    "files_modified": ListOf(item=Text(lines=True, max_chars=PATH_CHARS), description="Added."),
    "blockers": ListOf(item=Text(lines=True, signs=True), description="What stands in the way; added."),
    "next": ListOf(item=Text(lines=True, signs=True), description="What to do next; added. In the capsule at once."),
    "do_not": ListOf(item=Text(lines=True, signs=True), description="What must not be done; added."),
    "refuted": ListOf(item=Text(lines=True, signs=True), description="What was tried and proved wrong; added."),
    "commits": ListOf(
        item=TypeOnly(inner=COMMIT_ITEM), description="sha, branch, message, author, timestamp, files_changed."
    ),
    "dialog": ListOf(item=DIALOG_ITEM, max_items=APPEND_ITEMS, description="Appended."),
    "actions": ListOf(
        item=ACTION_ITEM,
        max_items=APPEND_ITEMS,
        description="Appended; one with the order of an earlier one replaces it. Commands are recorded by themselves.",
    ),
    "usage": TypeOnly(
        inner=USAGE,
        description="To add: input_, cached_input_, cache_creation_, output_, reasoning_tokens, cost_usd.",
    ),
    "clear": ListOf(
        item=TypeOnly(inner=Choice(values=CLEARABLE)),
        description="Fields above to empty.",
    ),
}

UPDATE_TURN = Record(fields={"session_id": SESSION_ID, "request_id": REQUEST_ID, **TURN_FIELDS, **COMMON})

FINISH_TURN = Record(
    fields={
        "session_id": SESSION_ID,
        "outcome": Choice(required=True, values=("completed", "failed"), description="How it ended."),
        "request_id": REQUEST_ID,
        "error_message": Text(lines=True, signs=True, max_chars=ERROR_CHARS, description="Required when failed."),
        "error_code": Text(max_chars=NAME_CHARS, description="Short code."),
        "response": Text(lines=True, signs=True, description="Required when completed."),
        **{
            name: Repeated(inner=spec, description="See update_turn.")
            for name, spec in TURN_FIELDS.items()
            if name != "response"
        },
        **COMMON,
    },
    others="Any field of update_turn.",
)
