"""Stores checkpoints in the shadow repository: makes, checks and removes them, and copies borrowed objects.

A checkpoint is a commit without a parent, so that each can be removed on its own; a ref keeps it.
"""

import secrets
from collections.abc import Collection, Mapping, Sequence
from itertools import islice

from shiftlog.model.limits import CHECKPOINT_KEEPING_S
from shiftlog.model.shell_errors import CheckpointNotFound
from shiftlog.workspace import history, names
from shiftlog.workspace.ports import CheckpointChanges, Record, Saved
from shiftlog.workspace.scan import TreeScan
from shiftlog.workspace.shadow import Shadow, ShadowBroken

CHANGES_MOST = 1_000

# Where files are in a checkpoint's tree, and how git names what happened to one.
_FILES = b"files/"
_CHANGED = {b"A": "create", b"D": "delete"}

# $1 tree, $2 message, $3 the tree to compare with, $4 the state file or nothing. The only wait for the disk is
# here: the objects are already being written (except that of `mktree`, which reads no configuration), so the sync of
# the ref makes them durable too. A `sync` without file arguments waits for everything.
_COMMIT = """
if [ -n "$4" ]; then cat >"$4" || exit 24; fi
git commit-tree "$1" -m "$2" >"$GIT_DIR/made" &
if [ -n "$3" ]; then git diff-tree -r -z --name-status --no-renames "$3" "$1" 2>/dev/null; fi
wait $! || exit 70
IFS= read -r commit <"$GIT_DIR/made" || exit 70
ref=$GIT_DIR/refs/checkpoints/$commit
printf '%s\\n' "$commit" >"$ref" || exit 71
name=${1#??}
tree=$GIT_DIR/objects/${1%"$name"}/$name
[ -f "$tree" ] || tree=$ref
sync "$tree" "$ref" "${ref%/*}" 2>/dev/null || sync || exit 74
printf '%s' "$commit"
"""

_STORED = """
[ -f "$GIT_DIR/refs/checkpoints/$1" ] && git cat-file -e "$2:files" && git cat-file -e "$2:modes" || exit 72
"""

# Repacking copies all reachable objects, also from the lenders; only when they are complete the lenders are removed.
_COPY_BORROWED = """
git repack -a -d -q || exit 73
unset GIT_ALTERNATE_OBJECT_DIRECTORIES
git rev-list --objects --all >/dev/null || exit 75
rm -rf "$GIT_DIR/borrowed" "$GIT_DIR/lender" "$GIT_DIR/owed"
"""

# Creating a directory costs more than creating a file; with all of them present, a small checkpoint creates none.
_SPREAD = """
cd "$GIT_DIR/objects" || exit 79
set --
for high in 0 1 2 3 4 5 6 7 8 9 a b c d e f; do
  for low in 0 1 2 3 4 5 6 7 8 9 a b c d e f; do set -- "$@" "$high$low"; done
done
mkdir -p "$@" || exit 79
"""

_FORGET = """
cd "$GIT_DIR/refs/checkpoints" && xargs rm -f || exit 76
"""


async def commit(shadow: Shadow, scan: TreeScan, compare: str | None) -> tuple[str, dict[bytes, bytes]]:
    """Make a checkpoint of a scan; return its id and what differs from the tree `compare`: names, each with how."""
    stdin = scan.state.encoded() if scan.changed else b""
    state = shadow.state_file if scan.changed else ""
    arguments = [scan.tree, f"checkpoint {secrets.token_hex(8)}", compare or "", state]
    output = await shadow.script(_COMMIT, arguments, stdin=stdin, writes=True)
    *listed, made = output.split(b"\0")
    return made.decode(), dict(zip(listed[1::2], listed[::2], strict=True))


async def check_stored(shadow: Shadow, saved: Saved) -> None:
    """Raise `CheckpointNotFound` if the repository no longer holds a checkpoint."""
    try:
        await shadow.script(_STORED, [saved.checkpoint_id, saved.tree])
    except ShadowBroken:
        where = shadow.location.target or "this machine"
        message = f"checkpoint '{saved.checkpoint_id}' is no longer stored on {where}"
        raise CheckpointNotFound(message, details={"matches": []}) from None


async def stored_ids(shadow: Shadow) -> set[str]:
    """Return the ids of the stored checkpoints; none if the repository is gone."""
    output = await shadow.script('[ ! -d "$GIT_DIR" ] || ls "$GIT_DIR/refs/checkpoints" || exit 77')
    return set(output.decode().split())


async def forget(shadow: Shadow, ids: Collection[str]) -> None:
    """Remove checkpoints and the objects that only they need."""
    if ids:
        await shadow.script(_FORGET, stdin="".join(f"{one}\n" for one in ids).encode())
    await shadow.script(_COPY_BORROWED, limit_s=CHECKPOINT_KEEPING_S)
    await shadow.script("git prune --expire=now || exit 78", limit_s=CHECKPOINT_KEEPING_S)
    await shadow.script(_SPREAD)


async def copy_borrowed(shadow: Shadow) -> None:
    """Copy the objects borrowed from the user's repository, so that changes there cannot damage a checkpoint."""
    await shadow.script(_COPY_BORROWED, limit_s=CHECKPOINT_KEEPING_S)
    await shadow.script(_SPREAD)


async def is_borrowing(shadow: Shadow) -> bool:
    """Return True if checkpoints still need the user's own objects."""
    output = await shadow.script('echo "$lenders$lender"')
    return bool(output.strip())


def changes_since(records: Sequence[Record], changed: Mapping[bytes, bytes]) -> CheckpointChanges | None:
    """Return the files that changed since the last checkpoint, if work is known that went on since then."""
    cause, here = history.working_since(records), history.position(records)
    files = {
        names.shown(path.removeprefix(_FILES)): _CHANGED.get(how, "edit")
        for path, how in islice(changed.items(), CHANGES_MOST)
        if path.startswith(_FILES)
    }
    return CheckpointChanges(since=here.checkpoint_id, cause=cause, files=files) if cause and here and files else None
