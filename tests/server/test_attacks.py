"""Attacks from outside without a valid key: idle and endless connections, long heads, and contents for the log."""

import json
import socket
from collections.abc import Generator
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from shiftlog.model.limits import HTTP_HEAD_BYTES, HTTP_HEAD_S
from tests.daemon.support import eventually
from tests.server.conftest import TeamRun
from tests.server.replicas import Replica, bearer, make_key

MOST = 8


@pytest.fixture(scope="module")
def small(team: TeamRun, tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Replica, str]]:
    """A replica that takes few connections, and a key."""
    home: Path = team.home
    replica = Replica(home, team.store, SHIFTLOG_SERVER_MAX_CONNECTIONS=str(MOST))
    try:
        yield replica, make_key(home, team.store)
    finally:
        replica.end()


def connected(base: str) -> socket.socket:
    where = urlsplit(base)
    return socket.create_connection((where.hostname, where.port), timeout=30)


def metrics(base: str, key: str) -> dict[str, float]:
    told = httpx.get(f"{base}/metrics", headers=bearer(key), timeout=30).text.splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in told if not line.startswith("#"))}


def test_connections_that_send_nothing_keep_no_client_out(small: tuple[Replica, str]) -> None:
    replica, key = small
    with ExitStack() as stack:
        for number in range(5 * MOST):
            idle = stack.enter_context(connected(replica.url))
            if number % 2:
                idle.sendall(b"POST /tools/open_session HTTP/1.1\r\nHost: ")
            answer = httpx.get(f"{replica.url}/tools", headers=bearer(key), timeout=30)
            assert answer.status_code == 200, number
        assert httpx.get(f"{replica.url}/healthz", timeout=30).status_code == 200


def test_a_server_whose_connections_are_all_at_work_refuses_more_and_stays_healthy(small: tuple[Replica, str]) -> None:
    replica, key = small
    with ExitStack() as stack:
        for _ in range(MOST):
            asked = httpx.stream("GET", f"{replica.url}/events", headers=bearer(key), timeout=30)
            assert stack.enter_context(asked).status_code == 200
        refused = httpx.get(f"{replica.url}/tools", headers={**bearer(key), "X-Request-Id": "late"}, timeout=30)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "too_many_connections")
        assert refused.headers["connection"] == "close"
        assert refused.headers["x-request-id"] == "late"
        for path in ("/healthz", "/readyz"):
            assert httpx.get(replica.url + path, timeout=30).status_code == 200
        assert metrics(replica.url, key)['shiftlog_http_requests_total{method="GET",route="tools",status="503"}'] >= 1
    line = eventually(lambda: next((x for x in replica.said("request") if x["request_id"] == "late"), None))
    assert line["status"] == 503
    eventually(lambda: httpx.get(f"{replica.url}/tools", headers=bearer(key), timeout=30).status_code == 200)


def test_a_head_without_end_is_cut_off(small: tuple[Replica, str]) -> None:
    replica, key = small
    with connected(replica.url) as client, suppress(OSError):
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")
        for _ in range(1000):
            client.sendall(b"X-Filler: " + b"x" * 1000 + b"\r\n")
        client.sendall(b"\r\n")
        assert client.recv(1000) == b""
    assert httpx.get(f"{replica.url}/tools", headers=bearer(key), timeout=30).status_code == 200


@pytest.mark.soak
def test_a_slow_head_and_a_slow_form_are_given_up(small: tuple[Replica, str]) -> None:
    replica, _ = small
    form = b"POST /sign-in HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    for start in (b"", b"GET / HT", form + b"Content-Length: 100\r\n\r\nkey="):
        with connected(replica.url) as client:
            client.settimeout(3 * HTTP_HEAD_S)
            client.sendall(start)
            while client.recv(1000):
                pass


def test_no_log_and_no_metric_holds_what_a_client_sent(team: TeamRun) -> None:
    mark, base = "contents-of-a-client", team.ours
    with httpx.Client(base_url=base, timeout=30, headers={"X-Mark": mark}) as http:
        for given in (bearer(mark), bearer(team.key), {**bearer(team.reader), "X-Request-Id": f"{mark} {mark}"}):
            http.headers.update(given)
            http.get(f"/{mark}")
            http.get(f"/sessions/{mark}.json", params={"q": mark, mark: mark})
            http.get(f"/sessions/Codex-20260101T000000Z-{mark}")
            http.request(mark.upper().replace("-", ""), "/tools")
            http.post(f"/tools/{mark}", json={mark: mark})
            http.post("/tools/open_session", json={"agent": "Codex", "title": mark, "model": mark, mark: mark})
            http.post("/tools/begin_turn", content=f'{{"session_id": "{mark}')
            http.post("/mcp", json={"jsonrpc": "2.0", "id": mark, "method": mark, "params": {mark: mark}})
            http.post("/mcp", json={"method": "tools/call"}, headers={"Mcp-Session-Id": mark})
            http.post("/sign-in", data={"key": mark})
    with connected(base) as client:
        client.sendall(f"{mark} {mark}\r\n\r\n".encode())
        assert b"400" in client.recv(1000)
    replica = team.replicas[0]
    eventually(lambda: any(line.get("route") == "sign-in" for line in replica.said("request")))
    assert mark not in json.dumps(replica.log).lower()
    assert replica.other_output == []
    assert mark not in httpx.get(f"{base}/metrics", headers=bearer(team.key)).text.lower()


def test_the_head_may_be_as_long_as_promised(team: TeamRun) -> None:
    filler = "x" * (HTTP_HEAD_BYTES // 2)
    assert httpx.get(f"{team.ours}/healthz", headers={"X-Filler": filler}).status_code == 200
