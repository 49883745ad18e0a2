"""The side table of permissions: git keeps only the executable bit, this table keeps the rest.

It lists only files that differ from 644 (755 if executable), so that the same tree always gives the same bytes.
"""

from shiftlog.workspace.ports import FileStat

Modes = dict[bytes, int]

PLAIN = 0o644
EXECUTABLE = 0o755


def note(table: Modes, path: bytes, seen: FileStat) -> None:
    """Update the table with one captured file or link."""
    usual = EXECUTABLE if seen.permissions & 0o100 else PLAIN
    if seen.kind == "file" and seen.permissions != usual:
        table[path] = seen.permissions
    else:
        table.pop(path, None)


def permissions(table: Modes, path: bytes, git_mode: str) -> int:
    """Return the permissions of a regular file of a checkpoint."""
    return table.get(path, EXECUTABLE if git_mode == "100755" else PLAIN)


def encoded(table: Modes) -> bytes:
    """Return the table as stored in a checkpoint."""
    return b"".join(b"%o %s\0" % (table[path], path) for path in sorted(table))


def decoded(text: bytes) -> Modes:
    """Read a table written by `encoded`."""
    pairs = (line.split(b" ", 1) for line in text.split(b"\0")[:-1])
    return {path: int(mode, 8) for mode, path in pairs}
