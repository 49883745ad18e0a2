"""Programs that Shiftlog starts itself come from the system first, and never from a project."""

from pathlib import Path

import pytest

from shiftlog.guard.own_programs import search_path


def _made(folder: Path, *names: str) -> str:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return str(folder)


def test_the_systems_directories_come_first_in_their_order(tmp_path: Path) -> None:
    own = _made(tmp_path / "tools", "git")
    path = f"{own}:/usr/bin:relative::/usr/local/bin:{own}:/bin"
    assert search_path({"PATH": path}) == f"/usr/bin:/usr/local/bin:/bin:{own}"
    assert "/usr/bin" in search_path({})
    assert "/usr/bin" in search_path({"PATH": "relative"})


@pytest.mark.parametrize(
    "names",
    [(".venv/pyvenv.cfg", ".venv/bin/git"), (".git/HEAD", "bin/git"), ("node_modules/.bin/git",), (".cache/x/git",)],
)
def test_a_directory_of_a_project_is_left_out(tmp_path: Path, names: tuple[str, ...]) -> None:
    project = tmp_path / "project"
    _made(project, *names)
    place = project.joinpath(names[-1]).parent
    link = tmp_path / "link"
    link.symlink_to(place)
    assert search_path({"PATH": f"{place}:{link}:/usr/bin"}) == "/usr/bin"


def test_a_directory_of_the_workspace_at_hand_is_left_out(tmp_path: Path) -> None:
    inside, outside = _made(tmp_path / "work/bin", "git"), _made(tmp_path / "tools", "git")
    path = f"{inside}:{outside}:/usr/bin"
    assert search_path({"PATH": path}) == f"/usr/bin:{inside}:{outside}"
    assert search_path({"PATH": path}, str(tmp_path / "work")) == f"/usr/bin:{outside}"
