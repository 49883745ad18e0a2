"""Find the file that a program name means: on this machine, or unknown because the files are out of reach.

The only part of the policy that reads the disk. Without files, paths are all that is known.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from shiftlog.link.files import open_regular

FRESH_S = 1.0
CACHE_MAX = 4096
SHEBANG_BYTES = 256
_INTERPRETER = re.compile(rb"([^ \t\0]+)(?:[ \t]+([^\0]*))?")
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


T = TypeVar("T")


class FileIdentity:
    """Identifies files as far as their paths tell. Paths are absolute; an unknown file never equals another one."""

    reachable = False

    def find(self, name: str) -> str | None:
        """Find a name without a slash on the shell's initial PATH."""
        return None

    def real_path(self, path: str) -> str | None:
        """Resolve every link; None if the file does not exist."""
        return None

    def same_file(self, one: str, other: str) -> bool:
        """Return True if two paths are the same file."""
        return os.path.normpath(one) == os.path.normpath(other)

    def same_content(self, one: str, other: str) -> bool:
        """Return True if two files have the same content."""
        return False

    def interpreter(self, path: str) -> tuple[str, ...]:
        """Return the words of a script's `#!` line; empty for other files."""
        return ()


class NoFiles(FileIdentity):
    """Files out of reach, on another host or in a container."""


class LocalFiles(FileIdentity):
    """This machine's files. Names and links are cached for a second, digests until the file changes."""

    reachable = True

    def __init__(self, path: str = DEFAULT_PATH) -> None:
        self._directories = [directory or "." for directory in path.split(":")]
        self._cache: dict[tuple[str, str], tuple[float, Any]] = {}
        self._digests: dict[tuple[int, int, int, int], bytes] = {}

    def find(self, name: str) -> str | None:
        return self.cached("find", name, self._search)

    def _search(self, name: str) -> str | None:
        candidates = (f"{directory}/{name}" for directory in self._directories)
        return next((path for path in candidates if os.access(path, os.X_OK) and not Path(path).is_dir()), None)

    def real_path(self, path: str) -> str | None:
        try:
            return str(Path(path).resolve(strict=True))
        except (OSError, ValueError, RuntimeError):
            return None

    def same_file(self, one: str, other: str) -> bool:
        left = self.inode(one)
        return left is not None and left == self.inode(other)

    def same_content(self, one: str, other: str) -> bool:
        try:
            left, right = Path(one).stat(), Path(other).stat()
            if left.st_size != right.st_size or not left.st_size:
                return False
            return self._digest(one, left) == self._digest(other, right)
        except (OSError, ValueError):
            return False

    def interpreter(self, path: str) -> tuple[str, ...]:
        try:
            with os.fdopen(open_regular(path), "rb") as file:
                return interpreter_of(file.read(SHEBANG_BYTES))
        except (OSError, ValueError):
            return ()

    def inode(self, path: str) -> tuple[int, int] | None:
        """Return device and inode of a path, not older than a second."""
        return self.cached("inode", path, inode_of)

    def cached(self, question: str, name: str, answer: Callable[[str], T]) -> T:
        """Return the answer to a question about a name, not older than a second."""
        now = time.monotonic()
        kept = self._cache.get((question, name))
        if kept is not None and now - kept[0] < FRESH_S:
            return kept[1]
        if len(self._cache) >= CACHE_MAX:
            self._cache.clear()
        found = answer(name)
        self._cache[question, name] = now, found
        return found

    def _digest(self, path: str, status: os.stat_result) -> bytes:
        key = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        digest = self._digests.get(key)
        if digest is None:
            with os.fdopen(open_regular(path), "rb") as file:
                digest = hashlib.file_digest(file, "sha256").digest()
            if len(self._digests) >= CACHE_MAX:
                self._digests.clear()
            self._digests[key] = digest
        return digest


def interpreter_of(head: bytes) -> tuple[str, ...]:
    """Return the interpreter in a file's first bytes and its one argument, exactly as the kernel reads them."""
    if not head.startswith(b"#!"):
        return ()
    buffer = head[:SHEBANG_BYTES].ljust(SHEBANG_BYTES, b"\0")
    line, end, _ = buffer[2:].partition(b"\n")
    found = _INTERPRETER.match((line if end else line[:-1]).strip(b" \t"))
    return () if found is None else tuple(os.fsdecode(word) for word in found.groups() if word is not None)


def inode_of(path: str) -> tuple[int, int] | None:
    """Return device and inode of a path; None if it cannot be read."""
    try:
        status = os.stat(path)  # noqa: PTH116 — each program start pays for it
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino
