"""Questions about files: which ones changed most, and all the work that changed one of them, with its differences.

Differences that an agent's own tools reported are in the journal. What a command changed is read from the
checkpoints around it.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shiftlog.app.app import App
from shiftlog.control.questions import Params, Question
from shiftlog.journal.history.requests import filter_of
from shiftlog.journal.seen import Sight, known_in, read_seen
from shiftlog.journal.texts import CHECKPOINT
from shiftlog.model.caller import Caller
from shiftlog.model.entry import Entry, Kind
from shiftlog.model.errors import ShiftlogError
from shiftlog.model.nouns import Session, Turn
from shiftlog.model.times import shown, shown_or_none
from shiftlog.store.protocol import FileRow, Filter, Page, Reader

TOUCHES_SHOWN = 60
COMPARED_MOST = 20
COMPARED_FOR_A_LINE = 80
FILES_READ = 4_000
FILES_SHOWN = 200
# Checkpoints of commands outside of turns, and the entries before one among which its command is looked for.
CHECKPOINTS_READ = 1_000
COMMAND_WITHIN = 500
_TELLING = (Kind.ACTION, Kind.TURN_UPDATED, Kind.IMPORT_NOTED, Kind.COMMAND_STARTED)

Item = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class _Touch:
    """One piece of work that changed a file: what is shown of it, and what its checkpoints still have to tell."""

    shown: Item
    path: str
    folder: str | None
    sights: list[tuple[Entry, Sight]]
    commands: Mapping[str, Entry]
    around: tuple[Entry, Entry | None] | None = None


async def file_history(app: App, where: Filter, path: str, line: str = "") -> Item:
    """Return the work that changed a file, newest first, with its differences; `line` keeps what wrote a text.

    The file is named as its sessions know it, or by its whole path.
    """

    def work(reader: Reader) -> list[_Touch]:
        # Brackets and stars of the name itself stand for themselves.
        pattern = "".join(f"[{char}]" if char in "*?[" else char for char in path)
        rows = reader.find_files(replace(where, path=pattern), Page(limit=TOUCHES_SHOWN * 4))
        found = [touch for row in rows if (touch := _touch_of_turn(reader, row, path))]
        found += _touches_outside(reader, where, path)
        return sorted(found, key=lambda touch: str(touch.shown["at"]), reverse=True)

    touches = await app.store.read(work)
    room = 0 if app.is_for_team else COMPARED_FOR_A_LINE if line else COMPARED_MOST
    left_out = 0
    for touch in touches:
        sights = _to_compare(touch, line)
        if len(sights) > room:
            left_out += 1
            continue
        room -= len(sights)
        touch.shown["diffs"] += await _compared(app, touch, sights)
    if line:
        for touch in touches:
            touch.shown["diffs"] = [one for one in touch.shown["diffs"] if _wrote([one], line)]
    found = [touch.shown for touch in touches if not line or touch.shown["diffs"]]
    return {
        "path": path,
        "project": where.project or "",
        "line": line,
        "touches": found[:TOUCHES_SHOWN],
        "total": len(found),
        "not_compared": left_out,
    }


def _to_compare(touch: _Touch, line: str) -> list[tuple[Entry, Sight]]:
    """Return the checkpoints that still have to tell what was written; for a line those only where it is not told."""
    diffs = touch.shown["diffs"]
    if line and _wrote(diffs, line):
        return []
    if touch.sights or touch.around is None or (diffs and not line):
        return touch.sights
    before, after = touch.around
    until = str(after.facts.get("id")) if after else None
    return [(before, Sight(files={}, since=str(before.facts.get("id")), until=until, workspace=_place(before)))]


async def _compared(app: App, touch: _Touch, sights: Iterable[tuple[Entry, Sight]]) -> list[Item]:
    """Return what checkpoints say of a file; nothing if they are gone."""
    found: list[Item] = []
    for entry, sight in sights:
        diff = await _patch(app, touch, sight)
        if diff:
            started = touch.commands.get(sight.command_id or "")
            command = str(started.facts.get("command") or "") if started else None
            seq = started.seq if started else entry.seq
            found.append({"seq": seq, "diff": diff, "command_id": sight.command_id, "command": command})
    return found


async def _patch(app: App, touch: _Touch, sight: Sight) -> str:
    if not sight.workspace or not sight.since:
        return ""
    file = os.path.relpath(Path(touch.folder or sight.workspace) / touch.path, sight.workspace)
    try:
        if sight.until:
            return await app.workspaces.file_patch(sight.workspace, file, sight.since, sight.until)
        asked = {"workspace": sight.workspace, "checkpoint_id": sight.since, "format": "patch", "paths": [file]}
        return str((await app.workspaces.diff_checkpoint(asked, Caller(operator=True)))["patch"] or "")
    except ShiftlogError:
        return ""


def _touch_of_turn(reader: Reader, row: FileRow, asked: str) -> _Touch | None:
    """Return what a turn did to a file, and what it was asked; None if another file was asked for."""
    session, turn, path = reader.session(row.session_id), reader.turn(row.session_id, row.request_id), row.path
    if session is None or turn is None or not _is_asked(session, path, asked):
        return None
    until = max(turn.last_seq, *(note.seq for note in turn.amendments), 0)
    entries = reader.entries(session.id, after=turn.begun_seq, until=until, turn=turn.request_id, kinds=_TELLING)
    actions = [entry for entry in entries if entry.kind is Kind.ACTION and _is_of(entry.facts.get("file_path"), path)]
    sights = [(entry, sight) for entry in entries if (sight := read_seen(entry)) and path in sight.files]
    commands = _commands(entries, sights)
    told = [
        {"seq": entry.seq, "diff": entry.facts["diff"], "command_id": None, "command": None}
        for entry in actions
        if entry.facts.get("diff")
    ]
    item = {
        **_of_session(session),
        "request_id": turn.request_id,
        "ordinal": turn.ordinal,
        "asked": turn.query_title,
        "why": _reason(turn),
        "at": shown(turn.finished_at or turn.last_updated),
        "seq": min([entry.seq for entry in (*actions, *commands.values())] or [turn.begun_seq]),
        "diffs": told,
        "said": [str(entry.facts.get("description") or "") for entry in actions if not entry.facts.get("diff")],
    }
    return _Touch(
        shown=item,
        path=path,
        folder=session.workspace,
        sights=[pair for pair in sights if pair[1].since],
        commands=commands,
        around=checkpoints_around(reader, session, turn),
    )


def seen_outside(reader: Reader, where: Filter) -> Iterator[tuple[Session, Entry, Sight]]:
    """Yield what checkpoints show of commands that ran outside of turns, newest first."""
    sessions: dict[str, Session | None] = {}
    for row in reader.find_entries(where, Page(limit=CHECKPOINTS_READ), [CHECKPOINT]):
        sight = read_seen(row.entry)
        if sight is None:
            continue
        session = sessions.setdefault(row.session_id, reader.session(row.session_id))
        if session is not None:
            yield session, row.entry, known_in(session, sight)


def _touches_outside(reader: Reader, where: Filter, asked: str) -> Iterator[_Touch]:
    for session, entry, sight in seen_outside(reader, where):
        path = next((path for path in sight.files if _is_asked(session, path, asked)), None)
        if path is None:
            continue
        started = reader.entries(
            session.id, after=max(0, entry.seq - COMMAND_WITHIN), until=entry.seq, kinds=(Kind.COMMAND_STARTED,)
        )
        commands = _commands(started, [(entry, sight)])
        first = commands.get(sight.command_id or "", entry)
        item: Item = {
            **_of_session(session),
            "request_id": None,
            "ordinal": None,
            "asked": str(first.facts.get("command") or session.title),
            "why": "",
            "at": shown(first.at),
            "seq": first.seq,
            "diffs": [],
            "said": [],
        }
        folder = session.workspace or sight.workspace
        yield _Touch(shown=item, path=path, folder=folder, sights=[(entry, sight)], commands=commands)


def _of_session(session: Session) -> Item:
    return {"session_id": session.id, "session_title": session.title, "agent_id": session.agent_id}


def _commands(entries: Iterable[Entry], sights: Iterable[tuple[Entry, Sight]]) -> dict[str, Entry]:
    """Return the starts of the commands that changed a file, by their ids."""
    wanted = {sight.command_id for _, sight in sights if sight.command_id}
    started = {str(entry.facts.get("command_id")): entry for entry in entries if entry.kind is Kind.COMMAND_STARTED}
    return {name: entry for name, entry in started.items() if name in wanted}


def _is_asked(session: Session, path: str, asked: str) -> bool:
    """Return True if a file of a session is the one asked for: as the session names it, or by its whole path."""
    return asked in (path, f"{session.workspace}/{path}")


def _is_of(named: object, path: str) -> bool:
    """Return True if an action names a file, whole or below the workspace."""
    return isinstance(named, str) and (named == path or named.endswith(f"/{path}"))


def _reason(turn: Turn) -> str:
    return "; ".join(turn.design_decisions) or turn.interpretation or turn.response


def _wrote(diffs: Iterable[Item], text: str) -> bool:
    return any(line.startswith("+") and text in line for one in diffs for line in str(one["diff"]).split("\n"))


def _place(saved: Entry) -> str:
    return str(saved.facts.get("workspace"))


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
    place = _place(before)
    later = (entry for entry in usable if entry.seq > turn.last_seq and entry.facts.get("workspace") == place)
    return before, next(later, None)


def changed_files(reader: Reader, where: Filter) -> list[Item]:
    """Return files by how often they changed."""
    found: dict[str, Item] = {}
    for row in reader.find_files(where, Page(limit=FILES_READ)):
        at = shown_or_none(row.touched)
        item = found.setdefault(row.path, {"path": row.path, "changes": 0, "turns": 0, "commands": 0, "at": at})
        item["changes"] += row.touch.changes
        item["turns"] += 1
    for _, entry, sight in seen_outside(reader, where):
        for path in sight.files:
            at = shown(entry.at)
            item = found.setdefault(path, {"path": path, "changes": 0, "turns": 0, "commands": 0, "at": at})
            item["changes"] += 1
            item["commands"] += 1
            item["at"] = max(item["at"] or at, at)
    return sorted(found.values(), key=lambda item: (-item["changes"], item["path"]))


async def _files(app: App, params: Params, caller: Caller) -> object:
    """List changed files; of one, or of a line in it, all the work that changed it."""

    def asked(reader: Reader) -> Filter:
        return filter_of(reader, {**params, "path": None}, app.clock.now())

    where = await app.store.read(asked)
    path, limit = params.get("path"), int(params.get("limit", FILES_SHOWN))
    if not path:
        found = await app.store.read(lambda reader: changed_files(reader, where))
        return {"files": found[:limit], "total": len(found)}
    line = str(params.get("line", ""))
    whole = os.path.normpath(Path(str(params.get("cwd", "/"))) / str(path))
    history = await file_history(app, where, whole, line)
    if not history["touches"]:
        history = await file_history(app, where, str(path), line)
    return {**history, "touches": history["touches"][:limit]}


QUESTIONS: dict[str, Question] = {"files": _files}
