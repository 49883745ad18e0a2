"""Landlock plans: the rights of a shell on files, worked out before it starts.

Landlock only grants, and a grant covers everything below, so hiding one file means granting its siblings on every level
above it. The launcher applies a plan; this module only reads directories.
"""

import os
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from shiftlog.guard.policy.files import inode_of

EXECUTE, WRITE_FILE, READ_FILE = 1 << 0, 1 << 1, 1 << 2
_MAKE_AND_REMOVE = sum(1 << bit for bit in range(4, 13))
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_BIND_TCP, _CONNECT_TCP = 1, 2
_SCOPE_ABSTRACT_SOCKETS, _SCOPE_SIGNALS = 1, 2
# Never granted: a device node inside the workspace would give access to the whole disk.
_MAKE_DEVICES = 1 << 6 | 1 << 11
_ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV

NULL_DEVICES = tuple(f"/dev/{name}" for name in "null zero full random urandom tty".split())
# A command with a terminal opens it by name. Granted only if the shell has terminals of its own.
TERMINALS = ("/dev/pts", "/dev/ptmx")
_SCREENS, _INPUT = 7, 13  # kinds of devices
_EVERY_SHELLS = ((5, 0), (5, 2))  # /dev/tty and /dev/ptmx


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRules:
    """The rules of Landlock; all paths are real paths. `executable` None means every file that is not hidden.

    `writable` are directories, as paths or as descriptors that the launcher inherits.
    """

    abi: int
    confined: bool
    writable: tuple[bytes | int, ...] = ()
    hidden: tuple[str, ...] = ()
    executable: tuple[str, ...] | None = None
    network: bool = True
    terminals: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LandlockPlan:
    """A ruleset (rights on files and network, scope, version) and its grants, each on a path or a descriptor."""

    ruleset: tuple[int, int, int, int]
    rules: tuple[tuple[int, bytes | int], ...]


def write_rights(abi: int) -> int:
    """Return every right that changes files, as far as this version has them."""
    rights = WRITE_FILE | _MAKE_AND_REMOVE
    if abi >= 2:
        rights |= REFER
    if abi >= 3:
        rights |= TRUNCATE
    if abi >= 5:
        rights |= IOCTL_DEV
    return rights


def make_plan(wanted: FileRules) -> LandlockPlan:
    """Work out the ruleset and its grants."""
    everywhere = READ_FILE if wanted.hidden else 0
    changes = write_rights(wanted.abi) if wanted.confined else 0
    handled = everywhere | changes | EXECUTE
    if wanted.executable is None:
        everywhere |= EXECUTE
    rules: list[tuple[int, bytes | int]] = []
    if not wanted.confined and wanted.abi >= 2:
        # A ruleset that does not handle REFER refuses to move files between directories, so it is handled and granted.
        handled |= REFER
        rules.append((REFER, b"/"))
    if wanted.executable is not None:
        rules += [(EXECUTE, os.fsencode(path)) for path in wanted.executable]
    if everywhere:
        rules += [(everywhere, os.fsencode(path)) for path in _all_but(frozenset(wanted.hidden))]
    if wanted.confined:
        rules += [(changes & ~_MAKE_DEVICES | everywhere, place) for place in wanted.writable]
        devices = (*NULL_DEVICES, *(TERMINALS if wanted.terminals else ()))
        rules += [(changes & _ON_FILES, os.fsencode(device)) for device in devices]
    network = _BIND_TCP | _CONNECT_TCP if not wanted.network and wanted.abi >= 4 else 0
    scoped = _SCOPE_ABSTRACT_SOCKETS | _SCOPE_SIGNALS if wanted.confined and wanted.abi >= 6 else 0
    return LandlockPlan(ruleset=(handled, network, scoped, wanted.abi), rules=tuple(rules))


def _all_but(hidden: Collection[str]) -> Iterator[str]:
    """List the fewest paths that together hold everything except the hidden ones."""
    if not hidden:
        yield "/"
        return
    above = {str(parent) for path in hidden for parent in Path(path).parents}
    files = set(filter(None, map(inode_of, hidden)))
    yield from _siblings("/", hidden, above, files)


def _siblings(directory: str, hidden: Collection[str], above: set[str], files: set[tuple[int, int]]) -> Iterator[str]:
    try:
        entries = list(os.scandir(directory))
    except OSError:
        return
    for entry in entries:
        if entry.path in hidden or entry.is_symlink():
            continue  # the target of a link gets its right at its own path
        if entry.path in above:
            yield from _siblings(entry.path, hidden, above, files)
        elif inode_of(entry.path) not in files:
            yield entry.path  # a rule belongs to the inode: granting a hard link would grant the hidden file


def devices() -> list[str]:
    """List the devices of this machine that no shell may read: terminals that none of them made, and whole disks.

    Of the terminals also what they show and their keyboards, but not `/dev/tty`. On a disk root would read what is
    hidden from the shell.
    """
    majors = {_SCREENS, _INPUT}
    with suppress(OSError):
        drivers = Path("/proc/tty/drivers").read_text(encoding="utf-8").splitlines()
        majors |= {int(line.split()[2]) for line in drivers if not line.split()[-1].startswith("pty")}
    found: list[str] = []
    for directory in ("/dev", "/dev/input"):
        with suppress(OSError):
            found += [entry.path for entry in os.scandir(directory) if _is_one_of(entry, majors)]
    return found


def _is_one_of(entry: os.DirEntry[str], majors: Collection[int]) -> bool:
    facts = entry.stat(follow_symlinks=False)
    if stat.S_ISBLK(facts.st_mode):
        return True
    device = (os.major(facts.st_rdev), os.minor(facts.st_rdev))
    return stat.S_ISCHR(facts.st_mode) and device[0] in majors and device not in _EVERY_SHELLS
