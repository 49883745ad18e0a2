import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shiftlog import __version__
from shiftlog.link import wire
from shiftlog.link.client import DaemonUnreachable, connect, stop_daemon
from shiftlog.model.errors import InternalError, InvalidParameter
from shiftlog.model.limits import DAEMON_DRAIN_S
from tests.daemon.support import ECHO, Bridge, control, environment, eventually, start_daemon


def held(number: int, release: Path) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": number, "method": "slow", "params": {"until": str(release)}}


def test_the_status_shows_process_and_connections(home: Path) -> None:
    daemon = start_daemon(home)
    with Bridge(home) as bridge, control(home) as client:
        bridge.shake_hands()
        status = client.call("daemon.status")
    assert status["pid"] == daemon.pid
    assert status["version"] == __version__
    assert status["home"] == str(home)
    assert status["socket"] == str(home / "daemon.sock")
    assert status["uptime_s"] >= 0
    assert status["rss_bytes"] > 5_000_000
    assert status["echo"] is True
    roles = {(guest["role"], guest["face"], guest["pid"]) for guest in status["connections"]}
    assert roles == {("mcp", "mcp", bridge.pid), ("control", "cli", os.getpid())}


def test_a_daemon_that_nobody_uses_stops(home: Path) -> None:
    daemon = start_daemon(home, "--idle-stop-s", "0.2")
    assert daemon.wait(30) == 0
    assert (home / "closed").exists()
    assert not (home / "daemon.sock").exists()


def test_a_client_keeps_the_daemon_until_it_leaves(home: Path) -> None:
    (home / "busy").touch()  # so that it does not stop before the client has come
    daemon = start_daemon(home, "--idle-stop-s", "0.2")
    with Bridge(home) as bridge:
        bridge.shake_hands()
        (home / "busy").unlink()
        seen_at = time.monotonic()
        eventually(lambda: bridge.request(1, "ping") and time.monotonic() - seen_at > 1.0)
        assert daemon.poll() is None
    assert daemon.wait(30) == 0


def test_work_without_a_client_keeps_the_daemon(home: Path) -> None:
    (home / "busy").touch()
    daemon = start_daemon(home, "--idle-stop-s", "0.2")
    began = time.monotonic()
    eventually(lambda: daemon.poll() is not None or time.monotonic() - began > 1.0)
    assert daemon.poll() is None
    (home / "busy").unlink()
    assert daemon.wait(30) == 0


def test_term_finishes_the_requests_in_flight_and_takes_no_new_ones(home: Path, tmp_path: Path) -> None:
    daemon = start_daemon(home)
    release = tmp_path / "release"
    with Bridge(home) as bridge:
        bridge.shake_hands()
        bridge.send(held(1, release))
        eventually((home / "holding").exists)
        daemon.send_signal(signal.SIGTERM)
        eventually(lambda: not (home / "daemon.sock").exists())
        with pytest.raises(DaemonUnreachable):
            connect(str(home), start=False)
        assert daemon.poll() is None
        release.touch()
        assert bridge.read()["result"]["method"] == "slow"
        assert daemon.wait(30) == 0
    assert (home / "closed").exists()


def test_a_second_signal_ends_the_drain(home: Path, tmp_path: Path) -> None:
    daemon = start_daemon(home)
    with Bridge(home) as bridge:
        bridge.shake_hands()
        bridge.send(held(1, tmp_path / "never"))
        eventually((home / "holding").exists)
        began = time.monotonic()
        daemon.send_signal(signal.SIGTERM)
        eventually(lambda: not (home / "daemon.sock").exists())
        daemon.send_signal(signal.SIGINT)
        assert daemon.wait(30) == 0
        assert time.monotonic() - began < DAEMON_DRAIN_S
    assert (home / "closed").exists()


def test_a_control_question_in_flight_is_answered_before_the_daemon_stops(home: Path, tmp_path: Path) -> None:
    daemon = start_daemon(home)
    release = tmp_path / "release"
    with control(home) as asking, control(home) as stopping, ThreadPoolExecutor() as threads:
        answer = threads.submit(asking.call, "hold", {"until": str(release)})
        eventually((home / "holding").exists)
        assert stopping.call("daemon.stop") == {"stopping": True, "pid": daemon.pid}
        eventually(lambda: not (home / "daemon.sock").exists())
        release.touch()
        assert answer.result(30)["method"] == "hold"
    assert daemon.wait(30) == 0


def test_stopping_waits_for_the_process_to_end(home: Path) -> None:
    daemon = start_daemon(home)
    assert stop_daemon(str(home)) == daemon.pid
    assert daemon.wait(0.5) == 0
    assert stop_daemon(str(home)) is None


def test_a_stream_without_end_does_not_keep_a_daemon_from_stopping(home: Path) -> None:
    daemon = start_daemon(home)
    with control(home) as client:
        numbers = client.stream("count")
        assert next(numbers) == 0
        daemon.send_signal(signal.SIGTERM)
        for _ in numbers:
            pass
    assert daemon.wait(5) == 0


def test_a_connection_that_fails_leaves_the_others_and_its_secrets_alone(home: Path) -> None:
    start_daemon(home)
    with Bridge(home) as other, Bridge(home) as failing, control(home) as client:
        other.shake_hands()
        failing.shake_hands()
        (home / "outcomes.json").write_text("{}")
        failing.send({"jsonrpc": "2.0", "id": 7, "method": "crash"})
        answer = failing.read()
        assert answer["id"] == 7
        assert answer["error"]["data"]["applied"] is False
        assert failing.request(8, "again")["result"]["method"] == "again"
        assert other.request(1, "still")["result"]["method"] == "still"
        log = (home / "daemon.log").read_text()
        assert "RuntimeError" in log
        assert "echo_daemon.py" in log
        assert "secret" not in log
        assert client.call("daemon.status")["echo"] is True


@pytest.mark.parametrize(
    ("file", "code", "says"),
    [
        ("refuse", InvalidParameter.code, "a rule that it breaks"),
        ("broken", InternalError.code, "RuntimeError: the disk is gone"),
    ],
)
def test_services_that_cannot_open_are_explained_to_the_client(file: str, code: str, says: str, home: Path) -> None:
    (home / file).write_text("a rule that it breaks")
    with subprocess.Popen([*ECHO, "--home", str(home)], env=environment(home)) as daemon:
        sock = eventually(lambda: wire.connect(str(home)))
        with pytest.raises(wire.WireError, match=says) as refused:
            wire.greet(sock, wire.hello_line(role="control", face="test", client_id="0"), 30)
        assert refused.value.code == code
        assert daemon.wait(30) == 1


def test_a_client_that_leaves_is_reported_once_its_last_connection_closed(home: Path) -> None:
    start_daemon(home)
    with control(home) as client:
        with Bridge(home) as bridge:
            bridge.shake_hands()
            assert client.call("gone") == []
        gone = eventually(lambda: client.call("gone"))
        assert len(gone) == 1
        assert len(gone[0]) == 32


def test_the_log_is_private_and_bounded(home: Path) -> None:
    log = home / "daemon.log"
    log.write_bytes(b"x" * 2_000_000)
    log.chmod(0o600)
    start_daemon(home)
    assert log.stat().st_size < 100_000
    assert (home / "daemon.log.1").stat().st_size == 2_000_000
    assert log.stat().st_mode & 0o077 == 0


# Makes cycles as ended connections leave them: each is still in use during a first collection, and dead soon after.
PILING_UP = """
from collections import deque
from shiftlog.daemon.lifecycle import collect_rarely

class Cycle:
    alive = 0
    def __init__(self):
        self.own, self.more = self, [[] for _ in range(20)]
        Cycle.alive += 1
    def __del__(self):
        Cycle.alive -= 1

collect_rarely()
in_use, most = deque(maxlen=500), 0
for _ in range(40_000):
    in_use.append(Cycle())
    most = max(most, Cycle.alive)
print(most)
"""


def test_dead_cycles_that_were_in_use_at_a_collection_do_not_pile_up() -> None:
    said = subprocess.run([sys.executable, "-c", PILING_UP], capture_output=True, text=True, check=True, timeout=60)
    assert int(said.stdout) < 5_000
