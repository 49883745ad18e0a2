"""The project of a session: its repository's address, else its first commit, else its path.

Kept beside the journal, because it depends on the machine. Paths are aliases of projects; a folder's encoded name is
never decoded.
"""

import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache

from shiftlog.guard import foreign_git

GIT_S = 3.0

_ADDRESS = re.compile(
    r"(?:[a-z][a-z0-9+.-]*://)?(?:[^@/\s]+@)?(\[[^\]\s]+\]|[^/:\s]+)(?::\d+(?=/))?[/:](.+)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLocation:
    """The directory of a session, and the folder of its transcript."""

    cwd: str | None = None
    repository: str | None = None
    folder: str | None = None
    also: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Projects:
    """The projects of paths and of sessions."""

    paths: dict[str, str] = field(default_factory=dict[str, str])
    sessions: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])


def projects_of(locations: Mapping[str, Iterable[SessionLocation]], aliases: Mapping[str, str]) -> Projects:
    """Return the projects of sessions; every path of a session is an alias of its project."""
    found = Projects()
    _key_of_directory.cache_clear()  # a directory may have become another repository since the last import
    for session_id, given in locations.items():
        known = list(given)
        key = next((key for location in known if (key := project_key(location, aliases))), None)
        if key is None:
            continue
        found.sessions[session_id] = {"project": key}
        for location in known:
            for path in (location.cwd, location.folder, *location.also):
                if path:
                    found.paths[path] = key
    for path, target in aliases.items():
        found.paths[path] = found.paths.get(target) or project_key(SessionLocation(cwd=target), {}) or target
    return found


def project_key(location: SessionLocation, aliases: Mapping[str, str]) -> str | None:
    """Return a session's project: its repository address, that of its directory today, or its path."""
    if location.repository:
        return plain_address(location.repository)
    if not location.cwd:
        return None
    cwd = aliases.get(location.cwd, location.cwd)
    return _key_of_directory(cwd) or cwd


def plain_address(address: str) -> str:
    """Return a repository's address without scheme, user and `.git`, with its host in lower case."""
    address = address.strip()
    if address.startswith(("/", "file://")):  # a repository on this machine
        return address.removeprefix("file://").rstrip("/").removesuffix(".git")
    match = _ADDRESS.fullmatch(address)
    if match is None:
        return address
    return f"{match[1].lower()}/{match[2].strip('/').removesuffix('.git')}"


@cache
def _key_of_directory(path: str) -> str | None:
    # A relative path belongs to another process; a malformed name is not a directory.
    if not os.path.isabs(path) or not os.path.isdir(path):  # noqa: PTH112, PTH117
        return None
    address = _git(path, "config", "--get", "remote.origin.url")
    if address:
        return plain_address(address)
    return _git(path, "rev-list", "--max-parents=0", "--max-count=1", "HEAD")


def _git(path: str, *arguments: str) -> str | None:
    command = [*foreign_git.COMMAND, "-C", path, *arguments]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=GIT_S,
            check=False,
            stdin=subprocess.DEVNULL,
            env=foreign_git.environment(path),
        )
    except (OSError, subprocess.SubprocessError):
        return None
    lines = done.stdout.strip().splitlines()
    return lines[0] if done.returncode == 0 and lines else None
