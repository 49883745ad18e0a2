"""Recorded text made safe for the page: folding, Markdown, diffs, terminal output; and times, in UTC.

Everything that templates print goes through `page_text`, so nothing can hide, run or flood the page. The browser
shows local times.
"""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from shiftlog.model.times import parse
from shiftlog.text.printable import page_text

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

FOLD_CHARS = 6_000
FOLD_LINES = 60
MARKDOWN_CHARS = 24_000
DIFF_LINES = 400

_SEQUENCE = re.compile(
    r"\x1b\[(?P<codes>[0-9;:]*)(?P<final>[@-~])"  # control sequences; `m` sets the style
    r"|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]|\x9b[0-?]*[ -/]*[@-~]"
)
# Only the sixteen colours and bold, faint, italic and underline are kept; the style sheet chooses readable shades.
_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_STYLES = {1: "bold", 2: "faint", 3: "italic", 4: "under"}
_ENDS = {22: ("bold", "faint"), 23: ("italic",), 24: ("under",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """The part of a text that is shown at once, and the number of characters left out."""

    text: str
    left: int
    lines: int

    @property
    def is_long(self) -> bool:
        """Return True if even the shown part is long enough to fold."""
        return self.lines > FOLD_LINES // 3 or len(self.text) > FOLD_CHARS // 3


def folded(text: object, chars: int = FOLD_CHARS, lines: int = FOLD_LINES) -> Folded:
    """Cut a text to so many characters and lines."""
    whole = text if isinstance(text, str) else "" if text is None else str(text)
    kept = whole[:chars]
    for count, found in enumerate(re.finditer("\n", kept), 1):
        if count == lines:
            kept = kept[: found.start()]
            break
    return Folded(text=kept, left=len(whole) - len(kept), lines=kept.count("\n") + 1)


@lru_cache(maxsize=1)
def _markdown() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    # No raw HTML and no images: reading a record must cause no request.
    reader = MarkdownIt("commonmark", {"html": False, "maxNesting": 12}).enable(["table", "strikethrough"])
    return reader.disable(["image", "html_inline", "html_block"])


def markdown(text: object) -> Markup:
    """Return Markdown as HTML; a very long text stays plain."""
    shown = page_text(text if isinstance(text, str) else "" if text is None else str(text))
    if len(shown) > MARKDOWN_CHARS:
        return Markup('<pre class="text">{}</pre>').format(shown)
    html = _markdown().render(shown)
    html = html.replace("<a href=", '<a rel="noreferrer noopener" href=').replace(
        "<table>", '<div class="wide"><table>'
    )
    html = html.replace("</table>", "</table></div>").replace("<pre>", '<pre tabindex="0">')
    # Headings of a record do not belong to the outline of the page.
    html = re.sub(r"<(/?)h[1-6]>", lambda found: f"<{found[1]}p{'' if found[1] else ' class=heading'}>", html)
    return Markup(html)  # noqa: S704 - the reader escapes, and lets no HTML through


def marked(snippet: str) -> Markup:
    """Return a snippet with its « » as marks."""
    shown = str(escape(page_text(snippet)))
    return Markup(shown.replace("«", "<mark>").replace("»", "</mark>"))  # noqa: S704 - escaped before


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """A unified diff as lines with their kinds."""

    lines: list[tuple[str, str]]
    added: int
    removed: int
    left: int


def diff(text: object, most: int = DIFF_LINES) -> Diff:
    """Split a unified diff; lines beyond `most` are only counted."""
    every = str(text).split("\n")
    if every and not every[-1]:
        every.pop()
    kinds = [_diff_kind(line) for line in every]
    shown = [(kind, folded(line, 2_000, 1).text) for kind, line in zip(kinds, every, strict=True)][:most]
    return Diff(
        lines=[line for line in shown if line[0] != "file"],
        added=kinds.count("add"),
        removed=kinds.count("del"),
        left=max(0, len(every) - most),
    )


def _diff_kind(line: str) -> str:
    if line.startswith(("+++", "---", "diff ", "index ")):
        return "file"
    return {"+": "add", "-": "del", "@": "hunk"}.get(line[:1], "same")


def terminal(text: object) -> Markup:
    """Return an output as a terminal would show it: colours become classes, carriage returns overwrite."""
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


def clock(stamp: object) -> str:
    """Return the time of day of a stamp."""
    return parse(stamp).strftime("%H:%M") if isinstance(stamp, str) and stamp else ""


def moment(stamp: object) -> str:
    """Return date and time of day of a stamp."""
    return parse(stamp).strftime("%Y-%m-%d %H:%M") if isinstance(stamp, str) and stamp else ""


def day_name(day: date, today: date) -> str:
    """Return a day as a heading: Today, Yesterday, Monday 3 August, 3 August 2025."""
    distance = (today - day).days
    if distance in (0, 1):
        return ("Today", "Yesterday")[distance]
    if day.year == today.year:
        return f"{day:%A} {day.day} {day:%B}"
    return f"{day.day} {day:%B} {day.year}"


def between(start: str, end: str | None, now: datetime) -> float:
    """Return the seconds between two stamps, until now where there is no end."""
    last = parse(end) if end else now.astimezone(UTC)
    return max(0.0, (last - parse(start)).total_seconds())
