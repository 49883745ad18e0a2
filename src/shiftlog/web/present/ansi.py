"""A command's output as a terminal would show it: colours become classes, carriage returns overwrite, the rest goes.

Only the sixteen colours and bold, faint, italic and underline are kept; the style sheet chooses readable shades.
"""

import re

from markupsafe import Markup, escape

from shiftlog.text.printable import page_text

_SEQUENCE = re.compile(
    r"\x1b\[(?P<codes>[0-9;:]*)(?P<final>[@-~])"  # control sequences; `m` sets the style
    r"|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]|\x9b[0-?]*[ -/]*[@-~]"
)
_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_STYLES = {1: "bold", 2: "faint", 3: "italic", 4: "under"}
_ENDS = {22: ("bold", "faint"), 23: ("italic",), 24: ("under",)}


def terminal(text: object) -> Markup:
    """Return an output as safe HTML."""
    shown = "\n".join(_overwritten(line) for line in str(text or "").replace("\r\n", "\n").split("\n"))
    parts: list[str] = []
    styles: set[str] = set()
    colour = ""
    at = 0
    for found in _SEQUENCE.finditer(shown):
        parts.append(_span(shown[at : found.start()], styles, colour))
        at = found.end()
        if found["final"] == "m":
            colour = _set_styles(found["codes"], styles, colour)
    parts.append(_span(shown[at:], styles, colour))
    return Markup("".join(parts))  # noqa: S704 - each part was escaped above


def _overwritten(line: str) -> str:
    """Return what a line shows after its carriage returns: progress bars leave their last state."""
    if "\r" not in line:
        return line
    kept = [part for part in line.split("\r") if part]
    return kept[-1] if kept else ""


def _span(text: str, styles: set[str], colour: str) -> str:
    if not text:
        return ""
    inner = str(escape(page_text(text)))
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
        elif code in (38, 48):  # colours by number or by value: passed over
            del numbers[: {5: 2, 2: 4}.get(numbers[0], 0) if numbers else 0]
    return colour
