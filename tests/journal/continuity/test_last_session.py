"""One answer to "what was the last session here?", whoever asks: resume, open, brief, the start of a client."""

import subprocess
from collections.abc import Awaitable
from pathlib import Path
from typing import cast

import pytest

from shiftlog.control.questions import answer
from shiftlog.journal.worktrees import worktrees
from shiftlog.model.caller import Caller
from tests.journal.harness import Harness, client


def at(folder: Path, name: str = "next") -> Caller:
    return client(name, cwd=str(folder), workspace=str(folder))


async def left(harness: Harness, folder: Path, title: str, *, agent_id: str = "Codex", turn: bool = True) -> str:
    """Leave an unfinished session in a folder, by a client that is gone."""
    worker = at(folder, title)
    session = await harness.open(worker, title=title, agent_id=agent_id)
    if turn:
        await harness.begin(session, worker)
    await harness.app.continuity.client_gone(f"client-{title}")
    harness.wait(minutes=1)
    return session


async def answers(harness: Harness, folder: Path) -> set[str]:
    """Ask everybody who knows the last session of a folder; return the ids that they answer."""
    caller = at(folder)
    opened = await harness.call("open_session", {"agent": "Codex", "title": "Just opened"}, caller)
    found = {opened["predecessor"]["session_id"] if opened["predecessor"] else ""}
    for name, given in (("brief", {"agent_id": "Codex"}), ("brief", {})):
        said = cast("dict[str, str]", await cast("Awaitable[object]", answer(harness.app, name, given, caller)))
        found.add(said["text"].split("# Hand-over of ")[1].split(",")[0])
    starting = {"source": "startup", "cwd": str(folder), "agent": "Codex", "session_id": "x"}
    text = await harness.app.hook_answers.brief(starting) or "# Hand-over of none,"
    found.add(text.split("# Hand-over of ")[1].split(",")[0])
    resumed = await harness.call("resume_session", {"agent_id": "Codex"}, caller)
    found.add(resumed["data"]["resumed_session_id"])
    return found


def make_worktree(main: Path, linked: Path) -> None:
    who = "-c user.name=t -c user.email=t@example.org"
    for command in (f"init -q {main}", f"-C {main} {who} commit -q --allow-empty -m x"):
        subprocess.run(["git", *command.split()], check=True, timeout=30)
    subprocess.run(["git", "-C", main, "worktree", "add", "-q", linked], check=True, timeout=30)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    here.mkdir()
    elsewhere.mkdir()
    return here, elsewhere


async def test_all_ways_name_the_session_of_this_workspace_with_work_in_it(
    harness: Harness, folders: tuple[Path, Path]
) -> None:
    here, elsewhere = folders
    wanted = await left(harness, here, "wanted")
    await left(harness, here, "empty", turn=False)
    sealed = await left(harness, here, "sealed")
    await harness.call("close_session", {"session_id": sealed, "succession_policy": "closed_without_successor"})
    await left(harness, elsewhere, "newer-elsewhere")
    assert await answers(harness, here) == {wanted}


async def test_the_callers_own_session_is_not_meant_unless_it_is_named(harness: Harness) -> None:
    earlier = await harness.open(client("earlier"), title="Earlier")
    await harness.begin(earlier, client("earlier"))
    await harness.app.continuity.client_gone("client-earlier")
    me = client("me")
    harness.wait(minutes=1)
    own = await harness.open(me, title="Own")
    await harness.begin(own, me)
    found = await harness.call("resume_session", {"agent_id": "Codex"}, me)
    assert found["data"]["resumed_session_id"] == earlier
    named = await harness.call("resume_session", {"agent_id": "Codex", "session_id": own}, me)
    assert (named["data"]["resumed_session_id"], named["data"]["lease"]["fence"]) == (own, 1)


async def test_an_empty_session_never_comes_before_one_with_work(harness: Harness) -> None:
    work = await harness.open(title="Work")
    await harness.begin(work)
    stated = await harness.open(title="Stated")
    await harness.call("close_session", {"session_id": stated, "capsule": {"version": 1, "goal": "Ship"}})
    for n in range(60):
        harness.wait(minutes=1)
        await harness.open(title=f"Empty {n}")
    answered = await harness.call("resume_session", {"agent_id": "Codex"})
    assert answered["data"]["resumed_session_id"] == work
    assert [each["session_id"] for each in answered["data"]["other_candidates"]] == [stated]


async def test_another_worktree_of_the_repository_comes_before_other_places(harness: Harness, tmp_path: Path) -> None:
    main, linked, other = tmp_path / "main", tmp_path / "linked", tmp_path / "other"
    other.mkdir()
    make_worktree(main, linked)
    assert {str(main), str(linked)} == set(worktrees(str(main))) == set(worktrees(str(linked)))
    assert worktrees(str(other)) == []
    wanted = await left(harness, linked, "in-worktree")
    await left(harness, other, "newer-elsewhere")
    assert await answers(harness, main) == {wanted}
