"""How views become HTML: the templates, and what they may use.

Text is made visible and escaped when it is printed, so no template can forget it.
"""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from shiftlog import __version__
from shiftlog.web import figures
from shiftlog.web.ansi import terminal
from shiftlog.web.texts import diff, folded, markdown, marked, visible

HERE = Path(__file__).parent
TEMPLATES = HERE / "templates"
STATES = {
    "open": ("Open", "live"),
    "suspended": ("Suspended", "calm"),
    "closed": ("Closed", "calm"),
    "awaiting_successor": ("Awaits a successor", "warn"),
    "sealed": ("Sealed", "calm"),
    "succeeded": ("Continued", "calm"),
    "in_progress": ("In progress", "live"),
    "completed": ("Completed", "good"),
    "failed": ("Failed", "bad"),
}


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalized,
        auto_reload=False,
    )
    environment.filters |= {
        "short": figures.short,
        "money": figures.money,
        "duration": figures.duration,
        "millis": figures.millis,
        "size": figures.size,
        "clock": figures.clock,
        "moment": figures.moment,
        "markdown": markdown,
        "marked": marked,
        "terminal": terminal,
        "folded": folded,
        "diff": diff,
    }
    environment.globals |= {"url": address, "states": STATES, "version": __version__}
    return environment


def _finalized(value: object) -> object:
    if value is None:
        return ""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def render(template: str, context: Mapping[str, Any]) -> str:
    """Fill in a template."""
    return _environment().get_template(template).render(context)


def address(*parts: object, **query: object) -> str:
    """Return the address of a thing on the page; what is None or empty is left out of the query."""
    path = "/" + "/".join(quote(str(part), safe="@:-._~") for part in parts)
    asked = {name.rstrip("_"): value for name, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(asked)}" if asked else path
