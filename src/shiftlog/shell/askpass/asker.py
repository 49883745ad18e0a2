"""Finds out which program asks for a password, and refuses to answer where another program could read along.

The kernel tells the pid of the helper; its parent is the program that asks. The answer goes into a pipe, so no other
process may hold that pipe. A program that has taken over the asking program itself is beyond this check.
"""

import os
import stat
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from shiftlog.link import processes

SSH_PROGRAMS = frozenset({"ssh", "ssh-add", "ssh-keygen"})
_SYSTEM_PLACES = ("/usr/", "/bin/", "/opt/", "/nix/store/")
_WRITABLE_BY_OTHERS = 0o022


class AskerRefused(Exception):
    """The question is not put to a person; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """The program that asks: its process, its name and its command line."""

    pid: int
    started: str
    program: str
    command: str


def find_asker(helper: int, pipe: os.stat_result) -> Asker:
    """Return the program that started the helper and reads the pipe; raise AskerRefused if that is not certain."""
    pid = processes.parent(helper)
    started = processes.started(pid) if pid else None
    if pid is None or started is None:
        raise AskerRefused("the program that asked is gone")
    asker = Asker(pid=pid, started=started, program=_program(pid), command=_command(pid))
    if not stat.S_ISFIFO(pipe.st_mode):
        raise AskerRefused(f"the answer would not go to {asker.program} alone")
    _check_readers(asker, pipe.st_ino, {asker.pid, helper, os.getpid()})
    return asker


def _program(pid: int) -> str:
    """Return the name of a program that may ask: one that root vouches for."""
    real, effective = _user_ids(pid)
    name = _name(pid)
    if effective == 0 and os.geteuid() != 0:
        if real != os.geteuid():
            raise AskerRefused(f"{name} runs as another user")
        return name  # only a program that root installed can have this user id
    try:
        path, facts = os.readlink(f"/proc/{pid}/exe"), os.stat(f"/proc/{pid}/exe")  # noqa: PTH115, PTH116
    except OSError:
        raise AskerRefused(f"{name} cannot be identified") from None
    is_installed = facts.st_uid == 0 and not facts.st_mode & _WRITABLE_BY_OTHERS and path.startswith(_SYSTEM_PLACES)
    if not is_installed or Path(path).name not in SSH_PROGRAMS:
        raise AskerRefused(f"{name} is no program that may ask: sudo and ssh may")
    return Path(path).name


def _check_readers(asker: Asker, pipe: int, trusted: Collection[int]) -> None:
    """Refuse if a process of a shell that is not trusted has the pipe, or does not show what it has."""
    readable = _holds(asker.pid, pipe)
    if readable is False:
        raise AskerRefused(f"the answer would not go to {asker.program} alone")
    for name in os.listdir("/proc"):  # noqa: PTH208
        if not name.isdigit() or int(name) in trusted:
            continue
        pid = int(name)
        if _user_ids(pid)[1] != os.geteuid() or not processes.is_marked(pid) or not processes.alive(pid):
            continue
        # Processes of ours that serve shells, of this daemon or another, show their descriptors to none.
        if _holds(pid, pipe) is not False and not processes.serves_shells(pid):
            raise AskerRefused(f"{_name(pid)} could read the answer")


def _holds(pid: int, pipe: int) -> bool | None:
    """Return True if a process has the pipe open, None if that cannot be seen."""
    place = f"/proc/{pid}/fd"
    try:
        names = os.listdir(place)  # noqa: PTH208
    except FileNotFoundError:
        return False
    except OSError:
        return None
    for name in names:
        try:
            if os.readlink(f"{place}/{name}") == f"pipe:[{pipe}]":  # noqa: PTH115
                return True
        except OSError:
            continue  # closed meanwhile
    return False


def _user_ids(pid: int) -> tuple[int, int]:
    """Return the real and the effective user id of a process, -1 if it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_bytes()
    except OSError:
        return -1, -1
    words = status.partition(b"\nUid:")[2].split(None, 2)
    return int(words[0]), int(words[1])


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text("utf-8", "replace").strip()
    except OSError:
        return "a program"


def _command(pid: int) -> str:
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return ""
    return line.rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "surrogateescape")
