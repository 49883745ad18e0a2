"""The private directory of one shell, where its named pipes are.

Programs of the shell can write to it: they can move it, put links in its place, and exchange what is in it. So it is
used by its descriptor, its pipes by their names alone, and nothing but a pipe is opened.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

_FLAGS = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)


class PipeDirectory:
    """The directory, opened once; a later server gets its descriptor from the shell's holder."""

    def __init__(self, path: str, fd: int | None = None) -> None:
        self.path = path
        self.fd = os.open(path, _FLAGS) if fd is None else fd

    def make(self, name: str) -> str:
        """Make a pipe and return the path by which the shell opens it; raises `OSError`."""
        os.mkfifo(name, 0o600, dir_fd=self.fd)
        return f"{self.path}/{name}"

    def open(self, path: str, flags: int) -> int:
        """Open one end of a pipe without waiting for the other; raises `OSError` also if it is no pipe any more."""
        flags |= os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(os.path.basename(path), flags, dir_fd=self.fd)  # noqa: PTH119 — many a command
        if not stat.S_ISFIFO(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError(errno.EINVAL, "it is not a pipe any more", path)
        return fd

    def remove(self, path: str) -> None:
        """Remove a pipe if it is there."""
        with suppress(OSError):
            os.unlink(os.path.basename(path), dir_fd=self.fd)  # noqa: PTH119 — as above

    def close(self) -> None:
        """Close the descriptor; the directory stays."""
        os.close(self.fd)
