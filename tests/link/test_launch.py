import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import shiftlog
from shiftlog.link import processes, wire
from shiftlog.link.client import DaemonUnreachable, connect, stop_daemon
from shiftlog.link.launch import start_daemon as launch
from tests.daemon.support import (
    BRIDGE,
    INITIALIZE,
    REAL,
    Bridge,
    control,
    daemons,
    end_daemon,
    environment,
    eventually,
    lock_holder,
    start_daemon,
)

pytestmark = pytest.mark.usefixtures("cold_starts")


def test_the_first_client_starts_the_daemon_which_outlives_it(home: Path) -> None:
    with Bridge(home) as bridge:
        assert bridge.shake_hands()["result"]["serverInfo"]["name"] == "shiftlog"
        pid = lock_holder(home)
        assert pid is not None
        assert os.getsid(pid) == pid
        bridge.close_input()
        assert bridge.wait() == 0
    assert lock_holder(home) == pid
    assert processes.alive(pid)


def test_twenty_bridges_at_once_start_one_daemon(home: Path) -> None:
    bridges = [Bridge(home) for _ in range(20)]
    try:
        for bridge in bridges:
            bridge.send(INITIALIZE)
        for bridge in bridges:
            assert "result" in bridge.read()
        assert daemons(home) == [lock_holder(home)]
        with control(home) as client:
            guests = client.call("daemon.status")["connections"]
        assert sorted(guest["pid"] for guest in guests if guest["role"] == "mcp") == sorted(
            bridge.pid for bridge in bridges
        )
    finally:
        for bridge in bridges:
            bridge.end()


def test_twenty_clients_spawn_one_process(home: Path) -> None:
    ask = "import sys; from shiftlog.link.client import connect; print(connect(sys.argv[1]).daemon_pid)"
    clients = [
        subprocess.Popen([sys.executable, "-c", ask, str(home)], env=environment(home), stdout=subprocess.PIPE)
        for _ in range(20)
    ]
    pids = {client.communicate(timeout=60)[0] for client in clients}
    assert len(pids) == 1
    served = (home / "daemon.log").read_text()
    assert served.count(" serves ") == 1
    assert "already serves" not in served


def test_a_stale_socket_and_a_stale_lock_do_not_keep_a_client_waiting(home: Path) -> None:
    with Bridge(home) as bridge:
        bridge.shake_hands()
    pid = lock_holder(home)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not processes.alive(pid))
    assert (home / "daemon.lock").exists()
    assert (home / "daemon.sock").exists()
    with Bridge(home) as bridge:
        assert "result" in bridge.shake_hands()
        assert lock_holder(home) not in (None, pid)


def test_a_start_that_fails_shows_the_end_of_the_daemons_log(home: Path) -> None:
    (home / "daemon.lock").mkdir()
    with pytest.raises(wire.WireError, match="ended while it started") as failed:
        launch(str(home), deadline=time.monotonic() + 30)
    assert "It said:" in failed.value.hint
    assert "daemon.lock" in failed.value.hint
    assert "Traceback" not in failed.value.hint


def test_a_daemon_that_cannot_be_spawned_is_an_error_with_a_reason(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(wire.WireError, match=r"cannot be started: .*/nowhere/python"):
        launch(str(home), deadline=time.monotonic() + 30)


def test_a_mistake_in_the_configuration_is_what_the_client_is_told(home: Path) -> None:
    (home / "config.toml").write_text("[daemon]\nidle_stop_minuets = 5\n")
    with Bridge(home) as bridge:
        answer = bridge.request(1, "initialize")
    assert "idle_stop_minuets" in answer["error"]["message"]
    assert answer["error"]["data"]["applied"] is False
    with pytest.raises(Exception, match="idle_stop_minuets"):
        connect(str(home))


def test_a_module_in_the_clients_directory_is_not_imported_by_the_daemon(home: Path, tmp_path: Path) -> None:
    for name in ("anyio", "msgspec", "socket"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the working directory')")
    bridge = subprocess.Popen(
        [BRIDGE[0], "-P", *BRIDGE[1:]],
        cwd=tmp_path,
        env=environment(home),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    out, _ = bridge.communicate(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n', timeout=60)
    assert b'"id":1' in out
    pid = lock_holder(home)
    assert pid is not None
    assert Path(f"/proc/{pid}/cwd").readlink() == Path("/")


def test_a_newer_client_replaces_the_daemon_and_older_clients_move_over(home: Path, tmp_path: Path) -> None:
    newer = tmp_path / "newer"
    shutil.copytree(Path(shiftlog.__file__).parent, newer / "shiftlog")
    init = newer / "shiftlog" / "__init__.py"
    init.write_text(init.read_text().replace(shiftlog.__version__, "99.0"))
    with Bridge(home) as older:
        older.shake_hands()
        old = lock_holder(home)
        with Bridge(home, PYTHONPATH=str(newer)) as bridge:
            assert bridge.shake_hands()["result"]["serverInfo"]["version"] == "99.0"
            new = lock_holder(home)
            assert new != old
            assert not processes.alive(old or 0)
            assert "result" in older.request(1, "tools/list")
            assert lock_holder(home) == new
            with control(home) as client:
                assert client.daemon_version == "99.0"
                guests = client.call("daemon.status")["connections"]
            versions = {guest["pid"]: guest["version"] for guest in guests if guest["role"] == "mcp"}
            assert versions == {older.pid: shiftlog.__version__, bridge.pid: "99.0"}


def test_a_daemon_that_stops_can_be_had_again(home: Path) -> None:
    with connect(str(home)) as client:
        first = client.daemon_pid
    assert stop_daemon(str(home)) == first
    with pytest.raises(DaemonUnreachable):
        connect(str(home), start=False)
    with connect(str(home)) as client:
        assert client.daemon_pid != first


def test_the_real_daemon_stops_when_nobody_uses_it(home: Path) -> None:
    daemon = start_daemon(home, "--idle-stop-s", "0.3", program=REAL)
    assert daemon.wait(30) == 0
    assert not (home / "daemon.sock").exists()


def test_a_daemon_whose_client_did_not_wait_for_it_is_ended_with_its_test(home: Path) -> None:
    bridge = Bridge(home)
    bridge.send(INITIALIZE)
    eventually(lambda: daemons(home))
    bridge.end()
    end_daemon(home)
    assert daemons(home) == []


@pytest.fixture
def builds(tmp_path: Path) -> tuple[str, str]:
    """Return the places of two builds of one version; the second is the later one."""
    places: list[str] = []
    for number in (1, 2):
        place = tmp_path / f"build{number}"
        shutil.copytree(Path(shiftlog.__file__).parent, place / "shiftlog")
        init = place / "shiftlog" / "__init__.py"
        init.write_text(init.read_text() + f"\n# build {number}\n")
        at = time.time() + number * 10
        os.utime(init, (at, at))
        places.append(str(place))
    return places[0], places[1]


def test_a_later_build_of_the_same_version_replaces_the_daemon_and_an_earlier_one_does_not(
    home: Path, builds: tuple[str, str]
) -> None:
    with Bridge(home, PYTHONPATH=builds[0]) as older:
        older.shake_hands()
        old = lock_holder(home)
        with Bridge(home, PYTHONPATH=builds[1]) as newer:
            newer.shake_hands()
            new = lock_holder(home)
            assert new != old
            assert "result" in older.request(1, "tools/list")
            with Bridge(home, PYTHONPATH=builds[0]) as third:
                third.shake_hands()
            assert lock_holder(home) == new


def test_a_daemon_of_this_version_that_names_no_build_makes_way(home: Path, tmp_path: Path) -> None:
    place = tmp_path / "unnamed"
    shutil.copytree(Path(shiftlog.__file__).parent, place / "shiftlog")
    hello = place / "shiftlog" / "daemon" / "hello.py"
    hello.write_text(hello.read_text().replace(',"build":"{build_id()}"', ""))
    with Bridge(home, PYTHONPATH=str(place)) as older:
        older.shake_hands()
        old = lock_holder(home)
        with Bridge(home) as newer:
            before = time.monotonic()
            newer.shake_hands()
            assert time.monotonic() - before < 15
            assert lock_holder(home) != old


def test_the_build_of_an_installed_package_is_known_by_the_installers_list(tmp_path: Path) -> None:
    shutil.copytree(Path(shiftlog.__file__).parent, tmp_path / "shiftlog")
    record = tmp_path / f"shiftlog-{shiftlog.__version__}.dist-info" / "RECORD"
    record.parent.mkdir()

    def build() -> str:
        ask = "from shiftlog.link.build import build_id; print(build_id())"
        run = [sys.executable, "-c", ask]
        return subprocess.run(run, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=True).stdout

    record.write_text("shiftlog/link/build.py,sha256=one,1\n")
    first = build()
    assert build() == first
    record.write_text("shiftlog/link/build.py,sha256=two,1\n")
    assert build().partition("-")[2] != first.partition("-")[2]
