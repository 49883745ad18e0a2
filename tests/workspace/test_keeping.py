"""Records, retention and company: what is kept, what goes, and several callers at once."""

import asyncio
import json
import multiprocessing
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from shiftlog.model.shell_errors import CheckpointNotFound
from shiftlog.workspace import history
from shiftlog.workspace.history import droppable
from shiftlog.workspace.ports import Cause, CheckpointKind, CheckpointLimits, Record, Restored, Saved
from tests.programs import only_in
from tests.workspace.yard import Yard, local_runner, tree_of

START = datetime(2026, 11, 15, tzinfo=UTC)

# git as it is, but it writes down what it does.
TELLING_GIT = """#!/bin/sh
GIT_TRACE2_EVENT={trace} exec {git} "$@"
"""


def saved(
    number: int, kind: CheckpointKind = "auto", tree: str | None = None, *, reused: bool = False, **cause: str
) -> Saved:
    return Saved(
        checkpoint_id=f"{number:040x}",
        tree=tree or f"tree{number}",
        kind=kind,
        label="x",
        at=START + timedelta(seconds=number),
        cause=Cause(**cause),
        reused=reused,
    )


def restored(number: int, safety: int = 0) -> Restored:
    return Restored(checkpoint_id=f"{number:040x}", safety_checkpoint_id=f"{safety:040x}", at=START)


def test_a_safety_checkpoint_is_never_the_default_target() -> None:
    records: list[Record] = [saved(1), saved(2, "safety"), saved(3)]
    assert history.default_target(records, "tree3") == records[0]
    records = [saved(1), saved(2, "safety")]
    assert history.default_target(records, "other") == records[0]
    assert history.default_target([saved(2, "safety")], "other") is None


def test_equal_automatic_checkpoints_are_stepped_over_until_a_manual_one() -> None:
    records: list[Record] = [saved(1, "manual", "t"), saved(2, "open", "t"), saved(3, "auto", "t")]
    assert history.default_target(records, "t") == records[0]
    records = [saved(1, "auto", "s"), saved(2, "open", "t"), saved(3, "auto", "t")]
    assert history.default_target(records, "t") == records[0]


def test_the_position_is_the_last_taken_or_restored_and_a_reuse_moves_nothing() -> None:
    records: list[Record] = [saved(1), saved(2), restored(1), saved(2, reused=True)]
    assert history.position(records) == records[0]
    assert history.default_target(records, "tree1") is None


def test_a_turn_of_the_own_session_comes_before_a_newer_one_of_that_id() -> None:
    records = [
        saved(1, "turn", request_id="r", session_id="mine"),
        saved(2, "turn", request_id="r", session_id="other"),
    ]
    assert history.turn_mark(records, "r", "mine") == records[0].checkpoint_id
    assert history.turn_mark(records, "r", None) == records[1].checkpoint_id
    assert history.turn_mark(records, "x", None) is None


def test_an_ambiguous_prefix_names_its_matches() -> None:
    records = [saved(1), saved(2)]
    with pytest.raises(CheckpointNotFound, match="checkpoint '0000' is ambiguous") as ambiguous:
        history.find(records, "0000")
    assert ambiguous.value.details["matches"] == [record.checkpoint_id for record in records]


def test_retention_keeps_manual_ones_the_position_and_turns_of_open_sessions() -> None:
    records: list[Record] = [
        saved(1),
        saved(2, "manual"),
        saved(3, request_id="r", session_id="open"),
        saved(4),
        saved(5),
        saved(6),
        saved(4, "turn", reused=True, request_id="q", session_id="open"),
        restored(1),
    ]
    stored = {f"{number:040x}" for number in range(1, 7)}
    assert droppable(records, stored, 1, {"open"}) == [f"{5:040x}"]
    assert droppable(records, stored, 1, set()) == [f"{number:040x}" for number in (3, 4, 5)]
    assert droppable(records, stored, 9, set()) == []


async def test_gc_removes_the_surplus_and_what_stays_can_be_restored(yard: Yard) -> None:
    yard.limits = CheckpointLimits(automatic_kept=2)
    yard.service = yard.fresh_service()
    ids: list[str] = []
    await yard.open()
    for number in range(5):
        yard.write("a", f"{number}" * 3000)
        ids.append((await yard.save(kind="auto")).checkpoint_id)
    kept = (await yard.save("kept")).checkpoint_id

    assert await yard.service.gc(yard.workspace, []) == 3

    listing = await yard.service.list(yard.workspace)
    assert [line.saved.checkpoint_id for line in listing.checkpoints] == [kept, ids[4], ids[3]]
    with pytest.raises(CheckpointNotFound, match="is no longer stored on"):
        await yard.restore(ids[0])
    await yard.restore(ids[3])
    assert yard.read("a") == "3" * 3000
    yard.write("a", "after")
    assert (await yard.save(kind="auto")).checkpoint_id not in ids
    assert await yard.service.gc(yard.workspace, []) == 1


async def test_many_callers_at_once_each_get_a_whole_checkpoint(yard: Yard) -> None:
    for number in range(20):
        yard.write(f"f{number}", "1")
    await yard.open()
    second = await yard.fresh_service().open(yard.runner, str(yard.path))
    other = yard.fresh_service()
    made = await asyncio.gather(
        *(yard.save(f"one {number}") for number in range(4)),
        *(other.save(second, label=f"two {number}") for number in range(4)),
    )
    assert len({one.checkpoint_id for one in made}) == 8
    assert {one.files for one in made} == {20}


def _save_in_a_process(path: str, data: str, count: int) -> None:
    async def work() -> None:
        yard = Yard(path=Path(path), data=Path(data), runner=local_runner(Path(data)))
        await yard.open()
        for _ in range(count):
            made = await yard.save()
            assert made.files == 10
            (yard.path / "shared").write_text(made.checkpoint_id)

    asyncio.run(work())


def test_several_processes_share_one_shadow_repository(local_yard: Yard) -> None:
    for number in range(9):
        local_yard.write(f"f{number}", "1")
    local_yard.write("shared", "1")
    context = multiprocessing.get_context("spawn")
    workers = [
        context.Process(target=_save_in_a_process, args=(str(local_yard.path), str(local_yard.data), 4))
        for _ in range(3)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]


async def test_a_torn_index_or_state_is_rebuilt_from_the_files(yard: Yard) -> None:
    yard.write("a", "1")
    yard.write("private", "1", 0o600)
    await yard.open()
    first = await yard.save()
    before = tree_of(yard.path)
    index = Path(yard.workspace.shadow.environment()["GIT_INDEX_FILE"])
    index.write_bytes(b"torn")
    assert (await yard.save(kind="auto")).checkpoint_id == first.checkpoint_id
    Path(yard.workspace.shadow.state_file).unlink()
    assert (await yard.save(kind="auto")).checkpoint_id == first.checkpoint_id
    Path(f"{index}.lock").touch()
    yard.write("a", "2")
    second = await yard.save()
    await yard.restore(first.checkpoint_id)
    assert tree_of(yard.path) == before
    assert second.files == 2


async def test_the_shadow_repository_of_a_workspace_is_found_again_by_any_spelling(yard: Yard, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(yard.path)
    await yard.open()
    again = await yard.service.open(yard.runner, str(tmp_path / "link/../app/."))
    assert again.location == yard.workspace.location
    assert again.shadow.git_dir == yard.workspace.shadow.git_dir
    shutil.rmtree(tmp_path / "data", ignore_errors=True)


@pytest.mark.parametrize("files", [3, 600])
async def test_objects_are_on_the_disk_before_a_checkpoint_is_answered(
    local_yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: int
) -> None:
    yard = local_yard
    trace, programs = tmp_path / "trace", tmp_path / "bin"
    programs.mkdir()
    waits = tmp_path / "waits"
    for name, text in (
        ("git", TELLING_GIT.format(trace=trace, git=shutil.which("git"))),
        ("sync", f'#!/bin/sh\necho "$*" >>{waits}\nexec {shutil.which("sync")} "$@"\n'),
    ):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    await yard.open()
    await yard.save()
    for number in range(files):
        yard.write(f"f{number}", f"{number}\n")
    monkeypatch.setenv("PATH", only_in(programs))
    saved = await yard.save()
    events = [json.loads(line) for line in trace.read_text().splitlines()]
    handed = sum(int(event["value"]) for event in events if event.get("key") == "fsync/writeout-only")
    ref = f"{yard.workspace.shadow.git_dir}/refs/checkpoints/{saved.checkpoint_id}"
    told = waits.read_text().splitlines()
    tree = (await yard.workspace.shadow.script('git rev-parse "$1^{tree}"', [saved.checkpoint_id])).decode().strip()
    held = f"{yard.workspace.shadow.git_dir}/objects/{tree[:2]}/{tree[2:]}"
    assert told[-1].split() == [held, ref, str(Path(ref).parent)]
    if files == 3:
        assert handed == files + 2  # and their tree, and the checkpoint itself
    else:
        assert told[0] == f"-f {yard.workspace.shadow.git_dir}"
        assert handed == 1
