"""The acceptance cases of the native tools, each named by its sentence, on a real app over a real SQLite file."""

import json
import logging
import re
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp.client.client import Client

from shiftlog.journal.history.fitting import size
from shiftlog.mcp.catalogue import registry_for
from shiftlog.mcp.server import build_server
from shiftlog.params.fields import Field, ListOf, Record
from tests.journal.harness import Harness, client, files_holding, open_harness
from tests.mcp.wire import REVISIONS, sdk_client

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[3]
VENDOR = "e4ee2456-8a54-4492-9915-1904d6b2966a"
ITEM = {"role": "model", "category": "decision", "content": "Decision: lock the temp dir"}
ACTION = {"description": "Lock it", "type": "edit", "status": "completed", "file_path": "src/up.py"}


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncGenerator[Harness]:
    async with open_harness(tmp_path / "home") as harness:
        yield harness


async def test_01_open_with_agent_and_title_only_mints_the_documented_id_and_a_second_in_the_same_second_another(
    harness: Harness,
) -> None:
    given = {"agent": "ClaudeCode", "title": "Implement auth!"}
    minted = [(await harness.call("open_session", given))["session_id"] for _ in range(3)]
    assert minted == [
        "ClaudeCode-20260701T120000Z-implement-auth",
        "ClaudeCode-20260701T120000Z-implement-auth-2",
        "ClaudeCode-20260701T120000Z-implement-auth-3",
    ]


async def test_02_open_with_a_taken_id_is_refused_with_the_state_and_title_of_the_session_that_has_it(
    harness: Harness,
) -> None:
    taken = await harness.open(title="The first")
    error = await harness.refusal("open_session", {"agent": "Codex", "title": "The second", "session_id": taken})
    assert error.code == "session_already_exists"
    assert error.message == f"Session with ID {taken} already exists"
    assert error.details == {
        "session_id": taken,
        "state": "open",
        "title": "The first",
        "started": "2026-07-01T12:00:00Z",
    }
    assert error.hint == "Use a new session ID"


async def test_03_an_update_with_two_dialog_items_and_one_invalid_action_stores_nothing_and_names_the_action(
    harness: Harness,
) -> None:
    session = await harness.open()
    await harness.begin(session)
    given = {"session_id": session, "dialog": [ITEM, ITEM], "actions": [{**ACTION, "type": "Not A Type"}]}
    error = await harness.refusal("update_turn", given)
    assert error.code == "invalid_parameter"
    assert error.details["parameter"] == "actions[0].type"
    turn = await harness.turn(session)
    assert (turn.dialog_items, turn.actions) == (0, 0)


async def test_04_an_update_with_empty_lists_and_strings_only_leaves_what_is_stored_and_says_unchanged(
    harness: Harness,
) -> None:
    session = await harness.open()
    await harness.begin(session, tags=["a"])
    await harness.update(session, response="Stored", blockers=["b"], dialog=[ITEM])
    before = await harness.turn(session)
    empty: dict[str, Any] = {
        "response": "",
        "interpretation": " ",
        "tags": [],
        "blockers": [],
        "dialog": [],
        "actions": [],
        "clear": [],
    }
    answered = await harness.update(session, **empty)
    assert answered["receipt"]["code"] == "unchanged"
    assert answered["updated"] is True
    assert await harness.turn(session) == before


async def test_05_clear_tags_on_an_open_turn_empties_them_and_the_journal_still_holds_the_old_value(
    harness: Harness,
) -> None:
    session = await harness.open()
    await harness.begin(session)
    await harness.update(session, tags=["kept in the journal"])
    await harness.update(session, clear=["tags"])
    assert (await harness.turn(session)).tags == ()
    assert "kept in the journal" in str([entry.body for entry in await harness.entries(session)])
    assert (await harness.verify(session))[0].ok


async def test_06_finish_completed_without_a_response_and_none_stored_is_an_invalid_parameter_response(
    harness: Harness,
) -> None:
    session = await harness.open()
    await harness.begin(session)
    for response in ({}, {"response": ""}, {"response": " \n"}):
        error = await harness.refusal("finish_turn", {"session_id": session, "outcome": "completed", **response})
        assert error.code == "invalid_parameter"
        assert error.details["parameter"] == "response"


async def test_07_finish_twice_with_the_same_outcome_is_unchanged_and_with_the_other_turn_immutable(
    harness: Harness,
) -> None:
    session = await harness.open()
    for once, other in ((harness.complete, "failed"), (harness.fail, "completed")):
        await harness.begin(session)
        await once(session)
        assert (await once(session))["receipt"]["code"] == "unchanged"
        given = {"session_id": session, "outcome": other, "response": "x", "error_message": "x"}
        assert (await harness.refusal("finish_turn", given)).code == "turn_immutable"


async def test_08_begin_while_a_turn_is_open_fails_the_old_one_with_code_superseded_and_names_it(
    harness: Harness,
) -> None:
    session = await harness.open()
    old = await harness.begin(session)
    given = {"session_id": session, "query_title": "Next", "query_text": "Next"}
    answered = await harness.call("begin_turn", given)
    assert answered["superseded_request_id"] == old
    turn = await harness.turn(session, old)
    assert (turn.status, turn.error_code) == ("failed", "superseded")


async def test_09_a_stale_fence_is_lease_lost_stores_nothing_and_names_the_holders_agent_and_expiry(
    harness: Harness,
) -> None:
    former, newer = client("former"), client("newer")
    session = await harness.open(former, agent_id="nightly-fixer")
    await harness.begin(session, former)
    await harness.call("resume_session", {"agent_id": "nightly-fixer", "on_held": "take_over"}, newer)
    error = await harness.refusal("update_turn", {"session_id": session, "tags": ["x"], "fence": 1}, former)
    assert error.code == "lease_lost"
    held_by = error.details["held_by"]
    assert isinstance(held_by, dict)
    assert (held_by["agent_id"], held_by["expires_at"]) == ("nightly-fixer", "2026-07-01T12:02:00Z")
    assert (error.details["fence_given"], error.details["fence_current"]) == (1, 2)


@pytest.mark.parametrize("turns", [600, pytest.param(10_000, marks=pytest.mark.soak)])
async def test_10_query_history_pages_through_all_turns_exactly_once_while_another_process_keeps_adding(
    tmp_path: Path, turns: int
) -> None:
    home = tmp_path / "home"
    async with open_harness(home) as harness:
        session = await harness.open()
        other = await harness.open(title="Filled by another process")
        names = [await harness.begin(session, query_title=f"Turn {n}") for n in range(turns)]
        command = [sys.executable, "-m", "tests.journal.adding", str(home), other]
        pipe = subprocess.PIPE
        async with await anyio.open_process(command, stdin=pipe, stdout=pipe, stderr=None, cwd=ROOT) as adding:
            assert adding.stdin is not None
            assert adding.stdout is not None
            lines = BufferedByteReceiveStream(adding.stdout)
            assert await lines.receive_until(b"\n", 100) == b"ready"
            listed, read = await _page_while_adding(harness, session, other)
            await adding.stdin.aclose()
            added = int(await lines.receive_until(b"\n", 100))
        assert added > 1, "nobody wrote meanwhile"
        assert [name for session_id, name in listed if session_id == session] == names[::-1]
        assert len(listed) == len(set(listed))
        assert read == names
        assert all(found.ok for found in await harness.verify(other))


async def _page_while_adding(harness: Harness, session: str, other: str) -> tuple[list[tuple[str, str]], list[str]]:
    """Page through all turns and through those of one session; make sure that the other one grows between pages."""
    listed: list[tuple[str, str]] = []
    cursor: dict[str, Any] = {}
    while True:
        page = await harness.query(kinds=["turn"], limit=50, max_chars=100_000, **cursor)
        listed += [(item["session_id"], item["request_id"]) for item in page["items"]]
        before = (await harness.session(other)).turns_total
        while (await harness.session(other)).turns_total == before:
            await anyio.lowlevel.checkpoint()
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    items = await harness.items(session_id=session, limit=200, max_chars=200_000)
    return listed, [item["request_id"] for item in items]


async def test_11_a_text_query_that_matches_a_decision_three_sessions_ago_names_that_session_and_shows_the_sentence(
    harness: Harness,
) -> None:
    sentence = "Decision: evict under the shard lock, never outside it"
    decided = await harness.open(title="Cache")
    await harness.begin(decided)
    await harness.update(decided, dialog=[{**ITEM, "content": f"We argued a while. {sentence}. Then lunch."}])
    for title in ("Upload", "Evict old logs", "Docs"):
        harness.wait(days=1)
        later = await harness.open(title=title)
        await harness.begin(later)
        await harness.complete(later, response="Nothing about that")
    answered = await harness.query(text='evict "shard lock"')
    assert answered["items"][0]["session_id"] == decided
    shown = answered["items"][0]["snippet"].replace("«", "").replace("»", "")
    assert sentence in shown


# 12: secrets


def _paths(fields: Mapping[str, Field], prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Name every place of a request that takes text of one's own."""
    for name, field in fields.items():
        item = field.item if isinstance(field, ListOf) else field
        here = (*prefix, name)
        if isinstance(item, Record):
            yield from _paths(item.fields, here)
        else:
            yield here


def _with(arguments: dict[str, Any], path: tuple[str, ...], text: str, fields: Mapping[str, Field]) -> dict[str, Any]:
    """Put a text at a path, making the lists and records on the way."""
    name, *rest = path
    field = fields[name]
    item = field.item if isinstance(field, ListOf) else field
    value: Any = text
    if rest and isinstance(item, Record):
        value = _with(dict(FILLED.get(name, {})), tuple(rest), text, item.fields)
    return {**arguments, name: [value] if isinstance(field, ListOf) else value}


FILLED: dict[str, dict[str, Any]] = {"dialog": ITEM, "actions": ACTION, "commits": {"sha": "a1b2"}, "usage": {}}


def _secret(n: int) -> tuple[str, str]:
    """Return the nth secret and a sentence that holds it; every place gets one of its own."""
    forms = [
        ("ghp_{0}", "use ghp_{0} there"),
        ("hunter2{0}", "password=hunter2{0}"),
        ("AKIA{1}", "the key AKIA{1}"),
        ("sk-ant-{0}", "Authorization: Bearer sk-ant-{0}"),
    ]
    drawn = f"{n:04d}aB3" + "kZ9qW7xY" * 4
    upper = f"{n:04d}ABCDEFGHIJKL"
    secret, sentence = forms[n % len(forms)]
    return secret.format(drawn[:36], upper), sentence.format(drawn[:36], upper)


async def test_12_a_secret_in_any_field_of_any_tool_is_in_no_store_no_result_and_no_log_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    home = tmp_path / "home"
    secrets: dict[str, str] = {}
    said: list[str] = []
    async with open_harness(home) as harness:
        registry = registry_for(harness.app)
        async with sdk_client(build_server(registry)) as mcp:
            for tool in (tool for tool in registry.tools if tool.toolset == "journal"):
                for path in _paths(tool.params.fields):
                    secret, sentence = _secret(len(secrets))
                    secrets["/".join((tool.name, *path))] = secret
                    given = await _valid_call(harness, tool.name)
                    result = await mcp.call_tool(tool.name, _with(given, path, sentence, tool.params.fields))
                    said.append(result.model_dump_json())
            assert len(said) > 100
            assert sum('"isError":false' in line or '"is_error":false' in line for line in said) > 40
        assert all(found.ok for found in await harness.verify())
    for place, secret in secrets.items():
        assert not any(secret in line for line in said), place
        assert secret not in caplog.text, place
        assert files_holding(home, secret) == [], place


async def _valid_call(harness: Harness, tool: str) -> dict[str, Any]:
    """Return arguments with which a call of the tool works."""
    if tool == "open_session":
        return {"agent": "Codex", "title": "x"}
    if tool == "query_history":
        return {}
    session = await harness.open()
    if tool == "resume_session":
        return {"agent_id": "Codex", "session_id": session}
    if tool == "begin_turn":
        return {"session_id": session, "query_title": "x", "query_text": "x"}
    await harness.begin(session)
    finish = {"outcome": "failed", "error_message": "x"} if tool == "finish_turn" else {}
    return {"session_id": session, **finish}


async def test_13_max_chars_500_on_a_large_session_is_valid_json_under_the_limit_and_names_the_next_call(
    harness: Harness,
) -> None:
    session = await harness.open(title="A large session " * 20, tags=["tag " + "x" * 150] * 50)
    for n in range(40):
        await harness.begin(session, query_text="long " * 5_000)
        await harness.update(session, dialog=[{**ITEM, "content": "much talk " * 2_000}] * 5)
        await harness.complete(session, response=f"{n} " + "answer " * 5_000)
    answered = await harness.query(session_id=session, max_chars=500)
    text = json.dumps(answered, ensure_ascii=False, separators=(",", ":"))
    assert len(text) == size(answered) <= 500
    assert json.loads(text) == answered
    assert answered["truncated"] is True
    assert answered["note"].startswith("cut; call query_history with next_cursor")
    assert answered["total"] == 40
    more = await harness.query(session_id=session, max_chars=500, cursor=answered["next_cursor"])
    assert more["items"][0]["request_id"] != answered["items"][0]["request_id"]
    turn = await harness.query(session_id=session, request_id=answered["items"][0]["request_id"], max_chars=500)
    assert size(turn) <= 500
    assert turn["truncated"] is True


async def _day(mcp: Client) -> list[Any]:
    """Work through a whole day over a client and return what the server said."""
    said: list[Any] = []

    async def call(name: str, **arguments: Any) -> dict[str, Any]:
        result = await mcp.call_tool(name, arguments)
        content = [json.loads(block.model_dump()["text"]) for block in result.content[:1]]
        assert content == [result.structured_content]
        said.append((name, result.is_error, result.structured_content))
        return result.structured_content or {}

    session = (await call("open_session", agent="Codex", title="Fix upload", model="gpt-x"))["session_id"]
    await call("open_session", agent="codex", title="Fix upload")
    await call("open_session", agent="Codex", titel="Fix upload")
    await call("begin_turn", session_id=session, query_title="Find it", query_text="Why?\n“Flakes”")
    await call("update_turn", session_id=session, dialog=[ITEM], actions=[ACTION], usage={"cost_usd": 0.25})
    await call("update_turn", session_id=1, tags=["x"], fence=9)
    await call("finish_turn", session_id=session, outcome="completed")
    await call("finish_turn", session_id=session, outcome="completed", response="Done")
    await call("update_turn", session_id=session, tags=["late"])
    await call("query_history", session_id=session)
    await call("query_history", text="temp dir", kinds=["turn", "decision"])
    await call("close_session", session_id=session, reason="end_of_shift")
    await call("close_session")
    await call("begin_turn", session_id=session, query_title="x", query_text="x")
    await call("resume_session", agent_id="nobody")
    await call("resume_session", agent_id="codex")
    listed = await mcp.list_tools()
    said.append([tool.model_dump(by_alias=True, exclude_none=True) for tool in listed.tools])
    templates = await mcp.list_resource_templates()
    said.append([item.uri_template for item in templates.resource_templates])
    read = await mcp.read_resource(f"shiftlog://sessions/{session}")
    said.append(read.contents[0].model_dump(by_alias=True, exclude_none=True))
    prompt = await mcp.get_prompt("handover", {"agent_id": "codex"})
    said.append([message.model_dump(by_alias=True, exclude_none=True) for message in prompt.messages])
    return said


async def test_14_a_client_of_either_protocol_revision_gets_the_same_results_for_the_same_calls(tmp_path: Path) -> None:
    days: list[list[Any]] = []
    for revision in REVISIONS:
        async with (
            open_harness(tmp_path / revision) as harness,
            sdk_client(build_server(registry_for(harness.app)), revision) as mcp,
        ):
            days.append(await _day(mcp))
    old, new = (json.loads(_comparable(day)) for day in days)
    for before, now in zip(old, new, strict=True):
        assert before == now
    assert [error for _, error, _ in days[0][:16]] == [
        *(False, True, True, False, False, True, True, False),
        *(True, False, False, False, True, True, True, False),
    ]


def _comparable(day: list[Any]) -> str:
    """Return a day without hashes, signatures and tokens, which salt and key make different each time."""
    text = json.dumps(day)
    text = re.sub(r"sha256:[0-9a-f]{64}", "sha256:…", text)
    text = re.sub(r"slr1\.[A-Za-z0-9_.-]+", "slr1.…", text)
    text = re.sub(r'(\\*"key_id\\*": ?\\*")[0-9a-f]+', r"\1…", text)
    return re.sub(r'(\\*"signature\\*": ?\\*")[A-Za-z0-9+/=]+', r"\1…", text)


async def test_15_a_vendor_session_id_that_fits_two_sessions_is_an_invalid_parameter_listing_both(
    harness: Harness,
) -> None:
    second = "Codex-20260701T120001Z-another-of-the-same-client"
    both = [
        await harness.open(vendor_session_id=VENDOR),
        await harness.open(session_id=second, vendor_session_id=VENDOR.upper()),
    ]
    for tool, more in (
        ("begin_turn", {"query_title": "x", "query_text": "x"}),
        ("update_turn", {"tags": ["x"]}),
        ("finish_turn", {"outcome": "completed", "response": "x"}),
        ("close_session", {}),
        ("resume_session", {"agent_id": "Codex"}),
        ("query_history", {}),
    ):
        error = await harness.refusal(tool, {"session_id": VENDOR, **more})
        assert error.code == "invalid_parameter"
        assert error.details["parameter"] == "session_id"
        assert error.details["allowed"] == both
    error = await harness.refusal("open_session", {"agent": "Codex", "title": "x", "parent_session_id": VENDOR})
    assert error.details["parameter"] == "parent_session_id"


def test_the_documentation_names_the_test_of_every_case() -> None:
    page = (ROOT / "docs" / "dialects" / "native.md").read_text(encoding="utf-8")
    named = re.findall(r"\| (\d+) [^|]*\| `(test_\w+)`", page)
    cases = [name for name in globals() if re.match(r"test_\d\d_", name)]
    assert [name for _, name in named] == cases
    assert [int(number) for number, _ in named] == list(range(1, 16))
