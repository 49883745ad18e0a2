"""The one way in for writes: the order of checks, idempotency keys, waking and refusing, masking, the test clock."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shiftlog.model.errors import ShiftlogError
from shiftlog.store.protocol import Writer
from tests.journal.harness import NOON, Harness, client, files_holding, open_harness

UNKNOWN = "Codex-20260701T120000Z-nobody"
SECRET = "ghp_" + "a1B2c3D4e5F6" * 3


# The order of checks


async def test_checks_come_in_the_order_of_the_contract(harness: Harness) -> None:
    holder = client("holder")
    session = await harness.open(holder)
    done = await harness.begin(session, holder)
    await harness.complete(session, holder)
    await harness.begin(session, holder)
    call: dict[str, Any] = {"session_id": UNKNOWN + "-X", "request_id": "req-nonsense", "fence": 99, "tags": [5]}
    order: list[str] = []
    for repaired in (
        {},
        {"tags": ["t"]},
        {"session_id": UNKNOWN},
        {"request_id": "req-20260701T120000Z-nobody"},
        {"session_id": session},
        {"request_id": done},
        {"request_id": None},
    ):
        call |= repaired
        order.append((await harness.refusal("update_turn", call, holder)).code)
    assert order == [
        "invalid_parameter",
        "invalid_session_id",
        "invalid_request_id",
        "session_not_found",
        "turn_not_found",
        "turn_immutable",
        "lease_lost",
    ]
    assert (await harness.call("update_turn", {**call, "fence": 1}, holder))["receipt"]["code"] == "persisted"


async def test_a_missing_error_message_is_found_before_the_session_is_looked_for(harness: Harness) -> None:
    error = await harness.refusal("finish_turn", {"session_id": UNKNOWN, "outcome": "failed"})
    assert error.details["parameter"] == "error_message"
    error = await harness.refusal("update_turn", {"session_id": UNKNOWN})
    assert error.code == "invalid_parameter"


@pytest.mark.parametrize(
    ("tool", "given", "parameter"),
    [
        ("finish_turn", {"session_id": "nonsense", "outcome": "failed"}, "error_message"),
        ("update_turn", {"session_id": "nonsense", "request_id": "nonsense"}, "response"),
        ("open_session", {"agent": "Codex", "title": "t", "session_id": "nonsense", "backend": "abacus"}, "backend"),
        ("open_session", {"agent": "Codex", "title": "t", "session_id": "nonsense", "agent_id": "---"}, "agent_id"),
        ("resume_session", {"agent_id": "---", "session_id": "nonsense"}, "agent_id"),
        ("query_history", {"request_id": "nonsense"}, "session_id"),
        ("query_history", {"session_id": "nonsense", "agent_id": "---"}, "agent_id"),
        ("query_history", {"session_id": "nonsense", "text": "(("}, "text"),
        ("query_history", {"session_id": UNKNOWN, "text": "!word"}, "text"),
    ],
)
async def test_what_a_parameter_must_be_comes_before_the_format_of_ids(
    harness: Harness, tool: str, given: dict[str, Any], parameter: str
) -> None:
    error = await harness.refusal(tool, given)
    assert (error.code, error.details["parameter"]) == ("invalid_parameter", parameter)


async def test_the_state_of_the_session_comes_before_turn_and_lease(harness: Harness) -> None:
    session = await harness.open()
    await harness.call("close_session", {"session_id": session})
    error = await harness.refusal("update_turn", {"session_id": session, "response": "x", "fence": 99})
    assert error.code == "session_closed"


# Idempotency


async def test_the_same_key_and_arguments_give_the_first_answer_and_store_nothing(harness: Harness) -> None:
    session = await harness.open()
    await harness.begin(session)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("open_session", {"agent": "Codex", "title": "x"}),
        ("begin_turn", {"session_id": session, "query_title": "x", "query_text": "x"}),
        ("update_turn", {"session_id": session, "dialog": [{"role": "tool", "category": "decision", "content": "x"}]}),
        ("finish_turn", {"session_id": session, "outcome": "completed", "response": "x"}),
        ("close_session", {"session_id": session}),
        ("resume_session", {"agent_id": "Codex", "session_id": session}),
    ]
    for tool, arguments in calls:
        keyed = {**arguments, "idempotency_key": "k-1"}
        first = await harness.call(tool, keyed)
        rows = harness.rows()
        harness.wait(minutes=1)
        assert tokenless(await harness.call(tool, keyed)) == tokenless(first), tool
        assert harness.rows() == rows, tool


def tokenless(answered: dict[str, Any]) -> dict[str, Any]:
    """Return an answer without what close and resume give anew each time: the token, and the call that carries it."""
    data = answered.get("data")
    if data is None:
        return answered
    anew = ("recovery_token", "recovery_token_expires_at", "next_action")
    return {**answered, "data": {name: value for name, value in data.items() if name not in anew}}


async def test_the_same_key_with_other_arguments_is_a_conflict(harness: Harness) -> None:
    session = await harness.open(idempotency_key="k")
    error = await harness.refusal("open_session", {"agent": "Codex", "title": "Other", "idempotency_key": "k"})
    assert error.code == "idempotency_conflict"
    assert error.message == "Idempotency key reused with other parameters"
    await harness.begin(session)
    await harness.update(session, tags=["a"], idempotency_key="k")
    error = await harness.refusal("update_turn", {"session_id": session, "tags": ["b"], "idempotency_key": "k"})
    assert error.code == "idempotency_conflict"


async def test_a_key_is_known_for_ninety_days_however_often_old_answers_are_forgotten(harness: Harness) -> None:
    session = await harness.open(idempotency_key="k")
    turn = await harness.begin(session, idempotency_key="k")
    for _ in range(89):
        harness.wait(days=1)
        await harness.app.sweep()
    assert (await harness.open(idempotency_key="k"), await harness.begin(session, idempotency_key="k")) == (
        session,
        turn,
    )
    harness.wait(days=1)
    await harness.app.sweep()
    assert await harness.open(idempotency_key="k") != session


async def test_a_key_belongs_to_one_session_and_one_tool(harness: Harness) -> None:
    one, other = await harness.open(), await harness.open()
    for session in (one, other):
        assert await harness.begin(session, idempotency_key="k")
        assert (await harness.update(session, tags=["a"], idempotency_key="k"))["receipt"]["code"] == "persisted"
        assert (await harness.complete(session, idempotency_key="k"))["session_id"] == session
    assert (await harness.session(other)).turns_completed == 1


async def test_a_repeat_may_name_the_session_otherwise_but_not_another_session(harness: Harness) -> None:
    vendor = "e4ee2456-8a54-4492-9915-1904d6b2966a"
    session = await harness.open(pid=1, vendor_session_id=vendor)
    await harness.begin(session)
    given = {"tags": ["t"], "idempotency_key": "k"}
    first = await harness.update(session, **given)
    for name in (1, "1", vendor, vendor.upper()):
        assert await harness.call("update_turn", {"session_id": name, **given}) == first
    other = await harness.open()
    resume = {"agent_id": "Codex", "idempotency_key": "k"}
    await harness.call("resume_session", {**resume, "session_id": session})
    assert (await harness.refusal("resume_session", {**resume, "session_id": other})).code == "idempotency_conflict"
    opened = {"agent": "Codex", "title": "t", "idempotency_key": "k"}
    await harness.call("open_session", {**opened, "session_id": UNKNOWN})
    error = await harness.refusal("open_session", {**opened, "session_id": f"{UNKNOWN}-2"})
    assert error.code == "idempotency_conflict"


async def test_a_repeated_request_is_answered_before_the_state_of_turn_session_and_lease_is_looked_at(
    harness: Harness,
) -> None:
    holder = client("holder")
    session = await harness.open(holder)
    await harness.begin(session, holder)
    first = await harness.update(session, holder, tags=["a"], idempotency_key="k")
    done = await harness.complete(session, holder, idempotency_key="k")
    await harness.call("resume_session", {"agent_id": "Codex", "on_held": "take_over"}, client("other"))
    assert await harness.update(session, holder, tags=["a"], idempotency_key="k") == first
    await harness.call("close_session", {"session_id": session}, client("other"))
    assert await harness.complete(session, holder, idempotency_key="k") == done


async def test_a_refused_request_leaves_its_key_free(harness: Harness) -> None:
    session = await harness.open()
    await harness.refusal("update_turn", {"session_id": session, "response": "x", "idempotency_key": "k"})
    await harness.begin(session)
    assert (await harness.update(session, response="y", idempotency_key="k"))["receipt"]["code"] == "persisted"


async def test_a_request_that_changed_nothing_is_remembered_too(harness: Harness) -> None:
    session = await harness.open()
    await harness.begin(session)
    first = await harness.update(session, response="", idempotency_key="k")
    assert first["receipt"]["code"] == "unchanged"
    await harness.update(session, response="now")
    assert await harness.update(session, response="", idempotency_key="k") == first


async def test_numbers_as_text_are_the_same_arguments(harness: Harness) -> None:
    session = await harness.open()
    await harness.begin(session)
    first = await harness.update(session, token_count=5, idempotency_key="k")
    assert await harness.update(session, token_count="5", idempotency_key="k") == first


async def test_of_a_key_and_its_arguments_only_hashes_are_kept(tmp_path: Path) -> None:
    key, secret_plan = "the-key-of-this-call", "nobody may read this sentence again"
    async with open_harness(tmp_path / "home") as harness:
        session = await harness.open()
        await harness.begin(session)
        await harness.update(session, tags=[secret_plan], idempotency_key=key)
        with harness.database() as database:
            [(scope, stored_key, doc)] = database.execute("SELECT scope, key, doc FROM answers")
        assert scope == f"update_turn {session}"
        assert stored_key == hashlib.sha256(key.encode()).hexdigest()
        assert secret_plan not in bytes(doc).decode()
        assert len(json.loads(doc)["request_hash"]) == 64
    assert files_holding(tmp_path, key) == []


@pytest.mark.parametrize("key", ["x" * 201, "two\nlines", 5, "\ud800"])
async def test_a_key_that_is_no_short_line_is_refused(harness: Harness, key: object) -> None:
    error = await harness.refusal("open_session", {"agent": "Codex", "title": "x", "idempotency_key": key})
    assert error.details["parameter"] == "idempotency_key"


# Waking and refusing


async def test_a_write_wakes_a_suspended_session_and_says_so_in_the_journal(harness: Harness) -> None:
    session = await harness.open()
    await harness.begin(session)
    harness.wait(hours=2)
    await harness.app.sweep()
    assert (await harness.session(session)).state == "suspended"
    await harness.update(session, tags=["a"])
    assert (await harness.session(session)).state == "open"
    assert (await harness.kinds(session))[-3:] == ["session.suspended", "session.resumed", "turn.updated"]
    assert (await harness.entries(session))[-2].facts["via"] == "write"


async def test_a_write_that_changes_nothing_or_is_refused_wakes_nobody(harness: Harness) -> None:
    session = await harness.open()
    await harness.begin(session)
    harness.wait(hours=2)
    await harness.app.sweep()
    before = await harness.session(session)
    assert (await harness.update(session, tags=[]))["receipt"]["seq"] == before.head_seq
    await harness.refusal("begin_turn", {"session_id": session, "query_title": "x", "query_text": "x", "fence": 9})
    assert await harness.session(session) == before


async def test_a_closed_session_refuses_every_write_and_says_how_it_ended(harness: Harness) -> None:
    session = await harness.open()
    await harness.begin(session)
    harness.wait(minutes=5)
    await harness.call("close_session", {"session_id": session})
    for tool, more in (
        ("begin_turn", {"query_title": "x", "query_text": "x"}),
        ("update_turn", {"tags": ["a"]}),
        ("finish_turn", {"outcome": "completed", "response": "x"}),
    ):
        error = await harness.refusal(tool, {"session_id": session, **more})
        assert error.code == "session_closed"
        assert error.message == "Session is closed"
        assert error.hint == "Call resume_session"
        assert error.details == {
            "session_id": session,
            "agent_id": "Codex",
            "state": "closed",
            "closed_at": "2026-07-01T12:05:00Z",
            "policy": "successor_allowed",
        }


@pytest.mark.parametrize(
    ("tool", "name", "nearest"),
    [
        ("open_session", "titel", "title"),
        ("begin_turn", "query", "query_text"),
        ("update_turn", "tag", "tags"),
        ("finish_turn", "outcomes", "outcome"),
        ("close_session", "reasons", "reason"),
        ("resume_session", "agent", "agent_id"),
        ("query_history", "agentid", "agent_id"),
    ],
)
async def test_an_unknown_argument_is_refused_naming_the_nearest(
    harness: Harness, tool: str, name: str, nearest: str
) -> None:
    error = await harness.refusal(tool, {name: "x"})
    assert error.code == "invalid_parameter"
    assert error.details["parameter"] == name
    assert error.details["problem"] == "unknown"
    assert error.details["nearest"] == nearest


# Masking


@pytest.mark.parametrize("name", ["agent", "session_id", "request_id"])
async def test_a_name_that_holds_a_secret_is_refused_without_repeating_it(harness: Harness, name: str) -> None:
    key = "AKIA" + "IOSFODNN7EXAMPLE"
    if name == "request_id":
        slug = "sk-" + "a1b2c3d4e5f6g7h8i9j0" * 2
        given = {"session_id": await harness.open(), "query_title": "x", "query_text": "x"}
        error = await harness.refusal("begin_turn", {**given, "request_id": f"req-20260701T120000Z-{slug}"})
        assert slug not in json.dumps(error.as_dict())
    else:
        given = {"agent": key, "title": "x", "session_id": f"{key}-20260701T120000Z-x"}
        error = await harness.refusal("open_session", given if name == "session_id" else {"agent": key, "title": "x"})
        assert key not in json.dumps(error.as_dict())
    assert error.code == "invalid_parameter"


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("open_session", {"agent": SECRET, "title": "x"}),
        ("open_session", {"agent": "Codex", "title": "x", "session_id": SECRET}),
        ("open_session", {"agent": "Codex", "title": "x", "parent_session_id": SECRET}),
        ("open_session", {"agent": "Codex", "title": "x", SECRET: 1}),
        ("open_session", {"agent": "Codex", "title": f"{SECRET}\n"}),
        ("open_session", {"agent": "Codex", "title": "x", "backend": SECRET}),
        ("begin_turn", {"session_id": SECRET, "query_title": "x", "query_text": "x"}),
        ("query_history", {"session_id": "Codex-20260701T120000Z-x", "request_id": SECRET}),
        ("query_history", {"cursor": SECRET}),
        ("query_history", {"text": f'"{SECRET}'}),
        ("query_history", {"from": SECRET}),
        ("resume_session", {"agent_id": SECRET}),
        ("resume_session", {"agent_id": "x", "session_id": SECRET}),
        ("close_session", {"session_id": SECRET}),
    ],
)
async def test_an_error_never_repeats_a_secret(harness: Harness, tool: str, given: dict[str, Any]) -> None:
    try:
        shown: object = await harness.call(tool, given)
    except ShiftlogError as error:
        shown = error.as_dict()
    assert SECRET not in json.dumps(shown)


async def test_the_receipt_counts_what_was_masked_and_only_when_it_was_stored(harness: Harness) -> None:
    session = await harness.open(title=f"Rotate {SECRET}")
    assert session.endswith("-rotate-redacted-provider-key")
    await harness.begin(session)
    answered = await harness.update(session, response=f"{SECRET} and {SECRET}", tags=["password=hunter2hunter2"])
    assert answered["receipt"]["redactions"] == 3
    again = await harness.update(session, response=f"{SECRET} and {SECRET}")
    assert again["receipt"] == {**answered["receipt"], "code": "unchanged", "redactions": 0}
    turn = await harness.turn(session)
    assert turn.response == "[REDACTED:provider_key] and [REDACTED:provider_key]"
    assert turn.tags == ("password=[REDACTED:password]",)


async def test_figures_and_ordinary_names_are_left_alone(harness: Harness) -> None:
    session = await harness.open(cwd="/home/me/token-service", vendor_session_id="e4ee2456-8a54-4492-9915-1904d6b2966a")
    await harness.begin(session)
    answered = await harness.update(
        session,
        token_count=4096,
        usage={"input_tokens": 12, "cached_input_tokens": 3, "cost_usd": 0.5},
        commits=[{"sha": "da39a3ee5e6b4b0d3255bfef95601890afd80709"}],
        files_modified=["src/password_reset.py"],
        response="token: str and max_tokens=4096",
    )
    assert answered["receipt"]["redactions"] == 0


# The test clock


async def test_entries_and_receipts_of_a_test_clock_say_so(harness: Harness) -> None:
    session = await harness.open()
    await harness.begin(session)
    closed = await harness.call("close_session", {"session_id": session})
    assert all(entry.facts["test_clock"] is True for entry in await harness.entries(session))
    assert closed["data"]["receipt"]["test_clock"] is True


async def test_with_the_real_clock_nothing_says_so(tmp_path: Path) -> None:
    async with open_harness(tmp_path / "home", now=None, environ={"SHIFTLOG_NOW": "2020-01-01T00:00:00Z"}) as harness:
        session = await harness.open()
        assert not session.startswith("Codex-2020")
        closed = await harness.call("close_session", {"session_id": session})
        assert all("test_clock" not in entry.facts for entry in await harness.entries(session))
        assert "test_clock" not in closed["data"]["receipt"]
        assert (await harness.verify())[0].ok


async def test_sessions_that_other_rules_computed_are_rebuilt_once(harness: Harness) -> None:
    session = await harness.open()
    await harness.begin(session)
    known = await harness.session(session)
    wrong = replace(known, title="computed by older rules", last_activity=NOON)

    def older(writer: Writer) -> None:
        writer.put_session(wrong)
        writer.put_projection_version(0)

    await harness.app.store.write(older)
    await harness.app.maintenance.bring_up_to_date()
    assert await harness.session(session) == known
    await harness.app.store.write(lambda writer: writer.put_session(wrong))
    await harness.app.maintenance.bring_up_to_date()
    assert await harness.session(session) == wrong
