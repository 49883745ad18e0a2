import os
from collections.abc import Generator
from pathlib import Path

import pytest

from shiftlog.guard import directories
from shiftlog.guard.directories import open_beneath, open_directory, open_real, real_path
from tests.races import FEW_TRIES, TRIES, exchanging


@pytest.fixture(params=["in one step", "step by step"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "step by step":
        monkeypatch.setattr(directories, "HAS_OPENAT2", False)


@pytest.fixture
def place(tmp_path: Path) -> Generator[int]:
    (tmp_path / "ws" / "sub").mkdir(parents=True)
    (tmp_path / "ws" / "sub" / "file").write_text("inside")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("outside")
    with open_directory(str(tmp_path / "ws")) as opened:
        yield opened.descriptor


@pytest.mark.usefixtures("kernel")
def test_a_path_below_a_directory_is_opened(place: int) -> None:
    assert _read(place, b"sub/file") == b"inside"


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("path", [b"link", b"far/file", b"near/file", b"../outside/file", b"/etc"])
def test_no_link_and_no_way_up_is_followed(place: int, tmp_path: Path, path: bytes) -> None:
    (tmp_path / "ws" / "link").symlink_to("sub/file")
    (tmp_path / "ws" / "far").symlink_to(tmp_path / "outside")
    (tmp_path / "ws" / "near").symlink_to("sub")
    if path == b"/etc" and not directories.HAS_OPENAT2:
        path = b"etc"
    with pytest.raises(OSError):  # noqa: PT011 — the reason differs by kernel
        _read(place, path)


@pytest.mark.usefixtures("kernel")
def test_a_directory_keeps_its_identity_after_its_path_is_taken(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    with open_real(str(tmp_path / "ws")) as opened:
        (tmp_path / "ws").rename(tmp_path / "moved")
        (tmp_path / "ws").mkdir()
        with open_real(str(tmp_path / "moved")) as moved, open_real(str(tmp_path / "ws")) as other:
            assert opened.is_same(moved)
            assert not opened.is_same(other)


def test_links_of_the_given_path_are_resolved_once(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    (tmp_path / "link").symlink_to("ws")
    with open_real(str(tmp_path / "link")) as opened:
        assert opened.path == str(tmp_path / "ws")
    with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
        open_directory(str(tmp_path / "link"))


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("tries", [FEW_TRIES, pytest.param(TRIES, marks=pytest.mark.guard)])
def test_a_directory_that_flips_is_opened_where_its_path_says(tmp_path: Path, tries: int) -> None:
    ws, outside = tmp_path / "ws", tmp_path / "outside"
    (ws / "sub").mkdir(parents=True)
    outside.mkdir()
    (ws / "other").symlink_to(outside)
    with exchanging(ws / "sub", ws / "other"):
        for _ in range(tries * 20):
            try:
                opened = open_real(str(ws / "sub"))
            except OSError:
                continue
            with opened:
                is_outside = os.stat(opened.descriptor).st_ino == outside.stat().st_ino  # noqa: PTH116
                assert is_outside == (opened.path == str(outside))


def test_a_link_that_becomes_a_directory_is_resolved_again(tmp_path: Path) -> None:
    ws, outside = tmp_path / "ws", tmp_path / "outside"
    (ws / "sub").mkdir(parents=True)
    outside.mkdir()
    (ws / "other").symlink_to(outside)
    with exchanging(ws / "sub", ws / "other"):
        found = {real_path(str(ws / "sub")) for _ in range(30_000)}
    assert found == {str(ws / "sub"), str(outside)}


def _read(directory: int, path: bytes) -> bytes:
    descriptor = open_beneath(directory, path, os.O_RDONLY)
    try:
        return os.read(descriptor, 100)
    finally:
        os.close(descriptor)
