r"""Finds secrets in texts that are written within a string, where line breaks are `\\n` and quotes `\\"`."""

from collections.abc import Iterator, Sequence

from shiftlog.guard.secrets.detectors.following import SecretFollower
from shiftlog.guard.secrets.detectors.kinds import SecretSpan
from shiftlog.guard.secrets.detectors.lines import find_in_line

_ESCAPES = {'\\"': '"', "\\t": "\t"}


def find_in_escaped_lines(line: str) -> Iterator[SecretSpan]:
    r"""Yield the secrets that need the line breaks of a text inside a string, where they are written `\n`."""
    if "\\n" not in line:
        return
    follower, position = SecretFollower(), 0
    for piece in line.split("\\n"):
        part, places = _unescape(piece.removesuffix("\\r"))
        findings = [*follower.find(part), *find_in_line(part)] if position else list[SecretSpan]()
        follower.read(part, findings)
        for start, end, kind in findings:
            yield SecretSpan(places[start] + position, places[end] + position, kind)
        position += len(piece) + 2


def _unescape(text: str) -> tuple[str, Sequence[int]]:
    """Undo the escapes of quotes and tabs in a string; return the text and the old places of its characters."""
    if "\\" not in text:
        return text, range(len(text) + 1)
    places: list[int] = []
    characters: list[str] = []
    position = 0
    while position < len(text):
        escaped = _ESCAPES.get(text[position : position + 2])
        places.append(position)
        characters.append(escaped or text[position])
        position += 2 if escaped else 1
    return "".join(characters), [*places, len(text)]
