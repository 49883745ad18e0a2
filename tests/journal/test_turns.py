"""Turns: how they begin, change by sparse merge, end, and never change again."""

from typing import Any

import pytest

from tests.journal.harness import Harness
from tests.model.test_ids import INVALID_TURNS, VALID_TURNS

DIALOG = {"role": "model", "category": "decision", "content": "Decision: lock the temp dir"}
ACTION = {"description": "Lock temp dir", "type": "edit", "status": "completed", "file_path": "src/up.py"}
LISTS = ("tags", "context_list", "design_decisions", "requirements_discovered", "files_modified", "blockers")
EVERYTHING: dict[str, Any] = {
    "response": "Fixed",
    "interpretation": "Race in cleanup",
    "query_title": "Upload race",
    "token_count": 1250,
    **{name: [f"{name} one", f"{name} two"] for name in LISTS},
    "commits": [{"sha": "9f2c1ab", "message": "Lock"}],
    "dialog": [DIALOG],
    "actions": [ACTION],
    "usage": {"input_tokens": 10, "output_tokens": 5, "cost_usd": 0.25},
}


@pytest.fixture
async def session(harness: Harness) -> str:
    return await harness.open(model="gpt-x")


async def facts_of(harness: Harness, session: str, request_id: str | None = None) -> dict[str, Any]:
    """Return a turn as query_history reads it, with what it holds."""
    name = request_id or (await harness.turn(session)).request_id
    read = await harness.query(session_id=session, request_id=name, max_chars=1_000_000)
    return {**read["turn"], "contents": read["items"]}


# Beginning


async def test_beginning_answers_with_every_key_of_the_contract(harness: Harness, session: str) -> None:
    given = {"session_id": session, "query_title": "Find the race", "query_text": "Why?\nIt flakes."}
    answered = await harness.call("begin_turn", given)
    receipt = answered.pop("receipt")
    assert answered == {
        "session_id": session,
        "request_id": "req-20260701T120000Z-find-the-race",
        "status": "in_progress",
        "timestamp": "2026-07-01T12:00:00Z",
        "superseded_request_id": None,
        "warnings": [],
    }
    assert receipt["code"] == "persisted"
    assert receipt["seq"] == 3
    assert (await harness.turn(session)).query_text == "Why?\nIt flakes."


async def test_a_minted_request_id_that_is_taken_gets_a_number(harness: Harness, session: str) -> None:
    minted = [await harness.begin(session) for _ in range(3)]
    assert [name.removeprefix("req-20260701T120000Z-") for name in minted] == [
        "find-the-race",
        "find-the-race-2",
        "find-the-race-3",
    ]


@pytest.mark.parametrize("name", VALID_TURNS)
async def test_a_well_formed_request_id_is_taken_as_given(harness: Harness, session: str, name: str) -> None:
    assert await harness.begin(session, request_id=name) == name


@pytest.mark.parametrize("name", [name for name in INVALID_TURNS if name and "\n" not in name])
async def test_a_malformed_request_id_is_refused_wherever_a_turn_is_named(
    harness: Harness, session: str, name: str
) -> None:
    await harness.begin(session)
    for tool, more in (
        ("begin_turn", {"query_title": "x", "query_text": "x"}),
        ("update_turn", {"response": "x"}),
        ("finish_turn", {"outcome": "completed", "response": "x"}),
        ("query_history", {}),
    ):
        error = await harness.refusal(tool, {"session_id": session, "request_id": name, **more})
        assert error.code == "invalid_request_id"


async def test_a_request_id_is_unique_in_its_session_only(harness: Harness, session: str) -> None:
    name = await harness.begin(session)
    await harness.complete(session)
    given = {"session_id": session, "query_title": "x", "query_text": "x", "request_id": name}
    error = await harness.refusal("begin_turn", given)
    assert error.code == "turn_already_exists"
    assert error.message == "Turn with request ID already exists in current session"
    assert error.details == {"request_id": name, "session_id": session, "existing_turn_status": "completed"}
    assert error.hint == "Use a new request ID"
    other = await harness.open(title="Other")
    assert await harness.begin(other, request_id=name) == name


async def test_a_refused_begin_does_not_supersede_the_open_turn(harness: Harness, session: str) -> None:
    name = await harness.begin(session)
    given = {"session_id": session, "query_title": "x", "query_text": "x", "request_id": name}
    await harness.refusal("begin_turn", given)
    assert (await harness.turn(session, name)).status == "in_progress"


async def test_beginning_while_a_turn_is_open_fails_that_one_first(harness: Harness, session: str) -> None:
    first = await harness.begin(session)
    harness.wait(seconds=5)
    given = {"session_id": session, "query_title": "Next", "query_text": "x"}
    answered = await harness.call("begin_turn", given)
    assert answered["superseded_request_id"] == first
    turn = await harness.turn(session, first)
    assert turn.status == "failed"
    assert turn.error_code == "superseded"
    assert turn.failure_note == "superseded: Superseded by subsequent beginTurn without explicit complete/fail"
    error = await harness.refusal("update_turn", {"session_id": session, "request_id": first, "response": "x"})
    assert error.message == "Turn is immutable (status: failed)"
    session_now = await harness.session(session)
    assert (session_now.turns_total, session_now.turns_failed, session_now.turns_open) == (2, 1, 1)


async def test_a_turn_has_the_model_of_its_session_unless_it_says_otherwise(harness: Harness, session: str) -> None:
    await harness.begin(session)
    assert (await harness.turn(session)).model == "gpt-x"
    await harness.begin(session, model="gpt-y")
    assert (await harness.turn(session)).model == "gpt-y"
    await harness.begin(session, model="unknown", plan_file="None", todo_id="None")
    turn = await harness.turn(session)
    assert (turn.model, turn.plan_file, turn.todo_id) == ("gpt-x", "", "")


async def test_plan_todo_tags_and_context_of_a_new_turn_are_kept(harness: Harness, session: str) -> None:
    await harness.begin(session, plan_file="plans/p.md", todo_id="T-1", tags=["a", "a", ""], context_list=["x.py"])
    turn = await harness.turn(session)
    assert (turn.plan_file, turn.todo_id, turn.tags, turn.context_list) == ("plans/p.md", "T-1", ("a",), ("x.py",))


# Limits


@pytest.mark.parametrize(
    ("tool", "given", "path"),
    [
        ("begin_turn", {"query_title": "x" * 501}, "query_title"),
        ("begin_turn", {"query_text": "x" * 1_048_577}, "query_text"),
        ("begin_turn", {"query_text": " "}, "query_text"),
        ("begin_turn", {"model": "x" * 201}, "model"),
        ("begin_turn", {"plan_file": "x" * 2_049}, "plan_file"),
        ("begin_turn", {"plan_file": "plans/../../etc"}, "plan_file"),
        ("begin_turn", {"plan_file": "plans\\..\\etc"}, "plan_file"),
        ("begin_turn", {"plan_file": "a\x07b"}, "plan_file"),
        ("begin_turn", {"tags": ["x" * 201]}, "tags[0]"),
        ("begin_turn", {"context_list": ["ok", "x" * 4_097]}, "context_list[1]"),
        ("update_turn", {"response": "x" * 1_048_577}, "response"),
        ("update_turn", {"interpretation": "x" * 1_048_577}, "interpretation"),
        ("update_turn", {"query_title": "x" * 501}, "query_title"),
        ("update_turn", {"token_count": -1}, "token_count"),
        ("update_turn", {"token_count": 2**53}, "token_count"),
        ("update_turn", {"token_count": "x"}, "token_count"),
        ("update_turn", {"tags": ["t"] * 10_001}, "tags"),
        ("update_turn", {"files_modified": ["x" * 4_097]}, "files_modified[0]"),
        ("update_turn", {"dialog": [DIALOG] * 1_001}, "dialog"),
        ("update_turn", {"dialog": [DIALOG, {**DIALOG, "role": "assistant"}]}, "dialog[1].role"),
        ("update_turn", {"dialog": [{**DIALOG, "category": "note"}]}, "dialog[0].category"),
        ("update_turn", {"dialog": [{**DIALOG, "content": " "}]}, "dialog[0].content"),
        ("update_turn", {"dialog": [{**DIALOG, "content": "x" * 1_048_577}]}, "dialog[0].content"),
        ("update_turn", {"dialog": [{**DIALOG, "timestamp": "2026-07-01T12:00:00"}]}, "dialog[0].timestamp"),
        ("update_turn", {"dialog": [{**DIALOG, "timestamp": "0001-01-01T00:00:00+14:00"}]}, "dialog[0].timestamp"),
        ("update_turn", {"dialog": [{**DIALOG, "mood": "good"}]}, "dialog[0].mood"),
        ("update_turn", {"dialog": [DIALOG, None]}, "dialog[1]"),
        ("update_turn", {"actions": [ACTION] * 1_001}, "actions"),
        ("update_turn", {"actions": [{**ACTION, "description": "x" * 8_193}]}, "actions[0].description"),
        ("update_turn", {"actions": [{**ACTION, "type": "Test Run"}]}, "actions[0].type"),
        ("update_turn", {"actions": [{**ACTION, "type": "x" * 65}]}, "actions[0].type"),
        ("update_turn", {"actions": [{**ACTION, "status": "done"}]}, "actions[0].status"),
        ("update_turn", {"actions": [{**ACTION, "order": -1}]}, "actions[0].order"),
        ("update_turn", {"actions": [{**ACTION, "file_path": "x" * 4_097}]}, "actions[0].file_path"),
        ("update_turn", {"commits": [{"branch": "main"}]}, "commits[0].sha"),
        ("update_turn", {"usage": {"input_tokens": -1}}, "usage.input_tokens"),
        ("update_turn", {"usage": {"cost_usd": "nan"}}, "usage.cost_usd"),
        ("update_turn", {"usage": {"tokens": 5}}, "usage.tokens"),
        ("update_turn", {"clear": ["query_title"]}, "clear[0]"),
        ("finish_turn", {"outcome": "done"}, "outcome"),
        ("finish_turn", {"outcome": ""}, "outcome"),
        ("finish_turn", {"outcome": "failed", "error_message": "x" * 65_537}, "error_message"),
        ("finish_turn", {"outcome": "failed", "error_message": "x", "error_code": "x" * 201}, "error_code"),
        ("finish_turn", {"outcome": "failed"}, "error_message"),
        ("finish_turn", {"outcome": "failed", "error_message": " "}, "error_message"),
    ],
)
async def test_a_value_over_its_limit_is_refused_by_its_path_and_nothing_is_stored(
    harness: Harness, session: str, tool: str, given: dict[str, Any], path: str
) -> None:
    await harness.begin(session)
    title = {"query_title": "x", "query_text": "x"} if tool == "begin_turn" else {}
    error = await harness.refusal(tool, {"session_id": session, **title, **given})
    assert error.code == "invalid_parameter"
    assert error.details["parameter"] == path


@pytest.mark.parametrize(
    "given",
    [
        {"response": "x" * 1_048_576},
        {"tags": [str(n) for n in range(10_000)]},
        {"dialog": [DIALOG] * 1_000},
        {"token_count": 2**53 - 1},
        {"token_count": "1250"},
        {"tags": "one"},
    ],
    ids=lambda given: next(iter(given)),
)
async def test_a_value_at_its_limit_is_taken(harness: Harness, session: str, given: dict[str, Any]) -> None:
    await harness.begin(session)
    assert (await harness.update(session, **given))["receipt"]["code"] == "persisted"


async def test_a_list_takes_no_more_than_10_000_entries_over_all_calls(harness: Harness, session: str) -> None:
    await harness.begin(session)
    await harness.update(session, tags=[str(n) for n in range(10_000)])
    assert (await harness.update(session, tags=["1", "2"]))["receipt"]["code"] == "unchanged"
    error = await harness.refusal("update_turn", {"session_id": session, "tags": ["one more"]})
    assert error.details["parameter"] == "tags"


# Sparse merge


async def test_a_text_replaces_and_an_empty_one_changes_nothing(harness: Harness, session: str) -> None:
    await harness.begin(session)
    for name in ("response", "interpretation", "query_title"):
        await harness.update(session, **{name: "first"})
        await harness.update(session, **{name: "second"})
        for empty in ("", "  "):
            assert (await harness.update(session, **{name: empty, "token_count": 0}))["receipt"]["code"] == "unchanged"
        assert (await facts_of(harness, session))[name] == "second"


async def test_a_token_count_replaces_and_zero_changes_nothing(harness: Harness, session: str) -> None:
    await harness.begin(session)
    await harness.update(session, token_count=100)
    await harness.update(session, token_count=0)
    assert (await harness.session(session)).tokens_total == 100
    await harness.update(session, token_count=40)
    assert (await harness.turn(session)).token_count == 40
    assert (await harness.session(session)).tokens_total == 40


@pytest.mark.parametrize("name", LISTS)
async def test_lists_are_united_in_order_and_blank_items_dropped(harness: Harness, session: str, name: str) -> None:
    await harness.begin(session)
    await harness.update(session, **{name: ["a", "b"]})
    assert (await harness.update(session, **{name: []}))["receipt"]["code"] == "unchanged"
    assert (await harness.update(session, **{name: ["b", "a", " "]}))["receipt"]["code"] == "unchanged"
    await harness.update(session, **{name: ["b", "c", "c"]})
    assert (await facts_of(harness, session))[name] == ["a", "b", "c"]


async def test_times_of_commits_are_shown_as_all_times_are_and_other_texts_as_they_are(
    harness: Harness, session: str
) -> None:
    name = await harness.begin(session)
    given = ["2026-07-01T10:00:00.5+02:00", "Wed Jul 1 10:00:01 2026 +0200", "this morning", ""]
    commits = [{"sha": f"a{number}", "timestamp": at} for number, at in enumerate(given)]
    await harness.update(session, commits=commits)
    told = (await harness.query(session_id=session, request_id=name))["turn"]["commits"]
    shown = ["2026-07-01T08:00:00Z", "2026-07-01T08:00:01Z", "this morning", ""]
    assert [commit["timestamp"] for commit in told] == shown


async def test_commits_are_united_by_sha(harness: Harness, session: str) -> None:
    await harness.begin(session)
    await harness.update(session, commits=[{"sha": "a1", "message": "First"}])
    await harness.update(session, commits=[{"sha": "a1", "message": "Other"}, {"sha": "b2"}, {"sha": "b2"}])
    assert (await facts_of(harness, session))["commits"] == [{"sha": "a1", "message": "First"}, {"sha": "b2"}]


async def test_usage_is_added_up_in_turn_and_session(harness: Harness, session: str) -> None:
    await harness.begin(session)
    await harness.update(session, usage={"input_tokens": 10, "cached_input_tokens": 5, "cost_usd": 0.5})
    await harness.update(session, usage={"input_tokens": 1, "output_tokens": 2, "reasoning_tokens": 1})
    assert (await harness.update(session, usage={"input_tokens": 0, "cost_usd": 0}))["receipt"]["code"] == "unchanged"
    await harness.begin(session)
    await harness.update(session, usage={"cache_creation_tokens": 7, "cost_usd": "0.25"})
    usage = (await harness.query(session_id=session))["session"]["usage"]
    assert usage == {
        "input_tokens": 11,
        "cached_input_tokens": 5,
        "cache_creation_tokens": 7,
        "output_tokens": 2,
        "reasoning_tokens": 1,
        "cost_usd": 0.75,
    }
    assert (await harness.session(session)).tokens_total == 25


@pytest.mark.parametrize("cost", [1e308, "1e308", 10**291, float("inf"), float("nan"), "1e999", -0.1])
async def test_a_cost_that_cannot_be_added_up_is_refused(harness: Harness, session: str, cost: object) -> None:
    await harness.begin(session)
    error = await harness.refusal("update_turn", {"session_id": session, "usage": {"cost_usd": cost}})
    assert error.details["parameter"] == "usage.cost_usd"
    for _ in range(2):
        await harness.update(session, usage={"cost_usd": 1e290})
    assert (await harness.complete(session))["status"] == "completed"
    usage = (await harness.session(session)).usage
    assert usage is not None
    assert usage.cost_usd == 2e290


async def test_an_update_appends_dialog_and_actions_as_given_equal_ones_too(harness: Harness, session: str) -> None:
    await harness.begin(session)
    first = await harness.update(session, dialog=[DIALOG, DIALOG], actions=[ACTION])
    second = await harness.update(session, dialog=[DIALOG], actions=[ACTION, ACTION])
    assert (first["dialog_items"], first["actions"]) == (2, 1)
    assert (second["dialog_items"], second["actions"]) == (3, 3)
    assert [item["order"] for item in (await facts_of(harness, session))["contents"] if item["kind"] == "action"] == [
        1,
        2,
        3,
    ]


async def test_times_of_dialog_are_kept_in_utc_and_default_to_now(harness: Harness, session: str) -> None:
    await harness.begin(session)
    later = {**DIALOG, "timestamp": "2026-07-01T16:00:00.5+02:00"}
    await harness.update(session, dialog=[DIALOG, later])
    times = [item["timestamp"] for item in (await facts_of(harness, session))["contents"]]
    assert times == ["2026-07-01T12:00:00Z", "2026-07-01T14:00:00Z"]


async def test_an_order_that_is_given_is_kept_and_the_next_goes_on_from_the_highest(
    harness: Harness, session: str
) -> None:
    await harness.begin(session)
    await harness.update(session, actions=[{**ACTION, "order": 7}, {**ACTION, "order": 0}, ACTION])
    assert [item["order"] for item in (await facts_of(harness, session))["contents"]] == [7, 0, 8]


async def test_an_action_of_another_type_is_kept_with_a_warning(harness: Harness, session: str) -> None:
    await harness.begin(session)
    answered = await harness.update(
        session, actions=[{**ACTION, "type": "test_run"}, {**ACTION, "type": "session_log"}]
    )
    assert [(warning["code"], warning["type"]) for warning in answered["warnings"]] == [
        ("nonstandard_action_type", "test_run")
    ]
    assert answered["actions"] == 2


async def test_many_actions_of_one_other_type_are_warned_of_once(harness: Harness, session: str) -> None:
    await harness.begin(session)
    other = {"description": "Ran it", "status": "completed"}
    given = [{**other, "type": name} for name in ("test_run", "lint", "test_run", "test_run")]
    answered = await harness.update(session, actions=given)
    assert answered["actions"] == 4
    assert [warning["type"] for warning in answered["warnings"]] == ["test_run", "lint"]


async def test_an_update_needs_something_besides_ids(harness: Harness, session: str) -> None:
    name = await harness.begin(session)
    for given in ({}, {"request_id": name}, {"idempotency_key": "k", "fence": 1}, {"tags": None}):
        error = await harness.refusal("update_turn", {"session_id": session, **given})
        assert error.code == "invalid_parameter"
        allowed = error.details["allowed"]
        assert isinstance(allowed, list)
        assert "dialog" in allowed


# Clearing


@pytest.mark.parametrize("name", ["response", "interpretation", *LISTS, "commits", "dialog", "actions"])
async def test_a_cleared_field_is_empty_and_the_journal_keeps_the_old_value(
    harness: Harness, session: str, name: str
) -> None:
    await harness.begin(session)
    await harness.update(session, **EVERYTHING)
    before = await harness.entries(session)
    assert (await harness.update(session, clear=[name]))["receipt"]["code"] == "persisted"
    facts = await facts_of(harness, session)
    kind = {"dialog": "dialog", "actions": "action"}.get(name)
    if kind is None:
        assert not facts[name]
    else:
        assert kind not in [item["kind"] for item in facts["contents"]]
        assert facts["dialog_items" if kind == "dialog" else "actions"] == 0
    assert (await harness.entries(session))[: len(before)] == before
    assert (await harness.update(session, clear=[name]))["receipt"]["code"] == "unchanged"
    assert not (await harness.rebuild(session))[0].changed


async def test_clear_comes_first_so_that_a_call_can_replace_a_list(harness: Harness, session: str) -> None:
    await harness.begin(session)
    await harness.update(session, tags=["old"], dialog=[DIALOG])
    answered = await harness.update(
        session, clear=["tags", "dialog"], tags=["new"], dialog=[{**DIALOG, "content": "new"}]
    )
    facts = await facts_of(harness, session)
    assert facts["tags"] == ["new"]
    assert [item["content"] for item in facts["contents"]] == ["new"]
    assert answered["dialog_items"] == 1
    assert (await harness.session(session)).dialog_items == 1


async def test_files_follow_from_what_is_left_after_clearing(harness: Harness, session: str) -> None:
    await harness.begin(session)
    await harness.update(session, files_modified=["./a.py", "b.py"], actions=[{**ACTION, "file_path": "a.py"}])
    assert sorted((await harness.turn(session)).files) == ["a.py", "b.py"]
    await harness.update(session, clear=["files_modified"])
    assert sorted((await harness.turn(session)).files) == ["a.py"]
    await harness.update(session, clear=["actions"])
    assert (await harness.turn(session)).files == {}
    assert (await harness.query(kinds=["file"]))["total"] == 0


# Time


async def test_last_updated_never_goes_back_with_the_clock(harness: Harness, session: str) -> None:
    await harness.begin(session)
    harness.wait(hours=1)
    await harness.update(session, response="x")
    harness.wait(hours=-2)
    answered = await harness.update(session, response="y")
    assert answered["last_updated"] == "2026-07-01T13:00:00Z"
    assert (await harness.session(session)).last_activity.hour == 13
    times = [entry.at for entry in await harness.entries(session)]
    assert times == sorted(times)


async def test_a_refused_request_does_not_move_last_updated(harness: Harness, session: str) -> None:
    await harness.begin(session)
    before = await harness.turn(session)
    harness.wait(minutes=5)
    await harness.refusal("update_turn", {"session_id": session, "tags": [1]})
    await harness.update(session, response="")
    assert await harness.turn(session) == before
    assert (await harness.session(session)).last_activity == before.last_updated


async def test_an_action_with_the_order_of_an_earlier_one_replaces_it(harness: Harness, session: str) -> None:
    await harness.begin(session)
    plan = [{"description": f"Step {n}", "type": "edit", "status": "pending", "file_path": f"{n}.py"} for n in (1, 2)]
    await harness.update(session, actions=plan)
    done = {"description": "Step 1", "type": "edit", "status": "completed", "order": 1, "file_path": "1.py"}
    answered = await harness.update(session, actions=[done])
    assert answered["actions"] == 2
    turn = await harness.turn(session)
    assert (turn.actions, turn.actions_unfinished, list(turn.files)) == (2, 1, ["1.py"])
    again = {**done, "description": "Step 2", "order": 2, "file_path": "2.py"}
    await harness.call(
        "finish_turn", {"session_id": session, "outcome": "completed", "response": "Done", "actions": [again]}
    )
    turn = await harness.turn(session)
    assert (turn.actions, turn.actions_unfinished, list(turn.files)) == (2, 0, ["1.py", "2.py"])


async def test_an_action_that_is_replaced_keeps_its_file(harness: Harness, session: str) -> None:
    await harness.begin(session)
    plan = {"description": "Step", "type": "edit", "status": "pending", "order": 1, "file_path": "1.py"}
    await harness.update(session, actions=[plan])
    await harness.update(session, actions=[{"description": "Done", "type": "edit", "status": "completed", "order": 1}])
    actions = [item for item in (await facts_of(harness, session))["contents"] if item["kind"] == "action"]
    assert [(item["description"], item["file_path"]) for item in actions] == [("Done", "1.py")]
    assert list((await harness.turn(session)).files) == ["1.py"]


async def test_of_several_actions_of_one_order_in_a_call_the_last_counts(harness: Harness, session: str) -> None:
    await harness.begin(session)
    step = {"description": "Step", "type": "edit", "order": 1}
    steps = [{**step, "status": "pending"}, {**step, "status": "completed"}]
    answered = await harness.update(session, actions=steps)
    turn = await harness.turn(session)
    assert (answered["actions"], turn.actions, turn.actions_unfinished) == (1, 1, 0)
