"""The mounts of a confined shell, as arguments for bubblewrap.

Everything is read-only except the writable paths; `/tmp` is the shell's own temp directory, `/run` is empty, `/dev` has
the null devices and terminals of its own, and Shiftlog's data is an empty directory. A mount point can be neither moved
nor removed, so every directory on the way from a writable path to Shiftlog's data is one.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from shiftlog.shell.sandbox.spec import is_below

PRIVATE = ("/tmp", "/run", "/var/tmp")
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
