"""The patterns of budgets: linear-time regular expressions, searched in each line of a text.

Look-around, back-references and other constructs that linear time excludes are refused by name. A block of many lines
is searched at once; only a pattern that anchors to the whole text is tried line by line.
"""

import re
from collections.abc import Iterator

from shiftlog.guard.linear import LinearPattern, PatternError, compile_linear

MAX_PATTERN_BYTES = 4096

# These anchor to the ends of the text or switch line mode off, so the pattern cannot be searched in many lines at once.
_WHOLE_TEXT = re.compile(r"\\[AzC]|\(\?[a-zA-Z]*-?[a-zA-Z]*m")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]?", re.DOTALL)
_REFUSED = (
    (re.compile(r"\(\?<?[=!]"), "look-around is not supported in linear-time patterns"),
    (re.compile(r"\\[1-9]|\\[gk][{<'\d]|\(\?P=\w"), "back-references are not supported in linear-time patterns"),
    (re.compile(r"\(\?\("), "conditionals are not supported in linear-time patterns"),
    (re.compile(r"\(\?>|[*+?}]\+"), "atomic groups and possessive repeats are not supported in linear-time patterns"),
)


class PatternRefused(ValueError):
    """The pattern cannot be used; `reason` and `offset` say why and where."""

    def __init__(self, reason: str, offset: int | None = None, *, too_long: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.offset = offset
        self.too_long = too_long


class LinePattern:
    """A compiled pattern for lines; raises `PatternRefused` if it cannot be used."""

    __slots__ = ("_by_line", "_compiled", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            size = len(text.encode())
        except UnicodeEncodeError as error:
            raise PatternRefused("lone surrogates are not text", error.start) from None
        if size > MAX_PATTERN_BYTES:
            raise PatternRefused(f"it is {size} bytes; at most {MAX_PATTERN_BYTES}", too_long=True)
        try:
            bare = compile_linear(text, text=True)
        except PatternError as error:
            raise _explain(text, str(error)) from None
        self._by_line = _WHOLE_TEXT.search(text) is not None
        # Match to the end of the line, so that the search continues on the next line.
        self._compiled: LinearPattern = bare if self._by_line else compile_linear(f"(?m)(?:{text}).*$", text=True)

    def __repr__(self) -> str:
        return f"LinePattern({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LinePattern) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def find(self, block: bytes) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each run of matching lines; the end is after the last line break.

        The block holds whole lines of UTF-8; the last one may lack its line break.
        """
        begin = end = 0
        for line, line_end in self._find_by_line(block) if self._by_line else self._find_in_bulk(block):
            if line != end:
                if begin < end:
                    yield begin, end
                begin = line
            end = line_end
        if begin < end:
            yield begin, end

    def _find_in_bulk(self, block: bytes) -> Iterator[tuple[int, int]]:
        position, size = 0, len(block)
        for match in self._compiled.finditer(block):
            hit = match.start()
            if hit < position:
                continue  # an empty match at the end of a line already found
            if hit == size and (position == size or block.endswith(b"\n")):
                return  # an empty rest after the last line is not a line
            start = block.rfind(b"\n", position, hit) + 1 or position
            position = min(match.end() + 1, size)
            yield start, position

    def _find_by_line(self, block: bytes) -> Iterator[tuple[int, int]]:
        position, search = 0, self._compiled.search
        for line in block.split(b"\n"):
            end = min(position + len(line) + 1, len(block))
            if position < len(block) and search(line) is not None:
                yield position, end
            position = end


def _explain(pattern: str, reason: str) -> PatternRefused:
    """Name the unsupported construct in a pattern, or pass on the compiler's message."""
    position = 0
    while position < len(pattern):
        for refused, says in _REFUSED:
            if refused.match(pattern, position):
                return PatternRefused(says, position)
        if pattern[position] == "[" and (skipped := _CLASS.match(pattern, position)):
            position = skipped.end()
        else:
            position += 2 if pattern[position] == "\\" else 1
    offset = pattern.find(reason.rpartition(": ")[2])
    return PatternRefused(reason, offset if offset >= 0 else None)
