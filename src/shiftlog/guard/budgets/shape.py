"""Shaping a text by a budget: grep, keep, one marker per gap, cut of the middle, and the report.

Works on a `LineSource`, so that an output of gigabytes is never in memory: lines are picked by number, counted in
blocks and only what is shown is read. Where the source lacks lines (an output longer than its spool), they are a gap.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from shiftlog.guard.budgets.cut import CutText
from shiftlog.guard.budgets.patterns import LinePattern
from shiftlog.guard.budgets.spec import Budget

BLOCK_BYTES = 512 * 1024
_BREAK = 10
LINE_BYTES = 1024 * 1024  # a longer line is searched in its first part


class Part(NamedTuple):
    """Lines that a source holds: the first one's number from 0, how many, and where their bytes begin and end."""

    first: int
    lines: int
    start: int
    end: int


class LineSource(Protocol):
    """A text of numbered lines that can be read anywhere."""

    @property
    def lines_total(self) -> int:
        """How many lines the text has, the unterminated last one and missing ones included."""
        ...

    def parts(self) -> Sequence[Part]:
        """Return the lines that are there, in order."""
        ...

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes of a range that lies in one part."""
        ...

    def chars(self, start: int, end: int) -> int:
        """Count the characters of a range."""
        ...

    def offset_of(self, line: int) -> int:
        """Return where a line begins that is there; behind a part's last line, where the part ends."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a budget did to a text."""

    mode: str
    lines_total: int
    lines_kept: int

    def as_dict(self) -> dict[str, object]:
        """Return the report as results show it."""
        return {"mode": self.mode, "lines_total": self.lines_total, "lines_kept": self.lines_kept}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shaped:
    """A shaped text; `elided_at` is the offset of the first byte that was dropped."""

    text: str
    report: Report
    truncated: bool
    elided_at: int | None = None


class _Lines(NamedTuple):
    """Lines `first` to `last - 1` and their bytes."""

    first: int
    last: int
    start: int
    end: int


class _Place(NamedTuple):
    """Where a search can be taken up again: a block, and what was found before it."""

    part: int
    offset: int
    line: int
    found_to: int
    found_end: int
    found: int


def shape(source: LineSource, budget: Budget, cap: int) -> Shaped:
    """Shape a text; `cap` is the greatest number of characters where the budget names none."""
    survivors = _Grep(source, budget) if budget.grep is not None else _All(source)
    keep = budget.keep
    head, tail = (keep.head, keep.tail) if keep is not None else (None, None)
    max_chars = budget.max_chars if budget.max_chars is not None else cap
    text = CutText(source, max_chars, unterminated=_unterminated(source))
    if head is None or tail is None:
        kept = sum(_show(text, lines) for lines in survivors.all())
    else:
        kept = sum(_show(text, lines) for lines in survivors.first(head))
        if tail and kept == head:
            kept += sum(_show(text, lines) for lines in survivors.last(tail, behind=head))
    whole = text.finish(source.lines_total)
    report = Report(mode=budget.mode, lines_total=source.lines_total, lines_kept=kept)
    truncated = kept < source.lines_total or whole.cut
    return Shaped(text=whole.text, report=report, truncated=truncated, elided_at=whole.elided_at if truncated else None)


def _unterminated(source: LineSource) -> frozenset[int]:
    ends = (part.end for part in source.parts() if part.lines)
    return frozenset(end for end in ends if source.read(end - 1, end) != b"\n")


def _show(text: CutText, lines: _Lines) -> int:
    text.keep(lines.first, lines.last, lines.start, lines.end)
    return lines.last - lines.first


def _cut_lines(source: LineSource, lines: _Lines, skip: int, most: int) -> _Lines | None:
    """Leave out the first lines of a run, and those behind the most that are wanted."""
    first, last = lines.first + skip, min(lines.last, lines.first + skip + most)
    if first >= last:
        return None
    start = lines.start if first == lines.first else source.offset_of(first)
    end = lines.end if last == lines.last else source.offset_of(last)
    return _Lines(first, last, start, end)


def _slice(source: LineSource, runs: Iterator[_Lines], skip: int, most: int) -> Iterator[_Lines]:
    """Yield `most` lines of the runs behind the first `skip`."""
    for lines in runs:
        if most <= 0:
            return
        if cut := _cut_lines(source, lines, skip, most):
            yield cut
            most -= cut.last - cut.first
        skip = max(0, skip - (lines.last - lines.first))


def _step_back(block: bytes, position: int, lines: int) -> int | None:
    """Return where the line begins that is so many lines before a line's start; None if the block does not show it."""
    for _ in range(lines):
        if position <= 0:
            return None
        position = block.rfind(b"\n", 0, position - 1) + 1
    return position


def _step_forward(block: bytes, position: int, lines: int) -> int | None:
    """Return where so many lines behind a position end; None if the block does not show it."""
    for _ in range(lines):
        position = block.find(b"\n", position) + 1
        if not position:
            return None
    return position


class _All:
    """Every line that is there."""

    def __init__(self, source: LineSource) -> None:
        self._source = source

    def all(self) -> Iterator[_Lines]:
        for first, count, start, end in self._source.parts():
            if count:
                yield _Lines(first, first + count, start, end)

    def first(self, most: int) -> Iterator[_Lines]:
        return _slice(self._source, self.all(), 0, most)

    def last(self, most: int, *, behind: int) -> Iterator[_Lines]:
        count = sum(part.lines for part in self._source.parts())
        return _slice(self._source, self.all(), max(behind, count - most), most)


class _Grep:
    """The lines that a pattern finds and those around them."""

    def __init__(self, source: LineSource, budget: Budget) -> None:
        assert budget.grep is not None
        self._source = source
        self._pattern: LinePattern = budget.grep.pattern
        self._context = budget.grep.context
        self._parts = source.parts()

    def all(self) -> Iterator[_Lines]:
        return self._find(_Place(0, -1, 0, 0, 0, 0), [])

    def first(self, most: int) -> Iterator[_Lines]:
        return _slice(self._source, self.all(), 0, most) if most else iter(())

    def last(self, most: int, *, behind: int) -> Iterator[_Lines]:
        places: list[_Place] = []
        count = sum(lines.last - lines.first for lines in self._find(_Place(0, -1, 0, 0, 0, 0), places))
        skip = max(behind, count - most)
        place = next((place for place in reversed(places) if place.found <= skip), None)
        return iter(()) if place is None else _slice(self._source, self._find(place, []), skip - place.found, most)

    def _find(self, place: _Place, places: list[_Place]) -> Iterator[_Lines]:
        """Yield runs of lines from a place on, and note at each block how to take it up there."""
        _, offset, line, found_to, found_end, found = place
        for index in range(place.part, len(self._parts)):
            part = self._parts[index]
            if offset < 0:
                offset, line, found_to, found_end = part.start, part.first, part.first, part.start
            while offset < part.end:
                places.append(_Place(index, offset, line, found_to, found_end, found))
                block, size = self._read_block(offset, part.end)
                counted = 0
                for start, end in self._pattern.find(block):
                    line += block.count(b"\n", counted, start)
                    counted = start
                    whole_end = offset + size if end == len(block) else offset + end
                    found_lines = block.count(b"\n", start, end) + (end == len(block) and block[-1] != _BREAK)
                    run = _Lines(line, line + found_lines, offset + start, whole_end)
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
        self, part: Part, hit: _Lines, found_to: int, found_end: int, block: bytes, offset: int
    ) -> _Lines | None:
        """Return the lines around a hit that no hit before it has brought.

        Goes on where those end, so that a wide context does not make each of many hits step over the same lines.
        """
        first = max(hit.first - self._context, found_to)
        last = min(hit.last + self._context, part.first + part.lines)
        if first >= last:
            return None
        behind, behind_end = (found_to, found_end) if found_to > hit.last else (hit.last, hit.end)
        start = found_end - offset if first == found_to else _step_back(block, hit.start - offset, hit.first - first)
        end = _step_forward(block, behind_end - offset, last - behind)
        return _Lines(
            first,
            last,
            self._source.offset_of(first) if start is None else offset + start,
            self._source.offset_of(last) if end is None else offset + end,
        )

    def _read_block(self, offset: int, limit: int) -> tuple[bytes, int]:
        """Return whole lines from an offset on, and how many bytes they are; of a very long line only its beginning."""
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
