"""Joins the detectors of single lines: a trigger that finds suspicious lines, and the search in such a line.

Two linear-time steps find suspicious lines: hints search a whole text for a few fixed words, and triggers tell which
detectors may find something in a line that holds one. Both may find innocent lines, but never miss a line in which a
detector would find a secret. One search for everything would need so many states that it falls back to a tenth of its
speed. `blocks` finds secrets that span several lines.
"""

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import NamedTuple

from shiftlog.guard.linear import compile_linear, starts_at, which_match
from shiftlog.guard.secrets.detectors import contexts
from shiftlog.guard.secrets.detectors.assignments import find_assignments
from shiftlog.guard.secrets.detectors.blocks import BLOCK_PATTERN
from shiftlog.guard.secrets.detectors.following import FOLLOW_HINT, FOLLOW_PATTERN, find_row
from shiftlog.guard.secrets.detectors.kinds import PASSWORD, SecretSpan
from shiftlog.guard.secrets.detectors.names import NAME_HINT, NAME_PATTERN
from shiftlog.guard.secrets.detectors.nearby import NEARBY_PATTERN, find_nearby
from shiftlog.guard.secrets.detectors.places import (
    NAMED_PLACES,
    PLACE_HINT,
    PlacesOfPart,
    find_place_hint,
    find_places,
    places_in,
)
from shiftlog.guard.secrets.detectors.tokens import TOKEN_PATTERN, find_tokens, token_kind


class Sign(IntEnum):
    """A finding of a trigger in a line, in the order of `TRIGGERS`."""

    NAME = 0
    FOLLOW = 1  # the line announces a secret of a later line
    NEARBY = 2
    NAMED_PLACE = 3
    ADDRESS = 4
    SCHEME = 5
    TOKEN = 6
    BLOCK = 7  # the line may belong to a key, an environment dump or a marker file


_WORDS = (NAME_PATTERN, FOLLOW_PATTERN, NEARBY_PATTERN)
_SHAPES = (contexts.ADDRESS_PATTERN, contexts.SCHEME_PATTERN, TOKEN_PATTERN, BLOCK_PATTERN)
HINTS = (f"{NAME_HINT}|{FOLLOW_HINT}", PLACE_HINT, "|".join(_SHAPES))
TRIGGERS = (*_WORDS, NAMED_PLACES, *_SHAPES)
_hints = (starts_at(compile_linear(HINTS[0])), find_place_hint, starts_at(compile_linear(HINTS[2])))
# All triggers in one search would fall back to a hundredth of the speed in long lines.
_find_words, _find_shapes = which_match((*_WORDS, NAMED_PLACES)), which_match(_SHAPES)


class Signs(NamedTuple):
    """The findings of the triggers in a line."""

    kinds: frozenset[int]
    places: tuple[PlacesOfPart, ...]

    def __bool__(self) -> bool:
        return bool(self.kinds or self.places)


class SuspiciousLines:
    """Finds the lines of a text that may hold a secret; each hint searches the text once, and no line twice."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._next = [-1] * len(_hints)
        self._line = (-1, -1)  # the last line that was looked at, and what was found in it
        self._signs = Signs(frozenset(), ())

    def find(self, position: int, limit: int) -> int:
        """Return the start of the next suspicious line from the start of a line on, at most the limit."""
        data = self._data
        while position < limit:
            self._search(position)
            hit = min(self._next)
            if hit >= limit:
                return limit
            start, end = data.rfind(b"\n", position, hit) + 1 or position, data.find(b"\n", hit)
            end = len(data) if end < 0 else end
            if self.look(start, end):
                return start
            position = end + 1
        return limit

    def look(self, start: int, end: int) -> Signs:
        """Return what the triggers find in a line; lines are asked for in their order."""
        if self._line != (start, end):
            self._search(start)
            self._line, self._signs = (start, end), self._find_signs(start, end)
        return self._signs

    def _search(self, position: int) -> None:
        """Move each hint to its first hit from a position on."""
        for index, find in enumerate(_hints):
            if self._next[index] < position:
                start = find(self._data, position)
                self._next[index] = len(self._data) if start < 0 else start

    def _find_signs(self, start: int, end: int) -> Signs:
        """Run the triggers of the hints that have a hit in the line."""
        words, places, shapes = self._next
        line = self._data[start:end]
        kinds = _find_words(line) if words < end else []
        if shapes < end:
            kinds = [*kinds, *(Sign.ADDRESS + index for index in _find_shapes(line))]
        named = Sign.NAMED_PLACE in kinds
        return Signs(frozenset(kinds), places_in(line, named=named) if named or places < end else ())


def look(line: bytes) -> Signs:
    """Return what the triggers find in a line."""
    return SuspiciousLines(line).look(0, len(line))


def is_suspicious(data: bytes) -> bool:
    """Return True if a text may hold a secret."""
    return SuspiciousLines(data).find(0, len(data)) < len(data)


def find_in_line(line: str, signs: Signs | None = None, *, settings: bool = False) -> Iterator[SecretSpan]:
    """Yield the findings in one line, the most specific detectors first; findings may overlap.

    `signs` is what `look` found in it; `settings`: the line belongs to a section of a configuration file.
    """
    data = line.encode("latin-1")
    kinds, places = look(data) if signs is None else signs
    if Sign.NAME in kinds:
        for finding in find_assignments(line, data, settings=settings):
            if finding.kind == PASSWORD and (kind := token_kind(line[finding.start : finding.end])) is not None:
                yield SecretSpan(finding.start, finding.end, kind)
            yield finding
    if Sign.ADDRESS in kinds:
        yield from contexts.find_addresses(line)
    if Sign.SCHEME in kinds:
        yield from contexts.find_schemes(line)
    if places:
        yield from find_places(line, places)
    if Sign.NAME in kinds or Sign.FOLLOW in kinds:
        yield from find_row(line)
    if Sign.NEARBY in kinds:
        yield from find_nearby(line, data)
    if Sign.TOKEN in kinds:
        yield from find_tokens(line, data)


def merge_overlaps(findings: Iterable[SecretSpan]) -> list[SecretSpan]:
    """Sort findings and merge those that overlap; the finding reported first gives the kind."""
    merged: list[SecretSpan] = []
    order = 0
    for index, finding in sorted(enumerate(findings), key=lambda item: item[1][:2]):
        if merged and finding.start < merged[-1].end:
            last = merged[-1]
            kind = finding.kind if index < order else last.kind
            merged[-1] = SecretSpan(last.start, max(last.end, finding.end), kind)
            order = min(order, index)
        else:
            merged.append(finding)
            order = index
    return merged
