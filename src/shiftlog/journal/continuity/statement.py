"""The statement that an agent may leave at the close of a session (Continuity Capsule v1): fields and check.

`capsule` shows it as claimed. Nothing here reads or writes a journal.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime

from shiftlog.model.errors import InvalidParameter
from shiftlog.model.ids import MAX_ID_CHARS, agent_key
from shiftlog.params.fields import Field, Integer, ListOf, Record, Schema, Text, unlisted

VERSIONS = ("1", "1.0", "v1")
STATEMENT_CHARS = 4_000
_ITEMS = ListOf(item=Text(lines=True, mends=True, max_chars=1_000), max_items=50)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Version(Field):
    """The version of the form, as text or as the number one."""

    def read(self, value: object, path: str) -> str:
        if isinstance(value, int | float) and not isinstance(value, bool) and value == 1:
            return "1"
        if isinstance(value, str) and value in VERSIONS:
            return value
        says = "one of " + ", ".join(VERSIONS)
        raise InvalidParameter.invalid(path, says, value, allowed=list(VERSIONS))

    def type_schema(self) -> Schema:
        return {"type": "integer", "enum": [1]}  # the other spellings are accepted, too


@dataclass(frozen=True, slots=True, kw_only=True)
class _Statement(Record):
    """A record that may also come as the JSON text of one."""

    def read(self, value: object, path: str = "capsule") -> dict[str, object]:
        # Zero-argument super() does not work in a slotted dataclass.
        try:
            return Record.read(self, _decoded(value, path) if isinstance(value, str) else value, path)
        except InvalidParameter as refused:
            raise _of_statement(refused) from None

    def faults(self, value: object, path: str = "capsule") -> list[InvalidParameter]:
        try:
            given = _decoded(value, path) if isinstance(value, str) else value
        except InvalidParameter as refused:
            return [refused]
        return [_of_statement(fault) for fault in Record.faults(self, given, path)]

    def type_schema(self) -> Schema:
        return Record.type_schema(self)  # an agent sends the object; the text is for clients that cannot nest


def _of_statement(fault: InvalidParameter) -> InvalidParameter:
    """Return a fault of the statement: a key that it lacks is none of the tool's parameters."""
    if fault.details["problem"] != "missing":
        return fault
    return InvalidParameter.invalid(str(fault.details["parameter"]), "required")


def _decoded(text: str, path: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidParameter.invalid(path, "an object or the JSON text of one is expected", text) from None


def read_time(text: str) -> datetime:
    """Read the time of a statement, UTC where it names no zone; raise ValueError for no ISO time."""
    at = datetime.fromisoformat(text)
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def _check_time(text: str, path: str) -> None:
    try:
        read_time(text)
    except (ValueError, OverflowError):
        raise InvalidParameter.invalid(path, "an ISO 8601 time is expected", text) from None


def _check_agent(text: str, path: str) -> None:
    try:
        agent_key(text)
    except InvalidParameter as refused:
        raise InvalidParameter.invalid(path, str(refused.details["constraint"]), text) from None


def _prose(description: str) -> Text:
    return Text(lines=True, mends=True, max_chars=STATEMENT_CHARS, description=description)


_PROSE = _prose("")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Items(Field):
    """One text, or a list of shorter ones, each an item of its own."""

    def read(self, value: object, path: str) -> object:
        return self._form(value).read(value, path)

    def faults(self, value: object, path: str) -> list[InvalidParameter]:
        return self._form(value).faults(value, path)

    @staticmethod
    def _form(value: object) -> Field:
        return _ITEMS if isinstance(value, list) else _PROSE

    def type_schema(self) -> Schema:
        return {"type": "array", "items": {"type": "string"}}


STATEMENT: Record = _Statement(
    description="Your note to the next shift, kept as your words beside the recorded facts.",
    examples=({"version": 1, "next": ["Write the rounding tests"]},),
    fields={
        "version": _Version(required=True, description="Always 1."),
        "goal": _prose("What the work is for."),
        "done": _Items(description="What is finished."),
        "next": _Items(description="What to do next."),
        "blockers": _Items(description="What stands in the way."),
        "do_not": _Items(description="What must not be done."),
        "refuted": _Items(description="What proved wrong."),
        "receipts": ListOf(
            item=Text(lines=True, mends=True, max_chars=500),
            max_items=20,
            description="Proofs: commits, links.",
        ),
        **unlisted(
            {
                "written_by": Text(max_chars=200, description="Who wrote it."),
                "written_at": Text(max_chars=64, check=_check_time, description="ISO 8601 time. Default: the close."),
                "ttl_days": Integer(minimum=1, maximum=365, description="Days after which the note counts as stale."),
            }
        ),
        "handoff_to": Text(
            max_chars=MAX_ID_CHARS,
            check=_check_agent,
            description="The only agent_id that may continue; leave succession_policy out.",
        ),
    },
)
