"""The mounts of a confined shell, as arguments for bubblewrap.

Everything is read-only except the writable paths; `/tmp` is the shell's own temp directory, `/run` is empty, and
Shiftlog's data is an empty directory. So the sockets of containers, agents and multiplexers have no path inside.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from shiftlog.shell.sandbox.spec import is_below

_PRIVATE = ("/tmp", "/run", "/var/tmp")


@dataclass(frozen=True, slots=True, kw_only=True)
class MountView:
    """What a shell sees: real paths that are writable, hidden, or must stay visible."""

    temp: str
    writable: tuple[str, ...]
    hidden: tuple[str, ...]
    visible: tuple[str, ...]
    shared_memory: bool
    own_devices: bool


def arguments(bwrap: str, view: MountView, cwd: str) -> list[str]:
    """Return the command line up to the program."""
    words = [bwrap, "--die-with-parent", "--ro-bind", "/", "/"]
    words += ["--dev", "/dev"] if view.own_devices else ["--dev-bind", "/dev", "/dev"]
    words += ["--tmpfs", "/dev/shm"] if view.shared_memory and Path("/dev/shm").is_dir() else []
    words += ["--bind", view.temp, "/tmp", "--tmpfs", "/run"]
    if Path("/var/tmp").is_dir() and not Path("/var/tmp").is_symlink():
        words += ["--bind", view.temp, "/var/tmp"]
    for path in (*_resolver(), *_unique(view.visible)):
        if is_private(path) and not any(is_below(path, place) for place in view.writable):
            words += ["--ro-bind", path, path]
    for path in _unique(view.writable):
        words += ["--bind", path, path]
    for path in view.hidden:
        words += ["--tmpfs", path, "--remount-ro", path]
    if os.geteuid() == 0:
        words += ["--cap-add", "ALL"]  # the launcher drops those that a confined root does not need
    return [*words, "--chdir", cwd, "--"]


def _resolver() -> list[str]:
    """Return the file for name resolution, which often lies below /run; its sockets stay hidden."""
    path = Path("/etc/resolv.conf")
    return [str(path.resolve())] if path.exists() else []


def _unique(paths: Iterable[str]) -> list[str]:
    """Sort outer paths before inner ones, because a later mount covers an earlier one."""
    return sorted(set(paths), key=lambda path: path.count("/"))


def is_private(path: str) -> bool:
    """Return True if a path lies in a directory that the shell gets its own version of."""
    return any(is_below(path, place) for place in _PRIVATE)


def is_replaced(path: str) -> bool:
    """Return True if a path is itself such a directory."""
    return path in _PRIVATE
