"""Runs: how they end with figures and without, when they are given up, and what brings them back."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from shiftlog.app.app import App
from shiftlog.journal.runs.service import LOOKED_AT_ONCE
from shiftlog.model.nouns import Run
from tests.journal.harness import Harness, client, open_harness


@contextmanager
def child_process() -> Generator["subprocess.Popen[bytes]"]:
    """Run a process that lives until it is killed."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        yield child
        child.kill()


async def run_of(harness: Harness, session_id: str) -> Run:
    run = (await harness.session(session_id)).run
    assert run is not None
    return run


async def close(harness: Harness, session_id: str, **figures: Any) -> list[str]:
    """Close a session natively and return the codes of the warnings."""
    answered = await harness.call("close_session", {"session_id": session_id, **figures})
    return [warning["code"] for warning in answered["warnings"]]


async def intact(harness: Harness) -> bool:
    """Tell whether the chains verify and rebuilding changes nothing."""
    found, rebuilt = await harness.verify(), await harness.rebuild()
    return all(finding.ok for finding in found) and not any(done.changed for done in rebuilt)


# Ending


async def test_a_close_without_figures_ends_the_run_well_with_an_exit_code_that_nobody_stated(harness: Harness) -> None:
    session = await harness.open(model="m")
    harness.wait(seconds=30)
    assert await close(harness, session) == []
    run = await run_of(harness, session)
    assert (run.status, run.returncode, run.duration_ms, run.derived) == ("ok", None, 30_000, ("duration_ms",))
    assert run.total_cost_usd is None


async def test_stated_figures_are_kept_and_derived_ones_are_named(harness: Harness) -> None:
    session = await harness.open(model="claude-opus-4-5", agent="ClaudeCode")
    harness.wait(seconds=10)
    assert await close(harness, session, input_tokens=100, output_tokens=0, telemetry_source="otel") == []
    run = await run_of(harness, session)
    assert (run.returncode, run.input_tokens, run.output_tokens, run.cached_input_tokens) == (0, 100, 0, None)
    assert (run.total_cost_usd, run.cost_source, run.telemetry_source) == (0.0005, "prices", "otel")
    assert run.derived == ("duration_ms", "total_cost_usd", "cost_source")


async def test_a_second_close_with_the_same_figures_warns_of_nothing_and_with_others_keeps_the_first(
    harness: Harness,
) -> None:
    session = await harness.open(model="m")
    assert await close(harness, session, returncode=1, error="boom") == []
    first = await run_of(harness, session)
    for figures, warnings in (
        ({"returncode": "1", "error": "boom", "input_tokens": 0}, []),
        ({}, []),
        ({"returncode": 0}, ["run_ended"]),
    ):
        await harness.call("resume_session", {"agent_id": "Codex"})
        assert await close(harness, session, **figures) == warnings
        assert await run_of(harness, session) == first
    assert await intact(harness)


async def test_figures_still_reach_a_run_that_ended_without_any(harness: Harness) -> None:
    session = await harness.open(model="m")
    await close(harness, session)
    await harness.call("resume_session", {"agent_id": "Codex"})
    assert await close(harness, session, returncode=3) == []
    run = await run_of(harness, session)
    assert (run.status, run.returncode) == ("failed", 3)


async def test_prices_of_the_operator_count_and_a_model_without_one_draws_a_warning(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text('[runs.prices."house-blend"]\ninput = 1\noutput = 2\n')
    async with open_harness(home) as harness:
        ours, unknown = await harness.open(model="house-blend"), await harness.open(model="nobody-knows")
        assert await close(harness, ours, input_tokens=1_000_000, output_tokens=500_000) == []
        assert (await run_of(harness, ours)).total_cost_usd == 2.0
        assert await close(harness, unknown, input_tokens=1) == ["unknown_model_price"]
        assert (await run_of(harness, unknown)).total_cost_usd is None


# Giving up


async def test_a_run_without_a_pid_is_given_up_for_silence_and_comes_back_with_a_sign_of_life(harness: Harness) -> None:
    session = await harness.open(model="m")
    harness.wait(hours=2)
    await harness.app.sweep()
    assert (await run_of(harness, session)).status == "orphaned"
    await harness.begin(session)
    assert (await run_of(harness, session)).status == "running"
    await close(harness, session)
    assert (await run_of(harness, session)).status == "ok"
    assert await intact(harness)


async def test_a_run_whose_process_is_gone_stays_orphaned_whoever_goes_on_with_its_session(harness: Harness) -> None:
    with child_process() as child:
        session = await harness.open(pid=child.pid)
    await harness.app.sweep()
    await harness.call("resume_session", {"agent_id": "Codex"}, client())
    await harness.app.sweep()
    assert (await harness.session(session)).state == "open", "the next shift is not suspended for a former process"
    await close(harness, session, fence=2)
    run = await run_of(harness, session)
    assert (run.status, run.returncode) == ("orphaned", None)
    assert await intact(harness)


async def test_a_process_that_ends_after_its_session_was_suspended_still_orphans_the_run(harness: Harness) -> None:
    with child_process() as child:
        session = await harness.open(pid=child.pid)
        harness.wait(hours=2)
        await harness.app.sweep()
        assert ((await harness.session(session)).state, (await run_of(harness, session)).status) == (
            "suspended",
            "running",
        )
    await harness.app.sweep()
    assert (await run_of(harness, session)).status == "orphaned"
    assert (await harness.kinds(session)).count("session.suspended") == 1


async def test_giving_a_run_up_is_no_activity_and_happens_once(harness: Harness) -> None:
    with child_process() as child:
        session = await harness.open(pid=child.pid)
        before = (await harness.session(session)).last_activity
    harness.wait(minutes=5)
    await harness.app.sweep()
    entries = await harness.kinds(session)
    await harness.app.sweep()
    assert await harness.kinds(session) == entries
    assert entries.count("run.updated") == 1
    assert (await harness.session(session)).last_activity == before


async def test_a_holder_that_is_gone_does_not_orphan_a_run_whose_own_process_lives(harness: Harness) -> None:
    with child_process() as child:
        session = await harness.open(client("bridge"), pid=child.pid)
        await harness.app.continuity.client_gone("client-bridge")
        await harness.app.sweep()
        assert ((await harness.session(session)).state, (await run_of(harness, session)).status) == (
            "suspended",
            "running",
        )


async def test_a_process_on_another_host_cannot_be_seen_so_that_only_silence_counts(harness: Harness) -> None:
    with child_process() as child:
        session = await harness.open(client(host="elsewhere", holds_leases=False), pid=child.pid)
    await harness.app.sweep()
    assert (await run_of(harness, session)).status == "running"
    harness.wait(hours=2)
    await harness.app.sweep()
    assert (await run_of(harness, session)).status == "orphaned"


async def test_a_process_that_was_gone_before_its_row_was_written_is_orphaned(harness: Harness) -> None:
    with child_process() as child:
        pass
    session = await harness.open(pid=child.pid)
    assert (await run_of(harness, session)).pid_started is None
    await harness.app.sweep()
    assert (await run_of(harness, session)).status == "orphaned"


async def test_the_sweep_sees_every_running_run_however_many_there_are(harness: Harness) -> None:
    with child_process() as child:
        oldest = await harness.open(pid=child.pid)
        harness.wait(seconds=1)
        with child_process() as other:
            for _ in range(LOOKED_AT_ONCE + 5):
                await harness.open(pid=other.pid)
            assert await gone(harness.app) == []
            child.kill()
            child.wait()
            assert await gone(harness.app) == [oldest]


async def gone(app: App) -> list[str]:
    return await app.store.read(app.runs.gone)


async def test_running_runs_are_found_through_their_own_index(harness: Harness) -> None:
    await harness.open(model="m")
    with harness.database() as database:
        sql = (
            "EXPLAIN QUERY PLAN SELECT s.doc FROM sessions s WHERE s.hidden = 0 AND s.run_status = 'running'"
            " AND s.run_alias IS NOT NULL ORDER BY s.active_ms DESC, s.key DESC LIMIT 5"
        )
        plan = " ".join(str(row[3]) for row in database.execute(sql))
    assert "sessions_running" in plan


@pytest.mark.parametrize("figures", [{}, {"returncode": 0, "input_tokens": 3}])
async def test_an_orphaned_run_takes_figures_and_nothing_less(harness: Harness, figures: dict[str, Any]) -> None:
    with child_process() as child:
        session = await harness.open(pid=child.pid)
    await harness.app.sweep()
    await close(harness, session, **figures)
    assert (await run_of(harness, session)).status == ("ok" if figures else "orphaned")
