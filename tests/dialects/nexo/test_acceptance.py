"""The acceptance cases of the nexo contract, one after another; number 13 is in `test_many_clients`."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from shiftlog.journal.journal import Journal
from shiftlog.journal.sessions import Sessions
from shiftlog.store.protocol import Reader
from tests.daemon.support import end_daemon
from tests.dialects.nexo.ledger import CLOSE, CREATE, LEAST, Ledger, open_ledger
from tests.journal.harness import Harness
from tests.story.agents import Agent, shiftlog, shiftlog_json

TOKEN = "ghp_" + "a1B2c3D4" * 4 + "e5F6"


@contextmanager
def child_process() -> Generator["subprocess.Popen[bytes]"]:
    """Run a process that lives until it is killed."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        yield child
        child.kill()


async def test_01_create_with_only_caller_and_backend_gives_an_id_the_tier_alto_and_a_running_run(
    ledger: Ledger,
) -> None:
    said = await ledger.create()
    assert isinstance(said["session_id"], int)
    assert said == {
        "ok": True,
        "session_id": said["session_id"],
        "resonance_tier": "alto",
        "session": "ClaudeCode-20260701T120000Z-desktop-new-session",
        "model": "opus",
        "reasoning_effort": "xhigh",
        "started": "2026-07-01T12:00:00Z",
        "warnings": [],
    }
    assert (await ledger.run(said["session_id"])).status == "running"


@pytest.mark.parametrize("given", [{"caller": "  "}, {"caller": ""}, {"caller": None}, {"backend": " "}])
async def test_02_a_blank_caller_or_backend_is_refused_in_the_exact_words_and_leaves_no_row(
    ledger: Ledger, given: dict[str, Any]
) -> None:
    said = await ledger.refused_create(**given)
    assert (said["code"], said["error"]) == ("invalid_parameter", "caller and backend are required")
    assert await ledger.rows() == 0


async def test_03_a_pid_is_stored_as_an_integer_whether_it_comes_as_one_or_as_text(ledger: Ledger) -> None:
    for pid in (4321, "4321"):
        said = await ledger.create(pid=pid)
        assert (await ledger.run(said["session_id"])).pid == 4321
    for empty in ("", None):
        said = await ledger.create(pid=empty)
        assert (await ledger.run(said["session_id"])).pid is None
    for bad in ("abc", "0", -1, 1.5, True):
        assert (await ledger.refused_create(pid=bad))["code"] == "invalid_parameter"


async def test_04_a_cost_is_stored_as_a_number_whether_it_comes_as_one_or_as_text(ledger: Ledger) -> None:
    for cost in (0.5, "0.5"):
        row = (await ledger.create())["session_id"]
        said = await ledger.close(row, total_cost_usd=cost)
        assert (said["total_cost_usd"], said["cost_source"]) == (0.5, "client")
        assert (await ledger.run(row)).total_cost_usd == 0.5
    row = (await ledger.create())["session_id"]
    for bad in ("nan", "-1", "abc", "inf", -0.5, True):
        assert (await ledger.refused_close(row, total_cost_usd=bad))["code"] == "invalid_parameter"


async def test_05_closing_an_id_that_was_never_issued_is_session_not_found(ledger: Ledger) -> None:
    await ledger.create()
    for never in (99_999_999, "99999999", 0, -5, "ClaudeCode-20200101T000000Z-nobody"):
        assert (await ledger.refused_close(never))["code"] == "session_not_found"


async def test_06_equal_figures_close_twice_and_different_ones_are_refused_leaving_the_row_unchanged(
    ledger: Ledger,
) -> None:
    row = (await ledger.create())["session_id"]
    figures = {"returncode": 0, "duration_ms": 5_000, "input_tokens": 10, "output_tokens": 3, "total_cost_usd": "0.25"}
    ledger.harness.wait(seconds=5)
    first = await ledger.close(row, **figures)
    stored = await ledger.session(row)
    ledger.harness.wait(minutes=5)
    assert await ledger.close(row, **figures, error="", telemetry_source="") == first
    assert await ledger.session(row) == stored
    others = ({"returncode": 1}, {"duration_ms": 6_000}, {"input_tokens": 11}, {"total_cost_usd": 0.26}, {"error": "x"})
    for other in others:
        said = await ledger.refused_close(row, **figures | other)
        assert said["code"] == "session_already_closed"
        assert next(iter(other)) in said["error"]
    assert await ledger.session(row) == stored


async def test_07_exit_code_0_with_an_error_is_failed_and_the_error_can_be_read(ledger: Ledger) -> None:
    said = await ledger.create()
    assert (await ledger.close(said["session_id"], returncode=0, error="user cancelled"))["status"] == "failed"
    [run] = await ledger.harness.items(kinds=["run"])
    assert (run["status"], run["returncode"], run["error"]) == ("failed", 0, "user cancelled")
    assert (await ledger.session(said["session_id"])).closing is not None


async def test_08_of_a_long_excerpt_2048_characters_are_kept_with_secrets_masked(ledger: Ledger) -> None:
    excerpt = (f"deploy with {TOKEN} now " + "x" * 5_000)[:5_000]
    run = await ledger.run((await ledger.create(context_excerpt=excerpt))["session_id"])
    assert run.prompt_chars == 5_000
    assert run.context_excerpt is not None
    assert len(run.context_excerpt) == 2_048
    assert TOKEN not in run.context_excerpt
    assert "[REDACTED" in run.context_excerpt


async def test_09_a_killed_child_makes_its_run_orphaned_within_one_sweep_and_resume_offers_it(ledger: Ledger) -> None:
    with child_process() as child:
        said = await ledger.create(pid=child.pid)
        await ledger.harness.app.sweep()
        assert (await ledger.run(said["session_id"])).status == "running"
    await ledger.harness.app.sweep()
    session = await ledger.session(said["session_id"])
    assert session.run is not None
    assert (session.run.status, session.state, session.suspended_cause) == ("orphaned", "suspended", "process_ended")
    assert "capsule.saved" in await ledger.harness.kinds(session.id)
    resumed = await ledger.harness.call("resume_session", {"agent_id": "ClaudeCode"})
    assert resumed["data"]["resumed_session_id"] == said["session"]


def _unlimited(reader: Reader, agent_id: str, now: datetime) -> list[dict[str, Any]]:
    return []


async def test_10_a_recycled_pid_is_still_orphaned(harness: Harness) -> None:
    with child_process() as child:
        # The row is written while another process has the pid: one that the kernel had started before.
        journal = Journal(harness.app.store, harness.app.redactor, harness.app.clock, harness.app.journal.holders)
        app = copy(harness.app)
        app.sessions = Sessions(journal, harness.app.config.runs, lambda pid: "started earlier", _unlimited)
        async with open_ledger(replace(harness, app=app)) as ledger:
            row = (await ledger.create(pid=child.pid))["session_id"]
            await harness.app.sweep()
            assert child.poll() is None, "the process with that pid is alive"
            assert (await ledger.run(row)).status == "orphaned"


async def test_11_the_same_idempotency_key_twice_leaves_one_row(ledger: Ledger) -> None:
    first = await ledger.create(idempotency_key="k", pid=77)
    assert await ledger.create(idempotency_key="k", pid="77", resonance_tier="") == first
    assert await ledger.rows() == 1
    said = await ledger.refused_create(idempotency_key="k", pid=78)
    assert said["code"] == "idempotency_conflict"
    assert (await ledger.create(idempotency_key="other", pid=77))["session_id"] != first["session_id"]


def test_12_a_server_restart_between_create_and_close_does_not_matter(home: Path) -> None:
    with Agent(home, "--dialect", "nexo") as agent:
        row = agent.call(CREATE, **LEAST)["session_id"]
    end_daemon(home)
    with Agent(home, "--dialect", "nexo") as agent:
        assert agent.call(CLOSE, session_id=row, returncode=0)["status"] == "ok"


def test_14_usage_counts_a_running_row_as_running_and_its_cost_as_unknown(home: Path) -> None:
    with Agent(home, "--dialect", "nexo") as agent:
        agent.call(CREATE, **LEAST)
    total = shiftlog_json(home, "usage")["total"]
    assert (total["sessions"], total["running"], total["failed"]) == (1, 1, 0)
    assert (total["cost_usd"], total["cost_unknown"]) == (None, 1)
    printed = shiftlog(home, "usage")
    assert "unknown" in printed
    assert "$" not in printed
