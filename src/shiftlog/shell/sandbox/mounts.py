"""The mount view of a confined shell, as arguments for bubblewrap.

The whole tree is read-only but the writable places; `/tmp` is the shell's own temp directory, `/run` is empty, and
shiftlog's data is an empty directory. So the sockets of containers, agents and multiplexers have no path inside.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_PRIVATE = ("/tmp", "/run", "/var/tmp")


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a shell sees: real paths of what it may write, what must not be there, and what must stay in sight."""

    temp: str
    writable: tuple[str, ...]
    hidden: tuple[str, ...]
    visible: tuple[str, ...]
    shared_memory: bool
    own_devices: bool


def arguments(bwrap: str, view: View, cwd: str) -> list[str]:
    """Return the command line up to the program."""
    words = [bwrap, "--die-with-parent", "--ro-bind", "/", "/"]
    words += ["--dev", "/dev"] if view.own_devices else ["--dev-bind", "/dev", "/dev"]
    words += ["--tmpfs", "/dev/shm"] if view.shared_memory and Path("/dev/shm").is_dir() else []
    words += ["--bind", view.temp, "/tmp", "--tmpfs", "/run"]
    if Path("/var/tmp").is_dir() and not Path("/var/tmp").is_symlink():
        words += ["--bind", view.temp, "/var/tmp"]
    for path in (*_resolver(), *_unique(view.visible)):
        if is_private(path) and not any(_is_below(path, place) for place in view.writable):
            words += ["--ro-bind", path, path]
    for path in _unique(view.writable):
        words += ["--bind", path, path]
    for path in view.hidden:
        words += ["--tmpfs", path, "--remount-ro", path]
    if os.geteuid() == 0:
        words += ["--cap-add", "ALL"]  # the launcher drops what a confined root does not need
    return [*words, "--chdir", cwd, "--"]


def _resolver() -> list[str]:
    """Name resolution lives below /run on many machines; its file stays, its sockets do not."""
    path = Path("/etc/resolv.conf")
    return [str(path.resolve())] if path.exists() else []


def _unique(paths: Iterable[str]) -> list[str]:
    """Order outer places before inner ones, since a later mount covers an earlier one."""
    return sorted(set(paths), key=lambda path: path.count("/"))


def is_private(path: str) -> bool:
    """Return True if a path lies in a directory that the shell gets its own of."""
    return any(_is_below(path, place) for place in _PRIVATE)


def is_replaced(path: str) -> bool:
    """Return True if a path is itself a directory that the shell gets its own of."""
    return path in _PRIVATE


def _is_below(path: str, place: str) -> bool:
    return path == place or path.startswith(place.rstrip("/") + "/")
