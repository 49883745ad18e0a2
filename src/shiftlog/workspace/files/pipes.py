"""Named pipes in the place of git's files: a git that opens one waits for a writer, which this module plays."""

import os
import stat
from collections.abc import Iterator

from shiftlog.guard.directories import open_beneath

_LOOK = os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK
_NUDGE = os.O_WRONLY | os.O_NONBLOCK


def release_pipes(directory: int) -> None:
    """Let every reader of a pipe that stands for a file of git see its end; pipes without a reader are left alone."""
    for path in _git_pipes(directory, b"", inside=False):
        try:
            descriptor = open_beneath(directory, path, _NUDGE)
        except OSError:
            continue  # no reader waits, or it is gone
        os.close(descriptor)


def _git_pipes(directory: int, above: bytes, *, inside: bool) -> Iterator[bytes]:
    """Yield the pipes that git may open: those named like its files, and all below a `.git` directory."""
    try:
        here = open_beneath(directory, above or b".", _LOOK)
    except OSError:
        return
    try:
        with os.scandir(here) as entries:
            found = {os.fsencode(entry.name): entry for entry in entries}
            folders = [name for name, entry in found.items() if entry.is_dir(follow_symlinks=False)]
            others = [name for name, entry in found.items() if not entry.is_file(follow_symlinks=False)]
        pipes = [name for name in others if _is_pipe(here, name)]
    finally:
        os.close(here)
    prefix = above + b"/" if above else b""
    yield from (prefix + name for name in pipes if inside or name.startswith(b".git"))
    for name in folders:
        yield from _git_pipes(directory, prefix + name, inside=inside or name == b".git")


def _is_pipe(directory: int, name: bytes) -> bool:
    try:
        return stat.S_ISFIFO(os.lstat(name, dir_fd=directory).st_mode)
    except OSError:
        return False
