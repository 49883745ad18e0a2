"""The acceptance cases of the contract that are about checkpoints: 44 to 48 and 53."""

from dataclasses import asdict

import pytest

from shiftlog.model.shell_errors import NothingToRestore, WorkspaceRequired
from shiftlog.workspace.history import RestoreTarget
from shiftlog.workspace.ports import Cause
from tests.workspace.yard import Yard, tree_of


async def test_case_44_the_worked_table(yard: Yard) -> None:
    yard.write("a.txt", "good\n")
    await yard.open()
    c1 = await yard.save(kind="open")

    assert (await yard.before_command()).checkpoint_id == c1.checkpoint_id
    yard.write("a.txt", "BAD\n")
    c2 = await yard.before_command()
    assert c2.checkpoint_id != c1.checkpoint_id
    assert c2.kind == "auto"

    undone = await yard.restore()
    assert (undone.restored_to, undone.files_changed) == (c1.checkpoint_id, 1)
    assert undone.safety_checkpoint_id == c2.checkpoint_id
    assert yard.read("a.txt") == "good\n"

    with pytest.raises(NothingToRestore, match="no checkpoint to restore"):
        await yard.restore()

    await yard.restore(c2.checkpoint_id)
    assert yard.read("a.txt") == "BAD\n"

    yard.write("p.txt", "p\n")
    third = await yard.restore(c1.checkpoint_id)
    assert third.safety_checkpoint_id not in (c1.checkpoint_id, c2.checkpoint_id)
    assert [asdict(change) for change in third.changes] == [{"path": "a.txt", "action": "written"}]
    assert third.left_in_place == ("p.txt",)
    assert third.as_dict()["hint"] == "1 file is newer than the checkpoint; pass clean=true to remove it"

    fourth = await yard.restore(c1.checkpoint_id, clean=True)
    assert fourth.safety_checkpoint_id != third.safety_checkpoint_id
    assert [asdict(change) for change in fourth.changes] == [{"path": "p.txt", "action": "deleted"}]
    assert fourth.left_in_place == ()
    assert not (yard.path / "p.txt").exists()

    assert fourth.safety_checkpoint_id is not None
    await yard.restore(fourth.safety_checkpoint_id)
    assert yard.read("p.txt") == "p\n"

    ok = await yard.save("ok")
    last = await yard.restore()
    assert (last.restored_to, last.files_changed) == (ok.checkpoint_id, 0)


async def test_case_45_before_a_turn_keeps_the_turns_before_it(yard: Yard) -> None:
    for name in ("a", "b"):
        yard.write(name, "start\n")
    await yard.open()
    await yard.save(kind="open")
    await yard.save(kind="turn", request_id="T1")
    await yard.before_command("T1")
    yard.write("a", "T1\n")
    await yard.save(kind="turn", request_id="T2")
    await yard.before_command("T2")
    yard.write("b", "T2\n")
    yard.write("c", "T2\n")
    await yard.before_command("T2")

    result = await yard.service.restore(yard.workspace, RestoreTarget(before_turn="T2"))

    assert (yard.read("a"), yard.read("b")) == ("T1\n", "start\n")
    assert result.left_in_place == ("c",)


async def test_a_turn_that_opened_on_an_unchanged_tree_goes_back_to_that_tree(yard: Yard) -> None:
    yard.write("b", "start\n")
    await yard.open()
    first = await yard.save(kind="open")
    assert (await yard.save(kind="turn", request_id="T1")).checkpoint_id == first.checkpoint_id
    await yard.before_command("T1")
    yard.write("b", "T1\n")
    await yard.before_command("T1")

    result = await yard.service.restore(yard.workspace, RestoreTarget(before_turn="T1"))

    assert result.restored_to == first.checkpoint_id
    assert yard.read("b") == "start\n"


async def test_case_46_checkpoints_survive_a_restart(yard: Yard) -> None:
    yard.write("a", "1\n")
    await yard.open()
    saved = await yard.save("one")
    yard.write("a", "2\n")

    yard.service = yard.fresh_service()
    await yard.open()

    listing = await yard.service.list(yard.workspace)
    assert [line.saved.checkpoint_id for line in listing.checkpoints] == [saved.checkpoint_id]
    await yard.restore(saved.checkpoint_id[:7])
    assert yard.read("a") == "1\n"


async def test_case_47_secrets_are_counted_and_never_touched(yard: Yard) -> None:
    with pytest.raises(WorkspaceRequired, match="checkpoints require an explicit workspace"):
        await yard.service.open(yard.runner, None)
    yard.write("a", "1\n")
    yard.write(".env", "KEY=1\n")
    await yard.open()
    saved = await yard.save()
    yard.write(".env", "KEY=2\n")
    yard.write("a", "2\n")

    result = await yard.restore(saved.checkpoint_id)

    assert yard.read(".env") == "KEY=2\n"
    assert yard.read("a") == "1\n"
    assert result.not_covered.as_dict() == {"ignored": 0, "secret": 1, "too_large": 0}


async def test_case_48_a_dry_run_lists_the_same_and_changes_nothing(yard: Yard) -> None:
    for name in ("a", "gone", "same"):
        yard.write(name, "1\n")
    await yard.open()
    saved = await yard.save()
    yard.write("a", "2\n")
    yard.write("new", "2\n")
    (yard.path / "gone").unlink()
    before, records = tree_of(yard.path), len(yard.log.records[yard.workspace.location])

    for clean in (False, True):
        preview = await yard.restore(saved.checkpoint_id, dry_run=True, clean=clean)
        assert tree_of(yard.path) == before
        assert len(yard.log.records[yard.workspace.location]) == records
        assert preview.safety_checkpoint_id is None
        diff = await yard.service.diff(yard.workspace, RestoreTarget(checkpoint_id=saved.checkpoint_id))
        assert {file.path: file.status for file in diff.files} == {"a": "modified", "gone": "deleted", "new": "added"}
        if clean:
            real = await yard.restore(saved.checkpoint_id, clean=clean)
            assert (real.changes, real.left_in_place, real.failed) == (
                preview.changes,
                preview.left_in_place,
                preview.failed,
            )
            assert {change.path: change.action for change in real.changes} == {
                "a": "written",
                "gone": "created",
                "new": "deleted",
            }


async def test_case_53_a_clean_restore_gives_back_and_removes(yard: Yard) -> None:
    yard.write("a", "1\n")
    await yard.open()
    saved = await yard.save()
    yard.write("a", "2\n")
    yard.write("n", "n\n")

    result = await yard.restore(saved.checkpoint_id, clean=True)

    assert result.restored_to == saved.checkpoint_id
    assert result.files_changed == 2
    assert yard.read("a") == "1\n"
    assert not (yard.path / "n").exists()
    assert result.safety_checkpoint_id is not None
    await yard.restore(result.safety_checkpoint_id)
    assert yard.read("n") == "n\n"


async def test_a_command_goes_back_to_the_tree_before_it(yard: Yard) -> None:
    yard.write("a", "1\n")
    await yard.open()
    await yard.save(kind="open")
    await yard.before_command()
    yard.write("a", "2\n")
    await yard.before_command()
    yard.write("a", "3\n")
    await yard.before_command()

    await yard.service.restore(
        yard.workspace, RestoreTarget(before_command="4c82-1_local#2"), cause=Cause(session_id="Codex-1-a")
    )

    assert yard.read("a") == "2\n"
