"""How the files of a capsule stand in git, and that nothing which the workspace configures runs to find out."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from shiftlog.journal.continuity.file_states import file_states
from tests.journal.harness import Harness, client

FILES = ("kept.txt", "edited.txt", "staged.txt", "gone.txt")


def git(place: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(place), *arguments], check=True, capture_output=True)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    git(folder, "init", "--quiet")
    for name in FILES:
        (folder / name).write_text("one\n")
    git(folder, "add", ".")
    git(folder, "-c", "user.name=n", "-c", "user.email=n@example.org", "commit", "--quiet", "--message=First")
    (folder / "edited.txt").write_text("two\n")
    (folder / "staged.txt").write_text("two\n")
    git(folder, "add", "staged.txt")
    (folder / "gone.txt").unlink()
    (folder / "new.txt").write_text("one\n")
    return folder


async def test_each_state_is_told(place: Path) -> None:
    (place / "kept.txt").touch()
    names = [*FILES, "new.txt", "never.txt", "/etc/hostname", "../outside.txt", ":(top)new.txt"]
    assert await file_states(str(place), names) == {
        "kept.txt": "committed",
        "edited.txt": "modified",
        "staged.txt": "modified",
        "gone.txt": "modified",
        "new.txt": "untracked",
        "never.txt": None,
        ":(top)new.txt": None,
    }


async def test_line_ends_that_git_changes_are_no_change(place: Path) -> None:
    git(place, "config", "core.autocrlf", "true")
    (place / "kept.txt").write_bytes(b"one\r\n")
    assert await file_states(str(place), ["kept.txt"]) == {"kept.txt": "committed"}


async def test_where_git_knows_nothing_nothing_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    assert await file_states(str(tmp_path), ["a.txt"]) == {}
    assert await file_states(None, ["a.txt"]) == {}
    assert await file_states(str(tmp_path / "nowhere"), ["a.txt"]) == {}


async def test_a_repository_without_a_commit_has_only_untracked_and_staged_files(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "a.txt").write_text("one\n")
    (tmp_path / "b.txt").write_text("one\n")
    git(tmp_path, "add", "b.txt")
    assert await file_states(str(tmp_path), ["a.txt", "b.txt"]) == {"a.txt": "untracked", "b.txt": "modified"}


async def test_a_filter_of_the_workspace_does_not_run(place: Path, tmp_path: Path) -> None:
    (place / ".gitattributes").write_text("*.txt filter=spy\n")
    git(place, "config", "filter.spy.clean", f"tee {tmp_path / 'ran'}")
    git(place, "config", "core.fsmonitor", f"touch {tmp_path / 'ran'}")
    (place / "kept.txt").write_text("new\n")
    assert await file_states(str(place), ["kept.txt"]) == {"kept.txt": "modified"}
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("way", ["close", "resume"])
async def test_the_capsules_of_close_and_resume_tell_it(harness: Harness, place: Path, way: str) -> None:
    worker = client(cwd=str(place), workspace=str(place))
    session = await harness.open(worker)
    await harness.begin(session, worker)
    await harness.update(session, worker, files_modified=["kept.txt", "new.txt", "/etc/hostname"])
    answered: dict[str, Any]
    if way == "close":
        answered = await harness.call("close_session", {"session_id": session}, worker)
    else:
        await harness.app.continuity.client_gone("client-one")
        answered = await harness.call("resume_session", {"agent_id": "Codex"}, client("two"))
    told = {item["path"]: item["git"] for item in answered["data"]["capsule"]["files_touched"]}
    assert told == {"kept.txt": "committed", "new.txt": "untracked", "/etc/hostname": None}
