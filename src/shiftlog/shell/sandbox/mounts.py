"""The mounts of a confined shell, as arguments for bubblewrap.

Everything is read-only except the writable paths; `/tmp` is the shell's own temp directory, `/run` is empty, `/dev` has
the null devices and terminals of its own, and Shiftlog's data is an empty directory. A mount point can be neither moved
nor removed, so every directory on the way from a writable path to Shiftlog's data is one.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from shiftlog.shell.sandbox.processes import AT_FDCWD, Unresolved, open_file
from shiftlog.shell.sandbox.spec import is_below

PRIVATE = ("/tmp", "/run", "/var/tmp")
_ESCAPED = re.compile(rb"\\([0-7]{3})")
_DEVICES = "null zero full random urandom tty console pts shm".split()
# The writable mounts that every confined shell may have.
OWN = (*PRIVATE, *(f"/dev/{name}" for name in _DEVICES))


def arguments(
    bwrap: str,
    cwd: str,
    *,
    temp: str,
    writable: tuple[str, ...],
    hidden: str,
    protected: tuple[str, ...],
    visible: tuple[str, ...],
    shared_memory: bool,
) -> list[str]:
    """Return the command line up to the program; the shell sees these real paths."""
    words = [bwrap, "--die-with-parent", "--unshare-ipc", "--ro-bind", "/", "/", "--dev", "/dev"]
    words += ["--tmpfs", "/dev/shm"] if shared_memory and Path("/dev/shm").is_dir() else []
    words += ["--bind", temp, "/tmp", "--tmpfs", "/run"]
    if Path("/var/tmp").is_dir() and not Path("/var/tmp").is_symlink():
        words += ["--bind", temp, "/var/tmp"]
    resolver = Path("/etc/resolv.conf")  # it often lies below /run; the sockets there stay hidden
    for path in (*([str(resolver.resolve())] if resolver.exists() else []), *_unique(visible)):
        if is_private(path) and not any(is_below(path, place) for place in writable):
            words += ["--ro-bind", path, path]
    for path in _unique(writable):
        words += ["--bind", path, path]
    for path in protected:
        words += ["--ro-bind", path, path]
    words += ["--tmpfs", hidden, "--remount-ro", hidden, "--remount-ro", "/dev"]
    if os.geteuid() == 0:
        words += ["--cap-add", "ALL"]  # the launcher drops those that a confined root does not need
    return [*words, "--chdir", cwd, "--"]


def _unique(paths: Iterable[str]) -> list[str]:
    """Sort outer paths before inner ones, because a later mount covers an earlier one."""
    return sorted(set(paths), key=lambda path: path.count("/"))


def is_private(path: str) -> bool:
    """Return True if a path lies in a directory that the shell gets its own version of."""
    return any(is_below(path, place) for place in PRIVATE)


class ShellPlaces:
    """Some directories as one shell sees them, by path and by mount; nothing lies in them before `look`.

    A path alone does not say where a file is: other processes have other mounts, and `/proc/PID/root` leads into them.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = tuple(path.rstrip("/") for path in paths)
        self._mounts: frozenset[int] = frozenset()

    def look(self, pid: int) -> None:
        """Learn the mounts of the directories from the shell's process, before the shell itself runs."""
        found = set[int]()
        for path in self._paths:
            try:
                place, _ = open_file(pid, AT_FDCWD, os.fsencode(path))
            except Unresolved:
                continue  # the shell does not have it
            try:
                found.add(_mount_of(place))
            finally:
                os.close(place)
        # What is mounted below the sandbox's own /tmp belongs to it only if it is one of the directories, too.
        self._mounts = frozenset(found.union(_mounts_below(pid, set(self._paths).difference(PRIVATE))))

    def hold(self, descriptor: int) -> bool:
        """Return True if an opened file lies in the directories."""
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        inside = any(path == place or path.startswith(place + "/") for place in self._paths)
        return inside and _mount_of(descriptor) in self._mounts


def _mount_of(descriptor: int) -> int:
    with open(f"/proc/self/fdinfo/{descriptor}", "rb") as facts:
        return int(facts.read(4096).partition(b"mnt_id:")[2].split(None, 1)[0])


def _mounts_below(pid: int, places: Iterable[str]) -> Iterable[int]:
    """Return the mounts inside the directories, which belong to them."""
    with open(f"/proc/{pid}/mountinfo", "rb") as table:
        for line in table:
            number, _, _, _, point, _ = line.split(b" ", 5)
            path = os.fsdecode(_ESCAPED.sub(lambda code: bytes((int(code[1], 8),)), point))
            if any(path.startswith(place + "/") for place in places):
                yield int(number)
