r"""The edges of words and values in a line: word edges, quotes, escaped quotes, ends of unquoted values.

Finds positions only; `values` decides whether a value is a secret. Text inside text is escaped (`"…\nghp_…"` in JSON,
`%3Dghp_…` in a URL, `\u003d`, terminal colours), and a word may begin right after such an escape.
"""

import re

MAX_SECRET_CHARS = 64 * 1024
#: For linear-time patterns; it takes the escape into the match.
LINEAR_EDGE = r"(?:\b|\\[abefnrtv]|\\u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2}|\\[0-7]{3}|%[0-9A-Fa-f]{2}|\[[0-9;]{0,8}m)"
#: For patterns of `re` that look for commands and headers, which begin lines. It matches no character.
NEW_LINE = r"(?<=\\[nrt])"
EDGE = rf"(?:\b|{NEW_LINE})"
_LOOK_BACK_CHARS = 512

# A quote may be escaped several times, once for each enclosing text.
QUOTE = r"\\{0,7}[\"'`]|&(?:quot|#3[49]);|%2[27]|\\{1,7}u002[27]"
OPENING = re.compile(rf"[fFbBrRuULN@$]{{0,2}}(?P<quote>{QUOTE})")
UNQUOTED = re.compile(
    r"(?>(?:[^\s\"'`<>&;,\\]|&(?![\w-]+=|&)|;(?!\s|$|[\w -]+=)|,(?!\s|$|[\w.-]+\s?[=:]|[\"'{\[])"
    r"|\\(?![nrt]|\\{0,6}[\"']))+)"
)
_RUN = re.compile(r"(?>(?:[^\s\"'`<>\\]|\\(?![nrt\"']))*)")
_APOSTROPHE = re.compile(r"(?<=[A-Za-z])'(?=[a-z])")


def closing_quote(line: str, start: int, quote: str) -> int:
    """Return the end of a quoted value: its closing quote, or the maximum length of a secret."""
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
    """Return True if this kind of quote was opened before a position on the line and not closed."""
    before = line[max(0, position - _LOOK_BACK_CHARS) : position]
    if quote == "'":
        before = _APOSTROPHE.sub("", before)
    if len(quote) > 1:
        return before.count(quote) % 2 == 1
    return (before.count(quote) - before.count("\\" + quote)) % 2 == 1


def run_end(line: str, start: int) -> int:
    """Return the end of a long unquoted value."""
    run = _RUN.match(line, start, start + MAX_SECRET_CHARS)
    return run.end() if run else start


def trim_code(value: str) -> str:
    """Drop closing brackets and separators that belong to the code around an unquoted value."""
    value = value.rstrip(",;")
    while value and value[-1] in ")]}" and value.count(value[-1]) > value.count("([{"[")]}".index(value[-1])]):
        value = value[:-1].rstrip(",;")
    return value
