"""Escape sequences in a command's output: what a terminal would show, as pieces of text with their styles.

Only the sixteen colours and bold, faint, italic, underline and reverse are kept; other colours become the nearest of
them, so that each face can choose readable shades. Everything else that a terminal obeys is dropped.
"""

import re
from collections.abc import Iterator

SEQUENCE = re.compile(
    r"\x1b\[(?P<codes>[0-9;:]*)(?P<final>[@-~])"  # control sequences; `m` sets the style
    r"|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]|\x9b[0-?]*[ -/]*[@-~]"
)
_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_SHADES = {
    "black": (0, 0, 0), "red": (205, 40, 40), "green": (40, 180, 60), "yellow": (200, 180, 40), "blue": (50, 80, 230),
    "magenta": (190, 60, 190), "cyan": (40, 180, 190), "white": (200, 200, 200),
}  # fmt: skip
_STYLES = {1: "bold", 2: "faint", 3: "italic", 4: "under", 7: "reverse"}
_ENDS = {22: ("bold", "faint"), 23: ("italic",), 24: ("under",), 27: ("reverse",)}


def without_sequences(text: str) -> str:
    """Return a text without what only a terminal obeys."""
    return SEQUENCE.sub("", text)


def pieces_of(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the pieces of an output as a terminal would show it, each with the names of its styles and colour."""
    shown = "\n".join(_overwritten(line) for line in text.replace("\r\n", "\n").split("\n"))
    styles: set[str] = set()
    colour = ""
    at = 0
    for found in SEQUENCE.finditer(shown):
        if found.start() > at:
            yield shown[at : found.start()], _names(styles, colour)
        at = found.end()
        if found["final"] == "m":
            colour = _set_styles(found["codes"], styles, colour)
    if at < len(shown):
        yield shown[at:], _names(styles, colour)


def _names(styles: set[str], colour: str) -> tuple[str, ...]:
    return (*sorted(styles), colour) if colour else tuple(sorted(styles))


def _overwritten(line: str) -> str:
    """Return what a line shows after its carriage returns: progress bars leave their last state."""
    if "\r" not in line:
        return line
    kept = [part for part in line.split("\r") if part]
    return kept[-1] if kept else ""


def _set_styles(codes: str, styles: set[str], colour: str) -> str:
    numbers = [int(code) if code and len(code) < 4 else 0 for code in re.split("[;:]", codes)] or [0]
    while numbers:
        code = numbers.pop(0)
        if code == 0:
            styles.clear()
            colour = ""
        elif code in _STYLES:
            styles.add(_STYLES[code])
        elif code in _ENDS:
            styles.difference_update(_ENDS[code])
        elif 30 <= code <= 37 or 90 <= code <= 97:
            colour = _COLOURS[code % 10]
        elif code == 39:
            colour = ""
        elif code in (38, 48):
            count = {5: 2, 2: 4}.get(numbers[0], 0) if numbers else 0
            if code == 38 and len(numbers) >= count > 0:
                colour = _nearest(numbers[:count])
            del numbers[:count]
    return colour


def _nearest(given: list[int]) -> str:
    """Return the named colour that is nearest to one given by number or by red, green and blue."""
    if given[0] == 2:
        wanted = (given[1], given[2], given[3])
    elif given[1] < 16:
        return _COLOURS[given[1] % 8]
    elif given[1] < 232:
        number = given[1] - 16
        levels = (number // 36, number // 6 % 6, number % 6)
        wanted = (levels[0] * 51, levels[1] * 51, levels[2] * 51)
    else:
        wanted = ((given[1] - 232) * 10,) * 3
    distance = {name: sum((a - b) ** 2 for a, b in zip(shade, wanted, strict=True)) for name, shade in _SHADES.items()}
    return min(distance, key=lambda name: distance[name])
