"""Scans a workspace: what changed since the last scan, and the tree that holds it now.

git's own index is the stat cache; Python sees only paths that git reports as new, changed or gone.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from shiftlog.model.shell_errors import CheckpointTooLarge
from shiftlog.workspace import modes, names
from shiftlog.workspace.ports import CheckpointLimits, FileStat
from shiftlog.workspace.rules import is_capturable
from shiftlog.workspace.shadow import READ, Shadow, ShadowBroken

EMPTY_BLOB = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
PHANTOM = b".shiftlog-phantom"
_NO_STATE = 10
ROUNDS = 64
_MANY = 500

# $1 the state file, $2 the current position, $3 "new" to ignore the state; the rest goes to ls-files. Each program
# start costs time: the first line of the state is read without one, the second only if the first announces it.
_STATUS = """
state=$1 position=$2 fresh=$3 dirty=$1.dirty
shift 3
[ -z "$lender" ] || [ -d "$lender" ] || exit 13
if [ "$fresh" != new ]; then
  [ -f "$state" ] && [ -f "$GIT_INDEX_FILE" ] || exit 10
  {
    IFS= read -r line || exit 10
    printf '%s\\n' "$line"
    case $line in *' recent') cat ;; esac
  } <"$state"
fi
printf '\\0'
[ -n "$position" ] && [ -f "$GIT_DIR/refs/checkpoints/$position" ] && printf 1
printf '\\0'
git diff-files -z >"$dirty" &
looking=$!
git ls-files -z -o "$@" || exit 11
wait "$looking" || exit 12
printf '\\0'
if [ -s "$dirty" ]; then cat "$dirty" || exit 12; fi
"""

# The state is emptied before the index changes and written afterwards, so a crash leaves none. A lock file of git is
# stale, because every caller holds ours.
_BEGIN = """
: >"$1" || exit 24
[ ! -f "$GIT_INDEX_FILE.lock" ] || rm -f "$GIT_INDEX_FILE.lock"
"""

_DROP = f"""
{_BEGIN}
git update-index -z --force-remove --stdin || exit 20
"""

# An entry below a nested repository makes git walk it like any other directory.
_PHANTOMS = f"""
{_BEGIN}
shift
git update-index -z --index-info || exit 20
git ls-files -z -o "$@" || exit 11
"""

# Left over from a borrowed first scan: with the trees of the user's last commit in our own pack, writing a tree writes
# only the difference. If they are gone, it writes them all. $4 means many new objects: then one sync of the whole file
# system is shorter than one for each object.
_UPDATE = f"""
{_BEGIN}
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
git -c core.fsync="$fsync" update-index -z --add --remove --replace --stdin || exit 20
files=$(git -c core.fsync="$fsync" write-tree --missing-ok) || exit 21
[ -z "$4" ] || sync -f "$GIT_DIR" 2>/dev/null || sync || exit 29
tree=$(printf '040000 tree %s\\tfiles\\n100644 blob %s\\tmodes\\n' "$files" "$2" | git mktree) || exit 22
printf '%s\\n' "$tree" >"$GIT_DIR/refs/tips/$3" || exit 23
printf '%s' "$tree"
"""

_KEEP_STATE = """
cat >"$1" || exit 24
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexState:
    """What the index of a scope holds; `recent` files are too new for git's timestamps to be trusted."""

    tree: str = ""
    files: int = 0
    size_bound: int = 0
    recent: dict[bytes, str] = field(default_factory=dict[bytes, str])

    def encoded(self) -> bytes:
        """Return the content of the state file."""
        recent = (
            json.dumps({names.shown(path): signature for path, signature in self.recent.items()}) if self.recent else ""
        )
        return f"{self.tree} {self.files} {self.size_bound} {'recent' if recent else '-'}\n{recent}".encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class GitStatus:
    """git's view: the last state, untracked names, and tracked ones with their status letter."""

    state: IndexState
    position_stored: bool
    others: list[bytes]
    dirty: dict[bytes, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeScan:
    """The current tree of a workspace. `changed` means that the state must be written before the next scan."""

    state: IndexState
    changed: bool
    position_stored: bool
    too_large: tuple[bytes, ...]
    uncaptured: tuple[bytes, ...]

    @property
    def tree(self) -> str:
        """The tree of files and modes."""
        return self.state.tree


@dataclass(slots=True, kw_only=True)
class ModesCache:
    """The last modes table of a shadow repository, so that an unchanged one is not read again."""

    tree: str = ""
    blob: str = ""
    table: modes.Modes = field(default_factory=dict[bytes, int])


@dataclass(slots=True, kw_only=True)
class Sorted:
    """The findings of a scan, by what happens to them."""

    update: list[bytes] = field(default_factory=list[bytes])
    drop: list[bytes] = field(default_factory=list[bytes])
    too_large: list[bytes] = field(default_factory=list[bytes])
    uncaptured: list[bytes] = field(default_factory=list[bytes])
    recent: dict[bytes, str] = field(default_factory=dict[bytes, str])
    size: int = 0
    added: int = 0
    removed: int = 0


async def read_status(shadow: Shadow, position: str | None, *, new: bool = False) -> GitStatus | None:
    """Ask git for differences from the index; None if the index has no state yet."""
    arguments = [shadow.state_file, position or "", "new" if new else "", *shadow.excludes(), *shadow.pathspec()]
    try:
        output = await shadow.script(_STATUS, arguments)
    except ShadowBroken as broken:
        if broken.exit_code == _NO_STATE:
            return None
        raise
    text, stored, rest = output.split(b"\0", 2)
    if rest.startswith(b"\0"):
        others, dirty = b"", rest[1:]
    else:
        others, _, dirty = rest.partition(b"\0\0")
        others += b"\0"
    try:
        state = _read_state(text) if text else IndexState()
    except ValueError:
        return None  # torn by a crash
    return GitStatus(state=state, position_stored=stored == b"1", others=names.split(others), dirty=read_raw(dirty))


def _read_state(text: bytes) -> IndexState:
    """Read a state written by `IndexState.encoded`."""
    head, _, rest = text.decode().partition("\n")
    tree, files, size, _ = head.split(" ")
    found: dict[str, str] = json.loads(rest) if rest else {}
    recent = {names.read(path): signature for path, signature in found.items()}
    return IndexState(tree=tree, files=int(files), size_bound=int(size), recent=recent)


def read_raw(output: bytes) -> dict[bytes, str]:
    """Read `git diff-files -z`: path to status letter."""
    fields = output.split(b"\0")
    return {path: head[-1:].decode() for head, path in zip(fields[0:-1:2], fields[1::2], strict=True)}


async def update_index(
    shadow: Shadow,
    cache: ModesCache,
    seen: GitStatus,
    limits: CheckpointLimits,
    *,
    forced: Iterable[bytes] = (),
    created: Iterable[bytes] = (),
    drop: Iterable[bytes] = (),
    table: modes.Modes | None = None,
) -> TreeScan:
    """Bring the index up to date with the workspace and return the tree.

    `forced` files are read again although git trusts them; `created` ones join the index even if a rule excludes them;
    `drop` ones leave it; `table` holds the modes of the index if no tree does.
    """
    suspects, recent = await _recent(shadow, seen.state)
    again = {*forced, *suspects}
    others, phantoms = await _walk_nested(shadow, seen.others)
    others = list(dict.fromkeys([*others, *created]))
    found = Sorted(drop=[*drop, *phantoms], removed=len(set(drop)))
    candidates = list(dict.fromkeys([*seen.dirty, *others, *again]))
    stats = await shadow.runner.stats(shadow.location.path, candidates)
    below = await _below_links(shadow, candidates, stats, set(others), seen)
    _sort([*candidates, *below], [*stats, *[None] * len(below)], seen.dirty, set(others), limits, found)
    found.drop += [path for path in found.update if path in again and path not in seen.dirty]
    state = seen.state
    if state.tree and not found.update and not found.drop:
        changed = bool(state.recent) and not recent
        return _scan(replace(state, recent=recent), seen, found, changed=changed)
    files = state.files + found.added - found.removed
    await _check_size(shadow, state, found, files, limits)
    table = dict(await modes_of(shadow, cache, state.tree)) if table is None else table
    for path in found.drop:
        table.pop(path, None)
    chosen = set(found.update)
    for path, stat in zip(candidates, stats, strict=True):
        if stat is not None and path in chosen:
            modes.note(table, path, stat)
    if found.drop:
        await shadow.script(_DROP, [shadow.state_file], stdin=names.joined(found.drop))
    blob = await table_blob(shadow, cache, table)
    arguments = [shadow.state_file, blob, shadow.key, "many" if len(found.update) > _MANY else ""]
    output = await shadow.script(_UPDATE, arguments, stdin=names.joined(found.update), writes=True)
    cache.tree, cache.blob, cache.table = output.decode(), blob, table
    state = IndexState(
        tree=cache.tree, files=files, size_bound=state.size_bound + found.size, recent={**recent, **found.recent}
    )
    return _scan(state, seen, found, changed=True)


async def keep_state(shadow: Shadow, scan: TreeScan) -> None:
    """Write the state of the index, so that the next scan can start from it."""
    if scan.changed:
        await shadow.script(_KEEP_STATE, [shadow.state_file], stdin=scan.state.encoded())


async def modes_of(shadow: Shadow, cache: ModesCache, tree: str) -> modes.Modes:
    """Return the modes table of a tree."""
    if not tree:
        return {}
    if cache.tree != tree:
        output = await shadow.script('git rev-parse "$1:modes" && git cat-file blob "$1:modes" || exit 25', [tree])
        blob, _, text = output.partition(b"\n")
        cache.tree, cache.blob, cache.table = tree, blob.decode(), modes.decoded(text)
    return cache.table


async def table_blob(shadow: Shadow, cache: ModesCache, table: modes.Modes) -> str:
    """Store a modes table and return its blob."""
    if not table:
        return EMPTY_BLOB
    if cache.blob and cache.table == table:
        return cache.blob
    output = await shadow.script("git hash-object -w --stdin || exit 26", stdin=modes.encoded(table), writes=True)
    return output.decode().strip()


async def _recent(shadow: Shadow, state: IndexState) -> tuple[set[bytes], dict[bytes, str]]:
    """Return the recent files that may have changed unnoticed, and those that are still recent."""
    paths = list(state.recent)
    stats = await shadow.runner.stats(shadow.location.path, paths, signed=True) if paths else []
    files = [(path, stat) for path, stat in zip(paths, stats, strict=True) if stat is not None and stat.kind == "file"]
    suspects = {path for path, stat in files if not stat.signature or stat.signature != state.recent[path]}
    return suspects, {path: stat.signature for path, stat in files if stat.fresh and path not in suspects}


async def _walk_nested(shadow: Shadow, others: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Replace nested repositories, which git reports as one name, by their files."""
    phantoms: list[bytes] = []
    for _ in range(ROUNDS):
        fresh = [name + PHANTOM for name in others if name.endswith(b"/") and name + PHANTOM not in phantoms]
        if not fresh:
            break
        phantoms += fresh
        stdin = b"".join(b"100644 %s\t%s\0" % (EMPTY_BLOB.encode(), name) for name in fresh)
        arguments = [shadow.state_file, *shadow.excludes(), *shadow.pathspec()]
        others = names.split(await shadow.script(_PHANTOMS, arguments, stdin=stdin))
    return [name for name in others if not name.endswith(b"/")], phantoms


async def _below_links(
    shadow: Shadow, candidates: list[bytes], stats: list[FileStat | None], others: set[bytes], seen: GitStatus
) -> list[bytes]:
    """Return tracked files whose directory became a link to itself, which git does not report."""
    pairs = zip(candidates, stats, strict=True)
    links = [path for path, stat in pairs if stat is not None and stat.kind == "link" and path in others]
    if not links or not seen.state.files:
        return []
    output = await shadow.script("xargs -0 git ls-files -z -- || exit 28", stdin=names.joined(links))
    return [path for path in names.split(output) if path not in seen.dirty and path not in others]


def _sort(
    candidates: list[bytes],
    stats: list[FileStat | None],
    dirty: dict[bytes, str],
    others: set[bytes],
    limits: CheckpointLimits,
    found: Sorted,
) -> None:
    for path, stat in zip(candidates, stats, strict=True):
        tracked = path not in others
        if dirty.get(path) == "D" or (tracked and any(parent in others for parent in names.parents(path))):
            found.drop.append(path)  # gone, or a link or file replaced a directory above it
            found.removed += 1
        elif stat is None:
            continue  # came and went; the next status shows it
        elif stat.kind not in ("file", "link") or not is_capturable(path, link=stat.kind == "link"):
            found.uncaptured.append(path)
            found.drop += [path] * tracked
            found.removed += tracked
        elif stat.kind == "file" and stat.size > limits.file_bytes:
            found.too_large.append(path)
            found.drop += [path] * tracked
            found.removed += tracked
        elif not stat.readable:
            found.uncaptured.append(path)
        else:
            found.update.append(path)
            found.size += stat.size
            found.added += not tracked
            if stat.fresh and stat.kind == "file":
                found.recent[path] = stat.signature


async def _check_size(shadow: Shadow, state: IndexState, found: Sorted, files: int, limits: CheckpointLimits) -> None:
    size = state.size_bound + found.size
    if size > limits.tree_bytes and state.tree:
        but = {*found.update, *found.drop}
        held = [path for path in names.split(await shadow.script("git ls-files -z || exit 27")) if path not in but]
        stats = await shadow.runner.stats(shadow.location.path, held)
        size = found.size + sum(stat.size for stat in stats if stat is not None)
    check_limits(files, size, limits)


def check_limits(files: int, size: int, limits: CheckpointLimits) -> None:
    """Raise `CheckpointTooLarge` for a tree beyond a limit."""
    if files > limits.tree_files or size > limits.tree_bytes:
        limit = f"{limits.tree_files} files" if files > limits.tree_files else f"{limits.tree_bytes} bytes"
        raise CheckpointTooLarge(f"workspace exceeds {limit}", details={"files": files, "bytes": size})


def _scan(state: IndexState, seen: GitStatus, found: Sorted, *, changed: bool) -> TreeScan:
    return TreeScan(
        state=state,
        changed=changed,
        position_stored=seen.position_stored,
        too_large=tuple(found.too_large),
        uncaptured=tuple(found.uncaptured),
    )
