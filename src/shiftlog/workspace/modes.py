"""The side tables of a checkpoint: what a git tree cannot hold.

`modes` has the permissions of files that differ from 644 (755 if executable). `beside` has the permissions of
directories that differ from 755, and the names of files that were there but are not held. Only the unusual is listed,
so that the same tree always gives the same bytes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from shiftlog.workspace.ports import FileStat

Modes = dict[bytes, int]

PLAIN = 0o644
EXECUTABLE = 0o755
DIRECTORY = 0o755
# In `beside`, a value that no permissions have: a file that was too large or could not be read.
LEFT_OUT = 0o200000
ROOT = b"."


@dataclass(frozen=True, slots=True, kw_only=True)
class SideTables:
    """Both tables; `beside` is None for a checkpoint of a version that had none."""

    modes: Modes = field(default_factory=dict[bytes, int])
    beside: Modes | None = field(default_factory=dict[bytes, int])

    def is_left_out(self, path: bytes) -> bool:
        """Return True if a file was there and was not held."""
        return (self.beside or {}).get(path) == LEFT_OUT

    def directories(self) -> Modes:
        """Return the permissions of the unusual directories."""
        return {path: mode for path, mode in (self.beside or {}).items() if mode != LEFT_OUT}


def note(table: Modes, path: bytes, seen: FileStat) -> None:
    """Update the modes with one captured file or link."""
    usual = EXECUTABLE if seen.permissions & 0o100 else PLAIN
    if seen.kind == "file" and seen.permissions != usual:
        table[path] = seen.permissions
    else:
        table.pop(path, None)


def beside(folders: Sequence[bytes], seen: Sequence[FileStat | None], left_out: Iterable[bytes] = ()) -> Modes:
    """Return the table of directories and of files that are not held."""
    found = dict.fromkeys(left_out, LEFT_OUT)
    for folder, stat in zip(folders, seen, strict=True):
        if stat is not None and stat.kind == "directory" and stat.permissions != DIRECTORY:
            found[folder] = stat.permissions
    return found


def permissions(table: Mapping[bytes, int], path: bytes, git_mode: str) -> int:
    """Return the permissions of a regular file of a checkpoint."""
    return table.get(path, EXECUTABLE if git_mode == "100755" else PLAIN)


def encoded(table: Modes) -> bytes:
    """Return a table as stored in a checkpoint."""
    return b"".join(b"%o %s\0" % (table[path], path) for path in sorted(table))


def decoded(text: bytes) -> Modes:
    """Read a table written by `encoded`."""
    pairs = (line.split(b" ", 1) for line in text.split(b"\0")[:-1])
    return {path: int(mode, 8) for mode, path in pairs}


def read_tables(output: bytes) -> tuple[SideTables, bytes]:
    """Read the answers of `git cat-file --batch` for `modes` and `beside` of one tree; return the rest too."""
    modes, rest = _read_table(output)
    around, rest = _read_table(rest)
    return SideTables(modes=modes or {}, beside=around), rest


def _read_table(output: bytes) -> tuple[Modes | None, bytes]:
    head, _, rest = output.partition(b"\n")
    if head.endswith(b" missing"):
        return None, rest
    size = int(head.rsplit(b" ", 1)[1])
    return decoded(rest[:size]), rest[size + 1 :]
