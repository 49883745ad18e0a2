"""Closing and resuming in their plain form: results, repeats, figures of the run, selection and its errors."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from shiftlog.model.caller import LIBRARY
from tests.journal.harness import Harness, client, open_harness, row_id, tamper

VENDOR = "e4ee2456-8a54-4492-9915-1904d6b2966a"


async def close(harness: Harness, session: str, **arguments: Any) -> dict[str, Any]:
    return await harness.call("close_session", {"session_id": session, **arguments})


async def resume(harness: Harness, agent_id: str = "Codex", **arguments: Any) -> dict[str, Any]:
    return await harness.call("resume_session", {"agent_id": agent_id, **arguments})


async def worked(harness: Harness, **arguments: Any) -> str:
    """Open a session with a completed, a failed and an open turn."""
    session = await harness.open(**arguments)
    for finish in (harness.complete, harness.fail):
        await harness.begin(session)
        await harness.update(
            session,
            dialog=[{"role": "model", "category": "decision", "content": "Decision: lock"}],
            actions=[{"description": "Edit", "type": "edit", "status": "pending", "file_path": "./a.py"}],
            files_modified=["b.py"],
            token_count=100,
        )
        await finish(session)
    await harness.begin(session, query_title="Still open")
    return session


# Closing


async def test_a_plain_close_gives_reason_policy_receipt_summary_and_capsule(harness: Harness) -> None:
    session = await worked(harness, title="Fix the cache")
    harness.wait(hours=8)
    answered = await close(harness, session)
    now = await harness.session(session)
    data = answered.pop("data")
    assert answered == {
        "ok": True,
        "tool_name": "close_session",
        "session_id": session,
        "agent_id": "Codex",
        "status": "closed",
        "warnings": [],
    }
    capsule, receipt, token = data.pop("capsule"), data.pop("receipt"), data.pop("recovery_token")
    assert data == {
        "session_id": session,
        "agent_id": "Codex",
        "status": "closed",
        "state": "closed",
        "reason": "manual_close",
        "reason_class": "manual",
        "closed_at": "2026-07-01T20:00:00Z",
        "succession_policy": "successor_allowed",
        "closed_without_successor": False,
        "successor_deadline": None,
        "epitaph_created": False,
        "closing_note": None,
        "summary": {
            "turns_total": 3,
            "turns_completed": 1,
            "turns_failed": 1,
            "turns_open": 1,
            "dialog_items": 2,
            "actions_total": 2,
            "files_modified": 1,
            "tokens_total": 200,
            "duration_seconds": 28_800,
            "messages_total": 2,
            "failures_processed": 1,
            "pending_outcomes": 3,
        },
        "head_hash": now.head_hash,
        "entry_count": now.head_seq,
        "recovery_token_expires_at": "2026-07-31T20:00:00Z",
        "next_action": {"name": "resume_session", "arguments": {"agent_id": "Codex", "recovery_token": token}},
    }
    assert receipt["seq"] == now.head_seq
    assert receipt["head_hash"] == now.head_hash
    assert capsule["goal"]["text"] == "Fix the cache"
    assert (await harness.kinds(session))[-2:] == ["capsule.saved", "session.closed"]
    assert (await harness.turn(session)).status == "in_progress"


async def test_the_next_action_of_a_close_succeeds_as_it_stands(harness: Harness) -> None:
    session = await harness.open(title="First")
    await harness.open(title="Another one of the same agent")
    action = (await close(harness, session))["data"]["next_action"]
    resumed = await harness.call(action["name"], action["arguments"])
    assert resumed["data"]["resumed_session_id"] == session
    example = resumed["data"]["how_to_reattach"]["next_call_example"]
    assert (await harness.call(example["name"], example["arguments"]))["session"]["session_id"] == session


async def test_the_summary_can_be_left_out_and_nothing_else_goes_with_it(harness: Harness) -> None:
    session = await worked(harness)
    other = await worked(harness)
    with_it, without = await close(harness, session), await close(harness, other, include_summary="no")
    assert with_it["data"].keys() - without["data"].keys() == {"summary"}


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("end_of_shift", "end_of_shift"),
        ("End of shift", "end_of_shift"),
        ("DONE", "completed"),
        ("task-completed", "completed"),
        ("crash", "failed"),
        ("kill -9 of hung worker, config overwrite", "other"),
        (" done ", "other"),
        ("two\nlines", "other"),
    ],
)
async def test_a_reason_is_kept_as_given_and_classed_by_equality(harness: Harness, reason: str, kind: str) -> None:
    data = (await close(harness, await harness.open(), reason=reason))["data"]
    assert (data["reason"], data["reason_class"]) == (reason, kind)


async def test_a_closing_note_is_kept_and_a_blank_one_is_none(harness: Harness) -> None:
    data = (await close(harness, await harness.open(), epitaph="Cache bug narrowed\nto eviction."))["data"]
    assert (data["epitaph_created"], data["closing_note"]) == (True, "Cache bug narrowed\nto eviction.")
    data = (await close(harness, await harness.open(), epitaph="  ", reason=" "))["data"]
    assert (data["epitaph_created"], data["closing_note"], data["reason"]) == (False, None, "manual_close")


async def test_closing_again_writes_nothing_and_returns_the_first_close(harness: Harness) -> None:
    session = await harness.open()
    first = await close(harness, session, reason="done", epitaph="First note")
    rows = harness.rows()
    harness.wait(hours=1)
    again = await close(harness, session, reason="other", epitaph="Second note")
    assert harness.rows() == rows
    assert again["status"] == again["data"]["status"] == "already_closed"
    assert [warning["code"] for warning in again["warnings"]] == ["epitaph_ignored"]
    for name in ("reason", "closing_note", "closed_at", "receipt", "head_hash", "entry_count"):
        assert again["data"][name] == first["data"][name]
    assert (await close(harness, session, epitaph="First note"))["warnings"] == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("reason", "x" * 4_001),
        ("epitaph", "x" * 20_001),
        ("include_summary", "perhaps"),
        ("on_held", "fork"),
        ("returncode", "x"),
        ("duration_ms", -1),
        ("input_tokens", -1),
        ("total_cost_usd", "nan"),
        ("total_cost_usd", "-1"),
        ("total_cost_usd", "abc"),
        ("telemetry_source", "x" * 101),
    ],
)
async def test_a_value_outside_its_rule_leaves_the_session_open(harness: Harness, name: str, value: object) -> None:
    session = await harness.open()
    error = await harness.refusal("close_session", {"session_id": session, name: value})
    assert error.details["parameter"] == name
    assert (await harness.session(session)).state == "open"


async def test_close_needs_a_session(harness: Harness) -> None:
    for given in ({}, {"session_id": None}, {"session_id": " "}):
        error = await harness.refusal("close_session", given)
        assert error.message == "Parameter 'session_id' cannot be null or empty"


# The run's figures


async def test_figures_of_the_run_are_recorded_with_the_close(harness: Harness) -> None:
    session = await harness.open(caller="headless_task")
    harness.wait(seconds=10)
    figures = {"returncode": "0", "duration_ms": 10_000, "input_tokens": 5, "output_tokens": 7, "total_cost_usd": "0.5"}
    assert (await close(harness, session, **figures))["warnings"] == []
    [run] = await harness.items(kinds=["run"])
    assert (run["status"], run["returncode"], run["duration_ms"]) == ("ok", 0, 10_000)
    assert (run["input_tokens"], run["output_tokens"], run["total_cost_usd"]) == (5, 7, 0.5)
    assert (run["cost_source"], run["ended"]) == ("client", "2026-07-01T12:00:10Z")


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({}, "ok"),
        ({"returncode": 1}, "failed"),
        ({"returncode": -15}, "cancelled"),
        ({"error": "user cancelled"}, "failed"),
        ({"returncode": 0, "error": ""}, "ok"),
    ],
)
async def test_exit_code_and_error_say_how_the_run_ended(harness: Harness, given: dict[str, Any], status: str) -> None:
    session = await harness.open(model="m")
    await close(harness, session, **given)
    [run] = await harness.items(kinds=["run"], run_status=status)
    assert run["status"] == status


async def test_a_duration_is_derived_and_one_that_is_far_off_is_kept_with_a_warning(harness: Harness) -> None:
    one, other = await harness.open(model="m"), await harness.open(model="m")
    harness.wait(seconds=100)
    await close(harness, one)
    run = (await harness.session(one)).run
    assert run is not None
    assert run.duration_ms == 100_000
    warnings = (await close(harness, other, duration_ms=50_000))["warnings"]
    assert [warning["code"] for warning in warnings] == ["duration_differs"]
    run = (await harness.session(other)).run
    assert run is not None
    assert run.duration_ms == 50_000


async def test_figures_without_a_run_or_after_its_end_are_named_as_ignored(harness: Harness) -> None:
    plain = await close(harness, await harness.open(), returncode=0)
    assert [warning["code"] for warning in plain["warnings"]] == ["no_run"]
    session = await harness.open(model="m")
    await close(harness, session, returncode=1)
    await resume(harness, session_id=session)
    again = await close(harness, session, returncode=0)
    assert [warning["code"] for warning in again["warnings"]] == ["run_ended"]
    run = (await harness.session(session)).run
    assert run is not None
    assert run.returncode == 1


# Resuming


async def test_a_closed_session_is_reopened_under_its_own_id_with_the_capsule(harness: Harness) -> None:
    session = await worked(harness, title="Fix the cache", vendor_session_id=VENDOR)
    await close(harness, session)
    harness.wait(hours=14)
    answered = await harness.call("resume_session", {"agent_id": " CODEX "}, client())
    data = answered["data"]
    now = await harness.session(session)
    assert (answered["ok"], answered["status"], answered["agent_id"]) == (True, "resumed", "Codex")
    assert {
        name: data[name] for name in ("resumed_session_id", "resume_mode", "state_before", "state", "is_active")
    } == {
        "resumed_session_id": session,
        "resume_mode": "reopened",
        "state_before": "closed",
        "state": "open",
        "is_active": True,
    }
    assert data["lease"] == {"fence": 2, "expires_at": "2026-07-02T02:02:00Z"}
    assert data["last_activity"] == "2026-07-01T12:00:00Z"
    assert data["vendor_resume"] == f"codex resume {VENDOR}"
    assert (data["head_hash"], data["entry_count"]) == (now.head_hash, now.head_seq)
    assert data["capsule"]["open_turn"]["query_title"] == "Still open"
    assert data["continuity_signals"]["open_turn"] is True
    assert await harness.begin(session, client())
    assert (await harness.kinds(session))[-5:-2] == ["session.closed", "session.resumed", "lease.taken"]


async def test_an_open_or_suspended_session_is_reattached(harness: Harness) -> None:
    session = await harness.open()
    assert (await resume(harness))["data"]["state_before"] == "open"
    harness.wait(hours=2)
    await harness.app.sweep()
    data = (await resume(harness))["data"]
    assert (data["resumed_session_id"], data["state_before"], data["resume_mode"]) == (
        session,
        "suspended",
        "reattached",
    )


async def test_a_vendor_command_is_shown_only_where_it_is_known_and_always_quoted(harness: Harness) -> None:
    await harness.open(agent="ClaudeCode", vendor_session_id="$(rm -rf ~)")
    assert (await resume(harness, "ClaudeCode"))["data"]["vendor_resume"] == "claude --resume '$(rm -rf ~)'"
    await harness.open(agent="MyBot", vendor_session_id=VENDOR)
    assert (await resume(harness, "MyBot"))["data"]["vendor_resume"] is None


async def test_unfinished_sessions_come_before_closed_ones_each_newest_first(harness: Harness) -> None:
    sessions: dict[str, str] = {}
    for name in ("old open", "closed", "new closed", "new open"):
        sessions[name] = await harness.open(title=name)
        if "closed" in name:
            await close(harness, sessions[name])
        harness.wait(hours=1)
    data = (await resume(harness))["data"]
    assert data["resumed_session_id"] == sessions["new open"]
    assert [row["session_id"] for row in data["other_candidates"]] == [
        sessions["old open"],
        sessions["new closed"],
        sessions["closed"],
    ]
    assert data["other_candidates"][0].keys() == {"session_id", "agent_id", "title", "state", "last_activity"}


async def test_at_most_five_other_candidates_are_named(harness: Harness) -> None:
    for _ in range(8):
        await harness.open()
    assert len((await resume(harness))["data"]["other_candidates"]) == 5


async def test_the_window_is_on_last_activity_and_not_on_the_start(harness: Harness) -> None:
    session = await harness.open()
    harness.wait(days=59)
    await harness.begin(session)
    harness.wait(days=1)
    assert (await resume(harness))["data"]["resumed_session_id"] == session
    harness.wait(days=40)
    error = await harness.refusal("resume_session", {"agent_id": "Codex"})
    assert error.code == "no_resumable_session"
    assert (await resume(harness, lookback_days="60"))["ok"]


async def test_nothing_to_resume_names_candidates_and_similar_agents_and_opens_nothing(harness: Harness) -> None:
    old = await harness.open(agent_id="nightly", title="Old work")
    await harness.open(agent_id="nightly-fixer")
    await harness.open(agent_id="somebody else entirely")
    harness.wait(days=40)
    error = await harness.refusal("resume_session", {"agent_id": "Nightly"})
    assert error.code == "no_resumable_session"
    assert error.message == "NO RESUMABLE SESSION FOUND"
    assert error.hint == "Widen lookback_days, pass session_id, or call open_session"
    assert error.details == {
        "agent_id": "Nightly",
        "lookback_days": 30,
        "candidates": [
            {
                "session_id": old,
                "agent_id": "nightly",
                "title": "Old work",
                "state": "open",
                "last_activity": "2026-07-01T12:00:00Z",
                "why_not": "outside_lookback",
            }
        ],
        "similar_agent_ids": ["nightly-fixer"],
    }


async def test_an_agent_without_sessions_learns_of_names_near_its_own(harness: Harness) -> None:
    for n in range(8):
        await harness.open(agent_id=f"x{n}")
    error = await harness.refusal("resume_session", {"agent_id": "x"})
    similar = cast(list[str], error.details["similar_agent_ids"])
    assert len(set(similar)) == 5
    assert error.details["candidates"] == []


@pytest.mark.parametrize("days", [0, 91, -5, 1.5, True, "x"])
async def test_a_window_outside_1_to_90_days_is_refused(harness: Harness, days: object) -> None:
    error = await harness.refusal("resume_session", {"agent_id": "Codex", "lookback_days": days})
    assert error.message == "Parameter 'lookback_days' is invalid: integer 1..90"


async def test_a_session_named_outright_is_resumed_whatever_its_age(harness: Harness) -> None:
    session = await harness.open(model="m", vendor_session_id=VENDOR)
    run = (await harness.session(session)).run
    assert run is not None
    harness.wait(days=200)
    for name in (session, run.alias, VENDOR.upper()):
        assert (await resume(harness, session_id=name))["data"]["resumed_session_id"] == session
    error = await harness.refusal("resume_session", {"agent_id": "Codex", "session_id": "Codex-20200101T000000Z-x"})
    assert error.code == "session_not_found"


async def test_only_the_sessions_own_agent_may_resume_it(harness: Harness) -> None:
    session = await harness.open(agent_id="alpha")
    error = await harness.refusal("resume_session", {"agent_id": "beta", "session_id": session})
    assert error.code == "agent_not_entitled"
    assert error.details == {"session_id": session, "entitled": ["alpha"]}


async def test_another_workspace_draws_a_warning(harness: Harness) -> None:
    await harness.open(replace(LIBRARY, cwd="/one", workspace="/one"))
    there = replace(LIBRARY, cwd="/two", workspace="/two")
    answered = await harness.call("resume_session", {"agent_id": "Codex"}, there)
    assert [warning["code"] for warning in answered["warnings"]] == ["workspace_differs"]


async def test_the_capsule_keeps_to_its_budget(harness: Harness) -> None:
    session = await harness.open()
    for n in range(60):
        await harness.begin(session, query_title=f"Step {n} of many")
        await harness.complete(session, response="Done " * 30)
    small = (await resume(harness, capsule_budget_bytes=2_000))["data"]["capsule"]
    assert small["truncated"]["done"] > 0
    for budget in (1_999, 64_001):
        error = await harness.refusal("resume_session", {"agent_id": "Codex", "capsule_budget_bytes": budget})
        assert error.details["parameter"] == "capsule_budget_bytes"


@pytest.mark.parametrize("agent_id", ["", "   ", "---", None, "x" * 201])
async def test_resume_needs_an_agent_id(harness: Harness, agent_id: object) -> None:
    error = await harness.refusal("resume_session", {"agent_id": agent_id})
    assert error.details["parameter"] == "agent_id"


async def test_a_damaged_journal_is_not_gone_on_with(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with open_harness(home) as harness:
        session = await harness.open()
        other = await harness.open(title="Older but sound")
        await harness.begin(other)
        harness.wait(minutes=1)
        await harness.begin(session)
    tamper(home, "UPDATE entries SET at = '2020-01-01T00:00:00.000Z' WHERE id = ?", row_id(home, session, 2))
    async with open_harness(home) as harness:
        error = await harness.refusal("resume_session", {"agent_id": "Codex"})
        assert error.code == "journal_tampered"
        assert error.message == "Journal verification failed"
        candidates = cast(list[dict[str, Any]], error.details.pop("candidates"))
        assert [row["session_id"] for row in candidates] == [session, other]
        assert error.details == {"session_id": session, "first_bad_seq": 2, "kind": "edited"}
        assert (await harness.query(session_id=session))["session"]["chain"]["status"] == "edited"
        assert (await resume(harness, session_id=other))["ok"]


async def test_reading_leaves_the_head_as_it_is(harness: Harness) -> None:
    session = await worked(harness)
    before, rows = await harness.session(session), harness.rows()
    for question in ({}, {"session_id": session}, {"text": "cache"}, {"kinds": ["turn", "entry", "file", "run"]}):
        await harness.query(**question)
    assert await harness.session(session) == before
    assert harness.rows() == rows


# What must not stop a close, nor spoil it


@pytest.mark.parametrize("reason", ["nul\x00", "half \ud83d", "\x02start \x7f"])
async def test_control_characters_in_a_reason_are_replaced_and_noted(harness: Harness, reason: str) -> None:
    session = await harness.open()
    answered = await harness.call("close_session", {"session_id": session, "reason": reason, "epitaph": reason})
    assert answered["status"] == "closed"
    assert "\ufffd" in answered["data"]["reason"]
    assert "text_mended" in [each["code"] for each in answered["warnings"]]


async def test_control_characters_in_a_statement_are_replaced_and_named(harness: Harness) -> None:
    statement = {
        "version": 1,
        "goal": "Find it\x00",
        "next": ["one", "two\x02"],
        "done": "d\x7f",
        "receipts": ["r\x00"],
    }
    given = {"session_id": await harness.open(), "reason": "as typed: \ufffd", "capsule": statement}
    answered = await harness.call("close_session", given)
    assert answered["data"]["capsule"]["goal"]["text"] == "Find it\ufffd"
    assert [item["text"] for item in answered["data"]["capsule"]["next"]] == ["one", "two\ufffd"]
    (warning,) = answered["warnings"]
    assert warning["code"] == "text_mended"
    named = [f"capsule.{name}" for name in ("goal", "done", "next[1]", "receipts[0]")]
    assert all(name in warning["message"] for name in named)
    assert "reason" not in warning["message"], "nothing was replaced in it"


@pytest.mark.parametrize("heir", ["beta", "Codex"])
async def test_a_session_closed_without_successor_is_handed_to_nobody(harness: Harness, heir: str) -> None:
    given = {"succession_policy": "closed_without_successor", "capsule": {"version": 1, "handoff_to": heir}}
    answered = await harness.call("close_session", {"session_id": await harness.open(), **given})
    assert [each["code"] for each in answered["warnings"]] == ["handoff_ignored"]
    assert (await harness.session(answered["session_id"])).offer is None


@pytest.mark.parametrize("loss", ["file", "folder", "damage"])
async def test_a_key_file_lost_while_the_server_runs_is_written_again(tmp_path: Path, loss: str) -> None:
    home = tmp_path / "home"
    keys = home / "keys"
    async with open_harness(home) as harness:
        session = await harness.open()
        if loss == "folder":
            shutil.rmtree(keys)
        elif loss == "file":
            (keys / "ed25519").unlink()
        else:
            (keys / "ed25519").write_bytes(b"")
        token = (await harness.call("close_session", {"session_id": session}))["data"]["recovery_token"]
        assert (keys / "ed25519").stat().st_mode & 0o777 == 0o600
    async with open_harness(home) as harness:
        answered = await harness.call("resume_session", {"agent_id": "Codex", "recovery_token": token})
        assert answered["data"]["attested"] is True


async def test_a_key_file_that_was_replaced_stops_the_signing(tmp_path: Path) -> None:
    async with open_harness(tmp_path / "home") as harness:
        session = await harness.open()
        (tmp_path / "home" / "keys" / "ed25519").write_bytes(b"k" * 32)
        error = await harness.refusal("close_session", {"session_id": session})
        assert error.code == "storage_error"
        assert "another key" in str(error.details["reason"])


async def test_the_file_of_a_pending_action_is_not_touched(harness: Harness) -> None:
    session = await harness.open()
    await harness.begin(session)
    planned = {"description": "Write it", "type": "create", "status": "pending", "file_path": "plan.py"}
    await harness.update(session, actions=[planned])
    assert (await harness.turn(session)).files == {}
    await harness.update(session, actions=[{**planned, "status": "completed"}])
    assert list((await harness.turn(session)).files) == ["plan.py"]
