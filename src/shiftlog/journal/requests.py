"""The parameters of the journal's writes: one table each, from which both schema and check come."""

from shiftlog.journal.merge import CLEARABLE
from shiftlog.model.errors import InvalidParameter
from shiftlog.model.fields import (
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
)
from shiftlog.model.ids import AGENT_PATTERN
from shiftlog.model.times import parse

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
TIERS = ("maximo", "alto", "medio", "bajo", "muy_bajo")


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
    description="Session id, run alias, or vendor session id (UUID).",
)
REQUEST_ID = Text(description="The turn; default: the one begun last.")
IDEMPOTENCY_KEY = Text(
    max_chars=KEY_CHARS,
    description="Repeats return the first answer.",
)
FENCE = Integer(minimum=0, description="Fence of your lease; an old one is refused.")
COMMON: dict[str, Field] = {"idempotency_key": IDEMPOTENCY_KEY, "fence": FENCE}

PLAN_FILE = Text(max_chars=PLAN_FILE_CHARS, check=_check_plan_file, description="Plan file, without `..`.")
TAGS = ListOf(item=Text(max_chars=NAME_CHARS), description="Labels; added.")
CONTEXT_LIST = ListOf(item=Text(max_chars=PATH_CHARS), description="Files and sources read; added.")

RUN_FIELDS: dict[str, Field] = {
    "model": Text(max_chars=NAME_CHARS, description="Model, kept as given."),
    "reasoning_effort": Text(max_chars=40, description="Effort; default from the tier."),
    "resonance_tier": Choice(values=TIERS, description="Tier; default from the caller."),
    "backend": Text(max_chars=NAME_CHARS, description="claude_code, codex, …; default by agent."),
    "caller": Text(max_chars=NAME_CHARS, description="Client that launches the run."),
    "session_type": Choice(values=SESSION_TYPES, description="Kind of run."),
    "cwd": Text(max_chars=PATH_CHARS, description="Working directory; default: the client's."),
    "pid": Integer(minimum=1, maximum=2**31 - 1, description="Pid of the agent, to notice its end."),
    "context_excerpt": Text(
        lines=True,
        max_chars=2**31,
        description="Prompt; its first 2,048 characters are kept.",
    ),
}

OPEN_SESSION = Record(
    fields={
        "agent": Text(
            required=True,
            max_chars=64,
            pattern=AGENT_PATTERN,
            pattern_says="PascalCase letters and digits, such as ClaudeCode",
            description="Kind: ClaudeCode, Codex, …",
        ),
        "title": Text(required=True, max_chars=TITLE_CHARS, description="What the session is for."),
        "session_id": Text(description="Own id `<Agent>-<yyyyMMddTHHmmssZ>-<suffix>`; default: minted."),
        "agent_id": Text(max_chars=NAME_CHARS, description="Stable name to resume by; default: the kind."),
        **RUN_FIELDS,
        "parent_session_id": SessionRef(description="Session that spawned this one."),
        "vendor_session_id": Text(max_chars=NAME_CHARS, description="The agent's own session id (UUID)."),
        "transcript_path": Text(max_chars=PATH_CHARS, description="The agent's transcript file."),
        "tags": ListOf(item=Text(max_chars=NAME_CHARS), max_items=50, description="Labels of the session."),
        "exclusive": Boolean(description="True: writers must present the fence."),
        "idempotency_key": IDEMPOTENCY_KEY,
    }
)

BEGIN_TURN = Record(
    fields={
        "session_id": SESSION_ID,
        "query_title": Text(required=True, max_chars=TITLE_CHARS, description="The request in one line."),
        "query_text": Text(required=True, lines=True, description="The request in full."),
        "request_id": Text(description="Own id `req-<yyyyMMddTHHmmssZ>-<slug>`; default: minted."),
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
        "role": Choice(required=True, values=ROLES, description="Speaker."),
        "category": Choice(required=True, values=CATEGORIES, description="Kind."),
        "content": Text(required=True, lines=True, description="Text."),
        "timestamp": Text(max_chars=64, check=_check_time, description="ISO 8601 with zone; default: now."),
    }
)
ACTION_ITEM = Record(
    fields={
        "description": Text(required=True, lines=True, max_chars=DESCRIPTION_CHARS, description="What was done."),
        "type": Text(
            required=True,
            pattern=r"[a-z][a-z0-9_]{0,63}",
            pattern_says="lower_snake_case, such as " + ", ".join(STANDARD_ACTION_TYPES),
            description="edit, create, delete, design_decision, commit, pr_comment, issue_comment, web_reference, "
            "dependency_add or other.",
        ),
        "status": Choice(required=True, values=ACTION_STATUSES, description="State."),
        "order": Integer(minimum=0, description="Position; default: highest + 1."),
        "file_path": Text(max_chars=PATH_CHARS, description="The file touched."),
    }
)
COMMIT_ITEM = Record(
    fields={
        "sha": Text(required=True, max_chars=NAME_CHARS, description="Commit id."),
        "branch": Text(max_chars=PATH_CHARS, description="Branch."),
        "message": Text(lines=True, description="Message."),
        "author": Text(max_chars=TITLE_CHARS, description="Author."),
        "timestamp": Text(max_chars=64, description="Time of the commit."),
        "files_changed": ListOf(item=Text(max_chars=PATH_CHARS), description="Files."),
    }
)
USAGE = Record(
    fields={
        "input_tokens": Integer(minimum=0, description="Fresh."),
        "cached_input_tokens": Integer(minimum=0, description="Read from cache."),
        "cache_creation_tokens": Integer(minimum=0, description="Written to cache."),
        "output_tokens": Integer(minimum=0, description="All output."),
        "reasoning_tokens": Integer(minimum=0, description="Part of output."),
        "cost_usd": Number(description="Cost where known."),
    },
    description="Tokens and cost to add.",
)

TURN_FIELDS: dict[str, Field] = {
    "response": Text(lines=True, description="Answer given; replaces."),
    "interpretation": Text(lines=True, description="How the request is understood."),
    "query_title": Text(max_chars=TITLE_CHARS, description="A better title."),
    "token_count": Integer(minimum=0, maximum=2**53 - 1, description="Tokens of the turn so far."),
    "tags": TAGS,
    "context_list": CONTEXT_LIST,
    "design_decisions": ListOf(item=Text(lines=True), description="Decisions and why; added."),
    "requirements_discovered": ListOf(item=Text(lines=True), description="Requirement ids; added."),
    "files_modified": ListOf(item=Text(max_chars=PATH_CHARS), description="Files changed; added."),
    "blockers": ListOf(item=Text(lines=True), description="What stands in the way; added."),
    "commits": ListOf(item=COMMIT_ITEM, description="Commits; added by sha."),
    "dialog": ListOf(item=DIALOG_ITEM, max_items=APPEND_ITEMS, description="Dialog to append."),
    "actions": ListOf(item=ACTION_ITEM, max_items=APPEND_ITEMS, description="Actions to append."),
    "usage": USAGE,
    "clear": ListOf(
        item=Choice(values=CLEARABLE),
        description="Fields to empty.",
    ),
}

UPDATE_TURN = Record(fields={"session_id": SESSION_ID, "request_id": REQUEST_ID, **TURN_FIELDS, **COMMON})

FINISH_TURN = Record(
    fields={
        "session_id": SESSION_ID,
        "outcome": Choice(required=True, values=("completed", "failed"), description="How the turn ended."),
        "request_id": REQUEST_ID,
        "error_message": Text(lines=True, max_chars=ERROR_CHARS, description="Required when failed."),
        "error_code": Text(max_chars=NAME_CHARS, description="Short code of the failure."),
        "response": Text(lines=True, description="Required when completed, unless stored."),
        **{
            name: Repeated(field=spec, description="As in update_turn.")
            for name, spec in TURN_FIELDS.items()
            if name != "response"
        },
        **COMMON,
    }
)
