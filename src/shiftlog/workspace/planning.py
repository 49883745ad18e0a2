"""Plans a restore before anything is touched; a dry run shows the plan, a real one follows it.

Pure: takes the differences, the state of the paths on disk, and the rules for replacing files.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shiftlog.workspace import names
from shiftlog.workspace.differences import Difference, Side
from shiftlog.workspace.ports import FileStat
from shiftlog.workspace.results import Action

UNCAPTURED = "a file that no checkpoint holds is in the way"
DIRECTORY = "a directory is in the way; clean=true replaces it"
FULL_DIRECTORY = "a directory with files that no checkpoint holds is in the way"
OUTSIDE = "a file outside the given paths is in the way"

Contents = Mapping[bytes, Sequence[bytes]]


@dataclass(slots=True, kw_only=True)
class RestorePlan:
    """The steps of a restore, in order: remove, clear, write, permit."""

    remove: set[bytes] = field(default_factory=set[bytes])
    clear: list[bytes] = field(default_factory=list[bytes])
    write: dict[bytes, Side] = field(default_factory=dict[bytes, Side])
    permit: dict[bytes, int] = field(default_factory=dict[bytes, int])
    actions: dict[bytes, Action] = field(default_factory=dict[bytes, Action])
    left: set[bytes] = field(default_factory=set[bytes])
    failed: dict[bytes, str] = field(default_factory=dict[bytes, str])

    def created(self) -> list[bytes]:
        """Return the files that the workspace did not have."""
        return [path for path, action in self.actions.items() if action == "created"]


def paths_to_see(wanted: Sequence[Difference]) -> list[bytes]:
    """Return the paths whose state on disk the plan depends on: written files and the directories above them."""
    found: dict[bytes, None] = {}
    for difference in wanted:
        if difference.new is not None:
            found.update(dict.fromkeys(names.parents(difference.path)))
            found[difference.path] = None
    return list(found)


def directories_to_see(wanted: Sequence[Difference], disk: Mapping[bytes, FileStat | None]) -> list[bytes]:
    """Return the directories where the target has a file."""
    return [
        difference.path for difference in wanted if difference.new is not None and _is_directory(disk, difference.path)
    ]


def plan_restore(
    wanted: Sequence[Difference],
    disk: Mapping[bytes, FileStat | None],
    contents: Contents,
    *,
    clean: bool,
    roots: tuple[bytes, ...] = (),
) -> RestorePlan:
    """Decide what happens to each path that differs between the workspace (old) and the target (new).

    `contents` lists the files on disk below each directory of `directories_to_see`.
    """
    newer = {difference.path for difference in wanted if difference.new is None}
    plan = RestorePlan(left=set() if clean else set(newer), remove=set(newer) if clean else set())
    for difference in wanted:
        if difference.new is not None and names.within(difference.path, roots):
            _plan_write(plan, difference, difference.new, newer, disk, contents, clean=clean, roots=roots)
    plan.left = {path for path in plan.left if names.within(path, roots)}
    plan.remove = {path for path in plan.remove if names.within(path, roots)}
    plan.actions.update(dict.fromkeys(plan.remove, "deleted"))
    return plan


def _plan_write(
    plan: RestorePlan,
    difference: Difference,
    new: Side,
    newer: set[bytes],
    disk: Mapping[bytes, FileStat | None],
    contents: Contents,
    *,
    clean: bool,
    roots: tuple[bytes, ...],
) -> None:
    path, old = difference.path, difference.old
    above = next((parent for parent in names.parents(path) if _is_in_the_way(disk, parent)), None)
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


def _is_directory(disk: Mapping[bytes, FileStat | None], path: bytes) -> bool:
    seen = disk.get(path)
    return seen is not None and seen.kind == "directory"


def _is_in_the_way(disk: Mapping[bytes, FileStat | None], parent: bytes) -> bool:
    seen = disk.get(parent)
    return seen is not None and seen.kind != "directory"
