"""Rendering of views: the template environment with its filters and addresses.

Every printed text is escaped and its hidden characters are made visible, so no template can forget it.
"""

from collections.abc import Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from shiftlog import __version__
from shiftlog.text import figures
from shiftlog.text.printable import page_text
from shiftlog.web.present import texts
from shiftlog.web.present.texts import FOLD_CHARS, FOLD_LINES, Folded, diff, folded

HERE = Path(__file__).parent.parent
TEMPLATES = HERE / "templates"
LEAST_WHOLE = 1_000
STATES = {
    "open": ("Open", "live"),
    "suspended": ("Suspended", "neutral"),
    "closed": ("Closed", "neutral"),
    "awaiting_successor": ("Awaits a successor", "warn"),
    "sealed": ("Sealed", "neutral"),
    "succeeded": ("Continued", "neutral"),
    "in_progress": ("In progress", "live"),
    "interrupted": ("Interrupted", "warn"),
    "completed": ("Completed", "good"),
    "failed": ("Failed", "bad"),
}


@lru_cache(maxsize=2)
def _environment(exporting: bool = False) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalized,
        auto_reload=False,
    )
    environment.filters |= {
        "short": figures.short_count,
        "money": figures.money,
        "duration": figures.duration,
        "millis": figures.milliseconds,
        "size": figures.binary_size,
        "clock": texts.clock,
        "moment": texts.moment,
        "markdown": texts.markdown,
        "marked": texts.marked,
        "terminal": texts.terminal,
        "folded": _whole if exporting else folded,
        "diff": partial(diff, most=1 << 30) if exporting else diff,
    }
    url = _inner_address if exporting else address
    known: dict[str, Any] = {"url": url, "states": STATES, "version": __version__, "exporting": exporting}
    environment.globals.update(known)
    return environment


def _whole(text: object, chars: int = FOLD_CHARS, lines: int = FOLD_LINES) -> Folded:
    """Fold for an exported file: short excerpts, such as titles, are cut, everything else stays whole."""
    return folded(text, chars, lines) if chars < LEAST_WHOLE else folded(text, 1 << 40, 1 << 40)


def _inner_address(*parts: object, **query: object) -> str:
    """Return an address inside an exported file."""
    if len(parts) == 4 and parts[2] == "entries":
        return f"#e{parts[3]}"
    return "" if "turn" in query else "#main"


def _finalized(value: object) -> object:
    if value is None:
        return ""
    return page_text(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def render(template: str, context: Mapping[str, Any], *, exporting: bool = False) -> str:
    """Fill in a template; `exporting` makes it part of one self-contained file."""
    return _environment(exporting).get_template(template).render(context)


def address(*parts: object, **query: object) -> str:
    """Return an address on the page; None and empty values are left out of the query."""
    path = "/" + "/".join(quote(str(part), safe="@:-._~") for part in parts)
    given = {name.rstrip("_"): value for name, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(given)}" if given else path
