"""The state in git of the files that a session touched: committed, modified, untracked; None where that is not known.

The content of these files is compared with git's own ids. No filter of the workspace runs for that, so a file whose
stored form differs by a filter of its own counts as modified.
"""

import hashlib
import os
import stat
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from shiftlog.journal.continuity.asking_git import ask_git
from shiftlog.model.limits import DRIFT_GIT_S

COMMITTED, MODIFIED, UNTRACKED = "committed", "modified", "untracked"
MOST_FILES = 200
MOST_BYTES = 8 << 20


async def with_git(capsule: Mapping[str, Any], workspace: str | None) -> dict[str, Any]:
    """Return a capsule whose files say how they stand in git."""
    files: list[dict[str, Any]] = capsule["files_touched"]
    states = await file_states(workspace, [item["path"] for item in files if "git" in item])
    told = [{**item, "git": states.get(item["path"])} if "git" in item else item for item in files]
    return {**capsule, "files_touched": told}


async def file_states(workspace: str | None, paths: Collection[str]) -> dict[str, str | None]:
    """Return how files stand in git; those outside of the workspace and beyond a limit are left out."""
    inside = [path for path in paths if _is_inside(path)][:MOST_FILES]
    if not workspace or not inside:
        return {}
    with anyio.move_on_after(DRIFT_GIT_S):
        tree, index = await ask_git(
            workspace, ("ls-tree", "-r", "-z", "HEAD", "--", *inside), ("ls-files", "-z", "--stage", "--", *inside)
        )
        if index is None:
            return {}
        in_head, in_index = _ids(tree or "", 2), _ids(index, 1)
        return await anyio.to_thread.run_sync(_judge, workspace, inside, in_head, in_index, abandon_on_cancel=True)
    return {}


def _is_inside(path: str) -> bool:
    return bool(path) and not path.startswith("/") and ".." not in path.split("/") and "\0" not in path


def _ids(listed: str, position: int) -> dict[str, str]:
    """Return the id of each file in a list of git, whose facts stand before a tab."""
    lines = (line.partition("\t") for line in listed.split("\0") if "\t" in line)
    return {name: facts.split(" ")[position] for facts, _, name in lines}


def _judge(
    workspace: str, paths: Collection[str], in_head: Mapping[str, str], in_index: Mapping[str, str]
) -> dict[str, str | None]:
    return {path: _state(Path(workspace, path), in_head.get(path), in_index.get(path)) for path in paths}


def _state(file: Path, in_head: str | None, in_index: str | None) -> str | None:
    try:
        kind = file.lstat()
    except (OSError, ValueError):
        return MODIFIED if in_head or in_index else None
    if in_index is None:
        return MODIFIED if in_head else UNTRACKED
    if in_head != in_index:
        return MODIFIED
    content = _content(file, kind)
    if content is None:
        return None
    return COMMITTED if in_index in _ids_of(content, len(in_index)) else MODIFIED


def _content(file: Path, kind: os.stat_result) -> bytes | None:
    """Return the content of a file as git stores it; None if it is not a plain file, or too large."""
    try:
        if stat.S_ISLNK(kind.st_mode):
            return os.fsencode(file.readlink())
        if not stat.S_ISREG(kind.st_mode) or kind.st_size > MOST_BYTES:
            return None
        # Another kind of file may have taken its place since; neither a link nor a pipe is followed.
        with os.fdopen(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as opened:
            return opened.read(MOST_BYTES + 1)
    except OSError:
        return None


def _ids_of(content: bytes, digits: int) -> set[str]:
    """Return the ids that git may give a content: as it is, and with the line ends of Unix."""
    new = hashlib.sha256 if digits == 64 else hashlib.sha1
    forms = {content, content.replace(b"\r\n", b"\n")}
    return {new(b"blob %d\0" % len(form) + form).hexdigest() for form in forms}
