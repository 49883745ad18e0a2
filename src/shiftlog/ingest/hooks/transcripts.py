"""The transcripts that a hook event names, and whether they may be read.

Any program of this user can write an event. So a path in it is followed only into the agents' own folders, or to a file
with the place and name of that session's transcript.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from shiftlog.ingest.capture import subagents_of
from shiftlog.ingest.files.opencode_db import MARK, file_of
from shiftlog.ingest.hooks.events import Spooled, name_of
from shiftlog.model.agents import CLAUDE, CODEX, CURSOR, OPENCODE

OPENCODE_DATABASE = "opencode.db"
_SUFFIXES = (".jsonl", ".zst", ".json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcripts:
    """The transcripts of an event's session and of its subagents, if known."""

    session: str | None
    subagent: str | None = None
    children: tuple[str, ...] = ()

    def to_read(self, event: str) -> list[str]:
        """Return the files and folders to import after an event."""
        if event == "SubagentStop":
            subagents = [self.subagent] if self.subagent else list(self.children)
            return [path for path in (*subagents, self.session) if path]
        return [path for path in (self.session, *self.children) if path]


def transcripts_of(spooled: Spooled, roots: Iterable[Path]) -> Transcripts:
    """Return the transcripts of an event that may be read."""
    event = spooled.event
    folders = [folder.expanduser().resolve() for folder in roots]
    vendor = str(event.get("session_id") or "")
    if spooled.agent == OPENCODE:
        subagent = str(event.get("agent_id") or "")
        return Transcripts(session=_rows_of(vendor, folders), subagent=_rows_of(subagent, folders))
    session = _allowed(event.get("transcript_path"), vendor, spooled.agent, folders)
    if session is None and spooled.agent == CODEX and vendor:
        session = _rollout_of(vendor, folders)
    subagent = _allowed(event.get("agent_transcript_path"), vendor, spooled.agent, folders)
    children = _children(session, vendor, spooled.agent)
    if spooled.agent == CODEX and subagent is None and name_of(event) == "SubagentStop":
        children = tuple(str(child["path"]) for folder in folders for child in subagents_of(vendor, folder))
    return Transcripts(session=session, subagent=subagent, children=children)


def present(paths: Iterable[str]) -> list[str]:
    """Return the transcripts that exist; a session in a database exists if the database does."""
    return [path for path in paths if Path(file_of(path)).exists()]


def _allowed(given: object, vendor: str, agent: str, folders: Sequence[Path]) -> str | None:
    if not isinstance(given, str) or not given or "\0" in given:
        return None
    try:
        path = Path(given).expanduser().resolve()
        if path.suffix not in _SUFFIXES or not path.is_file():
            return None
    except (OSError, RuntimeError):
        return None
    if any(path.is_relative_to(folder) for folder in folders) or _is_in_place(path, vendor, agent):
        return str(path)
    return None


def _is_in_place(path: Path, vendor: str, agent: str) -> bool:
    """Return True if a file has the place and name of this session's transcript, below any home."""
    if not re.fullmatch(r"[0-9A-Za-z-]{8,64}", vendor):
        return False
    if agent == CLAUDE:
        own = path.name == f"{vendor}.jsonl" or vendor in path.parts or path.name.startswith("agent-")
        return own and "projects" in path.parts[:-1]
    if agent == CURSOR:
        return path.name == f"{vendor}.jsonl" and "agent-transcripts" in path.parts[:-1]
    return agent == CODEX and vendor in path.name and path.name.startswith("rollout-") and "sessions" in path.parts[:-1]


def _children(session: str | None, vendor: str, agent: str) -> tuple[str, ...]:
    """Return the files of a session's subagents, for a vendor that keeps them beside it."""
    if session is None or agent != CLAUDE or vendor in ("", ".", "..") or "/" in vendor or "\0" in vendor:
        return ()
    folder = Path(session).parent / vendor / "subagents"
    try:
        return (str(folder),) if folder.is_dir() and not folder.is_symlink() else ()
    except OSError:  # a name that is too long
        return ()


def _rows_of(session: str, folders: Iterable[Path]) -> str | None:
    """Return the rows of a session in OpenCode's database, as a source of their own."""
    if not re.fullmatch(r"[0-9A-Za-z_-]{8,64}", session):
        return None
    databases = [folder / OPENCODE_DATABASE for folder in folders if folder.name == "opencode"]
    return next((f"{path}{MARK}{session}" for path in databases if path.is_file()), None)


def _rollout_of(thread: str, folders: Iterable[Path]) -> str | None:
    """Return the newest rollout of a thread by its name; Codex events may lack the path."""
    if not re.fullmatch(r"[0-9A-Za-z-]{8,64}", thread):
        return None
    found = [
        path
        for folder in folders
        if folder.is_dir()
        for path in (*folder.rglob(f"rollout-*{thread}*.jsonl"), *folder.rglob(f"rollout-*{thread}*.jsonl.zst"))
    ]
    return str(max(found, key=_modified, default=None)) if found else None


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
