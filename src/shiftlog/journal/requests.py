"""The parameters of opening sessions and writing turns: one table per call, for its schema and its check."""

from shiftlog.journal.merge import CLEARABLE
from shiftlog.model.errors import InvalidParameter
from shiftlog.model.ids import AGENT_PATTERN
from shiftlog.model.limits import PATH_CHARS
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
    SessionRef,
    Text,
    unlisted,
)

TITLE_CHARS = 500
NAME_CHARS = 200
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


SESSION_ID = SessionRef(required=True, description="Its run_id or session_id.", examples=(1,))
REQUEST_ID = Text(lines=True, description="The turn. Default: your open turn.")
IDEMPOTENCY_KEY = Text(
    max_chars=KEY_CHARS,
    description="Any text unique to this call. A retry with the same key returns the first answer and writes nothing.",
)
FENCE = Integer(
    minimum=0,
    description="lease.fence from open_session or resume_session. Needed only if the session is exclusive.",
)
# For clients that retry or share a lease; an agent's own client needs neither.
COMMON: dict[str, Field] = unlisted({"idempotency_key": IDEMPOTENCY_KEY, "fence": FENCE})

PLAN_FILE = Text(
    max_chars=PLAN_FILE_CHARS,
    check=_check_plan_file,
    description="Path of the plan that the turn follows, without `..`.",
)
TAGS = ListOf(item=Text(lines=True, max_chars=NAME_CHARS), description="Labels to find it by.")
CONTEXT_LIST = ListOf(item=Text(lines=True, max_chars=PATH_CHARS), description="Files and addresses that you read.")

PROMPT = Text(
    lines=True,
    signs=True,
    max_chars=2**31,
    description="The prompt that the run starts with; the first 2,048 characters are kept.",
)
RUN_FIELDS: dict[str, Field] = {
    "model": Text(
        max_chars=NAME_CHARS,
        description="Your model, such as gpt-5.2. Gives the session a run_id and prices its tokens.",
    ),
    "reasoning_effort": Text(max_chars=40, description="Effort setting of the model, kept as given."),
    "resonance_tier": Choice(values=TIERS, or_blank=True, description="Tier of model and effort."),
    "backend": Text(max_chars=NAME_CHARS, description="Program that runs the agent. Default: that of the agent kind."),
    "caller": Text(max_chars=NAME_CHARS, description="Client that launches the run."),
    "session_type": Choice(
        values=SESSION_TYPES, or_blank=True, description="Whether a person is at the run, and how. Blank: the default."
    ),
    "cwd": Text(max_chars=PATH_CHARS, description="Working directory. Default: the client's."),
    "pid": Integer(minimum=1, maximum=2**32 - 1, or_blank=True, description="Process id of the agent."),
    "context_excerpt": PROMPT,
}

OPEN_SESSION = Record(
    fields={
        "agent": Text(
            required=True,
            max_chars=64,
            pattern=AGENT_PATTERN,
            pattern_says="PascalCase letters and digits, such as ClaudeCode",
            description="The kind of agent that you are, one word in PascalCase.",
            examples=("ClaudeCode", "Codex"),
        ),
        "title": Text(
            required=True,
            lines=True,
            max_chars=TITLE_CHARS,
            description="What the work is for, in one line.",
            examples=("Fix the cart total",),
        ),
        "agent_id": Text(
            max_chars=NAME_CHARS,
            description="Your stable name, the same in every shift, for resume_session. Default: the value of "
            "agent, which all of your kind share; a sub-agent gives its own.",
            examples=("cart-fixer",),
        ),
        **unlisted(RUN_FIELDS, *(RUN_FIELDS.keys() - {"model"})),
        "parent_session_id": SessionRef(
            description="If you are a sub-agent: the session that started you, run_id or session_id."
        ),
        **unlisted(
            {
                "tags": ListOf(item=Text(lines=True, max_chars=NAME_CHARS), max_items=50, description=TAGS.description),
                "exclusive": Boolean(description="true: a write counts only with the right fence."),
                "idempotency_key": IDEMPOTENCY_KEY,
                "session_id": Text(lines=True, description="Your own id, `<Agent>-<yyyyMMddTHHmmssZ>-<slug>`."),
                "vendor_session_id": Text(max_chars=NAME_CHARS, description="The client's own id of the session."),
                "transcript_path": Text(max_chars=PATH_CHARS, description="The client's transcript of the session."),
            }
        ),
    }
)

BEGIN_TURN = Record(
    fields={
        "session_id": SESSION_ID,
        "query_title": Text(required=True, lines=True, max_chars=TITLE_CHARS, description="The request in one line."),
        "query_text": Text(required=True, lines=True, signs=True, description="The request in full, as you got it."),
        **COMMON,
        **unlisted(
            {
                "tags": TAGS,
                "context_list": CONTEXT_LIST,
                "request_id": Text(lines=True, description="Your own id, `req-<yyyyMMddTHHmmssZ>-<slug>`."),
                "model": Text(max_chars=NAME_CHARS, description="Model of this turn. Default: the session's."),
                "plan_file": PLAN_FILE,
                "todo_id": Text(max_chars=NAME_CHARS, description="To-do item that the turn works on."),
            }
        ),
    }
)

DIALOG_ITEM = Record(
    fields={
        "role": Choice(required=True, values=ROLES, description="Who said it; model is you."),
        "category": Choice(required=True, values=CATEGORIES, description="What it is."),
        "content": Text(required=True, lines=True, signs=True, description="The text."),
        "timestamp": Text(
            max_chars=64,
            check=_check_time,
            description="When, ISO 8601 with zone. Default: now.",
            format="date-time",
            listed=False,
        ),
    }
)
ACTION_ITEM = Record(
    fields={
        "description": Text(
            required=True,
            lines=True,
            signs=True,
            max_chars=DESCRIPTION_CHARS,
            description="What is done or planned.",
        ),
        "type": Text(
            required=True,
            pattern=r"[a-z][a-z0-9_]{0,63}",
            pattern_says="lower_snake_case, such as " + ", ".join(STANDARD_ACTION_TYPES),
            description="Any lower_snake_case word: edit, create, delete, test, …",
        ),
        "status": Choice(required=True, values=ACTION_STATUSES, description="pending: planned."),
        "order": Integer(minimum=0, description="Your number for it: 1, 2, …; default: the next."),
        "file_path": Text(lines=True, max_chars=PATH_CHARS, description="Its file, relative to the workspace."),
    }
)
COMMIT_ITEM = Record(
    fields={
        "sha": Text(required=True, max_chars=NAME_CHARS, description="Its id, full or short."),
        "branch": Text(max_chars=PATH_CHARS, description="Its branch."),
        "message": Text(lines=True, signs=True, description="Its message."),
        **unlisted(
            {
                "files_changed": ListOf(item=Text(lines=True, max_chars=PATH_CHARS), description="Paths."),
                "author": Text(max_chars=TITLE_CHARS, description="Author."),
                "timestamp": Text(max_chars=64, description="Time, ISO 8601."),
            }
        ),
    }
)
USAGE = Record(
    fields={
        "input_tokens": Integer(minimum=0, description="Input, not cached."),
        "cached_input_tokens": Integer(minimum=0, description="Input read from the cache."),
        "cache_creation_tokens": Integer(minimum=0, description="Input written to the cache."),
        "output_tokens": Integer(minimum=0, description="Output, reasoning included."),
        "reasoning_tokens": Integer(minimum=0, description="Reasoning part of the output."),
        "cost_usd": Number(description="US dollars; default: computed from the tokens."),
    },
    description="Tokens and cost since your last report; the first time, of the whole turn.",
)

_SENTENCE = Text(lines=True, signs=True)
TURN_FIELDS: dict[str, Field] = {
    "response": Text(lines=True, signs=True, description="Your answer so far."),
    "design_decisions": ListOf(item=_SENTENCE, description="Decisions, each with its reason."),
    "files_modified": ListOf(
        item=Text(lines=True, max_chars=PATH_CHARS), description="Files that you changed, relative to the workspace."
    ),
    "next": ListOf(item=_SENTENCE, description="What is left to do after this request."),
    "blockers": ListOf(item=_SENTENCE, description="What stands in the way."),
    "do_not": ListOf(item=_SENTENCE, description="What must not be done."),
    "refuted": ListOf(item=_SENTENCE, description="What was tried or believed and proved wrong."),
    "actions": ListOf(
        item=ACTION_ITEM,
        max_items=APPEND_ITEMS,
        description="Steps, done or planned.",
        examples=([{"order": 1, "type": "test", "description": "Write a failing test", "status": "pending"}],),
    ),
    "commits": ListOf(item=COMMIT_ITEM, description="Your commits."),
    "usage": USAGE,
    **unlisted(
        {
            "query_title": Text(lines=True, max_chars=TITLE_CHARS, description="A better title of the turn."),
            "token_count": Integer(
                minimum=0, maximum=2**53 - 1, description="Tokens of the turn so far; usage says it by kind."
            ),
            "dialog": ListOf(
                item=DIALOG_ITEM, max_items=APPEND_ITEMS, description="Messages and thoughts worth keeping; appended."
            ),
            "interpretation": Text(lines=True, signs=True, description="How you understand the request."),
            "requirements_discovered": ListOf(item=_SENTENCE, description="Ids of requirements found."),
            "context_list": CONTEXT_LIST,
            "tags": TAGS,
            "clear": ListOf(item=Choice(values=CLEARABLE), description="Text and list fields to empty first."),
        }
    ),
}

UPDATE_TURN = Record(fields={"session_id": SESSION_ID, "request_id": REQUEST_ID, **TURN_FIELDS, **COMMON})

# The fields of update_turn are accepted here too, and stored first.
FINISH_TURN = Record(
    fields={
        "session_id": SESSION_ID,
        "outcome": Choice(required=True, values=("completed", "failed"), description="How the request ended."),
        "response": Text(
            lines=True,
            signs=True,
            description="The answer that you gave. Required when completed, unless update_turn stored one.",
        ),
        "error_message": Text(
            lines=True, signs=True, max_chars=ERROR_CHARS, description="Why it failed. Required when failed."
        ),
        "request_id": REQUEST_ID,
        **COMMON,
        **unlisted(
            {
                "error_code": Text(max_chars=NAME_CHARS, description="A short code of your own, such as no_network."),
                **{name: spec for name, spec in TURN_FIELDS.items() if name != "response"},
            }
        ),
    }
)
