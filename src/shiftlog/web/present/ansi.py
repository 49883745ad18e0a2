"""Output of commands as a terminal would show it: colours become classes, carriage returns overwrite, addresses link.

Only the sixteen colours and bold, faint, italic, underline and reverse are kept; other colours become the nearest of
them, so that the style sheet can choose readable shades in light and dark.
"""

import re

from markupsafe import Markup, escape

from shiftlog.text.printable import page_text

SEQUENCE = re.compile(
    r"\x1b\[(?P<codes>[0-9;:]*)(?P<final>[@-~])"  # control sequences; `m` sets the style
    r"|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]|\x9b[0-?]*[ -/]*[@-~]"
)
ADDRESS = re.compile(r"https?://[^\s<>\"'`⟨⟩\\^{}|]{1,2000}")
_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_SHADES = {
    "black": (0, 0, 0), "red": (205, 40, 40), "green": (40, 180, 60), "yellow": (200, 180, 40), "blue": (50, 80, 230),
    "magenta": (190, 60, 190), "cyan": (40, 180, 190), "white": (200, 200, 200),
}  # fmt: skip
_STYLES = {1: "bold", 2: "faint", 3: "italic", 4: "under", 7: "reverse"}
_ENDS = {22: ("bold", "faint"), 23: ("italic",), 24: ("under",), 27: ("reverse",)}


def terminal(text: object) -> Markup:
    """Return an output as HTML."""
    shown = "\n".join(_overwritten(line) for line in str(text or "").replace("\r\n", "\n").split("\n"))
    parts: list[str] = []
    styles: set[str] = set()
    colour = ""
    at = 0
    for found in SEQUENCE.finditer(shown):
        parts.append(_span(shown[at : found.start()], styles, colour))
        at = found.end()
        if found["final"] == "m":
            colour = _set_styles(found["codes"], styles, colour)
    parts.append(_span(shown[at:], styles, colour))
    return Markup("".join(parts))  # noqa: S704 - each part was escaped above


def without_sequences(text: str) -> str:
    """Return a text without what only a terminal obeys."""
    return SEQUENCE.sub("", text)


def linked(text: str) -> Markup:
    """Return a plain text as HTML, its web addresses as links."""
    parts: list[Markup] = []
    at = 0
    for found in ADDRESS.finditer(text):
        address = trimmed_address(found[0])
        parts.append(escape(text[at : found.start()]))
        parts.append(Markup('<a rel="noreferrer noopener" href="{}">{}</a>').format(address, address))
        at = found.start() + len(address)
    return Markup("").join([*parts, escape(text[at:])])


def trimmed_address(address: str) -> str:
    """Return an address without what ends the sentence around it."""
    while address and (address[-1] in ".,;:!?*_" or _closes_outside(address)):
        address = address[:-1]
    return address


def _closes_outside(address: str) -> bool:
    """Return True if an address ends with a bracket that was opened before it."""
    opening = {")": "(", "]": "["}.get(address[-1])
    return opening is not None and address.count(address[-1]) > address.count(opening)


def _overwritten(line: str) -> str:
    """Return what a line shows after its carriage returns: progress bars leave their last state."""
    if "\r" not in line:
        return line
    kept = [part for part in line.split("\r") if part]
    return kept[-1] if kept else ""


def _span(text: str, styles: set[str], colour: str) -> str:
    if not text:
        return ""
    inner = str(linked(page_text(text)))
    names = sorted(styles) + ([colour] if colour else [])
    return f'<span class="{" ".join(f"t-{name}" for name in names)}">{inner}</span>' if names else inner


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
