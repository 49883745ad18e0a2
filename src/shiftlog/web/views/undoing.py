"""The page before an undo: it shows what taking a turn back would change."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from shiftlog.app.app import App
from shiftlog.journal.history.changed_files import checkpoints_around
from shiftlog.model.errors import ShiftlogError
from shiftlog.model.nouns import Session, Turn
from shiftlog.model.shell_errors import WorkspaceRequired
from shiftlog.store.protocol import Reader
from shiftlog.web.answers import PageView
from shiftlog.web.asking import ask
from shiftlog.web.views.session import read_session, session_head
from shiftlog.web.views.timeline import find_turn, turn_document

LATER_TURNS = 2_000

Item = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _ToTakeBack:
    """The turn that may be taken back, its session, the turns after it, and the checkpoint that followed its work."""

    head: Item
    workspace: str | None
    turn: Turn
    later: Sequence[Turn]
    followed_by: str | None


async def undo_page(app: App, request: Request) -> PageView:
    """Show the difference between now and the state before a turn, and which files are of this turn alone."""

    def work(reader: Reader, session: Session) -> _ToTakeBack:
        turn = find_turn(reader, session, request.path_params["request_id"])
        around = checkpoints_around(reader, session, turn)
        after = around[1] if around else None
        return _ToTakeBack(
            head=session_head(app, reader, session),
            workspace=workspace_of(reader, session, turn),
            turn=turn,
            later=reader.turns(session.id, after=turn.ordinal, limit=LATER_TURNS),
            followed_by=str(after.facts.get("id")) if after else None,
        )

    asked = await read_session(app, request, work)
    if not asked.workspace:
        raise WorkspaceRequired("The session names no workspace", hint="Only turns in a workspace can be taken back")
    before_turn = {"before_turn": asked.turn.request_id}
    compared = await _compared(app, asked, {**before_turn, "format": "patch"})
    differ = _names(compared)
    since: set[str] = set()
    own = differ
    if asked.followed_by is not None:
        try:
            # What commands changed is named by no action: the checkpoints before and after the turn know it.
            own = _names(await _compared(app, asked, {**before_turn, "to": asked.followed_by}))
            since = _names(await _compared(app, asked, {"checkpoint_id": asked.followed_by}))
        except ShiftlogError:
            own = set[str]()  # the checkpoint is gone: only the files that the agent named are known
    own = differ & (own | _touched(compared["workspace"], asked.turn))
    again = [(other.ordinal, _touched(compared["workspace"], other)) for other in asked.later]
    data: Item = {
        "session_id": asked.head["session_id"],
        "turn": turn_document(asked.turn),
        "files": compared["files"],
        "files_changed": compared["files_changed"],
        "patch": compared["patch"],
        "truncated": compared["truncated"],
        "own": [
            {
                "path": path,
                "changed_later": [ordinal for ordinal, touched in again if path in touched],
                "changed_since": path in since,
            }
            for path in sorted(own)
        ],
    }
    return PageView(data=data, template="undo.html", extra={"session": asked.head})


def workspace_of(reader: Reader, session: Session, turn: Turn) -> str | None:
    """Return the directory in which a turn is taken back: where its shell worked, else that of its session."""
    around = checkpoints_around(reader, session, turn)
    return str(around[0].facts["workspace"]) if around else session.workspace


async def _compared(app: App, asked: _ToTakeBack, how: Mapping[str, Any]) -> Item:
    return await ask(app, "diff", {"workspace": asked.workspace, "diff": how})


def _names(compared: Item) -> set[str]:
    return {str(file["path"]) for file in compared["files"]}


def _touched(workspace: str, turn: Turn) -> set[str]:
    """Return the files that a turn named, relative to the workspace; it may name them by their whole path."""
    touched = {os.path.relpath(path, workspace) if path.startswith("/") else path for path in turn.files}
    return {os.path.normpath(path) for path in touched}
