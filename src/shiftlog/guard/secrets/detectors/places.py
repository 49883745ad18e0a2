"""Finds secrets in the places that `place_table` lists. Decides nothing that a row of the table can say."""

import re
from collections.abc import Callable, Iterator

from shiftlog.guard.linear import compile_linear, tells_whether
from shiftlog.guard.secrets.detectors import kinds
from shiftlog.guard.secrets.detectors.kinds import SecretSpan
from shiftlog.guard.secrets.detectors.place_table import LINE_START, PLACES, Place
from shiftlog.guard.secrets.detectors.quotes import EDGE
from shiftlog.guard.secrets.detectors.values import Notation, is_secret

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
_COMMAND_CHARS = 640
_WINDOW_CHARS = 2048


def _compile(place: Place) -> re.Pattern[str]:
    pattern = place.pattern.replace("VALUE", _VALUE.format(n=0)).replace("PAIR", _PAIR).replace("ANY", _ANY)
    return re.compile(
        EDGE + pattern
        if place.pattern[0].isalpha() or (place.pattern.startswith("(?:") and not place.pattern.startswith(LINE_START))
        else pattern
    )


def _has_trigger(place: Place) -> Callable[[bytes], bool]:
    return tells_whether(compile_linear(place.trigger))


_COMPILED = tuple((_has_trigger(place), _compile(place), place) for place in PLACES)
PLACE_PATTERN = "|".join(dict.fromkeys(place.trigger for place in PLACES))
_has_place = tells_whether(compile_linear(PLACE_PATTERN))


def find_places(line: str, data: bytes) -> Iterator[SecretSpan]:
    """Yield the secrets that stand in a place of the table; some twice."""
    for start in range(0, len(line), _WINDOW_CHARS):
        end = start + _WINDOW_CHARS + _COMMAND_CHARS
        window = data[start:end]
        if not _has_place(window):
            continue
        for has_trigger, pattern, place in _COMPILED:
            if has_trigger(window):
                for match in pattern.finditer(line, start, end):
                    yield from _judge(match, place)


def _judge(match: re.Match[str], place: Place) -> Iterator[SecretSpan]:
    group = match.lastgroup
    if group is None or (place.kind == kinds.CLI_PASSWORD and group != "u8" and _PORTS.match(match[group])):
        return
    if is_secret(match[group], need=place.need, notation=Notation.SHELL, quoted=group[0] != "u"):
        yield SecretSpan(match.start(group), match.end(group), place.kind)
