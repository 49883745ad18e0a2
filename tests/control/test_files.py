"""Files that commands change are found with their turn and command, though no tool of an agent reports them."""

from collections.abc import AsyncGenerator, Awaitable
from pathlib import Path
from typing import Any, cast

import pytest

from shiftlog.control.questions import answer
from shiftlog.model.caller import Caller
from shiftlog.model.entry import Kind
from tests.shell.rig import CLIENT, ShellRig, shell_rig

PERSON = Caller(operator=True)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncGenerator[ShellRig]:
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "a.txt").write_text("good\n")
    async with shell_rig(tmp_path, workspace=str(tmp_path / "place")) as rig:
        yield rig


async def begin(rig: ShellRig, title: str) -> str:
    asked = {"session_id": rig.session_id, "query_title": title, "query_text": title}
    return str((await rig.app.sessions.begin_turn(asked, CLIENT))["request_id"])


async def finish(rig: ShellRig) -> None:
    done = {"session_id": rig.session_id, "outcome": "completed", "response": "Done"}
    await rig.app.sessions.finish_turn(done, CLIENT)


async def files(rig: ShellRig, **given: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", await cast("Awaitable[object]", answer(rig.app, "files", given, PERSON)))


async def test_a_file_that_a_command_changed_is_of_its_turn_with_the_difference_of_that_command_alone(
    rig: ShellRig,
) -> None:
    first = await begin(rig, "Write it")
    await rig.run("echo one > b.txt")
    await rig.run("echo two >> b.txt")
    await finish(rig)
    (rig.place / "b.txt").write_text("by hand\n")
    second = await begin(rig, "Remove it")
    await rig.run("rm b.txt")
    await finish(rig)
    listed = (await files(rig))["files"]
    assert [(file["path"], file["changes"], file["turns"]) for file in listed] == [("b.txt", 3, 2)]
    touches = (await files(rig, path="b.txt"))["touches"]
    assert [touch["request_id"] for touch in touches] == [second, first]
    assert [[one["command"] for one in touch["diffs"]] for touch in touches] == [
        ["rm b.txt"],
        ["echo one > b.txt", "echo two >> b.txt"],
    ]
    wrote = [diff["diff"].splitlines()[-1] for touch in touches for diff in touch["diffs"]]
    assert wrote == ["-by hand", "+one", "+two"]


async def test_who_wrote_a_line_is_answered_for_commands(rig: ShellRig) -> None:
    request_id = await begin(rig, "Write it")
    await rig.run("echo first > b.txt")
    await rig.run("echo second >> b.txt")
    await finish(rig)
    [touch] = (await files(rig, path="b.txt", line="second"))["touches"]
    assert touch["request_id"] == request_id
    assert (await files(rig, path="b.txt", line="third"))["touches"] == []


async def test_a_command_after_an_edit_of_the_same_file_in_one_turn_is_told_too(rig: ShellRig) -> None:
    await begin(rig, "Both")
    done = {"type": "edit", "description": "Write it", "file_path": "a.txt", "status": "completed"}
    await rig.app.sessions.update_turn({"session_id": rig.session_id, "actions": [done]}, CLIENT)
    await rig.run("echo from a command >> a.txt")
    await finish(rig)
    [touch] = (await files(rig, path="a.txt", line="from a command"))["touches"]
    assert touch["diffs"][0]["command"] == "echo from a command >> a.txt"
    [listed] = (await files(rig))["files"]
    assert (listed["path"], listed["changes"]) == ("a.txt", 1)


async def test_a_command_outside_of_turns_is_found_by_its_text(rig: ShellRig) -> None:
    await rig.run("echo alone > c.txt")
    await rig.close()
    [listed] = (await files(rig))["files"]
    assert (listed["path"], listed["turns"], listed["commands"]) == ("c.txt", 0, 1)
    last = (await rig.entries(Kind.CHECKPOINT_SAVED))[-1]
    assert last.facts["label"] == "shell ended"
    [touch] = (await files(rig, path="c.txt", line="alone"))["touches"]
    assert touch["request_id"] is None
    assert touch["diffs"][0]["command"] == "echo alone > c.txt"


async def test_what_a_person_wrote_between_turns_is_of_no_turn(rig: ShellRig) -> None:
    await begin(rig, "Look")
    await rig.run("cat a.txt")
    await finish(rig)
    (rig.place / "a.txt").write_text("by hand\n")
    await begin(rig, "Look again")
    await finish(rig)
    assert (await files(rig))["files"] == []


async def test_files_are_named_from_the_workspace_of_the_session(tmp_path: Path) -> None:
    (tmp_path / "place" / "sub").mkdir(parents=True)
    async with shell_rig(tmp_path, shell=False) as rig:
        opened = await rig.app.sessions.open_session({"agent": "Codex", "title": "One", "cwd": str(rig.place)}, CLIENT)
        await rig.open(session_id=opened["session_id"], workspace=str(rig.place / "sub"), cwd=str(rig.place / "sub"))
        await begin(rig, "Write it")
        await rig.run("echo one > b.txt")
        await finish(rig)
        assert [file["path"] for file in (await files(rig))["files"]] == ["sub/b.txt"]
        [touch] = (await files(rig, path="b.txt", cwd=str(rig.place / "sub")))["touches"]
        assert touch["diffs"][0]["diff"].endswith("+one\n")


async def test_a_rebuild_keeps_the_files_of_commands(rig: ShellRig) -> None:
    await begin(rig, "Write it")
    await rig.run("echo one > b.txt")
    await rig.run("echo two > b.txt")
    await finish(rig)
    before = (await files(rig))["files"]
    assert before
    async for _ in rig.app.maintenance.rebuild([rig.session_id]):
        pass
    assert (await files(rig))["files"] == before
