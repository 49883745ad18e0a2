"""What an undo keeps: files that no checkpoint held, permissions of directories, and a workspace that was deleted."""

import shutil

import pytest

from shiftlog.model.shell_errors import RestoreIncomplete, WorkspaceInvalid
from shiftlog.workspace.ports import CheckpointLimits, Saved
from tests.workspace.yard import Yard, tree_of


async def test_an_ignored_file_stays_when_the_rule_is_gone(yard: Yard) -> None:
    yard.write(".gitignore", "*.log\nsecrets/\n")
    yard.write("sub/.gitignore", "data\n")
    for name in ("a", "old.log", "secrets/deep/token", "sub/data"):
        yard.write(name, "precious\n")
    await yard.open()
    saved = await yard.save()
    (yard.path / ".gitignore").unlink()
    (yard.path / "sub/.gitignore").unlink()
    yard.write("newer", "new\n")
    result = await yard.restore(saved.checkpoint_id, clean=True)
    for name in ("old.log", "secrets/deep/token", "sub/data"):
        assert yard.read(name) == "precious\n"
        assert name in result.left_in_place
    assert not (yard.path / "newer").exists()


async def test_an_ignored_file_stays_after_a_switch_of_branches(yard: Yard) -> None:
    yard.write(".gitignore", "cache.db\n")
    yard.write("a", "1\n")
    yard.git("init", "-q")
    yard.git("add", "-A")
    yard.git("commit", "-qm", "one")
    yard.git("checkout", "-qb", "other")
    yard.git("rm", "-q", ".gitignore")
    yard.git("commit", "-qm", "two")
    yard.git("checkout", "-q", "main")
    yard.write("cache.db", "precious\n")
    await yard.open()
    saved = await yard.save()
    yard.git("checkout", "-q", "other")
    await yard.before_command()
    await yard.restore(saved.checkpoint_id, clean=True)
    assert yard.read("cache.db") == "precious\n"
    assert yard.read(".gitignore") == "cache.db\n"


async def test_a_file_that_todays_rules_exclude_is_not_removed(yard: Yard) -> None:
    yard.write("a", "1\n")
    await yard.open()
    saved = await yard.save()
    yard.write("made.out", "made\n")
    await yard.before_command()
    yard.write(".gitignore", "*.out\n")
    await yard.restore(saved.checkpoint_id, clean=True)
    assert yard.read("made.out") == "made\n"


async def test_a_file_that_was_too_large_is_not_removed_once_it_is_small(yard: Yard) -> None:
    yard.limits = CheckpointLimits(file_bytes=100)
    yard.service = yard.fresh_service()
    yard.write("a", "1\n")
    yard.write("big", "x" * 200)
    await yard.open()
    saved = await yard.save()
    yard.write("big", "small\n")
    await yard.restore(saved.checkpoint_id, clean=True)
    assert yard.read("big") == "small\n"


async def test_an_ignored_file_in_the_way_is_named_and_kept(yard: Yard) -> None:
    yard.write(".gitignore", "place\n")
    yard.write("place", "precious\n")
    yard.write("other/file", "1\n")
    await yard.open()
    saved = await yard.save()
    (yard.path / ".gitignore").unlink()
    shutil.rmtree(yard.path / "other")
    (yard.path / "place").rename(yard.path / "other")
    with_file_in_the_way = (yard.path / "other").read_text()
    yard.write(".gitignore", "other\nplace\n")
    with pytest.raises(RestoreIncomplete, match=r"other/file \(.*\); what was overwritten is in checkpoint") as refused:
        await yard.restore(saved.checkpoint_id, clean=True)
    assert str(refused.value.details["safety_checkpoint_id"]) in refused.value.message
    assert (yard.path / "other").read_text() == with_file_in_the_way


async def test_permissions_of_directories_are_restored(yard: Yard) -> None:
    yard.write("private/deep/file", "1\n")
    yard.write("shared/file", "1\n")
    yard.write("plain/file", "1\n")
    yard.path.chmod(0o750)
    (yard.path / "private").chmod(0o700)
    (yard.path / "shared").chmod(0o2775)
    await yard.open()
    saved = await yard.save()
    yard.path.chmod(0o755)
    (yard.path / "private").chmod(0o755)
    yard.write("shared/file", "2\n")
    (yard.path / "shared").chmod(0o500)
    (yard.path / "plain").chmod(0o700)
    result = await yard.restore(saved.checkpoint_id)
    modes = {name: (yard.path / name).stat().st_mode & 0o7777 for name in (".", "private", "shared", "plain")}
    assert modes == {".": 0o750, "private": 0o700, "shared": 0o2775, "plain": 0o755}
    assert {change.path for change in result.changes} >= {"private/", "shared/", "plain/"}
    assert yard.read("shared/file") == "1\n"


async def test_a_change_of_a_directorys_permissions_alone_can_be_undone(yard: Yard) -> None:
    yard.write("private/file", "1\n")
    (yard.path / "private").chmod(0o700)
    await yard.open()
    await yard.before_command()
    (yard.path / "private").chmod(0o777)
    await yard.before_command()
    await yard.restore()
    assert (yard.path / "private").stat().st_mode & 0o7777 == 0o700


async def test_an_empty_directory_is_no_part_of_a_checkpoint(yard: Yard) -> None:
    yard.write("a", "1\n")
    await yard.open()
    await yard.before_command()
    yard.write("private/deep/file", "1\n")
    (yard.path / "private/deep").chmod(0o700)
    await yard.before_command()
    (yard.path / "private/deep/file").unlink()
    await yard.before_command()
    first, second, third = (record for record in yard.log.records[yard.workspace.location] if isinstance(record, Saved))
    assert first.tree == third.tree != second.tree


async def test_directories_that_come_back_have_their_permissions(yard: Yard) -> None:
    yard.write("private/deep/file", "1\n")
    (yard.path / "private").chmod(0o700)
    await yard.open()
    saved = await yard.save()
    shutil.rmtree(yard.path / "private")
    await yard.restore(saved.checkpoint_id)
    assert (yard.path / "private").stat().st_mode & 0o7777 == 0o700
    assert (yard.path / "private/deep").stat().st_mode & 0o7777 == 0o755


async def test_a_read_only_directory_is_opened_up_only_meanwhile(yard: Yard) -> None:
    yard.write("locked/file", "1\n")
    (yard.path / "locked").chmod(0o500)
    await yard.open()
    saved = await yard.save()
    (yard.path / "locked").chmod(0o700)
    yard.write("locked/file", "2\n")
    (yard.path / "locked").chmod(0o500)
    await yard.restore(saved.checkpoint_id)
    assert yard.read("locked/file") == "1\n"
    assert (yard.path / "locked").stat().st_mode & 0o7777 == 0o500


async def test_a_deleted_workspace_comes_back_in_one_step(yard: Yard) -> None:
    yard.write("a", "1\n")
    yard.write("sub/b", "2\n", 0o600)
    yard.path.chmod(0o710)
    await yard.open()
    await yard.before_command()
    before = tree_of(yard.path)
    shutil.rmtree(yard.path)
    with pytest.raises(WorkspaceInvalid, match="does not exist"):
        await yard.before_command()
    await yard.open()
    await yard.restore()
    assert tree_of(yard.path) == before
    assert yard.path.stat().st_mode & 0o7777 == 0o710


async def test_a_deleted_directory_without_checkpoints_is_no_workspace(yard: Yard) -> None:
    shutil.rmtree(yard.path)
    with pytest.raises(WorkspaceInvalid, match="does not exist"):
        await yard.open()
    assert not yard.path.exists()


@pytest.mark.parametrize("mode", [0o755, 0o775, 0o700])
@pytest.mark.parametrize("kind", ["a link", "a file"])
async def test_a_directory_that_something_else_replaced_comes_back_with_its_permissions(
    yard: Yard, kind: str, mode: int
) -> None:
    yard.write("sub/deep/file", "one\n")
    (yard.path / "sub").chmod(mode)
    await yard.open()
    saved = await yard.save()
    shutil.rmtree(yard.path / "sub")
    (yard.path / "sub").symlink_to("elsewhere") if kind == "a link" else yard.write("sub", "two\n")
    await yard.before_command()
    await yard.restore(saved.checkpoint_id, clean=True)
    assert yard.read("sub/deep/file") == "one\n"
    assert (yard.path / "sub").stat().st_mode & 0o777 == mode
