"""The first page: what waits and works now, or what a search found, grouped by session; the list stands beside it."""

from collections.abc import Iterable, Mapping
from typing import Any

from starlette.datastructures import QueryParams
from starlette.requests import Request

from shiftlog.app.app import App
from shiftlog.model.caller import LIBRARY
from shiftlog.model.errors import InvalidParameter
from shiftlog.model.nouns import Session
from shiftlog.store.protocol import Reader
from shiftlog.text.found import repeats_title
from shiftlog.text.printable import one_line
from shiftlog.web.answers import PageView, wants_json
from shiftlog.web.views.now import read_overview
from shiftlog.web.views.rail import filters_of, list_row, read_rail

FOUND = 40
SEARCH_CHARS = 400_000
KINDS = ("session", "turn", "entry", "decision", "command", "file")

Item = dict[str, Any]


async def sessions_page(app: App, request: Request) -> PageView:
    """List or search sessions, as the query says."""
    query = request.query_params
    text, kind = query.get("q", "").strip(), query.get("kind") or "session"
    if kind not in KINDS:
        raise InvalidParameter.invalid("kind", "one of " + ", ".join(KINDS), kind, allowed=list(KINDS))
    extra: Item = {"kinds": KINDS}
    if text:
        filters = filters_of(query)
        data = await _search(app, text, kind, filters, query.get("cursor"))
        extra["found"] = await _by_session(app, data["items"])
    else:
        rail = await read_rail(app, query)
        filters = rail.filters
        data = {"items": rail.items, "total": rail.total, "next_cursor": rail.next_cursor}
        is_whole = "part" not in query and not wants_json(request)
        # What works now is told of all sessions, also beside a list that shows only some.
        listed = rail if rail.is_first and not filters else await read_rail(app, QueryParams()) if is_whole else None
        extra |= {"rail": rail, "overview": await read_overview(app, listed.items) if is_whole and listed else {}}
    data |= {"filters": filters, "q": text, "kind": kind}
    return PageView(data=data, template="sessions.html", part="_rail.html", extra=extra)


async def _search(app: App, text: str, kind: str, filters: Mapping[str, str], cursor: str | None) -> Item:
    arguments: Item = {"text": text, "kinds": [kind], "limit": FOUND, "max_chars": SEARCH_CHARS}
    arguments |= filters
    if cursor:
        arguments["cursor"] = cursor
    try:
        found = await app.history.query_history(arguments, LIBRARY)
    except InvalidParameter as error:
        if error.details.get("parameter") != "text":
            raise
        # In the address it is called q.
        raise InvalidParameter.invalid("q", str(error.details["constraint"]), error.details["value"]) from None
    items: list[Item] = found["items"]
    names = {str(item["session_id"]) for item in items}

    def titles(reader: Reader) -> dict[str, str]:
        return {name: session.title for name in names if (session := reader.session(name)) is not None}

    known = await app.store.read(titles)
    for item in items:
        item.pop("more", None)
        item["session_title"] = known.get(str(item["session_id"]), "")
    return {
        "items": items,
        "total": found["total"],
        "total_is_lower_bound": bool(found.get("total_is_lower_bound")),
        "next_cursor": found["next_cursor"],
    }


async def _by_session(app: App, items: Iterable[Item]) -> list[Item]:
    """Return the sessions that were found, each with its matches on one line each and no entry twice."""
    matches: dict[str, dict[tuple[object, object], Item]] = {}
    for item in items:
        found = matches.setdefault(str(item["session_id"]), {})
        if repeats_title(item):
            continue  # it stands above the matches
        text = item.get("snippet") or item.get("summary") or ""
        said = item.get("path") or (item.get("title") if item["kind"] == "turn" else None)
        hit = {
            "text": one_line(f"{said}: {text}" if said and said not in text else text, 220),
            "request_id": item.get("request_id"),
            "seq": item.get("seq"),
            "at": item.get("at") or item.get("begun_at"),
        }
        place = (item.get("request_id"), item.get("seq") or item.get("path"))
        found.setdefault(place, hit)
    now = app.clock.now()

    def work(reader: Reader) -> list[Item]:
        found: list[tuple[Session, dict[tuple[object, object], Item]]] = [
            (session, hits) for name, hits in matches.items() if (session := reader.session(name)) is not None
        ]
        return [{**list_row(app, reader, session, now), "hits": list(hits.values())} for session, hits in found]

    return await app.store.read(work)
