"""Handing a session over: offer, accept, decline, revoke, expire; and the tree of sessions that comes of it."""

from dataclasses import replace
from typing import Any

import pytest

from shiftlog.journal.continuity.capsule.brief import brief
from shiftlog.journal.continuity.lineage import lineage
from shiftlog.model.caller import LIBRARY, Caller
from shiftlog.model.errors import ShiftlogError
from tests.journal.desk import Desk, client

OPERATOR = replace(LIBRARY, face="cli", operator=True)


async def offered(desk: Desk, session: str, caller: Caller = OPERATOR, **arguments: Any) -> dict[str, Any]:
    return await desk.app.continuity.offer({"session_id": session, **arguments}, caller)


async def resume(desk: Desk, agent_id: str, **arguments: Any) -> dict[str, Any]:
    return (await desk.call("resume_session", {"agent_id": agent_id, **arguments}, client(agent_id)))["data"]


async def refused(desk: Desk, agent_id: str, **arguments: Any) -> ShiftlogError:
    return await desk.refusal("resume_session", {"agent_id": agent_id, **arguments}, client(agent_id))


async def tree(desk: Desk, session: str) -> dict[str, Any]:
    found = await desk.session(session)
    return await desk.read(lambda reader: lineage(reader, found))


async def test_an_offer_closes_an_open_session_and_its_token_forks_it(desk: Desk) -> None:
    session = await desk.open(agent_id="alpha", title="Fix the cache")
    turn = await desk.begin(session, query_title="Half done")
    made = await offered(desk, session, agent_id="Beta", reason="Shift is over")
    assert (made["state"], made["offered_to"], made["expires_at"]) == ("closed", "Beta", "2026-07-31T12:00:00Z")
    data = await resume(desk, "beta", recovery_token=made["recovery_token"])
    assert (data["resume_mode"], data["predecessor_session_id"]) == ("forked", session)
    assert data["capsule"]["open_turn"]["request_id"] == turn
    entries = await desk.entries(session)
    accepted = entries[-2]
    assert str(accepted.kind) == "handoff.accepted"
    successor = await desk.entries(data["resumed_session_id"])
    assert successor[0].facts["predecessor"]["session_id"] == session
    assert successor[0].facts["predecessor"]["head_hash"] in [entry.hash for entry in entries]
    assert accepted.facts["head_hash"] in [entry.hash for entry in successor]
    assert all(found.ok for found in await desk.verify())
    assert not any(done.changed for done in await desk.rebuild())


async def test_an_offer_to_nobody_in_particular_is_taken_by_whoever_has_the_token(desk: Desk) -> None:
    session = await desk.open(agent_id="alpha")
    made = await offered(desk, session)
    assert made["offered_to"] is None
    error = await refused(desk, "gamma", session_id=session)
    assert error.code == "agent_not_entitled"
    assert error.details["entitled"] == ["alpha", "anyone with the token"]
    data = await resume(desk, "gamma", recovery_token=made["recovery_token"])
    assert (data["resume_mode"], data["agent_id"]) == ("forked", "gamma")


async def test_the_session_of_another_kind_of_agent_is_named_after_who_goes_on(desk: Desk) -> None:
    await desk.open(agent="ClaudeCode", agent_id="claude-main")
    session = await desk.open(agent_id="alpha")
    made = await offered(desk, session, agent_id="claude-main")
    data = await resume(desk, "claude-main", recovery_token=made["recovery_token"])
    assert data["resumed_session_id"].startswith("ClaudeCode-")
    other = await offered(desk, await desk.open(agent_id="alpha"), agent_id="GeminiCli")
    assert (await resume(desk, "GeminiCli", recovery_token=other["recovery_token"]))["session_id"].startswith(
        "GeminiCli-"
    )


async def test_a_held_session_is_offered_only_by_taking_over(desk: Desk) -> None:
    session = await desk.open(client("holder"), agent_id="alpha")
    with pytest.raises(ShiftlogError) as held:
        await offered(desk, session)
    assert held.value.code == "session_held"
    assert (await offered(desk, session, on_held="take_over"))["state"] == "closed"


async def test_a_session_is_not_offered_to_its_own_agent_nor_once_its_end_is_final(desk: Desk) -> None:
    session = await desk.open(agent_id="alpha")
    with pytest.raises(ShiftlogError) as own:
        await offered(desk, session, agent_id="ALPHA")
    assert own.value.code == "invalid_parameter"
    await desk.call("close_session", {"session_id": session, "succession_policy": "closed_without_successor"})
    with pytest.raises(ShiftlogError) as sealed:
        await offered(desk, session, agent_id="beta")
    assert sealed.value.code == "session_sealed"


async def test_who_was_offered_a_session_may_decline_with_the_token_alone(desk: Desk) -> None:
    session = await desk.open(agent_id="alpha")
    made = await offered(desk, session, agent_id="beta")
    with pytest.raises(ShiftlogError) as unproved:
        await desk.app.continuity.decline({"session_id": session}, LIBRARY)
    assert unproved.value.code == "recovery_token_required"
    token = made["recovery_token"]
    ended = await desk.app.continuity.decline({"recovery_token": token, "reason": "No access"}, LIBRARY)
    assert (ended["session_id"], ended["ended"]) == (session, "declined")
    last = (await desk.entries(session))[-1]
    assert (str(last.kind), last.facts["how"], last.facts["reason"]) == ("handoff.ended", "declined", "No access")
    assert (await refused(desk, "beta", recovery_token=token)).details == {"reason": "revoked"}
    assert (await resume(desk, "alpha"))["resume_mode"] == "reopened"


async def test_an_offer_can_be_taken_back_and_replaced(desk: Desk) -> None:
    session = await desk.open(agent_id="alpha")
    first = await offered(desk, session, agent_id="beta")
    second = await offered(desk, session, agent_id="gamma")
    assert (await refused(desk, "beta", recovery_token=first["recovery_token"])).details == {"reason": "revoked"}
    await desk.app.continuity.revoke({"session_id": session}, OPERATOR)
    assert (await refused(desk, "gamma", recovery_token=second["recovery_token"])).details == {"reason": "revoked"}
    with pytest.raises(ShiftlogError) as none_left:
        await desk.app.continuity.revoke({"session_id": session}, OPERATOR)
    assert none_left.value.code == "invalid_parameter"
    kinds = await desk.kinds(session)
    assert (kinds.count("handoff.offered"), kinds.count("handoff.ended")) == (2, 2)


@pytest.mark.parametrize("by", ["sweep", "reissue"])
async def test_an_offer_expires_with_its_token_and_the_session_is_its_own_agents_again(desk: Desk, by: str) -> None:
    session = await desk.open(agent_id="alpha")
    await desk.call("close_session", {"session_id": session, "succession_policy": "successor_required"})
    made = await offered(desk, session, agent_id="beta")
    desk.wait(days=30)
    if by == "sweep":
        await desk.app.sweep()
        await desk.app.sweep()
        last = (await desk.entries(session))[-1]
        assert (str(last.kind), last.facts["how"]) == ("handoff.ended", "expired")
        assert (await desk.kinds(session)).count("handoff.ended") == 1
    error = await refused(desk, "beta", recovery_token=made["recovery_token"])
    assert error.code == "recovery_token_expired"
    token = (await desk.app.continuity.reissue_token({"session_id": session}, OPERATOR))["recovery_token"]
    assert (await resume(desk, "alpha", recovery_token=token))["resume_mode"] == "forked"


async def test_reissuing_replaces_the_token_and_is_noted(desk: Desk) -> None:
    session = await desk.open(agent_id="alpha")
    old = (await desk.call("close_session", {"session_id": session}))["data"]["recovery_token"]
    issued = await desk.app.continuity.reissue_token({"session_id": session}, OPERATOR)
    assert issued["agent_id"] == "alpha"
    assert (await desk.kinds(session))[-1] == "token.reissued"
    assert (await refused(desk, "alpha", recovery_token=old)).details == {"reason": "revoked"}
    assert (await resume(desk, "alpha", recovery_token=issued["recovery_token"]))["attested"] is True


@pytest.mark.parametrize("policy", ["closed_without_successor", "successor_required"])
async def test_no_token_is_reissued_once_the_end_is_final(desk: Desk, policy: str) -> None:
    session = await desk.open(agent_id="alpha")
    closed = (await desk.call("close_session", {"session_id": session, "succession_policy": policy}))["data"]
    if closed["recovery_token"]:
        await resume(desk, "alpha", recovery_token=closed["recovery_token"])
    with pytest.raises(ShiftlogError) as final:
        await desk.app.continuity.reissue_token({"session_id": session}, OPERATOR)
    assert final.value.code in ("session_sealed", "session_succeeded")


async def test_a_tree_shows_successors_forks_and_children_from_any_of_them(desk: Desk) -> None:
    root = await desk.open(client("a"), agent_id="alpha", title="Root")
    child = await desk.open(agent_id="helper", title="Child", parent_session_id=root)
    desk.wait(minutes=1)
    fork = (await resume_with(desk, "b", "alpha", on_held="fork"))["resumed_session_id"]
    await desk.call("close_session", {"session_id": root}, client("a"))
    made = await offered(desk, root, agent_id="beta")
    desk.wait(minutes=1)
    successor = (await resume(desk, "beta", recovery_token=made["recovery_token"]))["resumed_session_id"]
    for session in (root, child, fork, successor):
        drawn = await tree(desk, session)
        assert (drawn["session_id"], drawn["relation"], drawn["state"]) == (root, "root", "succeeded")
        below = [(node["session_id"], node["relation"]) for node in drawn["children"]]
        assert below == [(child, "child"), (fork, "fork"), (successor, "successor")]


async def resume_with(desk: Desk, name: str, agent_id: str, **arguments: Any) -> dict[str, Any]:
    return (await desk.call("resume_session", {"agent_id": agent_id, **arguments}, client(name)))["data"]


async def test_a_long_chain_is_walked_to_its_beginning(desk: Desk) -> None:
    session = first = await desk.open(agent_id="alpha")
    for _ in range(30):
        given = {"session_id": session, "succession_policy": "successor_required"}
        closed = (await desk.call("close_session", given, client("alpha")))["data"]
        session = (await resume(desk, "alpha", recovery_token=closed["recovery_token"]))["resumed_session_id"]
    node, depth = await tree(desk, session), 0
    assert node["session_id"] == first
    while node["children"]:
        [node] = node["children"]
        depth += 1
    assert (depth, node["session_id"]) == (30, session)


async def test_a_name_first_used_by_who_goes_on_is_kept_in_one_line_without_outer_space(desk: Desk) -> None:
    session = await desk.open(agent_id="alpha")
    token = (await desk.call("offer", {"session_id": session}))["recovery_token"]
    given = {"agent_id": " Night\tShift\n", "recovery_token": token}
    assert (await desk.call("resume_session", given))["agent_id"] == "Night Shift"
    made = await desk.call("offer", {"session_id": await desk.open(agent_id="alpha"), "agent_id": " Day  shift "})
    assert made["offered_to"] == "Day  shift"


async def test_a_brief_is_of_work_that_goes_on_and_neither_of_a_part_of_it_nor_of_nothing(desk: Desk) -> None:
    async def told() -> str:
        return (await desk.read(lambda reader: brief(reader, LIBRARY, desk.now(), agent_id="alpha"))).splitlines()[2]

    child = await desk.open(agent_id="alpha", parent_session_id=await desk.open(agent_id="other"))
    assert child in await told(), "where there is nothing else"
    work = await desk.open(agent_id="alpha", title="Work")
    await desk.begin(work)
    desk.wait(minutes=1)
    await desk.begin(child)
    desk.wait(minutes=1)
    await desk.open(agent_id="alpha", title="Just begun")
    assert work in await told()


async def test_of_a_long_chain_the_part_around_the_session_is_drawn(desk: Desk) -> None:
    chain = [await desk.open(agent_id="alpha")]
    for _ in range(130):
        closing = {"session_id": chain[-1], "succession_policy": "successor_required"}
        token = (await desk.call("close_session", closing, client("alpha")))["data"]["recovery_token"]
        chain.append((await resume(desk, "alpha", recovery_token=token))["resumed_session_id"])
    for place, first, last in ((0, 0, 50), (70, 21, 120), (130, 81, 130)):
        node = await tree(desk, chain[place])
        assert node["earlier_session_id"] == (chain[first - 1] if first else None)
        drawn = [node["session_id"]]
        while node["children"]:
            [node] = node["children"]
            drawn.append(node["session_id"])
        assert drawn == chain[first : last + 1]
        assert node["left_out"] == (1 if last < 130 else 0)
