"""The filter `from` of lists that have no filters of their own: shells, checkpoints, offers and open questions."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from shiftlog.journal.history.requests import parse_bound
from shiftlog.model.times import parse

Item = dict[str, Any]


def newer(items: list[Item], params: Mapping[str, Any], name: str, now: datetime) -> list[Item]:
    """Return the items whose time `name` is at or after the `from` of a question; without `from`, all of them."""
    if not params.get("from"):
        return items
    first = parse_bound(str(params["from"]), "from", is_end=False, now=now)
    return [item for item in items if parse(str(item[name])) >= first]


def newer_page(found: Mapping[str, Any], listed: str, params: Mapping[str, Any], name: str, now: datetime) -> Item:
    """Return a page, newest first, without items that are too old; if it had some, no page follows."""
    kept = newer(found[listed], params, name, now)
    more = found["next_cursor"] if len(kept) == len(found[listed]) else None
    return {**found, listed: kept, "next_cursor": more}
