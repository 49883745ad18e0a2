"""Scans a workspace: what changed since the last scan, and the tree that holds it now.

git's own index is the stat cache; Python sees only paths that git reports as new, changed or gone.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from shiftlog.model.shell_errors import CheckpointTooLarge
from shiftlog.workspace import modes, names
from shiftlog.workspace.index import BEGIN, read_files, write_tree
from shiftlog.workspace.ports import CheckpointLimits, FileStat
from shiftlog.workspace.rules import is_capturable
from shiftlog.workspace.shadow import Shadow, ShadowBroken
from shiftlog.workspace.tables import EMPTY_BLOB, LISTED, ModesCache, load_tables

PHANTOM = b".shiftlog-phantom"
_NO_STATE = 10
ROUNDS = 64

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
git diff-files --ignore-submodules=all -z >"$dirty" &
looking=$!
git ls-files -z -o "$@" || exit 11
wait "$looking" || exit 12
printf '\\0'
if [ -s "$dirty" ]; then cat "$dirty" || exit 12; fi
"""

# An entry below a nested repository makes git walk it like any other directory.
_PHANTOMS = f"""
{BEGIN}
shift
git update-index -z --index-info || exit 20
git ls-files -z -o "$@" || exit 11
"""

_KEEP_STATE = """
cat >"$1" || exit 24
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexState:
    """The contents of a scope's index; of `recent` files git knows no times to trust, so their signatures count."""

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
class Sorted:
    """The findings of a scan, by what happens to them."""

    update: list[bytes] = field(default_factory=list[bytes])
    drop: list[bytes] = field(default_factory=list[bytes])
    too_large: list[bytes] = field(default_factory=list[bytes])
    uncaptured: list[bytes] = field(default_factory=list[bytes])
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
    look = await _look(shadow, seen, limits, set(forced), list(created), list(drop))
    found, state = look.found, seen.state
    await load_tables(shadow, cache, state.tree)
    around = modes.beside(*await cache.directories(shadow), (*found.too_large, *found.uncaptured))
    if state.tree and not found.update and not found.drop and around == cache.tables.beside:
        changed = bool(state.recent) and not look.recent
        return _scan(replace(state, recent=look.recent), seen, found, changed=changed)
    files = state.files + found.added - found.removed
    await _check_size(shadow, state, found, files, limits)
    change = await read_files(shadow, found.update, found.drop, look.facts, limits, again=look.again)
    table = dict(cache.tables.modes) if table is None else table
    dropped = {*found.drop, *change.gone}
    for path in dropped:
        table.pop(path, None)
    for folder in await cache.forget_directories(shadow, dropped):
        around.pop(folder, None)
    for path, fact in change.facts.items():
        modes.note(table, path, fact)
    around |= modes.beside(*await cache.new_directories(shadow, change.facts))
    tree, recent = await write_tree(
        shadow, cache, modes.SideTables(modes=table, beside=around), change, {**look.recent, **change.recent}
    )
    size = state.size_bound + found.size
    state = IndexState(tree=tree, files=files - len(change.gone), size_bound=size, recent=recent)
    return _scan(state, seen, found, changed=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """The result of a scan: the state of the files, those still recent, and those to read although git trusts them."""

    found: Sorted
    facts: dict[bytes, FileStat]
    recent: dict[bytes, str]
    again: set[bytes]


async def _look(
    shadow: Shadow,
    seen: GitStatus,
    limits: CheckpointLimits,
    forced: set[bytes],
    created: list[bytes],
    drop: list[bytes],
) -> _Look:
    suspects, recent = await _recent(shadow, seen.state)
    dirty = seen.dirty
    if shadow.work.directory is not None:
        dirty = {path: status for path, status in dirty.items() if status != "M" or path not in recent}
    others, phantoms = await _walk_nested(shadow, seen.others)
    others = list(dict.fromkeys([*others, *created]))
    candidates = list(dict.fromkeys([*dirty, *others, *forced, *suspects]))
    stats = await shadow.work.stats(candidates)
    below = await _below_links(shadow, candidates, stats, set(others), seen)
    found = Sorted(drop=[*drop, *phantoms], removed=len(set(drop)))
    _sort([*candidates, *below], [*stats, *[None] * len(below)], dirty, set(others), limits, found)
    facts = {path: stat for path, stat in zip(candidates, stats, strict=True) if stat is not None}
    return _Look(found=found, facts=facts, recent=recent, again=(forced | suspects) - dirty.keys())


async def keep_state(shadow: Shadow, scan: TreeScan) -> None:
    """Write the state of the index, so that the next scan can start from it."""
    if scan.changed:
        await shadow.script(_KEEP_STATE, [shadow.state_file], stdin=scan.state.encoded())


async def _recent(shadow: Shadow, state: IndexState) -> tuple[set[bytes], dict[bytes, str]]:
    """Return the recent files that may have changed unnoticed, and those that are still recent.

    On this machine an entry has no times until a refresh, so its file stays recent.
    """
    paths, here = list(state.recent), shadow.work.directory is not None
    stats = await shadow.work.stats(paths, signed=True) if paths else []
    pairs = zip(paths, stats, strict=True)
    files = [(path, stat) for path, stat in pairs if stat is not None and stat.kind in ("file", "link")]
    suspects = {path for path, stat in files if not stat.signature or stat.signature != state.recent[path]}
    return suspects, {path: stat.signature for path, stat in files if (here or stat.fresh) and path not in suspects}


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
    output = await shadow.script(LISTED, stdin=names.joined(links))
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


async def _check_size(shadow: Shadow, state: IndexState, found: Sorted, files: int, limits: CheckpointLimits) -> None:
    size = state.size_bound + found.size
    if size > limits.tree_bytes and state.tree:
        but = {*found.update, *found.drop}
        held = [path for path in names.split(await shadow.script("git ls-files -z || exit 27")) if path not in but]
        stats = await shadow.work.stats(held)
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
