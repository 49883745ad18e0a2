"""Carries out a restore plan on the target, with git plumbing and POSIX tools only.

A failed path does not stop the others; the scan afterwards shows the result.
"""

from collections import defaultdict

from shiftlog.workspace import modes, names
from shiftlog.workspace.planning import Contents, RestorePlan
from shiftlog.workspace.shadow import Shadow

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


async def carry_out(shadow: Shadow, plan: RestorePlan) -> None:
    """Remove, clear, write and permit, in this order."""
    if plan.remove:
        await shadow.script(_REMOVE, stdin=_dotted(plan.remove))
    if plan.clear:
        await shadow.script(_CLEAR, stdin=_dotted(plan.clear))
    if plan.write:
        lines = [b"%s %s\t%s\0" % (side.mode.encode(), side.blob.encode(), path) for path, side in plan.write.items()]
        await shadow.script(_WRITE, stdin=b"".join(lines), index=f"{shadow.git_dir}/{shadow.key}.restore")
    for mode, paths in sorted(_by_mode(plan).items()):
        await shadow.script(_PERMIT, [f"{mode:04o}"], stdin=_dotted(paths))


async def contents_of(shadow: Shadow, directories: list[bytes]) -> Contents:
    """Return all files below each of these directories."""
    if not directories:
        return {}
    found: dict[bytes, list[bytes]] = {}
    here: list[bytes] = []
    fields = (await shadow.script(_CONTENTS, stdin=_dotted(directories))).split(b"\0")[:-1]
    for number, field in enumerate(fields):
        if not field:
            continue
        if number + 1 < len(fields) and not fields[number + 1]:
            here = found.setdefault(field[2:], [])
        else:
            here.append(field[2:])
    return found


def _by_mode(plan: RestorePlan) -> dict[int, list[bytes]]:
    groups: defaultdict[int, list[bytes]] = defaultdict(list)
    for path, mode in plan.permit.items():
        written = plan.write.get(path)
        if written is None or mode != modes.permissions({}, path, written.mode):
            groups[mode].append(path)
    return dict(groups)


def _dotted(paths: set[bytes] | list[bytes]) -> bytes:
    """Return paths as input that no tool mistakes for an option."""
    return names.joined([b"./" + path for path in sorted(paths)])
