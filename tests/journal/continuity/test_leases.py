"""Leases: who may write a session now, fences that only grow, and holders that are gone."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from shiftlog.link import processes
from shiftlog.model.caller import LIBRARY, Caller
from shiftlog.model.errors import SessionHeld
from tests.journal.harness import Harness, client, open_harness

OTHERS_HOST = "somewhere-else"


@contextmanager
def child_process() -> Generator["subprocess.Popen[bytes]"]:
    """Run a process that lives until it is told to end."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        yield child
        child.kill()


def holder_in(child: "subprocess.Popen[bytes]", name: str = "child") -> Caller:
    return client(name, pid=child.pid, pid_started=processes.started(child.pid))


async def resume(harness: Harness, caller: Caller, **arguments: Any) -> dict[str, Any]:
    return await harness.call("resume_session", {"agent_id": "Codex", **arguments}, caller)


async def test_whoever_opens_a_session_holds_it_for_two_minutes(harness: Harness) -> None:
    answered = await harness.call("open_session", {"agent": "Codex", "title": "x"}, client())
    assert answered["lease"] == {"fence": 1, "expires_at": "2026-07-01T12:02:00Z"}
    lease = await harness.read(lambda reader: reader.lease(answered["session_id"]))
    assert lease is not None
    assert (lease.client_id, lease.agent_id, lease.face) == ("client-one", "Codex", "mcp")


async def test_a_short_lived_writer_opens_without_holding(harness: Harness) -> None:
    session = await harness.open(client(holds_leases=False))
    assert await harness.read(lambda reader: reader.lease(session)) is None
    assert (await harness.session(session)).fence == 1


async def test_renewing_keeps_a_lease_and_a_client_that_is_gone_loses_it_at_once(harness: Harness) -> None:
    session = await harness.open(client("one"))
    harness.wait(seconds=100)
    await harness.app.continuity.renew(["client-one"])
    harness.wait(seconds=100)
    assert (await harness.refusal("resume_session", {"agent_id": "Codex"}, client("two"))).code == "session_held"
    await harness.app.continuity.client_gone("client-one")
    assert (await resume(harness, client("two")))["data"]["lease"]["fence"] == 2
    assert (await harness.session(session)).fence == 2


async def test_a_client_that_never_held_the_session_may_write_beside_the_holder(harness: Harness) -> None:
    session = await harness.open(client("holder"))
    for caller in (LIBRARY, client("passer-by"), client("hook", holds_leases=False)):
        await harness.begin(session, caller)
    assert (await harness.session(session)).turns_total == 3


async def test_a_stale_fence_is_refused_whether_given_or_known_from_the_grant(harness: Harness) -> None:
    former = client("former")
    session = await harness.open(former)
    await harness.begin(session, former)
    await resume(harness, client("newer"), on_held="take_over")
    for caller, given in (
        (former, {}),
        (LIBRARY, {"fence": 1}),
        (client("newer"), {"fence": 1}),
        (LIBRARY, {"fence": 3}),
    ):
        error = await harness.refusal("update_turn", {"session_id": session, "tags": ["x"], **given}, caller)
        assert error.code == "lease_lost"
        assert error.message == "Lease lost: a newer holder exists"
        assert error.details["fence_given"] == given.get("fence", 1)
        assert error.details["fence_current"] == 2
        held_by = error.details["held_by"]
        assert isinstance(held_by, dict)
        assert held_by["agent_id"] == "Codex"
        assert held_by["expires_at"] == "2026-07-01T12:02:00Z"
    assert (await harness.update(session, client("newer"), tags=["x"]))["receipt"]["code"] == "persisted"
    assert (await harness.update(session, former, tags=["y"], fence=2))["receipt"]["code"] == "persisted"


async def test_an_exclusive_session_wants_the_fence_of_every_writer(harness: Harness) -> None:
    holder = client("holder")
    session = await harness.open(holder, exclusive=True)
    await harness.begin(session, holder)
    for caller in (LIBRARY, client("passer-by")):
        error = await harness.refusal("update_turn", {"session_id": session, "tags": ["x"]}, caller)
        assert error.code == "lease_lost"
        assert error.details["fence_given"] is None
        assert error.details["fence_current"] == 1
        assert (await harness.update(session, caller, tags=["x"], fence=1))["receipt"]
    error = await harness.refusal("close_session", {"session_id": session, "on_held": "refuse"}, LIBRARY)
    assert error.code == "session_held"


async def test_a_repeat_that_changes_nothing_still_needs_the_fence(harness: Harness) -> None:
    session = await harness.open(client("holder"), exclusive=True)
    await harness.begin(session, client("holder"))
    error = await harness.refusal("update_turn", {"session_id": session, "tags": []})
    assert error.code == "lease_lost"


async def test_the_fence_grows_by_one_with_every_grant_and_never_else(harness: Harness) -> None:
    session = await harness.open(client("a"))
    fences = [(await resume(harness, client(name), on_held="take_over"))["data"]["lease"]["fence"] for name in "bc"]
    again = await resume(harness, client("c"))
    assert again["data"]["lease"]["fence"] == 3
    assert again["data"]["resume_mode"] == "reattached"
    assert fences == [2, 3]
    assert (await harness.kinds(session)).count("lease.taken") == 3


async def test_a_held_session_names_its_holder(harness: Harness) -> None:
    session = await harness.open(client("holder"))
    me = client()
    error = await harness.refusal("resume_session", {"agent_id": "codex"}, client("two"))
    assert error.code == "session_held"
    assert error.message == "Session is held by another writer"
    assert error.retryable
    candidates = cast(list[dict[str, Any]], error.details.pop("candidates"))
    assert [(row["session_id"], row["why_not"]) for row in candidates] == [(session, "held")]
    assert error.details == {
        "session_id": session,
        "fence": 1,
        "held_by": {
            "agent_id": "Codex",
            "face": "mcp",
            "host": me.host,
            "pid": me.pid,
            "since": "2026-07-01T12:00:00Z",
            "expires_at": "2026-07-01T12:02:00Z",
        },
    }


async def test_a_lease_is_stale_as_soon_as_its_process_is_gone(harness: Harness) -> None:
    with child_process() as child:
        await harness.open(holder_in(child))
        assert (await harness.refusal("resume_session", {"agent_id": "Codex"}, client())).code == "session_held"
    answered = await resume(harness, client())
    assert answered["data"]["resume_mode"] == "reattached"
    assert answered["data"]["lease"]["fence"] == 2


async def test_a_recycled_pid_is_not_taken_for_the_holder(harness: Harness) -> None:
    await harness.open(client("former", pid_started="another start"))
    assert (await resume(harness, client()))["ok"]


async def test_a_pid_without_start_time_is_believed_while_such_a_process_runs(harness: Harness) -> None:
    with child_process() as child:
        await harness.open(client("child", pid=child.pid, pid_started=None))
        assert (await harness.refusal("resume_session", {"agent_id": "Codex"}, client())).code == "session_held"
    assert (await resume(harness, client()))["ok"]


async def test_a_holder_on_another_host_is_believed_until_its_lease_runs_out(harness: Harness) -> None:
    await harness.open(client("far", host=OTHERS_HOST, pid=1, pid_started="x"))
    assert (await harness.refusal("resume_session", {"agent_id": "Codex"}, client())).code == "session_held"
    harness.wait(seconds=121)
    assert (await resume(harness, client()))["ok"]


async def test_the_former_holder_may_wake_a_session_only_if_nobody_took_it(harness: Harness) -> None:
    former = client("former")
    session = await harness.open(former)
    await harness.begin(session, former)
    harness.wait(hours=2)
    await harness.app.sweep()
    assert (await harness.update(session, former, tags=["x"]))["receipt"]["code"] == "persisted"
    harness.wait(hours=2)
    await harness.app.sweep()
    await resume(harness, client("newer"))
    error = await harness.refusal("update_turn", {"session_id": session, "tags": ["y"]}, former)
    assert error.code == "lease_lost"


async def test_the_former_holder_that_wakes_a_session_holds_it_again(harness: Harness) -> None:
    former, newer = client("former"), client("newer")
    session = await harness.open(former)
    await harness.begin(session, former)
    fence = (await harness.session(session)).fence
    for woken_by in (former, LIBRARY):
        harness.wait(hours=2)
        await harness.app.sweep()
        await harness.update(session, woken_by, tags=[woken_by.face])
        await harness.update(session, former, tags=[f"{woken_by.face} then mine"])
        error = await harness.refusal("resume_session", {"agent_id": "Codex"}, newer)
        assert (error.code, error.details["fence"]) == ("session_held", fence)
    await harness.app.continuity.client_gone("client-former")
    await harness.app.sweep()
    assert (await harness.session(session)).state == "suspended"


async def test_a_sweep_after_the_machine_slept_takes_nothing_from_clients_that_are_there(harness: Harness) -> None:
    present, absent = client("present"), client("absent")
    held, left = await harness.open(present), await harness.open(absent)
    harness.wait(minutes=10)
    await harness.app.sweep(present=["client-present"])
    assert [(await harness.session(one)).state for one in (held, left)] == ["open", "suspended"]
    error = await harness.refusal("resume_session", {"agent_id": "Codex", "session_id": held}, client("newer"))
    assert error.code == "session_held"


async def test_who_wakes_first_after_a_sleep_takes_nothing_from_clients_that_are_connected(tmp_path: Path) -> None:
    async with open_harness(tmp_path / "home", connected=lambda: ["client-present"]) as harness:
        held, left = await harness.open(client("present")), await harness.open(client("absent"), agent_id="beta")
        harness.wait(minutes=10)
        named = {"session_id": held}
        for tool, given in (("resume_session", {"agent_id": "Codex", **named}), ("close_session", named)):
            assert (await harness.refusal(tool, given, client("newer"))).code == "session_held"
        assert await harness.app.continuity.suspend_stale(timedelta(0)) == [left]
        assert (await resume(harness, client("present")))["data"]["lease"]["fence"] == 1


async def test_a_client_that_never_held_a_session_does_not_hold_it_by_waking_it(harness: Harness) -> None:
    session = await harness.open(client("former"))
    await harness.begin(session, client("former"))
    harness.wait(hours=2)
    await harness.app.sweep()
    turn = (await harness.session(session)).current_turn
    await harness.update(session, client("beside"), request_id=turn, tags=["x"])
    assert (await resume(harness, client("newer")))["data"]["resume_mode"] == "reattached"


# Closing under a lease


async def test_another_client_may_not_close_a_held_session_unless_it_takes_over(harness: Harness) -> None:
    session = await harness.open(client("holder"))
    error = await harness.refusal("close_session", {"session_id": session}, client("other"))
    assert error.code == "session_held"
    assert error.hint == "Pass on_held: take_over"
    closed = await harness.call("close_session", {"session_id": session, "on_held": "take_over"}, client("other"))
    assert closed["status"] == "closed"
    assert await harness.read(lambda reader: reader.lease(session)) is None
    assert (await harness.refusal("update_turn", {"session_id": session, "tags": ["x"]}, client("holder"))).code == (
        "session_closed"
    )


async def test_the_present_fence_closes_and_an_old_one_does_not(harness: Harness) -> None:
    session = await harness.open(client("holder"))
    await resume(harness, client("newer"), on_held="take_over")
    await harness.app.continuity.client_gone("client-newer")
    error = await harness.refusal("close_session", {"session_id": session, "fence": 1}, client("third"))
    assert error.code == "lease_lost"
    assert (await harness.refusal("close_session", {"session_id": session}, client("holder"))).code == "lease_lost"
    assert (await harness.call("close_session", {"session_id": session, "fence": 2}, client("third")))["ok"]


# Suspension


@pytest.mark.parametrize("gone", ["process", "lease"])
async def test_the_sweep_suspends_a_session_whose_holder_is_gone_with_a_capsule(harness: Harness, gone: str) -> None:
    with child_process() as child:
        session = await harness.open(holder_in(child), title="Fix the cache")
        await harness.begin(session, query_title="Find the bug")
        await harness.app.sweep()
        assert (await harness.session(session)).state == "open"
        if gone == "lease":
            harness.wait(minutes=3)
            await harness.app.sweep()
    await harness.app.sweep()
    now = await harness.session(session)
    assert (now.state, now.suspended_cause) == ("suspended", "process_ended")
    *_, saved, suspended = await harness.entries(session)
    assert (str(saved.kind), str(suspended.kind)) == ("capsule.saved", "session.suspended")
    assert saved.facts["capsule"]["goal"] == {"text": "Fix the cache", "basis": "recorded"}
    assert saved.facts["capsule"]["open_turn"]["query_title"] == "Find the bug"
    assert await harness.read(lambda reader: reader.lease(session)) is None


async def test_the_sweep_suspends_what_idles_for_longer_than_the_limit(harness: Harness) -> None:
    idle, busy = await harness.open(title="Idle"), await harness.open(title="Busy")
    harness.wait(minutes=89)
    await harness.begin(busy)
    await harness.app.sweep()
    assert (await harness.session(idle)).state == "open"
    harness.wait(minutes=1)
    await harness.app.sweep()
    now = await harness.session(idle)
    assert (now.state, now.suspended_cause) == ("suspended", "idle")
    assert (await harness.session(busy)).state == "open"
    assert now.last_activity.minute == 0, "suspending is not activity"


async def test_a_sweep_that_finds_nothing_writes_nothing(harness: Harness) -> None:
    session = await harness.open()
    harness.wait(hours=2)
    await harness.app.sweep()
    before = harness.rows()
    await harness.app.sweep()
    assert harness.rows() == before
    assert (await harness.kinds(session)).count("session.suspended") == 1


async def test_a_run_whose_process_is_gone_is_orphaned_and_its_session_suspended(harness: Harness) -> None:
    with child_process() as child:
        session = await harness.open(pid=child.pid)
        await harness.app.sweep()
        assert (await harness.session(session)).state == "open"
    await harness.app.sweep()
    now = await harness.session(session)
    assert now.run is not None
    assert (now.state, now.run.status) == ("suspended", "orphaned")
    closed = await harness.call("close_session", {"session_id": session, "returncode": 0})
    assert closed["data"]["state"] == "closed"
    run = (await harness.session(session)).run
    assert run is not None
    assert run.status == "ok", "a late close still lands and wins"


async def test_closed_sessions_are_never_suspended(harness: Harness) -> None:
    session = await harness.open(client("holder"))
    await harness.call("close_session", {"session_id": session}, client("holder"))
    harness.wait(hours=5)
    await harness.app.sweep()
    assert (await harness.session(session)).state == "closed"


async def test_an_operator_that_names_an_old_fence_does_not_close(harness: Harness) -> None:
    session = await harness.open()
    operator = replace(LIBRARY, operator=True)
    error = await harness.refusal("close_session", {"session_id": session, "fence": 0}, operator)
    assert (error.code, error.details["fence_current"]) == ("lease_lost", 1)
    assert (await harness.call("close_session", {"session_id": session, "fence": 1}, operator))["status"] == "closed"


# One holder, whatever the clock, the other clients and repeated calls do


async def test_a_client_that_connects_after_a_clock_jump_takes_nothing_from_one_that_is_connected(
    tmp_path: Path,
) -> None:
    there = ["client-holder"]
    async with open_harness(tmp_path / "home", connected=lambda: there) as harness:
        session = await harness.open(client("holder"))
        await harness.begin(session, client("holder"))
        harness.wait(minutes=10)
        # Only the newcomer's leases are renewed as it connects.
        await harness.app.continuity.renew(["client-newcomer"])
        error = await harness.refusal("resume_session", {"agent_id": "Codex"}, client("newcomer"))
        assert error.code == "session_held"
        assert await harness.app.continuity.suspend_stale(timedelta(0)) == []
        assert (await harness.update(session, client("holder"), tags=["x"]))["receipt"]["code"] == "persisted"


async def test_a_clock_that_is_set_back_neither_revives_the_lease_of_a_client_that_left_nor_ends_one(
    harness: Harness,
) -> None:
    left = await harness.open(client("left"))
    held = await harness.open(client("holder"), title="Held")
    await harness.begin(left, client("left"))
    await harness.begin(held, client("holder"))
    await harness.app.continuity.client_gone("client-left")
    harness.wait(minutes=-50)
    await harness.app.continuity.renew(["client-holder"])
    assert (await harness.refusal("close_session", {"session_id": held}, client("other"))).code == "session_held"
    assert (await resume(harness, client("other"), session_id=left))["data"]["state_before"] == "suspended"
    harness.wait(minutes=3)
    assert (await harness.call("close_session", {"session_id": held}, client("other")))["status"] == "closed"


async def test_a_holder_that_resumes_its_idle_session_holds_it_on(harness: Harness) -> None:
    holder = client("holder")
    session = await harness.open(holder)
    await harness.begin(session, holder)
    harness.wait(hours=2)
    await harness.app.continuity.renew(["client-holder"])
    data = (await resume(harness, holder, session_id=session))["data"]
    assert (data["resume_mode"], data["lease"]["fence"]) == ("reattached", 1)
    await harness.app.sweep(present=["client-holder"])
    assert (await harness.session(session)).state == "open"
    assert (await harness.refusal("resume_session", {"agent_id": "Codex"}, client("two"))).code == "session_held"


@pytest.mark.parametrize("tool", ["close_session", "offer"])
async def test_a_session_whose_holder_idles_is_closed_by_another_client(harness: Harness, tool: str) -> None:
    session = await harness.open(client("holder"))
    await harness.begin(session, client("holder"))
    harness.wait(hours=2)
    await harness.app.continuity.renew(["client-holder"])
    given = {"session_id": session} | ({"agent_id": "beta"} if tool == "offer" else {})
    assert (await harness.call(tool, given, client("other")))["session_id"] == session
    assert (await harness.session(session)).state == "closed"


async def foreign(harness: Harness) -> Caller:
    """Return a client that works for another agent."""
    other = client("foreign")
    await harness.open(other, agent_id="beta", title="Its own")
    return other


async def test_a_client_of_another_agent_does_not_write_a_held_session(harness: Harness) -> None:
    holder, other = client("holder"), await foreign(harness)
    session = await harness.open(holder)
    turn = await harness.begin(session, holder)
    begin = {"session_id": session, "query_title": "x", "query_text": "x"}
    for tool, given in (
        ("begin_turn", begin),
        ("update_turn", {"session_id": session, "request_id": turn, "tags": ["x"]}),
        ("finish_turn", {"session_id": session, "request_id": turn, "outcome": "completed", "response": "x"}),
    ):
        error = await harness.refusal(tool, given, other)
        assert (error.code, error.details["fence"]) == ("session_held", 1)
    assert (await harness.complete(session, holder))["request_id"] == turn
    await harness.app.continuity.client_gone("client-holder")
    assert await harness.begin(session, other)


async def test_a_client_of_another_agent_neither_feeds_nor_ends_a_shell_of_a_held_session(harness: Harness) -> None:
    holder, other = client("holder"), await foreign(harness)
    session = await harness.open(holder)
    shells = harness.app.shells
    shell = (await shells.open_shell({"session_id": session}, holder))["shell_id"]
    asked = {"shell_id": shell, "command": "read line; echo $line", "background": True, "stdin": "open"}
    command = (await shells.commands.run_command(asked, holder))["command_id"]
    fed = {"command_id": command, "text": "in\n"}
    for refused in (shells.commands.send_input(fed, other), shells.close_shell({"shell_id": shell}, other)):
        with pytest.raises(SessionHeld):
            await refused
    assert (await shells.commands.send_input(fed, holder))["bytes_written"] == 3
    assert (await shells.close_shell({"shell_id": shell}, holder))["state"] == "ended"


async def test_both_are_warned_when_a_client_of_the_same_agent_writes_beside_the_holder(harness: Harness) -> None:
    holder, beside = client("holder"), client("beside")
    session = await harness.open(holder)
    begin = {"session_id": session, "query_title": "x", "query_text": "x"}
    first = await harness.call("begin_turn", begin, holder)
    other = await harness.call("begin_turn", begin, beside)
    assert first["warnings"] == []
    assert [each["code"] for each in other["warnings"]] == ["other_writer"]
    assert other["superseded_request_id"] == first["request_id"]
    # The holder's own turn is meant, which the other client's superseded: that one is not touched.
    given = {"session_id": session, "outcome": "completed", "response": "Done"}
    assert (await harness.refusal("finish_turn", given, holder)).code == "turn_immutable"
    again = await harness.call("begin_turn", begin, holder)
    assert [each["code"] for each in again["warnings"]] == ["other_writer"]
    assert (await harness.complete(session, holder))["warnings"] == []


async def test_without_a_request_id_a_client_means_the_turn_that_it_began_or_found_open(harness: Harness) -> None:
    former, newer, stranger = client("former"), client("newer"), client("stranger")
    session = await harness.open(former)
    turn = await harness.begin(session, former)
    given = {"session_id": session, "outcome": "completed", "response": "Done"}
    error = await harness.refusal("finish_turn", given, stranger)
    assert (error.code, error.message) == ("turn_not_found", "No active turn")
    await harness.app.continuity.client_gone("client-former")
    await resume(harness, newer)
    assert (await harness.complete(session, newer))["request_id"] == turn
    assert (await harness.complete(session, newer))["receipt"]["code"] == "unchanged"


@pytest.mark.parametrize("first", ["resume_session", "open_session"])
async def test_a_repeated_call_never_gives_a_lease_that_another_client_holds(harness: Harness, first: str) -> None:
    one, two = client("one"), client("two")
    given: dict[str, Any] = {"agent": "Codex", "title": "x", "idempotency_key": "k"}
    if first == "resume_session":
        session = await harness.open()
        given = {"agent_id": "Codex", "session_id": session, "idempotency_key": "k"}

    async def fence(caller: Caller) -> int:
        said = await harness.call(first, given, caller)
        return said.get("data", said)["lease"]["fence"]

    held = await fence(one)
    assert await fence(one) == held
    assert (await harness.refusal(first, given, two)).code == "session_held"
    await harness.app.continuity.client_gone("client-one")
    assert await fence(two) == held + 1
    assert (await harness.refusal(first, given, one)).code == "session_held"


@pytest.mark.parametrize(
    ("policy", "code"), [("closed_without_successor", "session_sealed"), ("successor_allowed", "session_closed")]
)
async def test_a_repeated_resume_does_not_call_a_session_open_that_has_ended(
    harness: Harness, policy: str, code: str
) -> None:
    session = await harness.open()
    given = {"agent_id": "Codex", "session_id": session, "idempotency_key": "k"}
    await harness.call("resume_session", given, client())
    await harness.call("close_session", {"session_id": session, "succession_policy": policy}, client())
    assert (await harness.refusal("resume_session", given, client())).code == code


async def test_a_repeated_close_tells_the_present_state(harness: Harness) -> None:
    session = await harness.open(client("one"))
    given = {"session_id": session, "idempotency_key": "k"}
    assert (await harness.call("close_session", given, client("one")))["data"]["state"] == "closed"
    await resume(harness, client("two"))
    assert (await harness.refusal("close_session", given, client("one"))).code == "session_held"
    await harness.app.continuity.client_gone("client-two")
    again = await harness.call("close_session", given, client("one"))
    assert again["data"]["state"] == "open"
