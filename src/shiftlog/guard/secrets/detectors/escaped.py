r"""Finds secrets in texts that are written within a string, where line breaks are `\\n` and quotes `\\"`."""

from collections.abc import Iterator
from itertools import accumulate

from shiftlog.guard.secrets.detectors.following import SecretFollower
from shiftlog.guard.secrets.detectors.kinds import SecretSpan
from shiftlog.guard.secrets.detectors.lines import Sign, Signs, SuspiciousLines, find_in_line

_BREAK = "\\n"
_ESCAPES = ('\\"', "\\t")


def find_in_escaped_lines(line: str, signs: Signs) -> Iterator[SecretSpan]:
    r"""Yield the secrets that need the line breaks of a text inside a string, where they are written `\n`.

    `signs` is what `look` found in the whole line: only the lines there are searched, and those that they announce.
    """
    if _BREAK not in line:
        return
    follower, after = SecretFollower(), 0
    for part in signs.parts:
        before = line.rfind(_BREAK, after, part.start)
        start, end = after if before < 0 else before + len(_BREAK), part.end
        while start < len(line) and (start < part.end or not follower.idle):
            end = line.find(_BREAK, end)
            after = len(line) if end < 0 else end + len(_BREAK)
            yield from _find_in_lines(line, start, len(line) if end < 0 else end, follower)
            start = end = after


def _find_in_lines(line: str, start: int, end: int, follower: SecretFollower) -> Iterator[SecretSpan]:
    """Find what escaped lines hold; the first one of all was searched as the beginning of the whole."""
    pieces = line[start:end].split(_BREAK)
    data = "\n".join(pieces).replace("\\r\n", "\n").replace('\\"', '"').replace("\\t", "\t").encode("latin-1")
    places: list[int] = []
    for number, begin, stop, signs in _lines_to_search(data, follower):
        text = data[begin:stop].decode("latin-1")
        findings = [*follower.find(text), *find_in_line(text, signs)] if start or number else []
        follower.read(text, findings, announces=Sign.FOLLOW in signs.kinds)
        if findings:
            places = places or list(accumulate((len(piece) + len(_BREAK) for piece in pieces), initial=start))
            old = _old_places(pieces[number], places[number])
            yield from (SecretSpan(old[first], old[last], kind) for first, last, kind in findings)


def _lines_to_search(data: bytes, follower: SecretFollower) -> Iterator[tuple[int, int, int, Signs]]:
    """Yield number, start, end and signs of the suspicious lines, and of those that the follower waits for."""
    suspicious, number, start = SuspiciousLines(data), 0, 0
    while start <= len(data):
        if follower.idle:
            hit = suspicious.find(start, len(data))
            if hit >= len(data):
                return
            number += data.count(b"\n", start, hit)
            start = hit
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        yield number, start, end, suspicious.look(start, end)
        number, start = number + 1, end + 1


def _old_places(text: str, start: int) -> list[int]:
    """Return the places that the characters of a text had before its quotes and tabs were unescaped."""
    places: list[int] = []
    position = 0
    while position < len(text):
        places.append(start + position)
        position += 2 if text[position : position + 2] in _ESCAPES else 1
    return [*places, start + len(text)]
