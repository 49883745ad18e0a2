"""Changes files below an open directory; no step follows a link, so none can leave the directory.

A new file is written beside its place and renamed over it, so a reader sees the old file or the new one.
"""

import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager

from shiftlog.guard.directories import open_beneath

_NAME_ONLY = getattr(os, "O_PATH", 0)
_ENTER = (_NAME_ONLY or os.O_RDONLY) | os.O_DIRECTORY
_LIST = os.O_RDONLY | os.O_DIRECTORY
_PLAIN_DIRECTORY = 0o755


def write_file(directory: int, path: bytes, content: bytes, permissions: int) -> None:
    """Write a file with its permissions, and the directories above it."""
    with _above(directory, path, create=True) as (parent, name):
        beside = _beside()
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=parent)
        try:
            with open(descriptor, "wb") as file:  # noqa: PTH123 — a descriptor has no path
                file.write(content)
                os.fchmod(descriptor, permissions)
            os.rename(beside, name, src_dir_fd=parent, dst_dir_fd=parent)
        except OSError:
            os.unlink(beside, dir_fd=parent)
            raise


def write_link(directory: int, path: bytes, text: bytes) -> None:
    """Write a link, and the directories above it."""
    with _above(directory, path, create=True) as (parent, name):
        beside = _beside()
        os.symlink(text, beside, dir_fd=parent)
        try:
            os.rename(beside, name, src_dir_fd=parent, dst_dir_fd=parent)
        except OSError:
            os.unlink(beside, dir_fd=parent)
            raise


def remove(directory: int, path: bytes) -> None:
    """Remove a file or link; a missing one is removed already."""
    try:
        with _above(directory, path) as (parent, name):
            os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        pass


def clear(directory: int, path: bytes) -> None:
    """Remove a directory that holds nothing but directories."""
    with _above(directory, path) as (parent, name):
        for inner in _names(directory, path):
            clear(directory, path + b"/" + inner)
        os.rmdir(name, dir_fd=parent)


def permit(directory: int, path: bytes, permissions: int) -> None:
    """Set the permissions of a file or directory, never of what a link points to."""
    descriptor = open_beneath(directory, path, _NAME_ONLY or os.O_RDONLY | os.O_NONBLOCK)
    try:
        if stat.S_ISLNK(os.fstat(descriptor).st_mode):
            raise NotADirectoryError(path)
        if _NAME_ONLY:
            os.chmod(f"/proc/self/fd/{descriptor}", permissions)  # noqa: PTH101 — the file itself, however it is named
        else:
            os.fchmod(descriptor, permissions)
    finally:
        os.close(descriptor)


def files_below(directory: int, path: bytes) -> list[bytes]:
    """Return everything below a directory that is not a directory."""
    found: list[bytes] = []
    for name in _names(directory, path):
        inner = path + b"/" + name
        if stat.S_ISDIR(_kind(directory, inner)):
            found += files_below(directory, inner)
        else:
            found.append(inner)
    return found


@contextmanager
def _above(directory: int, path: bytes, *, create: bool = False) -> Generator[tuple[int, bytes]]:
    """Open the directory that holds a path; yield it with the last name of the path."""
    above, _, name = path.rpartition(b"/")
    if create and above:
        _make(directory, above)
    parent = open_beneath(directory, above or b".", _ENTER)
    try:
        yield parent, name
    finally:
        os.close(parent)


def _make(directory: int, path: bytes) -> None:
    try:
        os.close(open_beneath(directory, path, _ENTER))
    except FileNotFoundError:
        with _above(directory, path, create=True) as (parent, name):
            os.mkdir(name, dir_fd=parent)
            permit(parent, name, _PLAIN_DIRECTORY)


def _names(directory: int, path: bytes) -> list[bytes]:
    here = open_beneath(directory, path, _LIST)
    try:
        with os.scandir(here) as entries:
            return [os.fsencode(entry.name) for entry in entries]
    finally:
        os.close(here)


def _kind(directory: int, path: bytes) -> int:
    with _above(directory, path) as (parent, name):
        return os.lstat(name, dir_fd=parent).st_mode


def _beside() -> bytes:
    return b".shiftlog-%s.new" % secrets.token_hex(6).encode()
