"""Clients that misbehave at the real daemon: they never read, use one id twice, stay silent, or are too many."""

import json
import os
import resource
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

import pytest

from shiftlog.link import processes, wire
from shiftlog.model.limits import MCP_REQUESTS
from tests.daemon.support import (
    INITIALIZE,
    INITIALIZED,
    REAL,
    Bridge,
    control,
    environment,
    eventually,
    lock_holder,
    start_daemon,
)

GROWTH_BYTES = 80 << 20


class RawClient:
    """An MCP connection to the daemon's own socket, without a bridge."""

    def __init__(self, home: Path) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(wire.socket_path(str(home)))
        self.sock.settimeout(30)
        self.lines = self.sock.makefile("rb")
        with suppress(BrokenPipeError):  # a daemon that can serve no more answers before it is greeted
            self.sock.sendall(wire.hello_line(role="mcp", face="mcp", client_id=os.urandom(16).hex()))
        self.welcome = self.lines.readline()

    def send(self, *messages: dict[str, Any]) -> None:
        self.sock.sendall(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    def read(self) -> dict[str, Any]:
        return json.loads(self.lines.readline())

    def shake_hands(self) -> None:
        self.send(INITIALIZE)
        self.read()
        self.send(INITIALIZED)

    def close(self) -> None:
        self.lines.close()
        self.sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def ask(number: int, method: str = "tools/list", **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def flood(client: RawClient, pieces: int) -> int:
    """Send requests without reading a byte, until the daemon takes no more for a second; return how many went out."""
    client.sock.settimeout(1)
    sent = 0
    try:
        for _ in range(pieces):
            client.send(*(ask(sent + n + 1) for n in range(100)))
            sent += 100
    except TimeoutError:
        pass
    return sent


def test_a_client_that_never_reads_does_not_fill_the_daemons_memory(home: Path) -> None:
    daemon = start_daemon(home, program=REAL)
    client = RawClient(home)
    client.shake_hands()
    before = processes.rss_bytes(daemon.pid) or 0
    sent = flood(client, 1_000)
    assert sent < 100_000, "the daemon read everything"
    grown = (processes.rss_bytes(daemon.pid) or 0) - before
    assert grown < GROWTH_BYTES
    with Bridge(home) as bridge:  # the others are served meanwhile
        assert "result" in bridge.shake_hands()
    client.close()


def test_more_requests_than_run_at_once_are_all_answered(home: Path) -> None:
    start_daemon(home, program=REAL)
    client = RawClient(home)
    client.shake_hands()
    wanted = set(range(1, 5 * MCP_REQUESTS))
    client.send(*(ask(number, "ping") for number in wanted))
    assert {client.read()["id"] for _ in wanted} == wanted
    client.close()


def test_a_second_request_with_an_id_in_use_is_refused_and_the_first_is_answered(home: Path) -> None:
    start_daemon(home, program=REAL)
    client = RawClient(home)
    client.shake_hands()
    client.send(ask(7), ask(7, "ping"))
    answers = sorted((client.read() for _ in range(2)), key=lambda answer: "result" in answer)
    assert answers[0]["error"]["code"] == -32600
    assert "not answered yet" in answers[0]["error"]["message"]
    assert "tools" in answers[1]["result"]
    client.send(ask(7, "ping"))
    assert client.read()["result"] == {}
    client.close()


def test_a_client_that_sends_no_more_gets_its_answers_and_is_closed(home: Path) -> None:
    start_daemon(home, program=REAL)
    client = RawClient(home)
    client.shake_hands()
    client.send(ask(1), ask(2, "ping"))
    client.sock.shutdown(socket.SHUT_WR)
    assert {client.read()["id"] for _ in range(2)} == {1, 2}
    client.sock.settimeout(30)
    assert client.sock.recv(1) == b""
    client.close()
    with control(home) as other:
        eventually(lambda: len(other.call("daemon.status")["connections"]) <= 1)


@pytest.mark.long
def test_a_connection_that_says_nothing_is_closed_and_the_others_are_served(home: Path) -> None:
    start_daemon(home, program=REAL)
    silent = [socket.socket(socket.AF_UNIX) for _ in range(20)]
    for sock in silent:
        sock.connect(wire.socket_path(str(home)))
    with Bridge(home) as bridge:
        assert "result" in bridge.shake_hands()
    silent[0].settimeout(60)
    assert silent[0].recv(1) == b""
    for sock in silent:
        sock.close()


def test_at_the_limit_of_descriptors_a_new_client_is_told_so(home: Path) -> None:
    daemon = start_daemon(home, program=REAL)
    with Bridge(home) as first, ExitStack() as held:
        first.shake_hands()
        used = len(list(Path(f"/proc/{daemon.pid}/fd").iterdir()))
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (used + 8, 4096))

        def refused() -> bool | None:
            """Take what is free: the daemon opens and closes files of its own, so one may be free again."""
            while b"hello" in held.enter_context(RawClient(home)).welcome:
                pass
            before = time.monotonic()
            with Bridge(home) as late:
                answer = late.request(1, "initialize")
            assert time.monotonic() - before < 25
            return "file descriptors" in answer["error"]["message"] or None

        eventually(refused)
        assert "result" in first.request(5, "ping")
        held.close()
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (4096, 4096))

        def served() -> bool | None:
            with Bridge(home) as bridge:
                return "result" in bridge.request(1, "initialize", **INITIALIZE["params"]) or None

        eventually(served)


@pytest.mark.parametrize("whom", ["group", "session"])
def test_a_client_that_kills_its_whole_process_tree_leaves_the_daemon(home: Path, whom: str) -> None:
    """The daemon is no child of the client that started it, and in no group or session of it."""
    starter = subprocess.Popen(
        [sys.executable, "-c", "import time; from shiftlog.link.client import connect; connect(); time.sleep(60)"],
        env=environment(home),
        start_new_session=True,
    )
    try:
        pid = eventually(lambda: lock_holder(home))
        eventually((home / "daemon.sock").exists)
        with control(home) as client:
            assert client.call("daemon.status")["pid"] == pid
        assert not processes.descends_from(pid, starter.pid)
        assert (os.getpgid(pid), os.getsid(pid)) != (os.getpgid(starter.pid), os.getsid(starter.pid))
        if whom == "group":
            os.killpg(starter.pid, 9)
        else:
            for one in [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]:
                if processes.alive(one) and processes.descends_from(one, starter.pid):
                    os.kill(one, 9)
    finally:
        starter.kill()
        starter.wait()
    assert lock_holder(home) == pid
