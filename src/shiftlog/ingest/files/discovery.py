"""Finding transcripts: the folders where agents keep them, and the hints in a file's name and folder.

Names only order and hint; the content decides whose transcript a file is. Nothing here opens a transcript.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import msgspec

from shiftlog.facts.transcript import Hints
from shiftlog.model.agents import AGENTS
from shiftlog.model.errors import TranscriptNotFound

SUFFIXES = (".jsonl", ".jsonl.zst", ".json", ".db")
JOURNAL = "journal.jsonl"
# Indexes and logs among the transcripts.
NOT_SESSIONS = frozenset({"history.jsonl", "session_index.jsonl", "sessions-index.json", JOURNAL})
SIDECAR = ".meta.json"
MAX_SIDECAR_BYTES = 1 << 20

_ROLLOUT = re.compile(r"rollout-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-([0-9A-Za-z-]+)(?:_[0-9A-Za-z-]+)?")
_AGENT_FILE = re.compile(r"agent-(.+)")

# Why a link is not read that leads out of the folders that are looked through.
OUTSIDE = "outside"


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """A folder where an agent keeps transcripts, and the patterns of their names."""

    agent: str
    folder: Path
    patterns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A file that may be a transcript, with its status; `skip` says why it is not read."""

    path: str
    device: int
    inode: int
    size: int
    mtime_ns: int
    skip: str | None = None
    error: str | None = None

    @classmethod
    def of(cls, path: str, status: os.stat_result, skip: str | None = None) -> "FoundFile":
        """Return a file by its status."""
        return cls(
            path=path,
            device=status.st_dev,
            inode=status.st_ino,
            size=status.st_size,
            mtime_ns=status.st_mtime_ns,
            skip=skip,
        )


def expanded(path: str | Path) -> Path:
    """Expand `~` in a path; the home of an unknown user stays as it is."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - the other way raises for an unknown user


def default_roots(environ: Mapping[str, str], home: Path) -> list[Root]:
    """Return the folders where the known agents keep their transcripts on this machine."""
    return [
        Root(agent=agent.kind, folder=expanded(own / folder), patterns=patterns)
        for agent in AGENTS.values()
        for own in agent.homes(environ, home)
        for folder, patterns in agent.transcripts.items()
    ]


def discover(roots: Iterable[Root]) -> list[FoundFile]:
    """List the transcripts under the known folders; missing folders are ignored, and so are links that lead out."""
    known = list(roots)
    return _unique((path for root in known for path in _under_root(root)), [root.folder for root in known])


def _under_root(root: Root) -> Iterator[str]:
    if not os.path.isdir(root.folder):  # noqa: PTH112 - does not raise for a name that is too long
        return
    seen: set[str] = set()
    for pattern in root.patterns:
        for path in _glob(str(root.folder), pattern.split("/")):
            if path not in seen and path.rpartition(os.sep)[2] not in NOT_SESSIONS:
                seen.add(path)
                yield path


def _glob(folder: str, parts: Sequence[str]) -> Iterator[str]:
    """Yield the files that match a pattern; links to folders are not followed."""
    part, rest = parts[0], parts[1:]
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError:
        return
    fits = re.compile(re.escape(part).replace(r"\*", ".*")).fullmatch
    for entry in entries:
        is_folder = entry.is_dir(follow_symlinks=False)
        if part == "**":
            if is_folder:
                yield from _glob(entry.path, parts)
        elif rest and is_folder and fits(entry.name):
            yield from _glob(entry.path, rest)
        elif not rest and not is_folder and fits(entry.name):
            yield entry.path
    if part == "**" and rest:
        yield from _glob(folder, rest)


def find_under(paths: Iterable[str | Path], *, recursive: bool = True) -> list[FoundFile]:
    """List possible transcripts at or under the given paths; raise TranscriptNotFound for a missing path."""
    named = [expanded(given) for given in paths]
    # A file that is named itself may be a link to anywhere; one that lies in a folder may not lead out of the folders.
    within = [path if path.is_dir() else path.resolve().parent for path in named if exists(path)]
    return _unique((path for given in named for path in _at(given, recursive=recursive)), within)


def _at(path: Path, *, recursive: bool) -> Iterator[str]:
    if not exists(path):
        raise TranscriptNotFound(f"Transcript not found: {path}", details={"searched": [str(path)]})
    if not path.is_dir():
        yield str(path)
        return
    for folder, folders, names in os.walk(path):
        folders.sort()
        if not recursive:
            folders.clear()
        for name in sorted(names):
            if name.endswith(SUFFIXES) and not name.endswith(SIDECAR) and name not in NOT_SESSIONS:
                yield f"{folder}{os.sep}{name}"


def exists(path: Path) -> bool:
    """Return True if the path exists."""
    try:
        return path.exists()
    except OSError:  # the name is too long
        return False


def _unique(paths: Iterable[str], within: Iterable[Path]) -> list[FoundFile]:
    """Return each file once, however many links lead to it; a compressed copy of a plain file is a duplicate."""
    folders = list(within)
    found: list[FoundFile] = []
    targets: set[tuple[int, int]] = set()
    given = list(dict.fromkeys(str(Path(path).absolute()) for path in paths))
    plain = {path for path in given if not path.endswith(".zst")}
    for path in given:
        try:
            path.encode()
            status = Path(path).stat()
        except UnicodeEncodeError:
            shown = os.fsencode(path).decode("utf-8", "backslashreplace")
            found.append(_unreadable(shown, "its name is not valid UTF-8"))
            continue
        except OSError as error:
            found.append(_unreadable(path, error.strerror or str(error)))
            continue
        if not stat.S_ISREG(status.st_mode):
            continue
        target = (status.st_dev, status.st_ino)
        skip = None
        if target in targets or (path.endswith(".zst") and path[:-4] in plain):
            skip = "duplicate"
        elif not status.st_size:
            skip = "empty"
        elif os.path.islink(path) and _leads_out(path, folders):  # noqa: PTH114 - quick
            skip = OUTSIDE
        targets.add(target)
        found.append(FoundFile.of(path, status, skip))
    return found


def _leads_out(link: str, folders: Iterable[Path]) -> bool:
    """Return True if a link leads to a file that is below none of the folders."""
    target = os.path.realpath(link)
    return not any(target.startswith(os.path.realpath(folder) + os.sep) for folder in folders if folder.is_dir())


def _unreadable(path: str, error: str) -> FoundFile:
    return FoundFile(path=path, device=0, inode=0, size=0, mtime_ns=0, skip="unreadable", error=error)


def hints_of(path: str, *, keep_images: bool = False, first_at: str | None = None, seen_at: str | None = None) -> Hints:
    """Return the hints in a file's name, folder and sidecar; `first_at` is the first time in it, if known."""
    given = Path(path)
    stem = given.name.removesuffix(".zst").removesuffix(".jsonl").removesuffix(".json")
    session_id: str | None = stem
    if rollout := _ROLLOUT.fullmatch(stem):
        session_id = rollout[1]
    elif stem == "events":
        session_id = given.parent.name
    agent_id = found[1] if (found := _AGENT_FILE.fullmatch(stem)) else None
    folders = given.parts[:-1]
    parent_id = run_id = None
    if "subagents" in folders:
        at = len(folders) - 1 - folders[::-1].index("subagents")
        parent_id = folders[at - 1] if at else None
        deeper = folders[at + 1 :]
        run_id = deeper[1] if len(deeper) > 1 and deeper[0] == "workflows" else None
        if given.name == JOURNAL:
            session_id = parent_id  # a workflow's records name no session
    elif given.parent.parent.name == "chats":
        parent_id = given.parent.name
    return Hints(
        session_id=None if agent_id else session_id,
        agent_id=agent_id,
        parent_id=parent_id,
        run_id=run_id,
        sidecar=_sidecar(given, stem) if agent_id else None,
        first_at=first_at,
        seen_at=seen_at,
        keep_images=keep_images,
    )


def _sidecar(path: Path, stem: str) -> dict[str, Any] | None:
    beside = path.with_name(stem + SIDECAR)
    try:
        if beside.is_symlink() or beside.stat().st_size > MAX_SIDECAR_BYTES:
            return None
        read: Any = msgspec.json.decode(beside.read_bytes())
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return cast(dict[str, Any], read) if isinstance(read, dict) else None
