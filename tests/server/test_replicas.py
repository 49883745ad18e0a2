"""Two replicas as one server: both revisions of MCP, plain HTTP and pages, with each request at either of them."""

import json

import httpx
import pytest

from tests.daemon.support import eventually
from tests.server.conftest import TeamRun
from tests.server.replicas import Peer, bearer, command, newer_call, rest_call


def test_a_client_of_the_older_revision_goes_from_replica_to_replica(team: TeamRun) -> None:
    peer = Peer(team.key)
    assert peer.initialize(team.ours)["serverInfo"]["name"] == "shiftlog"
    opened = peer.call(team.theirs, "open_session", agent="Codex", title="Moves", agent_id="mover")
    turn = peer.call(team.ours, "begin_turn", session_id=opened["session_id"], query_title="x", query_text="x")
    done = peer.call(
        team.theirs,
        "finish_turn",
        session_id=opened["session_id"],
        request_id=turn["request_id"],
        response="x",
        outcome="completed",
    )
    assert "error" not in done
    # It is one client everywhere: the lease that it got at one replica is its own at the other.
    assert peer.call(team.ours, "resume_session", agent_id="mover")["session_id"] == opened["session_id"]
    other = Peer(team.key)
    other.initialize(team.theirs)
    assert other.call(team.ours, "resume_session", agent_id="mover")["error"]["code"] == "session_held"


def test_clients_at_two_replicas_that_write_one_session_are_both_warned(team: TeamRun) -> None:
    holder, other = Peer(team.key), Peer(team.key)
    holder.initialize(team.ours)
    other.initialize(team.theirs)
    opened = holder.call(team.ours, "open_session", agent="Codex", title="Shared", agent_id="sharer")
    asked = {"session_id": opened["session_id"], "query_title": "x", "query_text": "x"}
    beside = other.call(team.theirs, "begin_turn", **asked)
    assert [warning["code"] for warning in beside["warnings"]] == ["other_writer"]
    told = holder.call(team.ours, "begin_turn", **asked)
    assert [warning["code"] for warning in told["warnings"]] == ["other_writer"]
    assert holder.call(team.theirs, "begin_turn", **asked).get("warnings", []) == []


def test_ending_an_mcp_session_ends_its_leases_everywhere(team: TeamRun) -> None:
    peer, other = Peer(team.key), Peer(team.key)
    peer.initialize(team.ours)
    other.initialize(team.ours)
    opened = peer.call(team.ours, "open_session", agent="Codex", title="Ends", agent_id="ender")
    headers = {**peer.headers, "Mcp-Session-Id": str(peer.session)}
    assert httpx.delete(f"{team.theirs}/mcp", headers=headers).status_code == 200
    assert peer.send(team.ours, "ping").status_code == 404
    assert other.call(team.ours, "resume_session", agent_id="ender")["session_id"] == opened["session_id"]


def test_an_mcp_session_belongs_to_the_key_that_opened_it(team: TeamRun) -> None:
    peer, thief = Peer(team.key), Peer(team.reader)
    peer.initialize(team.ours)
    thief.session = peer.session
    assert thief.send(team.ours, "ping").status_code == 404
    assert peer.send(team.ours, "ping").json()["result"] == {}
    assert Peer(team.key).send(team.ours, "tools/list").status_code == 400


def test_the_newer_revision_needs_no_session(team: TeamRun) -> None:
    opened = newer_call(team.ours, team.key, "open_session", agent="Codex", title="Newer")
    asked = {"session_id": opened["session_id"], "query_title": "x", "query_text": "x"}
    turn = newer_call(team.theirs, team.key, "begin_turn", **asked)
    found = newer_call(team.ours, team.reader, "query_history", session_id=opened["session_id"])
    assert turn["request_id"] in json.dumps(found)


def test_plain_http_has_the_same_tools_and_errors(team: TeamRun) -> None:
    opened = rest_call(team.ours, team.key, "open_session", agent="Codex", title="Plain").json()
    asked = {"session_id": opened["session_id"], "query_title": "x", "query_text": "x", "idempotency_key": "once"}
    first, again = (rest_call(base, team.key, "begin_turn", **asked) for base in (team.ours, team.theirs))
    assert first.json()["request_id"] == again.json()["request_id"]
    missing = rest_call(team.theirs, team.key, "begin_turn", **asked | {"session_id": "Codex-20200101T000000Z-none"})
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "session_not_found")
    unknown = rest_call(team.ours, team.key, "open_sesion")
    assert unknown.status_code == 404
    assert unknown.json()["error"]["hint"] == "Did you mean open_session?"
    broken = httpx.post(f"{team.ours}/tools/open_session", content="{", headers=bearer(team.key))
    assert (broken.status_code, broken.json()["error"]["code"]) == (400, "invalid_parameter")


def test_a_server_has_no_shells_no_imports_and_no_outputs(team: TeamRun) -> None:
    tools = httpx.get(f"{team.ours}/tools", headers=bearer(team.key)).json()["tools"]
    names = {tool["name"] for tool in tools}
    assert names >= {"open_session", "query_history"}
    assert names.isdisjoint({"run_command", "open_shell", "restore_checkpoint", "import_transcripts"})
    answer = httpx.get(f"{team.ours}/outputs/1a2b3c4d-1%237.json", headers=bearer(team.key))
    assert (answer.status_code, answer.json()["error"]["code"]) == (410, "output_expired")


def test_a_key_that_only_reads_changes_nothing(team: TeamRun) -> None:
    refused = rest_call(team.ours, team.reader, "open_session", agent="Codex", title="No")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "unauthorized")
    peer = Peer(team.reader)
    peer.initialize(team.ours)
    listed = peer.send(team.theirs, "tools/list").json()["result"]["tools"]
    assert listed
    assert all(tool["annotations"]["readOnlyHint"] for tool in listed)
    called = peer.send(team.theirs, "tools/call", {"name": "open_session", "arguments": {"agent": "Codex"}}).json()
    assert called["error"]["message"] == "Unknown tool: open_session"


def test_what_one_replica_wrote_is_read_at_the_other_and_verifies(team: TeamRun) -> None:
    session = rest_call(team.ours, team.key, "open_session", agent="Codex", title="Both").json()["session_id"]
    for number in range(6):
        base = (team.ours, team.theirs)[number % 2]
        turn = rest_call(base, team.key, "begin_turn", session_id=session, query_title=f"t{number}", query_text="x")
        assert turn.status_code == 200
    page = httpx.get(f"{team.theirs}/sessions/{session}.json", headers=bearer(team.reader)).json()
    assert page["session"]["title"] == "Both"
    trust = httpx.get(f"{team.ours}/sessions/{session}/trust.json", headers=bearer(team.reader)).json()
    assert trust["chain"]["ok"]


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_needs_no_key_and_says_nothing_of_the_record(team: TeamRun, path: str) -> None:
    answer = httpx.get(team.ours + path)
    assert answer.status_code == 200
    assert set(answer.json()) <= {"alive", "ready"}


def test_the_log_is_json_with_request_ids_and_without_contents(team: TeamRun) -> None:
    sent = {**bearer(team.key), "X-Request-Id": "asked-by-test"}
    body = {"agent": "Codex", "title": "a-title-that-no-log-may-hold"}
    answer = httpx.post(f"{team.ours}/tools/open_session", json=body, headers=sent)
    assert answer.headers["x-request-id"] == "asked-by-test"
    replica = team.replicas[0]
    line = eventually(lambda: next((x for x in replica.said("request") if x["request_id"] == "asked-by-test"), None))
    assert (line["route"], line["method"], line["status"]) == ("tools", "POST", 200)
    assert line["key"] in team.key
    drawn = httpx.get(f"{team.ours}/tools", headers={**bearer(team.key), "X-Request-Id": "with spaces"})
    assert drawn.headers["x-request-id"] != "with spaces"
    assert replica.other_output == []
    whole = json.dumps(replica.log)
    assert "a-title-that-no-log-may-hold" not in whole
    assert team.key not in whole


def test_metrics_count_requests_tools_errors_commits_and_the_pool(team: TeamRun) -> None:
    rest_call(team.ours, team.key, "begin_turn", session_id="Codex-20200101T000000Z-none")
    rest_call(team.ours, team.key, "open_session", agent="Codex", title="Counted")
    scrape = command(team.home, team.store, "keys", "create", "Prometheus", "--scope", "metrics", "--json")["api_key"]
    told = httpx.get(f"{team.ours}/metrics", headers=bearer(scrape))
    assert told.headers["content-type"].startswith("text/plain; version=0.0.4")
    figures = dict(line.rsplit(" ", 1) for line in told.text.splitlines() if not line.startswith("#"))
    assert float(figures["shiftlog_commits_total"]) > 0
    assert float(figures["shiftlog_pool_connections"]) >= 1
    assert float(figures["shiftlog_write_queue"]) == 0
    assert float(figures['shiftlog_http_requests_total{method="POST",route="tools",status="200"}']) > 0
    assert float(figures['shiftlog_http_request_seconds_bucket{le="+Inf",route="tools"}']) > 0
    assert float(figures['shiftlog_tool_seconds_count{tool="open_session"}']) > 0
    assert any(name.startswith("shiftlog_errors_total{code=") for name in figures)
    # The key for graphs opens nothing else.
    assert httpx.get(f"{team.ours}/sessions.json", headers=bearer(scrape)).status_code == 403
    assert httpx.get(f"{team.ours}/metrics").status_code == 401
