"""Fields of requests: one declaration gives both the JSON Schema and the check with its exact error.

This module has the building blocks (`Text`, `Integer`, `Choice`, `ListOf`, `Record` …). The fields of each request are
declared beside the service that takes it, and `wording` phrases their faults. `null` always counts as absent.
"""

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Self, cast

from shiftlog.model.errors import InvalidParameter
from shiftlog.params.wording import JOURNAL, Wording
from shiftlog.text.nearest import unknown_and_nearest
from shiftlog.text.printable import CONTROLS, SURROGATES

Schema = dict[str, Any]

# At most so many unknown names are reported, each with its nearest known name.
MOST_FAULTS = 20

# Control characters that terminals and editors really write (\a \b \t \n \v \f \r ESC) stay; these are never text.
_BINARY = re.compile(r"[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f]")
# Sums of larger figures would not stay finite.
MAX_FIGURE = 1e290
# Whole numbers beyond it are not the same for every reader of JSON.
MAX_INTEGER = 2**53 - 1
_FIGURE = "a finite number of at least 0"
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """The values that one parameter accepts; a subclass per type. With `or_blank` a blank text counts as absent.

    `default`, `examples` and `format` are for the schema alone; a reader of the values applies its own default. A field
    that is not `listed` is accepted without being in the schema: few callers need it.
    """

    description: str = ""
    required: bool = False
    default: object = None
    examples: tuple[object, ...] = ()
    format: str | None = None
    listed: bool = True
    or_blank: bool = False
    wording: Wording = JOURNAL

    def worded(self, wording: Wording) -> Self:
        """Return the same field with its faults, and those of its parts, in another wording."""
        return replace(self, wording=wording)

    def is_given(self, value: object) -> bool:
        """Return False for a value that counts as absent."""
        return value is not None and not (self.or_blank and isinstance(value, str) and not value.strip())

    def read(self, value: object, path: str) -> Any:
        """Return the checked value, or raise InvalidParameter that names the path."""
        raise NotImplementedError

    def faults(self, value: object, path: str) -> list[InvalidParameter]:
        """Return every fault of the value, where `read` stops at the first one."""
        try:
            self.read(value, path)
        except InvalidParameter as fault:
            return [fault]
        return []

    def type_schema(self) -> Schema:
        """Return the JSON Schema of the value without its description."""
        raise NotImplementedError

    def schema(self) -> Schema:
        """Return the JSON Schema with description, default, format and examples."""
        schema = self.type_schema()
        if self.description:
            schema["description"] = self.description
        if self.default is not None:
            schema["default"] = self.default
        if self.format is not None:
            schema["format"] = self.format
        if self.examples:
            schema["examples"] = list(self.examples)
        return schema


def _visible(control: re.Match[str]) -> str:
    """Return the sign that Unicode has for a control character."""
    code = ord(control[0])
    return "\u2421" if code == 0x7F else chr(0x2400 + code)


_replaced: ContextVar[list[str] | None] = ContextVar("replaced", default=None)


@contextmanager
def replaced_controls() -> Generator[list[str]]:
    """Collect the paths of the texts in which reading replaces control characters."""
    paths: list[str] = []
    token = _replaced.set(paths)
    try:
        yield paths
    finally:
        _replaced.reset(token)


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Field):
    """A string; one line unless `lines`; `check(value, path)` may refuse it with its own error.

    With `signs`, control characters become visible signs instead of being refused, so that a program's output never
    prevents the report about it. With `mends`, they and lone surrogates become the replacement character.
    `replaced_controls` says where. To stay short, the schema states the small limits of required texts only; the check
    applies all.
    """

    max_chars: int = 1_048_576
    lines: bool = False
    signs: bool = False
    mends: bool = False
    pattern: str | None = None
    pattern_says: str = ""
    check: Callable[[str, str], object] | None = None

    def read(self, value: object, path: str) -> str:
        if not isinstance(value, str):
            raise InvalidParameter.invalid(path, "a string is expected", value)
        if self.mends or self.signs:
            value = self._readable(value, path)
        if SURROGATES.search(value):
            raise InvalidParameter.invalid(path, "valid Unicode is expected, without lone surrogates", value)
        if self.required and not value.strip():
            raise InvalidParameter.missing(path)
        if len(value) > self.max_chars:
            raise InvalidParameter.invalid(path, f"at most {self.max_chars} characters", value)
        if self.lines:
            if _BINARY.search(value):
                raise InvalidParameter.invalid(path, "text without binary control characters", value)
        elif CONTROLS.search(value):
            raise InvalidParameter.invalid(path, "one line of text without control characters", value)
        if value and self.pattern is not None and not re.fullmatch(self.pattern, value, re.ASCII):
            raise InvalidParameter.invalid(path, self.pattern_says or f"must match {self.pattern}", value)
        if value and self.check is not None:
            self.check(value, path)
        return value

    def _readable(self, value: str, path: str) -> str:
        """Replace the characters that no text may have; remember the path if there were any."""
        if self.mends:
            readable = SURROGATES.sub("\ufffd", _BINARY.sub("\ufffd", value))
        else:
            readable = _BINARY.sub(_visible, value)
        if readable != value and (paths := _replaced.get()) is not None:
            paths.append(path)
        return readable

    def type_schema(self) -> Schema:
        schema: Schema = {"type": "string"}
        if self.required and self.max_chars <= 1_000:
            schema["maxLength"] = self.max_chars
        if self.pattern is not None:
            schema["pattern"] = f"^{self.pattern}$"
        return schema


@dataclass(frozen=True, slots=True, kw_only=True)
class RawText(Field):
    """A string that is passed on as it is, such as shell text or a path; its schema is the type and the pattern.

    With `numbers` a whole number counts as its text.
    """

    min_chars: int = 1
    max_chars: int | None = None
    max_bytes: int | None = None
    numbers: bool = False
    pattern: str | None = None
    pattern_says: str = ""

    def read(self, value: object, path: str) -> str:
        text = as_name(value) if self.numbers else value
        if not isinstance(text, str):
            raise self.wording.wrong(path, "a string", value)
        if SURROGATES.search(text):
            raise self.wording.wrong(path, "valid Unicode without lone surrogates", value, "format")
        if len(text) < self.min_chars or (self.max_chars is not None and len(text) > self.max_chars):
            raise self.wording.wrong(path, self._length(), value, "range")
        if self.max_bytes is not None and len(text) * 4 > self.max_bytes and len(text.encode()) > self.max_bytes:
            raise self.wording.wrong(path, f"a string of at most {self.max_bytes} bytes", value, "range")
        if self.pattern is not None and not re.fullmatch(self.pattern, text):
            raise self.wording.wrong(path, self.pattern_says or f"of the form {self.pattern}", value, "format")
        return text

    def _length(self) -> str:
        if self.max_chars is None:
            return "a string that is not empty"
        return f"a string of {self.min_chars} to {self.max_chars} characters"

    def type_schema(self) -> Schema:
        schema: Schema = {"type": ["string", "integer"] if self.numbers else "string"}
        return schema if self.pattern is None else {**schema, "pattern": f"^{self.pattern}$"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Given(Field):
    """A value that its service checks, such as an output budget."""

    shape: Schema = field(default_factory=dict[str, Any])

    def read(self, value: object, path: str) -> object:
        return value

    def type_schema(self) -> Schema:
        return dict(self.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Integer(Field):
    """A whole number; a boolean is none. With `clamps` too large a number is lowered.

    Without `bounds` the range is only the usual one: the operator may set another, which the service checks.
    """

    minimum: int | None = None
    maximum: int | None = None
    clamps: bool = False
    bounds: bool = True

    def read(self, value: object, path: str) -> int:
        coerces = self.wording.coerces
        if coerces and isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
            value = int(value)
        # Shell tools take any whole float as a number, so that one beyond the range is called just that.
        if isinstance(value, float) and value.is_integer() and (abs(value) < 2**53 or not coerces):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.wording.integer(path, value, self.minimum, self.maximum)
        if self.clamps and self.maximum is not None:
            value = min(value, self.maximum)
        too_low = self.minimum is not None and value < self.minimum
        if self.bounds and (too_low or (self.maximum is not None and value > self.maximum)):
            raise self.wording.integer(path, value, self.minimum, self.maximum)
        if self.maximum is None and value > MAX_INTEGER:
            raise InvalidParameter.invalid(path, f"integer of at most {MAX_INTEGER}", value)
        return value

    def type_schema(self) -> Schema:
        schema: Schema = {"type": "integer"}
        if self.minimum is not None and self.minimum > -MAX_INTEGER:
            schema["minimum"] = self.minimum
        most = self.maximum
        if most is not None and not self.clamps and most < 2**31 - 1:
            schema["maximum"] = most
        return schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Number(Field):
    """A finite number of at least zero; numeric text is accepted."""

    def read(self, value: object, path: str) -> float:
        if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
            value = float(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidParameter.invalid(path, _FIGURE, value)
        if MAX_FIGURE < value < float("inf"):
            raise InvalidParameter.invalid(path, f"a number of at most {MAX_FIGURE:g}", value)
        if not 0 <= value <= MAX_FIGURE:  # NaN is in no range
            raise InvalidParameter.invalid(path, _FIGURE, value)
        return abs(float(value))  # -0.0 is a plain zero

    def type_schema(self) -> Schema:
        return {"type": "number", "minimum": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Boolean(Field):
    """True or false; `true/false/yes/no/1/0` as text too."""

    def read(self, value: object, path: str) -> bool:
        if isinstance(value, bool):
            return value
        if self.wording.coerces:
            word = value.strip().casefold() if isinstance(value, str) else value
            if word in ("true", "yes", "1", 1):
                return True
            if word in ("false", "no", "0", 0):
                return False
        raise self.wording.wrong(path, self.wording.boolean, value)

    def type_schema(self) -> Schema:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Field):
    """One of a closed set of words; `aliases` are accepted spellings of them."""

    values: tuple[str, ...]
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    fold: bool = False

    def read(self, value: object, path: str) -> str:
        word = value
        if self.fold and isinstance(word, str):
            word = word.strip().casefold()
        if isinstance(word, str):
            word = self.aliases.get(word, word)
            if word in self.values:
                return word
            if not word.strip() and self.required and self.wording.coerces:
                raise self.wording.missing(path)
        raise self.wording.choice(path, value, self.values)

    def type_schema(self) -> Schema:
        return {"type": "string", "enum": list(self.values)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOf(Field):
    """A list of one kind of item; for lists of text one string counts as a list of one."""

    item: Field
    max_items: int = 10_000

    def read(self, value: object, path: str) -> list[Any]:
        if isinstance(value, str) and isinstance(self.item, Text | Choice):
            value = [value] if value.strip() else []
        if not isinstance(value, list | tuple):
            raise self.wording.wrong(path, self.wording.list_, value)
        items = cast(Sequence[object], value)
        if self.required and not items:
            raise self.wording.missing(path)
        if len(items) > self.max_items:
            raise self.wording.too_many(path, len(items), self.max_items)
        return [self._item(item, f"{path}[{n}]") for n, item in enumerate(items)]

    def faults(self, value: object, path: str) -> list[InvalidParameter]:
        items = cast(Sequence[object], value) if isinstance(value, list | tuple) else None
        if items is None or len(items) > self.max_items:
            return Field.faults(self, cast(object, value), path)
        each = (self.item.faults(item, f"{path}[{n}]") for n, item in enumerate(items) if item is not None)
        return [fault for found in each for fault in found][:MOST_FAULTS]

    def _item(self, item: object, path: str) -> Any:
        if item is None and self.wording.coerces:
            raise self.wording.missing(path)
        return self.item.read(item, path)

    def worded(self, wording: Wording) -> Self:
        return replace(self, wording=wording, item=self.item.worded(wording))

    def type_schema(self) -> Schema:
        schema: Schema = {"type": "array", "items": self.item.schema()}
        if self.required:
            schema["minItems"] = 1
        if self.max_items < 1_000 and not isinstance(self.item, RawText):
            schema["maxItems"] = self.max_items
        return schema


def as_name(value: object) -> object:
    """Return a whole number as text, any other value unchanged."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    # A number of hundreds of digits names nothing, and Python would not even spell it out.
    is_number = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**200
    return str(value) if is_number else value


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRef(Field):
    """A session's name: text or the integer alias of a run; the journal resolves it."""

    def read(self, value: object, path: str) -> str:
        value = as_name(value)
        if not isinstance(value, str):
            raise InvalidParameter.invalid(path, "a session id (text or integer) is expected", value)
        if SURROGATES.search(value):
            raise InvalidParameter.invalid(path, "valid Unicode is expected, without lone surrogates", value)
        if self.required and not value.strip():
            raise InvalidParameter.missing(path)
        return value

    def type_schema(self) -> Schema:
        return {"type": ["string", "integer"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Record(Field):
    """An object with named fields; an unknown name is refused with the nearest known one."""

    fields: Mapping[str, Field]

    def read(self, value: object, path: str = "") -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise self.wording.wrong(path or "arguments", "an object", value)
        given = cast(Mapping[object, object], value)
        for name in given:
            if not isinstance(name, str) or name not in self.fields:
                raise self._unknown(str(name), path)
        prefix = f"{path}." if path else ""
        values: dict[str, Any] = {}
        for name, spec in self.fields.items():
            if not spec.is_given(given.get(name)):
                if spec.required:
                    raise self.wording.missing(prefix + name)
                continue
            values[name] = spec.read(given[name], prefix + name)
        return values

    def faults(self, value: object, path: str = "") -> list[InvalidParameter]:
        if not isinstance(value, Mapping):
            return Field.faults(self, value, path)
        given = cast(Mapping[str, object], value)
        prefix = f"{path}." if path else ""
        unknown = [str(name) for name in given if name not in self.fields][:MOST_FAULTS]
        found: list[InvalidParameter] = [self._unknown(name, path) for name in unknown]
        for name, spec in self.fields.items():
            if spec.is_given(given.get(name)):
                found += spec.faults(given[name], prefix + name)
            elif spec.required:
                found.append(self.wording.missing(prefix + name))
        return found

    def worded(self, wording: Wording) -> Self:
        return replace(self, wording=wording, fields={name: spec.worded(wording) for name, spec in self.fields.items()})

    def _unknown(self, name: str, path: str) -> InvalidParameter:
        listed = [name for name, spec in self.fields.items() if spec.listed]
        name, near, alike = unknown_and_nearest(name, self.fields)
        prefix = f"{path}." if path else ""
        return self.wording.unknown(prefix + name, near, listed, alike=alike)

    def type_schema(self) -> Schema:
        listed = {name: spec for name, spec in self.fields.items() if spec.listed}
        schema: Schema = {"type": "object", "properties": {name: spec.schema() for name, spec in listed.items()}}
        required = [name for name, spec in listed.items() if spec.required]
        if required:
            schema["required"] = required
        schema["additionalProperties"] = False
        return schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapped(Field):
    """A field with another field's check and a schema of its own."""

    inner: Field

    def read(self, value: object, path: str) -> Any:
        return self.inner.read(value, path)

    def worded(self, wording: Wording) -> Self:
        return replace(self, wording=wording, inner=self.inner.worded(wording))


def unlisted(fields: Mapping[str, Field], *names: str) -> dict[str, Field]:
    """Return fields of which the named ones, or all without names, are accepted but not in the schema."""
    return {name: replace(spec, listed=bool(names) and name not in names) for name, spec in fields.items()}
