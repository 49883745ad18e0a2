"""Legal holds: what is on hold is not erased, whoever asks."""

from typing import Any

import pytest

from shiftlog.control.questions import answer
from shiftlog.model.caller import Caller
from shiftlog.model.errors import InvalidParameter, LegalHold, Unauthorized
from tests.journal.harness import Harness

PERSON = Caller(face="cli", operator=True)


async def ask(harness: Harness, method: str, caller: Caller = PERSON, **params: Any) -> Any:
    return await answer(harness.app, method, params, caller)  # type: ignore[misc]


async def test_a_session_on_hold_is_not_erased_until_the_hold_is_lifted(harness: Harness) -> None:
    session = await harness.open()
    await ask(harness, "hold", session_id=session, reason="case 1", by="ada")
    before = await harness.entries(session)
    with pytest.raises(LegalHold, match="case 1"):
        await ask(harness, "erase", session_id=session, entries=[1], reason="asked for")
    assert await harness.entries(session) == before
    await ask(harness, "hold", session_id=session, reason="over", by="bob", lift=True)
    erased = await ask(harness, "erase", session_id=session, entries=[1], reason="asked for")
    assert erased["erased"] == [1]
    (hold,) = (await ask(harness, "holds", all=True))["holds"]
    assert (hold["by"], hold["lifted_by"], hold["lifted_because"]) == ("ada", "bob", "over")


@pytest.mark.parametrize("name", ["webshop", "/srv/webshop", "/srv/webshop/"])
async def test_a_project_on_hold_covers_its_sessions_and_no_others(harness: Harness, name: str) -> None:
    held = await harness.open(cwd="/srv/webshop")
    free = await harness.open(cwd="/srv/webshop2", title="Other")
    await ask(harness, "hold", project=name, reason="audit", by="ada")
    with pytest.raises(LegalHold):
        await ask(harness, "erase", session_id=held, entries=[1], reason="asked for")
    assert (await ask(harness, "erase", session_id=free, entries=[1], reason="asked for"))["erased"] == [1]


async def test_erasing_does_not_reach_into_a_successor_on_hold(harness: Harness) -> None:
    """What is erased goes from capsules of successors too, so the whole erasure is refused."""
    first = await harness.open(agent_id="alpha")
    await harness.begin(first)
    await harness.complete(first)
    ended = {"session_id": first, "succession_policy": "successor_required"}
    token = (await harness.call("close_session", ended))["data"]["recovery_token"]
    given = {"agent_id": "alpha", "recovery_token": token}
    second = (await harness.call("resume_session", given))["data"]["resumed_session_id"]
    await ask(harness, "hold", session_id=second, reason="case 1", by="ada")
    before = await harness.entries(first), await harness.entries(second)
    with pytest.raises(LegalHold):
        await ask(harness, "erase", session_id=first, entries=[2], reason="asked for")
    assert (await harness.entries(first), await harness.entries(second)) == before


async def test_a_second_hold_on_the_same_session_keeps_the_first_reason(harness: Harness) -> None:
    session = await harness.open()
    first = await ask(harness, "hold", session_id=session, reason="case 1", by="ada")
    assert await ask(harness, "hold", session_id=session, reason="case 2", by="bob") == first


async def test_a_hold_needs_a_reason_and_exactly_one_target(harness: Harness) -> None:
    session = await harness.open()
    wrong: list[dict[str, Any]] = [{"session_id": session}, {"reason": "x"}]
    wrong.append({"session_id": session, "project": "p", "reason": "x"})
    for params in wrong:
        with pytest.raises(InvalidParameter):
            await ask(harness, "hold", by="ada", **params)
    with pytest.raises(InvalidParameter, match="on hold"):
        await ask(harness, "hold", session_id=session, reason="x", lift=True)


async def test_secrets_in_a_reason_are_masked(harness: Harness) -> None:
    session = await harness.open()
    placed = await ask(harness, "hold", session_id=session, reason="password=hunter2-and-more-of-it", by="ada")
    assert "hunter2" not in placed["reason"]


async def test_only_an_operator_sets_holds_and_runs_retention(harness: Harness) -> None:
    for method in ("hold", "retain"):
        with pytest.raises(Unauthorized):
            await ask(harness, method, Caller(face="cli", operator=False), project="p", reason="x")


async def test_lists_and_pages_say_that_a_session_is_on_hold_and_what_it_takes(harness: Harness) -> None:
    session = await harness.open()
    await ask(harness, "hold", session_id=session, reason="case 1", by="ada")
    (item,) = (await ask(harness, "sessions", sizes=True))["items"]
    assert item["legal_hold"]["reason"] == "case 1"
    shown = [part async for part in answer(harness.app, "show", {"session_id": session}, PERSON)]  # type: ignore[union-attr]
    taken = shown[0]["session"]["bytes"]  # type: ignore[index]
    assert item["bytes"] == taken
    assert taken["total"] == taken["entries"] + taken["texts"] + taken["projections"] > 0
