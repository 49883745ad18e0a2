"""Recorded text made safe for the page: folding, Markdown and diffs.

Everything that templates print goes through `page_text`, so nothing can hide, run or flood the page.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from shiftlog.text.printable import page_text

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

FOLD_CHARS = 6_000
FOLD_LINES = 60
MARKDOWN_CHARS = 24_000
DIFF_LINES = 400


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
