"""The page before an undo: it shows what taking a turn back would change."""

import os
from typing import Any

from starlette.requests import Request

from shiftlog.app.app import App
from shiftlog.model.nouns import Session, Turn
from shiftlog.model.shell_errors import WorkspaceRequired
from shiftlog.store.protocol import Reader
from shiftlog.web.answers import PageView
from shiftlog.web.asking import ask
from shiftlog.web.views.session import read_session, session_head
from shiftlog.web.views.timeline import find_turn, turn_document

LATER_TURNS = 2_000

Item = dict[str, Any]


async def undo_page(app: App, request: Request) -> PageView:
    """Show the difference between now and the state before a turn, and which files are of this turn alone."""

    def work(reader: Reader, session: Session) -> tuple[Item, Session, Turn, list[Turn]]:
        turn = find_turn(reader, session, request.path_params["request_id"])
        later = reader.turns(session.id, after=turn.ordinal, limit=LATER_TURNS)
        return session_head(app, reader, session), session, turn, later

    head, session, turn, later = await read_session(app, request, work)
    if not session.workspace:
        raise WorkspaceRequired("The session names no workspace", hint="Only turns in a workspace can be taken back")
    asked = {"before_turn": turn.request_id, "format": "patch"}
    compared = await ask(app, "diff", {"workspace": session.workspace, "diff": asked})
    names = {str(file["path"]) for file in compared["files"]}
    own = _inside(compared["workspace"], turn, names)
    again = {
        path: [other.ordinal for other in later if path in _inside(compared["workspace"], other, {path})]
        for path in own
    }
    data: Item = {
        "session_id": session.id,
        "turn": turn_document(turn),
        "files": compared["files"],
        "files_changed": compared["files_changed"],
        "patch": compared["patch"],
        "truncated": compared["truncated"],
        "own": [{"path": path, "changed_later": again[path]} for path in sorted(own)],
    }
    return PageView(data=data, template="undo.html", extra={"session": head})


def _inside(workspace: str, turn: Turn, names: set[str]) -> set[str]:
    """Return those of the names that a turn touched; a turn may name files by their whole path."""
    touched = {os.path.relpath(path, workspace) if path.startswith("/") else path for path in turn.files}
    return names & {os.path.normpath(path) for path in touched}
