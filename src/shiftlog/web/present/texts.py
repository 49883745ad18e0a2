"""Recorded text made safe for the page: folding, Markdown, outputs and diffs as HTML; and times, in UTC.

Everything that templates print goes through `page_text`, so nothing can hide, run or flood the page. The browser
shows local times.
"""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from shiftlog.model.times import parse, shown
from shiftlog.text.printable import cut_line, page_text
from shiftlog.text.sequences import without_sequences
from shiftlog.web.present.ansi import ADDRESS, terminal, trimmed_address
from shiftlog.web.present.code import code, language_of
from shiftlog.web.present.diffs import DiffOfFile, diffs, is_diff, split_diff

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it import MarkdownIt
    from markdown_it.rules_core import StateCore
    from markdown_it.token import Token

FOLD_CHARS = 6_000
FOLD_LINES = 60
MARKDOWN_CHARS = 24_000
_ABSOLUTE = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)
_BACKTICKS = re.compile(r"`([^`\n]+)`")
_TASK = re.compile(r"\[([ xX])\] ")


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


def glimpse(text: object, most: int) -> str:
    """Return the first line of a text in at most so many characters, cut after a whole word, with an ellipsis."""
    first, _, rest = str(text or "").partition("\n")
    return cut_line(f"{first}…" if rest else first, most)


@lru_cache(maxsize=1)
def _markdown() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    # No raw HTML, and links in place of images: reading a record must cause no request.
    options = {"html": False, "maxNesting": 12, "highlight": _fence}
    reader = MarkdownIt("commonmark", options).enable(["table", "strikethrough"])
    reader.core.ruler.push("bare_addresses", _link_addresses)
    reader.core.ruler.push("tasks", _mark_tasks)
    reader.core.ruler.push("relative_links", _name_relative_links)
    reader.add_render_rule("image", _image_link)
    return reader.disable(["html_inline", "html_block"])


def _image_link(self: object, tokens: "Sequence[Token]", at: int, options: object, env: object) -> str:
    """Return a link instead of an image: reading a record must cause no request."""
    address, name = str(tokens[at].attrs["src"]), f"Image: {tokens[at].content or 'no name'}"
    is_in_link = sum({"link_open": 1, "link_close": -1}.get(token.type, 0) for token in tokens[:at])
    if is_in_link or not _ABSOLUTE.match(address):
        return str(Markup('<span title="{}">{}</span>').format(address, name))
    return str(Markup('<a rel="noreferrer noopener" href="{}">{}</a>').format(address, name))


def _fence(content: str, language: str, attributes: str) -> str:
    """Return the inside of a fenced block as HTML."""
    if language_of(language) == "diff":
        return str(Markup("").join(diff_block(one) for one in diffs(content)))
    return str(code(content, language))


def _link_addresses(state: "StateCore") -> None:
    """Make links of web addresses in running text."""
    for block in state.tokens:
        if block.type != "inline" or not block.children or "http" not in block.content:
            continue
        children: list[Token] = []
        depth = 0
        for token in block.children:
            depth += {"link_open": 1, "link_close": -1}.get(token.type, 0)
            children += _split_addresses(token) if token.type == "text" and not depth else [token]
        block.children = children


def _name_relative_links(state: "StateCore") -> None:
    """Show a link to a file of the agent's machine as its words: on this page it would lead nowhere."""
    is_relative = False
    for token in (one for block in state.tokens for one in block.children or ()):
        if token.type == "link_open":
            is_relative = not _ABSOLUTE.match(str(token.attrs.get("href", "")))
            if is_relative:
                token.tag, token.attrs = "span", {"title": token.attrs.get("href", "")}
        elif token.type == "link_close" and is_relative:
            token.tag = "span"


def _split_addresses(token: "Token") -> "list[Token]":
    from markdown_it.token import Token

    made: list[Token] = []
    at = 0
    for found in ADDRESS.finditer(token.content):
        address = trimmed_address(found[0])
        link = Token("link_open", "a", 1, attrs={"href": address})
        made += [
            Token("text", "", 0, content=token.content[at : found.start()]),
            link,
            Token("text", "", 0, content=address),
            Token("link_close", "a", -1),
        ]
        at = found.start() + len(address)
    return [*made, Token("text", "", 0, content=token.content[at:])] if made else [token]


def _mark_tasks(state: "StateCore") -> None:
    """Show `[ ]` and `[x]` at the beginning of a list item as boxes."""
    tokens = state.tokens
    for item, _, inline in zip(tokens, tokens[1:], tokens[2:], strict=False):
        first = inline.children[0] if item.type == "list_item_open" and inline.children else None
        if first is not None and (found := _TASK.match(first.content)):
            first.content = ("☐ " if found[1] == " " else "☑ ") + first.content[found.end() :]
            item.attrSet("class", "task")


def markdown(text: object) -> Markup:
    """Return Markdown as HTML; a very long text stays plain."""
    shown = page_text(text if isinstance(text, str) else "" if text is None else str(text))
    if len(shown) > MARKDOWN_CHARS:
        return Markup('<pre class="text">{}</pre>').format(shown)
    html = _markdown().render(shown)
    html = html.replace("<a href=", '<a rel="noreferrer noopener" href=').replace(
        "<table>", '<div class="wide"><table>'
    )
    html = html.replace("</table>", "</table></div>").replace("<pre>", '<pre class="code" tabindex="0">')
    # Headings of a record do not belong to the outline of the page.
    html = re.sub(r"<(/?)h[1-6]>", lambda found: f"<{found[1]}p{'' if found[1] else ' class=heading'}>", html)
    return Markup(html)  # noqa: S704 - the reader escapes, and lets no HTML through


def coded(text: object) -> Markup:
    """Return a short text in which what stands in backticks is shown as code."""
    parts = _BACKTICKS.split(page_text(str(text or "")))
    shown = (Markup("<code>{}</code>").format(part) if at % 2 else escape(part) for at, part in enumerate(parts))
    return Markup("").join(shown)


def marked(snippet: str) -> Markup:
    """Return a snippet with its « » as marks."""
    shown = str(escape(page_text(snippet)))
    return Markup(shown.replace("«", "<mark>").replace("»", "</mark>"))  # noqa: S704 - escaped before


def output(text: object) -> Markup:
    """Return an output as a terminal shows it; a unified diff in it is shown as a diff."""
    whole = str(text or "")
    plain = without_sequences(whole)
    if not is_diff(plain):
        return terminal(whole)
    before, rest = split_diff(plain)
    return terminal(before) + Markup("").join(diff_block(one) for one in diffs(rest))


def diff_block(one: DiffOfFile) -> Markup:
    """Return the diff of a file as HTML."""
    head = Markup('<span class="hunk file">{}</span>').format(one.path) if one.path else Markup("")
    left = Markup('<span class="hunk">{} more lines</span>').format(f"{one.left:,}") if one.left else Markup("")
    rows = Markup("").join(
        Markup('<span class="{}" data-old="{}" data-new="{}">{}{}\n</span>').format(
            row.kind, row.old or "", row.new or "", row.sign, row.html
        )
        for row in one.rows
    )
    return Markup('<span class="lines">{}{}{}</span>').format(head, rows, left)


def clock(stamp: object) -> str:
    """Return the time of day of a stamp."""
    return parse(stamp).strftime("%H:%M") if isinstance(stamp, str) and stamp else ""


def moment(stamp: object) -> str:
    """Return date and time of day of a stamp."""
    return parse(stamp).strftime("%Y-%m-%d %H:%M") if isinstance(stamp, str) and stamp else ""


def ago(stamp: object, now: datetime) -> str:
    """Return how long ago a stamp is, in two to four characters: `now`, `5m`, `3h`, `12d`, `2y`."""
    if not isinstance(stamp, str) or not stamp:
        return ""
    seconds = (now - parse(stamp)).total_seconds()
    for unit_s, unit in ((31_536_000, "y"), (86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= unit_s:
            return f"{int(seconds // unit_s)}{unit}"
    return "now"


def ago_in_words(stamp: object, now: datetime) -> str:
    """Return how far off a stamp is, in words: `just now`, `5m ago`, `in 3h`."""
    if not isinstance(stamp, str) or not stamp:
        return ""
    at = parse(stamp)
    if at > now:
        left = ago(shown(now), at)
        return "in less than a minute" if left == "now" else f"in {left}"
    passed = ago(stamp, now)
    return "just now" if passed == "now" else f"{passed} ago"


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
