"""Finds secrets in the places that `place_commands`, `place_files` and `place_code` list.

Decides nothing that a row of these tables can say.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache

from shiftlog.guard.linear import which_match
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
#: Tells which rows of the tables have a trigger in a part of a line.
rows_in = which_match([place.trigger for place in PLACES])


def find_places(line: str, rows: Iterable[int], start: int, end: int) -> Iterator[SecretSpan]:
    """Yield the secrets in a part of a line that stand in some places of the table."""
    for index in rows:
        for match in _compiled(index).finditer(line, start, end):
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
