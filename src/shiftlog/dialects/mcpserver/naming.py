"""Names in the session log's calls: read in any case, and translated to the journal's names and back.

The fields themselves are declared in `requests`.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from shiftlog.model.errors import InvalidParameter
from shiftlog.params.fields import Choice, Field, Integer, ListOf, Record, Schema, Text, as_name

ALIASES = {"sourcetype": "agent"}


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
    """A required text that may be blank, such as the output of a command that printed nothing."""

    def read(self, value: object, path: str) -> str:
        return Text(lines=self.lines, signs=self.signs, max_chars=self.max_chars).read(value, path)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonOf(Field):
    """A value, or its JSON text; a value that was recorded elsewhere may have unknown parts."""

    inner: Field
    recorded_elsewhere: bool = False

    def read(self, value: object, path: str) -> Any:
        return self.inner.read(value, path)

    def decoded(self, value: object, path: str) -> Any:
        """Return the value of a JSON text; raise InvalidParameter for other texts."""
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
        schema.pop("additionalProperties", None)  # it would forbid the parts that are accepted without being listed
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
    """Renames given values to the names of records; a strict reading keeps unknown names, to refuse them later."""

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


def in_camel_case(record: Record, **descriptions: str) -> Record:
    """Return a record of the journal under the dialect's names; its clients see every field listed and described."""
    fields = {
        dialect_name(name): replace(spec, listed=True, description=descriptions.get(name, spec.description))
        for name, spec in record.fields.items()
    }
    return Record(fields=fields, description=record.description)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOrNumber(Text):
    """A text that may come as a number: the alias of a run, an order or a context."""

    def read(self, value: object, path: str) -> str:
        return Text.read(self, as_name(value), path)

    def type_schema(self) -> Schema:
        return {"type": ["string", "integer"]}


def required(spec: Text) -> Text:
    """Return a field that must be given."""
    return replace(spec, required=True)


def params(fields: dict[str, Field], **aliases: str) -> Params:
    """Return the parameters of a method with these fields."""
    return Params(record=Record(fields=fields), aliases=ALIASES | aliases)
