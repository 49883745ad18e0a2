"""A text in memory as a source of lines, for text that is not spooled: patches and echoed commands."""

from collections.abc import Sequence

from shiftlog.guard.budgets.shape import Part, Shaped, shape
from shiftlog.guard.budgets.spec import WHOLE, Budget


class TextLines:
    """The lines of a text in memory."""

    def __init__(self, text: str) -> None:
        self._data = text.encode("utf-8", "replace")
        unterminated = bool(self._data) and not self._data.endswith(b"\n")
        self.lines_total = self._data.count(b"\n") + unterminated

    def parts(self) -> Sequence[Part]:
        return (Part(0, self.lines_total, 0, len(self._data)),)

    def read(self, start: int, end: int) -> bytes:
        return self._data[start:end]

    def chars(self, start: int, end: int) -> int:
        return len(self._data[start:end].decode("utf-8", "ignore"))

    def offset_of(self, line: int) -> int:
        return offset_of_line(self._data, line)


def offset_of_line(data: bytes, line: int) -> int:
    """Return the offset after this many line breaks; the end if there are fewer."""
    position = 0
    while line > 0 and position < len(data):
        # Bisecting by counting is far cheaper than one step per line.
        size = min(len(data) - position, max(line, 4096))
        breaks = data.count(b"\n", position, position + size)
        if breaks < line:
            position, line = position + size, line - breaks
            continue
        while size > 64 and line > 1:
            half = size // 2
            breaks = data.count(b"\n", position, position + half)
            if breaks < line:
                position, line, size = position + half, line - breaks, size - half
            else:
                size = half
        for _ in range(line):
            position = data.index(b"\n", position) + 1
        return position
    return position


def shape_text(text: str, budget: Budget | None, cap: int) -> Shaped:
    """Shape a text in memory."""
    return shape(TextLines(text), budget or WHOLE, cap)


def elide_middle(text: str, max_chars: int) -> str:
    """Cut the middle out of a text of more than `max_chars` characters."""
    if len(text) <= max_chars:
        return text
    half = max_chars // 2
    if half == 0:
        return ""
    return f"{text[:half]}\n... {len(text) - 2 * half} chars elided ...\n{text[-half:]}"
