"""Files outside a checkpoint: counted, so that results can tell it, and found, so that no undo removes it."""

from collections.abc import Collection, Iterable

from shiftlog.workspace import names
from shiftlog.workspace.modes import read_tables
from shiftlog.workspace.results import NotCovered
from shiftlog.workspace.rules import is_secret
from shiftlog.workspace.scan import PHANTOM, ROUNDS, TreeScan
from shiftlog.workspace.shadow import Shadow
from shiftlog.workspace.tables import EMPTY_BLOB

# Works on a copy of the index: entries below a directory keep git from folding it into one name.
_LIST = """
cp "$1" "$GIT_INDEX_FILE" || exit 60
shift
git -c core.splitIndex=false update-index -z --index-info || exit 61
git ls-files -z -o -i --directory --no-empty-directory "$@" || exit 62
rm -f "$GIT_INDEX_FILE"
"""

# Exit 1 means that none is ignored. This command has no literal paths, so `./` is prepended.
_NAMED = """
unset GIT_LITERAL_PATHSPECS
git -c core.excludesFile="$1" check-ignore -z --stdin --no-index -v -n || [ $? -eq 1 ] || exit 63
"""

_TABLES = 'printf "%s\\n" "$1:modes" "$1:beside" | git cat-file --batch || exit 64'

# The rules of a checkpoint are in its own .gitignore files, which are put into a directory of the shadow repository.
_RULES = """
git ls-tree -r -z "$1:files" || exit 65
"""

_LAY_OUT = """
rules=$GIT_DIR/rules
rm -rf "$rules" "$GIT_INDEX_FILE" && mkdir "$rules" || exit 65
git -c core.splitIndex=false update-index -z --index-info || exit 65
git checkout-index -a -f -q --prefix="$rules/" || exit 65
rm -f "$GIT_INDEX_FILE"
"""

_NAMED_THERE = f"""
export GIT_WORK_TREE="$GIT_DIR/rules"
cd "$GIT_WORK_TREE" || exit 65
{_NAMED}
"""


async def count_not_covered(shadow: Shadow, scan: TreeScan, roots: tuple[bytes, ...] = ()) -> NotCovered:
    """Count excluded files and directories; a directory named by a rule counts once."""
    opened = {name.rpartition(b"/")[0] for name in (*scan.too_large, *scan.uncaptured) if b"/" in name}
    secret = ignored = 0
    counted: set[bytes] = set()
    for _ in range(ROUNDS):
        found = [
            name
            for name in await _excluded(shadow, opened)
            if name not in counted and names.within(name.rstrip(b"/"), roots)
        ]
        folded = [name for name in found if name.endswith(b"/") and not is_secret(name, shadow.final_pattern)]
        folders = [name.rstrip(b"/") for name in folded]
        unnamed = set(folders) - await _named(shadow, folders)
        for name in found:
            if name.rstrip(b"/") not in unnamed:
                counted.add(name)
                is_final = is_secret(name, shadow.final_pattern)
                secret += is_final
                ignored += not is_final
        if not unnamed:
            break
        opened |= unnamed
    too_large = sum(names.within(name, roots) for name in scan.too_large)
    ignored += sum(names.within(name, roots) for name in scan.uncaptured)
    return NotCovered(ignored=ignored, secret=secret, too_large=too_large)


async def not_held(shadow: Shadow, paths: Collection[bytes], aim: str) -> set[bytes]:
    """Return those paths that the tree `aim` may have left out, so that they are no newer than it.

    That is what was too large or unreadable then, and what its rules or those of today exclude.
    """
    if not paths:
        return set()
    tables, _ = read_tables(await shadow.script(_TABLES, [aim]))
    found = {path for path in paths if tables.is_left_out(path)}
    await _lay_out_rules(shadow, aim)
    found |= await _named(shadow, paths, _NAMED_THERE)
    if not shadow.scope.include_ignored:
        found |= await _named(shadow, paths, _NAMED)
    return found


async def _lay_out_rules(shadow: Shadow, aim: str) -> None:
    lines: list[bytes] = []
    if not shadow.scope.include_ignored:
        every = names.split(await shadow.script(_RULES, [aim]))
        lines = [line for line in every if line.endswith((b"\t.gitignore", b"/.gitignore")) and line.startswith(b"100")]
    stdin = b"".join(line.replace(b" blob ", b" ", 1) + b"\0" for line in lines)
    await shadow.script(_LAY_OUT, stdin=stdin, index=f"{shadow.git_dir}/{shadow.key}.rules")


async def _excluded(shadow: Shadow, opened: set[bytes]) -> list[bytes]:
    stdin = b"".join(b"100644 %s\t%s/%s\0" % (EMPTY_BLOB.encode(), name, PHANTOM) for name in sorted(opened))
    copy = f"{shadow.git_dir}/{shadow.key}.cover"
    source = shadow.environment()["GIT_INDEX_FILE"]
    return names.split(
        await shadow.script(_LIST, [source, *shadow.excludes(), *shadow.pathspec()], stdin=stdin, index=copy)
    )


async def _named(shadow: Shadow, paths: Iterable[bytes], script: str = _NAMED) -> set[bytes]:
    """Return those paths that a rule names, or one of the directories above them."""
    stdin = names.joined([b"./" + path for path in paths])
    if not stdin:
        return set()
    fields = (await shadow.script(script, [shadow.exclude_path], stdin=stdin)).split(b"\0")
    rules = zip(fields[0:-1:4], fields[2::4], fields[3::4], strict=True)
    return {path[2:] for source, pattern, path in rules if source and not pattern.startswith(b"!")}
