"""Work that was taken back: restores of a session's workspaces since it began, by a person or by an agent.

A restore is recorded in the newest session that is open on its workspace, which may be another one. A restore that was
itself undone counts no more.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shiftlog.journal.activity import PERSON
from shiftlog.journal.merge import normal_path
from shiftlog.journal.texts import RESTORE
from shiftlog.model.entry import Entry, Kind
from shiftlog.model.nouns import Session, Turn
from shiftlog.model.times import shown
from shiftlog.store.protocol import EntryRow, Filter, Page, Reader
from shiftlog.text.printable import one_line

LOOKED_AT = 500
SHOWN = 20
COMMAND_CHARS = 200
FILES_SAID = 5

Place = tuple[str | None, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenBack:
    """One restore: who made it, when, and what of the session's work it took away.

    What was done between `back_to` and `at` is gone; `files` are named as the session names them.
    """

    by: str
    at: datetime
    back_to: datetime
    files: tuple[str, ...]
    commands: tuple[str, ...]
    turn: str | None

    def takes(self, touched: Iterable[tuple[str, datetime]], turn: Turn, commands_of_turn: Iterable[str]) -> bool:
        """Return True if it took away something that a turn had done: a command, or a file touched at a time."""
        names = {turn.request_id, *commands_of_turn}
        if self.turn == turn.request_id or not names.isdisjoint(self.commands):
            return True
        return any(self.takes_file(path, at) for path, at in touched)

    def takes_file(self, path: str, at: datetime) -> bool:
        """Return True if it took away what was done to a file at a time."""
        return path in self.files and self.back_to <= at <= self.at

    @property
    def who(self) -> str:
        """Return who took it back, in words."""
        return who(self.by)


def taken_back(reader: Reader, session: Session, entries: Iterable[Entry]) -> list[TakenBack]:
    """Return the restores that took work of a session away and still stand, oldest first."""
    places = _places(session, entries)
    if not places:
        return []
    rows = reader.find_entries(Filter(from_=session.started), Page(limit=LOOKED_AT), [RESTORE])
    here = [row for row in rows if _place(row.entry) in places]
    here.sort(key=lambda row: (row.entry.at, row.at))
    standing: list[tuple[EntryRow, TakenBack]] = []
    for row in here:
        facts = row.entry.facts
        brought_back: set[str] = set(facts.get("brought_back") or ())
        undoes = [n for n, (one, _) in enumerate(standing) if _is_undone(one.entry, row.entry, brought_back)]
        if undoes:
            standing = standing[: undoes[0]]
        elif facts.get("changed"):
            standing.append((row, _read(row.entry, session)))
    return [taken for _, taken in standing]


def _is_undone(restore: Entry, later: Entry, brought_back: set[str]) -> bool:
    """Return True if a later restore went back to the files as they were before this one."""
    if later.facts.get("checkpoint_id") == restore.facts.get("safety_checkpoint_id"):
        return True
    commands: set[str] = set(restore.facts.get("commands") or ())
    return bool(commands) and commands <= brought_back


def _read(entry: Entry, session: Session) -> TakenBack:
    facts: dict[str, Any] = entry.facts
    cause: dict[str, Any] = facts.get("cause") or {}
    folder = "" if facts.get("target") else f"{facts.get('workspace')}/"
    back_to = facts.get("back_to")
    return TakenBack(
        by=PERSON if cause.get("by") == PERSON else "agent",
        at=entry.at,
        back_to=datetime.fromisoformat(back_to) if back_to else session.started,
        files=tuple(normal_path(f"{folder}{path}", session.workspace) for path in facts.get("changed") or ()),
        commands=tuple(facts.get("commands") or ()),
        turn=facts.get("turn"),
    )


def _places(session: Session, entries: Iterable[Entry]) -> set[Place]:
    """Return the workspaces that a session has checkpoints of or works in."""
    places: set[Place] = {(None, session.workspace)} if session.workspace else set()
    return places | {
        _place(entry) for entry in entries if entry.kind is Kind.CHECKPOINT_SAVED and entry.facts.get("workspace")
    }


def _place(entry: Entry) -> Place:
    return entry.facts.get("target"), str(entry.facts.get("workspace", ""))


def shown_taken_back(restores: Sequence[TakenBack], since: datetime, texts: dict[str, str]) -> list[dict[str, Any]]:
    """Show what was taken back since a time, each command or turn for itself; `texts` has the commands' own words."""
    items: list[dict[str, Any]] = []
    for taken in restores:
        if taken.at < since:
            continue
        for name in taken.commands or (taken.turn,):
            item = {"command_or_turn": name, "by": taken.by, "at": shown(taken.at), "files": list(taken.files)}
            if name in texts:
                item["command"] = one_line(texts[name], COMMAND_CHARS)
            items.append(item)
    return items[-SHOWN:]


def in_words(item: dict[str, Any]) -> str:
    """Say what was taken back, by whom: `taken back by a person: make build (a.txt, b.txt)`."""
    files: list[str] = item["files"]
    more = f" and {len(files) - FILES_SAID} more" if len(files) > FILES_SAID else ""
    named = f"{', '.join(files[:FILES_SAID])}{more}"
    what = item.get("command") or item["command_or_turn"]
    return f"taken back by {who(item['by'])}: " + (f"{what} ({named})" if what and named else str(what or named))


def who(by: str) -> str:
    """Name a person or an agent in a sentence."""
    return "a person" if by == PERSON else "an agent"
