"""Drift on resume: files changed, branch moved and commits added since the last activity, seen with real git."""

import os
import shutil
import subprocess
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from shiftlog.journal.pen import Pen
from shiftlog.model.caller import LIBRARY
from shiftlog.model.entry import Kind
from shiftlog.store.protocol import Writer
from tests.journal.harness import NOON, Harness, open_harness

SIGNATURE = "-----BEGIN PGP SIGNATURE-----\n \n none\n -----END PGP SIGNATURE-----"


class Workspace:
    """A folder, by default a git repository, whose files and commits carry the times that a test gives them."""

    def __init__(self, root: Path, *, repository: bool = True) -> None:
        self.root = root
        root.mkdir()
        if repository:
            self.git("init", "--quiet", "--initial-branch=main", at=NOON - timedelta(days=1))

    def git(self, *arguments: str, at: datetime) -> str:
        when = f"{int(at.timestamp())} +0000"
        who = {f"GIT_{role}_{what}": "t@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.root,
            env={**os.environ, **who, "GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when},
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        return done.stdout

    def write(self, name: str, text: str, at: datetime) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (at.timestamp(), at.timestamp()))

    def commit(self, name: str, text: str, at: datetime) -> None:
        self.write(name, text, at)
        self.git("add", name, at=at)
        self.git("commit", "--quiet", "--message", name, at=at)


async def resumed(harness: Harness, **arguments: Any) -> dict[str, Any]:
    return (await harness.call("resume_session", {"agent_id": "Codex", **arguments}))["data"]["drift"]


async def opened(harness: Harness, workspace: Path) -> str:
    return await harness.open(replace(LIBRARY, cwd=str(workspace), workspace=str(workspace)))


async def test_what_was_left_alone_has_not_drifted(harness: Harness, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "w")
    workspace.commit("a.py", "a", NOON - timedelta(hours=1))
    workspace.write("dirty.py", "written by the agent before it stopped", NOON)
    await opened(harness, workspace.root)
    assert await resumed(harness) == {
        "files_changed": [],
        "branch_before": "main",
        "branch_now": "main",
        "commits_added": 0,
        "shells_gone": [],
        "since": "2026-07-01T12:00:00Z",
        "taken_back": [],
    }


async def test_changed_files_a_moved_branch_and_new_commits_are_told(harness: Harness, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "w")
    workspace.commit("a.py", "a", NOON - timedelta(hours=1))
    workspace.commit("kept.py", "k", NOON - timedelta(hours=1))
    await opened(harness, workspace.root)
    later = NOON + timedelta(minutes=5)
    workspace.git("checkout", "--quiet", "-b", "fix/ü", at=later)
    workspace.commit("b.py", "b", later)
    workspace.commit("c.py", "c", later)
    workspace.write("a.py", "changed", later)
    workspace.write("new file.py", "new", later)
    (workspace.root / ".gitignore").write_text("ignored.log\n")
    workspace.write("ignored.log", "noise", later)
    drift = await resumed(harness)
    assert set(drift["files_changed"]) == {"a.py", "b.py", "c.py", "new file.py", ".gitignore"}
    assert (drift["branch_before"], drift["branch_now"], drift["commits_added"]) == ("main", "fix/ü", 2)


@pytest.mark.parametrize("steps", [19, 20, 21, 45])
async def test_every_commit_of_a_long_absence_is_told(harness: Harness, tmp_path: Path, steps: int) -> None:
    workspace = Workspace(tmp_path / "w")
    workspace.commit("a.py", "a", NOON - timedelta(hours=1))
    await opened(harness, workspace.root)
    workspace.git("checkout", "--quiet", "-b", "elsewhere", at=NOON + timedelta(minutes=4))
    for number in range(steps):
        at = NOON + timedelta(minutes=5, seconds=number)
        workspace.git("commit", "--quiet", "--allow-empty", "--message", str(number), at=at)
    drift = await resumed(harness)
    assert (drift["branch_before"], drift["commits_added"]) == ("main", steps)


async def test_a_deleted_file_is_told(harness: Harness, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "w")
    workspace.commit("lib/gone.py", "x", NOON - timedelta(hours=1))
    await opened(harness, workspace.root)
    (workspace.root / "lib" / "gone.py").unlink()
    assert (await resumed(harness))["files_changed"] == ["lib/gone.py"]


async def test_a_file_that_git_removed_or_renamed_is_told_before_it_is_committed(
    harness: Harness, tmp_path: Path
) -> None:
    workspace = Workspace(tmp_path / "w")
    for name in ("removed.py", "old.py", "kept.py"):
        workspace.commit(name, name, NOON - timedelta(hours=1))
    await opened(harness, workspace.root)
    workspace.git("rm", "--quiet", "removed.py", at=NOON)
    workspace.git("mv", "old.py", "new.py", at=NOON)
    drift = await resumed(harness)
    assert {"removed.py", "old.py"} <= set(drift["files_changed"]) <= {"removed.py", "old.py", "new.py"}


async def test_files_that_a_submodule_tracks_are_told(harness: Harness, tmp_path: Path) -> None:
    library = Workspace(tmp_path / "library")
    library.commit("src/lib.py", "l", NOON - timedelta(hours=1))
    library.commit("still.py", "s", NOON - timedelta(hours=1))
    workspace = Workspace(tmp_path / "w")
    workspace.git(
        *("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library.root), "vendor/library"),
        at=NOON - timedelta(minutes=50),
    )
    workspace.git("commit", "--quiet", "--message", "Vendor it", at=NOON - timedelta(minutes=50))
    for path in workspace.root.rglob("*"):
        os.utime(path, (NOON.timestamp(), NOON.timestamp()))
    await opened(harness, workspace.root)
    workspace.write("vendor/library/src/lib.py", "patched", NOON + timedelta(minutes=5))
    assert (await resumed(harness))["files_changed"] == ["vendor/library/src/lib.py"]


async def test_a_branch_that_was_renamed_had_its_old_name_before(harness: Harness, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "w")
    workspace.commit("a.py", "a", NOON - timedelta(hours=1))
    await opened(harness, workspace.root)
    workspace.git("branch", "--move", "trunk", at=NOON + timedelta(minutes=1))
    drift = await resumed(harness)
    assert (drift["branch_before"], drift["branch_now"]) == ("main", "trunk")


async def test_without_a_repository_the_files_of_the_session_are_still_watched(
    harness: Harness, tmp_path: Path
) -> None:
    workspace = Workspace(tmp_path / "w", repository=False)
    workspace.write("a.py", "a", NOON - timedelta(hours=1))
    workspace.write("b.py", "b", NOON - timedelta(hours=1))
    session = await opened(harness, workspace.root)
    await harness.begin(session)
    await harness.update(session, files_modified=["a.py", "b.py"])
    workspace.write("a.py", "b", NOON + timedelta(minutes=1))
    drift = await resumed(harness)
    assert drift["files_changed"] == ["a.py"]
    assert drift["branch_before"] is drift["branch_now"] is drift["commits_added"] is None


async def test_without_a_repository_files_that_the_session_never_named_are_told_too(
    harness: Harness, tmp_path: Path
) -> None:
    workspace = Workspace(tmp_path / "w", repository=False)
    workspace.write("src/old.py", "a", NOON - timedelta(hours=1))
    await opened(harness, workspace.root)
    for name in ("src/new.py", "top.txt", ".cache/x", "node_modules/y"):
        workspace.write(name, "b", NOON + timedelta(minutes=1))
    assert (await resumed(harness))["files_changed"] == ["src/new.py", "top.txt"]


async def test_the_budget_of_the_capsule_hides_no_file_that_changed(harness: Harness, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "w", repository=False)
    names = [f"src/some/folder/file_{n:03}.py" for n in range(60)]
    for name in names:
        workspace.write(name, "a", NOON - timedelta(hours=1))
    session = await opened(harness, workspace.root)
    await harness.begin(session)
    await harness.update(session, files_modified=names)
    workspace.write(names[0], "b", NOON + timedelta(minutes=1))
    assert (await resumed(harness, capsule_budget_bytes=2_000))["files_changed"] == [names[0]]


async def test_a_workspace_that_is_not_there_or_not_known_cannot_be_seen(harness: Harness, tmp_path: Path) -> None:
    await harness.open()
    assert await resumed(harness) is None
    harness.wait(minutes=1)
    await opened(harness, tmp_path / "never was")
    assert await resumed(harness) is None


async def test_nothing_that_the_workspace_configures_is_executed(harness: Harness, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "w")
    trap, mark = tmp_path / "trap", tmp_path / "sprung"
    trap.write_text(f"#!/bin/sh\ntouch '{mark}'\ncat\n")
    trap.chmod(0o755)
    workspace.write(".gitattributes", "* filter=trap diff=trap\n", NOON)
    workspace.commit("a.py", "a", NOON - timedelta(hours=1))
    for key in ("core.fsmonitor", "filter.trap.clean", "filter.trap.smudge", "diff.trap.textconv", "diff.external"):
        workspace.git("config", key, str(trap), at=NOON)
    workspace.git("config", "core.hooksPath", str(tmp_path), at=NOON)
    (tmp_path / "post-index-change").symlink_to(trap)
    await opened(harness, workspace.root)
    workspace.write("a.py", "changed", NOON + timedelta(minutes=1))
    assert (await resumed(harness))["files_changed"] == ["a.py"]
    assert not mark.exists()


async def test_no_signature_is_checked_and_no_object_fetched_by_programs_of_the_workspace(
    harness: Harness, tmp_path: Path
) -> None:
    workspace = Workspace(tmp_path / "w")
    trap, mark = tmp_path / "trap", tmp_path / "sprung"
    trap.write_text(f"#!/bin/sh\ntouch '{mark}'\nexit 1\n")
    trap.chmod(0o755)
    workspace.commit("a.py", "a", NOON - timedelta(hours=2))
    await opened(harness, workspace.root)
    signed = workspace.git("cat-file", "commit", "HEAD", at=NOON).replace("\n\n", f"\ngpgsig {SIGNATURE}\n\n", 1)
    (tmp_path / "signed").write_text(signed)
    later = NOON + timedelta(minutes=1)
    made = workspace.git("hash-object", "-t", "commit", "-w", str(tmp_path / "signed"), at=later).strip()
    workspace.git("reset", "--quiet", "--hard", made, at=later)
    workspace.git("config", "gpg.program", str(trap), at=later)
    workspace.git("config", "log.showSignature", "true", at=later)
    settings = {"url": str(tmp_path), "promisor": "true", "uploadpack": str(trap)}
    for name, value in settings.items():
        workspace.git("config", f"remote.origin.{name}", value, at=later)
    workspace.git("config", "core.repositoryFormatVersion", "1", at=later)
    workspace.git("config", "extensions.partialClone", "origin", at=later)
    tree = workspace.git("rev-parse", "HEAD^{tree}", at=later).strip()
    (workspace.root / ".git/objects" / tree[:2] / tree[2:]).unlink()
    for command in (("reflog", "show", "--format=%H"), ("ls-tree", "HEAD")):
        with suppress(subprocess.CalledProcessError):
            workspace.git(*command, at=later)
        assert mark.exists(), f"the trap works for {command}"
        mark.unlink()
    await resumed(harness)
    assert not mark.exists()


async def test_shells_that_are_gone_are_named(harness: Harness, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "w", repository=False)
    session = await opened(harness, workspace.root)

    def work(writer: Writer) -> None:
        pen = Pen(writer, session, writer.session(session), harness.app.clock)
        for name in ("sh-gone", "sh-ended"):
            pen.write(Kind.SHELL_OPENED, {"shell_id": name, "cwd": str(workspace.root)})
        pen.write(Kind.SHELL_ENDED, {"shell_id": "sh-ended"})
        pen.commit(writer)

    await harness.app.store.write(work)
    await harness.app.shells.open_shell({"session_id": session, "cwd": str(workspace.root)}, LIBRARY)
    assert (await resumed(harness))["shells_gone"] == ["sh-gone"]


async def test_a_repository_made_after_the_session_says_nothing_of_before(harness: Harness, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "w")
    await opened(harness, workspace.root)
    workspace.commit("a.py", "a", NOON + timedelta(hours=1))
    drift = await resumed(harness)
    assert (drift["branch_before"], drift["branch_now"], drift["commits_added"]) == (None, "main", None)
    assert drift["files_changed"] == ["a.py"]


@pytest.fixture
async def harness(tmp_path: Path) -> Any:
    async with open_harness(tmp_path / "home") as harness:
        yield harness


async def test_commits_are_told_as_seen_from_a_workspace_inside_a_repository(harness: Harness, tmp_path: Path) -> None:
    repository = Workspace(tmp_path / "w")
    repository.commit("app/a.py", "a", NOON - timedelta(hours=1))
    await opened(harness, repository.root / "app")
    later = NOON + timedelta(minutes=5)
    repository.commit("app/b.py", "b", later)
    repository.commit("elsewhere/c.py", "c", later)
    drift = await resumed(harness)
    assert (drift["files_changed"], drift["commits_added"]) == (["b.py"], 2)


@pytest.mark.parametrize("is_repository", [True, False])
async def test_files_whose_folders_are_gone_too_are_told(harness: Harness, tmp_path: Path, is_repository: bool) -> None:
    workspace = Workspace(tmp_path / "w", repository=is_repository)
    workspace.write("lib/deep/gone.py", "x", NOON - timedelta(hours=1))
    if is_repository:
        workspace.commit("lib/deep/gone.py", "x", NOON - timedelta(hours=1))
    session = await opened(harness, workspace.root)
    await harness.begin(session)
    await harness.update(session, files_modified=["lib/deep/gone.py"])
    shutil.rmtree(workspace.root / "lib")
    assert (await resumed(harness))["files_changed"] == ["lib/deep/gone.py"]


async def test_a_path_that_the_capsule_cut_short_is_looked_at_whole(harness: Harness, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "w", repository=False)
    name = "/".join(["a-folder-with-a-rather-long-name"] * 12) + "/a.py"
    workspace.write(name, "x", NOON - timedelta(hours=1))
    session = await opened(harness, workspace.root)
    await harness.begin(session, query_text="y" * 3_000)
    await harness.update(session, files_modified=[name])
    workspace.write(name, "z", NOON + timedelta(minutes=1))
    data = (await harness.call("resume_session", {"agent_id": "Codex", "capsule_budget_bytes": 2_000}))["data"]
    assert data["drift"]["files_changed"] == [name]


async def test_names_that_are_no_text_are_marked_and_have_changed_only_when_their_files_did(
    harness: Harness, tmp_path: Path
) -> None:
    workspace = Workspace(tmp_path / "w")
    odd = os.fsdecode(b"caf\xe9.py")
    workspace.commit(odd, "x", NOON - timedelta(hours=1))
    await opened(harness, workspace.root)
    workspace.write("new.py", "x", NOON + timedelta(minutes=1))
    assert (await resumed(harness))["files_changed"] == ["new.py"]
    workspace.write(odd, "y", NOON + timedelta(minutes=1))
    workspace.git("checkout", "--quiet", "-b", odd, at=NOON + timedelta(minutes=1))
    drift = await resumed(harness)
    assert (drift["files_changed"], drift["branch_now"]) == (["caf\ufffd.py", "new.py"], "caf\ufffd.py")
