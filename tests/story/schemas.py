"""Walking what the journal's tools accept: every position in a tool's arguments, and what may not stand there."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from shiftlog.dialects.delx.requests import CLOSE_SESSION, RESUME_SESSION
from shiftlog.journal.history.requests import QUERY_HISTORY
from shiftlog.journal.requests import BEGIN_TURN, FINISH_TURN, OPEN_SESSION, UPDATE_TURN
from shiftlog.params.fields import Field, ListOf, Record

Schema = dict[str, Any]
Arguments = dict[str, Any]

LONG_CHARS = 1_048_577
DEEP = 200

_ACCEPTED: dict[str, Record] = {
    "open_session": OPEN_SESSION,
    "resume_session": RESUME_SESSION,
    "close_session": CLOSE_SESSION,
    "begin_turn": BEGIN_TURN,
    "update_turn": UPDATE_TURN,
    "finish_turn": FINISH_TURN,
    "query_history": QUERY_HISTORY,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """One value in a tool's arguments: its path as errors name it, its steps, its schema."""

    path: str
    steps: tuple[str | int, ...]
    schema: Schema

    @property
    def is_text(self) -> bool:
        """Say whether free text may stand here."""
        return "string" in self.schema["type"] and "enum" not in self.schema

    def holding(self, arguments: Arguments, value: object) -> Arguments:
        """Return the arguments with a value at this position."""
        changed = copy.deepcopy(arguments)
        at: Any = changed
        for step in self.steps[:-1]:
            at = at[step]
        at[self.steps[-1]] = value
        return changed


def input_schemas(listed: list[dict[str, Any]]) -> dict[str, Schema]:
    """Return the input schemas of the journal's tools as a client sees them."""
    return {tool["name"]: tool["inputSchema"] for tool in listed if tool["name"] in _ACCEPTED}


def accepted_schemas(listed: list[dict[str, Any]]) -> dict[str, Schema]:
    """Return the schemas of all that the listed journal tools accept, also of what their own schemas leave out."""
    return {tool["name"]: _whole(_ACCEPTED[tool["name"]]).type_schema() for tool in listed if tool["name"] in _ACCEPTED}


def _whole(field: Field) -> Any:
    """Return a field with all of its parts listed."""
    if isinstance(field, Record):
        return replace(field, listed=True, fields={name: _whole(part) for name, part in field.fields.items()})
    if isinstance(field, ListOf):
        return replace(field, listed=True, item=_whole(field.item))
    return replace(field, listed=True)


def positions(schema: Schema, path: str = "", steps: tuple[str | int, ...] = ()) -> Iterator[Position]:
    """Yield every position inside an object schema, outer ones first; of lists the first item stands for all."""
    for name, inner in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        yield from _inside(Position(path=here, steps=(*steps, name), schema=inner))


def _inside(position: Position) -> Iterator[Position]:
    yield position
    if position.schema["type"] == "array":
        yield from _inside(
            Position(path=f"{position.path}[0]", steps=(*position.steps, 0), schema=position.schema["items"])
        )
    if position.schema["type"] == "object":
        yield from positions(position.schema, position.path, position.steps)


def around(position: Position, tool: Schema, arguments: Arguments) -> Arguments:
    """Return the arguments with everything that must be there for the position to exist, all of it valid."""
    top = position.steps[0]
    if len(position.steps) == 1:
        return arguments
    return {**arguments, str(top): sample(tool["properties"][top])}


def valid_arguments(tool: str, session_id: str) -> Arguments:
    """Return arguments that a tool takes when the session is open and has an open turn."""
    session = {"session_id": session_id}
    return {
        "open_session": {"agent": "Test", "title": "t"},
        "begin_turn": {**session, "query_title": "t", "query_text": "t"},
        "update_turn": {**session, "tags": ["t"]},
        "finish_turn": {**session, "outcome": "failed", "error_message": "t"},
        "close_session": session,
        "resume_session": {"agent_id": "Test"},
        "query_history": {},
    }[tool]


def sample(schema: Schema) -> Any:
    """Return a small valid value: lists with one item, objects with what is required and with their lists."""
    match schema["type"]:
        case "array":
            return [sample(schema["items"])]
        case "object":
            required = schema.get("required", ())
            inner: dict[str, Schema] = schema.get("properties", {})
            return {n: sample(s) for n, s in inner.items() if n in required or s["type"] == "array"}
        case "integer" | "number":
            return max(schema.get("minimum", 0), 1)
        case "boolean":
            return True
        case _:
            return schema.get("enum", ["fine"])[0]


def bad_values(schema: Schema) -> Iterator[tuple[str, Any]]:
    """Yield values that may not stand where this schema is, with a word for each; none is absurdly large."""
    nested: list[Any] = []
    for _ in range(DEEP):
        nested = [nested]
    yield "deep", nested
    kind = schema["type"]
    if kind != "object":
        yield "object", {"a": 1}
    match kind:
        case "array":
            yield "number", 7
            yield "hole", [None]
            return
        case "object":
            yield "list", [1]
            yield "text", "text"
            return
        case "integer" | "number":
            yield "word", "many"
            yield "boolean", True
            yield "huge", 10**400
            if "minimum" in schema:
                yield "low", schema["minimum"] - 1
            if kind == "integer":
                yield "fraction", 1.5
        case "boolean":
            yield "word", "perhaps"
            yield "number", 7
        case _:
            if "integer" not in kind:
                yield "number", 7
            yield "boolean", True
            yield "surrogate", "a\ud800b"
            if "maxLength" in schema:
                yield "long", "x" * (schema["maxLength"] + 1)
    yield "list", [[1]]
