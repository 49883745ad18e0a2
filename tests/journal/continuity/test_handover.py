"""Handing a session over: offer, accept, decline, revoke, expire; and the tree of sessions that comes of it."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from shiftlog.control.questions import answer
from shiftlog.journal.continuity.capsule.brief import brief
from shiftlog.journal.continuity.lineage import lineage
from shiftlog.model.caller import LIBRARY, Caller
from shiftlog.model.errors import ShiftlogError
from tests.journal.harness import Harness, client

OPERATOR = replace(LIBRARY, face="cli", operator=True)


async def offered(harness: Harness, session: str, caller: Caller = OPERATOR, **arguments: Any) -> dict[str, Any]:
    return await harness.app.continuity.offer({"session_id": session, **arguments}, caller)


async def resume(harness: Harness, agent_id: str, **arguments: Any) -> dict[str, Any]:
    return (await harness.call("resume_session", {"agent_id": agent_id, **arguments}, client(agent_id)))["data"]


async def refused(harness: Harness, agent_id: str, **arguments: Any) -> ShiftlogError:
    return await harness.refusal("resume_session", {"agent_id": agent_id, **arguments}, client(agent_id))


async def offers(harness: Harness) -> list[str]:
    said = answer(harness.app, "offers", {}, OPERATOR)
    assert not isinstance(said, AsyncIterator)
    found: Any = await said
    return [each["session_id"] for each in found["items"]]


async def tree(harness: Harness, session: str) -> dict[str, Any]:
    found = await harness.session(session)
    return await harness.read(lambda reader: lineage(reader, found))


async def test_an_offer_closes_an_open_session_and_its_token_forks_it(harness: Harness) -> None:
    session = await harness.open(agent_id="alpha", title="Fix the cache")
    turn = await harness.begin(session, query_title="Half done")
    made = await offered(harness, session, agent_id="Beta", reason="Shift is over")
    assert (made["state"], made["offered_to"], made["expires_at"]) == ("closed", "Beta", "2026-07-31T12:00:00Z")
    data = await resume(harness, "beta", recovery_token=made["recovery_token"])
    assert (data["resume_mode"], data["predecessor_session_id"]) == ("forked", session)
    assert data["capsule"]["open_turn"]["request_id"] == turn
    entries = await harness.entries(session)
    accepted = entries[-2]
    assert str(accepted.kind) == "handoff.accepted"
    successor = await harness.entries(data["resumed_session_id"])
    assert successor[0].facts["predecessor"]["session_id"] == session
    assert successor[0].facts["predecessor"]["head_hash"] in [entry.hash for entry in entries]
    assert accepted.facts["head_hash"] in [entry.hash for entry in successor]
    assert all(found.ok for found in await harness.verify())
    assert not any(done.changed for done in await harness.rebuild())


async def test_an_offer_to_nobody_in_particular_is_taken_by_whoever_has_the_token(harness: Harness) -> None:
    session = await harness.open(agent_id="alpha")
    made = await offered(harness, session)
    assert made["offered_to"] is None
    error = await refused(harness, "gamma", session_id=session)
    assert error.code == "agent_not_entitled"
    assert error.details["entitled"] == ["alpha", "anyone with the token"]
    data = await resume(harness, "gamma", recovery_token=made["recovery_token"])
    assert (data["resume_mode"], data["agent_id"]) == ("forked", "gamma")


async def test_the_session_of_another_kind_of_agent_is_named_after_who_goes_on(harness: Harness) -> None:
    await harness.open(agent="ClaudeCode", agent_id="claude-main")
    session = await harness.open(agent_id="alpha")
    made = await offered(harness, session, agent_id="claude-main")
    data = await resume(harness, "claude-main", recovery_token=made["recovery_token"])
    assert data["resumed_session_id"].startswith("ClaudeCode-")
    other = await offered(harness, await harness.open(agent_id="alpha"), agent_id="GeminiCli")
    assert (await resume(harness, "GeminiCli", recovery_token=other["recovery_token"]))["session_id"].startswith(
        "GeminiCli-"
    )


async def test_a_held_session_is_offered_only_by_taking_over(harness: Harness) -> None:
    session = await harness.open(client("holder"), agent_id="alpha")
    with pytest.raises(ShiftlogError) as held:
        await offered(harness, session)
    assert held.value.code == "session_held"
    assert (await offered(harness, session, on_held="take_over"))["state"] == "closed"


async def test_a_session_is_not_offered_to_its_own_agent_nor_once_its_end_is_final(harness: Harness) -> None:
    session = await harness.open(agent_id="alpha")
    with pytest.raises(ShiftlogError) as own:
        await offered(harness, session, agent_id="ALPHA")
    assert own.value.code == "invalid_parameter"
    await harness.call("close_session", {"session_id": session, "succession_policy": "closed_without_successor"})
    with pytest.raises(ShiftlogError) as sealed:
        await offered(harness, session, agent_id="beta")
    assert sealed.value.code == "session_sealed"


async def test_who_was_offered_a_session_may_decline_with_the_token_alone(harness: Harness) -> None:
    session = await harness.open(agent_id="alpha")
    made = await offered(harness, session, agent_id="beta")
    with pytest.raises(ShiftlogError) as unproved:
        await harness.app.continuity.decline({"session_id": session}, LIBRARY)
    assert unproved.value.code == "recovery_token_required"
    token = made["recovery_token"]
    with pytest.raises(ShiftlogError) as another:
        await harness.app.continuity.decline({"recovery_token": token, "agent_id": "gamma"}, LIBRARY)
    assert (another.value.code, another.value.details) == ("recovery_token_mismatch", {"reason": "agent"})
    ended = await harness.app.continuity.decline({"recovery_token": token, "reason": "No access"}, LIBRARY)
    assert (ended["session_id"], ended["ended"]) == (session, "declined")
    last = (await harness.entries(session))[-1]
    assert (str(last.kind), last.facts["how"], last.facts["reason"]) == ("handoff.ended", "declined", "No access")
    assert (await refused(harness, "beta", recovery_token=token)).details == {"reason": "revoked"}
    assert (await resume(harness, "alpha"))["resume_mode"] == "reopened"


async def test_an_offer_can_be_taken_back_and_replaced(harness: Harness) -> None:
    session = await harness.open(agent_id="alpha")
    first = await offered(harness, session, agent_id="beta")
    second = await offered(harness, session, agent_id="gamma")
    assert (await refused(harness, "beta", recovery_token=first["recovery_token"])).details == {"reason": "revoked"}
    await harness.app.continuity.revoke({"session_id": session}, OPERATOR)
    assert (await refused(harness, "gamma", recovery_token=second["recovery_token"])).details == {"reason": "revoked"}
    with pytest.raises(ShiftlogError) as none_left:
        await harness.app.continuity.revoke({"session_id": session}, OPERATOR)
    assert none_left.value.code == "invalid_parameter"
    kinds = await harness.kinds(session)
    assert (kinds.count("handoff.offered"), kinds.count("handoff.ended")) == (2, 2)


@pytest.mark.parametrize("by", ["sweep", "reissue"])
async def test_an_offer_expires_with_its_token_and_the_session_is_its_own_agents_again(
    harness: Harness, by: str
) -> None:
    session = await harness.open(agent_id="alpha")
    await harness.call("close_session", {"session_id": session, "succession_policy": "successor_required"})
    made = await offered(harness, session, agent_id="beta")
    assert await offers(harness) == [session]
    harness.wait(days=30)
    assert await offers(harness) == []
    if by == "sweep":
        await harness.app.sweep()
        await harness.app.sweep()
        last = (await harness.entries(session))[-1]
        assert (str(last.kind), last.facts["how"]) == ("handoff.ended", "expired")
        assert (await harness.kinds(session)).count("handoff.ended") == 1
    error = await refused(harness, "beta", recovery_token=made["recovery_token"])
    assert error.code == "recovery_token_expired"
    token = (await harness.app.continuity.reissue_token({"session_id": session}, OPERATOR))["recovery_token"]
    assert (await resume(harness, "alpha", recovery_token=token))["resume_mode"] == "forked"


async def test_reissuing_replaces_the_token_and_is_noted(harness: Harness) -> None:
    session = await harness.open(agent_id="alpha")
    old = (await harness.call("close_session", {"session_id": session}))["data"]["recovery_token"]
    issued = await harness.app.continuity.reissue_token({"session_id": session}, OPERATOR)
    assert issued["agent_id"] == "alpha"
    assert (await harness.kinds(session))[-1] == "token.reissued"
    assert (await refused(harness, "alpha", recovery_token=old)).details == {"reason": "revoked"}
    assert (await resume(harness, "alpha", recovery_token=issued["recovery_token"]))["attested"] is True


@pytest.mark.parametrize("policy", ["closed_without_successor", "successor_required"])
async def test_no_token_is_reissued_once_the_end_is_final(harness: Harness, policy: str) -> None:
    session = await harness.open(agent_id="alpha")
    closed = (await harness.call("close_session", {"session_id": session, "succession_policy": policy}))["data"]
    if closed["recovery_token"]:
        await resume(harness, "alpha", recovery_token=closed["recovery_token"])
    with pytest.raises(ShiftlogError) as final:
        await harness.app.continuity.reissue_token({"session_id": session}, OPERATOR)
    assert final.value.code in ("session_sealed", "session_succeeded")


async def test_a_tree_shows_successors_forks_and_children_from_any_of_them(harness: Harness) -> None:
    root = await harness.open(client("a"), agent_id="alpha", title="Root")
    child = await harness.open(agent_id="helper", title="Child", parent_session_id=root)
    harness.wait(minutes=1)
    fork = (await resume_with(harness, "b", "alpha", on_held="fork"))["resumed_session_id"]
    await harness.call("close_session", {"session_id": root}, client("a"))
    made = await offered(harness, root, agent_id="beta")
    harness.wait(minutes=1)
    successor = (await resume(harness, "beta", recovery_token=made["recovery_token"]))["resumed_session_id"]
    for session in (root, child, fork, successor):
        drawn = await tree(harness, session)
        assert (drawn["session_id"], drawn["relation"], drawn["state"]) == (root, "root", "succeeded")
        below = [(node["session_id"], node["relation"]) for node in drawn["children"]]
        assert below == [(child, "child"), (fork, "fork"), (successor, "successor")]


async def resume_with(harness: Harness, name: str, agent_id: str, **arguments: Any) -> dict[str, Any]:
    return (await harness.call("resume_session", {"agent_id": agent_id, **arguments}, client(name)))["data"]


async def test_a_long_chain_is_walked_to_its_beginning(harness: Harness) -> None:
    session = first = await harness.open(agent_id="alpha")
    for _ in range(30):
        given = {"session_id": session, "succession_policy": "successor_required"}
        closed = (await harness.call("close_session", given, client("alpha")))["data"]
        session = (await resume(harness, "alpha", recovery_token=closed["recovery_token"]))["resumed_session_id"]
    node, depth = await tree(harness, session), 0
    assert node["session_id"] == first
    while node["children"]:
        [node] = node["children"]
        depth += 1
    assert (depth, node["session_id"]) == (30, session)


async def test_a_name_first_used_by_who_goes_on_is_kept_in_one_line_without_outer_space(harness: Harness) -> None:
    session = await harness.open(agent_id="alpha")
    token = (await harness.call("offer", {"session_id": session}))["recovery_token"]
    given = {"agent_id": " Night\tShift\n", "recovery_token": token}
    assert (await harness.call("resume_session", given))["agent_id"] == "Night Shift"
    made = await harness.call("offer", {"session_id": await harness.open(agent_id="alpha"), "agent_id": " Day  shift "})
    assert made["offered_to"] == "Day  shift"


async def test_a_brief_is_of_work_that_goes_on_and_neither_of_a_part_of_it_nor_of_nothing(harness: Harness) -> None:
    async def told() -> str:
        return (
            await harness.read(lambda reader: brief(reader, LIBRARY, harness.now(), agent_id="alpha"))
        ).splitlines()[2]

    child = await harness.open(agent_id="alpha", parent_session_id=await harness.open(agent_id="other"))
    await harness.begin(child)
    assert child in await told(), "where there is nothing else"
    work = await harness.open(agent_id="alpha", title="Work")
    await harness.begin(work)
    harness.wait(minutes=1)
    await harness.begin(child)
    harness.wait(minutes=1)
    await harness.open(agent_id="alpha", title="Just begun")
    assert work in await told()


async def test_of_a_long_chain_the_part_around_the_session_is_drawn(harness: Harness) -> None:
    chain = [await harness.open(agent_id="alpha")]
    for _ in range(130):
        closing = {"session_id": chain[-1], "succession_policy": "successor_required"}
        token = (await harness.call("close_session", closing, client("alpha")))["data"]["recovery_token"]
        chain.append((await resume(harness, "alpha", recovery_token=token))["resumed_session_id"])
    for place, first, last in ((0, 0, 50), (70, 21, 120), (130, 81, 130)):
        node = await tree(harness, chain[place])
        assert node["earlier_session_id"] == (chain[first - 1] if first else None)
        drawn = [node["session_id"]]
        while node["children"]:
            [node] = node["children"]
            drawn.append(node["session_id"])
        assert drawn == chain[first : last + 1]
        assert node["left_out"] == (1 if last < 130 else 0)
