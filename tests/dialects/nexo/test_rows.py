"""Rows of the ledger beyond the acceptance cases: what is derived, what late and odd closes do, what never leaks."""

import os
from pathlib import Path
from typing import Any

import pytest

from shiftlog.link import processes
from tests.dialects.nexo.ledger import LEAST, Ledger, open_ledger
from tests.journal.harness import Harness, client, files_holding, open_harness

TOKEN = "ghp_" + "a1B2c3D4" * 4 + "e5F6"


@pytest.mark.parametrize(
    ("backend", "agent", "provider"),
    [
        ("claude_code", "ClaudeCode", "anthropic"),
        ("codex", "Codex", "openai"),
        ("gemini_cli", "GeminiCli", "google"),
        ("opencode", "OpenCode", "opencode"),
        ("copilot_cli", "CopilotCli", "github"),
        ("cursor", "Cursor", "cursor"),
    ],
)
async def test_agent_kind_and_provider_follow_from_the_backend(
    ledger: Ledger, backend: str, agent: str, provider: str
) -> None:
    said = await ledger.create(backend=f" {backend} ")
    session = await ledger.session(said["session_id"])
    assert session.run is not None
    assert (session.agent, session.agent_id, session.title) == (agent, agent, "desktop_new_session")
    assert (session.run.backend, session.run.provider) == (backend, provider)


async def test_a_backend_that_the_operator_registered_is_known(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text('[runs.backends.our_cli]\nagent = "OurCli"\n')
    async with open_harness(home) as harness, open_ledger(harness) as ledger:
        said = await ledger.create(backend="our_cli")
        assert said["session"].startswith("OurCli-")
        assert (said["model"], said["reasoning_effort"]) == (None, None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("backend", "clippy"),
        ("backend", 7),
        ("session_type", "batch"),
        ("resonance_tier", "extremo"),
        ("caller", "x" * 201),
        ("model", "x" * 201),
        ("reasoning_effort", "x" * 41),
        ("cwd", "x" * 4_097),
        ("parent_session_id", "not an id"),
        ("callr", "x"),
    ],
)
async def test_a_value_outside_the_table_is_refused_by_name(ledger: Ledger, name: str, value: object) -> None:
    said = await ledger.refused_create(**{name: value})
    assert said["code"] == "invalid_parameter"
    assert name in said["error"] or name == "parent_session_id"


async def test_a_refused_backend_names_those_that_are_allowed(ledger: Ledger) -> None:
    said = await ledger.refused_create(backend="clippy")
    for name in ("claude_code", "codex", "gemini_cli", "opencode", "copilot_cli", "cursor"):
        assert name in said["error"]


async def test_model_and_effort_are_kept_as_given_and_follow_from_the_tier_otherwise(ledger: Ledger) -> None:
    given = await ledger.create(model="claude-opus-4-7[1m]", reasoning_effort="xhigh", resonance_tier="bajo")
    assert (given["model"], given["reasoning_effort"], given["resonance_tier"]) == (
        "claude-opus-4-7[1m]",
        "xhigh",
        "bajo",
    )
    left_out = await ledger.create(model="", reasoning_effort="", resonance_tier="muy_bajo", session_type="")
    assert (left_out["model"], left_out["reasoning_effort"]) == ("haiku", None)
    assert (await ledger.run(left_out["session_id"])).session_type == "interactive_desktop"


async def test_an_unregistered_caller_is_taken_with_a_warning(ledger: Ledger) -> None:
    said = await ledger.create(caller=" x ")
    assert said["warnings"] == ["caller 'x' is not registered; using the default tier 'alto'"]
    assert (await ledger.run(said["session_id"])).caller == "x"


async def test_without_a_directory_the_place_of_the_work_is_unknown_and_never_that_of_the_client(
    ledger: Ledger,
) -> None:
    session = await ledger.session((await ledger.create(cwd=""))["session_id"])
    assert session.run is not None
    assert (session.run.cwd, session.cwd, session.workspace) == (None, None, None)
    session = await ledger.session((await ledger.create(cwd="~/work"))["session_id"])
    assert session.run is not None
    assert session.run.cwd == session.cwd == str(Path("~/work").expanduser())


async def test_title_agent_id_and_parent_can_be_given_and_the_parent_by_either_name(ledger: Ledger) -> None:
    parent = await ledger.create(title="Nightly review", agent_id="reviewer")
    assert parent["session"].endswith("-nightly-review")
    for name in (parent["session_id"], str(parent["session_id"]), parent["session"]):
        child = await ledger.session((await ledger.create(parent_session_id=name))["session_id"])
        assert child.parent_session_id == parent["session"]
    assert (await ledger.session(parent["session_id"])).agent_id == "reviewer"


async def test_a_ledger_client_holds_no_lease_so_that_the_child_can_go_on_with_its_session(harness: Harness) -> None:
    async with open_ledger(harness) as ledger:
        said = await ledger.create()
        assert await harness.read(lambda reader: reader.lease(said["session"])) is None
        child = client("child")
        resumed = await harness.call("resume_session", {"agent_id": "ClaudeCode"}, child)
        assert resumed["data"]["resumed_session_id"] == said["session"]
        await harness.begin(said["session"], child)


async def test_a_repeated_create_names_its_row_whatever_became_of_it(harness: Harness) -> None:
    async with open_ledger(harness) as ledger:
        held, idle, closed = [await ledger.create(idempotency_key=key) for key in ("held", "idle", "closed")]
        await ledger.close(closed["session_id"], returncode=3)
        harness.wait(hours=2)
        await harness.app.sweep()
        named = {"agent_id": "ClaudeCode", "session_id": held["session"]}
        await harness.call("resume_session", named, client("child"))
        before = harness.rows()
        for key, first in (("held", held), ("idle", idle), ("closed", closed)):
            assert await ledger.create(idempotency_key=key) == first
        assert harness.rows() == before
        assert (await ledger.run(idle["session_id"])).status == "orphaned"


async def test_the_close_ends_run_and_session_and_says_why(ledger: Ledger) -> None:
    ends: list[tuple[dict[str, Any], str, str]] = [
        ({"returncode": 0}, "ok", "completed"),
        ({"returncode": 3}, "failed", "failed"),
        ({"returncode": 0, "error": "boom"}, "failed", "failed"),
        ({"returncode": 130}, "cancelled", "manual"),
        ({"returncode": -15}, "cancelled", "manual"),
        ({"returncode": 143, "error": "boom"}, "failed", "failed"),
        ({}, "ok", "completed"),
    ]
    for figures, status, reason_class in ends:
        row = (await ledger.create())["session_id"]
        assert (await ledger.close(row, **figures))["status"] == status
        session = await ledger.session(row)
        assert session.closing is not None
        assert (session.state, session.closing.reason_class) == ("closed", reason_class)
        receipts = await ledger.harness.read(lambda reader, name=session.id: reader.receipts(name))
        assert [receipt.head_hash for receipt in receipts] == [session.head_hash]


async def test_a_row_can_be_closed_by_either_of_its_names(ledger: Ledger) -> None:
    for name in ("session_id", "session"):
        said = await ledger.create()
        assert (await ledger.close(said[name]))["session"] == said["session"]


async def test_a_malformed_id_is_an_invalid_parameter(ledger: Ledger) -> None:
    for name in ("nonsense", "", None, True, 1.5, [7]):
        assert (await ledger.refused_close(name))["code"] == "invalid_parameter"


async def test_a_session_without_a_run_was_never_issued_by_the_ledger(ledger: Ledger) -> None:
    name = await ledger.harness.open()
    assert (await ledger.refused_close(name))["code"] == "session_not_found"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("returncode", "x"),
        ("duration_ms", -1),
        ("input_tokens", -1),
        ("cached_input_tokens", "x"),
        ("output_tokens", 1.5),
        ("telemetry_source", "x" * 101),
        ("cost_source", "x" * 101),
        ("exit_code", 1),
    ],
)
async def test_a_figure_outside_its_limits_leaves_the_run_running(ledger: Ledger, name: str, value: object) -> None:
    row = (await ledger.create())["session_id"]
    said = await ledger.refused_close(row, **{name: value})
    assert said["code"] == "invalid_parameter"
    assert name in said["error"]
    assert (await ledger.run(row)).status == "running"


async def test_a_duration_of_zero_is_derived_and_one_far_off_is_kept_with_a_warning(ledger: Ledger) -> None:
    derived, near, off = [(await ledger.create())["session_id"] for _ in range(3)]
    ledger.harness.wait(seconds=100)
    assert (await ledger.close(derived, duration_ms=0))["duration_ms"] == 100_000
    assert (await ledger.close(near, duration_ms=109_000))["warnings"] == []
    said = await ledger.close(off, duration_ms=120_000)
    assert said["duration_ms"] == 120_000
    assert said["warnings"] == ["duration_ms is more than 10 % off the 100000 ms seen here"]


async def test_a_cost_that_is_not_given_is_priced_from_the_tokens_each_counted_once(ledger: Ledger) -> None:
    tokens = {"input_tokens": 1_000_000, "cached_input_tokens": 400_000, "output_tokens": 100_000}
    row = (await ledger.create(backend="codex", model="gpt-5.6-sol"))["session_id"]
    said = await ledger.close(row, **tokens)
    assert (said["total_cost_usd"], said["cost_source"]) == (0.6 * 5 + 0.4 * 0.5 + 0.1 * 30, "prices")
    row = (await ledger.create(backend="claude_code", model="claude-opus-4-7[1m]"))["session_id"]
    said = await ledger.close(row, **tokens)
    assert (said["total_cost_usd"], said["warnings"]) == (1.0 * 5 + 0.4 * 0.5 + 0.1 * 25, [])


async def test_a_model_without_a_price_costs_an_unknown_amount_and_never_nothing(ledger: Ledger) -> None:
    row = (await ledger.create(model="house-blend-3"))["session_id"]
    said = await ledger.close(row, input_tokens=10, cost_source="none")
    assert (said["total_cost_usd"], said["cost_source"]) == (None, "none")
    assert said["warnings"] == ["model 'house-blend-3' has no price; the cost is unknown"]


async def test_without_tokens_nothing_is_priced(ledger: Ledger) -> None:
    said = await ledger.close((await ledger.create())["session_id"], input_tokens=0, output_tokens=0)
    assert (said["total_cost_usd"], said["cost_source"], said["warnings"]) == (None, None, [])


async def test_a_late_close_of_an_orphaned_run_lands_and_wins(ledger: Ledger) -> None:
    row = (await ledger.create())["session_id"]
    ledger.harness.wait(hours=2)
    await ledger.harness.app.sweep()
    assert (await ledger.run(row)).status == "orphaned", "without a pid the idle limit applies"
    said = await ledger.close(row, returncode=0, output_tokens=5)
    assert said["status"] == "ok"
    session = await ledger.session(row)
    assert session.run is not None
    assert (session.state, session.run.output_tokens) == ("closed", 5)
    assert (await ledger.refused_close(row, returncode=1))["code"] == "session_already_closed"


async def test_a_close_after_the_agent_closed_its_own_session_still_brings_the_figures(ledger: Ledger) -> None:
    said = await ledger.create()
    await ledger.harness.call("close_session", {"session_id": said["session"], "reason": "done"})
    assert (await ledger.run(said["session_id"])).status == "ok"
    assert (await ledger.close(said["session_id"], returncode=2, input_tokens=9))["status"] == "failed"
    session = await ledger.session(said["session_id"])
    assert session.closing is not None
    assert (session.state, session.closing.reason) == ("closed", "done"), "how the session closed stays"
    assert [found.ok for found in await ledger.harness.verify()] == [True]
    assert [rebuilt.changed for rebuilt in await ledger.harness.rebuild()] == [False]


async def test_figures_reach_a_session_in_which_somebody_works_without_closing_it(ledger: Ledger) -> None:
    said = await ledger.create()
    await ledger.harness.call("resume_session", {"agent_id": "ClaudeCode"}, client("next-shift"))
    closed = await ledger.close(said["session_id"], returncode=0)
    assert (closed["status"], closed["warnings"]) == ("ok", ["Somebody works in the session, so it stays open"])
    assert (await ledger.session(said["session_id"])).state == "open"


async def test_secrets_are_masked_in_every_text_and_in_what_a_refusal_repeats(ledger: Ledger) -> None:
    texts = ("caller", "model", "reasoning_effort", "cwd", "context_excerpt", "title")
    row = (await ledger.create(**dict.fromkeys(texts, TOKEN)))["session_id"]
    await ledger.close(row, error=f"failed with {TOKEN}", telemetry_source=TOKEN, cost_source=TOKEN)
    assert "[REDACTED" in str((await ledger.run(row)).error)
    said = await ledger.refused_create(**{TOKEN: "x"})
    assert TOKEN not in said["error"]
    said = await ledger.refused_close(TOKEN)
    assert TOKEN not in said["error"]
    assert files_holding(ledger.harness.home, TOKEN) == []


async def test_a_very_long_error_is_cut_instead_of_losing_the_close(ledger: Ledger) -> None:
    row = (await ledger.create())["session_id"]
    error = "line of output\n" * 20_000
    assert (await ledger.close(row, returncode=1, error=error))["status"] == "failed"
    assert (await ledger.run(row)).error == error[:65_536]
    assert (await ledger.close(row, returncode=1, error=error))["ok"], "and the same again is the same"


async def test_a_run_is_seen_by_the_start_of_its_process_and_not_by_its_pid_alone(ledger: Ledger) -> None:
    row = (await ledger.create(pid=os.getpid()))["session_id"]
    assert (await ledger.run(row)).pid_started == processes.started()
    ledger.harness.wait(hours=2)
    await ledger.harness.app.sweep()
    session = await ledger.session(row)
    assert session.run is not None
    assert (session.state, session.run.status) == ("suspended", "running"), "idle, but the process lives"


async def test_both_revisions_say_the_same(harness: Harness) -> None:
    said: list[Any] = []
    for revision in ("2025-11-25", "2026-07-28"):
        async with open_ledger(harness, revision=revision) as ledger:
            made = await ledger.create(title=f"By {revision}")
            said.append([{**LEAST}, sorted(made), await ledger.refused_create(caller="")])
    assert said[0] == said[1]


async def test_exit_codes_and_process_ids_of_every_system_are_taken(ledger: Ledger) -> None:
    said = await ledger.create(pid=2**32 - 4)
    assert (await ledger.run(said["session_id"])).pid == 2**32 - 4
    assert (await ledger.close(said["session_id"], returncode=0xC000013A))["status"] == "failed"
    assert (await ledger.run(said["session_id"])).returncode == 0xC000013A


@pytest.mark.parametrize("cost", ["1_000", "１", "1,5", "0x1", "infinity", "1e400", "--1", "."])
async def test_a_cost_as_text_is_a_decimal_number_and_nothing_else(ledger: Ledger, cost: str) -> None:
    said = await ledger.create()
    assert (await ledger.refused_close(said["session_id"], total_cost_usd=cost))["code"] == "invalid_parameter"


@pytest.mark.parametrize(
    ("cost", "dollars"), [(" 0.5 ", 0.5), ("1e-3", 0.001), (".25", 0.25), ("+2.", 2.0), ("0", 0.0)]
)
async def test_a_cost_as_text_may_have_any_spelling_of_a_decimal(ledger: Ledger, cost: str, dollars: float) -> None:
    said = await ledger.create()
    assert (await ledger.close(said["session_id"], total_cost_usd=cost))["total_cost_usd"] == dollars


async def test_figures_that_were_derived_may_be_stated_as_they_were_told(ledger: Ledger) -> None:
    said = await ledger.create(model="claude-opus-4-7")
    ledger.harness.wait(seconds=10)
    first = await ledger.close(said["session_id"], input_tokens=1000)
    told = {name: first[name] for name in ("duration_ms", "total_cost_usd")}
    assert (told["duration_ms"], first["cost_source"]) == (10_000, "prices")
    assert await ledger.close(said["session_id"], input_tokens=1000, **told) == first
    other = told | {"duration_ms": 10_001}
    refused = await ledger.refused_close(said["session_id"], input_tokens=1000, **other)
    assert (refused["code"], "duration_ms differ" in refused["error"]) == ("session_already_closed", True)


async def test_an_integer_that_was_never_issued_is_not_found_however_large(ledger: Ledger) -> None:
    for name in (2**63, 10**30):
        refused = await ledger.refused_close(name)
        assert (refused["code"], refused["error"]) == ("session_not_found", f"Session not found: {name}")


async def test_a_cost_may_be_any_finite_number_and_a_negative_zero_is_none(ledger: Ledger) -> None:
    row = await ledger.create()
    assert (await ledger.close(row["session_id"], total_cost_usd=10**17))["total_cost_usd"] == 1e17
    row = await ledger.create()
    assert str((await ledger.close(row["session_id"], total_cost_usd="-0.0"))["total_cost_usd"]) == "0.0"
    row = await ledger.create()
    assert (await ledger.refused_close(row["session_id"], total_cost_usd=10**400))["code"] == "invalid_parameter"


async def test_a_model_is_kept_as_given_even_where_its_name_says_nothing(ledger: Ledger) -> None:
    row = await ledger.create(model="unknown", reasoning_effort="None")
    assert (row["model"], row["reasoning_effort"]) == ("unknown", "None")


async def test_the_integer_of_a_row_may_come_as_a_number_with_a_point(ledger: Ledger) -> None:
    row = await ledger.create()
    assert (await ledger.close(float(row["session_id"])))["session"] == row["session"]


async def test_a_caller_is_trimmed_before_it_is_measured(ledger: Ledger) -> None:
    row = await ledger.create(caller=f" {'x' * 200}\n")
    assert (await ledger.run(row["session_id"])).caller == "x" * 200
    assert (await ledger.refused_create(caller="x" * 201))["code"] == "invalid_parameter"


async def test_bytes_that_are_no_text_cost_neither_the_row_nor_its_close(ledger: Ledger) -> None:
    row = await ledger.create(context_excerpt="Fix \x00 it\x7f")
    closed = await ledger.close(row["session_id"], returncode=1, error="Segfault\x1a at \x00\x01")
    run = await ledger.run(row["session_id"])
    assert (run.context_excerpt, run.prompt_chars) == ("Fix \ufffd it\ufffd", 9)
    assert (closed["status"], run.error) == ("failed", "Segfault\ufffd at \ufffd\ufffd")
    assert (await ledger.close(row["session_id"], returncode=1, error="Segfault\x1a at \x00\x01")) == closed
    row = await ledger.create()
    assert (await ledger.close(row["session_id"], error="e" * 1_200_000))["status"] == "failed"
