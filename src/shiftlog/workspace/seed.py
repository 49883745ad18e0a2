"""The first scan of a workspace: starts from the user's own git repository, if there is one.

The user's index gives the blob and stat data of each file, and its objects are borrowed. Files that the user's git
converts (line ends, filters) are read again, because a checkpoint keeps bytes.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from shiftlog.workspace import modes, names
from shiftlog.workspace.ports import CheckpointLimits, FileSurvey
from shiftlog.workspace.rules import roots
from shiftlog.workspace.scan import (
    GitStatus,
    IndexState,
    TreeScan,
    check_limits,
    read_raw,
    read_status,
    update_index,
)
from shiftlog.workspace.shadow import Shadow, ShadowBroken
from shiftlog.workspace.tables import EMPTY_BLOB, TREE_LINES, ModesCache, table_blobs

_NO_VALUE = (b"unspecified", b"unset")
_ATTRIBUTE_FILE = b".gitattributes"

# The beginning of a `git ls-files -z -s -v` line for a plain file or link whose working copy git trusts; then follow
# the blob, the stage (0 for these) and the path.
_FIT = (b"H 100644 ", b"H 100755 ", b"H 120000 ")
_BLOB, _PATH = slice(9, 49), slice(52, None)

# Only regular files are read, and little of them: a pipe would be waited for, and a device never ends.
INDEX_BLOCKS = 2 << 20  # of 512 bytes

_GIT = """
first_line() { line=; [ -f "$1" ] && line=$(dd if="$1" bs=4096 count=1 2>/dev/null) && line=${line%%"$newline"*}; }
newline='
'
git=.git
if [ -f .git ]; then first_line .git; git=${line#gitdir: }; fi
"""

# `cp -p` keeps the index's own time, by which git knows which entries it must not trust. Links to the user's packs
# outlive the user's repository; they have their own directory, so that git never refreshes their times. The caller
# waits for this script, so each program start costs.
_BORROW = f"""
for file in "$GIT_INDEX_FILE" "$GIT_INDEX_FILE.lock" "$1"; do
  [ ! -e "$file" ] || rm -f "$file" || exit 30
done
[ -e .git ] || exit 30
{_GIT}
common=$git
if first_line "$git/commondir"; then
  case $line in /*) common=$line ;; *) common=$git/$line ;; esac
fi
[ ! -e "$common/objects/info/alternates" ] || exit 30
[ -d "$common/objects" ] && [ -n "$(find "$git/index" -type f -size -{INDEX_BLOCKS} 2>/dev/null)" ] || exit 30
if [ -f "$common/config" ]; then
  case $(dd if="$common/config" bs=65536 count=1 2>/dev/null) in *[sS][hH][aA]256*) exit 30 ;; esac
fi
objects=$(cd -P -- "$common/objects" && pwd -P) || exit 30
case $objects in *[:\\"]* | *'
'*) exit 30 ;; esac
mkdir -p "$GIT_DIR/borrowed/pack" && printf '%s\\n' "$objects" >"$GIT_DIR/lender" || exit 30
set --
for index in "$objects"/pack/pack-*.idx; do
  [ -f "$index" ] && [ $# -lt 128 ] || break
  set -- "$@" "${{index%.idx}}.pack" "$index"
done
[ $# -eq 0 ] || ln "$@" "$GIT_DIR/borrowed/pack/" 2>/dev/null
cp -p "$git/index" "$GIT_INDEX_FILE" || exit 30
"""

# Forget a lender that is gone; the packs linked from it stay.
_EMPTY = """
[ -z "$lender" ] || [ -d "$lender" ] || rm -f "$GIT_DIR/lender"
rm -f "$GIT_INDEX_FILE" "$GIT_INDEX_FILE.lock" "$1" && git read-tree --empty || exit 31
"""

# Finds the tree of the last commit by reading files: git must never run under a configuration in the workspace.
_HEAD = """
tree= head= common=$git
if first_line "$git/commondir"; then
  case $line in /*) common=$line ;; *) common=$git/$line ;; esac
fi
first_line "$git/HEAD"
head=$line
case $head in
'ref: '*)
  name=${head#ref: } head=
  if first_line "$common/$name"; then head=$line
  elif [ -f "$common/packed-refs" ]; then
    head=$(dd if="$common/packed-refs" bs=1048576 count=16 2>/dev/null | while read -r found of; do
      if [ "$of" = "$name" ]; then printf %s "$found"; break; fi
    done)
  fi ;;
esac
tree=$(git rev-parse -q --verify "$head^{tree}" 2>/dev/null)
"""

# Runs everything that needs only the index concurrently: the last commit's tree if the index equals it, all files that
# the rules include, and the differences from the index. The files are listed as if none were tracked, which also finds
# new files; a tracked file that is not listed is gone or excluded. The checkpoint tree of usual files is made here too.
# Submodules are not looked at: git would run `git status` there, and with it the programs that they configure.
_WATCH = f"""
{_GIT}
position=$1 key=$2
shift 2
git -c core.preloadIndex=false diff-files --ignore-submodules=all -z >"$GIT_DIR/seed.dirty" &
looking=$!
(
{_HEAD}
printf '%s\\n' "$tree" >"$GIT_DIR/owed" || exit 30
[ -n "$tree" ] && git diff-index --cached --quiet "$tree" || exit 0
unset GIT_ALTERNATE_OBJECT_DIRECTORIES
made=$(printf '{TREE_LINES}' "$tree" {EMPTY_BLOB} {EMPTY_BLOB} | git mktree --missing) || exit 30
printf '%s\\n' "$made" >"$GIT_DIR/refs/tips/$key" && printf '%s\\n' "$made" "$tree" || exit 30
) >"$GIT_DIR/seed.trees" &
comparing=$!
GIT_INDEX_FILE=$GIT_DIR/seed.none git ls-files -z -o "$@" && printf '\\0' || {{ wait; exit 30; }}
wait "$comparing" && wait "$looking" || exit 30
made= whole=
if [ -s "$GIT_DIR/seed.trees" ]; then {{ IFS= read -r made && IFS= read -r whole; }} <"$GIT_DIR/seed.trees"; fi
[ -z "$position" ] || [ ! -f "$GIT_DIR/refs/checkpoints/$position" ] || printf 1
printf '\\0%s\\0%s\\0' "$made" "$whole"
if [ -s "$GIT_DIR/seed.dirty" ]; then cat "$GIT_DIR/seed.dirty" || exit 30; fi
"""

# Tracked files that a rule excludes, and new files, according to git.
_EXACT = """
git ls-files -z -c -i "$@" || exit 30
printf '\\0'
git ls-files -z -o "$@" || exit 30
"""

_SIZES = "git cat-file --batch-check='%(objectsize)' --buffer || exit 30"

# A clean workspace is the user's last commit: its tree needs no writing.
_ADOPT = f"""
tree=$(printf '{TREE_LINES}' "$1" "$2" "$4" | git mktree --missing) || exit 30
printf '%s\\n' "$tree" >"$GIT_DIR/refs/tips/$3" || exit 30
printf '%s' "$tree"
"""

_REGULAR = 'for file do if [ -f "$file" ]; then dd if="$file" bs=65536 count=1; fi; done'

# Prints 1 if attributes may convert files: those of the user, of the repository, or of the project's own attribute
# files (named on standard input) that mention a filter or encoding.
_SPOKEN = f"""
cd -P -- "$1" || exit 30
{_GIT}
[ -f "$git/info/attributes" ] || [ -f /etc/gitattributes ] || [ -f "$HOME/.config/git/attributes" ] ||
  (cd / && git config --global core.attributesFile || git config --system core.attributesFile) >/dev/null ||
  {{ [ -n "$2" ] && xargs -0 sh -c "$3" sh 2>/dev/null | grep -q -e filter -e encoding; }} || exit 0
printf 1
"""

# Attributes are read through an empty repository, so that nothing the project configures can run.
_ATTRIBUTES = f"""
cd -P -- "$1" || exit 30
{_GIT}
plain=$2/plain
mkdir -p "$plain/objects" "$plain/refs" "$plain/info" && echo 'ref: refs/heads/none' >"$plain/HEAD" || exit 30
rm -f "$plain/info/attributes"
if [ -f "$git/info/attributes" ]; then
  dd if="$git/info/attributes" of="$plain/info/attributes" bs=1048576 count=1 2>/dev/null || exit 30
fi
set -- -c core.fsmonitor=false check-attr -z --stdin filter working-tree-encoding
git --git-dir="$plain" --work-tree=. "$@" || exit 30
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tracked:
    """The user's index: usable entries, and the names of files that must be read."""

    paths: list[bytes]
    blobs: list[bytes]
    unfit: list[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    """Facts about tracked files: on disk, in their blobs, and their filters."""

    survey: FileSurvey
    sizes: list[int]
    filtered: set[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watched:
    """The workspace compared with the index; `whole` is the last commit's tree, `made` its checkpoint, if equal."""

    whole: str
    made: str
    position_stored: bool
    files: bytes
    dirty: dict[bytes, str]


async def first_scan(
    shadow: Shadow, cache: ModesCache, position: str | None, limits: CheckpointLimits, *, borrow: bool = True
) -> TreeScan:
    """Capture a workspace for the first time; falls back to reading every file."""
    if borrow:
        try:
            return await _borrowed(shadow, cache, position, limits)
        except ShadowBroken:
            pass  # no usable repository: every file is read instead
    await shadow.script(_EMPTY, [shadow.state_file])
    seen = await read_status(shadow, position, new=True)
    assert seen is not None
    return await update_index(shadow, cache, seen, limits, table={})


async def _borrowed(shadow: Shadow, cache: ModesCache, position: str | None, limits: CheckpointLimits) -> TreeScan:
    await shadow.script(_BORROW, [shadow.state_file])
    async with _side_by_side() as steps:
        watching = steps.create_task(_watch(shadow, position))
        knowing = steps.create_task(_known(shadow))
    watched, (tracked, facts) = watching.result(), knowing.result()
    if tracked.unfit:
        # Submodules, conflicts and entries that hide their files are read from the disk.
        unfit = names.joined(tracked.unfit)
        await shadow.script("git update-index -z --force-remove --stdin || exit 30", stdin=unfit)
        watched = await _watch(shadow, position)
    others, drop = await _sides(shadow, tracked, watched)
    filtered = facts.filtered
    if any(path.endswith(_ATTRIBUTE_FILE) for path in others):
        filtered = await _filtered(shadow, tracked.paths, others)
    table: modes.Modes = {}
    for path, stat in facts.survey.unusual.items():
        modes.note(table, path, stat)
    cache.folders = names.folders(tracked.paths)
    forced = filtered | _converted(tracked, facts, limits)
    started = GitStatus(
        state=IndexState(files=len(tracked.paths), size_bound=sum(facts.survey.sizes) + facts.survey.sizes.count(-1)),
        position_stored=watched.position_stored,
        others=others,
        dirty={path: status for path, status in watched.dirty.items() if path not in drop},
    )
    if watched.whole and not (forced or drop or started.others or started.dirty):
        return await _adopt(shadow, cache, started, watched, table, limits)
    return await update_index(shadow, cache, started, limits, forced=forced - drop, drop=drop, table=table)


@asynccontextmanager
async def _side_by_side() -> AsyncGenerator[asyncio.TaskGroup]:
    """Run steps concurrently; if one fails, end the others and raise its error."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None


async def _known(shadow: Shadow) -> tuple[_Tracked, _Facts]:
    tracked = _read_index(await shadow.script("git ls-files -z -s -v || exit 30"), roots(shadow.scope.paths))
    async with _side_by_side() as steps:
        sizing = steps.create_task(shadow.script(_SIZES, stdin=b"\n".join(tracked.blobs)))
        asking = steps.create_task(_filtered(shadow, tracked.paths))
        surveying = steps.create_task(shadow.work.survey(tracked.paths))
    lines = sizing.result().split(b"\n")[:-1]
    try:
        sizes = [*map(int, lines)]
    except ValueError:
        # A missing blob has no size; its file is read like a converted one.
        sizes = [int(line) if line.isdigit() else -2 for line in lines]
    return tracked, _Facts(survey=surveying.result(), sizes=sizes, filtered=asking.result())


def _read_index(listed: bytes, inside: tuple[bytes, ...]) -> _Tracked:
    lines = names.split(listed)
    fit, unfit = lines, list[bytes]()
    counted = listed.startswith(_FIT) + sum(listed.count(b"\0" + head) for head in _FIT)
    if inside or counted < len(lines):
        fit = [line for line in lines if line.startswith(_FIT) and names.within(line[_PATH], inside)]
        unfit = [*{line.partition(b"\t")[2] for line in lines}.difference([line[_PATH] for line in fit])]
    return _Tracked(paths=[line[_PATH] for line in fit], blobs=[line[_BLOB] for line in fit], unfit=unfit)


async def _watch(shadow: Shadow, position: str | None) -> _Watched:
    output = await shadow.script(_WATCH, [position or "", shadow.key, *shadow.excludes(), *shadow.pathspec()])
    files, _, rest = (b"", b"", output[1:]) if output.startswith(b"\0") else output.partition(b"\0\0")
    stored, made, whole, dirty = rest.split(b"\0", 3)
    return _Watched(
        whole=whole.decode(),
        made=made.decode(),
        position_stored=stored == b"1",
        files=files + b"\0" if files else b"",
        dirty=read_raw(dirty),
    )


async def _sides(shadow: Shadow, tracked: _Tracked, watched: _Watched) -> tuple[list[bytes], set[bytes]]:
    """Return the new files, and the tracked files that a rule excludes.

    The walk ignored the index, so if a tracked file is missing in it, or a nested repository hides files, git is asked
    again.
    """
    if watched.files == names.joined(tracked.paths):
        return [], set()
    walked, known = names.split(watched.files), set(tracked.paths)
    others = [name for name in walked if name not in known]
    missing = known.difference(walked)
    if any(watched.dirty.get(name) != "D" for name in missing) or any(name.endswith(b"/") for name in others):
        output = await shadow.script(_EXACT, [*shadow.excludes(), *shadow.pathspec()])
        ignored, _, rest = (b"", b"", output[1:]) if output.startswith(b"\0") else output.partition(b"\0\0")
        return names.split(rest), set(ignored.split(b"\0")) - {b""}
    return others, set()


def _converted(tracked: _Tracked, facts: _Facts, limits: CheckpointLimits) -> set[bytes]:
    """Return files that may differ from their blob, and those that are too large.

    Rewritten line ends and keywords change the size; a filter may not, so attributes are checked too.
    """
    found = {path for path, stat in facts.survey.unusual.items() if stat.fresh}
    sizes = facts.survey.sizes
    if sizes != facts.sizes or max(sizes, default=0) > limits.file_bytes:
        found |= {
            path
            for path, size, blob_size in zip(tracked.paths, sizes, facts.sizes, strict=True)
            if size >= 0 and (size != blob_size or size > limits.file_bytes)
        }
    return found


async def _adopt(
    shadow: Shadow, cache: ModesCache, seen: GitStatus, watched: _Watched, table: modes.Modes, limits: CheckpointLimits
) -> TreeScan:
    state = seen.state
    check_limits(state.files, state.size_bound, limits)
    tables = modes.SideTables(modes=table, beside=modes.beside(*await cache.directories(shadow)))
    blob, beside = await table_blobs(shadow, cache, tables)
    tree = watched.made
    if (blob, beside) != (EMPTY_BLOB, EMPTY_BLOB):
        tree = (await shadow.script(_ADOPT, [watched.whole, blob, shadow.key, beside], writes=True)).decode()
    cache.keep(tree, tables)
    return TreeScan(
        state=replace(state, tree=tree),
        changed=True,
        position_stored=seen.position_stored,
        too_large=(),
        uncaptured=(),
    )


async def _filtered(shadow: Shadow, paths: list[bytes], others: Sequence[bytes] = ()) -> set[bytes]:
    """Return the files for which git would run a filter or change the encoding."""
    named = [path for path in (*paths, *others) if path.endswith(_ATTRIBUTE_FILE)]
    if await _ask(shadow, _SPOKEN, ["1" if named else "", _REGULAR], names.joined(named)):
        fields = (await _ask(shadow, _ATTRIBUTES, [shadow.git_dir], names.joined(paths))).split(b"\0")[:-1]
        return {path for path, value in zip(fields[::3], fields[2::3], strict=True) if value not in _NO_VALUE}
    return set()


async def _ask(shadow: Shadow, script: str, arguments: list[str], stdin: bytes) -> bytes:
    """Run a script with the user's own git settings."""
    root = shadow.location.path if shadow.work.directory is None else "."
    ran = await shadow.run(["sh", "-c", script, "sh", root, *arguments], stdin=stdin)
    if ran.exit_code != 0:
        raise ShadowBroken("attributes of the user's repository", ran)
    return ran.stdout
