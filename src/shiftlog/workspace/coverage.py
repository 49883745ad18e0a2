"""Counts the files that a checkpoint does not hold, so that results can tell what an undo does not cover."""

from shiftlog.workspace import names
from shiftlog.workspace.results import NotCovered
from shiftlog.workspace.rules import is_secret
from shiftlog.workspace.scan import EMPTY_BLOB, PHANTOM, ROUNDS, TreeScan
from shiftlog.workspace.shadow import Shadow

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
        named = await _named(shadow, folded)
        unnamed = {name.rstrip(b"/") for name in folded if name not in named}
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


async def _excluded(shadow: Shadow, opened: set[bytes]) -> list[bytes]:
    stdin = b"".join(b"100644 %s\t%s/%s\0" % (EMPTY_BLOB.encode(), name, PHANTOM) for name in sorted(opened))
    copy = f"{shadow.git_dir}/{shadow.key}.cover"
    source = shadow.environment()["GIT_INDEX_FILE"]
    return names.split(
        await shadow.script(_LIST, [source, *shadow.excludes(), *shadow.pathspec()], stdin=stdin, index=copy)
    )


async def _named(shadow: Shadow, folded: list[bytes]) -> set[bytes]:
    """Return those of the fully excluded directories that a rule names."""
    if not folded:
        return set()
    stdin = names.joined([b"./" + name.rstrip(b"/") for name in folded])
    fields = (await shadow.script(_NAMED, [shadow.exclude_path], stdin=stdin)).split(b"\0")
    rules = zip(fields[0:-1:4], fields[2::4], fields[3::4], strict=True)
    return {path[2:] + b"/" for source, pattern, path in rules if source and not pattern.startswith(b"!")}
