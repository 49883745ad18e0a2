"""Stores the side tables of checkpoints in the shadow repository, and remembers the last ones."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from shiftlog.workspace import modes, names
from shiftlog.workspace.ports import FileStat
from shiftlog.workspace.shadow import Shadow

EMPTY_BLOB = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"

# A checkpoint's tree, for printf and `git mktree`.
TREE_LINES = r"040000 tree %s\tfiles\n100644 blob %s\tmodes\n100644 blob %s\tbeside\n"

_TABLES = """
printf '%s\\n' "$1:modes" "$1:beside" | git cat-file --batch || exit 25
git ls-tree -r -d -z --name-only "$1:files" || exit 25
"""

# The entries of the index below the given names.
LISTED = "xargs -0 git ls-files -z -- || exit 28"


@dataclass(slots=True, kw_only=True)
class ModesCache:
    """The last side tables of a shadow repository and its directories, so that unchanged ones are not read again."""

    tree: str = ""
    tables: modes.SideTables = field(default_factory=modes.SideTables)
    folders: set[bytes] = field(default_factory=set[bytes])
    blobs: dict[bytes, str] = field(default_factory=dict[bytes, str])

    def keep(self, tree: str, tables: modes.SideTables) -> None:
        """Remember what the last tree was made of; only its own blobs are sure to stay stored."""
        texts = (modes.encoded(tables.modes), modes.encoded(tables.beside or {}))
        self.blobs = {text: blob for text, blob in self.blobs.items() if text in texts}
        self.tree, self.tables = tree, tables

    def forget(self) -> None:
        """Forget the last tree, because the shadow repository no longer holds it."""
        self.tree = ""
        self.blobs.clear()

    async def directories(self, shadow: Shadow) -> tuple[list[bytes], list[FileStat | None]]:
        """Return the directories that hold captured files, and their state."""
        folders = [modes.ROOT, *self.folders]
        return folders, await shadow.work.stats(folders)

    async def new_directories(
        self, shadow: Shadow, files: Iterable[bytes]
    ) -> tuple[list[bytes], list[FileStat | None]]:
        """Add the directories of captured files; return those that were not known, and their state."""
        found = names.folders(files) - self.folders
        self.folders |= found
        return list(found), await shadow.work.stats(list(found))

    async def forget_directories(self, shadow: Shadow, dropped: Collection[bytes]) -> set[bytes]:
        """Forget and return the directories that hold no captured file once these are dropped."""
        above = names.folders(dropped)
        tops = sorted({folder.partition(b"/")[0] for folder in above})
        listed = names.split(await shadow.script(LISTED, stdin=names.joined(tops))) if tops else []
        gone = above - names.folders(set(listed).difference(dropped))
        self.folders -= gone
        return gone


async def load_tables(shadow: Shadow, cache: ModesCache, tree: str) -> None:
    """Fill the cache with the side tables and directories of a tree."""
    if tree and cache.tree != tree:
        output = await shadow.script(_TABLES, [tree])
        cache.tables, rest = modes.read_tables(output)
        cache.tree, cache.folders = tree, set(names.split(rest))


async def _table_blob(shadow: Shadow, cache: ModesCache, table: modes.Modes) -> str:
    """Store a side table and return its blob."""
    if not table:
        return EMPTY_BLOB
    text = modes.encoded(table)
    if text not in cache.blobs:
        output = await shadow.script("git hash-object -w --stdin || exit 26", stdin=text, writes=True)
        cache.blobs[text] = output.decode().strip()
    return cache.blobs[text]


async def table_blobs(shadow: Shadow, cache: ModesCache, tables: modes.SideTables) -> tuple[str, str]:
    """Store both side tables and return their blobs."""
    return await _table_blob(shadow, cache, tables.modes), await _table_blob(shadow, cache, tables.beside or {})
