"""All detectors of single lines as one: a trigger that finds the lines worth a look, and the look.

The trigger is one linear-time search over whole texts and may be wrong in one direction only: it never passes
over a line in which a detector would find something. Secrets of several lines are in `detect_blocks`.
"""

from collections.abc import Iterable, Iterator

from shiftlog.guard.detect_assignments import find_assignments
from shiftlog.guard.detect_blocks import BLOCK_PATTERN, EXPECTING_PATTERN
from shiftlog.guard.detect_kinds import PASSWORD, Finding
from shiftlog.guard.detect_names import NAME_PATTERN
from shiftlog.guard.detect_places import (
    ADDRESS_PATTERN,
    FLAG_PATTERN,
    SCHEME_PATTERN,
    find_addresses,
    find_flags,
    find_schemes,
)
from shiftlog.guard.detect_tokens import TOKEN_PATTERN, find_tokens, token_kind
from shiftlog.guard.redact_re2 import compile_linear

_PATTERNS = (
    NAME_PATTERN,
    ADDRESS_PATTERN,
    SCHEME_PATTERN,
    FLAG_PATTERN,
    TOKEN_PATTERN,
    BLOCK_PATTERN,
    EXPECTING_PATTERN,
)
TRIGGER = compile_linear("|".join(_PATTERNS))


def find_in_line(line: str) -> Iterator[Finding]:
    """Yield what the detectors find in one line, those that know most about it first; findings may overlap."""
    for finding in find_assignments(line):
        if finding.kind == PASSWORD and (kind := token_kind(line[finding.start : finding.end])) is not None:
            yield Finding(finding.start, finding.end, kind)
        yield finding
    yield from find_addresses(line)
    yield from find_schemes(line)
    yield from find_flags(line)
    yield from find_tokens(line)


def settle(findings: Iterable[Finding]) -> list[Finding]:
    """Make findings disjoint and sorted: of two that overlap the earlier reported names both."""
    settled: list[Finding] = []
    for finding in findings:
        touching = [other for other in settled if other.start < finding.end and finding.start < other.end]
        if not touching:
            settled.append(finding)
            continue
        first = touching[0]
        start = min(finding.start, *(other.start for other in touching))
        end = max(finding.end, *(other.end for other in touching))
        if (start, end) != (first.start, first.end):
            settled = [other for other in settled if other not in touching]
            settled.append(Finding(start, end, first.kind))
    return sorted(settled)
