"""Reading from the store what a capsule is built from: a session's turns, and the entries that count for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from shiftlog.journal.continuity.capsule.budget import refitted
from shiftlog.journal.continuity.capsule.build import DEFAULT_BUDGET_BYTES, STATED_LISTS, build_capsule
from shiftlog.journal.continuity.taken_back import TakenBack, taken_back
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
    Kind.TURN_UPDATED,
    Kind.TURN_COMPLETED,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """The material for capsules of a session: its turns, the entries that count, and what was taken back."""

    turns: Sequence[Turn]
    entries: Sequence[Entry]
    restores: Sequence[TakenBack]


def read_material(reader: Reader, session: Session) -> Material:
    """Read what capsules of a session are built from."""
    entries = reader.entries(session.id, kinds=CAPSULE_KINDS)
    restores = taken_back(reader, session, entries)
    return Material(turns=reader.turns(session.id), entries=entries, restores=restores)


def capsule_from(
    material: Material, session: Session, now: datetime, budget_bytes: int = DEFAULT_BUDGET_BYTES
) -> dict[str, Any]:
    """Build the capsule of the session as it is given here, from what was read of it."""
    turns, entries = material.turns, material.entries
    build = partial(build_capsule, session, entries=entries, restores=material.restores, statement=None, now=now)
    inherited: dict[str, Any] | None = None
    if session.predecessor_session_id is not None:
        handed = (entry.facts for entry in entries if entry.facts.get("session_id") == session.predecessor_session_id)
        inherited = next((facts["capsule"] for facts in handed if "capsule" in facts), None)
    if turns or inherited is None:
        return build(turns, handed=inherited, budget_bytes=budget_bytes)
    # Without work of its own yet, the session has its predecessor's capsule.
    own: dict[str, Any] = build((), budget_bytes=WHOLE_BYTES)
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


def capsule_of(
    reader: Reader, session: Session, now: datetime, budget_bytes: int = DEFAULT_BUDGET_BYTES
) -> dict[str, Any]:
    """Build a session's capsule from its journal as it stands."""
    return capsule_from(read_material(reader, session), session, now, budget_bytes)
