"""Closing and resuming in their plain form: results, repeats, figures of the run, selection and its errors."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from shiftlog.model.caller import LIBRARY
from tests.journal.desk import Desk, client, open_desk, row_id, tamper

VENDOR = "e4ee2456-8a54-4492-9915-1904d6b2966a"


async def close(desk: Desk, session: str, **arguments: Any) -> dict[str, Any]:
    return await desk.call("close_session", {"session_id": session, **arguments})


async def resume(desk: Desk, agent_id: str = "Codex", **arguments: Any) -> dict[str, Any]:
    return await desk.call("resume_session", {"agent_id": agent_id, **arguments})


async def worked(desk: Desk, **arguments: Any) -> str:
    """Open a session with a completed, a failed and an open turn."""
    session = await desk.open(**arguments)
    for finish in (desk.complete, desk.fail):
        await desk.begin(session)
        await desk.update(
            session,
            dialog=[{"role": "model", "category": "decision", "content": "Decision: lock"}],
            actions=[{"description": "Edit", "type": "edit", "status": "pending", "file_path": "./a.py"}],
            files_modified=["b.py"],
            token_count=100,
        )
        await finish(session)
    await desk.begin(session, query_title="Still open")
    return session


# Closing


async def test_a_plain_close_gives_reason_policy_receipt_summary_and_capsule(desk: Desk) -> None:
    session = await worked(desk, title="Fix the cache")
    desk.wait(hours=8)
    answered = await close(desk, session)
    now = await desk.session(session)
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
            "files_modified": 2,
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
    assert (await desk.kinds(session))[-2:] == ["capsule.saved", "session.closed"]
    assert (await desk.turn(session)).status == "in_progress"


async def test_the_next_action_of_a_close_succeeds_as_it_stands(desk: Desk) -> None:
    session = await desk.open(title="First")
    await desk.open(title="Another one of the same agent")
    action = (await close(desk, session))["data"]["next_action"]
    resumed = await desk.call(action["name"], action["arguments"])
    assert resumed["data"]["resumed_session_id"] == session
    example = resumed["data"]["how_to_reattach"]["next_call_example"]
    assert (await desk.call(example["name"], example["arguments"]))["session"]["session_id"] == session


async def test_the_summary_can_be_left_out_and_nothing_else_goes_with_it(desk: Desk) -> None:
    session = await worked(desk)
    other = await worked(desk)
    with_it, without = await close(desk, session), await close(desk, other, include_summary="no")
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
async def test_a_reason_is_kept_as_given_and_classed_by_equality(desk: Desk, reason: str, kind: str) -> None:
    data = (await close(desk, await desk.open(), reason=reason))["data"]
    assert (data["reason"], data["reason_class"]) == (reason, kind)


async def test_a_closing_note_is_kept_and_a_blank_one_is_none(desk: Desk) -> None:
    data = (await close(desk, await desk.open(), epitaph="Cache bug narrowed\nto eviction."))["data"]
    assert (data["epitaph_created"], data["closing_note"]) == (True, "Cache bug narrowed\nto eviction.")
    data = (await close(desk, await desk.open(), epitaph="  ", reason=" "))["data"]
    assert (data["epitaph_created"], data["closing_note"], data["reason"]) == (False, None, "manual_close")


async def test_closing_again_writes_nothing_and_returns_the_first_close(desk: Desk) -> None:
    session = await desk.open()
    first = await close(desk, session, reason="done", epitaph="First note")
    rows = desk.rows()
    desk.wait(hours=1)
    again = await close(desk, session, reason="other", epitaph="Second note")
    assert desk.rows() == rows
    assert again["status"] == again["data"]["status"] == "already_closed"
    assert [warning["code"] for warning in again["warnings"]] == ["epitaph_ignored"]
    for name in ("reason", "closing_note", "closed_at", "receipt", "head_hash", "entry_count"):
        assert again["data"][name] == first["data"][name]
    assert (await close(desk, session, epitaph="First note"))["warnings"] == []


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
async def test_a_value_outside_its_rule_leaves_the_session_open(desk: Desk, name: str, value: object) -> None:
    session = await desk.open()
    error = await desk.refusal("close_session", {"session_id": session, name: value})
    assert error.details["parameter"] == name
    assert (await desk.session(session)).state == "open"


async def test_close_needs_a_session(desk: Desk) -> None:
    for given in ({}, {"session_id": None}, {"session_id": " "}):
        error = await desk.refusal("close_session", given)
        assert error.message == "Parameter 'session_id' cannot be null or empty"


# The run's figures


async def test_figures_of_the_run_are_recorded_with_the_close(desk: Desk) -> None:
    session = await desk.open(caller="headless_task")
    desk.wait(seconds=10)
    figures = {"returncode": "0", "duration_ms": 10_000, "input_tokens": 5, "output_tokens": 7, "total_cost_usd": "0.5"}
    assert (await close(desk, session, **figures))["warnings"] == []
    [run] = await desk.items(kinds=["run"])
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
async def test_exit_code_and_error_say_how_the_run_ended(desk: Desk, given: dict[str, Any], status: str) -> None:
    session = await desk.open(model="m")
    await close(desk, session, **given)
    [run] = await desk.items(kinds=["run"], run_status=status)
    assert run["status"] == status


async def test_a_duration_is_derived_and_one_that_is_far_off_is_kept_with_a_warning(desk: Desk) -> None:
    one, other = await desk.open(model="m"), await desk.open(model="m")
    desk.wait(seconds=100)
    await close(desk, one)
    run = (await desk.session(one)).run
    assert run is not None
    assert run.duration_ms == 100_000
    warnings = (await close(desk, other, duration_ms=50_000))["warnings"]
    assert [warning["code"] for warning in warnings] == ["duration_differs"]
    run = (await desk.session(other)).run
    assert run is not None
    assert run.duration_ms == 50_000


async def test_figures_without_a_run_or_after_its_end_are_named_as_ignored(desk: Desk) -> None:
    plain = await close(desk, await desk.open(), returncode=0)
    assert [warning["code"] for warning in plain["warnings"]] == ["no_run"]
    session = await desk.open(model="m")
    await close(desk, session, returncode=1)
    await resume(desk, session_id=session)
    again = await close(desk, session, returncode=0)
    assert [warning["code"] for warning in again["warnings"]] == ["run_ended"]
    run = (await desk.session(session)).run
    assert run is not None
    assert run.returncode == 1


# Resuming


async def test_a_closed_session_is_reopened_under_its_own_id_with_the_capsule(desk: Desk) -> None:
    session = await worked(desk, title="Fix the cache", vendor_session_id=VENDOR)
    await close(desk, session)
    desk.wait(hours=14)
    answered = await desk.call("resume_session", {"agent_id": " CODEX "}, client())
    data = answered["data"]
    now = await desk.session(session)
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
    assert await desk.begin(session, client())
    assert (await desk.kinds(session))[-5:-2] == ["session.closed", "session.resumed", "lease.taken"]


async def test_an_open_or_suspended_session_is_reattached(desk: Desk) -> None:
    session = await desk.open()
    assert (await resume(desk))["data"]["state_before"] == "open"
    desk.wait(hours=2)
    await desk.app.sweep()
    data = (await resume(desk))["data"]
    assert (data["resumed_session_id"], data["state_before"], data["resume_mode"]) == (
        session,
        "suspended",
        "reattached",
    )


async def test_a_vendor_command_is_shown_only_where_it_is_known_and_always_quoted(desk: Desk) -> None:
    await desk.open(agent="ClaudeCode", vendor_session_id="$(rm -rf ~)")
    assert (await resume(desk, "ClaudeCode"))["data"]["vendor_resume"] == "claude --resume '$(rm -rf ~)'"
    await desk.open(agent="MyBot", vendor_session_id=VENDOR)
    assert (await resume(desk, "MyBot"))["data"]["vendor_resume"] is None


async def test_unfinished_sessions_come_before_closed_ones_each_newest_first(desk: Desk) -> None:
    sessions: dict[str, str] = {}
    for name in ("old open", "closed", "new closed", "new open"):
        sessions[name] = await desk.open(title=name)
        if "closed" in name:
            await close(desk, sessions[name])
        desk.wait(hours=1)
    data = (await resume(desk))["data"]
    assert data["resumed_session_id"] == sessions["new open"]
    assert [row["session_id"] for row in data["other_candidates"]] == [
        sessions["old open"],
        sessions["new closed"],
        sessions["closed"],
    ]
    assert data["other_candidates"][0].keys() == {"session_id", "agent_id", "title", "state", "last_activity"}


async def test_at_most_five_other_candidates_are_named(desk: Desk) -> None:
    for _ in range(8):
        await desk.open()
    assert len((await resume(desk))["data"]["other_candidates"]) == 5


async def test_the_window_is_on_last_activity_and_not_on_the_start(desk: Desk) -> None:
    session = await desk.open()
    desk.wait(days=59)
    await desk.begin(session)
    desk.wait(days=1)
    assert (await resume(desk))["data"]["resumed_session_id"] == session
    desk.wait(days=40)
    error = await desk.refusal("resume_session", {"agent_id": "Codex"})
    assert error.code == "no_resumable_session"
    assert (await resume(desk, lookback_days="60"))["ok"]


async def test_nothing_to_resume_names_candidates_and_similar_agents_and_opens_nothing(desk: Desk) -> None:
    old = await desk.open(agent_id="nightly", title="Old work")
    await desk.open(agent_id="nightly-fixer")
    await desk.open(agent_id="somebody else entirely")
    desk.wait(days=40)
    error = await desk.refusal("resume_session", {"agent_id": "Nightly"})
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


async def test_an_agent_without_sessions_learns_of_names_near_its_own(desk: Desk) -> None:
    for n in range(8):
        await desk.open(agent_id=f"x{n}")
    error = await desk.refusal("resume_session", {"agent_id": "x"})
    similar = cast(list[str], error.details["similar_agent_ids"])
    assert len(set(similar)) == 5
    assert error.details["candidates"] == []


@pytest.mark.parametrize("days", [0, 91, -5, 1.5, True, "x"])
async def test_a_window_outside_1_to_90_days_is_refused(desk: Desk, days: object) -> None:
    error = await desk.refusal("resume_session", {"agent_id": "Codex", "lookback_days": days})
    assert error.message == "Parameter 'lookback_days' is invalid: integer 1..90"


async def test_a_session_named_outright_is_resumed_whatever_its_age(desk: Desk) -> None:
    session = await desk.open(model="m", vendor_session_id=VENDOR)
    run = (await desk.session(session)).run
    assert run is not None
    desk.wait(days=200)
    for name in (session, run.alias, VENDOR.upper()):
        assert (await resume(desk, session_id=name))["data"]["resumed_session_id"] == session
    error = await desk.refusal("resume_session", {"agent_id": "Codex", "session_id": "Codex-20200101T000000Z-x"})
    assert error.code == "session_not_found"


async def test_only_the_sessions_own_agent_may_resume_it(desk: Desk) -> None:
    session = await desk.open(agent_id="alpha")
    error = await desk.refusal("resume_session", {"agent_id": "beta", "session_id": session})
    assert error.code == "agent_not_entitled"
    assert error.details == {"session_id": session, "entitled": ["alpha"]}


async def test_another_workspace_draws_a_warning(desk: Desk) -> None:
    await desk.open(replace(LIBRARY, cwd="/one", workspace="/one"))
    there = replace(LIBRARY, cwd="/two", workspace="/two")
    answered = await desk.call("resume_session", {"agent_id": "Codex"}, there)
    assert [warning["code"] for warning in answered["warnings"]] == ["workspace_differs"]


async def test_the_capsule_keeps_to_its_budget(desk: Desk) -> None:
    session = await desk.open()
    for n in range(60):
        await desk.begin(session, query_title=f"Step {n} of many")
        await desk.complete(session, response="Done " * 30)
    small = (await resume(desk, capsule_budget_bytes=2_000))["data"]["capsule"]
    assert small["truncated"]["done"] > 0
    for budget in (1_999, 64_001):
        error = await desk.refusal("resume_session", {"agent_id": "Codex", "capsule_budget_bytes": budget})
        assert error.details["parameter"] == "capsule_budget_bytes"


@pytest.mark.parametrize("agent_id", ["", "   ", "---", None, "x" * 201])
async def test_resume_needs_an_agent_id(desk: Desk, agent_id: object) -> None:
    error = await desk.refusal("resume_session", {"agent_id": agent_id})
    assert error.details["parameter"] == "agent_id"


async def test_a_damaged_journal_is_not_gone_on_with(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with open_desk(home) as desk:
        session = await desk.open()
        other = await desk.open(title="Older but sound")
        desk.wait(minutes=1)
        await desk.begin(session)
    tamper(home, "UPDATE entries SET at = '2020-01-01T00:00:00.000Z' WHERE id = ?", row_id(home, session, 2))
    async with open_desk(home) as desk:
        error = await desk.refusal("resume_session", {"agent_id": "Codex"})
        assert error.code == "journal_tampered"
        assert error.message == "Journal verification failed"
        candidates = cast(list[dict[str, Any]], error.details.pop("candidates"))
        assert [row["session_id"] for row in candidates] == [session, other]
        assert error.details == {"session_id": session, "first_bad_seq": 2, "kind": "edited"}
        assert (await desk.query(session_id=session))["session"]["chain"]["status"] == "edited"
        assert (await resume(desk, session_id=other))["ok"]


async def test_reading_leaves_the_head_as_it_is(desk: Desk) -> None:
    session = await worked(desk)
    before, rows = await desk.session(session), desk.rows()
    for question in ({}, {"session_id": session}, {"text": "cache"}, {"kinds": ["turn", "entry", "file", "run"]}):
        await desk.query(**question)
    assert await desk.session(session) == before
    assert desk.rows() == rows
