import json
import socket
import urllib.error
import urllib.request
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from shiftlog.model.limits import HTTP_HEAD_BYTES, MCP_REQUESTS_IN_ALL
from tests.daemon.support import INITIALIZE, REAL, control, eventually, start_daemon


@pytest.fixture
def url(home: Path) -> str:
    (home / "config.toml").write_text("[http]\nenabled = true\nport = 0\n")
    start_daemon(home, program=REAL)
    with control(home) as client:
        return eventually(lambda: client.call("daemon.status")["http"])


def post(url: str, message: dict[str, Any] = INITIALIZE, **headers: str) -> tuple[int, dict[str, Any]]:
    request = urllib.request.Request(
        url,
        data=json.dumps(message).encode(),
        headers={"Content-Type": "application/json", "Accept": "application/json, text/event-stream"} | headers,
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            body = answer.read().decode()
            data = body if body.startswith("{") else body.partition("data: ")[2]
            return answer.status, json.loads(data)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.load(refused)


def test_http_is_served_on_loopback_to_who_has_the_token(url: str, home: Path) -> None:
    assert url.startswith("http://127.0.0.1:")
    token = (home / "http.token").read_text().strip()
    assert (home / "http.token").stat().st_mode & 0o777 == 0o600
    status, answer = post(url, Authorization=f"Bearer {token}")
    assert status == 200
    assert answer["result"]["serverInfo"]["name"] == "shiftlog"


def test_http_without_the_token_or_for_a_foreign_host_is_refused(url: str, home: Path) -> None:
    token = (home / "http.token").read_text().strip()
    assert post(url)[0] == 401
    assert post(url, Authorization="Bearer wrong")[0] == 401
    assert post(url, Authorization=f"Bearer {token}", Host="evil.example")[0] == 403
    assert post(url, Authorization=f"Bearer {token}", Origin="http://evil.example")[0] == 403


def test_space_around_the_value_of_a_header_is_no_part_of_it(url: str, home: Path) -> None:
    token = (home / "http.token").read_text().strip()
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    }
    params = {"name": "query_history", "arguments": {}, "_meta": meta}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"Authorization": f"Bearer {token}", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call"}
    status, answer = post(url, message, **headers, **{"Mcp-Name": "  query_history \t"})
    assert status == 200, answer
    assert post(url, message, **headers, **{"Mcp-Name": "query history"})[0] == 400


def test_the_token_stays_the_same_over_a_restart(url: str, home: Path) -> None:
    before = (home / "http.token").read_text()
    with control(home) as client:
        client.call("daemon.stop")
    eventually(lambda: not (home / "daemon.sock").exists())
    start_daemon(home, program=REAL)
    assert (home / "http.token").read_text() == before


@pytest.mark.parametrize("kept", [b"", b" \n", b"\xff\xfe"])
def test_a_file_that_holds_no_token_is_given_one(home: Path, kept: bytes) -> None:
    (home / "config.toml").write_text("[http]\nenabled = true\nport = 0\n")
    (home / "http.token").write_bytes(kept)
    start_daemon(home, program=REAL)
    with control(home) as client:
        url = eventually(lambda: client.call("daemon.status")["http"])
    token = (home / "http.token").read_text().strip()
    assert post(url, Authorization=f"Bearer {token}")[0] == 200
    assert (home / "http.token").stat().st_mode & 0o777 == 0o600


def test_a_token_that_cannot_be_read_does_not_keep_the_daemon_from_serving(home: Path) -> None:
    (home / "config.toml").write_text("[http]\nenabled = true\nport = 0\n")
    (home / "http.token").mkdir()
    start_daemon(home, program=REAL)
    eventually(lambda: "HTTP cannot be served" in (home / "daemon.log").read_text())
    with control(home) as client:
        status = client.call("daemon.status")
    assert (status["http"], status["http_fault"]) == (None, f"{home / 'http.token'}: Is a directory")


def test_a_port_that_is_taken_does_not_keep_the_daemon_from_serving(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (home / "config.toml").write_text(f"[http]\nenabled = true\nport = {port}\n")
        start_daemon(home, program=REAL)
        eventually(lambda: "cannot listen" in (home / "daemon.log").read_text())
        with control(home) as client:
            status = client.call("daemon.status")
        assert (status["http"], status["http_fault"]) == (None, f"port {port}: Address already in use")


def test_a_daemon_with_http_drains_and_stops(url: str, home: Path) -> None:
    with control(home) as client:
        client.call("daemon.stop")
    eventually(lambda: "stopped" in (home / "daemon.log").read_text())
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url, timeout=5)


def test_a_client_that_listens_does_not_hold_up_the_end(url: str, home: Path) -> None:
    headers = HttpClient(url, home).headers | {"MCP-Protocol-Version": "2025-11-25"}
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as stream:
        assert stream.status == 200
        with control(home) as client:
            client.call("daemon.stop")
        assert stream.read() == b""
    eventually(lambda: "stopped" in (home / "daemon.log").read_text())
    assert "ERROR" not in (home / "daemon.log").read_text()


class HttpClient:
    """An MCP client over HTTP, known by the session that the server gave it."""

    def __init__(self, url: str, home: Path) -> None:
        self._url = url
        self.headers = {
            "Authorization": f"Bearer {(home / 'http.token').read_text().strip()}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        request = urllib.request.Request(url, data=json.dumps(INITIALIZE).encode(), headers=self.headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            self.headers["Mcp-Session-Id"] = answer.headers["Mcp-Session-Id"]
            answer.read()

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        message = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        return post(self._url, message, **self.headers)[1]["result"]["structuredContent"]


def test_a_client_over_http_holds_what_it_opened_until_another_takes_over(url: str, home: Path) -> None:
    first, second = HttpClient(url, home), HttpClient(url, home)
    opened = first.call("open_session", agent="Codex", title="Over HTTP", agent_id="crew")
    session = {"session_id": opened["session_id"]}
    assert opened["lease"]["expires_at"] is not None
    assert second.call("resume_session", agent_id="crew")["error"]["code"] == "session_held"
    taken = second.call("resume_session", agent_id="crew", on_held="take_over")
    assert taken["data"]["lease"]["fence"] == opened["lease"]["fence"] + 1
    refused = first.call("begin_turn", **session, query_title="Late", query_text="Late")
    assert refused["error"]["code"] == "lease_lost"
    assert second.call("begin_turn", **session, query_title="On", query_text="On")["status"] == "in_progress"


def test_a_client_that_ends_its_mcp_session_gives_up_what_it_held_at_once(url: str, home: Path) -> None:
    first, second = HttpClient(url, home), HttpClient(url, home)
    first.call("open_session", agent="Codex", title="Over HTTP", agent_id="crew")
    headers = {"Mcp-Session-Id": first.headers["Mcp-Session-Id"], "MCP-Protocol-Version": "2025-11-25"}
    goodbye = urllib.request.Request(url, method="DELETE", headers=headers)
    with pytest.raises(urllib.error.HTTPError, match="401") as refused:
        urllib.request.urlopen(goodbye, timeout=30)
    refused.value.close()
    assert second.call("resume_session", agent_id="crew")["error"]["code"] == "session_held"
    goodbye.add_header("Authorization", first.headers["Authorization"])
    with urllib.request.urlopen(goodbye, timeout=30) as answer:
        assert answer.status == 200
    resumed = second.call("resume_session", agent_id="crew")["data"]
    assert (resumed["resume_mode"], resumed["state_before"]) == ("reattached", "suspended")


@pytest.mark.long
def test_a_body_that_is_shorter_than_announced_does_not_hold_the_daemon_up(url: str, home: Path) -> None:
    host, port = urlsplit(url).hostname, urlsplit(url).port
    token = (home / "http.token").read_text().strip()
    with socket.create_connection((host or "", port or 0), timeout=30) as sock:
        head = f"POST /mcp HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {token}\r\n"
        sock.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 99999\r\n\r\n{{".encode())
        answer = sock.recv(4096)
    assert not answer or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5"))


def test_connections_without_a_request_keep_no_client_out(url: str, home: Path) -> None:
    at = urlsplit(url)
    token = (home / "http.token").read_text().strip()
    with ExitStack() as stack:
        idle = [
            stack.enter_context(socket.create_connection((at.hostname or "", at.port or 0)))
            for _ in range(MCP_REQUESTS_IN_ALL + 20)
        ]
        assert post(url, Authorization=f"Bearer {token}")[0] == 200
        idle[0].settimeout(30)
        assert idle[0].recv(1) == b""


def test_a_head_without_end_is_cut_off(url: str) -> None:
    at = urlsplit(url)
    with socket.create_connection((at.hostname or "", at.port or 0), timeout=30) as client, suppress(ConnectionError):
        client.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * (2 * HTTP_HEAD_BYTES))
        assert client.recv(1) == b""
