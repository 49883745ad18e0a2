"""Reading from the store what a capsule is built from: a session's turns, and the entries that count for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shiftlog.journal.continuity.capsule.budget import refitted
from shiftlog.journal.continuity.capsule.build import DEFAULT_BUDGET_BYTES, STATED_LISTS, build_capsule
from shiftlog.model.entry import Entry, Kind
from shiftlog.model.nouns import Session, Turn
from shiftlog.store.protocol import Reader

# More than any session fills: nothing is cut.
WHOLE_BYTES = 1 << 40

# What a session without a turn can add to the capsule that it was handed.
_ADDED = ("last_shell_cwd", "last_commands", "shells", "usage", "checkpoints", "closing_note", "stated")

CAPSULE_KINDS = (
    Kind.DIALOG,
    Kind.ACTION,
    Kind.CAPSULE_SAVED,
    Kind.SESSION_CLOSED,
    Kind.COMMAND_STARTED,
    Kind.COMMAND_FINISHED,
    Kind.SHELL_OPENED,
    Kind.SHELL_ENDED,
    Kind.CHECKPOINT_SAVED,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """What was read of a session; capsules can be built from it without reading again."""

    turns: Sequence[Turn]
    entries: Sequence[Entry]

    @classmethod
    def read(cls, reader: Reader, session_id: str) -> "Material":
        """Read a session's turns and entries."""
        return cls(turns=reader.turns(session_id), entries=reader.entries(session_id, kinds=CAPSULE_KINDS))

    def capsule(self, session: Session, now: datetime, budget_bytes: int = DEFAULT_BUDGET_BYTES) -> dict[str, Any]:
        """Build the capsule of the session as it is given here."""
        inherited = self._inherited(session)
        if inherited is None:
            return build_capsule(session, self.turns, self.entries, statement=None, budget_bytes=budget_bytes, now=now)
        own: dict[str, Any] = build_capsule(
            session, (), self.entries, statement=None, budget_bytes=WHOLE_BYTES, now=now
        )
        capsule = {**inherited, **{name: own[name] for name in _ADDED if own[name]}}
        newest: dict[str, int] = {}
        if own["stated"]:
            # What its agent states comes first, before what it was handed itself.
            capsule["origin"] = own["origin"]
            if own["goal"]["basis"] == "claimed":
                capsule["goal"] = own["goal"]
            for name in (*STATED_LISTS, "receipts"):
                capsule[name], newest[name] = [*own[name], *inherited[name]], len(own[name])
        return refitted(capsule, budget_bytes, newest)

    def _inherited(self, session: Session) -> dict[str, Any] | None:
        """Return the predecessor's capsule if the session has no work of its own yet."""
        if self.turns or session.predecessor_session_id is None:
            return None
        for entry in self.entries:
            if entry.facts.get("session_id") == session.predecessor_session_id and "capsule" in entry.facts:
                return entry.facts["capsule"]
        return None


def capsule_of(
    reader: Reader, session: Session, now: datetime, budget_bytes: int = DEFAULT_BUDGET_BYTES
) -> dict[str, Any]:
    """Build a session's capsule from its journal as it stands."""
    return Material.read(reader, session.id).capsule(session, now, budget_bytes)
