"""The index of finished outputs: one append-only file per shell, one line per command, and the last line counts.

A small text is stored in its line, so that a command with little output costs one append and no file of its own. Lines
that a crash left incomplete are skipped.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

LOG_NAME = "finished.log"

_LINE = re.compile(rb'^\{"n":(?P<number>[0-9]+),"at":(?P<at>[0-9.]+),"size":(?P<size>[0-9]+),.*\}$', re.MULTILINE)
_decode = msgspec.json.Decoder(dict[str, object]).decode


class IndexEntry(NamedTuple):
    """A finished output: the command's number in its shell, its end time, and the size of its text in bytes."""

    number: int
    at: float
    size: int


class OutputIndex:
    """The index files of all shells in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, shell: str, one: IndexEntry, record: Mapping[str, object]) -> None:
        """Add a command that ended; a later entry for it replaces this one."""
        line = {"n": one.number, "at": round(one.at, 3), "size": one.size, **record}
        data = b"\n" + msgspec.json.encode(line)
        path = f"{self._folder}/{shell}/{LOG_NAME}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            fd = os.open(path, flags, 0o600)
        except FileNotFoundError:
            (self._folder / shell).mkdir(mode=0o700, exist_ok=True)
            fd = os.open(path, flags, 0o600)
        try:
            os.write(fd, data)
        finally:
            os.close(fd)

    def find(self, shell: str, number: int) -> dict[str, object] | None:
        """Return the newest entry of a command."""
        data, mark = self._read(shell), b'\n{"n":%d,' % number
        position = data.rfind(mark)
        while position >= 0:
            end = data.find(b"\n", position + 1)
            try:
                return _decode(data[position + 1 : end if end >= 0 else len(data)])
            except msgspec.DecodeError:
                position = data.rfind(mark, 0, position)
        return None

    def list(self, shell: str) -> Iterator[IndexEntry]:
        """Yield the entries of a shell, oldest first; a command may appear again."""
        for match in _LINE.finditer(self._read(shell)):
            yield IndexEntry(int(match["number"]), float(match["at"]), int(match["size"]))

    def drop(self, shell: str, numbers: frozenset[int]) -> None:
        """Remove the entries of some commands."""
        path = self._folder / shell / LOG_NAME
        lines = [match[0] for match in _LINE.finditer(self._read(shell)) if int(match["number"]) not in numbers]
        if not lines:
            path.unlink(missing_ok=True)
            return
        rewritten = path.with_suffix(".new")
        rewritten.unlink(missing_ok=True)
        with os.fdopen(os.open(rewritten, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(b"".join(b"\n" + line for line in lines))
        rewritten.replace(path)

    def _read(self, shell: str) -> bytes:
        try:
            return (self._folder / shell / LOG_NAME).read_bytes()
        except FileNotFoundError:
            return b""
