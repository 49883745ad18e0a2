import json
import os
import stat
from pathlib import Path

import platformdirs
import pytest

from shiftlog.link import processes, wire

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    "variables",
    [
        {"HOME": "/home/ada"},
        {"HOME": "/home/ada/"},
        {"HOME": "/home/ada", "XDG_STATE_HOME": "/var/state"},
        {"HOME": "/home/ada", "XDG_STATE_HOME": "/var/state/"},
        {"HOME": "/home/ada", "XDG_STATE_HOME": "relative"},
        {"HOME": "/home/ada", "XDG_STATE_HOME": ""},
        {"HOME": "relative"},
        {"HOME": ""},
        {},
    ],
)
def test_the_state_directory_is_the_one_of_platformdirs(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "XDG_STATE_HOME", "SHIFTLOG_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert Path(wire.home_path()) == platformdirs.user_state_path("shiftlog")


def test_shiftlog_home_overrides_the_state_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHIFTLOG_HOME", "here")
    assert wire.home_path() == str(tmp_path / "here")


def test_a_new_state_directory_is_private(tmp_path: Path) -> None:
    home = wire.open_home(str(tmp_path / "deep" / "home"))
    assert mode(Path(home)) == 0o700


def test_a_state_directory_that_others_can_read_is_closed_to_them(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    wire.open_home(str(tmp_path))
    assert mode(tmp_path) == 0o700


@as_root
def test_a_state_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    os.chown(tmp_path, 65534, 65534)
    with pytest.raises(wire.WireError, match="belongs to another user") as refused:
        wire.open_home(str(tmp_path))
    assert "SHIFTLOG_HOME" in refused.value.hint


def test_a_state_directory_that_cannot_be_made_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    tmp_path.joinpath("file").touch()
    with pytest.raises(wire.WireError, match="cannot be used"):
        wire.open_home(str(tmp_path / "file" / "home"))


def test_a_state_directory_whose_name_is_not_utf8_is_refused(tmp_path: Path) -> None:
    with pytest.raises(wire.WireError, match="is not UTF-8") as refused:
        wire.open_home(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff"))
    assert refused.value.code == "storage_error"
    assert list(tmp_path.iterdir()) == []


def test_a_short_path_keeps_the_socket_in_the_state_directory(tmp_path: Path) -> None:
    assert wire.socket_path("/s/h") == "/s/h/daemon.sock"


@pytest.fixture
def long_home(tmp_path: Path) -> Path:
    home = tmp_path / ("long" * 25)
    home.mkdir(mode=0o700)
    return home


def test_a_long_path_moves_the_socket_to_a_private_runtime_directory(
    long_home: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = tmp_path_factory.mktemp("r")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    path = Path(wire.socket_path(str(long_home)))
    assert path.parent == runtime / "shiftlog"
    assert mode(path.parent) == 0o700
    assert len(os.fsencode(path)) <= 100
    assert wire.socket_path(str(long_home)) == str(path)


def test_two_long_paths_have_two_sockets(long_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    other = long_home / "other"
    other.mkdir()
    path = Path(wire.socket_path(str(long_home)))
    assert path.parent == Path(f"/tmp/shiftlog-{os.geteuid()}")
    assert wire.socket_path(str(other)) != str(path)


def test_a_runtime_directory_that_is_not_private_is_not_used(
    long_home: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = tmp_path_factory.mktemp("r")
    runtime.joinpath("shiftlog").mkdir(mode=0o755)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    assert wire.socket_path(str(long_home)).startswith("/tmp/shiftlog-")
    runtime.joinpath("shiftlog").rmdir()
    runtime.joinpath("shiftlog").symlink_to(long_home)
    assert wire.socket_path(str(long_home)).startswith("/tmp/shiftlog-")


def test_of_a_long_path_the_daemons_own_word_about_its_socket_counts(
    long_home: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path_factory.mktemp("told")
    told.chmod(0o700)
    Path(wire.lock_path(str(long_home))).write_text(f"1\n{told}/a.sock\n")
    assert wire.socket_path(str(long_home)) == f"{told}/a.sock"
    told.chmod(0o755)
    assert wire.socket_path(str(long_home)) != f"{told}/a.sock"


@pytest.mark.parametrize("name", ["plain", 'quo"te', "back\\slash", "ümlaut", "line\nbreak"])
def test_a_hello_is_one_line_of_json_from_any_directory(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / name
    place.mkdir()
    monkeypatch.chdir(place)
    line = wire.hello_line(role="mcp", face="mcp", client_id="ab", options={"tools": ["é"]})
    assert line.count(b"\n") == 1
    hello = json.loads(line)["shiftlog"]
    assert hello["cwd"] == str(place)
    assert hello["options"] == {"tools": ["é"]}
    assert hello["pid"] == os.getpid()
    assert hello["pid_started"] == processes.started(os.getpid())


def test_a_hello_survives_a_directory_whose_name_is_no_unicode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / os.fsdecode(b"\xff")
    place.mkdir()
    monkeypatch.chdir(place)
    line = wire.hello_line(role="mcp", face="mcp", client_id="ab")
    assert json.loads(line)["shiftlog"]["cwd"] == f"{tmp_path}/\ufffd"


def test_versions_are_in_the_order_of_their_releases() -> None:
    order = [
        "0.1.0.dev3",
        "0.1.0a1",
        "0.1.0b1",
        "0.1.0b2",
        "0.1.0rc1",
        "0.1",
        "0.1.0.post1",
        "0.1.1",
        "0.2",
        "0.10",
    ]
    for at, version in enumerate(order):
        for earlier in order[:at]:
            assert wire.newer(version, earlier)
            assert not wire.newer(earlier, version)
    assert not wire.newer("0.1", "0.1.0")
    assert not wire.newer("0.1.0", "0.1")
    assert not wire.newer("not a version", "0.1")
