"""Projects: their sessions, files by how often they changed, decisions and open work."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from shiftlog.app.app import App
from shiftlog.control.files import FILES_SHOWN
from shiftlog.journal.history.changed_files import changed_files
from shiftlog.journal.history.items import entry_item
from shiftlog.journal.texts import DECISION
from shiftlog.journal.usage.service import total_usage
from shiftlog.model.errors import InvalidParameter
from shiftlog.model.moves import SessionState
from shiftlog.store.protocol import Filter, Page, Reader
from shiftlog.text.printable import one_line
from shiftlog.web.answers import NOT_FOUND, PageView, refusal
from shiftlog.web.views.rail import list_row
from shiftlog.web.views.steps import compared_decision

SESSIONS_SHOWN = 30
DECISIONS_SHOWN = 50
_LIVE = frozenset({str(SessionState.OPEN), str(SessionState.SUSPENDED), str(SessionState.AWAITING_SUCCESSOR)})

Item = dict[str, Any]


async def projects_page(app: App, request: Request) -> PageView:
    """List the projects with what they used, the dearest first."""

    def work(reader: Reader) -> list[Item]:
        rows = total_usage(reader, app.runs, Filter(), ["project"])["rows"]
        return sorted(rows, key=lambda row: (-(row["cost_usd"] or 0.0), -row["sessions"], str(row["project"])))

    return PageView(data={"projects": await app.store.read(work)}, template="projects.html")


async def project_page(app: App, request: Request) -> PageView | Response:
    """Show one project: its sessions, its files by churn, decisions, open work and cost."""
    name = str(request.path_params["project"])
    now = app.clock.now()

    def work(reader: Reader) -> Item | None:
        where = Filter(project=name)
        rows = reader.find_sessions(where, Page(limit=SESSIONS_SHOWN), by_activity=True)
        if not rows:
            return None
        live = reader.find_sessions(replace(where, states=_LIVE), Page(limit=SESSIONS_SHOWN), by_activity=True)
        files = changed_files(reader, where)
        return {
            "project": name,
            "workspaces": sorted({row.session.workspace for row in rows if row.session.workspace}),
            "sessions": [list_row(app, reader, row.session, now) for row in rows],
            "sessions_total": reader.count("session", where),
            "files": files[:FILES_SHOWN],
            "files_total": len(files),
            "decisions": read_decisions(reader, where, DECISIONS_SHOWN)[0],
            "open": [work for row in live for work in _open_work(reader, row.session.id)][:SESSIONS_SHOWN],
            "usage": total_usage(reader, app.runs, where, ["model"]),
        }

    data = await app.store.read(work)
    if data is None:
        missing = InvalidParameter.invalid("project", "no session names this project", name)
        return refusal(request, missing, NOT_FOUND)
    return PageView(data=data, template="project.html")


async def decisions_page(app: App, request: Request) -> PageView:
    """Show the decisions of all sessions, newest first, or those of a project."""
    project = request.query_params.get("project", "").strip()
    place = request.query_params.get("cursor", "")
    if place and not all(part.isascii() and part.isdigit() and len(part) < 16 for part in place.split("-", 1)):
        raise InvalidParameter.invalid("cursor", "the next_cursor of the page before", place)
    first, _, second = place.partition("-")
    after = (int(first), int(second or 0)) if place else None

    def work(reader: Reader) -> Item:
        items, next_cursor = read_decisions(reader, Filter(project=project or None), DECISIONS_SHOWN, after)
        return {"items": items, "project": project, "next_cursor": next_cursor}

    return PageView(data=await app.store.read(work), template="decisions.html")


def read_decisions(
    reader: Reader, where: Filter, limit: int, after: tuple[int, int] | None = None
) -> tuple[list[Item], str | None]:
    """Return decisions, newest first, with the title of their session, and the position of the next page."""
    rows = reader.find_entries(where, Page(limit=limit + 1, after=after), [DECISION])
    titles = {name: session.title for name in {row.session_id for row in rows} if (session := reader.session(name))}
    found: dict[tuple[str, str], Item] = {}
    for row in rows[:limit]:
        item = {**entry_item(row.session_id, row.entry, kind=DECISION), "session_title": titles.get(row.session_id, "")}
        item.pop("more", None)
        # A session may state a decision in its dialog and again of its turn.
        found.setdefault((row.session_id, compared_decision(item["summary"])), item)
    items = list(found.values())
    last = rows[limit - 1].at if len(rows) > limit else None
    return items, f"{last[0]}-{last[1]}" if last else None


def _open_work(reader: Reader, session_id: str) -> Iterable[Item]:
    """Yield what a session that can go on left to do."""
    session = reader.session(session_id)
    if session is None:
        return
    last = reader.turns(session_id, after=max(0, session.turns_total + session.turns_deleted - 1), limit=1)
    turn = last[0] if last else None
    says = [*turn.next, *turn.blockers] if turn else []
    if session.turns_open or says:
        text = "; ".join(says) or (turn.query_title if turn else "")
        yield {
            "session_id": session_id,
            "title": session.title,
            "text": one_line(text, 200),
            "state": str(session.state),
        }
