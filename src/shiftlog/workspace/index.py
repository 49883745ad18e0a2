"""Puts changed files into the index of a shadow repository, and writes the tree of a checkpoint.

On this machine the files are stored first, through descriptors, and the index gets their ids; elsewhere git reads them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from shiftlog.workspace import modes, names
from shiftlog.workspace.capturing import capture
from shiftlog.workspace.ports import CheckpointLimits, FileStat
from shiftlog.workspace.shadow import READ, Shadow
from shiftlog.workspace.tables import TREE_LINES, ModesCache, table_blobs

_MANY = 500
# So many entries without times are looked at one by one before a refresh gives them times.
REFRESH_AT = 200
_NOTHING = b"0" * 40

# The state is emptied before the index changes and written afterwards, so a crash leaves none. A lock file of git is
# stale, because every caller holds ours.
BEGIN = """
: >"$1" || exit 24
[ ! -f "$GIT_INDEX_FILE.lock" ] || rm -f "$GIT_INDEX_FILE.lock"
"""

_DROP = f"""
{BEGIN}
git update-index -z --force-remove --stdin || exit 20
"""

# Left over from a borrowed first scan: with the trees of the user's last commit in our own pack, writing a tree writes
# only the difference. If they are gone, it writes them all. $4 means many new objects: then one sync of the whole file
# system is shorter than one for each object. $6 means that the files are stored already; their entries then have no
# times, which a refresh ($7) adds by comparing the files with their entries.
_UPDATE = f"""
{BEGIN}
if [ -f "$GIT_DIR/owed" ]; then
  (
{READ}
  IFS= read -r owed <"$GIT_DIR/owed" && [ -n "$owed" ] || exit 0
  git rev-list --objects --filter=blob:none --no-object-names "$owed" >"$GIT_DIR/trees" || exit 0
  git pack-objects -q "$GIT_DIR/objects/pack/pack" <"$GIT_DIR/trees" >/dev/null
  ) 2>/dev/null
  rm -f "$GIT_DIR/owed" "$GIT_DIR/trees"
fi
fsync=loose-object
[ -z "$4" ] || fsync=none
if [ -n "$6" ]; then git update-index -z --index-info || exit 20
else git -c core.fsync="$fsync" update-index -z --add --remove --replace --stdin || exit 20; fi
[ -z "$7" ] || git update-index -q --refresh >/dev/null 2>&1 || :
files=$(git -c core.fsync="$fsync" write-tree --missing-ok) || exit 21
[ -z "$4" ] || sync -f "$GIT_DIR" 2>/dev/null || sync || exit 29
tree=$(printf '{TREE_LINES}' "$files" "$2" "$5" | git mktree) || exit 22
printf '%s\\n' "$tree" >"$GIT_DIR/refs/tips/$3" || exit 23
printf '%s' "$tree"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexChange:
    """Contents of the index: lines for git, the state of the files, those that cannot be trusted yet, those gone."""

    lines: bytes
    facts: dict[bytes, FileStat]
    recent: dict[bytes, str]
    gone: Sequence[bytes] = ()


async def read_files(
    shadow: Shadow,
    update: Sequence[bytes],
    drop: Sequence[bytes],
    facts: dict[bytes, FileStat],
    limits: CheckpointLimits,
    *,
    again: set[bytes],
) -> IndexChange:
    """Read files for the index; git trusts the entries of those in `again`."""
    if shadow.work.directory is not None:
        return await _store(shadow, update, drop, limits)
    drop = [*drop, *(path for path in update if path in again)]
    if drop:
        await shadow.script(_DROP, [shadow.state_file], stdin=names.joined(drop))
    known = {path: facts[path] for path in update}
    fresh = {path: fact.signature for path, fact in known.items() if fact.fresh and fact.kind == "file"}
    return IndexChange(lines=names.joined(list(update)), facts=known, recent=fresh)


async def _store(
    shadow: Shadow, update: Sequence[bytes], drop: Sequence[bytes], limits: CheckpointLimits
) -> IndexChange:
    """Store the files through descriptors; their entries in the index get no times."""
    fsync = "none" if len(update) > _MANY else "loose-object"
    stored = await capture(shadow, update, limits.file_bytes, fsync=fsync)
    removed = [b"0 %s\t%s\0" % (_NOTHING, path) for path in (*drop, *stored.gone)]
    added = [b"%s %s\t%s\0" % (one.mode, one.blob, path) for path, one in stored.files.items()]
    return IndexChange(
        lines=b"".join([*removed, *added]),
        facts={path: one.seen for path, one in stored.files.items()},
        recent={path: one.seen.signature for path, one in stored.files.items()},
        gone=stored.gone,
    )


async def write_tree(
    shadow: Shadow, cache: ModesCache, tables: modes.SideTables, change: IndexChange, recent: dict[bytes, str]
) -> tuple[str, dict[bytes, str]]:
    """Change the index and write the tree that it and the side tables make; return it, and what stays recent."""
    blob, beside = await table_blobs(shadow, cache, tables)
    here = shadow.work.directory is not None
    refresh = here and len(recent) > REFRESH_AT
    many = len(change.facts) > _MANY
    switches = ["many" if many else "", beside, "stored" if here else "", "refresh" if refresh else ""]
    arguments = [shadow.state_file, blob, shadow.key, *switches]
    output = await shadow.script(_UPDATE, arguments, stdin=change.lines, writes=True)
    cache.keep(output.decode(), tables)
    if refresh:
        recent = {path: change.recent[path] for path, fact in change.facts.items() if fact.fresh}
    return cache.tree, recent
