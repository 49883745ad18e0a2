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
from shiftlog.guard.secrets.detectors.evidence import EVIDENCE_PATTERN, RELATED_NAME, find_by_evidence
from shiftlog.guard.secrets.detectors.following import FOLLOW_HINT, FOLLOW_PATTERN, find_row
from shiftlog.guard.secrets.detectors.kinds import PASSWORD, SecretSpan
from shiftlog.guard.secrets.detectors.language.foreign import FOREIGN_HINT
from shiftlog.guard.secrets.detectors.loose import LOOSE_PATTERN, find_loose
from shiftlog.guard.secrets.detectors.names import NAME_HINT, NAME_PATTERN
from shiftlog.guard.secrets.detectors.places import (
    NAMED_PLACES,
    PLACE_HINT,
    find_places,
    rows_in,
)
from shiftlog.guard.secrets.detectors.tokens import TOKEN_PATTERN, find_tokens, token_kind


class Sign(IntEnum):
    """A finding of a trigger in a line, in the order of `TRIGGERS`."""

    NAME = 0
    FOLLOW = 1  # the line announces a secret of a later line
    NEARBY = 2  # a value stands close to the name of a secret
    NAMED_PLACE = 3
    ADDRESS = 4
    SCHEME = 5
    TOKEN = 6
    BLOCK = 7  # the line may belong to a key, an environment dump or a marker file


_WORDS = (NAME_PATTERN, FOLLOW_PATTERN, f"{EVIDENCE_PATTERN}|{LOOSE_PATTERN}")
_SHAPES = (contexts.ADDRESS_PATTERN, contexts.SCHEME_PATTERN, TOKEN_PATTERN, BLOCK_PATTERN)
HINTS = (f"{NAME_HINT}|{RELATED_NAME}|{FOREIGN_HINT}|{FOLLOW_HINT}", PLACE_HINT, "|".join(_SHAPES))
TRIGGERS = (*_WORDS, NAMED_PLACES, *_SHAPES)
_hints = tuple(starts_at(compile_linear(hint)) for hint in HINTS)
_NAMES, _PLACES, _SHOWN = range(len(HINTS))
# All triggers in one search would fall back to a hundredth of the speed in long lines.
_find_words, _find_shapes = which_match((*_WORDS, NAMED_PLACES)), which_match(_SHAPES)
# Shorter lines are searched whole. Of longer ones only what stands around a hint is: so much before and after it.
_WHOLE_BYTES = 1024
_AROUND = ((160, 320), (640, 384), (64, 1024))
_STEP = 128
BREAK = b"\\n"  # a line break of a text inside a string


class LinePart(NamedTuple):
    """A part of a line around hints: what the triggers find in it, and the rows of the tables of places.

    A line of a text inside a string (`inner`) is decoded before it is searched, and left to `escaped`.
    """

    start: int
    end: int
    kinds: frozenset[int]
    rows: tuple[int, ...]
    inner: bool = False


class Signs(NamedTuple):
    """The findings of the triggers in a line, in total and in its parts."""

    kinds: frozenset[int]
    parts: tuple[LinePart, ...]

    def __bool__(self) -> bool:
        return bool(self.parts)


_NOTHING = Signs(frozenset(), ())


class SuspiciousLines:
    """Finds the lines of a text that may hold a secret; each hint searches the text once, and no line twice."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._next = [-1] * len(_hints)
        self._line = (-1, -1)  # the last line that was looked at, and what was found in it
        self._signs = _NOTHING

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
        data = self._data
        for index, find in enumerate(_hints):
            if self._next[index] < position:
                start = find(data, position, len(data))
                self._next[index] = len(data) if start < 0 else start

    def _find_signs(self, start: int, end: int) -> Signs:
        """Run the triggers of the hints that have a hit in the line."""
        if min(self._next) >= end:
            return _NOTHING
        if end - start <= _WHOLE_BYTES:
            hints = {index for index, hit in enumerate(self._next) if hit < end}
            parts = (_look_at(self._data, start, start, end, hints),)
        else:
            parts = tuple(_look_at(self._data, start, *part) for part in self._parts(start, end))
        parts = tuple(part for part in parts if part.kinds or part.rows)
        return Signs(frozenset().union(*(part.kinds for part in parts)), parts) if parts else _NOTHING

    def _parts(self, start: int, end: int) -> Iterator[tuple[int, int, set[int]]]:
        """Yield the parts of a long line that hold hints, and which; they do not overlap."""
        spans = sorted(span for index in range(len(_hints)) for span in self._around(index, start, end))
        begin, stop, _ = spans[0]
        hints: set[int] = set()
        for first, last, index in spans:
            if first >= stop:
                yield begin, stop, hints
                begin, hints = first, set[int]()
            stop = max(stop, last)
            hints.add(index)
        yield begin, stop, hints

    def _around(self, index: int, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield what stands around the hits of a hint in a line; an escaped line break ends it."""
        (before, after), data, hit = _AROUND[index], self._data, self._next[index]
        while 0 <= hit < end:
            inner = hit + len(BREAK) if data.startswith(BREAK, hit) else hit
            begin, stop = data.rfind(BREAK, max(start, hit - before), inner), data.find(BREAK, inner, inner + after)
            begin = max(start, hit - before) if begin < 0 else begin + len(BREAK)
            stop = min(end, hit + _STEP + after) if stop < 0 else min(end, stop + len(BREAK))
            yield begin, stop, index
            position = min(stop, inner + _STEP)
            hit = _hints[index](data, position, end) if position < end else -1


def _look_at(data: bytes, line: int, start: int, end: int, hints: set[int]) -> LinePart:
    """Run the triggers of some hints on a part of the line that starts at `line`."""
    inner = data.endswith(BREAK, line, start)
    text = decode_inner(data[start:end].removesuffix(BREAK)) if inner else data[start:end]
    kinds = _find_words(text) if _NAMES in hints else []
    if _SHOWN in hints:
        kinds = [*kinds, *(Sign.ADDRESS + index for index in _find_shapes(text))]
    rows = sorted(rows_in(text)) if _PLACES in hints or Sign.NAMED_PLACE in kinds else ()
    return LinePart(start - line, end - line, frozenset(kinds), tuple(rows), inner)


def decode_inner(text: bytes) -> bytes:
    """Return a line of a text inside a string with its quotes and tabs as they are in the text."""
    if b"\\" not in text:
        return text
    return text.removesuffix(b"\\").removesuffix(b"\\r").replace(b'\\"', b'"').replace(b"\\t", b"\t")


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
    signs = look(data) if signs is None else signs
    for part in signs.parts:
        if not part.inner:
            yield from _find_in_part(line, data, part, settings=settings)
    if Sign.NAME in signs.kinds or Sign.FOLLOW in signs.kinds:
        yield from find_row(line)


def find_only_places(line: str) -> Iterator[SecretSpan]:
    """Yield what the tables of places find in a line, and no other detector."""
    for part in look(line.encode("latin-1")).parts:
        yield from find_places(line, part.rows, part.start, part.end)


def _find_in_part(line: str, data: bytes, part: LinePart, *, settings: bool) -> Iterator[SecretSpan]:
    start, end, kinds, rows, _ = part
    if Sign.NAME in kinds:
        for finding in find_assignments(line, data, start, end, settings=settings):
            if finding.kind == PASSWORD and (kind := token_kind(line[finding.start : finding.end])) is not None:
                yield SecretSpan(finding.start, finding.end, kind)
            yield finding
    if Sign.ADDRESS in kinds:
        yield from contexts.find_addresses(line, start, end)
    if Sign.SCHEME in kinds:
        yield from contexts.find_schemes(line, start, end)
    yield from find_places(line, rows, start, end)
    if Sign.TOKEN in kinds:
        yield from find_tokens(line, data, start, end)
    if Sign.NEARBY in kinds:
        yield from find_by_evidence(line, data, start, end)
        yield from find_loose(line, data, start, end)


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
