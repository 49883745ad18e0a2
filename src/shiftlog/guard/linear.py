"""A typed wrapper of google-re2, whose searches take linear time on any input.

Patterns run over UTF-8 bytes; lone surrogates pass through. No pattern matches across a line break.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, cast

import re2

_re2 = cast(Any, re2)


class LinearMatch(Protocol):
    """A match in the searched bytes."""

    def start(self, group: int = 0) -> int: ...
    def end(self, group: int = 0) -> int: ...
    def group(self, group: int = 0) -> bytes | None: ...


class LinearPattern(Protocol):
    """A compiled pattern."""

    groups: int
    pattern: bytes

    def search(self, text: bytes, pos: int = 0) -> LinearMatch | None: ...
    def finditer(self, text: bytes) -> Iterator[LinearMatch]: ...


class PatternError(ValueError):
    """The pattern cannot be matched in linear time."""


def compile_linear(pattern: str, *, text: bool = False) -> LinearPattern:
    """Compile a pattern over bytes; with `text`, its classes mean characters.

    Raises `PatternError` for a pattern that does not compile.
    """
    try:
        compiled = _re2.compile(pattern if text else pattern.encode("latin-1"), _options(text=text))
        return cast(LinearPattern, compiled)
    except _re2.error as error:
        reason = error.args[0] if error.args else b""
        raise PatternError(reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)) from None


def tells_whether(pattern: LinearPattern) -> Callable[[bytes], bool]:
    """Return a predicate for a match anywhere in some bytes."""
    match = _matcher(pattern)
    return lambda data: match(data, 0, len(data))[0] >= 0


def which_match(patterns: Sequence[str]) -> Callable[[bytes], list[int]]:
    """Return a search that tells in one pass which of many short patterns match some bytes, by their index."""
    matching = _re2.Set.SearchSet(_options(text=False))
    for pattern in patterns:
        matching.Add(pattern.encode("latin-1"))
    matching.Compile()
    match = cast(Callable[[bytes], list[int] | None], matching.Match)
    return lambda data: match(data) or []


def starts_at(pattern: LinearPattern) -> Callable[[bytes, int, int], int]:
    """Return a search for the start of the first match between two positions, -1 if there is none."""
    match = _matcher(pattern)
    return lambda data, position, limit: match(data, position, limit)[0]


def spans_of(pattern: LinearPattern) -> Callable[[bytes, int, int], Iterator[tuple[int, int]]]:
    """Return a search for the starts and ends of all matches between two positions.

    The pattern never matches nothing.
    """
    match = _matcher(pattern)

    def find_all(data: bytes, position: int, limit: int) -> Iterator[tuple[int, int]]:
        start, end = match(data, position, limit)
        while start >= 0:
            yield start, end
            start, end = match(data, end, limit)

    return find_all


def _matcher(pattern: LinearPattern) -> Callable[[bytes, int, int], tuple[int, int]]:
    """Return a search for the first match between two positions.

    It leaves out the wrapper's match object: 0.7 µs in a short line instead of 2.
    """
    try:
        match, unanchored = cast(Any, pattern)._regexp.Match, _re2._Anchor.UNANCHORED
    except AttributeError:  # internals of the wrapper, which another version may name differently
        return lambda data, start, end: _span(pattern.search(data[:end], start))
    return lambda data, start, end: match(unanchored, data, start, end)[0]


def _span(match: LinearMatch | None) -> tuple[int, int]:
    return (-1, -1) if match is None else (match.start(), match.end())


def _options(*, text: bool) -> Any:
    options = _re2.Options()
    options.never_nl = True
    options.log_errors = False
    options.max_mem = 64 << 20
    if not text:
        options.encoding = _re2.Options.Encoding.LATIN1
    return options


def quote_literal(literal: str) -> str:
    """Quote a text so that a byte pattern matches its UTF-8 form."""
    data = literal.encode("utf-8", "surrogatepass")
    return "".join(chr(byte) if chr(byte).isalnum() and byte < 128 else f"\\x{byte:02x}" for byte in data)
