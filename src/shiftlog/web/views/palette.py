"""The command palette finds sessions, projects and files by a part of their name."""

from typing import Any

from starlette.requests import Request

from shiftlog.app.app import App
from shiftlog.journal.history.items import first_run
from shiftlog.journal.usage.totals import project_of
from shiftlog.model.caller import LIBRARY
from shiftlog.model.errors import InvalidParameter
from shiftlog.model.times import shown
from shiftlog.store.protocol import Filter, Page, Reader
from shiftlog.text.titles import shown_title
from shiftlog.web.answers import PageView
from shiftlog.web.present.addresses import address

RECENT = 300
OF_EACH = 8
TEXT_CHARS = 200
FILES_READ = 200

Item = dict[str, Any]


async def palette_page(app: App, request: Request) -> PageView:
    """List what fits `q`: recent sessions by title, projects and files by name, then sessions by their words."""
    text = request.query_params.get("q", "").strip()[:TEXT_CHARS]
    found = await app.store.read(lambda reader: _named(reader, text.casefold()))
    known = {item["href"] for item in found}
    found += [item for item in await _searched(app, text) if item["href"] not in known]
    return PageView(data={"q": text, "items": found}, template="palette.html")


def _named(reader: Reader, text: str) -> list[Item]:
    rows = [row.session for row in reader.find_sessions(Filter(), Page(limit=RECENT), by_activity=True)]
    titles = {row.id: shown_title(row.title, first_run(row, reader).get("ran")) for row in rows}
    sessions = [
        _item("session", titles[row.id], row.agent_id, address("sessions", row.id), shown(row.last_activity))
        for row in rows
        if text in titles[row.id].casefold() or row.id.casefold().endswith(text)
    ][:OF_EACH]
    names = dict.fromkeys(name for row in rows if (name := project_of(row.workspace)))
    projects = [_item("project", name, "", address("projects", name)) for name in names if text in name.casefold()]
    return [*sessions, *projects[:OF_EACH], *(_files(reader, text) if len(text) > 1 else [])]


def _files(reader: Reader, text: str) -> list[Item]:
    pattern = "".join(f"[{char}]" if char in "*?[" else char for char in text)
    found: dict[tuple[str, str], Item] = {}
    for row in reader.find_files(Filter(path=f"*{pattern}*"), Page(limit=FILES_READ)):
        session = reader.session(row.session_id)
        project = (project_of(session.workspace) if session else None) or ""
        where = address("files", project=project, path=row.path)
        found.setdefault((project, row.path), _item("file", row.path, project, where))
        if len(found) == OF_EACH:
            break
    return list(found.values())


async def _searched(app: App, text: str) -> list[Item]:
    if len(text) < 3:
        return []
    try:
        asked = {"text": text, "kinds": ["session"], "limit": OF_EACH}
        items: list[Item] = (await app.history.query_history(asked, LIBRARY))["items"]
    except InvalidParameter:
        return []  # half a search expression is no mistake while it is typed
    return [
        _item(
            "session",
            shown_title(str(item["title"]), item.get("ran")),
            str(item["agent_id"]),
            address("sessions", item["session_id"]),
            str(item["last_activity"]),
        )
        for item in items
    ]


def _item(kind: str, title: str, about: str, href: str, at: str | None = None) -> Item:
    return {"kind": kind, "title": title, "about": about, "href": href, "at": at}
