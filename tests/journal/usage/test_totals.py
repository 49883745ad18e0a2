"""What runs used: every token once, unknown costs as unknown, groups that add up to their total."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftlog.journal.usage.service import list_runs, runs_filter, total_usage
from shiftlog.journal.usage.totals import DIMENSIONS, Totals
from shiftlog.model.errors import InvalidParameter
from shiftlog.model.nouns import Usage
from shiftlog.store.protocol import Filter
from tests.contract.builders import session as any_session
from tests.journal.harness import Harness

PRICED = "claude-opus-4-5"


async def totals(harness: Harness, *by: str, **asked: str) -> dict[str, Any]:
    now = harness.now()
    return await harness.read(
        lambda reader: total_usage(reader, harness.app.runs, runs_filter(reader, asked, now), by or ("day",))
    )


async def runs(harness: Harness, **asked: str) -> list[dict[str, Any]]:
    now = harness.now()
    found = await harness.read(
        lambda reader: list_runs(reader, harness.app.runs, runs_filter(reader, asked, now), int(asked.get("limit", 20)))
    )
    return found["items"]


async def ended(harness: Harness, by: dict[str, Any] | None = None, **figures: Any) -> str:
    """Record a run that has ended and return its session's id."""
    session = await harness.open(**{"agent": "ClaudeCode", "model": PRICED, "caller": "headless_task", **(by or {})})
    await harness.call("close_session", {"session_id": session, "returncode": 0, **figures})
    return session


async def test_a_running_run_counts_as_running_and_its_cost_as_unknown(harness: Harness) -> None:
    await harness.open(model=PRICED)
    await ended(harness, total_cost_usd=0.5)
    total = (await totals(harness))["total"]
    assert (total["sessions"], total["running"], total["ok"], total["failed"]) == (2, 1, 1, 0)
    assert (total["cost_usd"], total["cost_unknown"]) == (0.5, 1)


async def test_nothing_known_is_unknown_and_not_zero(harness: Harness) -> None:
    await harness.open(model=PRICED)
    await ended(harness, {"model": "nobody-knows"}, input_tokens=5)
    total = (await totals(harness))["total"]
    assert (total["cost_usd"], total["cost_unknown"], total["input_tokens"]) == (None, 2, 5)


async def test_what_a_running_session_used_so_far_counts_though_its_cost_is_not_final(harness: Harness) -> None:
    session = await harness.open(model=PRICED)
    await harness.begin(session)
    await harness.update(session, usage={"input_tokens": 7, "cache_creation_tokens": 2, "cost_usd": 0.25})
    total = (await totals(harness))["total"]
    assert (total["input_tokens"], total["cache_creation_tokens"]) == (7, 2)
    assert (total["cost_usd"], total["cost_unknown"]) == (0.25, 1)


async def test_tokens_that_both_turns_and_launcher_report_count_once(harness: Harness) -> None:
    session = await harness.open(agent="ClaudeCode", model=PRICED)
    await harness.begin(session)
    await harness.update(session, usage={"input_tokens": 100, "output_tokens": 10, "cost_usd": 1.0})
    await harness.complete(session)
    await harness.call("close_session", {"session_id": session, "input_tokens": 100, "output_tokens": 10})
    total = (await totals(harness))["total"]
    assert (total["input_tokens"], total["output_tokens"], total["sessions"]) == (100, 10, 1)


async def test_what_a_reopened_session_uses_is_added_to_what_its_run_was_closed_with(harness: Harness) -> None:
    session = await harness.open(agent="ClaudeCode", agent_id="own", model=PRICED)
    await harness.begin(session)
    await harness.update(session, usage={"input_tokens": 100, "output_tokens": 10})
    await harness.complete(session)
    stated = {"input_tokens": 90, "output_tokens": 9, "total_cost_usd": 1.0}
    await harness.call("close_session", {"session_id": session, **stated})
    first = harness.now().date().isoformat()
    harness.wait(days=2)
    await harness.call("resume_session", {"session_id": session, "agent_id": "own"})
    await harness.begin(session)
    await harness.update(session, usage={"input_tokens": 5, "output_tokens": 1, "cost_usd": 0.5})
    later = harness.now().date().isoformat()
    found = await totals(harness)
    assert [(row["day"], row["input_tokens"], row["cost_usd"], row["sessions"]) for row in found["rows"]] == [
        (first, 90, 1.0, 1),
        (later, 5, 0.5, 0),
    ]
    assert (found["total"]["output_tokens"], found["total"]["cost_usd"], found["total"]["sessions"]) == (10, 1.5, 1)
    assert (await totals(harness, "day", **{"from": later}))["total"]["input_tokens"] == 5
    (row,) = (await totals(harness, "model"))["rows"]
    assert (row["model"], row["input_tokens"], row["sessions"]) == (PRICED, 95, 1)
    (run,) = await runs(harness)
    assert (run["usage"]["input_tokens"], run["usage"]["output_tokens"], run["usage"]["cost_usd"]) == (95, 10, 1.5)
    assert harness.app.runs.tokens_of(await harness.session(session)) == 105
    assert not any(done.changed for done in await harness.rebuild())


async def test_a_reopened_session_without_a_price_for_what_came_later_has_an_unknown_cost(harness: Harness) -> None:
    session = await ended(harness, {"agent_id": "own", "model": "nobody-knows"}, input_tokens=90, total_cost_usd=1.0)
    harness.wait(hours=1)
    await harness.call("resume_session", {"session_id": session, "agent_id": "own"})
    await harness.begin(session)
    await harness.update(session, usage={"input_tokens": 5})
    total = (await totals(harness))["total"]
    assert (total["input_tokens"], total["cost_usd"], total["cost_unknown"]) == (95, None, 1)


@pytest.mark.parametrize(("agent", "fresh"), [("Codex", 600), ("GeminiCli", 600), ("ClaudeCode", 1000)])
async def test_cached_input_is_part_of_input_for_some_backends_and_a_class_of_its_own_for_others(
    harness: Harness, agent: str, fresh: int
) -> None:
    await ended(harness, {"agent": agent}, input_tokens=1000, cached_input_tokens=400, output_tokens=7)
    total = (await totals(harness))["total"]
    assert (total["input_tokens"], total["cached_input_tokens"], total["output_tokens"]) == (fresh, 400, 7)


async def test_a_session_without_a_run_counts_with_what_its_turns_reported(harness: Harness) -> None:
    session = await harness.open()
    await harness.begin(session)
    await harness.update(session, usage={"output_tokens": 3, "cost_usd": 0.1})
    await harness.open(title="used nothing")
    total = (await totals(harness))["total"]
    assert (total["sessions"], total["output_tokens"], total["cost_usd"]) == (1, 3, 0.1)


async def test_prices_given_later_price_what_nobody_priced_before(harness: Harness) -> None:
    session = await harness.open(model=PRICED)
    await harness.begin(session)
    await harness.update(session, usage={"input_tokens": 1_000_000, "output_tokens": 100_000})
    await harness.complete(session)
    await harness.call("close_session", {"session_id": session})
    assert (await totals(harness))["total"]["cost_usd"] == 7.5


async def test_totals_group_by_day_model_agent_caller_and_project(harness: Harness) -> None:
    await ended(harness, {"agent_id": "fixer", "cwd": "/work/webshop"}, total_cost_usd=1)
    harness.wait(days=1)
    await ended(harness, {"model": "other", "caller": "chat_interactive", "cwd": "/work/api"}, total_cost_usd=2)
    await harness.open(agent="Codex", pid=1)
    rows = {name: (await totals(harness, name))["rows"] for name in DIMENSIONS}
    assert [(row["day"], row["sessions"]) for row in rows["day"]] == [("2026-07-01", 1), ("2026-07-02", 2)]
    assert [row["model"] for row in rows["model"]] == ["other", PRICED, None]
    assert [row["agent"] for row in rows["agent"]] == ["ClaudeCode", "fixer", "Codex"]
    assert [row["caller"] for row in rows["caller"]] == ["chat_interactive", "headless_task", None]
    assert {row["project"] for row in rows["project"]} == {"webshop", "api", None}
    both = await totals(harness, "day", "model")
    assert [(row["day"], row["model"]) for row in both["rows"]] == [
        ("2026-07-01", PRICED),
        ("2026-07-02", None),
        ("2026-07-02", "other"),
    ]


async def test_tokens_count_on_the_day_on_which_they_were_used_and_a_session_on_its_first(harness: Harness) -> None:
    session = await harness.open(model=PRICED)
    await harness.begin(session)
    for tokens in (1, 2, 4):
        await harness.update(session, usage={"input_tokens": tokens, "output_tokens": tokens})
        harness.wait(days=1)
    await harness.complete(session)
    found = await totals(harness)
    assert [(row["day"], row["sessions"], row["input_tokens"]) for row in found["rows"]] == [
        ("2026-07-01", 1, 1),
        ("2026-07-02", 0, 2),
        ("2026-07-03", 0, 4),
    ]
    assert (found["total"]["sessions"], found["total"]["input_tokens"]) == (1, 7)
    for asked, expected in (
        ({"day": "2026-07-02"}, (0, 2)),
        ({"from": "2026-07-02"}, (0, 6)),
        ({"to": "2026-07-02"}, (1, 3)),
        ({"from": "2026-07-02T00:00:01Z", "to": "2026-07-02"}, (0, 2)),
    ):
        total = (await totals(harness, "model", **asked))["total"]
        assert (total["sessions"], total["input_tokens"]) == expected, asked


async def test_projects_of_one_name_are_told_apart_by_their_paths(harness: Harness) -> None:
    for cwd, cost in (("/work/ann/api", 1), ("/work/ann/api/", 2), ("/work/bob/api", 4), ("/work/webshop", 8)):
        await ended(harness, {"cwd": cwd}, total_cost_usd=cost)
    rows = (await totals(harness, "project", "day"))["rows"]
    assert [(row["project"], row["cost_usd"]) for row in rows] == [
        ("webshop", 8),
        ("/work/bob/api", 4),
        ("/work/ann/api", 3),
    ]
    assert [row["project"] for row in (await totals(harness, "project"))["rows"]] == [row["project"] for row in rows]


async def test_runs_are_listed_newest_first_and_filtered_by_everything_that_names_them(harness: Harness) -> None:
    first = await ended(harness, {"cwd": "/work/webshop", "agent_id": "fixer"}, returncode=1)
    harness.wait(days=1)
    second = await ended(harness, {"agent": "Codex", "model": "m2", "caller": "desktop_new_session"}, output_tokens=5)
    third = await harness.open(model="m3")
    await harness.open(title="no run at all")
    assert [item["session_id"] for item in await runs(harness)] == [third, second, first]
    for asked, expected in (
        ({"agent": "ClaudeCode"}, first),
        ({"agent_id": "fixer"}, first),
        ({"project": "webshop"}, first),
        ({"run_status": "failed"}, first),
        ({"day": "2026-07-01"}, first),
        ({"backend": "codex", "model": "m2"}, second),
        ({"caller": "desktop_new_session"}, second),
        ({"run_status": "running"}, third),
        ({"day": "today", "run_status": "running"}, third),
    ):
        assert [item["session_id"] for item in await runs(harness, **asked)] == [expected], asked
    [item] = await runs(harness, model="m2")
    assert item["usage"]["output_tokens"] == 5
    assert (item["run_id"], item["agent_id"]) == (2, "Codex")


async def test_days_and_dimensions_that_are_none_are_refused(harness: Harness) -> None:
    for day in ("yesterdayish", "2026-13-01", "2026-07-01T10:00:00Z"):
        with pytest.raises(InvalidParameter, match="day"):
            await runs(harness, day=day)
    with pytest.raises(InvalidParameter, match="one of day, model"):
        await totals(harness, "weekday")


async def test_bounds_are_those_of_the_start(harness: Harness) -> None:
    session = await harness.open(model=PRICED)
    harness.wait(days=2)
    await harness.begin(session)
    assert (await totals(harness, **{"from": "2026-07-02"}))["rows"] == []
    assert (await totals(harness, to="2026-07-01"))["total"]["sessions"] == 1


async def test_an_empty_store_has_no_rows_and_a_total_of_nothing_known(harness: Harness) -> None:
    found = await harness.read(lambda reader: total_usage(reader, harness.app.runs, Filter(), ["model"]))
    assert found["rows"] == []
    assert found["total"]["cost_usd"] is None


COSTS = st.one_of(st.none(), st.floats(min_value=0, max_value=1e6, allow_nan=False))


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 10**9), COSTS), max_size=30))
def test_groups_always_add_up_to_their_total(used: list[tuple[bool, int, float | None]]) -> None:
    groups = {True: Totals(), False: Totals()}
    total = Totals()
    for key, tokens, cost in used:
        each = Usage(input_tokens=tokens, cost_usd=cost)
        groups[key].add(any_session(), each)
        total.add(any_session(), each)
    items = [group.as_item() for group in groups.values()]
    whole = total.as_item()
    for name in ("sessions", "input_tokens", "cost_unknown"):
        assert sum(item[name] for item in items) == whole[name]
    known = [item["cost_usd"] for item in items if item["cost_usd"] is not None]
    assert (whole["cost_usd"] is None) == (not known)
    assert sum(known) == pytest.approx(whole["cost_usd"] or 0.0, abs=1e-6)


async def test_lists_and_searches_show_what_the_launcher_of_a_run_reported(harness: Harness) -> None:
    session = await harness.open(title="Heavy work", backend="codex", caller="headless_task")
    figures = {"input_tokens": 100, "cached_input_tokens": 40, "output_tokens": 5, "total_cost_usd": "0.5"}
    await harness.call("close_session", {"session_id": session, **figures})
    for asked in ({}, {"text": "heavy"}):
        (item,) = await harness.items(**asked)
        assert (item["tokens"], item["cost_usd"]) == (105, 0.5)
    assert (await harness.query(session_id=session))["session"]["tokens_total"] == 105
