"""Directories that are opened once; every path below one starts at its descriptor and follows no link.

A path that was judged may name another file a moment later; a descriptor cannot. Children of this process get it as
their working directory, or by its number as `child_path`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

# What changed a path between two looks at it; the path is then resolved again. EINVAL: a link is none by now.
_CHANGED = (errno.ELOOP, errno.ENOTDIR, errno.ENOENT, errno.EINVAL)
_TRIES = 20
_MOST_LINKS = 64

# openat2 has the same number on every architecture but alpha. RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS.
_OPENAT2 = 437
_RESOLVE = 0x08 | 0x04
_SEARCH = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_beneath(directory: int, path: bytes, flags: int) -> int:
    """Open a relative path below a directory; a link in any component, or a way out, is an `OSError`."""
    if HAS_OPENAT2:
        return _open_in_one_step(directory, path, flags | os.O_CLOEXEC)
    return _open_step_by_step(directory, path, flags | os.O_CLOEXEC)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenDirectory:
    """A directory by its real path, its descriptor and its identity."""

    path: str
    descriptor: int
    device: int
    inode: int

    @property
    def child_path(self) -> str:
        """The directory as a process that has the descriptor can name it; without /proc, the path."""
        return f"/proc/self/fd/{self.descriptor}" if sys.platform.startswith("linux") else self.path

    def is_same(self, other: OpenDirectory) -> bool:
        """Return True if both are the same directory."""
        return (self.device, self.inode) == (other.device, other.inode)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.descriptor)

    def __enter__(self) -> OpenDirectory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_directory(path: str) -> OpenDirectory:
    """Open a directory by its real path; raise `OSError` if a component of it is a link by now."""
    root = os.open("/", _SEARCH)
    try:
        descriptor = open_beneath(root, os.fsencode(path.strip("/") or "."), os.O_RDONLY | os.O_DIRECTORY)
    finally:
        os.close(root)
    seen = os.fstat(descriptor)
    return OpenDirectory(path=path, descriptor=descriptor, device=seen.st_dev, inode=seen.st_ino)


def make_directory(path: str) -> OpenDirectory:
    """Open a directory by its real path, and create what of it is missing; no component may be a link."""
    parts = [part for part in path.split("/") if part]
    for depth in range(1, len(parts) + 1):
        with open_directory("/" + "/".join(parts[: depth - 1])) as above:
            try:
                os.mkdir(parts[depth - 1], dir_fd=above.descriptor)
            except FileExistsError:
                continue
    return open_directory(path)


def real_path(path: str) -> str:
    """Resolve the links of a path, also while someone exchanges a link and a directory on the way."""
    for _ in range(_TRIES):
        try:
            return os.path.realpath(path)
        except OSError as error:
            if error.errno not in _CHANGED:
                raise
    return os.path.realpath(path)


def links_to(path: str) -> tuple[str, ...]:
    """Return the real places of all links that are followed on the way to a path; who moves one moves the path."""
    found: list[str] = []
    parts, here = list(reversed(Path(path).parts)), Path("/")
    while parts and len(found) < _MOST_LINKS:
        part = parts.pop()
        place = here.parent if part == ".." else here / part
        if place.is_symlink():
            found.append(str(place))
            parts += reversed(place.readlink().parts)
        else:
            here = place
    return tuple(found)


def open_real(path: str) -> OpenDirectory:
    """Resolve the links of a path and open the directory that it names; raise `OSError` if there is none."""
    for _ in range(_TRIES):
        try:
            return open_directory(os.path.realpath(path))
        except OSError as error:
            if error.errno not in _CHANGED:
                raise
    return open_directory(os.path.realpath(path))


def _open_in_one_step(directory: int, path: bytes, flags: int) -> int:
    how = _OpenHow(flags, 0, _RESOLVE)
    code = errno.EAGAIN
    tries = 0
    while code in (errno.EAGAIN, errno.EINTR) and tries < _TRIES:  # EAGAIN: a rename elsewhere disturbed the walk
        opened = _libc.syscall(_OPENAT2, directory, path, ctypes.byref(how), ctypes.sizeof(how))
        if opened >= 0:
            return opened
        code, tries = ctypes.get_errno(), tries + 1
    raise OSError(code, os.strerror(code), os.fsdecode(path))


def _open_step_by_step(directory: int, path: bytes, flags: int) -> int:
    *above, last = [part for part in path.split(b"/") if part not in (b"", b".")] or [b"."]
    if b".." in (*above, last):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), os.fsdecode(path))
    here = directory
    try:
        for part in above:
            below = os.open(part, _SEARCH, dir_fd=here)
            if here != directory:
                os.close(here)
            here = below
        return os.open(last, flags | os.O_NOFOLLOW, dir_fd=here)
    finally:
        if here != directory:
            os.close(here)


def _has_openat2() -> bool:
    """Return True if the kernel has openat2; some containers refuse it."""
    if not sys.platform.startswith("linux"):
        return False
    root = os.open("/", _SEARCH)
    try:
        os.close(_open_in_one_step(root, b".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    except OSError:
        return False
    finally:
        os.close(root)
    return True


HAS_OPENAT2 = _has_openat2()
