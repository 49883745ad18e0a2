"""Where a value starts and ends in a line: quotes, escaped quotes, and what ends a value without them.

Positions alone; whether the value is a secret is not asked here.
"""

import re

MAX_SECRET_CHARS = 64 * 1024
_LOOK_BACK_CHARS = 512

# A quote may itself be escaped, once for every text that the line was put into.
OPENING = re.compile(r"[fFbBrRuUL@$]{0,2}(?P<quote>\\{0,7}[\"'`])")
UNQUOTED = re.compile(
    r"(?>(?:[^\s\"'`<>&;,\\]|&(?![\w-]+=|&)|;(?!\s|$|[\w -]+=)|,(?!\s|$|[\w.-]+\s?[=:]|[\"'{\[])"
    r"|\\(?![nrt](?:[\w.-]+\s?[=:]|\s|$|\\|[\"'])|\\{0,6}[\"']))+)"
)
_RUN = re.compile(r"[^\s\"'`<>]*")
_APOSTROPHE = re.compile(r"(?<=[A-Za-z])'(?=[a-z])")


def closing_quote(line: str, start: int, quote: str) -> int:
    """Find where a quoted value ends: at its own kind of quote, or where no secret is longer."""
    limit = min(len(line), start + MAX_SECRET_CHARS)
    position = start
    while True:
        end = line.find(quote, position, limit)
        if end < 0:
            return limit
        slashes = 0
        while end - slashes > start and line[end - slashes - 1] == "\\":
            slashes += 1
        if slashes == 0 or (len(quote) == 1 and slashes % 2 == 0):
            return end
        position = end + len(quote)


def is_inside_quotes(line: str, position: int, quote: str) -> bool:
    """Return True if a position lies in a text that this kind of quote has opened before it on the line."""
    before = line[max(0, position - _LOOK_BACK_CHARS) : position]
    if quote == "'":
        before = _APOSTROPHE.sub("", before)
    if len(quote) > 1:
        return before.count(quote) % 2 == 1
    return (before.count(quote) - before.count("\\" + quote)) % 2 == 1


def run_end(line: str, start: int) -> int:
    """Find the end of a long value without quotes."""
    run = _RUN.match(line, start, start + MAX_SECRET_CHARS)
    return run.end() if run else start


def trim_code(value: str) -> str:
    """Drop the closing brackets and separators that belong to the code around an unquoted value."""
    value = value.rstrip(",;")
    while value and value[-1] in ")]}" and value.count(value[-1]) > value.count("([{"[")]}".index(value[-1])]):
        value = value[:-1].rstrip(",;")
    return value
