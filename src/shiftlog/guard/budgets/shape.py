"""Shapes a text by a budget: grep, keep, a marker for each gap, cutting the middle, and the report.

Reads from a `LineSource`, so an output of gigabytes is never in memory: lines are selected by number, counted in
blocks, and only shown lines are read. Lines that the source lacks (an output longer than its spool) are a gap.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from shiftlog.guard.budgets.cut import ByteSource, CutText
from shiftlog.guard.budgets.patterns import LinePattern
from shiftlog.guard.budgets.spec import Budget

BLOCK_BYTES = 512 * 1024
_BREAK = 10
LINE_BYTES = 1024 * 1024  # of a longer line only the beginning is searched


class Part(NamedTuple):
    """Lines that a source holds: the first number from 0, the count, and the range of their bytes."""

    first: int
    lines: int
    start: int
    end: int


class LineSource(ByteSource, Protocol):
    """A text of numbered lines with random access; every range that is read lies within one part."""

    @property
    def lines_total(self) -> int:
        """The number of lines, including missing ones and an unterminated last one."""
        ...

    def parts(self) -> Sequence[Part]:
        """Return the available lines, in order."""
        ...

    def offset_of(self, line: int) -> int:
        """Return the offset of an available line; after the last line of a part, the end of the part."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetReport:
    """The effect of a budget on a text."""

    mode: str
    lines_total: int
    lines_kept: int

    def as_dict(self) -> dict[str, object]:
        """Return the report for results."""
        return {"mode": self.mode, "lines_total": self.lines_total, "lines_kept": self.lines_kept}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shaped:
    """A shaped text; `elided_at` is the offset of the first dropped byte."""

    text: str
    report: BudgetReport
    truncated: bool
    elided_at: int | None = None


class _LineRange(NamedTuple):
    """The lines `first` to `last - 1` and their bytes."""

    first: int
    last: int
    start: int
    end: int


class _SearchPoint(NamedTuple):
    """A point from which a search can be repeated: a block, and what was found before it."""

    part: int
    offset: int
    line: int
    found_to: int
    found_end: int
    found: int


_START = _SearchPoint(0, -1, 0, 0, 0, 0)


def shape(source: LineSource, budget: Budget, cap: int) -> Shaped:
    """Shape a text; `cap` limits the characters if the budget does not."""
    survivors = _GrepLines(source, budget) if budget.grep is not None else _AllLines(source)
    keep = budget.keep
    head, tail = (keep.head, keep.tail) if keep is not None else (None, None)
    max_chars = budget.max_chars if budget.max_chars is not None else cap
    ends = (part.end for part in source.parts() if part.lines)
    unterminated = frozenset(end for end in ends if source.read(end - 1, end) != b"\n")
    text = CutText(source, max_chars, unterminated=unterminated)
    if head is None or tail is None:
        kept = sum(_show(text, lines) for lines in survivors.all())
    else:
        kept = sum(_show(text, lines) for lines in survivors.first(head))
        if tail and kept == head:
            kept += sum(_show(text, lines) for lines in survivors.last(tail, behind=head))
    whole = text.finish(source.lines_total)
    report = BudgetReport(mode=budget.mode, lines_total=source.lines_total, lines_kept=kept)
    truncated = kept < source.lines_total or whole.cut
    return Shaped(text=whole.text, report=report, truncated=truncated, elided_at=whole.elided_at if truncated else None)


def _show(text: CutText, lines: _LineRange) -> int:
    text.keep(lines.first, lines.last, lines.start, lines.end)
    return lines.last - lines.first


def _cut_lines(source: LineSource, lines: _LineRange, skip: int, most: int) -> _LineRange | None:
    """Drop the first `skip` lines of a run, and those after the next `most`."""
    first, last = lines.first + skip, min(lines.last, lines.first + skip + most)
    if first >= last:
        return None
    start = lines.start if first == lines.first else source.offset_of(first)
    end = lines.end if last == lines.last else source.offset_of(last)
    return _LineRange(first, last, start, end)


def _slice(source: LineSource, runs: Iterator[_LineRange], skip: int, most: int) -> Iterator[_LineRange]:
    """Yield `most` lines of the runs after the first `skip`."""
    for lines in runs:
        if most <= 0:
            return
        if cut := _cut_lines(source, lines, skip, most):
            yield cut
            most -= cut.last - cut.first
        skip = max(0, skip - (lines.last - lines.first))


def _step_back(block: bytes, position: int, lines: int) -> int | None:
    """Return the offset of the line this many lines before a line start; None if it is not in the block."""
    for _ in range(lines):
        if position <= 0:
            return None
        position = block.rfind(b"\n", 0, position - 1) + 1
    return position


def _step_forward(block: bytes, position: int, lines: int) -> int | None:
    """Return the end of this many lines after a position; None if it is not in the block."""
    for _ in range(lines):
        position = block.find(b"\n", position) + 1
        if not position:
            return None
    return position


class _AllLines:
    """Every available line."""

    def __init__(self, source: LineSource) -> None:
        self._source = source

    def all(self) -> Iterator[_LineRange]:
        for first, count, start, end in self._source.parts():
            if count:
                yield _LineRange(first, first + count, start, end)

    def first(self, most: int) -> Iterator[_LineRange]:
        return _slice(self._source, self.all(), 0, most)

    def last(self, most: int, *, behind: int) -> Iterator[_LineRange]:
        count = sum(part.lines for part in self._source.parts())
        return _slice(self._source, self.all(), max(behind, count - most), most)


class _GrepLines:
    """The lines that match a pattern, and their context."""

    def __init__(self, source: LineSource, budget: Budget) -> None:
        assert budget.grep is not None
        self._source = source
        self._pattern: LinePattern = budget.grep.pattern
        self._context = budget.grep.context
        self._parts = source.parts()

    def all(self) -> Iterator[_LineRange]:
        return self._find(_START, [])

    def first(self, most: int) -> Iterator[_LineRange]:
        return _slice(self._source, self.all(), 0, most) if most else iter(())

    def last(self, most: int, *, behind: int) -> Iterator[_LineRange]:
        points: list[_SearchPoint] = []
        count = sum(lines.last - lines.first for lines in self._find(_START, points))
        skip = max(behind, count - most)
        point = next((point for point in reversed(points) if point.found <= skip), None)
        return iter(()) if point is None else _slice(self._source, self._find(point, []), skip - point.found, most)

    def _find(self, point: _SearchPoint, points: list[_SearchPoint]) -> Iterator[_LineRange]:
        """Yield runs of lines from a point on, and record a point at each block."""
        _, offset, line, found_to, found_end, found = point
        for index in range(point.part, len(self._parts)):
            part = self._parts[index]
            if offset < 0:
                offset, line, found_to, found_end = part.start, part.first, part.first, part.start
            while offset < part.end:
                points.append(_SearchPoint(index, offset, line, found_to, found_end, found))
                block, size = self._read_block(offset, part.end)
                counted = 0
                for start, end in self._pattern.find(block):
                    line += block.count(b"\n", counted, start)
                    counted = start
                    whole_end = offset + size if end == len(block) else offset + end
                    found_lines = block.count(b"\n", start, end) + (end == len(block) and block[-1] != _BREAK)
                    run = _LineRange(line, line + found_lines, offset + start, whole_end)
                    if self._context or line < found_to:
                        run = self._with_context(part, run, found_to, found_end, block, offset)
                    if run is not None:
                        yield run
                        found += run.last - run.first
                        found_to, found_end = run.last, run.end
                line += block.count(b"\n", counted) if size == len(block) else 1
                offset += size
            offset = -1

    def _with_context(
        self, part: Part, hit: _LineRange, found_to: int, found_end: int, block: bytes, offset: int
    ) -> _LineRange | None:
        """Return the lines around a hit that no earlier hit included.

        Starts where the earlier ones end, so that many hits with a wide context do not step over the same lines again.
        """
        first = max(hit.first - self._context, found_to)
        last = min(hit.last + self._context, part.first + part.lines)
        if first >= last:
            return None
        behind, behind_end = (found_to, found_end) if found_to > hit.last else (hit.last, hit.end)
        start = found_end - offset if first == found_to else _step_back(block, hit.start - offset, hit.first - first)
        end = _step_forward(block, behind_end - offset, last - behind)
        return _LineRange(
            first,
            last,
            self._source.offset_of(first) if start is None else offset + start,
            self._source.offset_of(last) if end is None else offset + end,
        )

    def _read_block(self, offset: int, limit: int) -> tuple[bytes, int]:
        """Return whole lines from an offset on and their size in bytes; of a very long line only the beginning."""
        block = self._source.read(offset, min(offset + BLOCK_BYTES, limit))
        if offset + len(block) == limit:
            return block, len(block)
        if cut := block.rfind(b"\n") + 1:
            return block[:cut], cut
        end = offset + len(block)
        while end < limit:
            more = self._source.read(end, min(end + BLOCK_BYTES, limit))
            found = more.find(b"\n") + 1
            end += found or len(more)
            if len(block) < LINE_BYTES:
                block += more[: found or len(more)]
            if found:
                break
        return block, end - offset
