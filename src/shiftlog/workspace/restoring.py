"""Plans a restore before anything is touched; a dry run only shows the plan.

The plan follows from the differences, the state of the paths on disk, and the rules for replacing files. A file that
was there and that the target did not hold is never removed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from shiftlog.workspace import modes, names
from shiftlog.workspace.coverage import not_held
from shiftlog.workspace.differences import Difference, Side
from shiftlog.workspace.files import beneath
from shiftlog.workspace.ports import FileStat
from shiftlog.workspace.results import Action
from shiftlog.workspace.shadow import Shadow

UNCAPTURED = "a file that no checkpoint holds is in the way"
DIRECTORY = "a directory is in the way; clean=true replaces it"
FULL_DIRECTORY = "a directory with files that no checkpoint holds is in the way"
OUTSIDE = "a file outside the given paths is in the way"

Contents = Mapping[bytes, Sequence[bytes]]
Disk = Mapping[bytes, FileStat | None]

# What the owner of a directory needs to change files in it.
_WORKABLE = 0o700

_FOLDERS = 'git ls-tree -r -d -z --name-only "$1:files" || exit 52'

_CONTENTS = """
xargs -0 sh -c 'for directory do printf "%s\\0\\0" "$directory"; find "$directory" ! -type d -print0; done' sh || :
"""


@dataclass(slots=True, kw_only=True)
class RestorePlan:
    """The steps of a restore, in order; `opened_up` directories get their own permissions back at the end."""

    opened_up: dict[bytes, int] = field(default_factory=dict[bytes, int])
    remove: set[bytes] = field(default_factory=set[bytes])
    clear: list[bytes] = field(default_factory=list[bytes])
    write: dict[bytes, Side] = field(default_factory=dict[bytes, Side])
    permit: dict[bytes, int] = field(default_factory=dict[bytes, int])
    directories: dict[bytes, int] = field(default_factory=dict[bytes, int])
    actions: dict[bytes, Action] = field(default_factory=dict[bytes, Action])
    left: set[bytes] = field(default_factory=set[bytes])
    failed: dict[bytes, str] = field(default_factory=dict[bytes, str])

    def shown(self, path: bytes) -> str:
        """Return a path for results; a directory ends with a slash."""
        return names.shown(path + b"/" if path in self.directories else path)

    def created(self) -> list[bytes]:
        """Return the files that the workspace did not have."""
        return [path for path, action in self.actions.items() if action == "created"]


def _paths_to_see(wanted: Sequence[Difference]) -> list[bytes]:
    """Return the paths whose state on disk the plan depends on: those that differ, and the directories above them."""
    found: dict[bytes, None] = dict.fromkeys([modes.ROOT])
    for difference in wanted:
        found.update(dict.fromkeys(names.parents(difference.path)))
        found[difference.path] = None
    return list(found)


async def plan_restore(
    shadow: Shadow, wanted: Sequence[Difference], *, clean: bool, roots: tuple[bytes, ...], aim: str
) -> RestorePlan:
    """Decide what happens to each path that differs between the workspace (old) and the tree `aim` (new)."""
    paths = _paths_to_see(wanted)
    disk = dict(zip(paths, await shadow.work.stats(paths), strict=True))
    files = [one for one in wanted if not one.is_directory]
    contents = await _contents_of(shadow, [one.path for one in files if one.new and _is_directory(disk, one.path)])
    newer = {difference.path for difference in files if difference.new is None}
    removable = newer - await not_held(shadow, newer, aim)
    plan = RestorePlan(left=newer - removable if clean else set(newer), remove=set(removable) if clean else set())
    for difference in files:
        if difference.new is not None and names.within(difference.path, roots):
            _plan_write(plan, difference, difference.new, removable, disk, contents, clean=clean, roots=roots)
    plan.left = {path for path in plan.left if names.within(path, roots)}
    plan.remove = {path for path in plan.remove if names.within(path, roots)}
    plan.actions.update(dict.fromkeys(plan.remove, "deleted"))
    await _plan_directories(shadow, plan, [one for one in wanted if one.is_directory], disk, aim)
    return plan


async def _plan_directories(
    shadow: Shadow, plan: RestorePlan, wanted: Sequence[Difference], disk: Disk, aim: str
) -> None:
    """Give directories of the target its permissions, and open up those that refuse the other steps meanwhile."""
    held = {modes.ROOT, *names.split(await shadow.script(_FOLDERS, [aim]))} if wanted else set[bytes]()
    for difference in wanted:
        if difference.path in held and difference.new is not None:
            plan.directories[difference.path] = difference.new.permissions
            plan.actions.setdefault(difference.path, "mode")
    changed = {*plan.remove, *plan.write, *plan.clear, *plan.permit}
    above = {parent for path in changed for parent in names.parents(path)}
    for path in {modes.ROOT, *above, *plan.directories} if changed or wanted else ():
        seen = disk.get(path)
        if seen is not None and seen.kind == "directory" and seen.permissions & _WORKABLE != _WORKABLE:
            plan.opened_up[path] = seen.permissions | _WORKABLE
            plan.directories.setdefault(path, seen.permissions)


def _plan_write(
    plan: RestorePlan,
    difference: Difference,
    new: Side,
    newer: set[bytes],
    disk: Disk,
    contents: Contents,
    *,
    clean: bool,
    roots: tuple[bytes, ...],
) -> None:
    path, old = difference.path, difference.old
    files_above = (parent for parent in names.parents(path) if disk.get(parent) and not _is_directory(disk, parent))
    above = next(files_above, None)
    if above is not None:
        if above not in newer:
            plan.failed[path] = UNCAPTURED
            return
        if not names.within(above, roots):
            plan.failed[path] = OUTSIDE
            return
        plan.left.discard(above)
        plan.remove.add(above)
    elif _is_directory(disk, path):
        if not clean:
            plan.failed[path] = DIRECTORY
            return
        if any(inside not in newer for inside in contents.get(path, ())):
            plan.failed[path] = FULL_DIRECTORY
            return
        plan.clear.append(path)
    elif old is None and disk.get(path) is not None:
        plan.failed[path] = UNCAPTURED
        return
    if old is not None and difference.status == "mode_changed" and not new.is_link:
        plan.permit[path] = new.permissions
        plan.actions[path] = "mode"
        return
    plan.write[path] = new
    plan.actions[path] = "written" if old is not None else "created"
    if not new.is_link:
        plan.permit[path] = new.permissions


def _is_directory(disk: Disk, path: bytes) -> bool:
    seen = disk.get(path)
    return seen is not None and seen.kind == "directory"


async def _contents_of(shadow: Shadow, directories: list[bytes]) -> Contents:
    """Return all files below each of these directories."""
    if not directories:
        return {}
    here = shadow.work.directory
    if here is not None:
        return {path: _files_below(here, path) for path in directories}
    found: dict[bytes, list[bytes]] = {}
    inside: list[bytes] = []
    fields = (await shadow.script(_CONTENTS, stdin=dotted(directories))).split(b"\0")[:-1]
    for number, name in enumerate(fields):
        if not name:
            continue
        if number + 1 < len(fields) and not fields[number + 1]:
            inside = found.setdefault(name[2:], [])
        else:
            inside.append(name[2:])
    return found


def _files_below(directory: int, path: bytes) -> list[bytes]:
    try:
        return beneath.files_below(directory, path)
    except OSError:
        return [path]  # it changes or cannot be read, so it may hold anything


def dotted(paths: Iterable[bytes]) -> bytes:
    """Return paths as input that no tool mistakes for an option."""
    return names.joined([b"./" + path for path in sorted(paths)])
