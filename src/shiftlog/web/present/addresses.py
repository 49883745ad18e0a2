"""Addresses on the page, with every part quoted."""

from urllib.parse import quote, urlencode


def address(*parts: object, **query: object) -> str:
    """Return an address on the page; None and empty values are left out of the query."""
    path = "/" + "/".join(quote(str(part), safe="@:-._~") for part in parts)
    given = {name.rstrip("_"): value for name, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(given)}" if given else path
