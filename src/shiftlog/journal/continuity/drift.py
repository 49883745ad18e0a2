"""Drift: what changed in a workspace since a session was left, from file times and git.

Nothing of the workspace is executed: no hooks, filters or monitors of its configuration, and no content is read. Files
are judged by their times. A value that cannot be read in time is None.
"""

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from shiftlog.journal.continuity.asking_git import ask_git
from shiftlog.model.limits import DRIFT_GIT_S
from shiftlog.model.times import shown

MOST_FILES = 100
LOOKED_AT = 50_000
# Folders without git that are not walked through, beside hidden ones: made by tools, and large.
_MADE = frozenset({"node_modules", "__pycache__"})
# Git takes a commit from the disk for each of them, and mostly the first few reach back far enough.
REFLOG_LINES = (20, 500)
# An agent's own last edits may be as young as the entry that records them, which is shown in whole seconds.
GRACE_S = 1.0

_MOVING = "checkout: moving from "
_RENAMING = "Branch: renamed refs/heads/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """The traces of a session: where its agent worked until when, the files it touched, its shells, what was undone."""

    workspace: str | None
    since: datetime
    touched: Sequence[str] = ()
    shells: Sequence[str] = ()
    taken_back: Sequence[dict[str, Any]] = ()


async def look(left: Left, live_shells: Collection[str] = ()) -> dict[str, Any] | None:
    """Return what changed since a session was left; None where its workspace cannot be seen."""
    if not left.workspace or not _is_folder(left.workspace):
        return None
    since = left.since.timestamp() + GRACE_S
    with anyio.move_on_after(DRIFT_GIT_S):
        repository = await _Repository.read(left.workspace, since)
        touched = frozenset(left.touched)
        changed = await anyio.to_thread.run_sync(
            _changed, left.workspace, touched, repository.files, since, abandon_on_cancel=True
        )
        return {
            "since": shown(left.since),
            "files_changed": sorted({_as_text(name) for name in (*changed, *repository.committed)})[:MOST_FILES],
            "branch_before": repository.branch_before,
            "branch_now": repository.branch_now,
            "commits_added": repository.commits_added,
            "shells_gone": [shell for shell in left.shells if shell not in live_shells],
            "taken_back": list(left.taken_back),
        }
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Repository:
    """The state of a workspace according to git; everything is unknown where there is no repository."""

    files: frozenset[str] | None = None
    committed: frozenset[str] = frozenset()
    branch_before: str | None = None
    branch_now: str | None = None
    commits_added: int | None = None

    @classmethod
    async def read(cls, workspace: str, since: float) -> "_Repository":
        branch, listed, staged, moves, *below = await ask_git(
            workspace,
            ("symbolic-ref", "--short", "--quiet", "HEAD"),
            ("ls-files", "-z", "--cached", "--others", "--exclude-standard"),
            # What is staged for removal is in no list of files any more.
            ("diff-index", "--cached", "-z", "--name-only", "--no-renames", "--relative", "HEAD"),
            _reflog(REFLOG_LINES[0]),
            # Git looks into submodules only for what they track.
            *([("ls-files", "-z", "--cached", "--recurse-submodules")] if _has_submodules(workspace) else ()),
        )
        if listed is None:
            return cls()
        files = frozenset(name for names in (listed, staged, *below) for name in (names or "").split("\0")[:LOOKED_AT])
        files -= {""}
        branch_now = _as_text((branch or "").strip()) or None
        steps = _steps(moves)
        if len(steps) == REFLOG_LINES[0] and steps[-1][1] > since:
            steps = _steps(*await ask_git(workspace, _reflog(REFLOG_LINES[1])))
        earlier = [commit for commit, at, _ in steps if at <= since]
        if not earlier:
            return cls(files=files, branch_now=branch_now)
        later = [says for _, at, says in reversed(steps) if at > since]
        left = [
            says.removeprefix(way).partition(" to ")[0]
            for says in later
            for way in (_MOVING, _RENAMING)
            if says.startswith(way)
        ]
        added, committed = 0, frozenset[str]()
        if steps[0][0] != earlier[0]:
            span = f"{earlier[0]}..{steps[0][0]}"
            count, names = await ask_git(
                workspace,
                ("rev-list", "--count", span),
                ("diff-tree", "-r", "-z", "--name-only", "--no-renames", "--relative", earlier[0], steps[0][0]),
            )
            added = int(count) if count else None
            committed = frozenset((names or "").split("\0")) - {""}
        return cls(
            files=files,
            committed=committed,
            branch_before=left[0] if left else branch_now,
            branch_now=branch_now,
            commits_added=added,
        )


def _reflog(lines: int) -> Sequence[str]:
    return ("reflog", "show", "--date=unix", f"--max-count={lines}", "--format=%H%x09%gd%x09%gs", "HEAD")


def _steps(reflog: str | None) -> list[tuple[str, float, str]]:
    """Return the steps of HEAD, the newest first: the commit it went to, when, and what git says of it."""
    steps: list[tuple[str, float, str]] = []
    for line in _as_text(reflog or "").splitlines():
        commit, _, rest = line.partition("\t")
        at, _, says = rest.partition("\t")
        seconds = at.partition("{")[2].rstrip("}")
        steps.append((commit, float(seconds) if seconds.isdecimal() else float("inf"), says))
    return steps


def _changed(workspace: str, touched: frozenset[str], files: frozenset[str] | None, since: float) -> list[str]:
    """Return the files that were written or removed after a time."""
    names = touched.union(islice(_walked(workspace), LOOKED_AT) if files is None else files)
    return [name for name in names if _moved_at(os.path.join(workspace, name)) > since]  # noqa: PTH118 - many files


def _walked(workspace: str) -> Iterator[str]:
    """Yield the files below a folder that git does not list, without those of hidden folders."""
    for folder, below, names in os.walk(workspace):
        below[:] = [name for name in below if not name.startswith(".") and name not in _MADE]
        prefix = os.path.relpath(folder, workspace)
        yield from names if prefix == "." else (f"{prefix}/{name}" for name in names)


def _moved_at(path: str) -> float:
    """Return when a file was last written; for one that is gone, when what is left of its path lost or got a name."""
    while path:
        try:
            return os.lstat(path).st_mtime
        except (OSError, ValueError):
            path = path.rpartition("/")[0]
    return os.lstat("/").st_mtime


def _as_text(name: str) -> str:
    """Return the name of a file or branch with a mark for each byte that is no text."""
    return name.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _has_submodules(workspace: str) -> bool:
    """Return True if the repository around a workspace, or one around that, names submodules."""
    folder = Path(workspace)
    return any((above / ".gitmodules").exists() for above in (folder, *folder.parents))


def _is_folder(path: str) -> bool:
    try:
        return Path(path).is_dir()
    except (OSError, ValueError):
        return False
