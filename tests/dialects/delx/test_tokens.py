"""Acceptance of recovery tokens and of the policies that ask for them: forks, seals and hand-overs."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shiftlog.journal.signing import tokens
from tests.dialects.delx.server import DelxServer
from tests.journal.harness import Harness, open_harness, row_id, tamper


async def closed_token(server: DelxServer, **arguments: object) -> tuple[str, str]:
    """Open and close a session; return its id and token."""
    agent = server.client("closer")
    session = await agent.open(agent_id="alpha")
    data = (await agent.close(session, **arguments)).data
    await agent.leave()
    return session, data["recovery_token"]


def swapped(token: str) -> str:
    """Return a token with one character of its payload changed."""
    at = len(tokens.PREFIX) + 10
    return token[:at] + ("A" if token[at] != "A" else "B") + token[at + 1 :]


async def test_09_the_token_of_a_close_attests_and_a_new_one_comes_back(server: DelxServer) -> None:
    session, token = await closed_token(server)
    agent = server.client()
    data = (await agent.resume("alpha", recovery_token=token)).data
    assert (data["attested"], data["resumed_session_id"], data["entries_since_token"]) == (True, session, 0)
    assert data["recovery_token"] != token
    await agent.begin(session)
    again = (await agent.resume("alpha", recovery_token=data["recovery_token"])).data
    assert (again["entries_since_token"], again["resume_mode"]) == (1, "reattached")


async def test_10_a_token_is_used_once(server: DelxServer) -> None:
    _, token = await closed_token(server)
    agent = server.client()
    await agent.resume("alpha", recovery_token=token)
    counts = await server.counts()
    said = await agent.resume("alpha", recovery_token=token)
    assert said.refusal("recovery_token_used") == {"used_at": "2026-07-01T12:00:00Z"}
    assert said.body["message"] == "Recovery token already used"
    assert said.body["error"]["code"] == "DELX-IDENTITY-401"
    assert await server.counts() == counts


async def test_11_a_changed_a_malformed_and_a_foreign_token_are_told_apart_and_consume_nothing(
    server: DelxServer,
) -> None:
    _, token = await closed_token(server)
    agent = server.client()
    for bad, reason in (
        (swapped(token), "signature"),
        ("abc", "malformed"),
        ("", "malformed"),
        ("slr1..", "malformed"),
    ):
        said = await agent.resume("alpha", recovery_token=bad)
        assert said.refusal("recovery_token_invalid") == {"reason": reason}
        assert said.body["message"] == "Recovery token invalid"
    said = await agent.resume("beta", recovery_token=token)
    assert said.refusal("recovery_token_mismatch") == {"reason": "agent"}
    assert said.body["message"] == "Recovery token does not match"
    assert (await agent.resume("alpha", recovery_token=token)).data["attested"] is True


async def test_12_a_token_expires_and_the_session_can_still_be_resumed_without(server: DelxServer) -> None:
    session, token = await closed_token(server)
    agent = server.client()
    server.harness.wait(days=31)
    said = await agent.resume("alpha", recovery_token=token)
    assert said.refusal("recovery_token_expired") == {"expired_at": "2026-07-31T12:00:00Z"}
    data = (await agent.resume("alpha", lookback_days=90)).data
    assert (data["resume_mode"], data["resumed_session_id"]) == ("reopened", session)


async def test_14_a_sealed_session_is_resumed_by_nobody_and_still_read(server: DelxServer) -> None:
    agent = server.client()
    session = await agent.open()
    await agent.close(session, succession_policy="closed_without_successor")
    for arguments in ({}, {"session_id": session}):
        said = await agent.resume(**arguments)
        details = said.refusal("session_sealed")
        assert (details["session_id"], details["closed_at"]) == (session, "2026-07-01T12:00:00Z")
        assert said.body["message"] == "Session is sealed: closed without successor"
    assert (await agent.say("query_history", session_id=session)).body["session"]["state"] == "sealed"
    refused = await agent.begin(session)
    assert refused.body["error"]["hint"] == "Open a new session"


async def test_15_a_session_that_needs_a_successor_is_forked_with_its_token(server: DelxServer) -> None:
    agent = server.client()
    session = await agent.open()
    turn = (await agent.begin(session, "Fix eviction")).body["request_id"]
    closed = (await agent.close(session, succession_policy="successor_required")).data
    assert closed["state"] == "awaiting_successor"
    said = await agent.resume()
    assert said.refusal("recovery_token_required")["session_id"] == session
    assert said.body["message"] == "Recovery token required"
    resumed = await agent.say("resume_session", **closed["next_action"]["arguments"])
    data = resumed.data
    new = data["resumed_session_id"]
    assert (data["resume_mode"], data["predecessor_session_id"], data["state_before"]) == (
        "forked",
        session,
        "awaiting_successor",
    )
    assert new != session
    assert data["capsule"]["open_turn"]["request_id"] == turn
    old = await server.harness.session(session)
    assert (str(old.state), old.successor_session_id) == ("succeeded", new)
    failed = await server.harness.turn(session, turn)
    assert (failed.status, failed.failure_note) == ("failed", f"superseded: Continued in {new}")
    first = (await server.harness.entries(new))[0].facts["predecessor"]
    assert (first["session_id"], first["head_hash"]) == (session, closed["head_hash"])
    assert not (await agent.begin(new)).is_error
    refused = (await agent.begin(session)).body["error"]
    assert (refused["code"], refused["hint"]) == ("session_closed", "Continue in the successor session")
    assert refused["details"]["successor_session_id"] == new
    again = await agent.resume(session_id=session)
    assert again.refusal("session_succeeded")["successor_session_id"] == new
    assert all(found.ok for found in await server.harness.verify())
    assert not any(done.changed for done in await server.harness.rebuild())


@pytest.mark.parametrize("policy", ["successor_allowed", "successor_required"])
async def test_17_a_session_handed_to_beta_is_forked_by_beta_alone(server: DelxServer, policy: str) -> None:
    statement = {"version": 1, "handoff_to": "Beta", "next": "Write the test"}
    session, token = await closed_token(server, capsule=statement, succession_policy=policy)
    alpha, beta = server.client("a"), server.client("b")
    said = await alpha.resume("alpha", recovery_token=token)
    assert said.refusal("recovery_token_mismatch") == {"reason": "agent"}
    (await beta.resume("beta")).refusal("recovery_token_required")
    (await beta.resume("gamma", session_id=session)).refusal("agent_not_entitled")
    data = (await beta.resume("beta", recovery_token=token)).data
    assert (data["resume_mode"], data["predecessor_session_id"], data["agent_id"]) == ("forked", session, "Beta")
    assert data["capsule"]["next"][0]["text"] == "Write the test"
    assert "handoff.accepted" in await server.harness.kinds(session)


async def test_a_successor_that_crashes_before_its_first_turn_still_has_what_it_was_handed(server: DelxServer) -> None:
    agent, heir, next_heir = server.client("a"), server.client("b"), server.client("c")
    session = await agent.open(agent_id="alpha")
    await agent.begin(session, "Half done")
    token = (await agent.close(session, succession_policy="successor_required")).data["recovery_token"]
    first = (await heir.resume("alpha", recovery_token=token)).data
    await heir.leave()
    again = (await next_heir.resume("alpha")).data
    assert (again["resumed_session_id"], again["state_before"]) == (first["resumed_session_id"], "suspended")
    assert again["capsule"] == first["capsule"]
    assert again["capsule"]["open_turn"]["query_title"] == "Half done"
    await next_heir.begin(again["resumed_session_id"], "My own")
    assert (await next_heir.resume("alpha")).data["capsule"]["open_turn"]["query_title"] == "My own"


@pytest.mark.parametrize("statement", [None, {"version": 1, "handoff_to": "gamma"}])
async def test_what_was_handed_over_is_passed_on_by_a_successor_that_closes_without_a_turn(
    server: DelxServer, statement: dict[str, Any] | None
) -> None:
    alpha, beta, gamma = server.client("a"), server.client("b"), server.client("c")
    session = await alpha.open(agent_id="alpha")
    await alpha.begin(session, "Half done")
    handed = {"version": 1, "next": "Guard the eviction", "do_not": "Do not raise the TTL", "handoff_to": "beta"}
    token = (await alpha.close(session, succession_policy="successor_required", capsule=handed)).data["recovery_token"]
    first = (await beta.resume("beta", recovery_token=token)).data
    given = {} if statement is None else {"capsule": statement}
    closed = (await beta.close(first["session_id"], epitaph="Had no time", **given)).data
    if statement is None:
        last = (await beta.resume("beta")).data["capsule"]
    else:
        last = (await gamma.resume("gamma", recovery_token=closed["recovery_token"])).data["capsule"]
    for name in ("goal", "next", "do_not", "open_turn"):
        assert last[name] == closed["capsule"][name] == first["capsule"][name]
    assert last["closing_note"] == closed["capsule"]["closing_note"] == "Had no time"
    assert last["origin"] == "agent"
    assert last["stated"]["handoff_to"] == ("beta" if statement is None else "gamma")


@pytest.mark.parametrize("budget", [2_000, 8_000])
async def test_a_statement_without_a_turn_is_added_to_what_was_handed_over(server: DelxServer, budget: int) -> None:
    alpha, beta, gamma = server.client("a"), server.client("b"), server.client("c")
    session = await alpha.open(agent_id="alpha")
    for n in range(20):
        await alpha.begin(session, f"Part {n}")
        await alpha.say("finish_turn", session_id=session, outcome="completed", response="Done " + "x" * 60)
    await alpha.begin(session, "Half done")
    handed = {"version": 1, "next": "Guard the eviction", "do_not": "Do not raise the TTL", "handoff_to": "beta"}
    token = (await alpha.close(session, succession_policy="successor_required", capsule=handed)).data["recovery_token"]
    first = (await beta.resume("beta", recovery_token=token)).data
    statement = {"version": 1, "next": "Ask for the key", "receipts": ["ticket 7"], "handoff_to": "gamma"}
    closed = (await beta.close(first["session_id"], capsule=statement)).data
    last = (await gamma.resume("gamma", recovery_token=closed["recovery_token"], capsule_budget_bytes=budget)).data
    capsule = last["capsule"]
    texts = {name: [item["text"] for item in capsule[name]] for name in ("next", "do_not")}
    assert texts["next"][0] == "Ask for the key"
    assert texts["next"] == ["Ask for the key", "Guard the eviction", "Half done"] or budget == 2_000
    assert texts["do_not"] == ["Do not raise the TTL"]
    assert capsule["open_turn"]["query_title"] == "Half done"
    assert (capsule["goal"], capsule["origin"]) == (first["capsule"]["goal"], "agent")
    assert capsule["stated"]["handoff_to"] == "gamma"
    if budget == 8_000:
        assert (capsule["receipts"][0], capsule["receipts"][2:]) == ("ticket 7", first["capsule"]["receipts"])
        assert capsule["done"] == first["capsule"]["done"]


async def test_a_session_handed_over_is_still_reopened_by_its_own_agent_which_ends_the_offer(
    server: DelxServer,
) -> None:
    session, token = await closed_token(server, capsule={"version": 1, "handoff_to": "beta"})
    alpha, beta = server.client("a"), server.client("b")
    assert (await alpha.resume("alpha")).data["resume_mode"] == "reopened"
    assert (await beta.resume("beta", recovery_token=token)).refusal("recovery_token_invalid") == {"reason": "revoked"}
    assert (await server.harness.kinds(session)).count("handoff.ended") == 1
    assert (await server.harness.session(session)).offer is None


async def test_one_that_must_be_continued_by_beta_is_not_open_to_its_own_agent(server: DelxServer) -> None:
    session, _ = await closed_token(
        server, capsule={"version": 1, "handoff_to": "beta"}, succession_policy="successor_required"
    )
    details = (await server.client().resume("alpha")).refusal("agent_not_entitled")
    assert (details["session_id"], details["entitled"]) == (session, ["beta"])
    assert [row["why_not"] for row in details["candidates"]] == ["not_entitled"]


async def test_an_offer_whose_time_is_over_stands_in_the_way_of_nobody(server: DelxServer) -> None:
    """3.3: what nobody swept away yet is neither handed to beta any more nor closed to its own agent."""
    await closed_token(server, capsule={"version": 1, "handoff_to": "beta"}, succession_policy="successor_required")
    beta = server.client("b")
    server.harness.wait(days=29)
    own = await beta.open(agent_id="beta")
    await beta.close(own)
    server.harness.wait(days=2)
    assert (await beta.resume("beta", lookback_days=90)).data["resumed_session_id"] == own
    details = (await server.client().resume("alpha", lookback_days=90)).refusal("recovery_token_required")
    assert [row["why_not"] for row in details["candidates"]] == [None]


async def test_a_token_for_one_session_does_not_open_another(server: DelxServer) -> None:
    _, token = await closed_token(server)
    other, _ = await closed_token(server)
    said = await server.client().resume("alpha", recovery_token=token, session_id=other)
    assert said.refusal("recovery_token_mismatch") == {"reason": "session"}


async def test_closing_again_after_a_resume_revokes_the_token_of_the_resume(server: DelxServer) -> None:
    session, token = await closed_token(server)
    agent = server.client()
    resumed = (await agent.resume("alpha", recovery_token=token)).data["recovery_token"]
    closed = (await agent.close(session)).data["recovery_token"]
    said = await agent.resume("alpha", recovery_token=resumed)
    assert said.refusal("recovery_token_invalid") == {"reason": "revoked"}
    assert (await agent.resume("alpha", recovery_token=closed)).data["attested"] is True


async def test_a_token_of_another_state_directory_is_not_taken(server: DelxServer, tmp_path: Path) -> None:
    await closed_token(server)
    async with open_harness(tmp_path / "other") as harness:
        _, foreign = await closed_token(DelxServer(harness))
    said = await server.client().resume("alpha", recovery_token=foreign)
    assert said.refusal("recovery_token_invalid") == {"reason": "signature"}


async def test_a_token_that_the_store_never_issued_is_unknown_however_well_it_is_signed(server: DelxServer) -> None:
    session, token = await closed_token(server)
    keys = server.harness.app.keys
    forged = tokens.mint(keys, replace(tokens.read(keys, token), token_id="0" * 32))
    said = await server.client().resume("alpha", recovery_token=forged)
    assert said.refusal("recovery_token_invalid") == {"reason": "unknown"}
    assert await server.state(session) == "closed"


async def test_when_the_key_is_gone_old_tokens_fail_by_their_signature(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with open_harness(home) as harness:
        _, token = await closed_token(DelxServer(harness))
    (home / "keys" / "ed25519").unlink()
    async with open_harness(home) as harness:
        said = await DelxServer(harness).client().resume("alpha", recovery_token=token)
        assert said.refusal("recovery_token_invalid") == {"reason": "signature"}
        assert (await DelxServer(harness).client().resume("alpha")).data["resume_mode"] == "reopened"


async def test_a_token_whose_head_is_not_on_the_chain_does_not_match(tmp_path: Path) -> None:
    """A store set back to an earlier copy: the chain is sound, but it is not the one that the token saw."""
    home = tmp_path / "home"
    async with open_harness(home) as harness:
        session, token = await closed_token(DelxServer(harness))
        keys = harness.app.keys
        other = tokens.mint(keys, replace(tokens.read(keys, token), head_hash="sha256:" + "0" * 64))
    tamper(home, "UPDATE tokens SET hash = ? WHERE session_id = ?", tokens.token_hash(other), session)
    async with open_harness(home) as harness:
        said = await DelxServer(harness).client().resume("alpha", recovery_token=other)
        assert said.refusal("recovery_token_mismatch") == {"reason": "head"}


async def test_a_damaged_journal_is_not_resumed_with_the_best_token(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with open_harness(home) as harness:
        session, token = await closed_token(DelxServer(harness))
    tamper(home, "UPDATE entries SET at = '2020-01-01T00:00:00.000Z' WHERE id = ?", row_id(home, session, 2))
    async with open_harness(home) as harness:
        said = await DelxServer(harness).client().resume("alpha", recovery_token=token)
        assert said.refusal("journal_tampered") == {"session_id": session, "first_bad_seq": 2, "kind": "edited"}
        assert await _unspent(harness, token)


async def _unspent(harness: Harness, token: str) -> bool:
    kept = await harness.read(lambda reader: reader.token(tokens.token_hash(token)))
    return kept is not None and kept.is_unspent


async def test_the_life_of_a_token_is_the_operators(tmp_path: Path) -> None:
    async with open_harness(tmp_path / "home", environ={"SHIFTLOG_TOKEN_TTL_DAYS": "2"}) as harness:
        server = DelxServer(harness)
        agent = server.client()
        data = (await agent.close(await agent.open())).data
        assert data["recovery_token_expires_at"] == "2026-07-03T12:00:00Z"


async def test_an_idempotency_key_counts_for_a_day_whether_or_not_anybody_swept(server: DelxServer) -> None:
    """6.7: the first result comes again within 24 hours; after that the call is a new one."""
    session, token = await closed_token(server)
    agent = server.client()
    first = (await agent.resume("alpha", recovery_token=token, idempotency_key="k")).data
    server.harness.wait(hours=23, minutes=59)
    again = (await agent.resume("alpha", recovery_token=token, idempotency_key="k")).data
    assert (again["resumed_session_id"], again["head_hash"]) == (session, first["head_hash"])
    server.harness.wait(hours=25)
    (await agent.resume("alpha", recovery_token=token, idempotency_key="k")).refusal("recovery_token_used")
    assert (await agent.resume("alpha", idempotency_key="k")).data["resumed_session_id"] == session


@pytest.mark.parametrize("budget", [2_000, 64_000])
async def test_what_a_successor_was_handed_fits_every_budget_with_what_must_stay(
    server: DelxServer, budget: int
) -> None:
    """7.2: goal, open turn and one item of each essential list always stay."""
    agent, heir, next_heir = server.client("a"), server.client("b"), server.client("c")
    session = await agent.open(agent_id="alpha")
    for n in range(40):
        await agent.begin(session, f"Part {n} of the work")
        await agent.say("finish_turn", session_id=session, outcome="completed", response=f"Part {n} " + "x" * 80)
    await agent.begin(session, "Half done")
    statement = {"version": 1, "next": "Go on", "do_not": "Delete nothing"}
    closed = (await agent.close(session, succession_policy="successor_required", capsule=statement)).data
    await heir.resume("alpha", recovery_token=closed["recovery_token"])
    await heir.leave()
    said = await next_heir.resume("alpha", capsule_budget_bytes=budget)
    capsule = said.data["capsule"]
    assert len(json.dumps(capsule, ensure_ascii=False, separators=(",", ":")).encode()) <= budget
    assert (capsule["open_turn"]["query_title"], capsule["budget_bytes"]) == ("Half done", budget)
    assert [capsule[name][0]["text"] for name in ("next", "do_not")] == ["Go on", "Delete nothing"]
    assert len(capsule["done"]) + capsule["truncated"].get("done", 0) == 40
