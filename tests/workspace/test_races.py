"""A program exchanges a directory of the workspace with a link to outside while checkpoints are made and restored."""

import subprocess
from pathlib import Path

import pytest

from shiftlog.model.errors import ShiftlogError
from tests.races import FEW_TRIES, TRIES, exchanging
from tests.workspace.conftest import make_yard
from tests.workspace.yard import Yard, tree_of

SECRET = "outside and none of your business"
NAMES = ("one.txt", "two.sh", "deep/three.txt", "gone.txt")

tries = pytest.mark.parametrize("tries", [FEW_TRIES, pytest.param(TRIES, marks=pytest.mark.guard)])


@pytest.fixture
def raced(tmp_path: Path) -> Yard:
    """A workspace with a directory `sub`, and a link `other` to a directory outside that holds the same names."""
    yard = make_yard(tmp_path, "local")
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    for name in NAMES:
        yard.write(f"sub/{name}", f"inside {name}\n")
        (outside / name).write_text(SECRET)
    (yard.path / "other").symlink_to(outside)
    return yard


@pytest.mark.long
@tries
async def test_a_restore_changes_nothing_outside(raced: Yard, tmp_path: Path, tries: int) -> None:
    raced.write("other-file", "beside\n")
    await raced.open()
    first = await raced.save()
    before = _outside(tmp_path)
    for number in range(tries):
        _settle(raced)
        _disturb(raced.path / "sub", number)
        with exchanging(raced.path / "sub", raced.path / "other"):
            for _ in range(3):
                try:
                    await raced.restore(first.checkpoint_id, clean=True)
                except ShiftlogError:
                    continue
        assert _outside(tmp_path) == before
    _settle(raced)
    await raced.restore(first.checkpoint_id, clean=True)
    assert raced.read("sub/one.txt") == "inside one.txt\n"


@tries
async def test_a_checkpoint_reads_nothing_outside(raced: Yard, tmp_path: Path, tries: int) -> None:
    await raced.open()
    with exchanging(raced.path / "sub", raced.path / "other"):
        for number in range(tries):
            raced.write("other-file", f"beside {number}\n")
            try:
                await raced.save()
            except ShiftlogError:
                continue
    assert SECRET.encode() not in _objects(raced)


def _settle(yard: Yard) -> None:
    """Give both names back their kinds; a restore that was refused midway may have left neither."""
    sub, other = yard.path / "sub", yard.path / "other"
    if sub.is_symlink() and other.is_dir():
        other.rename(yard.path / "third")
        sub.rename(other)
        (yard.path / "third").rename(sub)
    elif sub.is_symlink():
        sub.unlink()
    sub.mkdir(exist_ok=True)


def _disturb(sub: Path, number: int) -> None:
    (sub / "one.txt").write_text(f"{number}")
    (sub / "two.sh").write_text("inside two.sh\n")
    (sub / "two.sh").chmod(0o600 if number % 2 else 0o755)
    (sub / "gone.txt").unlink(missing_ok=True)
    (sub / "deep").mkdir(exist_ok=True)
    (sub / "deep" / "three.txt").write_text(f"{number}")
    (sub / "newer.txt").write_text("newer")


def _outside(tmp_path: Path) -> object:
    outside = tmp_path / "outside"
    return tree_of(outside), sorted((str(path), path.lstat().st_mode) for path in outside.rglob("*"))


def _objects(yard: Yard) -> bytes:
    git_dir = yard.workspace.shadow.git_dir
    argv = ["git", "--git-dir", git_dir, "cat-file", "--batch-all-objects", "--batch"]
    return subprocess.run(argv, check=True, capture_output=True).stdout
