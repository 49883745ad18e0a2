r"""Finds secrets in texts that are written within a string, where line breaks are `\\n` and quotes `\\"`."""

from collections import deque
from collections.abc import Iterator

from shiftlog.guard.secrets.detectors.following import SecretFollower
from shiftlog.guard.secrets.detectors.kinds import SecretSpan
from shiftlog.guard.secrets.detectors.lines import LinePart, Sign, Signs, decode_inner, find_in_line, look

_BREAK = "\\n"
_ESCAPES = ('\\"', "\\t")
_REACH_CHARS = 1024  # how far before a hint a line is searched that does not begin with a line break


def find_in_escaped_lines(line: str, signs: Signs) -> Iterator[SecretSpan]:
    r"""Yield the secrets that need the line breaks of a text inside a string, where they are written `\n`.

    `signs` is what `look` found in the whole line: only the lines there are searched, and those that they announce.
    """
    if _BREAK not in line:
        return
    parts = deque(part for part in signs.parts if _is_left(line, part))
    follower, start = SecretFollower(), 0
    while (parts or not follower.idle) and start < len(line):
        if follower.idle:
            begin = max(start, parts[0].start - _REACH_CHARS)
            before = line.rfind(_BREAK, begin, parts[0].start)
            start = begin if before < 0 else before + len(_BREAK)
        end = line.find(_BREAK, start)
        end, after = (len(line), len(line)) if end < 0 else (end, end + len(_BREAK))
        yield from _find_in_inner(line, start, end, follower, parts[0] if parts and parts[0].start < after else None)
        start = after
        while parts and parts[0].end <= start:
            parts.popleft()


def _is_left(line: str, part: LinePart) -> bool:
    """Return True if a part was not searched, or not in the way in which its line breaks need it."""
    return part.inner or Sign.FOLLOW in part.kinds or line.find(_BREAK, part.start, part.end) >= 0


def _find_in_inner(
    line: str, start: int, end: int, follower: SecretFollower, part: LinePart | None
) -> Iterator[SecretSpan]:
    """Find what one escaped line holds; the first one of all was searched as the beginning of the whole."""
    data = decode_inner(line[start:end].encode("latin-1"))
    text = data.decode("latin-1")
    if part is None:
        signs = Signs(frozenset(), ())
    elif part.inner and part.start == start and part.end <= end + len(_BREAK):
        signs = Signs(part.kinds, (LinePart(0, len(data), part.kinds, part.rows),))
    else:
        signs = look(data)
    findings = [*follower.find(text), *(find_in_line(text, signs) if signs else ())] if start else []
    follower.read(text, findings, announces=Sign.FOLLOW in signs.kinds)
    if findings and len(text) == end - start:
        yield from (SecretSpan(start + first, start + last, kind) for first, last, kind in findings)
    elif findings:
        old = _old_places(line[start:end], start)
        yield from (SecretSpan(old[first], old[last], kind) for first, last, kind in findings)


def _old_places(text: str, start: int) -> list[int]:
    """Return the places that the characters of a text had before its quotes and tabs were unescaped."""
    places: list[int] = []
    position = 0
    while position < len(text):
        places.append(start + position)
        position += 2 if text[position : position + 2] in _ESCAPES else 1
    return [*places, start + len(text)]
