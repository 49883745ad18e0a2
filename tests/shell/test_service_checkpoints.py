"""Checkpoints through shells: the worked example of the contract and its acceptance cases, on a real git."""

import contextlib
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shiftlog.model.errors import InvalidParameter, SessionClosed
from shiftlog.model.shell_errors import (
    CheckpointTooLarge,
    NothingToRestore,
    ShellBusy,
    ShellEnded,
    WorkspaceInvalid,
    WorkspaceRequired,
)
from shiftlog.store.protocol import Filter, Page
from tests.shell.rig import CLIENT, ShellRig, shell_rig, until


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncGenerator[ShellRig]:
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "a.txt").write_text("good\n")
    async with shell_rig(tmp_path, workspace=str(tmp_path / "place")) as rig:
        yield rig


async def restore(rig: ShellRig, **arguments: Any) -> dict[str, Any]:
    return await rig.app.workspaces.restore_checkpoint({"shell_id": rig.shell_id, **arguments}, CLIENT)


async def listed(rig: ShellRig, **arguments: Any) -> list[dict[str, Any]]:
    found = await rig.app.workspaces.list_checkpoints({"shell_id": rig.shell_id, **arguments}, CLIENT)
    return found["checkpoints"]


async def test_case_44_the_worked_example(rig: ShellRig) -> None:
    [first] = await listed(rig)
    c1 = first["checkpoint_id"]
    assert first["kind"] == "open"
    bad = await rig.run("echo BAD > a.txt")
    assert bad["checkpoint_id"] == c1
    version = await rig.run("git --version")
    c2 = version["checkpoint_id"]
    assert c2 != c1
    back = await restore(rig)
    assert (back["restored_to"], back["files_changed"], back["safety_checkpoint_id"]) == (c1, 1, c2)
    assert (rig.place / "a.txt").read_text() == "good\n"
    with pytest.raises(NothingToRestore):
        await restore(rig)
    await restore(rig, checkpoint_id=c2)
    assert (rig.place / "a.txt").read_text() == "BAD\n"
    await rig.run("echo p > p.txt")
    left = await restore(rig, checkpoint_id=c1)
    assert left["left_in_place"] == {"count": 1, "paths": ["p.txt"]}
    assert left["safety_checkpoint_id"] not in (c1, c2)
    cleaned = await restore(rig, checkpoint_id=c1, clean=True)
    assert cleaned["changes"] == [{"path": "p.txt", "action": "deleted"}]
    assert cleaned["left_in_place"]["count"] == 0
    await restore(rig, checkpoint_id=cleaned["safety_checkpoint_id"])
    assert (rig.place / "p.txt").read_text() == "p\n"
    made = await rig.app.workspaces.create_checkpoint({"shell_id": rig.shell_id, "label": "ok"}, CLIENT)
    again = await restore(rig)
    assert (again["restored_to"], again["files_changed"]) == (made["checkpoint_id"], 0)


async def begin(rig: ShellRig, title: str) -> str:
    asked = {"session_id": rig.session_id, "query_title": title, "query_text": title}
    return (await rig.app.sessions.begin_turn(asked, CLIENT))["request_id"]


async def test_case_45_back_to_before_a_turn(rig: ShellRig) -> None:
    (rig.place / "b.txt").write_text("b\n")
    await begin(rig, "First")
    await rig.run("echo one > a.txt")
    second = await begin(rig, "Second")
    await rig.run("echo two > b.txt")
    await rig.run("echo new > c.txt")
    back = await restore(rig, before_turn=second)
    assert (rig.place / "a.txt").read_text() == "one\n"
    assert (rig.place / "b.txt").read_text() == "b\n"
    assert back["left_in_place"]["paths"] == ["c.txt"]


async def test_case_46_checkpoints_outlive_the_server(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    (place / "a.txt").write_text("good\n")
    async with shell_rig(tmp_path, workspace=str(place)) as rig:
        await rig.run("echo BAD > a.txt")
        bad = await rig.run("git --version")
        before = await listed(rig)
    async with shell_rig(tmp_path, shell=False) as rig:
        found = await rig.app.workspaces.list_checkpoints({"workspace": str(place)}, CLIENT)
        assert [row["checkpoint_id"] for row in found["checkpoints"]] == [row["checkpoint_id"] for row in before]
        asked = {"workspace": str(place), "before_command": bad["command_id"].replace("#2", "#1")}
        await rig.app.workspaces.restore_checkpoint(asked, CLIENT)
    assert (place / "a.txt").read_text() == "good\n"


async def test_case_47_without_a_workspace_and_with_secrets(rig: ShellRig) -> None:
    (rig.place / ".env").write_text("A=1\n")
    made = await rig.app.workspaces.create_checkpoint({"shell_id": rig.shell_id}, CLIENT)
    assert made["not_covered"]["secret"] == 1
    await rig.run("echo A=2 > .env; echo x > a.txt")
    back = await restore(rig)
    assert (rig.place / ".env").read_text() == "A=2\n"
    assert (rig.place / "a.txt").read_text() == "good\n"
    assert back["not_covered"]["secret"] == 1
    await rig.open(cwd="/tmp")
    with pytest.raises(WorkspaceRequired):
        await rig.app.workspaces.create_checkpoint({"shell_id": rig.shell_id}, CLIENT)
    with pytest.raises(WorkspaceInvalid):
        await rig.open(workspace="/")


async def test_case_48_a_dry_run_reports_the_same_and_changes_nothing(rig: ShellRig) -> None:
    await rig.run("echo BAD > a.txt; echo n > n.txt")
    count = len(await listed(rig))
    dry = await restore(rig, dry_run=True, clean=True)
    assert (rig.place / "a.txt").read_text() == "BAD\n"
    assert len(await listed(rig)) == count
    diff = await rig.app.workspaces.diff_checkpoint({"shell_id": rig.shell_id, "format": "patch"}, CLIENT)
    assert {row["path"]: row["status"] for row in diff["files"]} == {"a.txt": "modified", "n.txt": "added"}
    assert "+BAD" in diff["patch"]
    real = await restore(rig, clean=True)
    assert real["changes"] == dry["changes"]


async def test_a_restore_waits_for_nobody_who_works_in_the_workspace(rig: ShellRig) -> None:
    begun = await rig.run("sleep 30", background=True)
    with pytest.raises(ShellBusy) as busy:
        await restore(rig)
    assert busy.value.hint is not None
    assert "wait_idle_s" not in busy.value.hint, "a restore takes no such argument"
    with pytest.raises(InvalidParameter, match="4 to 40 hexadecimal digits"):
        await restore(rig, checkpoint_id="the last one")
    await rig.send(begun["command_id"], signal="kill")


async def test_commands_that_change_nothing_make_no_checkpoint(rig: ShellRig) -> None:
    for _ in range(3):
        await rig.run("cat a.txt")
    assert len(await listed(rig)) == 1


async def test_a_shell_that_is_over_is_told_in_full_also_by_a_later_server(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    async with shell_rig(tmp_path, workspace=str(tmp_path / "place")) as rig:
        await rig.run("exit 3")
        with pytest.raises(ShellEnded) as ended:
            await listed(rig)
        assert ended.value.details.keys() == {"ended_reason", "exit_code", "cwd", "ended_at"}
        assert (ended.value.details["exit_code"], ended.value.details["cwd"]) == (3, str(tmp_path / "place"))
        shell_id = rig.shell_id
    async with shell_rig(tmp_path, shell=False) as rig:
        with pytest.raises(ShellEnded, match="exited"):
            await rig.app.workspaces.list_checkpoints({"shell_id": shell_id}, CLIENT)


async def test_a_session_that_ended_takes_no_checkpoint_and_its_files_stay_readable(rig: ShellRig) -> None:
    [first] = await listed(rig)
    (rig.place / "a.txt").write_text("changed\n")
    await rig.app.continuity.close_session({"session_id": rig.session_id}, CLIENT)
    count = len(await rig.entries())
    with pytest.raises(SessionClosed):
        await restore(rig, checkpoint_id=first["checkpoint_id"])
    with pytest.raises(SessionClosed):
        await rig.app.workspaces.create_checkpoint({"shell_id": rig.shell_id}, CLIENT)
    with pytest.raises(SessionClosed):
        await rig.run("touch f")
    assert (await restore(rig, checkpoint_id=first["checkpoint_id"], dry_run=True))["files_changed"] == 1
    assert len(await listed(rig)) == 1
    assert len(await rig.entries()) == count
    assert (rig.place / "a.txt").read_text() == "changed\n"


async def test_a_shell_goes_on_where_its_workspace_was_removed_and_the_files_come_back(rig: ShellRig) -> None:
    await rig.open(workspace=str(rig.place), sandbox="full-access")
    gone = await rig.run(f"rm -rf {rig.place}")
    assert gone["checkpoint_id"] is not None
    asked = {"shell_id": rig.shell_id}
    with pytest.raises(WorkspaceInvalid, match="cannot be used: it does not exist") as refused:
        await rig.app.workspaces.create_checkpoint(asked, CLIENT)
    assert refused.value.hint == "restore_checkpoint brings it back: its checkpoints are kept"
    listed = await rig.app.workspaces.list_checkpoints(asked, CLIENT)
    assert gone["checkpoint_id"] in [one["checkpoint_id"] for one in listed["checkpoints"]]
    begun = await rig.app.sessions.begin_turn(
        {"session_id": rig.session_id, "query_title": "Bring it back", "query_text": "Bring it back"}, CLIENT
    )
    other = await rig.run("cd /; touch /dev/null")
    assert (other["exit_code"], other["checkpoint_id"], other["request_id"]) == (0, None, begun["request_id"])
    restored = await restore(rig)
    assert {"path": "a.txt", "action": "created"} in restored["changes"]
    assert (rig.place / "a.txt").read_text() == "good\n"


async def test_a_workspace_that_grew_beyond_the_limit_says_which_shells_still_work(tmp_path: Path) -> None:
    settings = "[policy.limits]\ncheckpoint_files = 2\n"
    async with shell_rig(tmp_path, settings=settings, shell=False) as rig:
        await rig.open(workspace=str(rig.place))
        await rig.run("touch a b c")
        with pytest.raises(CheckpointTooLarge, match="workspace exceeds 2 files") as refused:
            await rig.run("rm c")
        assert refused.value.details == {"files": 3, "bytes": 0}
        assert "without workspace" in (refused.value.hint or "")
        assert await rig.out("ls | wc -l") == "3"
        await rig.open()
        await rig.run("rm c")
        await rig.open(workspace=str(rig.place))
        assert (await rig.run("rm b"))["checkpoint_id"]


async def test_looking_at_checkpoints_writes_nothing_into_the_shadow_repository(rig: ShellRig) -> None:
    def written() -> dict[str, int]:
        files = (path for path in (rig.home / "checkpoints").rglob("*") if path.is_file())
        return {str(path): path.stat().st_mtime_ns for path in files}

    await rig.run("echo BAD > a.txt")
    before = written()
    [first] = await listed(rig)
    asked = {"shell_id": rig.shell_id, "checkpoint_id": first["checkpoint_id"]}
    await rig.app.workspaces.list_checkpoints({"workspace": str(rig.place)}, CLIENT)
    assert written() == before
    assert (await rig.app.workspaces.diff_checkpoint(asked, CLIENT))["files"]


async def test_a_shell_whose_workspace_cannot_be_covered_is_ended_again(tmp_path: Path) -> None:
    async with shell_rig(tmp_path, shell=False) as rig:
        (rig.home / "checkpoints").write_bytes(b"")
        with pytest.raises(WorkspaceInvalid):
            await rig.open(workspace=str(rig.place), env={"MARK": str(tmp_path)})
        assert rig.shells.registry.live_ids() == []
        await until(lambda: not marked(tmp_path))
        [row] = await rig.app.store.read(lambda reader: reader.find_sessions(Filter(), Page(limit=9)))
        assert (str(row.session.state), row.session.closing and row.session.closing.reason) == ("closed", "abandoned")


def marked(mark: Path) -> list[str]:
    """Name the processes that have the mark in their environment."""
    found: list[str] = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"MARK={mark}\0".encode() in entry.read_bytes():
                found.append(entry.parent.name)
    return found


async def test_a_workspace_that_the_operator_does_not_permit_is_refused_without_a_shell_too(tmp_path: Path) -> None:
    place = tmp_path / "place"
    async with shell_rig(tmp_path, workspace=str(place)):
        pass
    async with shell_rig(tmp_path, settings='[policy]\nworkspaces = ["/nowhere/*"]\n', shell=False) as rig:
        tools = rig.app.workspaces
        for tool in (tools.list_checkpoints, tools.create_checkpoint, tools.diff_checkpoint, tools.restore_checkpoint):
            with pytest.raises(WorkspaceInvalid, match="does not permit"):
                await tool({"workspace": str(place)}, CLIENT)
        operator = replace(CLIENT, operator=True)
        assert (await tools.list_checkpoints({"workspace": str(place)}, operator))["checkpoints"]


async def test_secrets_in_names_of_files_are_masked(rig: ShellRig) -> None:
    token = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7xY9zA1cD3eF5"
    (rig.place / token).write_text("new\n")
    (rig.place / "a.txt").unlink()
    diff = await rig.app.workspaces.diff_checkpoint({"shell_id": rig.shell_id, "format": "patch"}, CLIENT)
    back = await restore(rig, clean=True)
    assert token not in f"{diff}{back}"
    assert "[REDACTED:github]" in diff["files"][1]["path"]
    assert [change["path"] for change in back["changes"]] == ["a.txt", "[REDACTED:github]"]
    assert not (rig.place / token).exists()
