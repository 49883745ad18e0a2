"""Projects and their files: sessions, files by how often they changed, decisions, open work; every turn of one file."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from starlette.requests import Request

from shiftlog.app.app import App
from shiftlog.journal.history.items import entry_item
from shiftlog.journal.texts import DECISION
from shiftlog.journal.usage.service import total_usage
from shiftlog.model.entry import Kind
from shiftlog.model.errors import InvalidParameter
from shiftlog.model.moves import SessionState
from shiftlog.model.nouns import Turn
from shiftlog.model.times import shown, shown_or_none
from shiftlog.store.protocol import Filter, Page, Reader
from shiftlog.text.printable import one_line
from shiftlog.web.answers import PageView
from shiftlog.web.views.rail import list_row

SESSIONS_SHOWN = 30
FILES_READ = 4_000
FILES_SHOWN = 200
DECISIONS_SHOWN = 50
TOUCHES_SHOWN = 60
_LIVE = frozenset({str(SessionState.OPEN), str(SessionState.SUSPENDED), str(SessionState.AWAITING_SUCCESSOR)})

Item = dict[str, Any]


async def projects_page(app: App, request: Request) -> PageView:
    """List the projects with what they used, the dearest first."""

    def work(reader: Reader) -> list[Item]:
        rows = total_usage(reader, app.runs, Filter(), ["project"])["rows"]
        return sorted(rows, key=lambda row: (-(row["cost_usd"] or 0.0), -row["sessions"], str(row["project"])))

    return PageView(data={"projects": await app.store.read(work)}, template="projects.html")


async def project_page(app: App, request: Request) -> PageView:
    """Show one project: its sessions, its files by churn, decisions, open work and cost."""
    name = str(request.path_params["project"])
    now = app.clock.now()

    def work(reader: Reader) -> Item:
        where = Filter(project=name)
        rows = reader.find_sessions(where, Page(limit=SESSIONS_SHOWN), by_activity=True)
        if not rows:
            raise InvalidParameter.invalid("project", "the name of a project with sessions", name)
        live = reader.find_sessions(replace(where, states=_LIVE), Page(limit=SESSIONS_SHOWN), by_activity=True)
        return {
            "project": name,
            "workspaces": sorted({row.session.workspace for row in rows if row.session.workspace}),
            "sessions": [list_row(app, reader, row.session, now) for row in rows],
            "sessions_total": reader.count("session", where),
            "files": _churn(reader, where),
            "decisions": read_decisions(reader, where, DECISIONS_SHOWN)[0],
            "open": [work for row in live for work in _open_work(reader, row.session.id)][:SESSIONS_SHOWN],
            "usage": total_usage(reader, app.runs, where, ["model"]),
        }

    return PageView(data=await app.store.read(work), template="project.html")


async def file_page(app: App, request: Request) -> PageView:
    """Show every turn that touched a file, newest first, with its diffs; `line` asks for turns that wrote a text."""
    path, project = request.query_params.get("path", "").strip(), request.query_params.get("project", "").strip()
    line = request.query_params.get("line", "")
    if not path:
        raise InvalidParameter.missing("path")

    def work(reader: Reader) -> Item:
        # Brackets and stars of the name itself stand for themselves.
        pattern = "".join(f"[{char}]" if char in "*?[" else char for char in path)
        where = Filter(project=project or None, path=pattern)
        rows = [row for row in reader.find_files(where, Page(limit=TOUCHES_SHOWN * 4)) if row.path == path]
        touches = [_touch(reader, row.session_id, row.request_id, path) for row in rows]
        found = [touch for touch in touches if touch and (not line or _wrote(touch["diffs"], line))]
        return {"path": path, "project": project, "line": line, "touches": found[:TOUCHES_SHOWN], "total": len(found)}

    return PageView(data=await app.store.read(work), template="file.html")


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
    items = [
        {**entry_item(row.session_id, row.entry, kind=DECISION), "session_title": titles.get(row.session_id, "")}
        for row in rows[:limit]
    ]
    for item in items:
        item.pop("more", None)
    last = rows[limit - 1].at if len(rows) > limit else None
    return items, f"{last[0]}-{last[1]}" if last else None


def _churn(reader: Reader, where: Filter) -> list[Item]:
    """Return files by how often they changed."""
    found: dict[str, Item] = {}
    for row in reader.find_files(where, Page(limit=FILES_READ)):
        item = found.setdefault(
            row.path, {"path": row.path, "changes": 0, "turns": 0, "at": shown_or_none(row.touched)}
        )
        item["changes"] += row.touch.changes
        item["turns"] += 1
    return sorted(found.values(), key=lambda item: (-item["changes"], item["path"]))[:FILES_SHOWN]


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


def _touch(reader: Reader, session_id: str, request_id: str, path: str) -> Item | None:
    """Return what a turn did to a file, and what it was asked."""
    session, turn = reader.session(session_id), reader.turn(session_id, request_id)
    if session is None or turn is None:
        return None
    entries = reader.entries(
        session_id, after=turn.begun_seq, until=turn.last_seq, turn=request_id, kinds=(Kind.ACTION,)
    )
    actions = [entry for entry in entries if _is_of(entry.facts.get("file_path"), path)]
    return {
        "session_id": session_id,
        "session_title": session.title,
        "agent_id": session.agent_id,
        "request_id": request_id,
        "ordinal": turn.ordinal,
        "asked": turn.query_title,
        "why": one_line(_reason(turn), 300),
        "at": shown(turn.finished_at or turn.last_updated),
        "seq": turn.files[path].seq if path in turn.files else turn.begun_seq,
        "diffs": [{"seq": entry.seq, "diff": entry.facts["diff"]} for entry in actions if entry.facts.get("diff")],
        "said": [str(entry.facts.get("description") or "") for entry in actions if not entry.facts.get("diff")],
    }


def _is_of(named: object, path: str) -> bool:
    """Return True if an action names a file, whole or below the workspace."""
    return isinstance(named, str) and (named == path or named.endswith(f"/{path}"))


def _reason(turn: Turn) -> str:
    return "; ".join(turn.design_decisions) or turn.interpretation or turn.response


def _wrote(diffs: Iterable[Item], text: str) -> bool:
    return any(line.startswith("+") and text in line for one in diffs for line in str(one["diff"]).split("\n"))
