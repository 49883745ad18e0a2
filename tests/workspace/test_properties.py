"""Random trees and random edits: going back gives the saved tree byte for byte, modes included."""

# ruff: noqa: PTH101, PTH102, PTH103, PTH104, PTH108, PTH112, PTH113, PTH114, PTH118, PTH120, PTH123, PTH211
# File names here are bytes, which pathlib does not take.

import asyncio
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from shiftlog.model.shell_errors import NothingToRestore
from shiftlog.workspace import names
from tests.workspace.yard import Yard, local_runner, shell_runner, tree_of

PARTS = [b"a", b"b", b"-x", b"n\nl", b"\xff", b"a b", b".gitattributes"]
NAMES = st.lists(st.sampled_from(PARTS), min_size=1, max_size=3).map(b"/".join)
BYTES = st.one_of(
    st.binary(max_size=20), st.sampled_from([b"", b"one\r\ntwo\n", b"* text eol=crlf ident\n", b"$Id$\n"])
)
MODES = st.sampled_from([0o644, 0o755, 0o600, 0o664, 0o700, 0o444])

WRITE = st.tuples(st.just("write"), NAMES, BYTES, MODES)
CHMOD = st.tuples(st.just("chmod"), NAMES, st.just(b""), MODES)
LINK = st.tuples(st.just("link"), NAMES, st.sampled_from([b"a", b"nowhere", b"../a", b"/etc"]), st.just(0))
DELETE = st.tuples(st.just("delete"), NAMES, st.just(b""), st.just(0))
MOVE = st.tuples(st.just("move"), NAMES, st.sampled_from(PARTS[:4]), st.just(0))
# Nested repositories stay where nothing else goes: nobody removes their `.git`, so no file could come back there.
NESTS = st.sampled_from([b"nest", b"nest/deep/er", b"n2/lib"])
NEST = st.tuples(st.just("nest"), NESTS, st.just(b""), st.just(0))
BACKDATE = st.tuples(st.just("backdate"), NAMES, BYTES, st.just(0))
EDITS = st.lists(st.one_of(WRITE, WRITE, CHMOD, LINK, DELETE, MOVE, NEST, BACKDATE), max_size=6)

Edit = tuple[str, bytes, bytes, int]


def remove(path: bytes) -> None:
    if os.path.islink(path) or os.path.isfile(path):
        os.unlink(path)
    elif os.path.isdir(path):
        shutil.rmtree(path)


def apply(root: Path, edit: Edit) -> None:
    """Do one edit as a user would, whatever is in its way."""
    kind, name, data, mode = edit
    path = os.path.join(os.fsencode(root), name)
    if kind in ("write", "link", "nest", "backdate"):
        for parent in names.parents(name):
            full = os.path.join(os.fsencode(root), parent)
            if os.path.islink(full) or os.path.isfile(full):
                os.unlink(full)
        os.makedirs(os.path.dirname(path), exist_ok=True)
    if kind == "write":
        remove(path)
        with open(path, "wb") as out:
            out.write(data)
        os.chmod(path, mode)
    elif kind == "backdate":
        if not os.path.isdir(path):
            remove(path)
            with open(path, "wb") as out:
                out.write(data)
            os.utime(path, (1_000_000_000, 1_000_000_000))
    elif kind == "link":
        remove(path)
        os.symlink(data, path)
    elif kind == "chmod" and os.path.isfile(path) and not os.path.islink(path):
        os.chmod(path, mode)
    elif kind == "delete":
        remove(path)
    elif kind == "move" and os.path.lexists(path):
        target = os.path.join(os.fsencode(root), b"moved-" + data)
        remove(target)
        os.rename(path, target)
    elif kind == "nest" and not os.path.lexists(os.path.join(path, b".git")) and not os.path.lexists(path):
        os.makedirs(path)
        os.mkdir(os.path.join(path, b".git"))
        for folder in (b"objects", b"refs"):
            os.mkdir(os.path.join(path, b".git", folder))
        with open(os.path.join(path, b".git", b"HEAD"), "wb") as out:
            out.write(b"ref: refs/heads/main\n")
        with open(os.path.join(path, b"inner"), "wb") as out:
            out.write(b"nested")


async def live(root: Path, rounds: list[list[Edit]], order: list[int], *, remote: bool, repository: bool) -> None:
    workspace = root / "app"
    workspace.mkdir()
    yard = Yard(path=workspace, data=root / "data", runner=(shell_runner if remote else local_runner)(root / "home"))
    saved: list[tuple[str, dict[bytes, tuple[str, int, bytes]]]] = []
    for number, edits in enumerate(rounds):
        for edit in edits:
            apply(workspace, edit)
        if number == 0:
            if repository:
                yard.git("init", "-q")
                yard.git(
                    "add", "-A", "--", ".", ":!nest", ":!n2"
                )  # git itself stumbles over a repository without a commit
                yard.git("commit", "-q", "--allow-empty", "-m", "x")
            await yard.open()
        made = await yard.save(kind="manual" if number % 2 else "auto")
        tree = tree_of(workspace)
        assert made.files == len(tree)
        saved.append((made.checkpoint_id, tree))
    for number in order:
        checkpoint_id, tree = saved[number % len(saved)]
        before = tree_of(workspace)
        preview = await yard.restore(checkpoint_id, clean=True, dry_run=True)
        assert tree_of(workspace) == before
        result = await yard.restore(checkpoint_id, clean=True)
        assert tree_of(workspace) == tree
        assert result.changes == preview.changes
        assert {names.read(change.path) for change in result.changes} == {
            path for path in before.keys() | tree.keys() if before.get(path) != tree.get(path)
        }
        assert result.safety_checkpoint_id is not None
        await yard.restore(result.safety_checkpoint_id, clean=True)
        assert tree_of(workspace) == before
        await yard.restore(checkpoint_id, clean=True)
    try:
        await yard.restore(clean=True)
    except NothingToRestore:
        pass


# Not shrunk: an example costs a second, and the edits of a failing one are short enough to read.
@pytest.mark.long
@settings(max_examples=10, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(
    rounds=st.lists(EDITS, min_size=2, max_size=4),
    order=st.lists(st.integers(0, 3), min_size=1, max_size=2),
    remote=st.booleans(),
    repository=st.booleans(),
)
def test_any_saved_tree_comes_back_exactly(
    rounds: list[list[Edit]], order: list[int], remote: bool, repository: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(live(Path(folder), rounds, order, remote=remote, repository=repository))


@given(st.binary(min_size=1))
def test_a_shown_name_reads_back_to_the_same_bytes(name: bytes) -> None:
    assert names.read(names.shown(name)) == name
    assert names.shown(name).isprintable() or any(ord(char) > 127 for char in names.shown(name))
