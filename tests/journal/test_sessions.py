"""Opening sessions: ids, agents, lineage, runs and what an agent learns about its predecessor."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shiftlog.journal.requests import RUN_FIELDS
from shiftlog.model.caller import LIBRARY
from tests.journal.harness import NOON, Harness, client, open_harness
from tests.model.test_ids import INVALID_SESSIONS, VALID_SESSIONS

VENDOR = "e4ee2456-8a54-4492-9915-1904d6b2966a"


async def opened(harness: Harness, **arguments: Any) -> dict[str, Any]:
    return await harness.call("open_session", {"agent": "Codex", "title": "Fix upload", **arguments})


async def test_the_result_has_every_key_of_the_contract(harness: Harness) -> None:
    answered = await opened(harness)
    receipt = answered.pop("receipt")
    assert answered == {
        "session_id": "Codex-20260701T120000Z-fix-upload",
        "run_id": None,
        "agent": "Codex",
        "agent_id": "Codex",
        "state": "open",
        "started": "2026-07-01T12:00:00Z",
        "lease": {"fence": 1, "expires_at": None},
        "resonance_tier": None,
        "model": None,
        "reasoning_effort": None,
        "predecessor": None,
        "joined": False,
        "warnings": [],
    }
    session = await harness.session(answered["session_id"])
    assert receipt == {
        "code": "persisted",
        "session_id": session.id,
        "seq": session.head_seq,
        "hash": session.head_hash,
        "redactions": 0,
    }
    assert await harness.kinds(session.id) == ["session.opened", "lease.taken"]


@pytest.mark.parametrize("name", VALID_SESSIONS)
async def test_a_well_formed_id_of_the_agent_is_taken_as_given(harness: Harness, name: str) -> None:
    assert (await opened(harness, agent=name.split("-", maxsplit=1)[0], session_id=name))["session_id"] == name


@pytest.mark.parametrize("name", [name for name in INVALID_SESSIONS if name])
async def test_a_malformed_id_is_refused_and_nothing_is_stored(harness: Harness, name: str) -> None:
    given = {"agent": "Copilot", "title": "x", "session_id": name}
    error = await harness.refusal("open_session", given)
    assert error.code in ("invalid_session_id", "invalid_parameter")
    assert error.code == "invalid_session_id" or "\n" in name
    assert error.code != "invalid_session_id" or "leave session_id out of open_session" in (error.hint or "")


async def test_an_id_of_another_agent_is_refused(harness: Harness) -> None:
    name = "Codex-20260701T120000Z-x"
    error = await harness.refusal("open_session", {"agent": "Copilot", "title": "x", "session_id": name})
    assert error.message == "Session ID prefix must match agent name"


@pytest.mark.parametrize("agent", ["codex", "Code X", "Codex-1", "", "Ä", "A" * 65, "1Codex", None, 7])
async def test_an_agent_kind_that_is_not_pascal_case_is_refused(harness: Harness, agent: object) -> None:
    error = await harness.refusal("open_session", {"agent": agent, "title": "x"})
    assert error.details["parameter"] == "agent"


@pytest.mark.parametrize("title", ["", "  ", None, "x" * 501, "a\x00b"])
async def test_a_title_of_other_than_1_to_500_characters_is_refused(harness: Harness, title: object) -> None:
    error = await harness.refusal("open_session", {"agent": "Codex", "title": title})
    assert error.details["parameter"] == "title"


async def test_a_title_of_500_characters_is_taken(harness: Harness) -> None:
    session = await harness.session(await harness.open(title="x" * 500))
    assert len(session.title) == 500


async def test_session_tags_are_kept_once_each_and_at_most_50(harness: Harness) -> None:
    session = await harness.session(await harness.open(tags=["a", "b", "a", " "]))
    assert session.tags == ("a", "b")
    assert len((await harness.session(await harness.open(tags=[str(n) for n in range(50)]))).tags) == 50
    error = await harness.refusal("open_session", {"agent": "Codex", "title": "x", "tags": ["t"] * 51})
    assert error.details["constraint"] == "at most 50 items"


async def test_an_agent_id_is_shown_in_the_spelling_first_used(harness: Harness) -> None:
    assert (await opened(harness, agent_id="My Agent/One"))["agent_id"] == "My Agent/One"
    assert (await opened(harness, agent_id=" MY  AGENT one "))["agent_id"] == "My Agent/One"
    assert (await opened(harness, agent_id="my_agent"))["agent_id"] == "my_agent"


async def test_an_agent_id_drawn_for_one_run_draws_a_warning(harness: Harness) -> None:
    warnings = (await opened(harness, agent_id="agent-0123456789abcdef"))["warnings"]
    assert [warning["code"] for warning in warnings] == ["unstable_agent_id"]


async def test_an_agent_id_without_letters_is_refused(harness: Harness) -> None:
    error = await harness.refusal("open_session", {"agent": "Codex", "title": "x", "agent_id": "---"})
    assert error.details["parameter"] == "agent_id"


async def test_a_blank_agent_id_is_the_agent_kind(harness: Harness) -> None:
    assert (await opened(harness, agent_id="  "))["agent_id"] == "Codex"


# Lineage


async def test_the_predecessor_is_the_newest_unfinished_session_of_agent_and_workspace(harness: Harness) -> None:
    here = replace(client(), workspace="/work/here", cwd="/work/here")
    before = replace(here, client_id="client-before")
    old = await harness.open(before, title="Older")
    await harness.begin(old, before)
    harness.wait(minutes=1)
    newer = await harness.open(before, title="Newer")
    await harness.begin(newer, before)
    elsewhere = await harness.open(replace(before, workspace="/elsewhere", cwd="/elsewhere"), title="Elsewhere")
    await harness.begin(elsewhere)
    await harness.begin(await harness.open(before, title="Other agent", agent_id="somebody"))
    harness.wait(minutes=1)
    answered = await harness.call("open_session", {"agent": "Codex", "title": "Now"}, here)
    assert answered["predecessor"] == {
        "session_id": newer,
        "state": "open",
        "last_activity": "2026-07-01T12:01:00Z",
        "title": "Newer",
    }
    assert (await harness.session(newer)).head_seq == 3
    assert (await harness.session(old)).head_seq == 3


async def test_a_closed_session_is_no_predecessor(harness: Harness) -> None:
    await harness.call("close_session", {"session_id": await harness.open()})
    assert (await opened(harness))["predecessor"] is None


async def test_a_parent_may_be_named_in_every_way_a_session_can(harness: Harness) -> None:
    parent = await harness.open(model="m", vendor_session_id=VENDOR)
    run = (await harness.session(parent)).run
    assert run is not None
    for name in (parent, run.alias, str(run.alias), VENDOR, VENDOR.upper()):
        child = await harness.session(await harness.open(parent_session_id=name))
        assert child.parent_session_id == parent
    children = (await harness.query(session_id=parent))["session"]["children"]
    assert len(children) == 5


async def test_an_unknown_or_malformed_parent_is_refused(harness: Harness) -> None:
    unknown = {"agent": "Codex", "title": "x", "parent_session_id": "Codex-20260701T120000Z-nobody"}
    assert (await harness.refusal("open_session", unknown)).code == "session_not_found"
    malformed = {**unknown, "parent_session_id": "nobody"}
    assert (await harness.refusal("open_session", malformed)).code == "invalid_session_id"


# Names of a session


async def test_a_transcript_is_kept_by_its_whole_path_also_before_it_is_written(
    harness: Harness, tmp_path: Path
) -> None:
    for given in ("rollout.jsonl", f" {tmp_path / 'rollout.jsonl'} "):
        asked = {"agent": "Codex", "title": "x", "transcript_path": given}
        answered = await harness.call("open_session", asked, client(cwd=str(tmp_path)))
        assert answered["warnings"] == []
        kept = (await harness.session(answered["session_id"])).transcript_path
        assert kept == str(tmp_path / "rollout.jsonl")


async def test_a_session_is_found_by_journal_id_alias_and_vendor_id_in_any_case(harness: Harness) -> None:
    answered = await opened(harness, caller="x", vendor_session_id=VENDOR.upper())
    for name in (answered["session_id"], answered["run_id"], str(answered["run_id"]), VENDOR, VENDOR.upper()):
        read = await harness.query(session_id=name)
        assert read["session"]["session_id"] == answered["session_id"]


@pytest.mark.parametrize("name", ["e4ee2456", "codex-20260701T100000Z-x", "-1", "0", "42\n", f"{VENDOR}\n"])
async def test_a_name_of_no_form_is_an_invalid_session_id(harness: Harness, name: str) -> None:
    error = await harness.refusal("begin_turn", {"session_id": name, "query_title": "x", "query_text": "x"})
    assert error.code == "invalid_session_id"
    assert (error.hint or "").startswith("Use the session_id that open_session returned, ")
    assert error.details["providedId"] == name


@pytest.mark.parametrize("name", ["42", 42, VENDOR, "Codex-20260701T100000Z-nightly"])
async def test_a_well_formed_name_that_nobody_has_is_not_found(harness: Harness, name: object) -> None:
    error = await harness.refusal("begin_turn", {"session_id": name, "query_title": "x", "query_text": "x"})
    assert error.code == "session_not_found"
    assert error.message == f"Session not found: {name}"
    assert error.details == {"session_id": str(name), "operation": "begin_turn"}
    assert error.hint == "Call open_session first"


# Runs


async def test_any_run_field_makes_a_run_with_an_alias_of_its_own(harness: Harness) -> None:
    fields: dict[str, Any] = {
        "model": "gpt-x",
        "reasoning_effort": "high",
        "resonance_tier": "bajo",
        "backend": "codex",
        "caller": "headless_task",
        "session_type": "headless",
        "cwd": "/tmp",
        "pid": 1,
        "context_excerpt": "Why?",
    }
    aliases = [(await opened(harness, **{name: value}))["run_id"] for name, value in fields.items()]
    assert aliases == list(range(aliases[0], aliases[0] + len(fields)))
    assert (await opened(harness))["run_id"] is None
    assert (await opened(harness, model=" ", cwd="", context_excerpt=""))["run_id"] is None


async def test_an_alias_is_never_given_twice_even_after_a_restart(tmp_path: Path) -> None:
    async with open_harness(tmp_path / "home") as harness:
        first = (await opened(harness, model="m"))["run_id"]
        await harness.refusal("open_session", {"agent": "Codex", "title": "x", "model": "m", "session_id": "bad"})
    async with open_harness(tmp_path / "home") as harness:
        assert (await opened(harness, model="m"))["run_id"] == first + 1


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"caller": "headless_task"}, ("alto", "gpt-5.6-sol", "high")),
        ({"resonance_tier": "maximo"}, ("maximo", "gpt-5.6-sol", "xhigh")),
        ({"resonance_tier": "muy_bajo"}, ("muy_bajo", "gpt-5.6-sol", "low")),
        ({"model": "own[1m]", "reasoning_effort": "xhigh"}, ("alto", "own[1m]", "xhigh")),
        ({"agent": "ClaudeCode", "resonance_tier": "muy_bajo"}, ("muy_bajo", "haiku", None)),
        ({"agent": "ClaudeCode", "resonance_tier": "bajo"}, ("bajo", "opus", "medium")),
        ({"agent": "MyBot", "caller": "headless_task"}, ("alto", None, None)),
        ({"agent": "MyBot", "backend": "claude_code"}, ("alto", "opus", "xhigh")),
    ],
)
async def test_tier_model_and_effort_are_resolved_for_a_launcher_alone(
    harness: Harness, given: dict[str, Any], expected: tuple[str | None, ...]
) -> None:
    names = ("resonance_tier", "model", "reasoning_effort")
    arguments = {"agent": "Codex", "title": "t", **given}
    launched = await harness.app.sessions.open_session(arguments, LIBRARY, resolves=True)
    assert tuple(launched[name] for name in names) == expected
    run = (await harness.session(launched["session_id"])).run
    assert run is not None
    found = {name for name, value in zip(names, expected, strict=True) if value is not None}
    assert set(run.resolved) == found - given.keys()
    own = await opened(harness, **given)
    assert {name: own[name] for name in names} == {name: given.get(name) for name in names}, "nobody gave the rest"


async def test_a_missing_backend_follows_from_the_agent_kind(harness: Harness) -> None:
    run = (await harness.session(await harness.open(agent="GeminiCli", caller="headless_task"))).run
    assert run is not None
    assert (run.backend, run.provider, run.session_type) == ("gemini_cli", "google", "interactive_desktop")


async def test_an_unregistered_caller_is_accepted_with_a_warning(harness: Harness) -> None:
    for agent in ("Codex", "MyBot"):
        arguments = {"agent": agent, "title": "t", "caller": "newcomer"}
        warnings = (await harness.app.sessions.open_session(arguments, LIBRARY, resolves=True))["warnings"]
        assert [warning["message"] for warning in warnings] == [
            "caller 'newcomer' is not registered; using the default tier 'alto'"
        ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("backend", "notepad"),
        ("session_type", "interactive"),
        ("resonance_tier", "medium"),
        ("pid", "abc"),
        ("pid", 0),
        ("pid", 2**32),
        ("reasoning_effort", "x" * 41),
        ("model", "x" * 201),
        ("caller", "x" * 201),
        ("cwd", "/" + "x" * 4096),
    ],
)
async def test_a_run_field_outside_its_values_is_refused(harness: Harness, name: str, value: object) -> None:
    error = await harness.refusal("open_session", {"agent": "Codex", "title": "x", name: value})
    assert error.details["parameter"] == name


async def test_a_blank_run_field_is_left_out_as_in_the_ledger(harness: Harness) -> None:
    blank = dict.fromkeys(RUN_FIELDS, " ")
    opened = await harness.call("open_session", {"agent": "Codex", "title": "t", **blank})
    assert (opened["run_id"], opened["resonance_tier"], opened["model"]) == (None, None, None)
    opened = await harness.call("open_session", {"agent": "Codex", "title": "t", **blank, "pid": "", "caller": "me"})
    assert (opened["run_id"], opened["resonance_tier"]) == (1, None)
    closed = await harness.call("close_session", {"session_id": 1, "returncode": 0, "total_cost_usd": ""})
    assert closed["status"] == "closed"


async def test_an_unknown_backend_lists_the_registered_ones(harness: Harness) -> None:
    error = await harness.refusal("open_session", {"agent": "Codex", "title": "x", "backend": "notepad"})
    assert error.details["allowed"] == ["claude_code", "codex", "gemini_cli", "opencode", "copilot_cli", "cursor"]


@pytest.mark.parametrize("pid", [4321, "4321"])
async def test_a_pid_may_come_as_text(harness: Harness, pid: object) -> None:
    run = (await harness.session(await harness.open(pid=pid))).run
    assert run is not None
    assert run.pid == 4321


async def test_an_excerpt_is_masked_then_cut_and_its_given_length_is_kept(harness: Harness) -> None:
    secret = "AKIA" + "IOSFODNN7EXAMPLE"
    text = secret + " " + "x" * (5_000 - len(secret) - 1)
    run = (await harness.session(await harness.open(context_excerpt=text))).run
    assert run is not None
    assert run.prompt_chars == 5_000
    assert run.context_excerpt is not None
    assert len(run.context_excerpt) == 2_048
    assert run.context_excerpt.startswith("[REDACTED:provider_key] xxx")


async def test_an_excerpt_may_be_of_any_length(harness: Harness) -> None:
    run = (await harness.session(await harness.open(context_excerpt="word " * 500_000))).run
    assert run is not None
    assert run.prompt_chars == 2_500_000


async def test_a_directory_is_taken_as_the_client_means_it(harness: Harness, tmp_path: Path) -> None:
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / "src").mkdir()
    here = replace(LIBRARY, cwd=str(tmp_path / "repo"), workspace=str(tmp_path / "repo"))
    for cwd in ("src", str(tmp_path / "repo" / "src"), "./src/../src"):
        session = await harness.session(await harness.open(here, cwd=cwd))
        assert session.cwd == str(tmp_path / "repo" / "src")
        assert session.workspace == str(tmp_path / "repo")
    assert (await harness.session(await harness.open(cwd="~/x"))).cwd == str(Path.home() / "x")
    assert (await harness.session(await harness.open(cwd="~nobody-here/x"))).cwd == "~nobody-here/x"
    assert (await harness.session(await harness.open())).cwd is None


async def test_a_directory_that_cannot_be_looked_at_is_kept_as_it_is(harness: Harness) -> None:
    cwd = "/tmp/" + "x" * 300
    assert (await harness.session(await harness.open(cwd=cwd))).workspace == cwd


async def test_started_is_the_clock_and_not_the_time_in_the_id(harness: Harness) -> None:
    session = await harness.session(await harness.open(session_id="Codex-20200101T000000Z-old"))
    assert session.started == NOON
