"""Finds the names of denied programs in code that is not read word by word: scripts' data, other languages."""

from __future__ import annotations

import re
from collections.abc import Iterable

from shiftlog.guard.policy.lists import ListEntry


class DeniedNames:
    """The names of denied programs; one that is denied with arguments counts only beside all of them."""

    def __init__(self, entries: Iterable[ListEntry]) -> None:
        grouped: dict[tuple[str, ...], set[str]] = {}
        for entry in entries:
            grouped.setdefault(tuple(entry.words[1:]), set()).add(entry.program.rsplit("/", 1)[-1])
        self._patterns = [(words, _pattern(names)) for words, names in grouped.items()]

    def search(self, text: str) -> str | None:
        """Return the first denied name that a text holds."""
        for words, pattern in self._patterns:
            found = pattern.search(text) if all(word in text for word in words) else None
            if found is not None:
                return found.group()
        return None


def denied_names(entries: tuple[ListEntry, ...]) -> DeniedNames | None:
    """Return the finder for these entries; None if there are none."""
    return DeniedNames(entries) if entries else None


def _pattern(names: Iterable[str]) -> re.Pattern[str]:
    either = "|".join(re.escape(name) for name in sorted(names))
    return re.compile(rf"(?:(?<![\w.-])|(?<=\\[nt]))(?:{either})(?![\w-])")
