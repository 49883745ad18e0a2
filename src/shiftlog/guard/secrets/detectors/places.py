"""Finds secrets in the places that `place_commands`, `place_files` and `place_code` list.

Decides nothing that a row of these tables can say.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache

from shiftlog.guard.linear import compile_linear, starts_at, which_match
from shiftlog.guard.secrets.detectors import kinds
from shiftlog.guard.secrets.detectors.kinds import SecretSpan
from shiftlog.guard.secrets.detectors.place import LINE_START, Place
from shiftlog.guard.secrets.detectors.place_code import CODE
from shiftlog.guard.secrets.detectors.place_commands import COMMANDS
from shiftlog.guard.secrets.detectors.place_files import FILES
from shiftlog.guard.secrets.detectors.quotes import EDGE, LINEAR_EDGE
from shiftlog.guard.secrets.detectors.values import Notation, is_secret

PLACES = (*COMMANDS, *FILES, *CODE)

_VALUE = (
    r"(?:\\?\"(?P<d{n}>[^\"\\]{{1,512}})|\\?'(?P<s{n}>[^'\\]{{1,512}})|(?P<u{n}>(?![-\"'])[^\s\"'|;&<>\\]{{1,512}}))"
)
_PAIR = (
    r"(?:\\?[\"']?[^\s:\"'/\\]{1,128}\\?[\"']?:\\?(?:\"(?P<d7>[^\"\\]{1,512})|'(?P<s7>[^'\\]{1,512}))"
    r"|\\?\"[^\s:\"/]{1,128}:(?P<d8>[^\"\\]{1,512})\\?\"|\\?'[^\s:'/]{1,128}:(?P<s8>[^'\\]{1,512})\\?'"
    r"|[^\s:\"'/]{1,128}:(?!//)(?P<u8>[^\s\"'|;&<>\\]{1,512}))"
)
_ANY = r"\b[^|]{0,300}?"
_PORTS = re.compile(r"\d{1,5}$|[\d.]+:[\d:.]+(?:/(?:tcp|udp))?$")
_STEP_CHARS = 2048
_PART_CHARS = _STEP_CHARS + 640


def _compile(place: Place) -> re.Pattern[str]:
    pattern = place.pattern.replace("VALUE", _VALUE.format(n=0)).replace("PAIR", _PAIR).replace("ANY", _ANY)
    return re.compile(
        EDGE + pattern
        if place.pattern[0].isalpha() or (place.pattern.startswith("(?:") and not place.pattern.startswith(LINE_START))
        else pattern
    )


@cache
def _compiled(index: int) -> re.Pattern[str]:
    """Compile a row with the first text that needs it: all of them take a tenth of a start."""
    return _compile(PLACES[index])


def _hint(place: Place) -> str:
    return place.trigger.replace(LINEAR_EDGE, "") if place.hint is None else place.hint


#: Finds the places of a text, but for those with an empty hint, which a hint for names finds: `NAMED_PLACES`.
PLACE_HINT = "|".join(dict.fromkeys(hint for place in PLACES if (hint := _hint(place))))
NAMED_PLACES = "|".join(dict.fromkeys(place.trigger for place in PLACES if place.hint == ""))
_triggered = which_match([place.trigger for place in PLACES])
find_place_hint = starts_at(compile_linear(PLACE_HINT))

PlacesOfPart = tuple[int, tuple[int, ...]]  # the start of a part of a line, and rows of the tables


def places_in(line: bytes, *, named: bool = True) -> tuple[PlacesOfPart, ...]:
    """Return the rows whose trigger finds something in a line, for each part of it.

    `named`: `NAMED_PLACES` may match, so parts without a hint count too.
    """
    parts = ((start, tuple(_triggered(line[start : start + _PART_CHARS]))) for start in _part_starts(line, named))
    return tuple(part for part in parts if part[1])


def _part_starts(line: bytes, named: bool) -> Iterable[int]:
    """Yield the starts of the parts of a line that hold a hint; parts overlap by the length of a command."""
    if named or len(line) <= _STEP_CHARS:
        yield from range(0, len(line), _STEP_CHARS)
        return
    last, hit = -1, find_place_hint(line, 0)
    while hit >= 0:
        here = hit // _STEP_CHARS
        before = (hit - (_PART_CHARS - _STEP_CHARS)) // _STEP_CHARS
        yield from (part * _STEP_CHARS for part in range(max(last + 1, before), here + 1))
        last, hit = here, find_place_hint(line, (here + 1) * _STEP_CHARS)


def find_places(line: str, places: tuple[PlacesOfPart, ...]) -> Iterator[SecretSpan]:
    """Yield the secrets that stand in some places of the table; some twice."""
    for start, rows in places:
        for index in sorted(rows):
            for match in _compiled(index).finditer(line, start, start + _PART_CHARS):
                yield from _judge(match, PLACES[index])


def _judge(match: re.Match[str], place: Place) -> Iterator[SecretSpan]:
    group = match.lastgroup
    if group is None or (place.kind == kinds.CLI_PASSWORD and group != "u8" and _PORTS.match(match[group])):
        return
    value = match[group]
    if group == "u0" and place.kind == kinds.PASSWORD:
        value = value.rstrip(".,;)")  # the end of a sentence or of a list
    if is_secret(value, need=place.need, notation=Notation.SHELL, quoted=group[0] != "u"):
        yield SecretSpan(match.start(group), match.start(group) + len(value), place.kind)
