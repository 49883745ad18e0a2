"""The parameters of the session log's methods, one table each, under the names that its clients use.

Limits and enumerations come from `journal.requests`. `read` returns checked values under the journal's names.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

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
    PATH_CHARS,
    PLAN_FILE,
    TITLE_CHARS,
)
from shiftlog.model.errors import InvalidParameter
from shiftlog.model.ids import AGENT_PATTERN
from shiftlog.model.moves import TurnStatus
from shiftlog.params.fields import Choice, Field, Integer, ListOf, Record, Schema, Text, as_name

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Anything(Field):
    """A part that is accepted and ignored."""

    def read(self, value: object, path: str) -> Any:
        return None

    def type_schema(self) -> Schema:
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFields(Record):
    """Fields of a turn in a context beside the turn itself, whose schema names them already."""

    def type_schema(self) -> Schema:
        return {"type": "object"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MaybeBlank(Text):
    """A text that must be there and may be blank, as the output of a command that printed nothing."""

    def read(self, value: object, path: str) -> str:
        return Text(lines=self.lines, signs=self.signs, max_chars=self.max_chars).read(value, path)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonOf(Field):
    """A value, or its JSON text; one that was recorded elsewhere may have unknown parts."""

    inner: Field
    recorded_elsewhere: bool = False

    def read(self, value: object, path: str) -> Any:
        return self.inner.read(value, path)

    def decoded(self, value: object, path: str) -> Any:
        """Return the value that a text stands for; raise InvalidParameter for a text that is no JSON."""
        if not isinstance(value, str):
            return value
        if not value.strip():
            return None
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            raise InvalidParameter.invalid(path, "a value or its JSON text is expected", value) from None

    def type_schema(self) -> Schema:
        schema = self.inner.type_schema()
        kind = schema.get("type")
        return {**schema, "type": [kind, "string"]} if isinstance(kind, str) else schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """The parameters of a method; `aliases` are other spellings of a name, folded to lower case."""

    record: Record
    aliases: Mapping[str, str]

    def read(self, given: object, *, strict: bool) -> tuple[dict[str, Any], list[str]]:
        """Return the checked values under the journal's names, and which names were ignored.

        Names match in any case. Unknown names are ignored, or refused by a strict reading.
        """
        if not isinstance(given, Mapping):
            raise InvalidParameter.invalid("params", "an object is expected", given)
        naming = _Naming(aliases=self.aliases, strict=strict)
        named = naming.named(self.record, cast(Mapping[Any, Any], given), "")
        return to_native(self.record.read(named)), naming.ignored


@dataclass(frozen=True, slots=True, kw_only=True)
class _Naming:
    """Brings what was given under the names that records have; in a strict one unknown names stay, to be refused."""

    aliases: Mapping[str, str]
    strict: bool
    ignored: list[str] = field(default_factory=list[str])

    def named(self, record: Record, given: Mapping[Any, Any], path: str) -> dict[str, Any]:
        """Return the values under the names of a record, with the records inside them."""
        known = {name.lower(): name for name in record.fields}
        known |= {other: name for other, name in self.aliases.items() if name in record.fields}
        named: dict[str, Any] = {}
        for key, value in given.items():
            name = key if key in record.fields else known.get(str(key).lower())
            if name is None:
                if self.strict:
                    named[key] = value
                elif value is not None:
                    self.ignored.append(f"{path}{key}".encode("utf-8", "replace").decode("utf-8"))
            elif not _says_nothing(record.fields[name], value) and (
                _is_blank(named.get(name)) or (name == key and not _is_blank(value))
            ):
                named[name] = self._inside(record.fields[name], value, f"{path}{name}")
        return named

    def _inside(self, spec: Field, value: Any, path: str) -> Any:
        if isinstance(spec, JsonOf):
            naming = replace(self, strict=False) if spec.recorded_elsewhere else self
            return naming._inside(spec.inner, spec.decoded(value, path), path)
        if isinstance(spec, Record) and isinstance(value, Mapping):
            return self.named(spec, cast(Mapping[Any, Any], value), f"{path}.")
        if isinstance(spec, ListOf) and isinstance(spec.item, Record) and isinstance(value, list | tuple):
            items = cast(Sequence[Any], value)
            return [self._inside(spec.item, item, f"{path}[{n}]") for n, item in enumerate(items)]
        return value


def _says_nothing(spec: Field, value: object) -> bool:
    """Return True if a value counts as absent; for a list any empty value does."""
    if isinstance(spec, Choice | Integer | Text) and not spec.required:
        return _is_blank(value)
    return value is None or (isinstance(spec, ListOf) and (value == {} or _is_blank(value)))


def _is_blank(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def to_native(value: Any) -> Any:
    """Return a value with its names as the journal writes them: `filePath` becomes `file_path`."""
    if isinstance(value, dict):
        items = cast(dict[str, Any], value)
        return {native_name(name): to_native(item) for name, item in items.items()}
    if isinstance(value, list):
        return [to_native(item) for item in cast(list[Any], value)]
    return value


def native_name(name: str) -> str:
    """Return the journal's name of a field."""
    if name in ("processingDialog", "dialogItems"):
        return "dialog"
    return re.sub(r"[A-Z]", lambda letter: "_" + letter[0].lower(), name)


def dialect_name(name: str) -> str:
    """Return the dialect's name of a field of the journal."""
    if name == "dialog":
        return "processingDialog"
    return re.sub(r"_([a-z])", lambda letter: letter[1].upper(), name)


def to_dialect(value: Any) -> Any:
    """Return a value with its names as the dialect writes them."""
    if isinstance(value, Mapping):
        items = cast(Mapping[str, Any], value)
        return {dialect_name(name): to_dialect(item) for name, item in items.items()}
    if isinstance(value, list | tuple):
        return [to_dialect(item) for item in cast(Sequence[Any], value)]
    return value


def _camel(record: Record) -> Record:
    """Return a record of the journal under the dialect's names; its clients see every field listed."""
    fields = {dialect_name(name): replace(spec, listed=True) for name, spec in record.fields.items()}
    return Record(fields=fields, description=record.description)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOrNumber(Text):
    """A text that may come as a number: the alias of a run, an order or a context."""

    def read(self, value: object, path: str) -> str:
        return Text.read(self, as_name(value), path)

    def type_schema(self) -> Schema:
        return {"type": ["string", "integer"]}


# Fields

AGENT = Text(
    max_chars=64,
    pattern=AGENT_PATTERN,
    pattern_says="PascalCase letters and digits, such as ClaudeCode",
    description="Agent kind in PascalCase, the part of the session id before its first `-`.",
)
# Ids have checks and errors of their own, so that any text gets as far as those.
SESSION_ID = TextOrNumber(lines=True, description="The session, `<Agent>-<yyyyMMddTHHmmssZ>-<suffix>`.")
REQUEST_ID = Text(lines=True, description="The turn, `req-<yyyyMMddTHHmmssZ>-<slug>`.")
TITLE = Text(lines=True, max_chars=TITLE_CHARS, description="What the session is for, 1..500 characters.")
QUERY_TITLE = Text(lines=True, max_chars=TITLE_CHARS, description="The request in one line.")
QUERY_TEXT = Text(lines=True, signs=True, description="The request in full.")
MODEL = Text(max_chars=NAME_CHARS, description="Model name; `unknown` counts as not given.")
TODO = Text(max_chars=NAME_CHARS, description="To-do item that the turn works on.")
RESPONSE = Text(lines=True, signs=True, description="The answer given.")
KEY = Text(
    max_chars=KEY_CHARS,
    description="Text unique to this call; a retry with the same key and parameters returns the first result.",
)
HEADER = Text(max_chars=PATH_CHARS, description="Fact about the agent's own program or session.")

ACTION = _camel(ACTION_ITEM)
DIALOG = _camel(DIALOG_ITEM)
COMMIT = _camel(COMMIT_ITEM)

# The facts about the agent's own session and program, and the journal's names of them.
HEADER_FACTS = {
    "agentSessionId": "vendor_session_id",
    "agentSessionTranscriptFile": "transcript_path",
    "agentExecutablePath": "executable_path",
    "agentExecutableVersion": "executable_version",
}
HEADERS: dict[str, Field] = dict.fromkeys(HEADER_FACTS, HEADER)
LISTS: dict[str, Field] = {
    "tags": ListOf(item=Text(lines=True, max_chars=NAME_CHARS), description="Labels; added to those stored."),
    "contextList": ListOf(item=Text(lines=True, max_chars=PATH_CHARS), description="Files or sources read; added."),
    "designDecisions": ListOf(item=Text(lines=True, signs=True), description="Decisions with reasons; added."),
    "requirementsDiscovered": ListOf(item=Text(lines=True, signs=True), description="Requirement ids; added."),
    "filesModified": ListOf(item=Text(lines=True, max_chars=PATH_CHARS), description="Files changed; added."),
    "blockers": ListOf(item=Text(lines=True, signs=True), description="What stands in the way; added."),
    "commits": ListOf(item=COMMIT, description="Commits made; added by sha."),
}
PLAIN: dict[str, Field] = {
    "interpretation": Text(lines=True, signs=True, description="How the request was understood."),
    "response": RESPONSE,
    "planFile": PLAN_FILE,
    "todoId": TODO,
    "model": MODEL,
    "modelProvider": Text(max_chars=NAME_CHARS, description="Who serves the model."),
    "tokenCount": Integer(minimum=0, maximum=2**53 - 1, description="Tokens of the turn so far."),
}
# Plain fields can be cleared as well as lists.
CLEARABLE = SECTIONS | {name: native_name(name) for name in PLAIN}
RICH: dict[str, Field] = {
    **PLAIN,
    **LISTS,
    "actions": ListOf(item=ACTION, description="Actions; those stored already are not stored twice."),
    "processingDialog": ListOf(item=DIALOG, description="Dialog items; those stored already are not stored twice."),
}
# The parts of a turn object that rich fields do not cover: accepted, so that a turn can be sent back as it was read.
REST_OF_TURN: dict[str, Field] = {
    name: Anything() for name in ("timestamp", "queryTitle", "queryText", "status", "failureNote", "amendments")
}
TURN_OBJECT = Record(fields={**REST_OF_TURN, "requestId": REQUEST_ID, **RICH})

ADDRESS: dict[str, Field] = {
    "sessionId": SESSION_ID,
    "agent": AGENT,
    "requestId": REQUEST_ID,
    "turnRequestId": REQUEST_ID,
    "idempotencyKey": KEY,
}
ALIASES = {"sourcetype": "agent"}


def required(spec: Text) -> Text:
    """Return a field that must be given."""
    return replace(spec, required=True)


def params(fields: dict[str, Field], **aliases: str) -> Params:
    """Return what a method with these fields takes."""
    return Params(record=Record(fields=fields), aliases=ALIASES | aliases)


def _turn_params(fields: dict[str, Field], **aliases: str) -> Params:
    return params({**fields, **ADDRESS}, **aliases)


# A new session has a name: the number of a run is none.
NEW_SESSION_ID = Text(required=True, lines=True, description=SESSION_ID.description)
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
        "planFile": PLAN_FILE,
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
    "agent": AGENT,
    "model": Text(max_chars=NAME_CHARS, description="Part of the model name, in any case."),
    "text": Text(lines=True, max_chars=DESCRIPTION_CHARS, description='Terms, "phrases", && || ! and parentheses.'),
    "from": Text(max_chars=64, description="Started at or after this date or time."),
    "to": Text(max_chars=64, description="Last updated at or before this date or time."),
    "limit": Integer(minimum=0, maximum=HISTORY_LIMIT, description="Sessions per page, 0..1000; 0 only counts."),
    "offset": Integer(minimum=0, maximum=2**63 - 1, description="How many sessions to pass over."),
    "turnStatus": Choice(values=tuple(map(str, TurnStatus)), description="Has a turn with this status."),
    "planFile": Text(max_chars=PLAN_FILE.max_chars, description="Has a turn with this plan file."),
    "todoId": Text(max_chars=NAME_CHARS, description="Has a turn for this to-do item."),
    "staleOlderThanHours": Integer(
        minimum=0, maximum=MOST_HOURS, description="Has a turn of turnStatus (in_progress) untouched that long."
    ),
}
QUERY_HISTORY = params(
    {
        **HISTORY_FIELDS,
        "status": Choice(values=("in_progress", "completed"), description="Status of the session."),
    }
)

# What was recorded elsewhere beyond the rich fields, or is less strict than in them.
_RECORDED: dict[str, Field] = {
    "processingDialog": ListOf(
        item=Record(fields={**DIALOG.fields, "content": MaybeBlank(required=True, lines=True, signs=True)}),
        description=RICH["processingDialog"].description,
    ),
    "queryTitle": QUERY_TITLE,
    "queryText": QUERY_TEXT,
    "status": Text(max_chars=NAME_CHARS),
    "failureNote": Text(lines=True, signs=True, max_chars=ERROR_CHARS),
}
AMENDMENT = Record(
    fields={
        "at": DIALOG.fields["timestamp"],
        "source": Text(max_chars=NAME_CHARS),
        "fields": TurnFields(required=True, fields={**RICH, **_RECORDED}),
    }
)
IMPORT_TURN = Record(
    fields={
        **TURN_OBJECT.fields,
        **_RECORDED,
        "requestId": required(REQUEST_ID),
        "timestamp": DIALOG.fields["timestamp"],
        "sourceThreadId": Text(max_chars=NAME_CHARS),
        "amendments": ListOf(item=AMENDMENT),
    }
)
SESSION_OBJECT_FIELDS: dict[str, Field] = {
    "agent": required(AGENT),
    "sessionId": NEW_SESSION_ID,
    "title": required(TITLE),
    "model": MODEL,
    "started": DIALOG.fields["timestamp"],
    "lastUpdated": DIALOG.fields["timestamp"],
    "status": Text(max_chars=NAME_CHARS),
    **HEADERS,
    "tags": LISTS["tags"],
    # What only the store knows: accepted, so that a session can be sent back as it was read.
    **{name: Anything() for name in ("turnCount", "totalTokens", "workspace", "state")},
    "turns": ListOf(item=IMPORT_TURN, max_items=IMPORT_TURNS),
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
