"""Keeps the daemon's secrets from programs of the same user, such as those in a full-access shell.

The kernel shows a process's first environment in /proc, and its memory to debuggers of the same user. The daemon blanks
the former and switches off the latter. Root can still read the memory of any process.
"""

import ctypes
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from shiftlog.model.environment import looks_secret

_PR_SET_DUMPABLE = 4
_ENVIRONMENT_AT = 47  # env_start and env_end, counted from the state in /proc/PID/stat

_taken: dict[str, str] = {}


def environment() -> Mapping[str, str]:
    """Return the environment that the daemon was started with."""
    return _taken or os.environ


def hide() -> None:
    """Take the environment out of reach of other programs; `os.environ` and children keep what does not look secret."""
    _taken.update(os.environ)
    for name in filter(looks_secret, _taken):
        del os.environ[name]
    if not sys.platform.startswith("linux"):
        return
    for name, value in os.environ.items():
        os.putenv(name, value)  # a copy: the block of the start is blanked below
    fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    start, end = int(fields[_ENVIRONMENT_AT]), int(fields[_ENVIRONMENT_AT + 1])
    if 0 < start < end:
        ctypes.memset(start, 0, end - start)
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
