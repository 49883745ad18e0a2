"""Reads the records of a workspace: its position, what an id or turn refers to, what an undo restores, what may go.

A `Saved` record that is `reused` marks a moment and is not a checkpoint of its own. Only `resolve` asks the log.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from shiftlog.model.errors import InvalidParameter, TurnNotFound
from shiftlog.model.shell_errors import CheckpointNotFound, CommandNotFound
from shiftlog.workspace.ports import Cause, CheckpointLog, Location, Record, Restored, Saved
from shiftlog.workspace.rules import wrong

SHORTEST_PREFIX = 4
LONGEST_ID = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedBy:
    """The cause of a change: a command, a tool call, or a turn; `checkpoint_id` holds the state before it."""

    checkpoint_id: str
    tree: str
    command_id: str | None = None
    call_id: str | None = None
    request_id: str | None = None

    @property
    def name(self) -> str:
        """Return the id of the command, the call or the turn."""
        return self.command_id or self.call_id or self.request_id or ""


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
    """Reject a value that cannot be a checkpoint id or a prefix of one."""
    if not SHORTEST_PREFIX <= len(given) <= LONGEST_ID or any(char not in "0123456789abcdef" for char in given.lower()):
        raise wrong(parameter, "4 to 40 hexadecimal digits", "format")


def find(records: Sequence[Record], given: str, parameter: str = "checkpoint_id") -> Saved:
    """Return the checkpoint with this id or unique prefix."""
    check_id(given, parameter)
    matches = [saved for saved in checkpoints(records) if saved.checkpoint_id.startswith(given.lower())]
    if not matches:
        raise CheckpointNotFound(f"checkpoint '{given}' not found", details={"matches": []})
    if len(matches) > 1:
        ids = [saved.checkpoint_id for saved in matches]
        raise CheckpointNotFound(f"checkpoint '{given}' is ambiguous", details={"matches": ids})
    return matches[0]


def default_target(records: Sequence[Record], tree: str) -> Saved | None:
    """Return the checkpoint that an undo without a target restores; `tree` is the workspace now."""
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
    """Return the checkpoint recorded when a turn opened."""
    marks = [
        record
        for record in records
        if isinstance(record, Saved) and record.kind == "turn" and record.cause.request_id == request_id
    ]
    own = [mark for mark in marks if session_id is not None and mark.cause.session_id == session_id]
    chosen = own or marks
    return chosen[-1].checkpoint_id if chosen else None


def command_mark(records: Sequence[Record], command_id: str) -> str | None:
    """Return the checkpoint recorded before a command."""
    for record in records:
        if isinstance(record, Saved) and record.cause.command_id == command_id:
            return record.checkpoint_id
    return None


def turn_seen(records: Sequence[Record], request_id: str, session_id: str | None) -> datetime | None:
    """Return the first time a turn appears in the records, preferably of this session."""
    seen = [record for record in records if record.cause.request_id == request_id]
    own = [record for record in seen if session_id is not None and record.cause.session_id == session_id]
    if own:
        return own[0].at
    if not seen:
        return None
    newest = seen[-1].cause.session_id
    return next(record.at for record in seen if record.cause.session_id == newest)


def first_since(records: Sequence[Record], moment: datetime) -> str | None:
    """Return the first checkpoint taken, or found unchanged, at or after a moment."""
    for record in records:
        if isinstance(record, Saved) and record.at >= moment:
            return record.checkpoint_id
    return None


def changes_made(records: Sequence[Record]) -> tuple[ChangedBy, ...]:
    """Return what made the changes that are in the workspace now, oldest first; the last one always counts.

    That is a command, an agent's tool call, or a turn in which something else changed files. A restore moves back in
    this list as it does in the workspace, and restoring a safety checkpoint brings back what was undone.
    """
    done: tuple[ChangedBy, ...] = ()
    before: dict[str, tuple[ChangedBy, ...]] = {}
    for record in records:
        if isinstance(record, Restored):
            if not record.paths:
                done = before.get(record.checkpoint_id, done)
            continue
        if done and done[-1].tree == record.tree:
            done = done[:-1]  # the last one left the workspace as it was
        before.setdefault(record.checkpoint_id, done)
        changed = _maker(record)
        if changed is not None:
            done = (*done, changed)
    return done


def _maker(record: Saved) -> ChangedBy | None:
    """Return the command, call or turn that a record was taken before."""
    cause = record.cause
    state = ChangedBy(checkpoint_id=record.checkpoint_id, tree=record.tree, request_id=cause.request_id)
    if record.kind == "auto" and (cause.command_id or cause.call_id):
        return replace(state, command_id=cause.command_id, call_id=cause.call_id)
    return state if record.kind == "turn" and cause.request_id else None


def working_since(records: Sequence[Record]) -> Cause | None:
    """Return the work that what changes after the last record is put down to: a command, a tool call or a turn."""
    last = records[-1] if records else None
    if not isinstance(last, Saved) or last.kind in ("end", "safety"):
        return None
    cause = last.cause
    return cause if cause.session_id and (cause.request_id or cause.command_id) else None


def with_commands(records: Sequence[Record], restored: Restored) -> Restored:
    """Return a restore that names the commands whose changes it takes back or brings back."""
    before = [one.name for one in changes_made(records)]
    after = [one.name for one in changes_made([*records, restored])]
    return replace(
        restored,
        commands=tuple(one for one in before if one not in after),
        brought_back=tuple(one for one in after if one not in before),
    )


def droppable(
    records: Sequence[Record], stored: Collection[str], kept: int, open_sessions: Collection[str]
) -> list[str]:
    """Return the stored automatic checkpoints beyond the number to keep, oldest first.

    The current position and checkpoints tied to turns of open sessions always stay.
    """
    here = position(records)
    tied = {
        record.checkpoint_id
        for record in records
        if isinstance(record, Saved)
        and record.cause.request_id is not None
        and record.cause.session_id in open_sessions
    }
    if here is not None:
        tied.add(here.checkpoint_id)
    automatic = [
        saved.checkpoint_id
        for saved in checkpoints(records)
        if saved.kind != "manual" and saved.checkpoint_id in stored
    ]
    surplus = automatic[: max(0, len(automatic) - kept)]
    return [checkpoint_id for checkpoint_id in surplus if checkpoint_id not in tied]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreTarget:
    """At most one of three; none means the default undo target."""

    checkpoint_id: str | None = None
    before_turn: str | None = None
    before_command: str | None = None

    def __post_init__(self) -> None:
        given = [name for name in ("checkpoint_id", "before_turn", "before_command") if getattr(self, name) is not None]
        if len(given) > 1:
            raise InvalidParameter(
                f'argument "{given[1]}" cannot be used with {given[0]}',
                details={"parameter": given[1], "problem": "conflict", "expected": "at most one target"},
            )


async def resolve(
    log: CheckpointLog, location: Location, records: Sequence[Record], target: RestoreTarget, session_id: str | None
) -> tuple[bool, Saved | None]:
    """Return True if a target was named, and its checkpoint; None for a named one means the tree as it is."""
    if target.checkpoint_id is not None:
        return True, find(records, target.checkpoint_id)
    if target.before_turn is not None:
        found = turn_mark(records, target.before_turn, session_id)
        if found is None:
            moment = await log.turn_began(location, target.before_turn, session_id)
            moment = moment or turn_seen(records, target.before_turn, session_id)
            if moment is None:
                raise TurnNotFound(
                    f"turn '{target.before_turn}' not found",
                    details={"request_id": target.before_turn},
                    hint="list_checkpoints shows request ids",
                )
            found = first_since(records, moment)
    elif target.before_command is not None:
        found = command_mark(records, target.before_command)
        if found is None:
            moment = await log.command_began(location, target.before_command)
            if moment is None:
                raise CommandNotFound(
                    f"unknown command_id '{target.before_command}'", details={"command_id": target.before_command}
                )
            found = first_since(records, moment)
    else:
        return False, None
    return True, None if found is None else find(records, found)
