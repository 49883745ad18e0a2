"""Plans a restore before anything is touched, and carries the plan out; a dry run only shows it.

The plan follows from the differences, the state of the paths on disk, and the rules for replacing files. Carrying it
out takes git plumbing and POSIX tools only. A failed path stops no other; the scan afterwards shows the result.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from shiftlog.workspace import modes, names
from shiftlog.workspace.differences import Difference, Side
from shiftlog.workspace.ports import FileStat
from shiftlog.workspace.results import Action
from shiftlog.workspace.shadow import Shadow

UNCAPTURED = "a file that no checkpoint holds is in the way"
DIRECTORY = "a directory is in the way; clean=true replaces it"
FULL_DIRECTORY = "a directory with files that no checkpoint holds is in the way"
OUTSIDE = "a file outside the given paths is in the way"

Contents = Mapping[bytes, Sequence[bytes]]
Disk = Mapping[bytes, FileStat | None]

_REMOVE = """
xargs -0 rm -f 2>/dev/null || :
"""

_CLEAR = """
xargs -0 sh -c 'for directory do find "$directory" -depth -type d -exec rmdir {} \\; ; done' sh 2>/dev/null || :
"""

# One file that cannot be written ends checkout-index early; then each is tried alone.
_WRITE = """
umask 022
rm -f "$GIT_INDEX_FILE"
git -c core.splitIndex=false update-index -z --index-info || exit 51
git checkout-index -a -f -q 2>/dev/null || git ls-files -z | xargs -0 -n 1 git checkout-index -f -q -- 2>/dev/null || :
rm -f "$GIT_INDEX_FILE"
"""

_PERMIT = """
xargs -0 chmod "$1" 2>/dev/null || :
"""

_CONTENTS = """
xargs -0 sh -c 'for directory do printf "%s\\0\\0" "$directory"; find "$directory" ! -type d -print0; done' sh || :
"""


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


def _paths_to_see(wanted: Sequence[Difference]) -> list[bytes]:
    """Return the paths whose state on disk the plan depends on: written files and the directories above them."""
    found: dict[bytes, None] = {}
    for difference in wanted:
        if difference.new is not None:
            found.update(dict.fromkeys(names.parents(difference.path)))
            found[difference.path] = None
    return list(found)


async def plan_restore(
    shadow: Shadow, wanted: Sequence[Difference], *, clean: bool, roots: tuple[bytes, ...]
) -> RestorePlan:
    """Decide what happens to each path that differs between the workspace (old) and the target (new)."""
    paths = _paths_to_see(wanted)
    disk = dict(zip(paths, await shadow.runner.stats(shadow.location.path, paths), strict=True))
    contents = await _contents_of(shadow, [one.path for one in wanted if one.new and _is_directory(disk, one.path)])
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


async def carry_out(shadow: Shadow, plan: RestorePlan) -> None:
    """Remove, clear, write and permit, in this order."""
    if plan.remove:
        await shadow.script(_REMOVE, stdin=_dotted(plan.remove))
    if plan.clear:
        await shadow.script(_CLEAR, stdin=_dotted(plan.clear))
    if plan.write:
        lines = [b"%s %s\t%s\0" % (side.mode.encode(), side.blob.encode(), path) for path, side in plan.write.items()]
        await shadow.script(_WRITE, stdin=b"".join(lines), index=f"{shadow.git_dir}/{shadow.key}.restore")
    groups: defaultdict[int, list[bytes]] = defaultdict(list)
    for path, mode in plan.permit.items():
        written = plan.write.get(path)
        if written is None or mode != modes.permissions({}, path, written.mode):
            groups[mode].append(path)
    for mode, paths in sorted(groups.items()):
        await shadow.script(_PERMIT, [f"{mode:04o}"], stdin=_dotted(paths))


async def _contents_of(shadow: Shadow, directories: list[bytes]) -> Contents:
    """Return all files below each of these directories."""
    if not directories:
        return {}
    found: dict[bytes, list[bytes]] = {}
    here: list[bytes] = []
    fields = (await shadow.script(_CONTENTS, stdin=_dotted(directories))).split(b"\0")[:-1]
    for number, name in enumerate(fields):
        if not name:
            continue
        if number + 1 < len(fields) and not fields[number + 1]:
            here = found.setdefault(name[2:], [])
        else:
            here.append(name[2:])
    return found


def _dotted(paths: Iterable[bytes]) -> bytes:
    """Return paths as input that no tool mistakes for an option."""
    return names.joined([b"./" + path for path in sorted(paths)])
