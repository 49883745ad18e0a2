"""Acceptance of the handle over HTTP: header and query fill in a missing session, and never choose one to resume."""

import json
import urllib.request
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest

from tests.daemon.support import REAL, control, eventually, start_daemon

ENVELOPE = {
    types.PROTOCOL_VERSION_META_KEY: "2026-07-28",
    types.CLIENT_CAPABILITIES_META_KEY: {},
    types.CLIENT_INFO_META_KEY: {"name": "handle", "version": "1"},
}


@pytest.fixture
def url(home: Path) -> str:
    (home / "config.toml").write_text("[http]\nenabled = true\nport = 0\n")
    start_daemon(home, program=REAL)
    with control(home) as client:
        return eventually(lambda: client.call("daemon.status")["http"])


class Remote:
    """A client over HTTP that sends each call with headers and a query of its own."""

    def __init__(self, url: str, home: Path) -> None:
        self._url = url
        self._token = (home / "http.token").read_text().strip()

    def call(self, tool: str, arguments: dict[str, Any], query: str = "", **headers: str) -> dict[str, Any]:
        body = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": tool, "arguments": arguments, "_meta": ENVELOPE},
        }
        request = urllib.request.Request(
            self._url + query,
            data=json.dumps(body).encode(),
            headers={
                "Content-Type": "application/json",
                "Accept": "application/json, text/event-stream",
                "Authorization": f"Bearer {self._token}",
                "MCP-Protocol-Version": "2026-07-28",
                "Mcp-Method": "tools/call",
                "Mcp-Name": tool,
                **headers,
            },
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read().decode()
        answer = json.loads(text if text.startswith("{") else text.partition("data: ")[2])
        return answer["result"]["structuredContent"]


@pytest.fixture
def remote(url: str, home: Path) -> Remote:
    return Remote(url, home)


def opened(remote: Remote, title: str) -> str:
    return remote.call("open_session", {"agent": "Codex", "title": title})["session_id"]


def test_32_a_header_that_names_a_closed_session_does_not_touch_resume(remote: Remote) -> None:
    closed, other = opened(remote, "Closed"), opened(remote, "Other")
    header = {"x-delx-session-id": closed}
    assert remote.call("close_session", {}, **header)["data"]["session_id"] == closed
    resumed = remote.call("resume_session", {"agent_id": "Codex"}, **header)
    assert resumed["data"]["resumed_session_id"] == other
    read = remote.call("query_history", {"session_id": other}, **header)
    assert read["session"]["session_id"] == other
    assert [warning["code"] for warning in read["warnings"]] == ["session_id_mismatch"]


def test_32_header_and_query_fill_in_a_missing_session(remote: Remote) -> None:
    session = opened(remote, "One")
    for query, headers in (
        ("", {"x-delx-session-id": session}),
        ("", {"x-session-id": session}),
        (f"?session_id={session}", {}),
    ):
        turn = {"query_title": "x", "query_text": "x"}
        begun = remote.call("begin_turn", turn, query, **headers)
        assert begun["session_id"] == session
        assert remote.call("query_history", {}, query, **headers)["session"]["session_id"] == session
        assert remote.call("query_history", {"session_id": session}, query, **headers).get("warnings") is None


def test_32_argument_and_header_may_name_one_session_in_different_ways(remote: Remote) -> None:
    vendor = "e4ee2456-8a54-4492-9915-1904d6b2966a"
    given = {"agent": "Codex", "title": "One", "model": "m", "vendor_session_id": vendor}
    session = remote.call("open_session", given)
    names = (session["session_id"], session["run_id"], vendor.upper())
    remote.call("begin_turn", {"session_id": names[0], "query_title": "x", "query_text": "x"})
    for argument in names:
        for header in names:
            written = remote.call("update_turn", {"session_id": argument, "tags": []}, **{"x-session-id": str(header)})
            assert "warnings" not in written, (argument, header)
    written = remote.call("update_turn", {"session_id": names[0], "tags": []}, **{"x-session-id": "nonsense"})
    assert [warning["code"] for warning in written["warnings"]] == ["session_id_mismatch"]


def test_32_two_names_of_one_session_do_not_differ(remote: Remote) -> None:
    run = remote.call("open_session", {"agent": "Codex", "title": "One", "caller": "headless_task"})
    header = {"x-delx-session-id": run["session_id"]}
    assert "warnings" not in remote.call("query_history", {"session_id": run["run_id"]}, **header)
    assert remote.call("close_session", {"session_id": run["run_id"]}, **header)["warnings"] == []


def test_32_neither_ever_opens_a_session(remote: Remote) -> None:
    session = opened(remote, "One")
    other = remote.call("open_session", {"agent": "Codex", "title": "Two"}, **{"x-session-id": session})
    assert other["session_id"] != session


def test_33_without_a_session_anywhere_the_call_is_refused(remote: Remote) -> None:
    said = remote.call("close_session", {})
    assert (said["code"], said["error"]["code"], said["missing"]) == ("invalid_parameter", "DELX-1001", ["session_id"])


def test_a_shell_that_names_no_session_belongs_to_the_one_of_the_header(remote: Remote) -> None:
    """6.3: a missing session_id is filled, whichever tool misses it."""
    session = opened(remote, "One")
    header = {"x-delx-session-id": session}
    shell = remote.call("open_shell", {}, **header)
    assert (shell["session_id"], "implicit_session" in shell) == (session, False)
    other = remote.call("open_shell", {})
    assert other["session_id"] != session
    assert [row["shell_id"] for row in remote.call("list_shells", {}, **header)["shells"]] == [shell["shell_id"]]
    assert len(remote.call("list_shells", {})["shells"]) == 2
    for one in (shell, other):
        remote.call("close_shell", {"shell_id": one["shell_id"]})


def test_shells_are_opened_and_listed_by_every_name_of_their_session(remote: Remote) -> None:
    """nexo: the number of a run is accepted wherever a session is named."""
    vendor = "e4ee2456-8a54-4492-9915-1904d6b2966a"
    run = remote.call(
        "open_session", {"agent": "Codex", "title": "One", "caller": "headless_task", "vendor_session_id": vendor}
    )
    names = [run["session_id"], run["run_id"], str(run["run_id"]), vendor.upper()]
    shells = [remote.call("open_shell", {"session_id": name}) for name in names]
    assert {shell["session_id"] for shell in shells} == {run["session_id"]}
    for name in names:
        assert len(remote.call("list_shells", {"session_id": name})["shells"]) == len(names)
        assert len(remote.call("list_shells", {}, **{"x-session-id": str(name)})["shells"]) == len(names)
    assert remote.call("list_shells", {"session_id": run["run_id"] + 1})["error"]["code"] == "session_not_found"
    for shell in shells:
        remote.call("close_shell", {"shell_id": shell["shell_id"]})
