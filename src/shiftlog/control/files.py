"""Questions about files: which ones changed most, and all the work that changed one of them, with its differences.

`journal/history/changed_files.py` finds the work. Differences that an agent's own tools reported come with it; those of
commands are read here, from the checkpoints around them.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from shiftlog.app.app import App
from shiftlog.control.questions import Params, Question
from shiftlog.journal.history.changed_files import WorkOnFile, changed_files, work_on_file
from shiftlog.journal.history.requests import filter_of
from shiftlog.journal.seen_files import SeenFiles
from shiftlog.model.caller import Caller
from shiftlog.model.entry import Entry
from shiftlog.model.errors import ShiftlogError
from shiftlog.store.protocol import Filter, Reader

TOUCHES_SHOWN = 60
# How many times checkpoints are compared for one answer; more often for a line, because few of the changes wrote it.
COMPARED_MOST = 20
COMPARED_FOR_A_LINE = 80
FILES_SHOWN = 200

Item = dict[str, Any]


async def file_history(app: App, where: Filter, path: str, line: str = "") -> Item:
    """Return the work that changed a file, newest first, with its differences; `line` keeps what wrote a text.

    The file is named as its sessions name it, or by its whole path.
    """
    touches = await app.store.read(lambda reader: work_on_file(reader, where, path, TOUCHES_SHOWN * 4))
    room = 0 if app.is_for_team else COMPARED_FOR_A_LINE if line else COMPARED_MOST
    left_out = 0
    for work in touches:
        pairs = _to_compare(work, line)
        if len(pairs) > room:
            left_out += 1
            continue
        room -= len(pairs)
        work.shown["diffs"] += await _compared(app, work, pairs)
    if line:
        for work in touches:
            work.shown["diffs"] = [one for one in work.shown["diffs"] if _wrote([one], line)]
    found = [work.shown for work in touches if not line or work.shown["diffs"]]
    return {
        "path": path,
        "project": where.project or "",
        "line": line,
        "touches": found[:TOUCHES_SHOWN],
        "total": len(found),
        "not_compared": left_out,
    }


def _to_compare(work: WorkOnFile, line: str) -> list[tuple[Entry, SeenFiles]]:
    """Return the checkpoints to compare; for a line none if the differences that are known already show it."""
    diffs = work.shown["diffs"]
    if line and _wrote(diffs, line):
        return []
    if work.seen or work.around is None or (diffs and not line):
        return work.seen
    before, after = work.around
    since, until = str(before.facts.get("id")), str(after.facts.get("id")) if after else None
    return [(before, SeenFiles(files={}, since=since, until=until, workspace=str(before.facts.get("workspace"))))]


async def _compared(app: App, work: WorkOnFile, pairs: Iterable[tuple[Entry, SeenFiles]]) -> list[Item]:
    """Return the differences between checkpoints in a file; none of those that are gone."""
    found: list[Item] = []
    for entry, seen in pairs:
        diff = await _patch(app, work, seen)
        if diff:
            started = work.commands.get(seen.command_id or "")
            command = str(started.facts.get("command") or "") if started else None
            seq = started.seq if started else entry.seq
            found.append({"seq": seq, "diff": diff, "command_id": seen.command_id, "command": command})
    return found


async def _patch(app: App, work: WorkOnFile, seen: SeenFiles) -> str:
    if not seen.workspace or not seen.since:
        return ""
    file = os.path.relpath(Path(work.folder or seen.workspace) / work.path, seen.workspace)
    try:
        if seen.until:
            return await app.workspaces.file_patch(seen.workspace, file, seen.since, seen.until)
        asked = {"workspace": seen.workspace, "checkpoint_id": seen.since, "format": "patch", "paths": [file]}
        return str((await app.workspaces.diff_checkpoint(asked, Caller(operator=True)))["patch"] or "")
    except ShiftlogError:
        return ""


def _wrote(diffs: Iterable[Item], text: str) -> bool:
    return any(line.startswith("+") and text in line for one in diffs for line in str(one["diff"]).split("\n"))


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
