"""Joins the detectors of single lines: a trigger that finds suspicious lines, and the search in such a line.

Two linear-time steps find suspicious lines: hints search a whole text for a few fixed words, and triggers look closer
at the lines that hold one. Both may find innocent lines, but never miss a line in which a detector would find a secret.
One search for everything would need so many states that it falls back to a tenth of its speed. `blocks` finds secrets
that span several lines.
"""

from collections.abc import Iterable, Iterator

from shiftlog.guard.linear import compile_linear, matches_between, starts_at, tells_whether
from shiftlog.guard.secrets.detectors import contexts
from shiftlog.guard.secrets.detectors.assignments import find_assignments
from shiftlog.guard.secrets.detectors.blocks import BLOCK_PATTERN
from shiftlog.guard.secrets.detectors.following import FOLLOW_HINT, FOLLOW_PATTERN, find_row
from shiftlog.guard.secrets.detectors.kinds import PASSWORD, SecretSpan
from shiftlog.guard.secrets.detectors.names import NAME_HINT, NAME_PATTERN
from shiftlog.guard.secrets.detectors.nearby import NEARBY_PATTERN, find_nearby
from shiftlog.guard.secrets.detectors.places import NAMED_PLACES, PLACE_HINT, find_places
from shiftlog.guard.secrets.detectors.tokens import TOKEN_PATTERN, find_tokens, token_kind

_SHAPES = f"{TOKEN_PATTERN}|{contexts.ADDRESS_PATTERN}|{contexts.SCHEME_PATTERN}|{BLOCK_PATTERN}"
HINTS = (f"{NAME_HINT}|{FOLLOW_HINT}", PLACE_HINT, _SHAPES)  # the first needs a closer look
TRIGGERS = (NAME_PATTERN, f"{FOLLOW_PATTERN}|{NAMED_PLACES}", NEARBY_PATTERN)
_hints = tuple(starts_at(compile_linear(hint)) for hint in HINTS)
_triggers = tuple(matches_between(compile_linear(trigger)) for trigger in TRIGGERS)
_has_shape = tells_whether(compile_linear(_SHAPES))


class SuspiciousLines:
    """Finds the lines of a text that may hold a secret; each hint searches the text once."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._next = [-1] * len(_hints)
        self._found = -1

    def find(self, position: int, limit: int) -> int:
        """Return a position in the next suspicious line from the start of a line on, at most the limit."""
        data, following = self._data, self._next
        while self._found < position:
            for index, find in enumerate(_hints):
                if following[index] < position:
                    start = find(data, position)
                    following[index] = len(data) if start < 0 else start
            hit = min(following)
            if hit >= limit:
                return limit
            start, end = data.rfind(b"\n", position, hit) + 1 or position, data.find(b"\n", hit)
            end = len(data) if end < 0 else end
            if min(following[1:]) < end or any(matches(data, start, end) for matches in _triggers):
                self._found = hit
            else:
                position = end + 1
        return min(self._found, limit)


def is_suspicious(data: bytes) -> bool:
    """Return True if a text may hold a secret."""
    return SuspiciousLines(data).find(0, len(data)) < len(data)


def find_in_line(line: str, *, settings: bool = False) -> Iterator[SecretSpan]:
    """Yield the findings in one line, the most specific detectors first; findings may overlap.

    `settings`: the line belongs to a section of a configuration file.
    """
    data = line.encode("latin-1")
    for finding in find_assignments(line, data, settings=settings):
        if finding.kind == PASSWORD and (kind := token_kind(line[finding.start : finding.end])) is not None:
            yield SecretSpan(finding.start, finding.end, kind)
        yield finding
    has_shape = _has_shape(data)
    if has_shape:
        yield from contexts.find_addresses(line, data)
        yield from contexts.find_schemes(line, data)
    yield from find_places(line, data)
    yield from find_row(line)
    yield from find_nearby(line, data)
    if has_shape:
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
