"""Spending limits: they warn, refuse only where the operator says so, and never touch what has begun."""

from pathlib import Path
from typing import Any

import pytest

from shiftlog.mcp.catalogue import registry_for
from shiftlog.mcp.registry import Selection
from shiftlog.mcp.server import build_server
from shiftlog.model.errors import SpendingLimitExceeded
from tests.journal.harness import Harness, client, open_harness
from tests.mcp.wire import connected

ALL = "[budgets]\nday_usd = 1.0\n"
OWN = "[budgets]\non_exceeded = 'refuse'\n[budgets.agents.Nightly]\nday_tokens = 100\n"


def with_settings(folder: Path, text: str) -> Path:
    home = folder / "home"
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text(text, encoding="utf-8")
    return home


async def spend(harness: Harness, agent_id: str = "Bench", **figures: Any) -> None:
    session = await harness.open(agent_id=agent_id, model="m", caller="headless_task")
    await harness.call("close_session", {"session_id": session, "returncode": 0, **figures})


async def warnings_of_opening(harness: Harness, agent_id: str = "Bench") -> list[str]:
    opened = await harness.call("open_session", {"agent": "ClaudeCode", "title": "Next", "agent_id": agent_id})
    return [warning["code"] for warning in opened["warnings"]]


async def test_a_limit_warns_when_it_is_nearly_spent_and_again_when_it_is_spent(tmp_path: Path) -> None:
    async with open_harness(with_settings(tmp_path, ALL)) as harness:
        await spend(harness, total_cost_usd=0.5)
        assert await warnings_of_opening(harness) == []
        await spend(harness, total_cost_usd=0.3)
        assert await warnings_of_opening(harness) == ["budget_near"]
        await spend(harness, total_cost_usd=0.2)
        assert await warnings_of_opening(harness) == ["budget_exceeded"]


async def test_four_fifths_are_four_fifths_in_cents_too(tmp_path: Path) -> None:
    async with open_harness(with_settings(tmp_path, "[budgets]\nday_usd = 0.1\n")) as harness:
        await spend(harness, total_cost_usd=0.07)
        assert await warnings_of_opening(harness) == []
        await spend(harness, total_cost_usd=0.01)
        assert await warnings_of_opening(harness) == ["budget_near"]


async def test_a_cost_that_is_not_known_makes_the_sum_a_lower_bound(tmp_path: Path) -> None:
    async with open_harness(with_settings(tmp_path, ALL)) as harness:
        await spend(harness, total_cost_usd=0.25)
        await spend(harness, input_tokens=5)
        now = harness.now()
        [state] = await harness.read(lambda reader: harness.app.spending_limits.states(reader, harness.app.runs, now))
        assert state["message"] == "all agents together have used at least $0.25 of $1.00 today (UTC)"


async def test_where_the_operator_says_so_nothing_new_is_opened_and_nothing_is_stored(tmp_path: Path) -> None:
    async with open_harness(with_settings(tmp_path, OWN)) as harness:
        await spend(harness, "Nightly", input_tokens=70, output_tokens=30)
        before = await harness.read(lambda reader: reader.session_ids())
        with pytest.raises(SpendingLimitExceeded, match="agent 'Nightly' has used 100 of 100 tokens today") as refused:
            await harness.open(agent_id="nightly")
        assert refused.value.details["unit"] == "tokens"
        # The same call works on the next day, and the error says when that begins.
        assert (refused.value.retryable, refused.value.details["resets_at"]) == (True, "2026-07-02T00:00:00Z")
        assert await harness.read(lambda reader: reader.session_ids()) == before
        assert await warnings_of_opening(harness, "Daily") == []


async def test_what_has_begun_goes_on_beyond_the_budget_and_a_new_day_starts_at_nothing(tmp_path: Path) -> None:
    async with open_harness(with_settings(tmp_path, OWN)) as harness:
        session = await harness.open(agent_id="Nightly")
        await harness.begin(session)
        await harness.update(session, usage={"input_tokens": 500})
        with pytest.raises(SpendingLimitExceeded):
            await harness.open(agent_id="Nightly")
        await harness.complete(session)
        harness.wait(hours=24)
        assert await warnings_of_opening(harness, "Nightly") == []


async def test_what_a_deleted_session_used_is_used_all_the_same(tmp_path: Path) -> None:
    async with open_harness(with_settings(tmp_path, OWN)) as harness:
        session = await harness.open(agent_id="Nightly")
        await harness.begin(session)
        await harness.update(session, usage={"input_tokens": 500})
        server = build_server(registry_for(harness.app), Selection(dialects=("mcpserver",)))
        async with connected(server, caller=client()) as peer:
            named = {"agent": "Codex", "sessionId": session}
            deleted = (await peer.call("sessionlog_delete_session", named))["result"]["structuredContent"]
        assert deleted["tombstoned"] is True
        with pytest.raises(SpendingLimitExceeded, match="agent 'Nightly' has used 500 of 100 tokens today"):
            await harness.open(agent_id="Nightly")
