"""Subagents as the session log shows them: sessions of their own in the journal, here turns of their parent's."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from shiftlog.model.ids import slug
from shiftlog.model.nouns import Session, Turn
from shiftlog.model.times import compact
from shiftlog.store.protocol import Filter, Page, Reader

MARK = "-subagent-"
MOST_CHILDREN = 1_000
DEEPEST = 8
_FALLBACK = {"ClaudeCode": "claude", "Codex": "codex"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentSession:
    """A subagent's session and the name that it goes by."""

    session: Session

    @property
    def nickname(self) -> str:
        """Return the subagent's name in the form of an id."""
        fallback = _FALLBACK.get(self.session.agent, "subagent")
        return slug(str(self.session.subagent.get("name") or ""), fallback)

    def request_id(self, turn: Turn) -> str:
        """Return the id of one of its turns among those of the parent."""
        given = turn.request_id
        return given if MARK in given else self.prefix + given.split("-", 2)[-1]

    @property
    def prefix(self) -> str:
        """Return the prefix of its turns' ids among those of the parent; ids that have it already get none."""
        return f"req-{compact(self.session.started)}{MARK}{self.nickname}-"

    def marks(self) -> list[str]:
        """Return the tags of its turns."""
        parent = self.session.parent_turn
        return ["subagent", self.nickname, *([f"parent:{parent}"] if parent else [])]

    def as_parents(self, turn: Turn, shown: dict[str, Any]) -> dict[str, Any]:
        """Return a turn that is shown as one of the parent's."""
        marks = self.marks()
        tags = [*marks, *(tag for tag in shown["tags"] if tag not in marks)]
        return {**shown, "requestId": self.request_id(turn), "tags": tags}


def subagents_of(reader: Reader, session: Session, depth: int = 0) -> Iterator[SubagentSession]:
    """Yield the subagents of a session and theirs, in the order in which they started."""
    rows = reader.find_sessions(Filter(parent_id=session.id), Page(limit=MOST_CHILDREN))
    for row in sorted(rows, key=lambda row: (row.session.started, row.session.id)):
        if row.session.subagent:
            yield SubagentSession(session=row.session)
            if depth < DEEPEST:
                yield from subagents_of(reader, row.session, depth + 1)


def turn_of_subagent(reader: Reader, session: Session, request_id: str | None) -> tuple[SubagentSession, Turn] | None:
    """Return the turn of a subagent that is addressed by its id among those of the parent."""
    if not request_id or MARK not in request_id or reader.turn(session.id, request_id) is not None:
        return None
    for child in subagents_of(reader, session):
        turn = reader.turn(child.session.id, request_id)
        if turn is not None:
            return child, turn
        if request_id.startswith(child.prefix):
            for turn in reader.turns(child.session.id):
                if child.request_id(turn) == request_id:
                    return child, turn
    return None
