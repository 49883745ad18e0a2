"""Compares two trees: which files differ, in which way, and as a patch."""

import os
from dataclasses import dataclass, replace

from shiftlog.workspace import names
from shiftlog.workspace.modes import DIRECTORY, Modes, SideTables, permissions, read_tables
from shiftlog.workspace.results import FileDiff, Status
from shiftlog.workspace.shadow import Shadow

PATCH_BYTES = 8 * 1024 * 1024

_ABSENT = "000000"
_LINK = "120000"
_DIRECTORY = "040000"

_DIFF = """
printf '%s\\n' "$1:modes" "$1:beside" "$2:modes" "$2:beside" | git cat-file --batch || exit 40
git diff-tree -r -z --raw --no-renames --no-abbrev $3 "$1:files" "$2:files" || exit 41
"""

_PATCH = """
from=$1 to=$2 most=$3
shift 3
git diff-tree -r -p --no-renames --no-color --no-ext-diff --no-textconv "$from:files" "$to:files" "$@" | head -c "$most"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One file in one tree."""

    mode: str
    blob: str
    permissions: int

    @property
    def is_link(self) -> bool:
        """True if it is a symbolic link."""
        return self.mode == _LINK

    @property
    def is_directory(self) -> bool:
        """Return True if it is a directory, of which only the permissions count."""
        return self.mode == _DIRECTORY


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One file that differs, or the permissions of a directory; None on the side that lacks it."""

    path: bytes
    old: Side | None
    new: Side | None
    insertions: int = 0
    deletions: int = 0
    binary: bool = False

    @property
    def is_directory(self) -> bool:
        """Return True if the permissions of a directory differ."""
        return any(side is not None and side.is_directory for side in (self.old, self.new))

    @property
    def status(self) -> Status:
        """The kind of difference for results."""
        if self.old is None:
            return "added"
        if self.new is None:
            return "deleted"
        if self.old.is_link != self.new.is_link:
            return "type_changed"
        return "mode_changed" if self.old.blob == self.new.blob else "modified"

    def shown(self) -> FileDiff:
        """Return the difference for results."""
        return FileDiff(
            path=names.shown(self.path + b"/" if self.is_directory else self.path),
            status=self.status,
            insertions=self.insertions,
            deletions=self.deletions,
            binary=self.binary,
        )


async def differences(
    shadow: Shadow, old: str, new: str, roots: tuple[bytes, ...] = (), *, lines: bool = False
) -> list[Difference]:
    """Return the differences from tree `old` to tree `new`, by path; `lines` counts lines, which reads the files."""
    if old == new:
        return []
    output = await shadow.script(_DIFF, [old, new, "--numstat" if lines else ""])
    before, rest = read_tables(output)
    after, rest = read_tables(rest)
    found = _read_diff(rest, before.modes, after.modes)
    for path in (before.modes.keys() | after.modes.keys()) - found.keys():
        if before.modes.get(path) != after.modes.get(path):
            found[path] = _mode_only(path, before.modes, after.modes)
    known = before.beside is not None and after.beside is not None
    # A path can be a file in one tree and a directory in the other, and then has a difference of each kind.
    every = [*found.values(), *(_directories(before, after) if known else ())]
    return sorted((one for one in every if names.within(one.path, roots)), key=lambda one: (one.path, one.is_directory))


async def patch(shadow: Shadow, old: str, new: str, paths: tuple[str, ...]) -> tuple[str, bool]:
    """Return the patch from `old` to `new`, and True if it was cut."""
    limits = ["--", *(os.fsdecode(names.read(path)) for path in paths)] if paths else []
    output = await shadow.script(_PATCH, [old, new, str(PATCH_BYTES + 1), *limits])
    return output[:PATCH_BYTES].decode("utf-8", "backslashreplace"), len(output) > PATCH_BYTES


def _read_diff(output: bytes, before: Modes, after: Modes) -> dict[bytes, Difference]:
    fields = output.split(b"\0")[:-1]
    found: dict[bytes, Difference] = {}
    at = 0
    while at < len(fields):
        head = fields[at]
        if head.startswith(b":"):
            path = fields[at + 1]
            old_mode, new_mode, old_blob, new_blob, _ = head[1:].decode().split(" ")
            sides = _side(path, old_mode, old_blob, before), _side(path, new_mode, new_blob, after)
            found[path] = Difference(path=path, old=sides[0], new=sides[1])
            at += 2
        else:
            added, removed, path = head.split(b"\t", 2)
            found[path] = replace(
                found[path],
                insertions=0 if added == b"-" else int(added),
                deletions=0 if removed == b"-" else int(removed),
                binary=added == b"-",
            )
            at += 1
    return found


def _side(path: bytes, mode: str, blob: str, table: Modes) -> Side | None:
    if mode == _ABSENT:
        return None
    return Side(mode=mode, blob=blob, permissions=permissions(table, path, mode))


def _directories(before: SideTables, after: SideTables) -> list[Difference]:
    old, new = before.directories(), after.directories()
    differing = [path for path in old.keys() | new.keys() if old.get(path) != new.get(path)]
    return [
        Difference(path=path, old=_directory(old.get(path, DIRECTORY)), new=_directory(new.get(path, DIRECTORY)))
        for path in differing
    ]


def _directory(mode: int) -> Side:
    return Side(mode=_DIRECTORY, blob="", permissions=mode)


def _mode_only(path: bytes, before: Modes, after: Modes) -> Difference:
    # Both sides have the same executable bit, or git would have reported it; so either table shows it.
    known = before.get(path, after.get(path, 0))
    mode = "100755" if known & 0o100 else "100644"
    return Difference(
        path=path,
        old=_side(path, mode, "", before),
        new=_side(path, mode, "", after),
    )
