"""Arguments of the shell and workspace tools: one declaration each, from which schema, check and faults come.

Faults are worded as these tools word them: `unknown argument "x"`, `missing argument "x"`, `argument "x" must be …`,
`argument "x" cannot be used with …`. What a value means is decided by the service that asked for it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from shiftlog.model.errors import InvalidParameter
from shiftlog.params.fields import Schema, as_name
from shiftlog.text.nearest import unknown_and_nearest
from shiftlog.text.printable import SURROGATES

LONGEST = 1 << 31  # characters of a text that is bounded otherwise


def fault(
    path: str, problem: str, message: str, *, expected: str | None = None, hint: str | None = None
) -> InvalidParameter:
    """Return the error that names a faulty argument."""
    details: dict[str, object] = {"parameter": path, "problem": problem, "expected": expected}
    return InvalidParameter(message, details=details, hint=hint)


def must_be(path: str, expected: str, problem: str = "type") -> InvalidParameter:
    """Return the error for a value of the wrong type, range or format."""
    return fault(path, problem, f'argument "{path}" must be {expected}', expected=expected)


def missing(path: str) -> InvalidParameter:
    """Return the error for a required argument that is not there."""
    return fault(path, "missing", f'missing argument "{path}"', expected="a value")


def conflict(path: str, other: str) -> InvalidParameter:
    """Return the error for arguments that exclude each other."""
    return fault(path, "conflict", f'argument "{path}" cannot be used with {other}', expected=f"no {path} with {other}")


def unknown(path: str, nearest: str | None, known: Sequence[str]) -> InvalidParameter:
    """Return the error for an argument that no tool of this name has."""
    hint = f"Did you mean {nearest}?" if nearest else None
    return fault(path, "unknown", f'unknown argument "{path}"', expected=", ".join(known), hint=hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument; `description` is for the model that calls."""

    description: str = ""
    required: bool = False

    def read(self, value: object, path: str) -> Any:
        """Return the checked value or raise the fault."""
        raise NotImplementedError

    def type_schema(self) -> Schema:
        """Return the schema without its description."""
        raise NotImplementedError

    def schema(self) -> Schema:
        """Return the schema."""
        said = {"description": self.description} if self.description else {}
        return {**self.type_schema(), **said}


@dataclass(frozen=True, slots=True, kw_only=True)
class String(Argument):
    """A text; an empty one is refused unless `empty` says that it means something."""

    max_chars: int = LONGEST
    pattern: str | None = None
    pattern_says: str = ""
    empty: bool = False
    max_bytes: int | None = None

    def read(self, value: object, path: str) -> str:
        if not isinstance(value, str):
            raise must_be(path, "a string")
        if SURROGATES.search(value):
            raise must_be(path, "valid Unicode without lone surrogates", "format")
        if not value and not self.empty and self.max_chars == LONGEST:
            raise must_be(path, "a string that is not empty", "range")
        if len(value) > self.max_chars or (not value and not self.empty):
            raise must_be(path, f"a string of {0 if self.empty else 1} to {self.max_chars} characters", "range")
        if self.max_bytes is not None and len(value) * 4 > self.max_bytes and len(value.encode()) > self.max_bytes:
            raise must_be(path, f"a string of at most {self.max_bytes} bytes", "range")
        if self.pattern is not None and not re.fullmatch(self.pattern, value):
            raise must_be(path, self.pattern_says or f"of the form {self.pattern}", "format")
        return value

    def type_schema(self) -> Schema:
        return {"type": "string"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRef(String):
    """The name of a session; the number of a run may come as one."""

    def read(self, value: object, path: str) -> str:
        return String.read(self, as_name(value), path)

    def type_schema(self) -> Schema:
        return {"type": ["string", "integer"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Enum(Argument):
    """One of a few words."""

    values: tuple[str, ...]

    def read(self, value: object, path: str) -> str:
        if not isinstance(value, str):
            raise must_be(path, "a string")
        if value not in self.values:
            raise must_be(path, "one of " + ", ".join(self.values), "range")
        return value

    def type_schema(self) -> Schema:
        return {"type": "string", "enum": list(self.values)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Int(Argument):
    """A whole number in a range; with `clamp`, as dialects want it, too large a number is lowered.

    Without `bounds` the range is only the usual one: the operator may set another, and the service checks it.
    """

    minimum: int
    maximum: int
    clamp: bool = False
    bounds: bool = True

    def read(self, value: object, path: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
            raise must_be(path, "an integer")
        number = int(value)
        if self.clamp and number >= 0:
            return max(self.minimum, min(number, self.maximum))
        if self.bounds and not self.minimum <= number <= self.maximum:
            raise must_be(path, f"an integer of {self.minimum} to {self.maximum}", "range")
        return number

    def type_schema(self) -> Schema:
        return (
            {"type": "integer", "minimum": self.minimum}
            if self.clamp
            else {
                "type": "integer",
                "minimum": self.minimum,
                "maximum": self.maximum,
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag(Argument):
    """True or false."""

    def read(self, value: object, path: str) -> bool:
        if not isinstance(value, bool):
            raise must_be(path, "true or false")
        return value

    def type_schema(self) -> Schema:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Strings(Argument):
    """A list of texts."""

    max_items: int
    max_chars: int = 255

    def read(self, value: object, path: str) -> list[str]:
        if not isinstance(value, list | tuple):
            raise must_be(path, "a list of strings")
        items = cast(Sequence[object], value)
        if len(items) > self.max_items:
            raise must_be(path, f"at most {self.max_items} strings", "range")
        one = String(max_chars=self.max_chars)
        return [one.read(item, f"{path}[{n}]") for n, item in enumerate(items)]

    def type_schema(self) -> Schema:
        return {"type": "array", "items": {"type": "string"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class StringMap(Argument):
    """An object whose values are texts."""

    max_items: int

    def read(self, value: object, path: str) -> dict[str, str]:
        if not isinstance(value, Mapping):
            raise must_be(path, "an object of strings")
        items = cast(Mapping[object, object], value)
        if len(items) > self.max_items:
            raise must_be(path, f"at most {self.max_items} names", "range")
        one = String(max_chars=1 << 17, empty=True)
        made: dict[str, str] = {}
        for name, item in items.items():
            if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,254}", name):
                raise must_be(f"{path}.{name}", "the name of a variable (letters, digits, underscores)", "format")
            made[name] = one.read(item, f"{path}.{name}")
            if "\0" in made[name]:
                raise must_be(f"{path}.{name}", "a string without NUL", "format")
        return made

    def type_schema(self) -> Schema:
        return {"type": "object", "additionalProperties": {"type": "string"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Given(Argument):
    """A value that its own reader checks, such as a budget."""

    shape: Schema

    def read(self, value: object, path: str) -> object:
        return value

    def type_schema(self) -> Schema:
        return self.shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """All arguments of a tool."""

    fields: Mapping[str, Argument] = field(default_factory=dict[str, Argument])

    def read(self, given: object) -> dict[str, Any]:
        """Return the arguments that are given, checked; null counts as absent. Nothing unknown passes."""
        if not isinstance(given, Mapping):
            raise must_be("arguments", "an object")
        arguments = cast(Mapping[object, object], given)
        for name in arguments:
            if name not in self.fields:
                raise unknown(*unknown_and_nearest(name, self.fields), list(self.fields))
        values: dict[str, Any] = {}
        for name, argument in self.fields.items():
            value = arguments.get(name)
            if value is not None:
                values[name] = argument.read(value, name)
            elif argument.required:
                raise missing(name)
        return values

    def schema(self) -> Schema:
        """Return the JSON Schema of all of them."""
        required = [name for name, argument in self.fields.items() if argument.required]
        return {
            "type": "object",
            "properties": {name: argument.schema() for name, argument in self.fields.items()},
            **({"required": required} if required else {}),
            "additionalProperties": False,
        }
