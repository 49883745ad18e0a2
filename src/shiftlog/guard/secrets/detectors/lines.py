"""Joins the detectors of single lines: a trigger that finds suspicious lines, and the search in such a line.

The trigger is one linear-time search over a whole text. It may match innocent lines, but never misses a line in which a
detector would find a secret. `blocks` finds secrets that span several lines.
"""

from collections.abc import Iterable, Iterator

from shiftlog.guard.linear import compile_linear
from shiftlog.guard.secrets.detectors import contexts
from shiftlog.guard.secrets.detectors.assignments import find_assignments
from shiftlog.guard.secrets.detectors.blocks import BLOCK_PATTERN
from shiftlog.guard.secrets.detectors.following import FOLLOW_PATTERN, find_row
from shiftlog.guard.secrets.detectors.kinds import PASSWORD, SecretSpan
from shiftlog.guard.secrets.detectors.names import NAME_PATTERN
from shiftlog.guard.secrets.detectors.nearby import NEARBY_PATTERN, find_nearby
from shiftlog.guard.secrets.detectors.places import PLACE_PATTERN, find_places
from shiftlog.guard.secrets.detectors.tokens import TOKEN_PATTERN, find_tokens, token_kind

_PATTERNS = (
    contexts.ADDRESS_PATTERN,
    contexts.SCHEME_PATTERN,
    PLACE_PATTERN,
    BLOCK_PATTERN,
    FOLLOW_PATTERN,
    NEARBY_PATTERN,
)
TRIGGER = compile_linear("|".join((NAME_PATTERN, TOKEN_PATTERN, *_PATTERNS)))


def find_in_line(line: str, *, settings: bool = False) -> Iterator[SecretSpan]:
    """Yield the findings in one line, the most specific detectors first; findings may overlap.

    `settings`: the line belongs to a section of a configuration file.
    """
    data = line.encode("latin-1")
    for finding in find_assignments(line, data, settings=settings):
        if finding.kind == PASSWORD and (kind := token_kind(line[finding.start : finding.end])) is not None:
            yield SecretSpan(finding.start, finding.end, kind)
        yield finding
    yield from contexts.find_addresses(line, data)
    yield from contexts.find_schemes(line, data)
    yield from find_places(line, data)
    yield from find_row(line)
    yield from find_nearby(line, data)
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
