"""Which project a session belongs to: by its repository's address, its first commit, or its path."""

import subprocess
from pathlib import Path

import pytest

from shiftlog.ingest.files.projects import SessionLocation, plain_address, project_key, projects_of


@pytest.mark.parametrize(
    "address",
    [
        "https://user:word@GitHub.com/org/Repo.git",
        "git@github.com:org/Repo.git",
        "ssh://git@github.com:22/org/Repo",
        "https://github.com/org/Repo/",
    ],
)
def test_all_spellings_of_an_address_are_one_project(address: str) -> None:
    assert plain_address(address) == "github.com/org/Repo"


@pytest.mark.parametrize(
    ("address", "project"),
    [
        ("file:///srv/my repos/App.git", "/srv/my repos/App"),
        ("/srv/my repos/App.git/", "/srv/my repos/App"),
        ("ssh://git@[2001:DB8::1]:22/org/Repo.git", "[2001:db8::1]/org/Repo"),
    ],
)
def test_addresses_without_the_name_of_a_host_are_plain_too(address: str, project: str) -> None:
    assert plain_address(address) == project


def test_the_address_in_the_transcript_comes_before_the_directory() -> None:
    place = SessionLocation(cwd="/srv/app", repository="https://example.org/a/b.git")
    assert project_key(place, {}) == "example.org/a/b"
    assert project_key(SessionLocation(cwd="/srv/app"), {}) == "/srv/app"
    assert project_key(SessionLocation(cwd="/srv/app"), {"/srv/app": "/srv/other"}) == "/srv/other"
    assert project_key(SessionLocation(), {}) is None


def test_a_directory_that_is_there_says_its_origin_or_its_first_commit(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments]
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "first")
    inner, other = tmp_path / "inner", tmp_path / "other"
    inner.mkdir()
    other.mkdir()
    assert project_key(SessionLocation(cwd=str(inner)), {}) == git("rev-parse", "HEAD")
    git("remote", "add", "origin", "git@example.org:team/app.git")
    assert project_key(SessionLocation(cwd=str(other)), {}) == "example.org/team/app"


def test_a_directory_whose_commits_are_missing_runs_nothing_to_fetch_them(tmp_path: Path) -> None:
    repository, ran = tmp_path / "r", tmp_path / "ran"
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {ran}\nexit 1\n")
    trap.chmod(0o755)
    repository.mkdir()

    def git(*arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=repository, check=False, capture_output=True)

    git("init", "-q")
    (repository / ".git/HEAD").write_text("1" * 40 + "\n")
    settings = {"remote.far.url": str(tmp_path), "remote.far.promisor": "true", "remote.far.uploadpack": str(trap)}
    for name, value in {**settings, "core.repositoryFormatVersion": "1", "extensions.partialClone": "far"}.items():
        git("config", name, value)
    git("rev-list", "HEAD")
    assert ran.exists(), "the trap works"
    ran.unlink()
    assert project_key(SessionLocation(cwd=str(repository)), {}) == str(repository)
    assert not ran.exists()


@pytest.mark.parametrize("cwd", ["x" * 5000, ".", "src", "a\0b", "/nowhere/at/all"])
def test_a_directory_that_cannot_be_asked_is_its_own_project(cwd: str) -> None:
    """Also a relative one: it says nothing about the directory of this process."""
    assert project_key(SessionLocation(cwd=cwd), {}) == cwd


def test_every_path_of_a_session_is_an_alias_of_its_project() -> None:
    places = {
        "s": [
            SessionLocation(cwd="/a", repository="https://example.org/x.git", folder="/t"),
            SessionLocation(cwd="/b", folder="/t"),
        ]
    }
    found = projects_of(places, {"/old": "/a"})
    assert found.paths == {"/a": "example.org/x", "/b": "example.org/x", "/t": "example.org/x", "/old": "example.org/x"}
    assert found.sessions == {"s": {"project": "example.org/x"}}
