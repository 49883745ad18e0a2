"""Changed files as the journal knows them: how often each changed, and the work that changed one of them.

Two sources are joined here: what turns record of their files, and what checkpoints show of commands outside of turns.
The differences that only the checkpoints themselves hold are read by `control/files.py`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from shiftlog.journal.seen_files import SeenFiles, named_in, read_seen
from shiftlog.journal.texts import CHECKPOINT
from shiftlog.model.entry import Entry, Kind
from shiftlog.model.nouns import Session, Turn
from shiftlog.model.times import shown, shown_or_none
from shiftlog.store.protocol import FileRow, Filter, Page, Reader

FILES_READ = 4_000
# Checkpoints of commands outside of turns, and the entries before each among which its command is looked for.
CHECKPOINTS_READ = 1_000
COMMAND_WITHIN = 500
_ABOUT_FILES = (Kind.ACTION, Kind.TURN_UPDATED, Kind.IMPORT_NOTED, Kind.COMMAND_STARTED)

Item = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class WorkOnFile:
    """One piece of work that changed a file: a turn, or a command outside of turns.

    `shown` is what answers show of it, with the differences that the journal itself has. `seen` are the entries whose
    checkpoints hold more; `around` are the checkpoints before and after the whole turn. `commands` are by their ids.
    """

    shown: Item
    path: str
    folder: str | None
    seen: list[tuple[Entry, SeenFiles]]
    commands: Mapping[str, Entry]
    around: tuple[Entry, Entry | None] | None = None


def changed_files(reader: Reader, where: Filter) -> list[Item]:
    """Return the changed files, the one changed most often first."""
    found: dict[str, Item] = {}
    for row in reader.find_files(where, Page(limit=FILES_READ)):
        at = shown_or_none(row.touched)
        item = found.setdefault(row.path, {"path": row.path, "changes": 0, "turns": 0, "commands": 0, "at": at})
        item["changes"] += row.touch.changes
        item["turns"] += 1
    for _, entry, seen in seen_outside(reader, where):
        for path in seen.files:
            at = shown(entry.at)
            item = found.setdefault(path, {"path": path, "changes": 0, "turns": 0, "commands": 0, "at": at})
            item["changes"] += 1
            item["commands"] += 1
            item["at"] = max(item["at"] or at, at)
    return sorted(found.values(), key=lambda item: (-item["changes"], item["path"]))


def work_on_file(reader: Reader, where: Filter, path: str, most_turns: int) -> list[WorkOnFile]:
    """Return the work that changed a file, newest first.

    The file is named as its sessions name it, or by its whole path.
    """
    # Brackets and stars of the name itself stand for themselves.
    pattern = "".join(f"[{char}]" if char in "*?[" else char for char in path)
    rows = reader.find_files(replace(where, path=pattern), Page(limit=most_turns))
    found = [work for row in rows if (work := _work_of_turn(reader, row, path))]
    found += _work_outside(reader, where, path)
    return sorted(found, key=lambda work: str(work.shown["at"]), reverse=True)


def seen_outside(reader: Reader, where: Filter) -> Iterator[tuple[Session, Entry, SeenFiles]]:
    """Yield the files that checkpoints show as changed by commands outside of turns, newest first."""
    sessions: dict[str, Session | None] = {}
    for row in reader.find_entries(where, Page(limit=CHECKPOINTS_READ), [CHECKPOINT]):
        seen = read_seen(row.entry)
        if seen is None:
            continue
        session = sessions.setdefault(row.session_id, reader.session(row.session_id))
        if session is not None:
            yield session, row.entry, named_in(session, seen)


def checkpoints_around(reader: Reader, session: Session, turn: Turn) -> tuple[Entry, Entry | None] | None:
    """Return the checkpoints of this machine before and after a turn's work; None for the second means now."""
    if not session.workspace:
        return None
    saved = reader.entries(session.id, until=session.head_seq, kinds=(Kind.CHECKPOINT_SAVED,))
    usable = [entry for entry in saved if entry.body is not None and not entry.facts.get("target")]
    before = next((entry for entry in usable if turn.begun_seq <= entry.seq <= turn.last_seq), None)
    before = before or next((entry for entry in reversed(usable) if entry.seq < turn.begun_seq), None)
    if before is None:
        return None
    workspace = before.facts.get("workspace")
    later = (entry for entry in usable if entry.seq > turn.last_seq and entry.facts.get("workspace") == workspace)
    return before, next(later, None)


def _work_of_turn(reader: Reader, row: FileRow, asked: str) -> WorkOnFile | None:
    """Return the work of a turn on a file; None if the row is of another file."""
    session, turn, path = reader.session(row.session_id), reader.turn(row.session_id, row.request_id), row.path
    if session is None or turn is None or not _is_asked(session, path, asked):
        return None
    until = max(turn.last_seq, *(note.seq for note in turn.amendments), 0)
    entries = reader.entries(session.id, after=turn.begun_seq, until=until, turn=turn.request_id, kinds=_ABOUT_FILES)
    actions = [entry for entry in entries if entry.kind is Kind.ACTION and _names(entry, path)]
    all_seen = [(entry, seen) for entry in entries if (seen := read_seen(entry)) and path in seen.files]
    commands = _commands(entries, (seen for _, seen in all_seen))
    item = {
        **_about_session(session),
        "request_id": turn.request_id,
        "ordinal": turn.ordinal,
        "asked": turn.query_title,
        "why": _reason(turn),
        "at": shown(turn.finished_at or turn.last_updated),
        "seq": min([entry.seq for entry in (*actions, *commands.values())] or [turn.begun_seq]),
        "diffs": [
            {"seq": entry.seq, "diff": entry.facts["diff"], "command_id": None, "command": None}
            for entry in actions
            if entry.facts.get("diff")
        ],
        "said": [str(entry.facts.get("description") or "") for entry in actions if not entry.facts.get("diff")],
    }
    return WorkOnFile(
        shown=item,
        path=path,
        folder=session.workspace,
        seen=[(entry, seen) for entry, seen in all_seen if seen.since],
        commands=commands,
        around=checkpoints_around(reader, session, turn),
    )


def _work_outside(reader: Reader, where: Filter, asked: str) -> Iterator[WorkOnFile]:
    for session, entry, seen in seen_outside(reader, where):
        path = next((path for path in seen.files if _is_asked(session, path, asked)), None)
        if path is None:
            continue
        started = reader.entries(
            session.id, after=max(0, entry.seq - COMMAND_WITHIN), until=entry.seq, kinds=(Kind.COMMAND_STARTED,)
        )
        commands = _commands(started, [seen])
        first = commands.get(seen.command_id or "", entry)
        item: Item = {
            **_about_session(session),
            "request_id": None,
            "ordinal": None,
            "asked": str(first.facts.get("command") or session.title),
            "why": "",
            "at": shown(first.at),
            "seq": first.seq,
            "diffs": [],
            "said": [],
        }
        folder = session.workspace or seen.workspace
        yield WorkOnFile(shown=item, path=path, folder=folder, seen=[(entry, seen)], commands=commands)


def _about_session(session: Session) -> Item:
    return {"session_id": session.id, "session_title": session.title, "agent_id": session.agent_id}


def _commands(entries: Iterable[Entry], all_seen: Iterable[SeenFiles]) -> dict[str, Entry]:
    """Return the starts of the commands that changed a file, by their ids."""
    wanted = {seen.command_id for seen in all_seen if seen.command_id}
    started = {str(entry.facts.get("command_id")): entry for entry in entries if entry.kind is Kind.COMMAND_STARTED}
    return {name: entry for name, entry in started.items() if name in wanted}


def _is_asked(session: Session, path: str, asked: str) -> bool:
    """Return True if a file of a session is the one asked for: as the session names it, or by its whole path."""
    return asked in (path, f"{session.workspace}/{path}")


def _names(action: Entry, path: str) -> bool:
    """Return True if an action names a file, by its whole path or from the workspace."""
    named = action.facts.get("file_path")
    return isinstance(named, str) and (named == path or named.endswith(f"/{path}"))


def _reason(turn: Turn) -> str:
    return "; ".join(turn.design_decisions) or turn.interpretation or turn.response
