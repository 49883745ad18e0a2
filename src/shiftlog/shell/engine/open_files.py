"""A check that a shell may open the files that running a command takes; `ulimit -n 5` or many open files leave too few.

Bash then skips every command with status 1, as if the command itself had failed, so such a shell is ended.
"""

import errno
import os
import re
import resource
from collections.abc import Iterable
from pathlib import Path

TOO_FEW = "it may open too few files to run a command (see `ulimit -n`)"
PERHAPS_TOO_FEW = "perhaps because it may open too few files (see `ulimit -n`)"
_NEEDED = 5
_ABOVE = 8  # descriptors that bash may hold above its own limit
_SOFT_LIMIT = re.compile(rb"Max open files\s+(\d+)")


def check_own() -> None:
    """Raise OSError if this process may open too few files to begin a command."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        opened = os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd"))  # noqa: PTH116, PTH208
    except FileNotFoundError:  # no Linux
        return
    if 0 <= limit < opened + _NEEDED:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def are_exhausted(pid: int) -> bool:
    """Return True if a process of this machine may open too few files; costs two system calls as a rule."""
    try:
        limit, _ = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        folder = f"/proc/{pid}/fd"
        # Linux 6.2 and later tell the number of open files as the size of the directory.
        count = os.stat(folder).st_size or _NEEDED  # noqa: PTH116 - once per command
        if limit < 0 or (limit > 256 and limit - count > _NEEDED + _ABOVE):
            return False
        return _leave_too_few(limit, (int(fd.name) for fd in Path(folder).iterdir()))
    except OSError:
        return False


def query(pid: int) -> str:
    """Return what to ask a target about one of its processes; `tell_exhausted` reads the answer."""
    return f"cat /proc/{pid}/limits; echo; ls /proc/{pid}/fd"


def tell_exhausted(answer: bytes) -> bool:
    """Return True if a target's answer says that its process may open too few files."""
    limits, _, listed = answer.partition(b"\n\n")
    soft = _SOFT_LIMIT.search(limits)
    return soft is not None and _leave_too_few(int(soft[1]), (int(fd) for fd in listed.split() if fd.isdigit()))


def _leave_too_few(limit: int, open_files: Iterable[int]) -> bool:
    return limit - sum(fd < limit for fd in open_files) < _NEEDED
