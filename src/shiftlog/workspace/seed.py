"""The first look at a workspace: start from what the user's own repository already knows, where there is one.

The user's index tells which blob a file was and how the file looked then; its objects are borrowed. What the user's
git converts on the way (line ends, filters) is read again, because a checkpoint keeps bytes.
"""

import asyncio
import re
from dataclasses import replace

from shiftlog.workspace import modes, names
from shiftlog.workspace.ports import Limits
from shiftlog.workspace.rules import roots
from shiftlog.workspace.scan import (
    LOOK,
    Look,
    Memory,
    Scan,
    State,
    absorb,
    check_limits,
    look,
    look_arguments,
    read_look,
    table_blob,
)
from shiftlog.workspace.shadow import Shadow, ShadowBroken

_USUAL = (modes.PLAIN, modes.EXECUTABLE)
_NO_VALUE = (b"unspecified", b"unset")

# A line of `git ls-files -z -s -v` about a plain file or link whose working copy git vouches for: blob and path.
_FIT = re.compile(rb"(?:\A|(?<=\0))H (?:100644|100755|120000) ([0-9a-f]{40}) 0\t([^\0]+)\0")

_GIT = """
git=.git
if [ -f .git ]; then IFS= read -r line <.git; git=${line#gitdir: }; fi
"""

# `cp -p` keeps the index's own time, by which git knows which entries it must not trust. Links to the user's packs
# outlive the user's repository; they lie apart, so that git never refreshes their times.
_BORROW = f"""
rm -f "$GIT_INDEX_FILE" "$GIT_INDEX_FILE.lock" "$1"
[ -e .git ] || exit 30
{_GIT}
common=$git
if [ -f "$git/commondir" ]; then
  IFS= read -r line <"$git/commondir"
  case $line in /*) common=$line ;; *) common=$git/$line ;; esac
fi
[ -f "$git/index" ] && [ -d "$common/objects" ] || exit 30
grep -qi 'objectformat *= *sha256' "$common/config" 2>/dev/null && exit 30
objects=$(cd -P -- "$common/objects" && pwd -P) || exit 30
case $objects in *[:\\"]* | *'
'*) exit 30 ;; esac
mkdir -p "$GIT_DIR/borrowed/pack" && printf '%s\\n' "$objects" >"$GIT_DIR/lender" || exit 30
count=0
for index in "$objects"/pack/pack-*.idx; do
  count=$((count + 1))
  [ -f "$index" ] && [ "$count" -le 64 ] || break
  ln "${{index%.idx}}.pack" "$index" "$GIT_DIR/borrowed/pack/" 2>/dev/null || break
done
cp -p "$git/index" "$GIT_INDEX_FILE" || exit 30
git ls-files -z -s -v || exit 30
"""

# A lender that is gone is forgotten; what was linked from it stays.
_EMPTY = """
[ -z "$lender" ] || [ -d "$lender" ] || rm -f "$GIT_DIR/lender"
rm -f "$GIT_INDEX_FILE" "$GIT_INDEX_FILE.lock" "$1" && git read-tree --empty || exit 31
"""

# The tree of the last commit, found by reading files: git must never run under a configuration in the workspace.
_HEAD = """
tree= head= common=$git
if [ -f "$git/commondir" ]; then
  IFS= read -r line <"$git/commondir"
  case $line in /*) common=$line ;; *) common=$git/$line ;; esac
fi
IFS= read -r head <"$git/HEAD"
case $head in
'ref: '*)
  name=${head#ref: } head=
  if [ -f "$common/$name" ]; then IFS= read -r head <"$common/$name"
  elif [ -f "$common/packed-refs" ]; then
    while read -r found of; do
      if [ "$of" = "$name" ]; then head=$found; break; fi
    done <"$common/packed-refs"
  fi ;;
esac
tree=$(git rev-parse -q --verify "$head^{tree}" 2>/dev/null)
"""

# Sizes of the blobs on standard input, tracked files that a rule excludes, the last commit's tree if the index is the
# same, and a look: all at once, since starting programs one by one costs more than some of them take.
_CHECK = f"""
{_GIT}
exec 3<&0
git cat-file --batch-check='%(objectsize)' --buffer <&3 >"$GIT_DIR/seed.sizes" &
sizing=$! state=$1 position=$2
shift 3
git ls-files -z -c -i "$@" >"$GIT_DIR/seed.ignored" &
ignoring=$!
(
{_HEAD}
printf '%s\\n' "$tree" >"$GIT_DIR/owed" || exit 30
[ -z "$tree" ] || ! git diff-index --cached --quiet "$tree" || printf '%s' "$tree"
) >"$GIT_DIR/seed.tree" &
comparing=$!
set -- "$state" "$position" new "$@"
({LOOK}) >"$GIT_DIR/seed.look" || exit 30
wait "$sizing" && wait "$ignoring" && wait "$comparing" || exit 30
cat "$GIT_DIR/seed.tree" && printf '\\0' && cat "$GIT_DIR/seed.sizes" && printf '\\0' || exit 30
cat "$GIT_DIR/seed.ignored" && printf '\\0' && cat "$GIT_DIR/seed.look" || exit 30
"""

# A clean workspace is the user's last commit: its tree needs no writing.
_ADOPT = """
tree=$(printf '040000 tree %s\\tfiles\\n100644 blob %s\\tmodes\\n' "$1" "$2" | git mktree --missing) || exit 30
printf '%s\\n' "$tree" >"$GIT_DIR/refs/tips/$3" || exit 30
printf '%s' "$tree"
"""

# What converts files when the user adds them: attributes of the project, of its repository and of the user. They are
# read through an empty repository, so that nothing the project configures can run. $3 says that the project has some.
_ATTRIBUTES = f"""
cd -P -- "$1" || exit 30
{_GIT}
[ -n "$3" ] || [ -f "$git/info/attributes" ] || [ -f /etc/gitattributes ] || [ -f "$HOME/.config/git/attributes" ] ||
  git config --global core.attributesFile >/dev/null || git config --system core.attributesFile >/dev/null || exit 0
plain=$2/plain
mkdir -p "$plain/objects" "$plain/refs" "$plain/info" && echo 'ref: refs/heads/none' >"$plain/HEAD" || exit 30
rm -f "$plain/info/attributes"
if [ -f "$git/info/attributes" ]; then cp "$git/info/attributes" "$plain/info/attributes" || exit 30; fi
set -- -c core.fsmonitor=false check-attr -z --stdin filter working-tree-encoding
git --git-dir="$plain" --work-tree=. "$@" || exit 30
"""

# Looking at 20,000 files keeps the interpreter busy; programs that start beside it should be on their way first.
_HEAD_START_S = 0.01


async def first_scan(
    shadow: Shadow, memory: Memory, position: str | None, limits: Limits, *, borrow: bool = True
) -> Scan:
    """Capture a workspace of which nothing is known; falls back to reading every file."""
    if borrow:
        try:
            return await _borrowed(shadow, memory, position, limits)
        except ShadowBroken:
            pass  # no repository, or one that cannot be used as it is: every file is read instead
    await shadow.script(_EMPTY, [shadow.state_file])
    seen = await look(shadow, position, new=True)
    assert seen is not None
    return await absorb(shadow, memory, seen, limits, table={})


async def _borrowed(shadow: Shadow, memory: Memory, position: str | None, limits: Limits) -> Scan:
    listed = await shadow.script(_BORROW, [shadow.state_file])
    inside = roots(shadow.scope.paths)
    fit: list[tuple[bytes, bytes]] = _FIT.findall(listed)
    if inside:
        fit = [entry for entry in fit if names.within(entry[1], inside)]
    paths = [path for _, path in fit]
    blobs = b"\n".join([blob for blob, _ in fit])
    if len(paths) < listed.count(b"\0"):
        # Submodules, conflicts, entries that hide their files: whatever is on the disk there is read.
        unfit = {line.partition(b"\t")[2] for line in names.split(listed)}.difference(paths)
        await shadow.script("git update-index -z --force-remove --stdin || exit 30", stdin=names.joined([*unfit]))
    has_attributes = b".gitattributes\0" in listed
    checks = asyncio.gather(
        shadow.script(_CHECK, look_arguments(shadow, position, new=True), stdin=blobs),
        _attributes(shadow, paths, has_attributes=has_attributes),
    )
    await asyncio.wait([checks], timeout=_HEAD_START_S)
    stats = await shadow.runner.stats(shadow.place.path, paths)
    output, attributes = await checks
    whole, sizes, output = output.split(b"\0", 2)
    ignored, _, output = (b"", b"", output[1:]) if output.startswith(b"\0") else output.partition(b"\0\0")
    seen = read_look(output)
    assert seen is not None
    if not has_attributes and any(path.endswith(b".gitattributes") for path in seen.others):
        attributes = await _attributes(shadow, paths, has_attributes=True)
    drop = set(ignored.split(b"\0")) - {b""}
    forced = _filtered(attributes)
    table: modes.Modes = {}
    held = 0
    for path, stat, size in zip(paths, stats, sizes.split(b"\n"), strict=False):
        if stat is None:
            continue
        held += stat.size
        if stat.permissions not in _USUAL:
            modes.note(table, path, stat)
        # Line ends and keywords that were rewritten show in the size; a filter may not, so those were asked for.
        if b"%d" % stat.size != size or stat.fresh or stat.size > limits.file_bytes:
            forced.add(path)
    started = Look(
        state=State(files=len(paths), size_bound=held),
        position_stored=seen.position_stored,
        others=seen.others,
        dirty={path: status for path, status in seen.dirty.items() if path not in drop},
    )
    if whole and not (forced or drop or started.others or started.dirty):
        return await _adopt(shadow, memory, started, whole.decode(), table, limits)
    return await absorb(shadow, memory, started, limits, forced=forced - drop, drop=drop, table=table)


async def _adopt(shadow: Shadow, memory: Memory, seen: Look, whole: str, table: modes.Modes, limits: Limits) -> Scan:
    state = seen.state
    check_limits(state.files, state.size_bound, limits)
    blob = await table_blob(shadow, memory, table)
    tree = (await shadow.script(_ADOPT, [whole, blob, shadow.key], writes=True)).decode()
    memory.tree, memory.blob, memory.table = tree, blob, table
    return Scan(
        state=replace(state, tree=tree),
        changed=True,
        position_stored=seen.position_stored,
        too_large=(),
        uncaptured=(),
    )


async def _attributes(shadow: Shadow, paths: list[bytes], *, has_attributes: bool) -> bytes:
    """Return what git says of the attributes that name a filter or an encoding; nothing where nobody set any."""
    arguments = [shadow.place.path, shadow.git_dir, "yes" if has_attributes else ""]
    ran = await shadow.runner.run(["sh", "-c", _ATTRIBUTES, "sh", *arguments], stdin=names.joined(paths))
    if ran.exit_code != 0:
        raise ShadowBroken("attributes of the user's repository", ran)
    return ran.stdout


def _filtered(output: bytes) -> set[bytes]:
    fields = output.split(b"\0")[:-1]
    if output.count(b"\0unspecified\0") * 3 == len(fields):
        return set()
    return {path for path, value in zip(fields[::3], fields[2::3], strict=True) if value not in _NO_VALUE}
