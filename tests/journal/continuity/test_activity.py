"""Activity is what an agent or a person does: bookkeeping moves no session up, and undone work is not claimed."""

import os
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shiftlog.control.questions import answer
from shiftlog.journal.continuity.capsule.brief import brief
from shiftlog.model.caller import LIBRARY, Caller
from tests.journal.harness import NOON, Harness, client, open_harness

PERSON = Caller(face="cli", operator=True)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "place"
    folder.mkdir()
    (folder / "kept.txt").write_text("as it was\n")
    return folder


async def shell_in(harness: Harness, session: str, place: Path, by: Caller = LIBRARY) -> str:
    given = {"session_id": session, "cwd": str(place), "workspace": str(place)}
    return (await harness.app.shells.open_shell(given, by))["shell_id"]


async def run(harness: Harness, shell: str, command: str, by: Caller = LIBRARY) -> dict[str, Any]:
    return await harness.app.shells.commands.run_command({"shell_id": shell, "command": command}, by)


async def resumed(harness: Harness, **given: Any) -> dict[str, Any]:
    return (await harness.call("resume_session", {"agent_id": "Codex", **given}))["data"]


async def undo(harness: Harness, place: Path, **given: Any) -> Any:
    said = answer(harness.app, "undo", {"cwd": str(place), **given}, PERSON)
    assert not isinstance(said, AsyncIterator)
    return await said


@pytest.mark.parametrize("ending", ["idle", "busy"])
async def test_a_shell_that_ends_with_its_server_moves_no_session_up(tmp_path: Path, place: Path, ending: str) -> None:
    home = tmp_path / "home"
    async with open_harness(home) as harness:
        older = await harness.open(title="Older, with a shell")
        await harness.begin(older)
        shell = await shell_in(harness, older, place)
        await run(harness, shell, "true")
        if ending == "busy":
            given = {"shell_id": shell, "command": "sleep 60", "background": True}
            await harness.app.shells.commands.run_command(given, LIBRARY)
        harness.wait(minutes=5)
        newer = await harness.open(title="Newer")
        await harness.begin(newer)
        harness.wait(minutes=5)
    async with open_harness(home) as harness:
        await harness.app.shells.recover()
        assert (await harness.session(older)).last_activity == NOON
        data = await resumed(harness)
        assert (data["resumed_session_id"], data["drift"]) == (newer, None)
        assert [each["session_id"] for each in data["other_candidates"]] == [older]


async def test_drift_is_measured_from_the_agents_own_last_deed(tmp_path: Path, place: Path) -> None:
    home = tmp_path / "home"
    async with open_harness(home) as harness:
        session = await harness.open(client(cwd=str(place), workspace=str(place)))
        await harness.begin(session)
        await harness.update(session, files_modified=["kept.txt"])
        await shell_in(harness, session, place)
        harness.wait(minutes=30)
    async with open_harness(home) as harness:
        await harness.app.shells.recover()
        # Sweeps, a person's close and offer come later; the file was changed before them.
        await harness.app.sweep()
        changed_at = NOON + timedelta(minutes=20)
        os.utime(place / "kept.txt", (changed_at.timestamp(), changed_at.timestamp()))
        await harness.call("close_session", {"session_id": session}, PERSON)
        harness.wait(minutes=5)
        offered = await harness.call("offer", {"session_id": session, "agent_id": "beta"}, PERSON)
        given = {"agent_id": "beta", "recovery_token": offered["recovery_token"]}
        drift = (await harness.call("resume_session", given))["data"]["drift"]
        assert drift["since"] == "2026-07-01T12:00:00Z"
        assert drift["files_changed"] == ["kept.txt"]


async def test_bookkeeping_leaves_the_last_activity_alone(harness: Harness) -> None:
    session = await harness.open(client("one"), pid=1)
    await harness.begin(session, client("one"))
    harness.wait(minutes=3)
    await harness.app.sweep()
    await harness.call("reissue_token", {"session_id": session}, PERSON)
    assert (await harness.session(session)).last_activity == NOON
    harness.wait(minutes=3)
    data = await resumed(harness)
    assert data["last_activity"] == "2026-07-01T12:00:00Z"
    assert (await harness.session(session)).last_activity == NOON + timedelta(minutes=6), "resuming is a deed"


async def test_work_that_a_person_took_back_is_named_and_not_claimed(harness: Harness, place: Path) -> None:
    worker = client(cwd=str(place), workspace=str(place))
    session = await harness.open(worker)
    await harness.begin(session, worker, query_title="Write the report")
    shell = await shell_in(harness, session, place, worker)
    ran = await run(harness, shell, "echo done > report.txt", worker)
    await harness.complete(session, worker, response="Wrote report.txt", files_modified=["report.txt"])
    harness.wait(minutes=1)
    undone = await undo(harness, place, clean=True)
    assert undone["commands"] == [ran["command_id"]]
    await harness.app.continuity.client_gone("client-one")
    answered = await harness.call("resume_session", {"agent_id": "Codex"})
    assert [each["message"] for each in answered["warnings"]] == [
        "taken back by a person: echo done > report.txt (report.txt)"
    ]
    data = answered["data"]
    (taken,) = data["drift"]["taken_back"]
    assert taken == {
        "command_or_turn": ran["command_id"],
        "by": "person",
        "at": "2026-07-01T12:01:00Z",
        "files": ["report.txt"],
        "command": "echo done > report.txt",
    }
    (done,) = data["capsule"]["done"]
    assert done["text"] == "taken back by a person, wholly or in part: Write the report: Wrote report.txt"
    assert data["capsule"]["files_touched"][0]["taken_back"] == "person"
    assert data["capsule"]["last_commands"][0]["taken_back"] == "person"
    text = await harness.read(lambda reader: brief(reader, worker, harness.now(), session_id=session))
    assert "taken back by a person" in text


async def test_an_undo_that_changed_no_file_takes_nothing_back(harness: Harness, place: Path) -> None:
    session = await harness.open(client(cwd=str(place), workspace=str(place)))
    await harness.begin(session)
    shell = await shell_in(harness, session, place)
    await run(harness, shell, "echo new > made.txt")
    harness.wait(minutes=1)
    assert (await undo(harness, place))["left_in_place"]["paths"] == ["made.txt"]
    await harness.app.continuity.client_gone("client-one")
    data = await resumed(harness)
    assert (data["drift"]["taken_back"], "taken_back" in data["capsule"]["last_commands"][0]) == ([], False)


async def test_an_undo_that_was_undone_takes_nothing_back(harness: Harness, place: Path) -> None:
    session = await harness.open(client(cwd=str(place), workspace=str(place)))
    await harness.begin(session)
    shell = await shell_in(harness, session, place)
    await run(harness, shell, "echo new > kept.txt")
    harness.wait(minutes=1)
    undone = await undo(harness, place)
    harness.wait(minutes=1)
    await undo(harness, place, checkpoint_id=undone["safety_checkpoint_id"])
    assert (place / "kept.txt").read_text() == "new\n"
    await harness.app.continuity.client_gone("client-one")
    data = await resumed(harness)
    assert data["drift"]["taken_back"] == []
    assert "taken_back" not in data["capsule"]["last_commands"][0]


async def test_an_undo_after_the_session_was_closed_is_known_to_the_next_agent(harness: Harness, place: Path) -> None:
    worker = client(cwd=str(place), workspace=str(place))
    session = await harness.open(worker)
    await harness.begin(session, worker, query_title="First")
    shell = await shell_in(harness, session, place, worker)
    await run(harness, shell, "echo one > one.txt", worker)
    await harness.complete(session, worker)
    harness.wait(minutes=1)
    await harness.begin(session, worker, query_title="Second")
    ran = await run(harness, shell, "echo two > two.txt", worker)
    await harness.complete(session, worker)
    await harness.app.shells.close_shell({"shell_id": shell}, worker)
    await harness.call("close_session", {"session_id": session}, worker)
    harness.wait(minutes=1)
    await undo(harness, place, clean=True)
    data = await resumed(harness)
    assert data["resumed_session_id"] == session
    assert [each["command_or_turn"] for each in data["drift"]["taken_back"]] == [ran["command_id"]]
    first, second = (item["text"] for item in data["capsule"]["done"])
    assert first == "First: Done"
    assert second.startswith("taken back by a person")
