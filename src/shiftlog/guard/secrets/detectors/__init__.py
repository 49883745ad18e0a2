"""All detectors of single lines as one: a trigger that finds the lines worth a look, and the look.

The trigger is one linear-time search over whole texts and may be wrong in one direction only: it never passes
over a line in which a detector would find something. Secrets of several lines are in `detect_blocks`.
"""

from collections.abc import Iterable, Iterator

from shiftlog.guard.linear import compile_linear
from shiftlog.guard.secrets.detectors.assignments import find_assignments
from shiftlog.guard.secrets.detectors.blocks import BLOCK_PATTERN, EXPECTING_PATTERN
from shiftlog.guard.secrets.detectors.contexts import (
    ADDRESS_PATTERN,
    FLAG_PATTERN,
    SCHEME_PATTERN,
    find_addresses,
    find_flags,
    find_schemes,
)
from shiftlog.guard.secrets.detectors.kinds import ALL_KINDS, PASSWORD, Finding
from shiftlog.guard.secrets.detectors.names import NAME_PATTERN
from shiftlog.guard.secrets.detectors.tokens import SHAPES, TOKEN_PATTERN, find_tokens, token_kind

_PATTERNS = (
    NAME_PATTERN,
    ADDRESS_PATTERN,
    SCHEME_PATTERN,
    FLAG_PATTERN,
    TOKEN_PATTERN,
    BLOCK_PATTERN,
    EXPECTING_PATTERN,
)
RULE_IDS = frozenset({*(shape.rule for shape in SHAPES), *(kind.rule for kind in ALL_KINDS)})
TRIGGER = compile_linear("|".join(_PATTERNS))


def find_in_line(line: str) -> Iterator[Finding]:
    """Yield what the detectors find in one line, those that know most about it first; findings may overlap."""
    data = line.encode("latin-1")
    for finding in find_assignments(line, data):
        if finding.kind == PASSWORD and (kind := token_kind(line[finding.start : finding.end])) is not None:
            yield Finding(finding.start, finding.end, kind)
        yield finding
    yield from find_addresses(line, data)
    yield from find_schemes(line, data)
    yield from find_flags(line, data)
    yield from find_tokens(line, data)


def settle(findings: Iterable[Finding]) -> list[Finding]:
    """Make findings disjoint and sorted: of those that overlap the one reported first names the whole."""
    settled: list[Finding] = []
    order = 0
    for index, finding in sorted(enumerate(findings), key=lambda item: item[1][:2]):
        if settled and finding.start < settled[-1].end:
            last = settled[-1]
            kind = finding.kind if index < order else last.kind
            settled[-1] = Finding(last.start, max(last.end, finding.end), kind)
            order = min(order, index)
        else:
            settled.append(finding)
            order = index
    return settled
