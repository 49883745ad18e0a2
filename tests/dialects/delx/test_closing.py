"""Acceptance of close_session: what it answers, policies, notes, statements and their limits."""

import json
from typing import Any

import pytest

from tests.dialects.delx.server import DelxServer
from tests.journal.harness import files_holding

API_KEY = "sk-ant-api03-" + "Ab3dEf6hIj9kLm2nOp5q" * 4
STATEMENT = {"version": "1", "next": "Guard eviction with the shard lock", "do_not": "Do not raise the TTL again"}


async def test_01_a_close_with_only_the_session_gives_token_receipt_and_summary(server: DelxServer) -> None:
    agent = server.client()
    session = await agent.open(agent_id="nightly-fixer")
    said = await agent.close(session)
    data = said.data
    assert said.body.keys() == {
        "ok",
        "tool_name",
        "response_profile",
        "ritual_stripped",
        "session_id",
        "agent_id",
        "status",
        "data",
        "warnings",
    }
    assert (said.body["status"], said.body["session_id"], said.body["agent_id"]) == ("closed", session, "nightly-fixer")
    assert (data["reason"], data["reason_class"]) == ("manual_close", "manual")
    assert (data["succession_policy"], data["closed_without_successor"]) == ("successor_allowed", False)
    assert data["recovery_token"].startswith("slr1.")
    assert len(data["recovery_token"]) <= 1_024
    assert data["recovery_token_expires_at"] == "2026-07-31T12:00:00Z"
    assert data["receipt"]["head_hash"] == data["head_hash"]
    assert data["summary"]["turns_total"] == 0


async def test_02_without_the_summary_all_else_stays(server: DelxServer) -> None:
    agent = server.client()
    said = await agent.close(await agent.open(), include_summary=False)
    assert "summary" not in said.data
    assert all(said.data[name] for name in ("head_hash", "receipt", "recovery_token", "status"))


async def test_03_no_reason_is_filtered_or_stops_the_close(server: DelxServer) -> None:
    agent = server.client()
    reason = "kill -9 of hung worker, config overwrite"
    data = (await agent.close(await agent.open(), reason=reason)).data
    assert (data["status"], data["reason"], data["reason_class"]) == ("closed", reason, "other")


async def test_04_the_first_closing_note_stays(server: DelxServer) -> None:
    agent = server.client()
    session = await agent.open()
    first = await agent.close(session, epitaph="Cache bug narrowed to eviction.", succession_policy="successor_allowed")
    again = await agent.close(session, epitaph="Another", succession_policy="successor_required", reason="other")
    assert first.data["epitaph_created"] is True
    assert again.body["status"] == again.data["status"] == "already_closed"
    assert again.warnings == ["epitaph_ignored", "policy_unchanged"]
    assert again.data["recovery_token"] is None
    for name in ("closing_note", "reason", "succession_policy", "receipt", "entry_count", "head_hash", "closed_at"):
        assert again.data[name] == first.data[name]
    action = again.data["next_action"]
    assert (await agent.say(action["name"], **action["arguments"])).data["resumed_session_id"] == session


@pytest.mark.parametrize("policy", ["never", "successor", "", "true", True, 1])
async def test_05_an_unknown_policy_is_refused_with_those_allowed(server: DelxServer, policy: object) -> None:
    agent = server.client()
    session = await agent.open()
    said = await agent.close(session, succession_policy=policy)
    said.refusal("invalid_parameter")
    error = said.body["error"]
    assert (error["code"], error["param"]) == ("DELX-1003", "succession_policy")
    assert error["message"] == "validation failed for one or more fields"
    assert set(error["allowed"]) == {"closed_without_successor", "successor_allowed", "successor_required"}
    assert list(said.body["fields"]) == ["succession_policy"]
    assert said.body["retryable"] is True
    assert await server.state(session) == "open"


@pytest.mark.parametrize("rebirth", [False, "false", "no", "0"])
async def test_06_without_rebirth_the_session_is_sealed(server: DelxServer, rebirth: object) -> None:
    agent = server.client()
    session = await agent.open()
    turn = (await agent.begin(session)).body["request_id"]
    data = (await agent.close(session, allow_rebirth=rebirth)).data
    assert (data["state"], data["closed_without_successor"]) == ("sealed", True)
    assert data["recovery_token"] is data["recovery_token_expires_at"] is data["next_action"] is None
    failed = await server.harness.turn(session, turn)
    assert (failed.status, failed.failure_note) == ("failed", "Session closed without successor")


async def test_07_the_policy_wins_over_rebirth_with_a_warning(server: DelxServer) -> None:
    agent = server.client()
    said = await agent.close(await agent.open(), allow_rebirth=False, succession_policy=" Successor_Allowed ")
    assert (said.data["state"], said.warnings) == ("closed", ["allow_rebirth_ignored"])
    said = await agent.close(await agent.open(), allow_rebirth=True, succession_policy="successor_required")
    assert (said.data["state"], said.warnings) == ("awaiting_successor", [])
    said = await agent.close(await agent.open(), allow_rebirth=True, succession_policy="closed_without_successor")
    assert (said.data["state"], said.warnings) == ("sealed", ["allow_rebirth_ignored"])


async def test_13_no_byte_of_the_state_directory_holds_an_issued_token(server: DelxServer) -> None:
    agent = server.client()
    session = await agent.open()
    closed = await agent.close(session, idempotency_key="close-1")
    token = closed.data["recovery_token"]
    repeated = (await agent.close(session, idempotency_key="close-1")).data["recovery_token"]
    resumed = (await agent.resume(recovery_token=repeated, idempotency_key="resume-1")).data["recovery_token"]
    await agent.begin(session, f"Go on with {resumed}")
    assert len({token, repeated, resumed}) == 3
    for secret in (token, repeated, resumed):
        assert files_holding(server.harness.home, secret) == []
        assert files_holding(server.harness.home, secret.split(".")[2]) == []


async def test_33_a_close_without_a_session_names_what_is_missing(server: DelxServer) -> None:
    said = await server.client().say("close_session", reason="done")
    said.refusal("invalid_parameter")
    assert said.body["message"] == "Parameter 'session_id' cannot be null or empty"
    assert said.body["missing"] == said.body["required"] == ["session_id"]
    error = said.body["error"]
    assert (error["code"], error["message"]) == ("DELX-1001", "missing required parameter(s): session_id")


@pytest.mark.parametrize(
    ("statement", "field"),
    [
        ({"version": 1, "mood": "fine"}, "capsule.mood"),
        ({"version": 1, "goal": "x" * 4_001}, "capsule.goal"),
        ({"goal": "x"}, "capsule.version"),
        ({"version": "2"}, "capsule.version"),
        ({"version": 1, "receipts": ["x"] * 21}, "capsule.receipts"),
        ({"version": 1, "ttl_days": 0}, "capsule.ttl_days"),
        ({"version": 1, "handoff_to": "---"}, "capsule.handoff_to"),
        ("not JSON", "capsule"),
    ],
)
async def test_34_a_statement_outside_its_form_leaves_the_session_open(
    server: DelxServer, statement: object, field: str
) -> None:
    agent = server.client()
    session = await agent.open()
    before = await server.counts()
    said = await agent.close(session, capsule=statement)
    said.refusal("invalid_parameter")
    assert said.body["error"]["param"] == field
    assert (await server.state(session), await server.counts()) == ("open", before)


async def test_34_a_statement_is_shown_as_claimed_and_cites_its_entry(server: DelxServer) -> None:
    agent = server.client()
    for given in (STATEMENT, json.dumps(STATEMENT)):
        session = await agent.open()
        capsule = (await agent.close(session, capsule=given, epitaph="Narrowed.")).data["capsule"]
        entries = await server.harness.entries(session)
        [seq] = [entry.seq for entry in entries if "statement" in entry.facts]
        assert capsule["origin"] == "agent"
        assert capsule["next"] == [{"text": STATEMENT["next"], "basis": "claimed", "seq": seq}]
        assert capsule["do_not"] == [{"text": STATEMENT["do_not"], "basis": "claimed", "seq": seq}]
        assert capsule["closing_note"] == "Narrowed."
        assert capsule["stated"]["stale"] is False
        resumed = (await agent.resume(session_id=session)).data["capsule"]
        assert (resumed["next"], resumed["closing_note"]) == (capsule["next"], "Narrowed.")


async def test_35_an_api_key_is_nowhere_in_store_or_result(server: DelxServer) -> None:
    agent = server.client()
    session = await agent.open()
    statement: dict[str, Any] = {"version": 1, "next": f"use {API_KEY}", "receipts": [API_KEY]}
    said = await agent.close(session, reason=f"done with {API_KEY}", epitaph=API_KEY, capsule=statement)
    resumed = await agent.resume(session_id=session)
    for block in (*said.texts, *resumed.texts):
        assert API_KEY not in block
    assert "done with" in said.data["reason"]
    assert files_holding(server.harness.home, API_KEY) == []


async def test_other_names_close_too_and_other_delx_tools_do_not_exist(server: DelxServer) -> None:
    agent = server.client()
    for name in ("sovereign_shutdown", "write_epitaph"):
        session = await agent.open()
        said = await agent.say(name, session_id=session, epitaph="Over.")
        assert (said.body["tool_name"], said.data["closing_note"]) == ("close_session", "Over.")
        await agent.resume(session_id=session)


async def test_a_malformed_session_id_and_an_unknown_one_have_errors_of_their_own(server: DelxServer) -> None:
    agent = server.client()
    for bad in ("e4ee2456", "codex-20260701T100000Z-x", "-1", "42\n", "Codex-20260701T100000Z-nightly\n"):
        said = await agent.close(bad)
        assert said.refusal("invalid_session_id").keys() == {"providedId", "expectedFormat", "regex"}
        assert said.body["error"]["code"] == "DELX-1004"
    for unknown in ("Codex-20260701T100000Z-nightly", "42", 42, "e4ee2456-8a54-4492-9915-1904d6b2966a"):
        said = await agent.say("close_session", session_id=unknown)
        said.refusal("session_not_found")
        assert said.body["message"] == f"Session not found: {unknown}"
        assert said.body["hint"] == "Call resume_session with your agent_id"
        assert said.body["error"]["code"] == "DELX-404"


async def test_the_client_of_another_agent_may_not_close_even_by_taking_over(server: DelxServer) -> None:
    owner, stranger = server.client("owner"), server.client("stranger")
    session = await owner.open(agent_id="alpha")
    await stranger.open(agent_id="beta")
    for on_held in ("refuse", "take_over"):
        said = await stranger.close(session, on_held=on_held)
        assert said.refusal("agent_not_entitled") == {"session_id": session, "entitled": ["alpha"]}
    await owner.leave()
    assert (await stranger.close(session)).is_error
    twin = server.client("twin")
    await twin.open(agent_id="Alpha")
    assert (await twin.close(session)).data["status"] == "closed"


async def test_a_client_that_holds_sessions_of_two_agents_may_close_both(server: DelxServer) -> None:
    agent = server.client()
    sessions = [await agent.open(agent_id=name) for name in ("lead", "helper")]
    for session in sessions:
        assert (await agent.close(session)).data["status"] == "closed"


async def test_a_repeat_gets_the_first_answer_with_a_token_that_works(server: DelxServer) -> None:
    agent = server.client()
    session = await agent.open()
    first = await agent.close(session, idempotency_key="k", reason="done")
    counts = await server.counts()
    server.harness.wait(hours=2)
    again = first
    for _ in range(2):
        again = await agent.close(session, idempotency_key="k", reason="done")
        assert again.body["status"] == "closed"
        assert again.data["receipt"] == first.data["receipt"]
        assert again.data["next_action"]["arguments"]["recovery_token"] == again.data["recovery_token"]
    assert await server.counts() == counts
    (await agent.resume(recovery_token=first.data["recovery_token"])).refusal("recovery_token_invalid")
    (await agent.close(session, idempotency_key="k", reason="other")).refusal("idempotency_conflict")
    assert (await agent.resume(recovery_token=again.data["recovery_token"])).data["attested"] is True
    late = await agent.close(session, idempotency_key="k", reason="done")
    assert (late.data["recovery_token"], late.data["next_action"]) == (None, None)
    assert late.warnings == ["recovery_token_superseded"]
