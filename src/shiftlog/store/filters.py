"""The question behind a list or a sum: conditions on sessions and turns, and one page of the answer.

Other packages import these from `protocol`. How a store evaluates them is its own matter.
"""

from dataclasses import dataclass
from datetime import datetime

from shiftlog.model.nouns import Turn
from shiftlog.model.times import truncated


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Conditions on sessions and their turns, joined by and; None or False asks for nothing.

    `model_part` is a part of the model's name in any case. A `finished` session has ended, or is suspended with
    turns and none of them open. `offered_to` is the key of an agent; `offered` asks for any open offer.
    `from_` and `to` bound when something was worked on: a session or turn from its start to the second of its last
    activity, an entry at its time, a file between its first and last change.
    `turn_status`, `plan_file`, `todo_id` and `untouched_since` must hold for the same turn. For an entry, what is asked
    of turns must hold for its own turn; a tag may also be its session's. `without_subagents` leaves out imported
    sessions of subagents; their turns then count among those of the session that started them. `hidden` asks for
    deleted sessions alone; without it no list has them.
    """

    session_id: str | None = None
    agent: str | None = None
    agent_key: str | None = None
    model: str | None = None
    backend: str | None = None
    caller: str | None = None
    states: frozenset[str] | None = None
    turn_status: str | None = None
    run_status: str | None = None
    tag: str | None = None
    project: str | None = None
    workspace: str | None = None
    path: str | None = None
    parent_id: str | None = None
    predecessor_id: str | None = None
    offered_to: str | None = None
    offered: bool = False
    from_: datetime | None = None
    to: datetime | None = None
    idle_since: datetime | None = None
    with_run: bool = False
    model_part: str | None = None
    started_from: datetime | None = None
    active_to: datetime | None = None
    finished: bool | None = None
    plan_file: str | None = None
    todo_id: str | None = None
    untouched_since: datetime | None = None
    without_subagents: bool = False
    hidden: bool = False

    def fits(self, turn: Turn) -> bool:
        """Return True if a turn meets `turn_status`, `plan_file`, `todo_id` and `untouched_since`."""
        asked = (
            (self.turn_status, turn.status),
            (self.plan_file, turn.plan_file),
            (self.todo_id, turn.todo_id),
        )
        since = self.untouched_since
        return all(wanted is None or wanted == actual for wanted, actual in asked) and (
            since is None or truncated(turn.last_updated) <= since
        )

    @property
    def asks_turn(self) -> bool:
        """Return True if the filter has conditions on turns."""
        asked = (self.turn_status, self.tag, self.path, self.plan_file, self.todo_id, self.untouched_since)
        return any(each is not None for each in asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A part of a list: at most `limit` rows after the row whose position is `after`, newest or oldest first."""

    limit: int
    after: tuple[int, int] | None = None
    oldest_first: bool = False
