r"""Finds secrets in texts that are written within a string, where line breaks are `\\n` and quotes `\\"`."""

from collections.abc import Iterator

from shiftlog.guard.secrets.detectors.following import SecretFollower
from shiftlog.guard.secrets.detectors.kinds import SecretSpan
from shiftlog.guard.secrets.detectors.lines import Sign, Signs, SuspiciousLines, find_in_line

_ESCAPES = ('\\"', "\\t")


def find_in_escaped_lines(line: str) -> Iterator[SecretSpan]:
    r"""Yield the secrets that need the line breaks of a text inside a string, where they are written `\n`."""
    if "\\n" not in line:
        return
    pieces = line.split("\\n")
    data = "\n".join(pieces).replace("\\r\n", "\n").replace('\\"', '"').replace("\\t", "\t").encode("latin-1")
    follower = SecretFollower()
    for number, start, end, signs in _lines_to_search(data, follower):
        text = data[start:end].decode("latin-1")
        # The first line was searched as the beginning of the whole.
        findings = [*follower.find(text), *find_in_line(text, signs)] if number else []
        follower.read(text, findings, announces=Sign.FOLLOW in signs.kinds)
        if findings:
            old = _old_places(pieces[number], sum(map(len, pieces[:number])) + 2 * number)
            yield from (SecretSpan(old[begin], old[stop], kind) for begin, stop, kind in findings)


def _lines_to_search(data: bytes, follower: SecretFollower) -> Iterator[tuple[int, int, int, Signs]]:
    """Yield number, start, end and signs of the suspicious lines, and of those that the follower waits for."""
    suspicious, number, start = SuspiciousLines(data), 0, 0
    while start <= len(data):
        if follower.idle:
            hit = suspicious.find(start, len(data))
            if hit >= len(data):
                return
            begin = data.rfind(b"\n", start, hit) + 1 or start
            number += data.count(b"\n", start, begin)
            start = begin
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
