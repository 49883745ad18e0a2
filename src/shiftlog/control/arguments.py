"""The arguments of questions: the type of each, and the error for one that is missing or of another type.

A name means the same in every question, so one table is enough. Only the type is checked here: our own programs send
paths in any bytes, which the fields of `params` refuse. Services check the rest with their own fields.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

from shiftlog.model.errors import InvalidParameter

MOST = 10**9

_TEXTS = (
    "session_id shell_id command_id approval_id checkpoint_id request_id client_id agent_id name turn cwd workspace "
    "local remote command method token reason project as mode sandbox since format transport id answer tool agent from "
    "to day line status turn_status run_status model backend tag path caller kind cursor client session"
)
_NUMBERS = "limit last commands max_chars max_files jobs least_uses"
_SECONDS = "timeout_s expires"
_FLAGS = (
    "all again clean dry_run follow force full granted keep_images lift only_receipts recursive sizes watch "
    "with_conversation shells"
)
_LISTS_OF_TEXTS = "agents allow deny keep paths"
_OBJECTS = "arguments binding diff environ event open run"


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MOST


def _is_list_of(*kinds: type) -> Callable[[object], bool]:
    def fits(value: object) -> bool:
        return isinstance(value, list) and all(isinstance(item, kinds) for item in cast("list[object]", value))

    return fits


# The type of a value in words, and its check.
_Type = tuple[str, Callable[[object], bool]]
_TYPES: list[tuple[str, _Type]] = [
    (_TEXTS, ("a string is expected", lambda value: isinstance(value, str) and "\0" not in value)),
    (_NUMBERS, (f"a whole number from 0 to {MOST} is expected", _is_number)),
    (_SECONDS, ("a number of seconds is expected", _is_seconds)),
    (_FLAGS, ("true or false is expected", lambda value: isinstance(value, bool))),
    (_LISTS_OF_TEXTS, ("a list of strings is expected", _is_list_of(str))),
    (_OBJECTS, ("an object is expected", lambda value: isinstance(value, dict))),
    ("entries", ("a list of entry numbers is expected", _is_list_of(int))),
    ("receipts", ("a list of receipts is expected", _is_list_of(dict))),
    (
        "by",
        ("a string or a list of strings is expected", lambda value: isinstance(value, str) or _is_list_of(str)(value)),
    ),
]
ARGUMENTS: Mapping[str, _Type] = {name: kind for names, kind in _TYPES for name in names.split()}


class Arguments(dict[str, Any]):
    """The arguments of one question; looking up one that is missing raises InvalidParameter."""

    def __missing__(self, name: str) -> Any:
        raise InvalidParameter.missing(name)


def checked(params: Mapping[str, Any]) -> Arguments:
    """Return the arguments of a question without those that are None; raise InvalidParameter for a wrong type."""
    for name, value in params.items():
        says, fits = ARGUMENTS.get(name, ("", _fits_any))
        if value is not None and not fits(value):
            raise InvalidParameter.invalid(name, says, value)
    return Arguments({name: value for name, value in params.items() if value is not None})


def _fits_any(value: object) -> bool:
    return True
