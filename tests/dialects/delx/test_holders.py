"""Acceptance of leases on resume: one holder, take-over, forks beside it, reading only."""

from tests.dialects.delx.server import DelxServer


async def test_29_a_fork_stands_beside_the_untouched_session_and_reading_grants_nothing(server: DelxServer) -> None:
    holder, other = server.client("holder"), server.client("other")
    session = await holder.open()
    turn = (await holder.begin(session)).body["request_id"]
    before = await server.harness.session(session)
    read = (await other.resume(on_held="read_only")).data
    assert (read["resume_mode"], read["resumed_session_id"]) == ("read_only", session)
    assert read["lease"] is read["recovery_token"] is read["recovery_token_expires_at"] is None
    assert read["capsule"]["open_turn"]["request_id"] == turn
    forked = (await other.resume(on_held="fork")).data
    assert (forked["resume_mode"], forked["predecessor_session_id"]) == ("forked", session)
    assert forked["lease"]["fence"] == 1
    assert await server.harness.session(session) == before
    assert not (await holder.say("update_turn", session_id=session, tags=["x"])).is_error
    assert not (await other.begin(forked["resumed_session_id"])).is_error


async def test_what_nobody_holds_is_resumed_whatever_is_wanted_of_a_held_one(server: DelxServer) -> None:
    agent = server.client()
    session = await agent.open()
    await agent.leave()
    for on_held in ("read_only", "fork"):
        data = (await agent.resume(on_held=on_held)).data
        assert (data["resume_mode"], data["resumed_session_id"]) == ("reattached", session)


async def test_reading_only_with_a_token_keeps_the_token(server: DelxServer) -> None:
    holder, other = server.client("holder"), server.client("other")
    session = await holder.open()
    await holder.close(session)
    token = (await holder.resume()).data["recovery_token"]
    assert (await other.resume(recovery_token=token, on_held="read_only")).data["attested"] is True
    assert (await other.resume(recovery_token=token, on_held="take_over")).data["resumed_session_id"] == session


async def test_a_holder_whose_lease_ran_out_is_suspended_when_somebody_resumes(server: DelxServer) -> None:
    holder, other = server.client("holder"), server.client("other")
    session = await holder.open()
    await holder.begin(session, "Half done")
    await holder.leave()
    data = (await other.resume()).data
    assert (data["state_before"], data["resume_mode"], data["lease"]["fence"]) == ("suspended", "reattached", 2)
    assert (await server.harness.kinds(session)).count("session.suspended") == 1
    late = await holder.say("update_turn", session_id=session, tags=["late"])
    assert late.body["error"]["code"] == "lease_lost"


async def test_an_idle_session_is_suspended_when_somebody_resumes(server: DelxServer) -> None:
    holder, other = server.client("holder", host="elsewhere"), server.client("other")
    session = await holder.open()
    server.harness.wait(minutes=90)
    await server.harness.app.continuity.renew(["client-holder"])
    data = (await other.resume()).data
    assert (data["resumed_session_id"], data["state_before"]) == (session, "suspended")
    suspended = [entry for entry in await server.harness.entries(session) if str(entry.kind) == "session.suspended"]
    assert [entry.facts["cause"] for entry in suspended] == ["idle"]
