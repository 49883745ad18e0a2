"""The directories of a shell in which the broker acts for it, by path and by mount.

A path alone does not say where a file is: other processes have other mounts, and `/proc/PID/root` leads into them.
"""

import os
import re
from collections.abc import Iterable

from shiftlog.shell.sandbox.mounts import PRIVATE
from shiftlog.shell.sandbox.processes import AT_FDCWD, Unresolved, open_file

_ESCAPED = re.compile(rb"\\([0-7]{3})")


class ShellPlaces:
    """Some directories as one shell sees them; nothing lies in them before `look`."""

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
