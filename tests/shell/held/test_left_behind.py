"""What a shell has in temporary directories goes with it, also if its daemon or its holder was killed."""

import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest

from shiftlog.link import processes
from shiftlog.shell.engine.holders import RECORD, ShellHolders
from shiftlog.shell.engine.reaper import remove_tree
from tests.daemon.support import eventually
from tests.shell.held.served_home import ServedHome, served_home

ORDINARY = 65534  # a user without rights


@pytest.fixture
def temps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory in which the daemons of this test make everything temporary."""
    place = tmp_path / "t"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
    return place


@pytest.fixture
def served(tmp_path: Path, temps: Path) -> Generator[ServedHome]:
    with served_home(tmp_path) as served:
        yield served


@pytest.fixture
def briefly_held(tmp_path: Path, temps: Path) -> Generator[ServedHome]:
    with served_home(tmp_path, "[daemon]\nhold_shells_minutes = 0.02\n") as served:
        yield served


def holder(served: ServedHome) -> int:
    (record,) = ShellHolders(served.home / "held", 0).listed()
    return record.pid


def places(pid: int) -> list[Path]:
    """Return the directories of a shell's sandbox and engine, which its holder's command line names."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    named = [Path(os.fsdecode(word)) for word in words[: words.index(b"--")] if b"/shiftlog-" in word]
    return [*named, *(path.parent for path in named if path.parent.name.startswith("shiftlog-run-"))]


def left(place: Path) -> list[str]:
    """Return what is in a directory, but for the temporary directories of sessions that are open."""
    return [path.name for path in place.iterdir() if not path.name.startswith("shiftlog-session-")]


def test_a_shell_that_waits_in_vain_for_a_daemon_leaves_no_directory(briefly_held: ServedHome, temps: Path) -> None:
    shell_id = briefly_held.open(cwd="/", sandbox="full-access")
    briefly_held.run(shell_id, "test -x $SUDO_ASKPASS")
    pid = holder(briefly_held)
    assert len(left(temps)) == 2
    briefly_held.kill()
    eventually(lambda: not processes.alive(pid))
    assert left(temps) == []


def test_so_does_a_sandboxed_one_with_all_that_its_programs_wrote(
    briefly_held: ServedHome, temps: Path, tmp_path: Path
) -> None:
    workspace = tmp_path / "w"
    workspace.mkdir()
    shell_id = briefly_held.open(workspace=str(workspace), sandbox="workspace-write")
    pid = holder(briefly_held)
    made = places(pid)
    run = next(path for path in made if path.name.startswith("shiftlog-run-"))
    briefly_held.run(
        shell_id, f"mkdir -p {run}/a/b; ln -s {workspace} {run}/a/link; echo x > {run}/a/b/c; echo y > kept"
    )
    assert (run / "a/b/c").exists()
    briefly_held.kill()
    eventually(lambda: not processes.alive(pid))
    assert [path for path in made if path.exists()] == []
    assert (workspace / "kept").read_text() == "y\n"


def test_the_next_daemon_removes_what_a_killed_holder_could_not(served: ServedHome, temps: Path) -> None:
    served.open(cwd="/", sandbox="full-access")
    pid = holder(served)
    served.kill()
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not processes.alive(pid))
    assert len(left(temps)) == 2
    served.start()
    assert left(temps) == []


def test_a_record_of_a_dead_holder_makes_the_next_daemon_remove_no_directory_of_another_kind(
    served: ServedHome, temps: Path
) -> None:
    served.open(cwd="/", sandbox="full-access")
    pid = holder(served)
    served.kill()
    (record,) = (served.home / "held").glob(f"*/{RECORD}")
    precious, linked = temps / "precious", temps / "shiftlog-linked"
    precious.mkdir()
    linked.symlink_to(precious)
    (precious / "file").touch()
    text = record.read_text()
    assert '"directories": [' in text
    record.write_text(text.replace('"directories": [', f'"directories": ["{precious}", "{linked}", "{temps}", '))
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not processes.alive(pid))
    served.start()
    assert sorted(left(temps)) == ["precious", "shiftlog-linked"]
    assert (precious / "file").exists()


def test_a_shell_that_the_next_daemon_refuses_leaves_no_directory(served: ServedHome, temps: Path) -> None:
    served.open(cwd="/", sandbox="full-access")
    pid = holder(served)
    served.kill()
    (served.home / "config.toml").write_text('[policy]\ndeny = ["curl"]\n')
    served.start()
    eventually(lambda: not processes.alive(pid))
    assert left(temps) == []


def test_a_long_name_of_the_temporary_directory_keeps_no_shell_from_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / ("long" * 20)
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    with served_home(tmp_path) as served:
        shell_id = served.open(cwd="/", sandbox="full-access")
        asked = served.run(shell_id, "$SUDO_ASKPASS Password:")
        assert "bash is no program that may ask" in asked["stderr"]


def test_a_directory_goes_whatever_its_depth_and_modes_are_and_no_link_is_followed(tmp_path: Path) -> None:
    outside, place = tmp_path / "outside", tmp_path / "place"
    outside.mkdir()
    (outside / "file").touch()
    place.mkdir()
    place.joinpath("link").symlink_to(outside)
    for path in (outside, place):
        os.chown(path, ORDINARY if os.geteuid() == 0 else -1, -1)
    tmp_path.chmod(0o755)
    child = os.fork()
    if child == 0:
        status = 255
        try:
            os.chdir(place)
            back = os.open(place, os.O_RDONLY)
            if os.geteuid() == 0:
                os.setuid(ORDINARY)
            for depth in range(2000):
                os.mkdir("d")  # noqa: PTH102
                os.symlink(outside, "link2")  # noqa: PTH211
                os.chdir("d")
                if depth % 500 == 1:
                    os.chmod("..", 0)  # noqa: PTH101
            os.fchdir(back)
            remove_tree("../place")
            status = len(os.listdir(back))  # noqa: PTH208 - the directory itself lies in one of another user
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (outside / "file").exists()
