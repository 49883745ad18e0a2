"""Patterns for touched files: from what people write (`src/**/*.py`, `[!a]`, whole paths) to what stores can match.

A store matches as SQLite's GLOB does: `*` stands for any text, slashes too, `?` for one character, `[^a]` for any but
`a`. Paths are kept relative to the workspace of their session.
"""

import re
from itertools import product

_ANY_FOLDERS = re.compile(r"(?:(?<=/)|^)(?:\*\*/)+")
# Each `**/` doubles the patterns; beyond so many they stand for at least one folder.
_DOUBLED_MOST = 4


def patterns(given: str) -> tuple[str, ...]:
    """Return patterns; a path fits if it matches one of them."""
    text = given.replace("\\", "/")
    while text.startswith("./"):
        text = text[2:]
    # Files may have brackets in their names (`app/[id]/page.tsx`), so that a set may also be just these characters.
    spellings = dict.fromkeys((text.replace("[!", "[^"), text.replace("[", "[[]")))
    return tuple(dict.fromkeys(pattern for spelling in spellings for pattern in _without_folders(spelling)))


def _without_folders(text: str) -> tuple[str, ...]:
    """Return the variants of a pattern: each `**/` stands for no folder, or for at least one."""
    parts = _ANY_FOLDERS.split(text)
    doubled = min(len(parts) - 1, _DOUBLED_MOST)
    choices = [("", "*/")] * doubled + [("*/",)] * (len(parts) - 1 - doubled)
    return tuple(
        parts[0] + "".join(folders + part for folders, part in zip(chosen, parts[1:], strict=True))
        for chosen in product(*choices)
    )


def file_name(given: str) -> str | None:
    """Return the name with which every path that fits a pattern ends; None if that may be any."""
    name = given.replace("\\", "/").rpartition("/")[2]
    return name if name and not set(name) & set("*?[") else None


def is_whole(given: str) -> bool:
    """Return True if a pattern is for whole paths, which are compared below the workspace."""
    return given.replace("\\", "/").startswith("/")
