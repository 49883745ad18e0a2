import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from shiftlog.daemon.lock import take_lock
from shiftlog.link import wire
from shiftlog.model.limits import DAEMON_DRAIN_S, DAEMON_LOCK_WAIT_S
from tests.daemon.disks import UNPRIVILEGED
from tests.daemon.support import ECHO, Bridge, control, environment, eventually, lock_holder, start_daemon


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_directory_socket_and_lock_are_private(home: Path) -> None:
    home.chmod(0o755)
    start_daemon(home)
    assert mode(home) == 0o700
    assert mode(home / "daemon.sock") == 0o600
    assert mode(home / "daemon.lock") == 0o600


LOCKED_AWAY = """
import os, sys
from shiftlog.daemon.lock import take_lock
lock = take_lock(sys.argv[1])
lock.listen()
os.chmod(sys.argv[1], 0)
print(lock.is_held(), lock.has_socket())
os.chmod(sys.argv[1], 0o700)
"""


def test_a_directory_that_may_not_be_entered_is_no_reason_to_make_way(home: Path) -> None:
    command = [*UNPRIVILEGED, sys.executable, "-c", LOCKED_AWAY, str(home)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert said.stdout == "True True\n"


def test_a_socket_left_by_a_killed_daemon_is_replaced(home: Path) -> None:
    first = start_daemon(home)
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert (home / "daemon.sock").exists()
    second = start_daemon(home)
    with control(home) as client:
        assert client.daemon_pid == second.pid


def test_any_file_in_the_place_of_the_socket_is_replaced(home: Path) -> None:
    (home / "daemon.sock").write_text("not a socket")
    daemon = start_daemon(home)
    with control(home) as client:
        assert client.daemon_pid == daemon.pid


def test_where_the_socket_cannot_be_made_the_daemon_says_why_in_one_line(home: Path) -> None:
    (home / "daemon.sock").mkdir()
    command = [*ECHO, "--home", str(home)]
    done = subprocess.run(command, env=environment(home), capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("shiftlogd: The socket cannot be opened: ")
    assert done.stderr.count("\n") == 1


def test_a_lock_file_without_a_holder_does_not_keep_a_daemon_out(home: Path) -> None:
    (home / "daemon.lock").write_text(f"{os.getpid()}\n/nowhere/daemon.sock\n")
    daemon = start_daemon(home)
    assert lock_holder(home) == daemon.pid


def test_a_second_daemon_ends_at_once_and_names_the_first(home: Path) -> None:
    first = start_daemon(home)
    second = subprocess.run(
        [*ECHO, "--home", str(home)],
        env=environment(home),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert second.returncode == 1
    assert f"pid {first.pid}" in second.stderr
    with control(home) as client:
        assert client.daemon_pid == first.pid


def test_a_successor_that_waits_takes_over_when_the_daemon_has_drained(home: Path, tmp_path: Path) -> None:
    first = start_daemon(home)
    with Bridge(home) as bridge:
        bridge.send({"jsonrpc": "2.0", "id": 1, "method": "slow", "params": {"until": str(tmp_path / "release")}})
        eventually((home / "holding").exists)
        first.send_signal(signal.SIGTERM)
        eventually(lambda: not (home / "daemon.sock").exists())
        second = subprocess.Popen([*ECHO, "--home", str(home)], env=environment(home))
        assert first.poll() is None
        (tmp_path / "release").touch()
        assert bridge.read()["result"]["method"] == "slow"
        assert first.wait(30) == 0
        eventually(lambda: lock_holder(home) == second.pid)
        assert bridge.request(2, "again")["result"]["method"] == "again"
    second.kill()
    second.wait()


def test_a_successor_waits_longer_than_a_drain_may_take() -> None:
    assert DAEMON_LOCK_WAIT_S > DAEMON_DRAIN_S


def test_a_daemon_whose_lock_file_was_removed_makes_way(home: Path) -> None:
    daemon = start_daemon(home, "--idle-stop-s", "1")
    with control(home):
        (home / "daemon.lock").unlink()
        assert daemon.wait(30) == 0


def test_a_daemon_whose_socket_was_removed_listens_again(home: Path) -> None:
    daemon = start_daemon(home, "--idle-stop-s", "1")
    with control(home) as before:
        (home / "daemon.sock").unlink()
        eventually((home / "daemon.sock").exists)
        assert mode(home / "daemon.sock") == 0o600
        with control(home) as after:
            assert after.call("whoami")["operator"] is True
        assert before.call("daemon.status")["pid"] == daemon.pid


def test_whoever_sees_the_socket_is_let_in_also_while_it_is_made_anew(home: Path) -> None:
    lock = take_lock(str(home))
    listeners = [lock.listen()]
    refused: list[OSError] = []
    done = threading.Event()

    def knock() -> None:
        while not done.is_set():
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
                client.setblocking(False)
                try:
                    client.connect(str(lock.socket_path))
                except BlockingIOError:
                    pass  # so many have knocked that nobody more can wait
                except OSError as error:
                    refused.append(error)

    knocking = threading.Thread(target=knock)
    knocking.start()
    try:
        listeners += [lock.listen() for _ in range(200)]
    finally:
        done.set()
        knocking.join(30)
        for listener in listeners:
            listener.close()
        lock.close()
    assert refused == []


def test_a_socket_path_over_the_limit_works_from_any_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / ("long" * 25)
    home.mkdir(mode=0o700)
    with tempfile.TemporaryDirectory() as runtime:
        daemon = start_daemon(home, XDG_RUNTIME_DIR=runtime)
        try:
            assert Path(wire.socket_path(str(home))).parent == Path(runtime, "shiftlog")
            for login in (runtime, "/nowhere", ""):
                monkeypatch.setenv("XDG_RUNTIME_DIR", login)
                with control(home) as client:
                    assert client.daemon_pid == daemon.pid
        finally:
            daemon.terminate()
            assert daemon.wait(30) == 0


def test_the_waiting_connections_of_a_stopping_daemon_are_closed(home: Path) -> None:
    daemon = start_daemon(home)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(30)
        sock.connect(wire.socket_path(str(home)))
        daemon.send_signal(signal.SIGTERM)
        assert sock.recv(1) == b""
    assert daemon.wait(30) == 0


LEFT_BEHIND = """
import os, sys
from shiftlog.daemon.lock import take_lock
lock = take_lock(sys.argv[1])
listener = lock.listen()
if os.fork():
    os._exit(0)
os.close(1)
sys.stdin.read()
"""


def test_a_process_that_a_killed_daemon_was_just_starting_is_waited_for(home: Path) -> None:
    """Until it has become another program it still holds the lock and the socket, where clients would be heard."""
    home.mkdir(exist_ok=True)
    command = [sys.executable, "-c", LEFT_BEHIND, str(home)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as daemon:
        assert daemon.stdin is not None
        daemon.wait(30)
        child = daemon.stdin
        waits = threading.Timer(0.2, child.close)
        waits.start()
        take_lock(str(home)).close()
        waits.join()
