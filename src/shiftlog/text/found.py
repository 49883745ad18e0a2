"""The matches of a search, as every face shows them."""

from collections.abc import Mapping
from typing import Any


def repeats_title(item: Mapping[str, Any]) -> bool:
    """Return True if a search found a session by words of its title, so that its snippet says nothing more."""
    marked = str(item.get("snippet") or "").partition("«")[2].partition("»")[0]
    opening = item.get("kind") == "session" and item.get("seq") == 1
    return opening and bool(marked) and marked.casefold() in str(item.get("title") or "").casefold()
