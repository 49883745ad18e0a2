"""The directories that a confined shell may write to, each opened once without following a link.

A path that was judged is never resolved again: what Landlock grants and what bubblewrap mounts is compared with the
descriptor from here, so that no program gains by exchanging a directory for a link in between.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from dataclasses import dataclass

from shiftlog.shell.sandbox import kernel

_HERE = -100  # AT_FDCWD
_NO_LINKS = 0x04 | 0x02  # RESOLVE_NO_SYMLINKS, RESOLVE_NO_MAGICLINKS
_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
# Directories whose links are the system's own, such as /var/run.
_SYSTEM = ("/", "/var")


@dataclass(frozen=True, slots=True)
class Place:
    """An opened directory and the path at which it was found, without any link in it."""

    path: str
    fd: int


class LinkInPath(OSError):
    """A link stands where a directory was expected."""


def open_place(path: str) -> Place | None:
    """Open a directory; None if it does not exist, `LinkInPath` if a part of the path is a link."""
    try:
        return Place(path, kernel.openat2(_HERE, os.fsencode(path), _FLAGS, _NO_LINKS))
    except OSError as problem:
        if problem.errno in (errno.ENOENT, errno.ENOTDIR):
            return None
        if problem.errno == errno.ELOOP:
            raise LinkInPath(problem.errno, "there is a link in it", path) from problem
        if problem.errno != errno.ENOSYS:
            raise
    return _open_by_parts(path)


def _open_by_parts(path: str) -> Place | None:
    """Open a directory one part at a time, for kernels before 5.6."""
    here = os.open("/", _FLAGS)
    for part in filter(None, path.split("/")):
        try:
            below = os.open(part, _FLAGS | os.O_NOFOLLOW, dir_fd=here)
        except FileNotFoundError:
            return None
        except NotADirectoryError as problem:  # a link, too, is no directory
            raise LinkInPath(errno.ELOOP, "there is a link in it", path) from problem
        finally:
            os.close(here)
        here = below
    return Place(path, here)


def operators_path(text: str, home: str) -> str:
    """Return a path of the operator's settings with the home directory and the system's own links resolved.

    Other links stay: a program that can write beside one could point it elsewhere.
    """
    expanded = os.path.join(os.path.realpath(home), text[2:]) if text.startswith("~/") else os.path.expanduser(text)
    path = os.path.normpath(expanded)
    for place in _SYSTEM:
        name, slash, rest = path.removeprefix(place.rstrip("/") + "/").partition("/")
        link = os.path.join(place, name)
        if path.startswith(place.rstrip("/") + "/") and os.path.islink(link):
            path = os.path.realpath(link) + slash + rest
    return path


def linked(paths: Iterable[str]) -> list[str]:
    """Return those of the paths that have a link in them."""
    found: list[str] = []
    for path in paths:
        try:
            place = open_place(path)
        except LinkInPath:
            found.append(path)
            continue
        if place is not None:
            os.close(place.fd)
    return found
