"""Writes the kept lines of a text with a marker for each gap, and cuts the middle out of a long result.

Keeps the beginning as text and the end as offsets, so that memory depends on the result, not on the kept lines.
"""

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class ByteSource(Protocol):
    """UTF-8 bytes with random access."""

    def read(self, start: int, end: int) -> bytes: ...
    def chars(self, start: int, end: int) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CutResult:
    """The finished text, whether its middle was cut out, and the offset of the first dropped byte."""

    text: str
    cut: bool
    elided_at: int | None


class _TextPiece(NamedTuple):
    """The text of a marker, or a range of the source."""

    chars: int
    marker: str | None = None
    start: int = 0
    end: int = 0


class CutText:
    """Takes kept lines in order; `finish` returns at most `max_chars` characters and one marker."""

    def __init__(self, source: ByteSource, max_chars: int, *, unterminated: frozenset[int] = frozenset()) -> None:
        self._source = source
        self._unterminated = unterminated  # ends of lines without a line break
        self._max = max_chars
        self._half = max_chars // 2
        self._run: tuple[int, int, int] | None = None  # the open run: the line after it, its bytes
        self._line = 0  # the first line neither kept nor counted as elided
        self._kept_to = 0  # the offset after the last kept byte
        self._gap_at: int | None = None
        self._lost = False  # the source lacks the end of a kept line
        self._total = 0
        self._head: list[str] = []
        self._head_chars = 0
        self._first_chars: int | None = None  # characters of the first piece, if the text begins with it
        self._tail: deque[_TextPiece] = deque()
        self._tail_chars = 0

    def keep(self, first: int, last: int, start: int, end: int) -> None:
        """Keep the lines `first` to `last - 1`, which are the bytes `start` to `end`."""
        if self._run is not None and first == self._run[0]:
            if start == self._run[2]:
                self._run = (last, self._run[1], end)
                return
            self._lose_end_of_line()
        self._close_run()
        if first > self._line:
            self._mark_gap(first, end="\n")
        self._run = (last, start, end)

    def finish(self, lines_total: int) -> CutResult:
        """End a text of this many lines."""
        self._close_run()
        if lines_total > self._line:
            self._mark_gap(lines_total, end="")
        if self._total <= self._max:
            rest = self._read_tail(self._total - self._head_chars)
            return CutResult(text="".join(self._head) + rest, cut=self._lost, elided_at=self._gap_at)
        head = "".join(self._head)
        elided_at = self._gap_at
        if self._first_chars is not None and self._half < self._first_chars:
            elided_at = len(head.encode())
        if self._half == 0:
            return CutResult(text="", cut=True, elided_at=elided_at)
        elided = self._total - 2 * self._half
        text = f"{head}\n... {elided} chars elided ...\n{self._read_tail(self._half)}"
        return CutResult(text=text, cut=True, elided_at=elided_at)

    def _lose_end_of_line(self) -> None:
        """End a run whose last line the source holds only in part, although it holds the next line."""
        self._close_run()
        self._lost = True
        self._gap_at = self._kept_to if self._gap_at is None else self._gap_at
        self._append(_TextPiece(1, "\n"))

    def _close_run(self) -> None:
        if self._run is None:
            return
        last, start, end = self._run
        self._run = None
        text_end = end if end in self._unterminated else end - 1
        piece = _TextPiece(self._source.chars(start, text_end), None, start, text_end)
        if start == 0:
            self._first_chars = piece.chars
        self._append(piece)
        self._line, self._kept_to = last, end

    def _mark_gap(self, until: int, end: str) -> None:
        if self._gap_at is None:
            self._gap_at = self._kept_to
        begin = "\n" if self._total or self._line else ""
        marker = f"{begin}... {until - self._line} lines elided ...{end}"
        self._append(_TextPiece(len(marker), marker))

    def _append(self, piece: _TextPiece) -> None:
        self._total += piece.chars
        if self._head_chars < self._half and piece.chars:
            text = self._first_of(piece, self._half - self._head_chars)
            self._head.append(text)
            self._head_chars += len(text)
        self._tail.append(piece)
        self._tail_chars += piece.chars
        while self._tail_chars - self._tail[0].chars > self._max - self._half:
            self._tail_chars -= self._tail.popleft().chars

    def _read_tail(self, chars: int) -> str:
        """Return the last characters of everything added."""
        texts: list[str] = []
        for piece in reversed(self._tail):
            if chars <= 0:
                break
            text = self._last_of(piece, chars)
            chars -= len(text)
            texts.append(text)
        return "".join(reversed(texts))

    def _first_of(self, piece: _TextPiece, chars: int) -> str:
        if piece.marker is not None:
            return piece.marker[:chars]
        # A character has at most four bytes; one that the range cuts lies after the wanted ones.
        data = self._source.read(piece.start, min(piece.end, piece.start + 4 * chars))
        return data.decode("utf-8", "ignore")[:chars]

    def _last_of(self, piece: _TextPiece, chars: int) -> str:
        if piece.marker is not None:
            return piece.marker[-chars:]
        data = self._source.read(max(piece.start, piece.end - 4 * chars), piece.end)
        return data.decode("utf-8", "ignore")[-chars:]
