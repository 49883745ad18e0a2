"""The sandbox specification of a shell, and small helpers about it.

`sandbox` decides whether a machine can enforce it, `launch` starts a shell under it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from shiftlog.guard.directories import OpenDirectory, open_directory
from shiftlog.model.shell_errors import SandboxUnavailable
from shiftlog.shell.sandbox.programs import ExecRules
from shiftlog.shell.sandbox.starts import JudgeSpec, StartedFile

Mode = Literal["read-only", "workspace-write", "full-access"]
Enforcement = Literal["none", "syntax", "kernel", "syntax+kernel"]

# Directories whose links are the system's own, such as /var/run.
_SYSTEM = ("/", "/var")

ALLOW_ALL = JudgeSpec(factory="shiftlog.shell.sandbox.spec:AllowAll")


class AllowAll:
    """The judge of a shell without lists: records starts and refuses none."""

    def judge_start(
        self, path: str, argv: Sequence[str], cwd: str, file: StartedFile
    ) -> tuple[bool, str, str, str | None]:
        """Allow the start."""
        return True, "allowed", os.path.basename(path), None

    def permit(self, entries: Sequence[str]) -> None:
        """Do nothing: no start needs approval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSpec:
    """The rules for a shell; paths are absolute, and those that may be written have no link in them."""

    mode: Mode
    state_dir: str
    workspace: str | None = None
    opened: OpenDirectory | None = None
    """The workspace as it was judged; its descriptor is open until the shell has started."""
    cwd: str | None = None
    temp: str | None = None
    """The private temp directory; the launch makes one for itself, and removes it, if none is given."""
    rules: ExecRules | None = None
    judge: JudgeSpec = ALLOW_ALL
    network: bool = True
    write_extra: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    """Files that stay as they are even in a writable directory: the operator's policy."""
    links: tuple[str, ...] = ()
    """The links on the way to Shiftlog's data and the operator's policy; no mount can keep one in its place."""
    require_kernel: bool = False
    require_bwrap: bool = False
    shows_cwd: bool = False
    """True if `cwd` stays visible in a directory that the sandbox replaces; only if full access is permitted."""

    @property
    def confined(self) -> bool:
        """True if the mode limits writing."""
        return self.mode != "full-access"

    @property
    def asks_for_kernel(self) -> bool:
        """True if the kernel must enforce anything."""
        return self.confined or self.rules is not None or self.require_kernel

    def writable_paths(self) -> tuple[str, ...]:
        """Return the workspace and the operator's extra paths; only in workspace-write."""
        if self.mode != "workspace-write" or self.workspace is None:
            return ()
        return tuple(dict.fromkeys((self.workspace, *self.write_extra)))


def between(path: str, places: Iterable[str]) -> list[str]:
    """Return the directories above a path that lie below one of the places, outermost first."""
    above = [str(parent) for parent in reversed(Path(path).parents)]
    return [parent for parent in above if any(parent != place and is_below(parent, place) for place in places)]


def unavailable(mode: Mode, why: str, *, hint: str | None = None) -> SandboxUnavailable:
    """Return the error for a mode that cannot be enforced; `hint` replaces the general advice."""
    message = f"sandbox '{mode}' cannot be enforced here: {why}"
    return SandboxUnavailable(message, details={"mode": mode, "why": why}, hint=hint)


def is_below(path: str, place: str) -> bool:
    """Return True if a path is the other one or lies below it."""
    return path == place or path.startswith(place.rstrip("/") + "/")


def operators_path(text: str, home: str) -> str:
    """Return a path of the operator's settings with the home directory and the system's own links resolved.

    Other links stay: a program that can write beside one could point it elsewhere.
    """
    expanded = os.path.join(os.path.realpath(home), text[2:]) if text.startswith("~/") else os.path.expanduser(text)
    path = os.path.normpath(expanded)
    for place in _SYSTEM:
        above = place.rstrip("/") + "/"
        name, slash, rest = path.removeprefix(above).partition("/")
        link = above + name
        if path.startswith(above) and os.path.islink(link):
            path = os.path.realpath(link) + slash + rest
    return path


def open_place(path: str) -> OpenDirectory | None:
    """Open a directory; None if it is not there, or not without following a link."""
    try:
        return open_directory(path)
    except OSError:
        return None


def linked(paths: Iterable[str]) -> list[str]:
    """Return those of the paths that have a link in them."""
    return [path for path in paths if _has_link(path)]


def _has_link(path: str) -> bool:
    try:
        open_directory(path).close()
    except OSError as problem:
        return problem.errno == errno.ELOOP
    return False
