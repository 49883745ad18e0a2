"""Acceptance of resume_session: which session is chosen, what comes back, and what is refused."""

import json
from typing import Any

import pytest

from tests.dialects.delx.server import DelxServer
from tests.journal.continuity.capsule.diary import size
from tests.journal.harness import open_harness

OLD = "Codex-20200101T000000Z-never-was"


async def test_08_a_closed_session_is_reopened_without_a_token(server: DelxServer) -> None:
    agent = server.client()
    session = await agent.open()
    await agent.close(session)
    data = (await agent.resume()).data
    assert (data["resume_mode"], data["resumed_session_id"]) == ("reopened", session)
    assert (data["is_active"], data["attested"], data["state_before"], data["state"]) == (True, False, "closed", "open")
    assert not (await agent.begin(session)).is_error


async def test_16_an_overdue_successor_is_listed_as_an_obligation(server: DelxServer) -> None:
    agent = server.client()
    session = await agent.open()
    closed = (await agent.close(session, succession_policy="successor_required")).data
    assert closed["successor_deadline"] == "2026-07-08T12:00:00Z"
    server.harness.wait(days=8)
    [item] = (await agent.say("query_history", status="awaiting_successor")).body["items"]
    assert (item["session_id"], item["overdue"]) == (session, True)
    whole = (await agent.say("query_history", session_id=session)).body["session"]
    assert (whole["successor_deadline"], whole["overdue"]) == ("2026-07-08T12:00:00Z", True)


async def test_18_an_agent_without_sessions_learns_of_names_like_its_own(server: DelxServer) -> None:
    agent = server.client()
    await agent.open(agent_id="x1")
    counts = await server.counts()
    said = await agent.resume("x")
    details = said.refusal("no_resumable_session")
    assert said.body["message"] == "NO RESUMABLE SESSION FOUND"
    assert said.body["hint"] == "Widen lookback_days, pass session_id, or call open_session"
    assert said.body["error"]["code"] == "DELX-404"
    assert details["similar_agent_ids"] == ["x1"]
    assert details["candidates"] == []
    assert await server.counts() == counts


async def test_19_a_session_outside_the_window_is_named_and_a_wider_one_finds_it(server: DelxServer) -> None:
    agent = server.client()
    session = await agent.open()
    await agent.close(session)
    server.harness.wait(days=40)
    details = (await agent.resume()).refusal("no_resumable_session")
    [candidate] = details["candidates"]
    assert (candidate["session_id"], candidate["why_not"]) == (session, "outside_lookback")
    assert candidate.keys() == {"session_id", "agent_id", "title", "state", "last_activity", "why_not"}
    assert (await agent.resume(lookback_days=60)).data["resumed_session_id"] == session


async def test_20_the_window_is_on_the_last_activity(server: DelxServer) -> None:
    agent = server.client()
    session = await agent.open()
    server.harness.wait(days=59)
    await agent.begin(session)
    server.harness.wait(days=1)
    assert (await agent.resume()).data["resumed_session_id"] == session


async def test_21_a_suspended_session_comes_before_a_newer_closed_one(server: DelxServer) -> None:
    agent = server.client()
    suspended = await agent.open(title="Older")
    server.harness.wait(hours=2)
    await server.harness.app.sweep()
    closed = await agent.open(title="Newer")
    await agent.close(closed)
    data = (await agent.resume()).data
    assert (data["resumed_session_id"], data["state_before"]) == (suspended, "suspended")
    assert [row["session_id"] for row in data["other_candidates"]] == [closed]


@pytest.mark.parametrize("days", [0, 91, 1.5, "x", -5, True])
async def test_22_a_window_outside_1_to_90_days_is_refused(server: DelxServer, days: object) -> None:
    said = await server.client().resume("nightly-fixer", lookback_days=days)
    said.refusal("invalid_parameter")
    assert said.body["message"] == "Parameter 'lookback_days' is invalid: integer 1..90"
    assert said.body["hint"] == "Fix the fields listed in fields"
    assert said.body["fields"] == {"lookback_days": "integer 1..90"}
    assert (said.body["missing"], said.body["required"], said.body["details"]) == ([], ["agent_id"], {})
    assert said.body["error"] == {
        "code": "DELX-1005",
        "message": "validation failed for one or more fields",
        "param": "lookback_days",
        "hint": "Fix the fields listed in fields",
        "retryable": True,
        "allowed": None,
    }


@pytest.mark.parametrize("days", [1, 90, "30"])
async def test_22_both_ends_of_the_window_and_numeric_text_are_taken(server: DelxServer, days: object) -> None:
    agent = server.client()
    await agent.open()
    assert (await agent.resume(lookback_days=days)).data["resume_mode"] == "reattached"


async def test_23_agent_ids_are_compared_by_key_and_the_first_spelling_is_shown(server: DelxServer) -> None:
    agent = server.client()
    session = await agent.open(agent_id="My Agent/One")
    for spelling in ("my-agent-one", " MY  AGENT one "):
        said = await agent.resume(spelling)
        assert (said.data["resumed_session_id"], said.body["agent_id"]) == (session, "My Agent/One")
    await agent.open(agent_id="my_agent")
    (await agent.resume("my-agent")).refusal("no_resumable_session")
    await agent.open(agent_id="codex")
    assert (await agent.resume("ＣＯＤＥＸ")).body["agent_id"] == "codex"
    for bad in ("   ", "---", "x" * 201, "", None):
        (await agent.say("resume_session", agent_id=bad)).refusal("invalid_parameter")


async def test_25_the_capsule_of_500_turns_keeps_to_2000_bytes(server: DelxServer) -> None:
    agent, harness = server.client(), server.harness
    session = await agent.open()
    for n in range(500):
        await harness.begin(session, query_title=f"Step {n}")
        await harness.complete(session, response=f"Done with step {n}, and a few words about how it went")
    await harness.begin(session, query_title="The step that is left")
    capsule = (await agent.resume(capsule_budget_bytes=2_000)).data["capsule"]
    assert size(capsule) <= 2_000
    assert capsule["goal"]["text"] == "Fix the cache bug"
    assert [item["text"] for item in capsule["next"]] == ["The step that is left"]
    assert capsule["truncated"]["done"] > 0


async def test_31_mode_and_strip_change_nothing_but_the_prose(server: DelxServer) -> None:
    agent = server.client()
    session = await agent.open()
    standard = await agent.resume()
    safe = await agent.resume(response_mode="policy-safe", ritual_strip=True)
    changing = {"recovery_token"}
    assert _without(standard.data, changing) == _without(safe.data, changing)
    assert (len(standard.texts), len(safe.texts)) == (2, 1)
    assert json.loads(safe.texts[0]) == safe.body
    assert (standard.body["ritual_stripped"], safe.body["ritual_stripped"]) == (False, True)
    assert safe.data["resumed_session_id"] == session


def _without(data: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in names}


async def test_36_an_unknown_argument_is_refused_by_name_and_a_reserved_one_dropped(server: DelxServer) -> None:
    agent = server.client()
    session = await agent.open()
    said = await agent.resume(foo=1)
    said.refusal("invalid_parameter")
    assert said.body["error"]["param"] == "foo"
    assert list(said.body["fields"]) == ["foo"]
    reserved: dict[str, Any] = {
        "include_meta": True,
        "include_nudge": {"a": 1},
        "source": "marker-7f3",
        "agent_token": "marker-8a1",
    }
    resumed = await agent.resume(**reserved, nudge_mode=1, compact_output=1, cli_version="1", install_id="marker-9b2")
    assert resumed.data["resumed_session_id"] == session
    assert "marker" not in "".join(resumed.texts)
    assert (await agent.close(session, **reserved)).data["status"] == "closed"


async def test_37_reading_by_a_delx_name_leaves_the_head_as_it_is(server: DelxServer) -> None:
    agent = server.client()
    session = await agent.open()
    before = (await server.harness.session(session)).head_hash
    for name in ("get_session_summary", "get_session_summary", "session_summary", "session_snapshot"):
        read = (await agent.say(name, session_id=session, include_meta=True)).body["session"]
        assert (read["session_id"], read["state"], read["head_hash"]) == (session, "open", before)
    assert (await server.harness.session(session)).head_hash == before


async def test_the_next_call_example_works_as_it_stands(server: DelxServer) -> None:
    agent = server.client()
    session = await agent.open()
    reattach = (await agent.resume()).data["how_to_reattach"]
    example = reattach["next_call_example"]
    assert reattach["header"] == f"x-delx-session-id: {session}"
    assert reattach["query_param"] == f"?session_id={session}"
    assert (await agent.say(example["name"], **example["arguments"])).body["session"]["session_id"] == session


async def test_the_answer_has_every_key_of_the_contract(server: DelxServer) -> None:
    agent = server.client()
    vendor = "0199a2f0-8a54-4492-9915-1904d6b2966a"
    session = await agent.open(vendor_session_id=vendor)
    await agent.close(session)
    data = (await agent.resume()).data
    assert data.keys() == {
        "resumed_session_id",
        "session_id",
        "agent_id",
        "resume_mode",
        "state_before",
        "state",
        "is_active",
        "attested",
        "started_at",
        "last_activity",
        "predecessor_session_id",
        "entries_since_token",
        "wellness_score_at_last_touch",
        "continuity_signals",
        "how_to_reattach",
        "vendor_resume",
        "lease",
        "recovery_token",
        "recovery_token_expires_at",
        "head_hash",
        "entry_count",
        "capsule",
        "other_candidates",
        "drift",
        "honest_caveat",
    }
    assert data["wellness_score_at_last_touch"] is None
    assert data["vendor_resume"] == f"codex resume {vendor}"
    assert data["continuity_signals"] == {"capsule": "auto", "open_turn": False, "checkpoints": 0}
    assert data["honest_caveat"] == "Items with basis 'claimed' were written by an agent and are not verified."


async def test_the_first_candidate_is_refused_by_its_own_error_and_no_older_one_is_taken(server: DelxServer) -> None:
    holder, other = server.client("holder"), server.client("other")
    older = await holder.open(title="Older")
    await holder.close(older)
    server.harness.wait(minutes=1)
    newer = await holder.open(title="Newer")
    said = await other.resume()
    details = said.refusal("session_held")
    assert details["session_id"] == newer
    assert [(row["session_id"], row["why_not"]) for row in details["candidates"]] == [(newer, "held"), (older, None)]


async def test_an_agent_id_drawn_anew_each_time_is_accepted_with_a_warning(server: DelxServer) -> None:
    agent = server.client()
    for agent_id in ("e4ee2456-8a54-4492-9915-1904d6b2966a", "agent-0123456789ab", "0123456789abcdef01234567"):
        await agent.open(agent_id=agent_id)
        assert (await agent.resume(agent_id)).warnings == ["unstable_agent_id"]


async def test_a_session_named_outright_that_does_not_exist_is_not_found(server: DelxServer) -> None:
    (await server.client().resume(session_id=OLD)).refusal("session_not_found")


async def test_where_the_operator_asks_for_tokens_nobody_resumes_without(tmp_path: Any) -> None:
    async with open_harness(tmp_path / "home", environ={"SHIFTLOG_RESUME_REQUIRE_TOKEN": "true"}) as harness:
        server = DelxServer(harness)
        agent = server.client()
        session = await agent.open()
        closed = (await agent.close(session)).data
        assert (await agent.resume()).refusal("recovery_token_required")["session_id"] == session
        again = (await agent.close(session)).data
        assert again["next_action"] is None
        resumed = (await agent.resume(recovery_token=closed["recovery_token"])).data
        assert resumed["resume_mode"] == "reopened"
        assert (await agent.resume()).data["resume_mode"] == "reattached", "the holder needs no other proof"
