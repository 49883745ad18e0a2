import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shiftlog.link import wire
from tests.daemon.support import Bridge, control, environment, eventually, start_daemon

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

CONNECT_AS_NOBODY = """
import os, socket, sys
sock = socket.socket(socket.AF_UNIX)
os.chdir(sys.argv[1])
os.setgroups([]); os.setgid(65534); os.setuid(65534)
sock.connect("daemon.sock")
sock.sendall(sys.argv[2].encode())
sys.stdout.write(sock.makefile().readline())
"""


def say(home: Path, line: bytes) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(30)
        sock.connect(wire.socket_path(str(home)))
        sock.sendall(line)
        with sock.makefile("rb") as answers:
            return json.loads(answers.readline())["shiftlog"]


@as_root
def test_another_user_is_refused_even_where_the_modes_would_let_it_in(home: Path) -> None:
    start_daemon(home)
    (home / "daemon.sock").chmod(0o666)
    home.chmod(0o755)
    hello = wire.hello_line(role="control", face="test", client_id="0")
    said = subprocess.run(
        [sys.executable, "-c", CONNECT_AS_NOBODY, str(home), hello.decode()],
        env=environment(home),
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    error = json.loads(said.stdout)["shiftlog"]["error"]
    assert error["code"] == "unauthorized"
    assert f"uid {os.geteuid()}" in error["message"]


@as_root
def test_the_modes_keep_another_user_from_the_socket(home: Path) -> None:
    start_daemon(home)
    said = subprocess.run(
        [sys.executable, "-c", CONNECT_AS_NOBODY, str(home), "{}"],
        env=environment(home),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert said.returncode != 0
    assert "PermissionError" in said.stderr


def test_another_wire_is_refused_with_a_way_out(home: Path) -> None:
    start_daemon(home)
    error = say(home, b'{"shiftlog":{"hello":2,"version":"9.0","role":["new"]}}\n')["error"]
    assert error["code"] == "wire_mismatch"
    assert "wire 2" in error["message"]
    assert "daemon stop" in error["hint"]


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"initialize"}\n',
        b"GET / HTTP/1.1\r\n",
        b"\xff\xfe\n",
        b"[" * 100_000 + b"\n",
        b'{"shiftlog":{"hello":1,"role":"king"}}\n',
        b'{"shiftlog":{"hello":1,"options":[]}}\n',
        b'{"shiftlog":{"hello":1,"cwd":"\xff"}}\n',
    ],
)
def test_a_connection_that_begins_otherwise_is_refused(line: bytes, home: Path) -> None:
    start_daemon(home)
    assert say(home, line)["error"]["code"] == "invalid_parameter"
    with control(home) as client:
        assert client.call("daemon.status")["echo"] is True


def test_options_that_make_no_sense_are_the_answer_to_every_request(home: Path) -> None:
    start_daemon(home)
    hello = wire.hello_line(role="mcp", face="mcp", client_id="0", options={"nonsense": True})
    assert say(home, hello)["error"]["code"] == "invalid_parameter"


def test_a_newer_client_makes_the_daemon_drain_and_stop(home: Path, tmp_path: Path) -> None:
    daemon = start_daemon(home)
    with Bridge(home) as bridge:
        bridge.send({"jsonrpc": "2.0", "id": 1, "method": "slow", "params": {"until": str(tmp_path / "go")}})
        eventually((home / "holding").exists)
        hello = wire.hello_line(role="control", face="test", client_id="0", version="99.0")
        sock = wire.connect(str(home))
        assert sock is not None
        newer = wire.greet(sock, hello, 30)
        assert newer is not None
        newer.send(wire.RETIRE)
        eventually(lambda: not (home / "daemon.sock").exists())
        (tmp_path / "go").touch()
        assert newer.read_line(30) is None
        newer.close()
        assert bridge.read()["result"]["method"] == "slow"
        assert daemon.wait(30) == 0


def test_a_newer_client_that_does_not_ask_for_it_is_served(home: Path) -> None:
    start_daemon(home)
    hello = wire.hello_line(role="control", face="test", client_id="0", version="99.0")
    connection = wire.open_connection(str(home), hello, start=False, version="99.0")
    try:
        connection.send(b'{"id":1,"method":"whoami"}\n')
        answer = connection.read_line(30)
        assert answer is not None
        assert json.loads(answer)["result"]["pid"] == os.getpid()
    finally:
        connection.close()


def test_a_client_that_is_not_newer_cannot_retire_the_daemon(home: Path) -> None:
    daemon = start_daemon(home)
    hello = wire.hello_line(role="control", face="test", client_id="0", version="0.0.1")
    connection = wire.open_connection(str(home), hello, start=False)
    try:
        connection.send(wire.RETIRE)
        answer = connection.read_line(30)
        assert answer is not None
        assert json.loads(answer)["error"]["code"] == "invalid_parameter"
        assert daemon.poll() is None
    finally:
        connection.close()


def test_a_client_below_the_daemon_has_no_operators_rights(home: Path, tmp_path: Path) -> None:
    start_daemon(home)
    with control(home) as client:
        assert client.call("whoami")["operator"] is True
        inside = client.call("run_inside", {"home": str(home)})
        by_child = client.call("connect_by_child")
    assert inside["operator"] is False
    assert by_child["operator"] is False
