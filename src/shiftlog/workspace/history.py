"""What the records of a workspace say: where it stands, what an id or a turn means, what an undo goes back to.

Pure functions over records; a `Saved` that is `reused` marks a moment and is no checkpoint of its own.
"""

from collections.abc import Sequence
from datetime import datetime

from shiftlog.model.errors import InvalidParameter
from shiftlog.model.shell_errors import CheckpointNotFound
from shiftlog.workspace.ports import Record, Restored, Saved

SHORTEST_PREFIX = 4
LONGEST_ID = 40


def checkpoints(records: Sequence[Record]) -> list[Saved]:
    """Return the checkpoints, oldest first."""
    return [record for record in records if isinstance(record, Saved) and not record.reused]


def position(records: Sequence[Record]) -> Saved | None:
    """Return the current position: the last checkpoint taken or restored."""
    by_id = {saved.checkpoint_id: saved for saved in checkpoints(records)}
    for record in reversed(records):
        if isinstance(record, Restored) or not record.reused:
            found = by_id.get(record.checkpoint_id)
            if found is not None:
                return found
    return None


def check_id(given: str, parameter: str = "checkpoint_id") -> None:
    """Refuse what can be no checkpoint's id nor the beginning of one."""
    if not SHORTEST_PREFIX <= len(given) <= LONGEST_ID or any(char not in "0123456789abcdef" for char in given.lower()):
        expected = "4 to 40 hexadecimal digits"
        raise InvalidParameter(
            f'argument "{parameter}" must be {expected}',
            details={"parameter": parameter, "problem": "format", "expected": expected},
        )


def find(records: Sequence[Record], given: str, parameter: str = "checkpoint_id") -> Saved:
    """Return the checkpoint of an id or of a unique prefix."""
    check_id(given, parameter)
    matches = [saved for saved in checkpoints(records) if saved.checkpoint_id.startswith(given.lower())]
    if not matches:
        raise CheckpointNotFound(f"checkpoint '{given}' not found", details={"matches": []})
    if len(matches) > 1:
        ids = [saved.checkpoint_id for saved in matches]
        raise CheckpointNotFound(f"checkpoint '{given}' is ambiguous", details={"matches": ids})
    return matches[0]


def default_target(records: Sequence[Record], tree: str) -> Saved | None:
    """Return what an undo without a target goes back to; `tree` is the workspace now."""
    here = position(records)
    if here is None:
        return None
    if here.kind != "safety" and (here.tree != tree or here.kind == "manual"):
        return here
    saved = checkpoints(records)
    for older in reversed(saved[: saved.index(here)]):
        if older.kind == "manual" or (older.kind != "safety" and older.tree != tree):
            return older
    return None


def turn_mark(records: Sequence[Record], request_id: str, session_id: str | None) -> str | None:
    """Return the checkpoint that held the tree when a turn opened, as recorded then."""
    marks = [
        record
        for record in records
        if isinstance(record, Saved) and record.kind == "turn" and record.cause.request_id == request_id
    ]
    own = [mark for mark in marks if session_id is not None and mark.cause.session_id == session_id]
    chosen = own or marks
    return chosen[-1].checkpoint_id if chosen else None


def command_mark(records: Sequence[Record], command_id: str) -> str | None:
    """Return the checkpoint that held the tree before a command, as recorded then."""
    for record in records:
        if isinstance(record, Saved) and record.cause.command_id == command_id:
            return record.checkpoint_id
    return None


def turn_seen(records: Sequence[Record], request_id: str, session_id: str | None) -> datetime | None:
    """Return the first time that a turn shows in the records, of this session if it has one of that id."""
    seen = [record for record in records if record.cause.request_id == request_id]
    own = [record for record in seen if session_id is not None and record.cause.session_id == session_id]
    if own:
        return own[0].at
    if not seen:
        return None
    newest = seen[-1].cause.session_id
    return next(record.at for record in seen if record.cause.session_id == newest)


def first_since(records: Sequence[Record], moment: datetime) -> str | None:
    """Return the first checkpoint taken, or found to still hold, at or after a moment."""
    for record in records:
        if isinstance(record, Saved) and record.at >= moment:
            return record.checkpoint_id
    return None
