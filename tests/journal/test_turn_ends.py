"""How turns end: completed, failed or superseded, what may come along, and that nothing changes them afterwards."""

from typing import Any

import pytest

from tests.journal.harness import Harness
from tests.journal.test_turns import ACTION, DIALOG, EVERYTHING, LISTS, facts_of


@pytest.fixture
async def session(harness: Harness) -> str:
    return await harness.open(model="gpt-x")


# Ending


async def test_completing_answers_with_every_key_of_the_contract(harness: Harness, session: str) -> None:
    name = await harness.begin(session)
    harness.wait(minutes=9)
    answered = await harness.complete(session, response="Fixed; 200 runs green")
    assert answered.pop("receipt")["code"] == "persisted"
    assert answered == {
        "session_id": session,
        "request_id": name,
        "status": "completed",
        "finished_at": "2026-07-01T12:09:00Z",
        "error_code": "",
        "warnings": [],
    }


async def test_failing_keeps_code_and_message_in_the_note(harness: Harness, session: str) -> None:
    await harness.begin(session)
    assert (await harness.fail(session, error_code="env_missing"))["error_code"] == "env_missing"
    assert (await harness.turn(session)).failure_note == "env_missing: No runner"
    await harness.begin(session)
    assert (await harness.fail(session))["error_code"] == ""
    assert (await harness.turn(session)).failure_note == "No runner"


async def test_a_blank_code_is_no_code(harness: Harness, session: str) -> None:
    await harness.begin(session)
    answered = await harness.fail(session, error_code="  ")
    assert answered["error_code"] == ""
    assert (await harness.turn(session)).failure_note == "No runner"
    again = await harness.fail(session, error_code=" ", error_message="No runner")
    assert (again["receipt"]["code"], again["warnings"]) == ("unchanged", [])


async def test_fields_that_come_with_the_end_are_applied_first_in_one_transaction(
    harness: Harness, session: str
) -> None:
    await harness.begin(session)
    await harness.complete(session, **EVERYTHING)
    facts = await facts_of(harness, session)
    for name in (*LISTS, "commits", "interpretation", "query_title", "token_count", "response"):
        assert facts[name] == EVERYTHING[name]
    assert (facts["dialog_items"], facts["actions"], facts["status"]) == (1, 1, "completed")


async def test_a_response_stored_before_is_enough_to_complete(harness: Harness, session: str) -> None:
    await harness.begin(session)
    await harness.update(session, response="Stored")
    await harness.complete(session, response="")
    assert (await harness.turn(session)).response == "Stored"


async def test_completing_with_the_response_only_loses_no_other_field(harness: Harness, session: str) -> None:
    await harness.begin(session)
    await harness.update(session, **EVERYTHING)
    before = await facts_of(harness, session)
    await harness.complete(session, response="Final")
    after = await facts_of(harness, session)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"status", "finished_at", "response", "seal"}


async def test_dialog_and_actions_stored_before_are_not_stored_twice_by_the_end(harness: Harness, session: str) -> None:
    await harness.begin(session)
    timed = {**DIALOG, "timestamp": "2026-07-01T13:00:00+02:00"}
    await harness.update(
        session, dialog=[timed, DIALOG], actions=[{**ACTION, "order": 3}, {**ACTION, "type": "create"}]
    )
    harness.wait(minutes=5)
    fresh_item, fresh_action = {**DIALOG, "content": "new"}, {**ACTION, "order": 9}
    await harness.complete(
        session,
        dialog=[{**timed, "timestamp": "2026-07-01T11:00:00Z"}, DIALOG, fresh_item, fresh_item],
        actions=[{**ACTION, "order": 3}, {**ACTION, "type": "create"}, fresh_action, fresh_action],
    )
    turn = await harness.turn(session)
    assert (turn.dialog_items, turn.actions) == (3, 3)


async def test_an_item_cleared_before_the_end_may_come_again(harness: Harness, session: str) -> None:
    await harness.begin(session)
    await harness.update(session, dialog=[DIALOG])
    await harness.update(session, clear=["dialog"])
    await harness.complete(session, dialog=[DIALOG])
    assert (await harness.turn(session)).dialog_items == 1


async def test_an_error_that_comes_with_a_completed_turn_is_named_as_ignored(harness: Harness, session: str) -> None:
    await harness.begin(session)
    answered = await harness.complete(session, error_message="but", error_code="x")
    assert [warning["field"] for warning in answered["warnings"]] == ["error_message", "error_code"]


# Afterwards


@pytest.fixture(params=["completed", "failed", "superseded"])
async def ended(request: pytest.FixtureRequest, harness: Harness, session: str) -> str:
    """A turn that ended in each of the ways there are."""
    name = await harness.begin(session)
    await harness.update(session, **EVERYTHING)
    match request.param:
        case "completed":
            await harness.complete(session)
        case "failed":
            await harness.fail(session)
        case _:
            await harness.begin(session)
    return name


@pytest.mark.parametrize(
    "given",
    [{name: value} for name, value in EVERYTHING.items()]
    + [{"clear": [name]} for name in ("tags", "dialog", "actions")],
    ids=lambda given: next(iter(given)),
)
async def test_nothing_changes_a_turn_that_has_ended(
    harness: Harness, session: str, ended: str, given: dict[str, Any]
) -> None:
    before = await harness.turn(session, ended)
    error = await harness.refusal("update_turn", {"session_id": session, "request_id": ended, **given})
    assert error.code == "turn_immutable"
    assert error.message == f"Turn is immutable (status: {before.status})"
    assert error.hint == "Begin a new turn instead"
    assert error.details == {
        "turn_request_id": ended,
        "request_id": ended,
        "current_status": str(before.status),
        "completed_at": "2026-07-01T12:00:00Z",
    }
    assert await harness.turn(session, ended) == before


async def test_the_other_outcome_of_a_turn_that_has_ended_is_refused(
    harness: Harness, session: str, ended: str
) -> None:
    status = (await harness.turn(session, ended)).status
    other = {"outcome": "failed", "error_message": "x"} if status == "completed" else {"outcome": "completed"}
    error = await harness.refusal("finish_turn", {"session_id": session, "request_id": ended, "response": "x", **other})
    assert error.code == "turn_immutable"


async def test_the_same_outcome_with_the_same_fields_is_unchanged_without_a_warning(
    harness: Harness, session: str
) -> None:
    await harness.begin(session)
    given = {**EVERYTHING, "clear": ["blockers"], "blockers": []}
    first = await harness.complete(session, **given)
    harness.wait(minutes=1)
    again = await harness.complete(session, **given)
    assert again["receipt"] == {**first["receipt"], "code": "unchanged"}
    assert again["warnings"] == []
    assert again["finished_at"] == first["finished_at"]


async def test_the_same_outcome_with_other_fields_names_each_as_ignored(harness: Harness, session: str) -> None:
    await harness.begin(session)
    await harness.fail(session, error_code="one", **EVERYTHING)
    before = await harness.turn(session)
    other: dict[str, Any] = {
        "response": "Other",
        "token_count": 7,
        "tags": ["other"],
        "commits": [{"sha": "other"}],
        "dialog": [{**DIALOG, "content": "other"}],
        "actions": [{**ACTION, "description": "other"}],
        "usage": {"input_tokens": 99},
        "clear": ["blockers"],
        "error_message": "Other",
        "error_code": "two",
    }
    answered = await harness.fail(session, **other)
    assert answered["receipt"]["code"] == "unchanged"
    assert {warning["code"] for warning in answered["warnings"]} == {"ignored_field"}
    assert {warning["field"] for warning in answered["warnings"]} == other.keys()
    assert await harness.turn(session) == before


async def test_the_turn_begun_last_is_addressed_even_when_it_has_ended(harness: Harness, session: str) -> None:
    name = await harness.begin(session)
    await harness.complete(session)
    error = await harness.refusal("update_turn", {"session_id": session, "response": "x"})
    assert error.code == "turn_immutable"
    assert error.details["request_id"] == name


async def test_a_session_without_turns_has_no_active_turn(harness: Harness, session: str) -> None:
    for tool, more in (("update_turn", {"response": "x"}), ("finish_turn", {"outcome": "completed", "response": "x"})):
        error = await harness.refusal(tool, {"session_id": session, **more})
        assert error.code == "turn_not_found"
        assert error.message == "No active turn"
        assert error.hint == "Call begin_turn first"
        assert error.details == {"session_id": session, "operation": tool}


async def test_an_unknown_turn_is_not_found_by_its_name(harness: Harness, session: str) -> None:
    await harness.begin(session)
    name = "req-20260701T120000Z-nobody"
    error = await harness.refusal("update_turn", {"session_id": session, "request_id": name, "response": "x"})
    assert error.message == f"Turn not found: {name}"
    assert error.details == {"session_id": session, "request_id": name, "operation": "update_turn"}


async def test_counters_of_the_session_follow_its_turns(harness: Harness, session: str) -> None:
    await harness.begin(session)
    pending = {**ACTION, "status": "pending"}
    await harness.update(session, dialog=[DIALOG] * 3, actions=[ACTION, pending, {**ACTION, "status": "in_progress"}])
    await harness.complete(session)
    await harness.begin(session)
    await harness.fail(session, dialog=[DIALOG])
    await harness.begin(session)
    now = await harness.session(session)
    assert (now.turns_total, now.turns_completed, now.turns_failed, now.turns_open) == (3, 1, 1, 1)
    assert (now.dialog_items, now.actions_total, now.actions_unfinished) == (4, 3, 2)
