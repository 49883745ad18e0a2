"""The page of a file: every turn that touched it, with what it changed.

A turn that an agent's own tools worked in has the difference in its entries. Of a turn whose commands changed the file,
the checkpoints around it are compared.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from starlette.requests import Request

from shiftlog.app.app import App
from shiftlog.model.caller import Caller
from shiftlog.model.entry import Kind
from shiftlog.model.errors import InvalidParameter, ShiftlogError
from shiftlog.model.nouns import Turn
from shiftlog.model.times import shown
from shiftlog.store.protocol import Filter, Page, Reader
from shiftlog.web.answers import PageView
from shiftlog.web.views.checkpoints import checkpoints_around

TOUCHES_SHOWN = 60
COMPARED_MOST = 20

Item = dict[str, Any]


async def file_page(app: App, request: Request) -> PageView:
    """Show every turn that touched a file, newest first, with its diffs; `line` asks for turns that wrote a text."""
    path, project = request.query_params.get("path", "").strip(), request.query_params.get("project", "").strip()
    line = request.query_params.get("line", "")
    if not path:
        raise InvalidParameter.missing("path")

    def work(reader: Reader) -> list[Item]:
        # Brackets and stars of the name itself stand for themselves.
        pattern = "".join(f"[{char}]" if char in "*?[" else char for char in path)
        where = Filter(project=project or None, path=pattern)
        rows = [row for row in reader.find_files(where, Page(limit=TOUCHES_SHOWN * 4)) if row.path == path]
        touches = (_touch(reader, row.session_id, row.request_id, path) for row in rows)
        return sorted(filter(None, touches), key=lambda touch: str(touch["at"]), reverse=True)

    touches = await app.store.read(work)
    room = 0 if app.is_for_team else COMPARED_MOST
    for touch in touches:
        if room and not touch["diffs"] and touch["between"] is not None:
            room -= 1
            touch["diffs"] = await _compared(app, touch, path)
        del touch["between"], touch["folder"]
    found = [touch for touch in touches if not line or _wrote(touch["diffs"], line)]
    data = {"path": path, "project": project, "line": line, "touches": found[:TOUCHES_SHOWN], "total": len(found)}
    return PageView(data=data, template="file.html")


async def _compared(app: App, touch: Item, path: str) -> list[Item]:
    """Return what the checkpoints around a turn say of a file; nothing if they are gone."""
    before, after = touch["between"]
    workspace = str(before.facts.get("workspace"))
    asked: Item = {
        "workspace": workspace,
        "checkpoint_id": str(before.facts.get("id")),
        "format": "patch",
        "paths": [os.path.relpath(Path(touch["folder"]) / path, workspace)],
    }
    try:
        found = await app.workspaces.diff_checkpoint(
            asked | ({"to": str(after.facts.get("id"))} if after else {}), Caller(operator=True)
        )
    except ShiftlogError:
        return []
    return [{"seq": before.seq, "diff": found["patch"]}] if found.get("patch") else []


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
        "why": _reason(turn),
        "at": shown(turn.finished_at or turn.last_updated),
        "seq": turn.files[path].seq if path in turn.files else turn.begun_seq,
        "folder": session.workspace,
        "between": checkpoints_around(reader, session, turn),
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
