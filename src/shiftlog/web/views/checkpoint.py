"""The view of one checkpoint: the files and lines that changed since the one before it in the same session."""

from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from shiftlog.app.app import App
from shiftlog.journal.journal import find_session
from shiftlog.model.caller import Caller
from shiftlog.model.entry import Entry, Kind
from shiftlog.model.errors import InvalidParameter
from shiftlog.store.protocol import Reader
from shiftlog.web.answers import NOT_FOUND, PageView, refusal
from shiftlog.web.views.session import SessionView, number
from shiftlog.web.views.steps import steps_of

Item = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointView:
    """Looks up checkpoints of a session."""

    app: App
    sessions: SessionView

    async def look(self, request: Request) -> PageView | Response:
        """Show the checkpoint that an entry saved, and what changed since the one before."""
        name, seq = request.path_params["session_id"], number(request.path_params, "seq", 0)
        now = self.app.clock.now()

        def work(reader: Reader) -> tuple[Item, Entry | None, Entry | None]:
            session = find_session(reader, name)
            saved = [
                entry
                for entry in reader.entries(session.id, until=seq, kinds=(Kind.CHECKPOINT_SAVED,))
                if entry.body is not None
            ]
            this = saved[-1] if saved and saved[-1].seq == seq else None
            where = (this.facts.get("target"), this.facts.get("workspace")) if this else None
            before = [
                entry for entry in saved[:-1] if (entry.facts.get("target"), entry.facts.get("workspace")) == where
            ]
            return self.sessions.facts(reader, session, now), this, before[-1] if before else None

        facts, this, before = await self.app.store.read(work)
        if this is None:
            return refusal(request, InvalidParameter.invalid("seq", f"entry {seq} saved no checkpoint", seq), NOT_FOUND)
        changes = await self._changes(before, this) if before is not None else None
        data: Item = {
            "session_id": facts["session_id"],
            "checkpoint": this.facts,
            "since": before.facts.get("id") if before else None,
            "changes": changes,
        }
        extra = {"session": facts, "steps": steps_of([this])}
        return PageView(data=data, template="checkpoint.html", extra=extra)

    async def _changes(self, before: Entry, this: Entry) -> Item | None:
        """Return the diff of two checkpoints on this machine; remote ones need their shell."""
        if this.facts.get("target") is not None:
            return None
        request = {
            "workspace": str(this.facts.get("workspace")),
            "checkpoint_id": str(before.facts.get("id")),
            "to": str(this.facts.get("id")),
            "format": "patch",
        }
        return await self.app.workspaces.diff_checkpoint(request, Caller(operator=True))
