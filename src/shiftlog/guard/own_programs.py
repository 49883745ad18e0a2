"""The directories where Shiftlog looks for the programs that it starts itself, outside of every sandbox.

A client is often started in an activated environment of its workspace. The PATH then begins with a directory that
programs in a confined shell may write to, and a `git` of theirs there would run with all rights.
"""

import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from shiftlog.guard.policy.files import DEFAULT_PATH

# Directories of the system and of package managers: no workspace, and not writable by default.
_SYSTEM = frozenset(
    (*DEFAULT_PATH.split(":"), "/snap/bin", "/run/current-system/sw/bin", "/run/wrappers/bin", "/opt/local/bin",
     "/opt/homebrew/bin", "/opt/homebrew/sbin", "/home/linuxbrew/.linuxbrew/bin")
)  # fmt: skip
_STORE = "/nix/store/"
# What shows that a directory belongs to a project or to a cache.
_MARKS = (".git", "pyvenv.cfg")
_MADE = frozenset({"node_modules", ".cache", ".npm"})


def search_path(environ: Mapping[str, str], workspace: str | None = None) -> str:
    """Return the PATH for programs of our own: the system's directories first, and none of a project or workspace."""
    path = _ordered(environ.get("PATH", DEFAULT_PATH))
    if workspace is None:
        return path
    return ":".join(one for one in path.split(":") if one in _SYSTEM or not _is_inside(one, workspace))


@lru_cache(maxsize=64)
def _ordered(path: str) -> str:
    entries = list(dict.fromkeys(path.split(":")))
    system = [one for one in entries if _is_systems(one)]
    others = [one for one in entries if one not in system and one.startswith("/") and not _is_projects(one)]
    return ":".join((*system, *others)) or DEFAULT_PATH


def _is_systems(directory: str) -> bool:
    return directory in _SYSTEM or os.path.realpath(directory).startswith(_STORE)


def _is_projects(directory: str) -> bool:
    """Return True for a directory that lies in a repository, an environment or a cache."""
    for place in {Path(directory), Path(os.path.realpath(directory))}:
        if not _MADE.isdisjoint(place.parts):
            return True
        # Unlike pathlib's, false for a directory that may not be searched.
        if any(os.path.exists(above / mark) for above in (place, *place.parents) for mark in _MARKS):  # noqa: PTH110
            return True
    return False


def _is_inside(directory: str, workspace: str) -> bool:
    places = (Path(directory), Path(os.path.realpath(directory)))
    return any(place.is_relative_to(workspace) for place in places)
