"""Files beside transcripts that tell of their sessions but are none: Codex's index of titles, journals of workflows.

They are read after the transcripts, whole, when they have changed or new sessions came that they may speak of.
"""

import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from shiftlog.ingest.files.discovery import JOURNAL, FoundFile
from shiftlog.ingest.importing.report import ImportReport
from shiftlog.model.agents import CLAUDE, CODEX
from shiftlog.store.sources import Source

INDEX = "session_index.jsonl"

_ROLLOUTS = ("sessions", "archived_sessions")
_WORKFLOWS = f"{os.sep}subagents{os.sep}workflows{os.sep}"


def side_files(found: Iterable[FoundFile], may_read: Callable[[str], bool]) -> list[FoundFile]:
    """List the files beside some transcripts, as they stand."""
    beside = dict.fromkeys(path for file in found if (path := _beside(file.path)) is not None)
    made: list[FoundFile] = []
    for path in beside:
        try:
            status = Path(path).lstat()
        except OSError:
            continue
        if status.st_size and stat.S_ISREG(status.st_mode) and may_read(path):
            made.append(FoundFile.of(path, status))
    return made


def _beside(path: str) -> str | None:
    """Return the path that a side file of a transcript has, if its kind has any."""
    if _WORKFLOWS in path:
        return str(Path(path).with_name(JOURNAL))
    if "rollout-" not in path:
        return None
    folder = next((above for above in Path(path).parents if above.name in _ROLLOUTS), None)
    return None if folder is None else str(folder.with_name(INDEX))


def to_read(files: Iterable[FoundFile], known: Iterable[Source], report: ImportReport) -> list[FoundFile]:
    """Return those that changed since they were read, and those that may speak of sessions that are new."""
    read = {source.path: source for source in known}
    new = {file.agent for file in report.files if file.new}
    chosen: list[FoundFile] = []
    for file in files:
        source = read.get(file.path)
        agent = CODEX if file.path.endswith(INDEX) else CLAUDE
        if source is None or (source.size, source.mtime_ns) != (file.size, file.mtime_ns) or agent in new:
            chosen.append(file)
    return chosen
