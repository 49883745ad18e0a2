"""Stores files of a workspace on this machine in its shadow repository, without giving git their paths.

Each file is opened below the workspace's directory without following a link, and git reads the descriptor. So a
directory that becomes a link meanwhile leads nowhere, and a file that becomes a pipe is not waited for.
"""

import errno
import os
import stat
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import NamedTuple

from shiftlog.guard.directories import open_beneath
from shiftlog.workspace import names
from shiftlog.workspace.files import stats
from shiftlog.workspace.ports import FileStat
from shiftlog.workspace.shadow import Shadow

# How many files are open at once; far below the usual limit of a process.
_BATCH = 256
_READ = os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_NOCTTY", 0)
_ABOVE = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


class CapturedFile(NamedTuple):
    """A file or link as it was stored."""

    mode: bytes
    blob: bytes
    seen: FileStat


@dataclass(slots=True, kw_only=True)
class Captured:
    """The stored files, and the names that no longer name a file of the workspace."""

    files: dict[bytes, CapturedFile] = field(default_factory=dict[bytes, CapturedFile])
    gone: list[bytes] = field(default_factory=list[bytes])


async def capture(shadow: Shadow, paths: Sequence[bytes], file_bytes: int, *, fsync: str) -> Captured:
    """Store files; one that cannot be read, or is too large by now, is in neither part of the result."""
    found = Captured()
    for begin in range(0, len(paths), _BATCH):
        await _capture_batch(shadow, paths[begin : begin + _BATCH], file_bytes, fsync, found)
    return found


async def _capture_batch(shadow: Shadow, paths: Sequence[bytes], file_bytes: int, fsync: str, found: Captured) -> None:
    directory = shadow.work.directory
    assert directory is not None
    with ExitStack() as held:
        opened: list[tuple[bytes, bytes, int, FileStat]] = []
        for path in paths:
            try:
                descriptor, mode, seen = _open(directory, path)
            except OSError as error:
                if error.errno in _GONE:
                    found.gone.append(path)
                continue
            held.callback(os.close, descriptor)
            if mode and seen.size <= file_bytes:
                opened.append((path, mode, descriptor, seen))
        if not opened:
            return
        lines = b"".join(b"/dev/fd/%d\n" % descriptor for _, _, descriptor, _ in opened)
        arguments = ("-c", f"core.fsync={fsync}", "hash-object", "-w", "--no-filters", "--stdin-paths")
        blobs = (await shadow.git(*arguments, stdin=lines, files=[one[2] for one in opened])).split()
    for (path, mode, _, seen), blob in zip(opened, blobs, strict=True):
        found.files[path] = CapturedFile(mode, blob, seen)


def _open(directory: int, path: bytes) -> tuple[int, bytes, FileStat]:
    """Return a descriptor of a file's bytes or a link's text, git's mode of it, and its state; no mode for others."""
    try:
        descriptor = open_beneath(directory, path, _READ)
    except OSError as error:
        if error.errno == errno.ELOOP:
            return _open_link(directory, path)
        raise
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        return descriptor, b"", stats.of_open_file(descriptor)
    return descriptor, b"100755" if status.st_mode & 0o100 else b"100644", stats.of_open_file(descriptor)


def _open_link(directory: int, path: bytes) -> tuple[int, bytes, FileStat]:
    above, _, name = path.rpartition(b"/")
    parent = open_beneath(directory, above or b".", _ABOVE)
    try:
        (seen,) = stats.here(parent, [name], signed=True)
        text = os.readlink(name, dir_fd=parent)
    finally:
        os.close(parent)
    if seen is None or seen.kind != "link":
        raise OSError(errno.ENOENT, "the link was replaced", names.shown(path))
    with tempfile.TemporaryFile() as file:
        file.write(text)
        file.flush()
        return os.dup(file.fileno()), b"120000", seen
