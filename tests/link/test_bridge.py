import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from shiftlog.link import processes
from shiftlog.link.bridge import LINE_BYTES
from tests.daemon.support import BRIDGE, INITIALIZE, Bridge, control, environment, eventually, start_daemon


def run(home: Path, data: bytes) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(BRIDGE, env=environment(home), input=data, capture_output=True, timeout=60, check=False)


def request(number: int, **params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "echo", "params": params}).encode() + b"\n"


def test_requests_are_answered_in_both_directions(home: Path) -> None:
    start_daemon(home)
    with Bridge(home) as bridge:
        assert bridge.shake_hands()["result"]["method"] == "initialize"
        for number in range(100):
            assert bridge.request(number, "echo", n=number)["result"]["params"] == {"n": number}


def test_input_that_ends_is_answered_whole_before_the_bridge_ends(home: Path) -> None:
    start_daemon(home)
    done = run(home, b"".join(request(number) for number in range(500)))
    assert done.returncode == 0
    assert sorted(json.loads(line)["id"] for line in done.stdout.splitlines()) == list(range(500))


def test_a_last_line_without_an_end_is_a_line(home: Path) -> None:
    start_daemon(home)
    assert json.loads(run(home, request(1).rstrip()).stdout)["id"] == 1


def test_empty_lines_are_nothing(home: Path) -> None:
    start_daemon(home)
    done = run(home, b"\n  \n" + request(1) + b"\r\n\n")
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1]


def test_a_message_far_larger_than_any_buffer_passes_both_ways(home: Path) -> None:
    start_daemon(home)
    text = "x" * 900_000
    with Bridge(home) as bridge:
        answer = bridge.request(1, "echo", text=text)
    assert answer["result"]["params"]["text"] == text


def test_a_client_that_sends_without_reading_does_not_make_the_bridge_grow(home: Path) -> None:
    start_daemon(home)
    line = request(1, text="x" * 100_000)
    with Bridge(home) as bridge:
        assert bridge.process.stdin is not None
        stdin = bridge.process.stdin.fileno()
        os.set_blocking(stdin, False)
        sent = refusals = 0

        def no_more_is_taken() -> bool:
            nonlocal sent, refusals
            try:
                while sent < 100_000_000:
                    sent += os.write(stdin, line[sent % len(line) :])
                    refusals = 0
            except BlockingIOError:
                refusals += 1
            return refusals > 50

        eventually(no_more_is_taken)
        rss = processes.rss_bytes(bridge.pid)
        assert rss is not None
        assert rss < 30_000_000


def test_a_line_over_the_limit_is_refused_by_its_id_and_the_next_is_served(home: Path) -> None:
    start_daemon(home)
    huge = b"x" * (LINE_BYTES + 100_000)
    with Bridge(home) as bridge:
        bridge.send_bytes(b'{"jsonrpc":"2.0","id":"first","method":"m","params":{"id":7,"t":"' + huge + b'"}}\n')
        assert bridge.read()["id"] == "first"
        bridge.send_bytes(b'{"method":"m","params":{"t":"' + huge + b'"},"jsonrpc":"2.0","id":42}\n')
        refused = bridge.read()
        assert refused["id"] == 42
        assert refused["error"]["code"] == -32600
        assert "64 MiB" in refused["error"]["message"]
        assert bridge.request(2, "echo")["result"]["method"] == "echo"


def test_flags_reach_the_daemon(home: Path) -> None:
    start_daemon(home)
    with Bridge(home, "--read-only", "--tools", "a,b") as bridge:
        bridge.shake_hands()
        with control(home) as client:
            assert client.call("options") == {"read_only": True, "tools": ["a", "b"]}


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_the_bridge_without_a_trace(number: int, status: int, home: Path, tmp_path: Path) -> None:
    start_daemon(home)
    with Bridge(home) as bridge:
        bridge.shake_hands()
        bridge.request(1, "echo")
        bridge.send({"jsonrpc": "2.0", "id": 2, "method": "slow", "params": {"until": str(tmp_path / "never")}})
        eventually((home / "holding").exists)
        bridge.process.send_signal(number)
        assert bridge.wait() == status


def test_a_client_that_closed_its_end_of_the_output_ends_the_bridge(home: Path) -> None:
    start_daemon(home)
    with Bridge(home) as bridge:
        bridge.shake_hands()
        assert bridge.process.stdout is not None
        bridge.process.stdout.close()
        assert bridge.wait() == 0


@pytest.mark.parametrize("streams", ["<&- >&-", "<&-", "<&- >&- 2>&-"])
def test_a_bridge_without_its_standard_streams_ends(home: Path, streams: str) -> None:
    start_daemon(home)
    closed = subprocess.run(
        ["sh", "-c", f'exec "$@" {streams}', "sh", *BRIDGE], env=environment(home), timeout=60, check=False
    )
    assert closed.returncode == 0


def test_input_from_a_file_is_served(home: Path, tmp_path: Path) -> None:
    start_daemon(home)
    (tmp_path / "in").write_bytes(json.dumps(INITIALIZE).encode() + b"\n" + request(1))
    with (tmp_path / "in").open("rb") as source, (tmp_path / "out").open("wb") as sink:
        subprocess.run(BRIDGE, env=environment(home), stdin=source, stdout=sink, timeout=60, check=True)
    assert len((tmp_path / "out").read_bytes().splitlines()) == 2


def test_a_request_that_the_client_cancelled_is_not_waited_for(home: Path, tmp_path: Path) -> None:
    start_daemon(home)
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    done = run(home, request(1, until=str(tmp_path / "never")) + json.dumps(cancel).encode() + b"\n" + request(2))
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [2]
