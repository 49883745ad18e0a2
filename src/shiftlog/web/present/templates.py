"""Rendering of views: the template environment with its filters and addresses.

Every printed text is escaped and its hidden characters are made visible, so no template can forget it.
"""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from shiftlog import __version__
from shiftlog.text import figures
from shiftlog.text.printable import page_text
from shiftlog.text.titles import shown_title
from shiftlog.web.present import texts
from shiftlog.web.present.addresses import address
from shiftlog.web.present.ansi import terminal
from shiftlog.web.present.charts import fall, waterfall
from shiftlog.web.present.code import code, colour_budget
from shiftlog.web.present.diffs import diffs
from shiftlog.web.present.states import STATES
from shiftlog.web.present.texts import FOLD_CHARS, FOLD_LINES, Folded, folded

HERE = Path(__file__).parent.parent
TEMPLATES = HERE / "templates"
LEAST_WHOLE = 1_000


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
    filters: dict[str, Any] = {
        "short": figures.short_count,
        "money": figures.money,
        "duration": figures.duration,
        "millis": figures.milliseconds,
        "size": figures.binary_size,
        "clock": texts.clock,
        "moment": texts.moment,
        "markdown": texts.markdown,
        "coded": texts.coded,
        "marked": texts.marked,
        "ago": texts.ago,
        "ago_in_words": texts.ago_in_words,
        "terminal": terminal,
        "output": texts.output,
        "code": code,
        "waterfall": waterfall,
        "fall": fall,
        "titled": titled,
        "glimpse": texts.glimpse,
        "folded": _whole if exporting else folded,
        "diffs": partial(diffs, most=1 << 30) if exporting else diffs,
        "diff_block": texts.diff_block,
    }
    environment.filters.update(filters)
    url = _inner_address if exporting else address
    known: dict[str, Any] = {"url": url, "states": STATES, "version": __version__, "exporting": exporting}
    known["style_version"] = style_version()
    environment.globals.update(known)
    return environment


@lru_cache(maxsize=1)
def style_version() -> str:
    """Return a short hash of the style sheet: an address with it is kept by browsers for good."""
    return hashlib.sha256((HERE / "static" / "style.css").read_bytes()).hexdigest()[:16]


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


def titled(title: object, ran: object = None) -> str:
    """Show a title; an empty one says so."""
    return shown_title(str(title or ""), str(ran) if ran else None) or "(no title)"


def render(template: str, context: Mapping[str, Any], *, exporting: bool = False) -> str:
    """Fill in a template; `exporting` makes it part of one self-contained file."""
    with colour_budget():
        return _environment(exporting).get_template(template).render({"now": datetime.now(UTC), **context})
