"""Carries out the plan of a restore: on this machine below the workspace's descriptor, elsewhere by scripts.

A path that cannot be changed stops no other; its reason is returned.
"""

import errno
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

from shiftlog.workspace import modes, names
from shiftlog.workspace.differences import Side
from shiftlog.workspace.files import beneath
from shiftlog.workspace.restoring import RestorePlan, dotted
from shiftlog.workspace.shadow import Shadow

# This much content is read from the shadow repository at once; a single file may be larger.
_BLOBS_BYTES = 32 * 1024 * 1024

_REASONS = {
    errno.ELOOP: "a link is in the way",
    errno.ENOTDIR: "a file is in the way",
    errno.EISDIR: "a directory is in the way",
    errno.ENOTEMPTY: "a directory with other files is in the way",
    errno.EACCES: "permission denied",
    errno.EPERM: "the system does not permit it",
    errno.ENOSPC: "the disk is full",
    errno.EROFS: "the file system is read-only",
}

_SIZES = "git cat-file --batch-check='%(objectsize)' || exit 50"
_BLOBS = "git cat-file --batch || exit 50"

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


async def carry_out(shadow: Shadow, plan: RestorePlan) -> dict[bytes, str]:
    """Open up directories, remove, clear, write and permit, in this order; return why paths could not be changed."""
    directory = shadow.work.directory
    if directory is None:
        await _by_scripts(shadow, plan)
        return {}
    failed: dict[bytes, str] = {}
    for path, mode in sorted(plan.opened_up.items()):
        _try(failed, path, beneath.permit, directory, path, mode)
    for path in sorted(plan.remove):
        _try(failed, path, beneath.remove, directory, path)
    for path in plan.clear:
        _try(failed, path, beneath.clear, directory, path)
    await _write(shadow, directory, plan.write, failed)
    for path, mode in plan.permit.items():
        if path not in plan.write:
            _try(failed, path, beneath.permit, directory, path, mode)
    for path, mode in sorted(plan.directories.items(), reverse=True):
        _try(failed, path, beneath.permit, directory, path, mode)
    return failed


def _try(failed: dict[bytes, str], path: bytes, step: Callable[..., None], *arguments: object) -> None:
    try:
        step(*arguments)
    except OSError as error:
        failed[path] = _REASONS.get(error.errno or 0) or (error.strerror or "it could not be written")


async def _write(shadow: Shadow, directory: int, wanted: Mapping[bytes, Side], failed: dict[bytes, str]) -> None:
    stdin = b"".join(side.blob.encode() + b"\n" for side in wanted.values())
    sizes = [int(size) for size in (await shadow.script(_SIZES, stdin=stdin)).split()] if wanted else []
    for batch in _batches(dict(zip(wanted, sizes, strict=True))):
        stdin = b"".join(wanted[path].blob.encode() + b"\n" for path in batch)
        for path, content in zip(batch, _contents(await shadow.script(_BLOBS, stdin=stdin)), strict=True):
            side = wanted[path]
            if side.is_link:
                _try(failed, path, beneath.write_link, directory, path, content)
            else:
                _try(failed, path, beneath.write_file, directory, path, content, side.permissions)


def _batches(sizes: Mapping[bytes, int]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    total = 0
    for path, size in sizes.items():
        if batch and total + size > _BLOBS_BYTES:
            yield batch
            batch, total = [], 0
        batch.append(path)
        total += size
    if batch:
        yield batch


def _contents(output: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(output):
        end = output.index(b"\n", at)
        size = int(output[at:end].rsplit(b" ", 1)[1])
        yield output[end + 1 : end + 1 + size]
        at = end + size + 2


async def _by_scripts(shadow: Shadow, plan: RestorePlan) -> None:
    await _permit(shadow, plan.opened_up)
    if plan.remove:
        await shadow.script(_REMOVE, stdin=dotted(plan.remove))
    if plan.clear:
        await shadow.script(_CLEAR, stdin=dotted(plan.clear))
    if plan.write:
        lines = [b"%s %s\t%s\0" % (side.mode.encode(), side.blob.encode(), path) for path, side in plan.write.items()]
        await shadow.script(_WRITE, stdin=b"".join(lines), index=f"{shadow.git_dir}/{shadow.key}.restore")
    unusual = {
        path: mode
        for path, mode in plan.permit.items()
        if path not in plan.write or mode != modes.permissions({}, path, plan.write[path].mode)
    }
    await _permit(shadow, unusual)
    await _permit(shadow, plan.directories)


async def _permit(shadow: Shadow, wanted: Mapping[bytes, int]) -> None:
    groups: defaultdict[int, list[bytes]] = defaultdict(list)
    for path, mode in wanted.items():
        groups[mode].append(path)
    for mode, paths in sorted(groups.items(), reverse=True):
        await shadow.script(_PERMIT, [f"{mode:04o}"], stdin=_deepest_first(paths))


def _deepest_first(paths: Iterable[bytes]) -> bytes:
    return names.joined([b"./" + path for path in sorted(paths, reverse=True)])
