"""Files that two checkpoints show as changed, as entries keep them: written to a turn, and read back.

Most are the work of commands. Changes that an agent's own tools report are actions instead.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from shiftlog.journal.activity import AUTOMATIC
from shiftlog.journal.merge import normal_path
from shiftlog.journal.pen import Pen
from shiftlog.model.entry import Entry, Kind
from shiftlog.model.nouns import Session

SOURCE = "checkpoint"
_BETWEEN = ("command_id", "since", "until", "workspace")


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenFiles:
    """Files that changed between two checkpoints, each with the kind of change, and the command that ran meanwhile."""

    files: Mapping[str, str]
    command_id: str | None = None
    since: str | None = None
    until: str | None = None
    workspace: str | None = None

    @property
    def _between(self) -> dict[str, str]:
        return {name: value for name in _BETWEEN if (value := getattr(self, name))}

    def as_facts(self) -> dict[str, Any]:
        """Return the facts that an entry keeps."""
        return {"seen": dict(self.files), **({"between": self._between} if self._between else {})}


def write_seen(pen: Pen, request_id: str, seen: SeenFiles) -> None:
    """Add files to a turn; a terminal turn gets an amendment.

    A file that the turn has already is written again only for a command that changed it too. The entry is no activity:
    a checkpoint does not know when the agent changed a file.
    """
    turn = pen.turn(request_id)
    if turn is None:
        return
    named = named_in(pen.session, seen).files
    new = {path: how for path, how in named.items() if seen.command_id or path not in turn.files}
    if not new:
        return
    facts = {**replace(seen, files=new).as_facts(), AUTOMATIC: True}
    if not turn.is_terminal:
        pen.write(Kind.TURN_UPDATED, facts, request_id)
        return
    fields = {"files_seen": facts.pop("seen")}
    pen.write(Kind.IMPORT_NOTED, {"source": SOURCE, "seal": turn.seal, "fields": fields, **facts}, request_id)


def named_in(session: Session, seen: SeenFiles) -> SeenFiles:
    """Name the files from the workspace of a session, which may not be the workspace of the checkpoints."""
    if not seen.workspace or not session.workspace or seen.workspace == session.workspace:
        return seen
    whole = {f"{seen.workspace}/{path}": how for path, how in seen.files.items()}
    return replace(seen, files={normal_path(path, session.workspace): how for path, how in whole.items()})


def read_seen(entry: Entry) -> SeenFiles | None:
    """Return the changed files that an entry keeps; None if it keeps none."""
    facts: Mapping[str, Any] = entry.facts
    files = facts.get("fields", {}).get("files_seen") if entry.kind is Kind.IMPORT_NOTED else facts.get("seen")
    if not isinstance(files, dict):
        return None
    known: Mapping[str, Any] = facts.get("between") or {}
    return SeenFiles(files=cast("dict[str, str]", files), **{name: known[name] for name in _BETWEEN if name in known})
