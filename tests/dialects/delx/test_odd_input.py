"""Rules of close and resume with input that nobody thinks of first: spellings, blanks, repeats, two faults at once."""

import re
from typing import Any

import pytest

from tests.dialects.delx.server import DelxServer, Said
from tests.journal.harness import client


def validation(said: Said) -> tuple[str, dict[str, str]]:
    """Return Delx's code and the fields of a parameter that was refused."""
    said.refusal("invalid_parameter")
    return said.body["error"]["code"], said.body["fields"]


@pytest.mark.parametrize(
    "reason", ["done\r\nreally\t\x1b[31m!\x07", "\u202eturned\u2066 \u200b", "状態=🎉", "x" * 4_000]
)
async def test_any_text_is_a_reason_and_kept_as_it_is(server: DelxServer, reason: str) -> None:
    agent = server.client()
    assert (await agent.close(await agent.open(), reason=reason)).data["reason"] == reason


@pytest.mark.parametrize("reason", ["a\x00b", "a\ud800b"])
async def test_what_no_text_can_hold_is_replaced_and_stops_no_close(server: DelxServer, reason: str) -> None:
    agent = server.client()
    said = await agent.close(await agent.open(), reason=reason)
    assert (said.data["reason"], said.warnings) == ("a\ufffdb", ["text_mended"])


@pytest.mark.parametrize("reason", ["x" * 4_001, 7])
async def test_what_is_no_text_of_that_length_is_refused_by_its_name_and_may_be_mended(
    server: DelxServer, reason: object
) -> None:
    agent = server.client()
    session = await agent.open()
    said = await agent.close(session, reason=reason)
    code, fields = validation(said)
    assert (code, list(fields), said.body["retryable"]) == ("DELX-1005", ["reason"], True)
    assert await server.state(session) == "open"


@pytest.mark.parametrize("name", ["", "  "])
async def test_a_blank_session_id_that_nobody_asked_for_is_no_session_id(server: DelxServer, name: str) -> None:
    said = await server.client().resume("alpha", session_id=name)
    assert said.refusal("invalid_session_id")["providedId"] == name
    assert said.body["missing"] == []
    code, fields = validation(await server.client().resume("alpha", session_id=name, lookback_days=0))
    assert (code, list(fields)) == ("DELX-1005", ["lookback_days"]), "parameters come before the form of ids"


async def test_an_alias_may_come_as_any_spelling_of_an_integer_that_json_has(server: DelxServer) -> None:
    agent = server.client()
    opened = (await agent.say("open_session", agent="Codex", title="Run", caller="headless_task")).body
    alias = float(opened["run_id"])
    assert (await agent.close(alias)).data["session_id"] == opened["session_id"]  # pyright: ignore[reportArgumentType]
    for unknown in (10**30, str(10**30)):
        said = await agent.close(unknown)  # pyright: ignore[reportArgumentType]
        assert said.refusal("session_not_found")["session_id"] == str(10**30)


@pytest.mark.parametrize(
    ("statement", "field"),
    [
        ("", "capsule"),
        (" ", "capsule"),
        ({}, "capsule.version"),
        ({"version": 1, "receipts": [None]}, "capsule.receipts[0]"),
    ],
)
async def test_what_is_missing_in_a_statement_is_a_fault_of_its_form(
    server: DelxServer, statement: object, field: str
) -> None:
    """4: DELX-1001 is for required parameters; the schema of the capsule is DELX-1005."""
    agent = server.client()
    session = await agent.open()
    said = await agent.close(session, capsule=statement)
    code, fields = validation(said)
    assert (code, list(fields), said.body["missing"]) == ("DELX-1005", [field], [])
    assert await server.state(session) == "open"


async def test_a_token_that_was_copied_with_its_line_break_is_malformed(server: DelxServer) -> None:
    agent = server.client()
    session = await agent.open()
    token = (await agent.close(session)).data["recovery_token"]
    said = await agent.resume(recovery_token=token + "\n")
    assert said.refusal("recovery_token_invalid") == {"reason": "malformed"}


async def test_tabs_and_line_breaks_separate_the_words_of_an_agent_id_as_spaces_do(server: DelxServer) -> None:
    agent = server.client()
    session = await agent.open(agent_id="My Agent/One")
    assert (await agent.resume("my\tagent\r\none\n")).data["resumed_session_id"] == session


async def test_an_agent_id_is_unstable_in_every_spelling_of_its_key(server: DelxServer) -> None:
    agent = server.client()
    opened = await agent.say("open_session", agent="Codex", title="T", agent_id="Agent 0123456789AB")
    assert opened.warnings == ["unstable_agent_id"]
    assert (await agent.resume(" agent-0123456789ab ")).warnings == ["unstable_agent_id"]


async def test_the_session_of_a_token_is_judged_before_its_agent(server: DelxServer) -> None:
    """4: token state → session → entitlement."""
    agent, other = server.client(), server.client("other")
    token = (await agent.close(await agent.open(agent_id="alpha"))).data["recovery_token"]
    theirs = await other.open(agent_id="beta")
    said = await other.resume("beta", recovery_token=token, session_id=theirs)
    assert said.refusal("recovery_token_mismatch") == {"reason": "session"}
    (await other.resume("beta", recovery_token=token, session_id=4711)).refusal("session_not_found")
    said = await other.resume("beta", recovery_token=token)
    assert said.refusal("recovery_token_mismatch") == {"reason": "agent"}


async def test_a_second_close_names_everything_that_it_does_not_keep(server: DelxServer) -> None:
    agent = server.client()
    session = await agent.open(caller="headless_task")
    first = (await agent.close(session, reason="done", input_tokens=5)).data
    said = await agent.close(
        session,
        capsule={"version": 1, "goal": "Another"},
        input_tokens=6,
        succession_policy="successor_required",
        allow_rebirth=False,
    )
    assert said.data["status"] == "already_closed"
    assert set(said.warnings) == {"capsule_ignored", "run_ended", "policy_unchanged", "allow_rebirth_ignored"}
    assert (said.data["entry_count"], said.data["capsule"]["origin"]) == (first["entry_count"], "auto")
    assert (await agent.close(session, input_tokens=5)).warnings == []


async def test_a_key_counts_for_a_close_that_came_too_late_as_well(server: DelxServer) -> None:
    """6.7: same key and other parameters is a conflict, whatever the first answer was."""
    agent = server.client()
    session = await agent.open()
    await agent.close(session)
    first = await agent.close(session, idempotency_key="k", reason="done")
    assert (await agent.close(session, idempotency_key="k", reason="done")).body == first.body
    (await agent.close(session, idempotency_key="k", reason="error")).refusal("idempotency_conflict")


@pytest.mark.parametrize(
    ("kind", "figures", "total"),
    [
        ("ClaudeCode", {"input_tokens": 100, "cached_input_tokens": 30, "output_tokens": 5}, 135),
        ("Codex", {"input_tokens": 100, "cached_input_tokens": 30, "output_tokens": 5}, 105),
        ("Codex", {"output_tokens": "7"}, 7),
        ("Codex", {}, 0),
    ],
)
async def test_the_summary_counts_the_tokens_that_came_with_the_close(
    server: DelxServer, kind: str, figures: dict[str, Any], total: int
) -> None:
    agent = server.client()
    session = await agent.open(agent=kind, caller="headless_task")
    assert (await agent.close(session, **figures)).data["summary"]["tokens_total"] == total
    assert (await agent.close(session)).data["summary"]["tokens_total"] == total


async def test_figures_of_a_run_may_be_blank_as_in_the_ledger(server: DelxServer) -> None:
    agent = server.client()
    opened = await agent.say(
        "open_session", agent="Codex", title="T", caller="headless_task", pid="", resonance_tier=" ", session_type=""
    )
    assert (opened.body["run_id"], opened.is_error) == (1, False)
    session = opened.body["session_id"]
    assert (await agent.close(session, total_cost_usd="", cost_source="", error="")).data["status"] == "closed"
    run = (await server.harness.session(session)).run
    assert run is not None
    assert (run.pid, run.total_cost_usd, run.session_type) == (None, None, "interactive_desktop")
    assert await agent.open(pid="", resonance_tier="", session_type="", caller="") != session
    bare = await agent.say("open_session", agent="Codex", title="T", pid="", resonance_tier="", session_type="")
    assert bare.body["run_id"] is None


async def test_a_token_that_was_reissued_keeps_the_offer_that_it_accepts(server: DelxServer) -> None:
    """6.1: a token is good for 30 days from its issue, and bound to `handoff_to`."""
    agent, heir = server.client(), server.client("heir")
    session = await agent.open(agent_id="alpha")
    statement = {"version": "1", "handoff_to": "beta"}
    await agent.close(session, capsule=statement, succession_policy="successor_required")
    server.harness.wait(days=29)
    operator = client("operator", operator=True)
    issued = await server.harness.app.continuity.reissue_token({"session_id": session}, operator)
    assert (issued["agent_id"], issued["recovery_token_expires_at"]) == ("beta", "2026-08-29T12:00:00Z")
    server.harness.wait(days=29)
    data = (await heir.resume("beta", recovery_token=issued["recovery_token"])).data
    assert (data["resume_mode"], data["predecessor_session_id"]) == ("forked", session)
    assert not any(done.changed for done in await server.harness.rebuild())


async def test_a_token_that_is_repeated_does_not_outlive_the_offer_that_it_accepts(server: DelxServer) -> None:
    agent = server.client()
    session = await agent.open(agent_id="alpha")
    given = {"capsule": {"version": "1", "handoff_to": "beta"}, "idempotency_key": "k"}
    first = (await agent.close(session, **given)).data
    server.harness.wait(hours=23)
    again = (await agent.close(session, **given)).data
    assert again["recovery_token"] != first["recovery_token"]
    assert again["recovery_token_expires_at"] == first["recovery_token_expires_at"]


@pytest.mark.parametrize("name", ["get_session_summary", "session_summary", "session_snapshot"])
async def test_a_summary_is_of_one_session_and_of_nothing_else(server: DelxServer, name: str) -> None:
    """3.4: `{session_id}`."""
    agent = server.client()
    session = await agent.open()
    assert (await agent.say(name, session_id=session, source="cron")).body["session"]["session_id"] == session
    for arguments, parameter in (({}, "session_id"), ({"session_id": session, "text": "bug"}, "text")):
        refused = (await agent.say(name, **arguments)).body["error"]
        assert (refused["code"], refused["details"]["parameter"]) == ("invalid_parameter", parameter)


async def test_a_repeat_does_not_prolong_the_day_for_which_a_key_counts(server: DelxServer) -> None:
    """6.7: within 24 hours of the first result, however often it was asked for again."""
    agent = server.client()
    session = await agent.open()
    await agent.close(session, idempotency_key="k")
    for _ in range(2):
        server.harness.wait(hours=11)
        assert (await agent.close(session, idempotency_key="k")).data["status"] == "closed"
    server.harness.wait(hours=3)
    assert (await agent.close(session, idempotency_key="k")).data["status"] == "already_closed"


async def test_every_fault_of_a_request_is_named_at_once(server: DelxServer) -> None:
    """4: `missing` and `fields` hold names, and the first of them decides about code and message."""
    agent = server.client()
    said = await agent.say("resume_session", lookback_days=0, on_held="perhaps", recovery_token=5)
    code, fields = validation(said)
    assert (code, said.body["missing"], said.body["error"]["param"]) == ("DELX-1001", ["agent_id"], "agent_id")
    assert set(fields) == {"lookback_days", "on_held", "recovery_token"}
    said = await agent.say("close_session", foo=1, succession_policy="never", capsule={"version": 1, "mood": "x"})
    code, fields = validation(said)
    assert (code, said.body["error"]["param"], said.body["missing"]) == ("DELX-1005", "foo", ["session_id"])
    assert set(fields) == {"foo", "succession_policy", "capsule.mood"}
    assert re.match("unknown parameter; the nearest is '.*', known are session_id, ", fields["foo"])
    many = await agent.say("close_session", **{f"unknown_{n}": n for n in range(500)})
    assert len(validation(many)[1]) == 20


async def test_what_is_wrong_with_a_token_is_no_secret(server: DelxServer) -> None:
    """4: `fields` names the constraint, under the name of a secret too."""
    said = await server.client().resume("alpha", recovery_token="x" * 1_025)
    assert validation(said) == ("DELX-1005", {"recovery_token": "at most 1024 characters"})


async def test_a_key_that_leaked_gives_its_answer_to_no_client_of_another_agent(server: DelxServer) -> None:
    """6.7 with 6.4: the repeat of a close or resume carries a token, so it is for those who may close and resume."""
    agent, other = server.client(), server.client("other")
    session = await agent.open(agent_id="alpha")
    await other.open(agent_id="beta")
    closing = {"idempotency_key": "k", "succession_policy": "successor_required"}
    await agent.close(session, **closing)
    assert (await other.close(session, **closing)).refusal("agent_not_entitled")["entitled"] == ["alpha"]
    token = (await agent.close(session, **closing)).data["recovery_token"]
    resuming = {"idempotency_key": "k", "recovery_token": token}
    forked = (await agent.resume("alpha", **resuming)).data["resumed_session_id"]
    assert (await other.resume("alpha", **resuming)).refusal("agent_not_entitled")["session_id"] == forked
    # The client that made the call may repeat it after working for another agent, and after a crash as a new client.
    await agent.open(agent_id="beta")
    restarted = server.client("restarted")
    (await restarted.resume("alpha", **resuming)).refusal("session_held")
    for repeating in (agent, restarted):
        assert (await repeating.resume("alpha", **resuming)).data["recovery_token"].startswith("slr1.")
        await server.harness.app.continuity.client_gone(str(agent.caller.client_id))


@pytest.mark.parametrize("max_chars", [500, 620, 2_000])
async def test_the_warning_of_another_header_has_room_within_max_chars(server: DelxServer, max_chars: int) -> None:
    """6.3 with `max_chars` of query_history, which is the whole answer."""
    agent = server.client()
    session, other = await agent.open(title="x" * 500), await agent.open()
    for n in range(20):
        await agent.begin(session, f"{n} " + "long " * 90)
    elsewhere = server.client(session_handle=other)
    for question in ({}, {"kinds": ["turn", "entry"]}, {"text": "long", "kinds": ["turn"]}):
        said = await elsewhere.say("query_history", session_id=session, max_chars=max_chars, **question)
        assert said.warnings == ["session_id_mismatch"], said.body
        assert len(said.texts[0]) <= max_chars
        assert said.body["next_cursor"]
        more = await elsewhere.say(
            "query_history", session_id=session, max_chars=max_chars, cursor=said.body["next_cursor"], **question
        )
        assert more.body["items"]


async def test_all_faults_of_a_close_are_listed_those_inside_its_statement_too(server: DelxServer) -> None:
    agent = server.client()
    session = await agent.open()
    said = await agent.close(session, reason="x" * 4_001, capsule={"version": 2, "mood": "x", "goal": "g" * 4_001})
    code, fields = validation(said)
    assert (code, set(fields)) == ("DELX-1005", {"reason", "capsule.version", "capsule.mood", "capsule.goal"})
    assert await server.state(session) == "open"
