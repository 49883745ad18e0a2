"""Pipes, sockets, devices and endless files in the place of git's files keep no checkpoint waiting."""

import os
import socket
from pathlib import Path

import anyio
import pytest

from shiftlog.workspace import runner
from tests.workspace.yard import Yard

GIT_FILES = ("HEAD", "index", "config", "commondir", "packed-refs", "info/attributes", "objects/info/alternates")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "STALL_S", 0.2)


async def _saves_and_restores(yard: Yard) -> None:
    with anyio.fail_after(30):
        await yard.open()
        saved = await yard.save()
        yard.write("kept", "changed\n")
        await yard.restore(saved.checkpoint_id)
    assert yard.read("kept") == "kept\n"


def _committed(yard: Yard) -> Path:
    yard.write("kept", "kept\n")
    yard.git("init", "-q")
    yard.git("add", "-A")
    yard.git("commit", "-qm", "first")
    return yard.path / ".git"


def _put(path: Path, kind: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        with path.open("wb") as file:
            file.truncate(1 << 40)


@pytest.mark.parametrize("name", GIT_FILES)
@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "endless"])
async def test_a_special_file_of_a_repository_is_not_waited_for(local_yard: Yard, name: str, kind: str) -> None:
    git = _committed(local_yard)
    _put(git / name, kind)
    await _saves_and_restores(local_yard)


@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
@pytest.mark.parametrize("name", [".git", ".gitignore", ".gitattributes", "sub/.gitignore", "sub/.git/HEAD"])
async def test_a_special_file_of_a_workspace_is_not_waited_for(local_yard: Yard, name: str, kind: str) -> None:
    local_yard.write("kept", "kept\n")
    local_yard.write("sub/file", "kept\n")
    if name == "sub/.git/HEAD":
        local_yard.write("sub/.git/refs/x", "")
        local_yard.write("sub/.git/objects/x", "")
    _put(local_yard.path / name, kind)
    await _saves_and_restores(local_yard)


@pytest.mark.parametrize("kind", ["pipe", "device", "endless"])
async def test_a_list_of_lenders_that_comes_later_is_not_read(local_yard: Yard, kind: str) -> None:
    git = _committed(local_yard)
    await local_yard.open()
    await local_yard.save()
    _put(git / "objects/info/alternates", kind)
    await _saves_and_restores(local_yard)


async def test_a_special_file_that_was_tracked_is_not_waited_for(local_yard: Yard) -> None:
    local_yard.write("kept", "kept\n")
    local_yard.write(".gitattributes", "*.x text\n")
    local_yard.write("pipe", "once a file\n")
    await local_yard.open()
    await local_yard.save()
    for name in (".gitattributes", "pipe"):
        _put(local_yard.path / name, "pipe")
    await _saves_and_restores(local_yard)
