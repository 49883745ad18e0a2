"""Restore targets: a checkpoint by id, the moment a turn opened, or the moment before a command."""

from collections.abc import Sequence
from dataclasses import dataclass

from shiftlog.model.errors import InvalidParameter, TurnNotFound
from shiftlog.model.shell_errors import CommandNotFound
from shiftlog.workspace import history
from shiftlog.workspace.ports import CheckpointLog, Location, Record, Saved


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
        return True, history.find(records, target.checkpoint_id)
    if target.before_turn is not None:
        found = history.turn_mark(records, target.before_turn, session_id)
        if found is None:
            moment = await log.turn_began(location, target.before_turn, session_id)
            moment = moment or history.turn_seen(records, target.before_turn, session_id)
            if moment is None:
                raise TurnNotFound(
                    f"turn '{target.before_turn}' not found",
                    details={"request_id": target.before_turn},
                    hint="list_checkpoints shows request ids",
                )
            found = history.first_since(records, moment)
    elif target.before_command is not None:
        found = history.command_mark(records, target.before_command)
        if found is None:
            moment = await log.command_began(location, target.before_command)
            if moment is None:
                raise CommandNotFound(
                    f"unknown command_id '{target.before_command}'", details={"command_id": target.before_command}
                )
            found = history.first_since(records, moment)
    else:
        return False, None
    return True, None if found is None else history.find(records, found)
