"""Going back: what may be replaced, what is never touched, what is refused."""

import os
import shutil
import stat
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import pytest

from shiftlog.model.errors import InvalidParameter, TurnNotFound
from shiftlog.model.shell_errors import CheckpointNotFound, CommandNotFound, CursorInvalid, RestoreIncomplete, ShellBusy
from shiftlog.workspace.history import RestoreTarget
from shiftlog.workspace.ports import Busy
from tests.workspace.yard import Yard, tree_of


async def saved_yard(yard: Yard, *files: str) -> str:
    for name in files:
        yard.write(name, "old\n")
    await yard.open()
    return (await yard.save()).checkpoint_id


async def test_a_newer_link_in_the_way_is_replaced_and_nothing_is_written_through_it(
    yard: Yard, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    saved = await saved_yard(yard, "d/x", "d/y")
    (yard.path / "d/x").unlink()
    (yard.path / "d/y").unlink()
    (yard.path / "d").rmdir()
    (yard.path / "d").symlink_to(outside)

    result = await yard.restore(saved)

    assert list(outside.iterdir()) == []
    assert not (yard.path / "d").is_symlink()
    assert yard.read("d/x") == "old\n"
    assert {change.path: change.action for change in result.changes} == {
        "d": "deleted",
        "d/x": "created",
        "d/y": "created",
    }
    assert result.safety_checkpoint_id is not None
    await yard.restore(result.safety_checkpoint_id, clean=True)
    assert (yard.path / "d").is_symlink()


async def test_a_link_that_replaced_a_file_is_replaced_not_followed(yard: Yard, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("precious")
    saved = await saved_yard(yard, "a")
    (yard.path / "a").unlink()
    (yard.path / "a").symlink_to(outside)
    await yard.restore(saved)
    assert outside.read_text() == "precious"
    assert not (yard.path / "a").is_symlink()


async def test_a_newer_directory_in_the_way_goes_only_with_clean(yard: Yard) -> None:
    saved = await saved_yard(yard, "a", "b")
    (yard.path / "a").unlink()
    yard.write("a/new", "new\n")
    (yard.path / "a/empty").mkdir()
    yard.write("b", "new\n")

    with pytest.raises(RestoreIncomplete, match="1 files could not be restored") as refused:
        await yard.restore(saved)
    assert refused.value.details["failed"] == [
        {"path": "a", "reason": "a directory is in the way; clean=true replaces it"}
    ]
    assert refused.value.details["files_changed"] == 1
    assert yard.read("b") == "old\n"
    assert yard.read("a/new") == "new\n"

    await yard.restore(saved, clean=True)
    assert yard.read("a") == "old\n"


async def test_a_directory_with_uncaptured_files_is_never_replaced(yard: Yard) -> None:
    saved = await saved_yard(yard, "a")
    (yard.path / "a").unlink()
    yard.write("a/.env", "secret\n")
    yard.write("a/new", "new\n")
    preview = await yard.restore(saved, clean=True, dry_run=True)
    with pytest.raises(RestoreIncomplete) as refused:
        await yard.restore(saved, clean=True)
    assert yard.read("a/.env") == "secret\n"
    assert refused.value.details["failed"] == [asdict(failure) for failure in preview.failed]
    assert refused.value.details["changes"] == [asdict(change) for change in preview.changes]


async def test_an_uncaptured_file_in_the_way_stays(yard: Yard) -> None:
    yard.write(".gitignore", "")
    saved = await saved_yard(yard, "cache/a")
    (yard.path / "cache/a").unlink()
    (yard.path / "cache").rmdir()
    yard.write(".gitignore", "cache\n")
    await yard.save()
    yard.write("cache", "uncaptured\n")
    with pytest.raises(RestoreIncomplete):
        await yard.restore(saved, clean=True)
    assert yard.read("cache") == "uncaptured\n"


async def test_a_file_that_became_ignored_is_still_looked_after(yard: Yard) -> None:
    saved = await saved_yard(yard, "a.log", "b.log")
    yard.write(".gitignore", "*\n")
    yard.write("a.log", "new\n")
    (yard.path / "b.log").unlink()
    result = await yard.restore(saved, clean=True)
    assert (yard.read("a.log"), yard.read("b.log")) == ("old\n", "old\n")
    assert result.failed == ()


async def test_empty_directories_stay(yard: Yard) -> None:
    saved = await saved_yard(yard, "a")
    (yard.path / "void/deep").mkdir(parents=True)
    yard.write("folder/new", "n")
    await yard.restore(saved, clean=True)
    assert (yard.path / "void/deep").is_dir()
    assert (yard.path / "folder").is_dir()
    assert tree_of(yard.path) == {b"a": ("file", 0o644, b"old\n")}


async def test_paths_limit_everything(yard: Yard) -> None:
    saved = await saved_yard(yard, "src/a", "doc/b")
    yard.write("src/a", "new\n")
    yard.write("src/n", "new\n")
    yard.write("doc/b", "new\n")
    yard.write("doc/n", "new\n")
    yard.write("doc/.env", "s")
    result = await yard.restore(saved, paths=["src"], clean=True)
    assert {change.path for change in result.changes} == {"src/a", "src/n"}
    assert result.not_covered.secret == 0
    assert (yard.read("doc/b"), yard.read("doc/n")) == ("new\n", "new\n")
    diff = await yard.service.diff(yard.workspace, RestoreTarget(checkpoint_id=saved), paths=["doc"], as_patch=True)
    assert [file.path for file in diff.files] == ["doc/b", "doc/n"]
    assert diff.patch is not None
    assert "doc/b" in diff.patch
    assert "src/a" not in diff.patch


async def test_a_restore_is_refused_while_a_command_runs(yard: Yard) -> None:
    saved = await saved_yard(yard, "a")
    yard.write("a", "new\n")
    yard.busy = Busy(shell_id="4c82-1_local", command_id="4c82-1_local#4", since=datetime(2026, 11, 15, tzinfo=UTC))
    with pytest.raises(ShellBusy, match="shell 4c82-1_local is running 4c82-1_local#4") as refused:
        await yard.restore(saved)
    assert refused.value.details == {"command_id": "4c82-1_local#4", "since": "2026-11-15T00:00:00.000Z"}
    assert yard.read("a") == "new\n"
    assert (await yard.restore(saved, dry_run=True)).files_changed == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="changes an owner's rights, which only root can prepare here")
async def test_a_path_that_cannot_be_written_is_named_and_the_others_are_restored(local_yard: Yard) -> None:
    yard = local_yard
    saved = await saved_yard(yard, "locked/a", "z")
    yard.write("locked/a", "new\n")
    yard.write("z", "new\n")
    if not yard.run("chattr", "+i", "locked/a"):
        pytest.skip("this file system has no immutable files")
    try:
        with pytest.raises(RestoreIncomplete) as refused:
            await yard.restore(saved)
    finally:
        assert yard.run("chattr", "-i", "locked/a")
    assert refused.value.details["failed"] == [{"path": "locked/a", "reason": "the system does not permit it"}]
    assert "locked/a (the system does not permit it)" in refused.value.message
    assert str(refused.value.details["safety_checkpoint_id"]) in refused.value.message
    assert yard.read("z") == "old\n"
    again = await yard.restore()
    assert (again.restored_to, again.files_changed) == (saved, 1)


async def test_undo_goes_further_back_each_time_and_stops_at_a_manual_one(yard: Yard) -> None:
    await saved_yard(yard, "a")
    ids: list[str] = []
    for number in range(3):
        ids.append((await yard.before_command()).checkpoint_id)
        yard.write("a", f"{number}\n")
    for expected in ("1\n", "0\n", "old\n", "old\n"):
        await yard.restore()
        assert yard.read("a") == expected
    await yard.restore(ids[2][:8])
    assert yard.read("a") == "1\n"


async def test_ids_are_found_by_prefix_and_faults_are_named(yard: Yard) -> None:
    saved = await saved_yard(yard, "a")
    with pytest.raises(InvalidParameter, match="4 to 40 hexadecimal digits"):
        await yard.restore(saved[:3])
    with pytest.raises(CheckpointNotFound, match=r"checkpoint '0{40}' not found"):
        await yard.restore("0" * 40)
    with pytest.raises(TurnNotFound, match="turn 'req-x' not found"):
        await yard.service.restore(yard.workspace, RestoreTarget(before_turn="req-x"))
    with pytest.raises(CommandNotFound, match="unknown command_id 'c#1'"):
        await yard.service.restore(yard.workspace, RestoreTarget(before_command="c#1"))
    with pytest.raises(InvalidParameter, match='"before_turn" cannot be used with checkpoint_id'):
        RestoreTarget(checkpoint_id=saved, before_turn="x")
    with pytest.raises(CursorInvalid):
        await yard.service.list(yard.workspace, cursor="k1.zzz")


async def test_a_turn_without_a_mark_is_found_by_its_moment(yard: Yard) -> None:
    await saved_yard(yard, "a")
    yard.log.turns["req-1"] = yard.now()
    yard.write("a", "new\n")
    later = await yard.save("later")
    yard.write("a", "newer\n")
    result = await yard.service.restore(yard.workspace, RestoreTarget(before_turn="req-1"))
    assert result.restored_to == later.checkpoint_id
    yard.log.turns["req-2"] = yard.now()
    still = await yard.service.restore(yard.workspace, RestoreTarget(before_turn="req-2"))
    assert still.files_changed == 0


async def test_a_repository_that_is_gone_says_so(yard: Yard) -> None:
    saved = await saved_yard(yard, "a")
    shutil.rmtree(yard.workspace.shadow.git_dir)
    await yard.open()
    with pytest.raises(CheckpointNotFound, match="is no longer stored on"):
        await yard.restore(saved)
    again = await yard.save(kind="auto")
    assert again.checkpoint_id != saved
    await yard.restore(again.checkpoint_id)


async def test_lists_are_paged_newest_first_with_counts_and_the_position(yard: Yard) -> None:
    await saved_yard(yard, "a", "b")
    yard.write("a", "1")
    yard.write("b", "1")
    await yard.save("two", request_id="req-b")
    third = await yard.save("three")
    assert third.unchanged
    first = await yard.service.list(yard.workspace, limit=2)
    assert [line.saved.label for line in first.checkpoints] == ["three", "two"]
    assert [line.saved.files_changed for line in first.checkpoints] == [0, 2]
    assert [line.current for line in first.checkpoints] == [True, False]
    rest = await yard.service.list(yard.workspace, limit=2, cursor=first.next_cursor)
    assert [line.saved.label for line in rest.checkpoints] == ["checkpoint"]
    assert rest.next_cursor is None
    chosen = await yard.service.list(yard.workspace, request_id="req-b")
    assert [line.saved.label for line in chosen.checkpoints] == ["two"]


async def test_the_shadow_repository_is_private(yard: Yard) -> None:
    await saved_yard(yard, "a")
    assert stat.S_IMODE(Path(yard.workspace.shadow.git_dir).stat().st_mode) == 0o700


async def test_a_diff_between_two_checkpoints_counts_lines(yard: Yard) -> None:
    first = await saved_yard(yard, "a", "b")
    yard.write("a", "old\nnew\n")
    yard.write("c", b"\0\1")
    (yard.path / "b").unlink()
    (yard.path / "b").symlink_to("a")
    second = (await yard.save()).checkpoint_id
    yard.write("a", "later\n")
    diff = await yard.service.diff(yard.workspace, RestoreTarget(checkpoint_id=first), to=second)
    assert [asdict(file) for file in diff.files] == [
        {"path": "a", "status": "modified", "insertions": 1, "deletions": 0, "binary": False},
        {"path": "b", "status": "type_changed", "insertions": 1, "deletions": 1, "binary": False},
        {"path": "c", "status": "added", "insertions": 0, "deletions": 0, "binary": True},
    ]
    assert (diff.as_dict()["from"], diff.as_dict()["to"]) == (first, second)


async def test_a_repository_removed_while_a_shell_is_open_is_made_again(yard: Yard) -> None:
    saved = await saved_yard(yard, "a")
    shutil.rmtree(Path(yard.workspace.shadow.git_dir).parent)
    assert not (await yard.service.list(yard.workspace)).checkpoints
    with pytest.raises(CheckpointNotFound, match="is no longer stored on"):
        await yard.restore(saved)
    again = await yard.save(kind="auto")
    assert again.checkpoint_id != saved
    yard.write("a", "changed")
    assert [change.path for change in (await yard.restore()).changes] == ["a"]
