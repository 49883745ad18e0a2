"""Files that checkpoints show as changed: how a turn gets them, and which checkpoints show them.

What an agent's own tools report is an action; here is what no report names, such as the work of a command.
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
class Sight:
    """Files, each with how it changed between two checkpoints, and the command that ran meanwhile, if one is known."""

    files: Mapping[str, str]
    command_id: str | None = None
    since: str | None = None
    until: str | None = None
    workspace: str | None = None

    @property
    def _between(self) -> dict[str, str]:
        return {name: value for name in _BETWEEN if (value := getattr(self, name))}

    def as_facts(self) -> dict[str, Any]:
        """Return it as an entry keeps it."""
        return {"seen": dict(self.files), **({"between": self._between} if self._between else {})}


def write_seen(pen: Pen, request_id: str, sight: Sight) -> None:
    """Write files that a turn changed; of a terminal turn as an amendment.

    A file that the turn has already is only written again where a command changed it too. It is no activity: when a
    checkpoint sees a file says nothing about when the agent changed it.
    """
    turn = pen.turn(request_id)
    if turn is None:
        return
    named = known_in(pen.session, sight).files
    new = {path: how for path, how in named.items() if sight.command_id or path not in turn.files}
    if not new:
        return
    facts = {**replace(sight, files=new).as_facts(), AUTOMATIC: True}
    if not turn.is_terminal:
        pen.write(Kind.TURN_UPDATED, facts, request_id)
        return
    fields = {"files_seen": facts.pop("seen")}
    pen.write(Kind.IMPORT_NOTED, {"source": SOURCE, "seal": turn.seal, "fields": fields, **facts}, request_id)


def known_in(session: Session, sight: Sight) -> Sight:
    """Return it with files named as a session knows them, which may work in another directory than the checkpoint."""
    if not sight.workspace or not session.workspace or sight.workspace == session.workspace:
        return sight
    whole = {f"{sight.workspace}/{path}": how for path, how in sight.files.items()}
    return replace(sight, files={normal_path(path, session.workspace): how for path, how in whole.items()})


def read_seen(entry: Entry) -> Sight | None:
    """Return what an entry tells of files that checkpoints show as changed."""
    facts: Mapping[str, Any] = entry.facts
    files = facts.get("fields", {}).get("files_seen") if entry.kind is Kind.IMPORT_NOTED else facts.get("seen")
    if not isinstance(files, dict):
        return None
    known: Mapping[str, Any] = facts.get("between") or {}
    return Sight(files=cast("dict[str, str]", files), **{name: known[name] for name in _BETWEEN if name in known})
