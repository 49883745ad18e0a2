"""The texts by which a search finds a turn, besides its dialog items and actions; indexes use the same list.

Also here: how much of a tool's result the session log shows.
"""

from collections.abc import Iterator, Mapping
from typing import cast

from shiftlog.model.nouns import Turn

_PLAIN = (
    "request_id",
    "query_title",
    "query_text",
    "interpretation",
    "response",
    "model",
    "model_provider",
    "plan_file",
    "todo_id",
    "failure_note",
    "status",
)
# The lists of a turn that hold texts.
LIST_FIELDS = (
    "tags",
    "context_list",
    "design_decisions",
    "requirements_discovered",
    "files_modified",
    "blockers",
    "next",
    "do_not",
    "refuted",
)
# By the kind of an item's entry: the facts by which its turn is found.
ITEM_TEXTS = {"dialog": ("content", "role", "category"), "action": ("description", "type", "file_path", "status")}

RESULT_CHARS = 2_000


def shortened_result(content: str) -> str:
    """Return the beginning of a tool's result as the session log shows it, with the length of the whole."""
    if len(content) <= RESULT_CHARS:
        return content
    return f"{content[:RESULT_CHARS]}\n[the first {RESULT_CHARS} of {len(content)} characters]"


def own_texts(turn: Turn) -> Iterator[str]:
    """Yield the texts of a turn itself; once it is finished they never change."""
    for name in _PLAIN:
        yield getattr(turn, name) or ""
    for name in (*LIST_FIELDS, "commits"):
        yield from texts_in(getattr(turn, name))


def texts_in(value: object) -> Iterator[str]:
    """Yield every text in a value, at any depth, without keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in cast(Mapping[str, object], value).values():
            yield from texts_in(item)
    elif isinstance(value, list | tuple):
        for item in cast(list[object], value):
            yield from texts_in(item)
