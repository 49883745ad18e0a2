"""Bad input to the native tools: a clear error that names the argument, nothing stored, the server keeps serving."""

import json
import math
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shiftlog.mcp.catalogue import registry_for
from shiftlog.mcp.registry import Tool
from shiftlog.mcp.server import build_server
from shiftlog.model.caller import LIBRARY
from shiftlog.model.errors import InvalidParameter, ShiftlogError
from shiftlog.params.fields import Choice, Field, ListOf, Record, Text
from tests.journal.harness import Harness, open_harness
from tests.mcp.wire import REVISIONS, connected
from tests.property.sync_harness import SyncHarness, open_sync_harness

TOOLS = (
    *("open_session", "resume_session", "close_session", "begin_turn", "update_turn", "finish_turn"),
    "query_history",
)
ITEM = {"role": "model", "category": "decision", "content": "x"}
ACTION = {"description": "x", "type": "edit", "status": "completed"}
TEN_MB = "x" * 10_000_000

ODD_TEXT = st.sampled_from(
    [
        "",
        " ",
        "\x00",
        "a\x1bb\x7f",
        "\ud800",
        "a\udfffb",
        "\u2028",
        "\ufeff",
        "\U000e0041",
        "x" * 5_000,
        "é" * 300,
        "null",
        "-1",
        "NaN",
        "1e400",
        "9" * 5_000,
        "../../etc/passwd",
        "'; DROP TABLE entries; --",
        "{{7*7}}",
        "%s%n",
        "req-20260701T120000Z-x\n",
        "Codex-20260701T120000Z-nobody",
        "00000000-0000-0000-0000-000000000000",
    ]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**53, -(2**63), 10**30, 10**4_000, math.nan, math.inf, -math.inf, -0.0, 1e308])
    | st.floats()
    | ODD_TEXT
    | st.text(st.characters(), max_size=30)
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(ODD_TEXT | st.sampled_from(["role", "sha"]), inner, max_size=4)
    ),
    max_leaves=10,
)


def deep(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


DEEP = {levels: deep(levels) for levels in (5, 99, 100_000)}


@pytest.fixture(scope="module")
def fuzzed() -> Iterator[SyncHarness]:
    with open_sync_harness() as sync:
        yield sync


def tools_of(sync: SyncHarness) -> dict[str, Tool]:
    return {tool.name: tool for tool in registry_for(sync.harness.app).tools}


def valid_arguments(sync: SyncHarness, name: str) -> dict[str, Any]:
    """Return arguments with which the tool works, on a session of its own."""
    if name == "open_session":
        return {"agent": "Codex", "title": "x"}
    if name == "query_history":
        return {}
    session = sync.run(sync.harness.open())
    if name == "resume_session":
        return {"agent_id": "Codex", "session_id": session}
    if name == "begin_turn":
        return {"session_id": session, "query_title": "x", "query_text": "x"}
    sync.run(sync.harness.begin(session))
    more = {"outcome": "completed", "response": "x"} if name == "finish_turn" else {}
    return {"session_id": session, **more}


def attempt(sync: SyncHarness, tool: Tool, arguments: dict[str, Any]) -> ShiftlogError | None:
    """Run a tool; an error of ours has stored nothing, can be shown and is returned; any other one is a failure."""
    before = sync.harness.rows()

    async def run() -> None:
        await tool.run(LIBRARY, arguments)

    try:
        sync.run(run())
    except ShiftlogError as error:
        assert sync.harness.rows() == before
        json.dumps(error.as_dict(), allow_nan=False).encode("utf-8")
        return error
    return None


def top_of(path: object) -> str:
    """Return the argument that a path begins at."""
    return str(path).split("[")[0].split(".")[0]


@pytest.mark.parametrize("name", TOOLS)
@given(data=st.data())
@settings(max_examples=60)
def test_any_value_in_any_argument_is_taken_or_refused_by_name(
    fuzzed: SyncHarness, name: str, data: st.DataObject
) -> None:
    tool = tools_of(fuzzed)[name]
    names = st.sampled_from([*tool.params.fields, "mood"]) | ODD_TEXT
    wild = data.draw(st.dictionaries(names, ANYTHING, min_size=1, max_size=3))
    error = attempt(fuzzed, tool, {**valid_arguments(fuzzed, name), **wild})
    if isinstance(error, InvalidParameter):
        given = {key.encode("utf-8", "replace").decode()[:200] for key in wild}
        named = str(error.details["parameter"])
        assert named in given or top_of(named) in {*given, *tool.params.fields}


def _leaves(fields: dict[str, Field]) -> Iterator[tuple[str, ...]]:
    for name, field in fields.items():
        item = field.item if isinstance(field, ListOf) else field
        if isinstance(item, Record):
            yield from ((name, *rest) for rest in _leaves(dict(item.fields)))
        elif isinstance(item, Text | Choice):
            yield (name,)


def _placed(tool: Tool, path: tuple[str, ...], value: object) -> dict[str, Any]:
    name, *rest = path
    field = tool.params.fields[name]
    filled = {"dialog": ITEM, "actions": ACTION, "commits": {"sha": "a"}, "capsule": {"version": "1"}}.get(name, {})
    placed = {**filled, rest[0]: value} if rest else value
    return {name: [placed] if isinstance(field, ListOf) else placed}


@pytest.mark.parametrize("name", TOOLS)
def test_ten_megabytes_in_any_text_are_refused_by_name(fuzzed: SyncHarness, name: str) -> None:
    tool = tools_of(fuzzed)[name]
    arguments = valid_arguments(fuzzed, name)
    for path in _leaves(dict(tool.params.fields)):
        error = attempt(fuzzed, tool, {**arguments, **_placed(tool, path, TEN_MB)})
        if path in (("context_excerpt",), ("error",)):
            assert error is None, "it may have any length"
            break  # and a close ends the tries
        assert error is not None, path
        assert len(json.dumps(error.as_dict())) < 6_000
        if error.code in ("invalid_session_id", "invalid_request_id"):
            assert path in (("session_id",), ("request_id",), ("parent_session_id",))
        else:
            assert top_of(error.details["parameter"]) == path[0]


@pytest.mark.parametrize("name", TOOLS)
@pytest.mark.parametrize("levels", DEEP)
def test_nesting_without_end_is_refused_by_name(fuzzed: SyncHarness, name: str, levels: int) -> None:
    tool = tools_of(fuzzed)[name]
    arguments = valid_arguments(fuzzed, name)
    for field in tool.params.fields:
        for value in (DEEP[levels], {"x": DEEP[levels]}):
            error = attempt(fuzzed, tool, {**arguments, field: value})
            assert error is not None, field
            assert top_of(error.details["parameter"]) == field


# Texts that never stop a close: what cannot be stored is replaced.
_STATED = ("goal", "done", "next", "blockers", "do_not", "refuted", "receipts")
MENDED = {("reason",), ("epitaph",), ("error",), *(("capsule", name) for name in _STATED)}


@pytest.mark.parametrize("name", TOOLS)
@pytest.mark.parametrize("value", ["\ud800", "a\udc00b"])
def test_a_lone_surrogate_is_refused_by_name(fuzzed: SyncHarness, name: str, value: str) -> None:
    tool = tools_of(fuzzed)[name]
    arguments = valid_arguments(fuzzed, name)
    for path in _leaves(dict(tool.params.fields)):
        if name == "close_session" and path[:2] in MENDED:
            continue
        error = attempt(fuzzed, tool, {**arguments, **_placed(tool, path, value)})
        assert error is not None, path
        assert top_of(error.details["parameter"]) == path[0]


@pytest.mark.parametrize(
    ("name", "parameter", "value", "code"),
    [
        ("open_session", "session_id", "Codex-20260701T120000Z-x\n", "invalid_session_id"),
        ("begin_turn", "request_id", "req-20260701T120000Z-x\n", "invalid_request_id"),
        ("update_turn", "request_id", "req-20260701T120000Z-x\n", "invalid_request_id"),
        ("finish_turn", "request_id", "req-20260701T120000Z-x\r\n", "invalid_request_id"),
        ("begin_turn", "session_id", "Codex-20260701T120000Z-x\n", "invalid_session_id"),
    ],
)
def test_an_id_with_a_line_end_is_refused_as_an_id(
    fuzzed: SyncHarness, name: str, parameter: str, value: str, code: str
) -> None:
    more = {"response": "x"} if name == "update_turn" else {}
    given = {**valid_arguments(fuzzed, name), **more, parameter: value}
    error = attempt(fuzzed, tools_of(fuzzed)[name], given)
    assert error is not None
    assert error.code == code
    assert error.details["providedId"] == value


@pytest.mark.parametrize("arguments", [[], "x", 5, None, [["agent", "Codex"]]], ids=str)
def test_arguments_that_are_no_object_are_refused(fuzzed: SyncHarness, arguments: Any) -> None:
    error = attempt(fuzzed, tools_of(fuzzed)["open_session"], arguments)
    assert isinstance(error, InvalidParameter)


def test_after_all_that_the_journal_is_sound(fuzzed: SyncHarness) -> None:
    assert all(found.ok for found in fuzzed.run(fuzzed.harness.verify()))
    assert not any(done.changed for done in fuzzed.run(fuzzed.harness.rebuild()))


# Over the wire


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncGenerator[Harness]:
    async with open_harness(tmp_path / "home") as harness:
        yield harness


@pytest.mark.anyio
@pytest.mark.parametrize("revision", REVISIONS)
async def test_bad_input_over_the_wire_names_the_argument_and_the_server_keeps_serving(
    harness: Harness, revision: str
) -> None:
    async with connected(build_server(registry_for(harness.app)), revision) as peer:
        for arguments, parameter in (
            ({"agent": "Codex", "title": TEN_MB}, "title"),
            ({"agent": "Codex", "title": "\ud800"}, "title"),
            ({"agent": "Codex", "title": "a\x00b"}, "title"),
            ({"agent": "Codex", "title": "x", "tags": deep(500)}, "tags"),
            ({"agent": "Codex", "title": "x", "pid": 10**30}, "pid"),
            ({"agent": "Codex", "title": "x", "mood": 1}, "mood"),
            ({"agent": ["Codex"], "title": "x"}, "agent"),
            ({"title": "x"}, "agent"),
        ):
            before = harness.rows()
            answer = await peer.call("open_session", arguments)
            error = answer["result"]["structuredContent"]["error"]
            assert error["code"] == "invalid_parameter"
            assert error["details"]["parameter"] == parameter
            assert harness.rows() == before
        answer = await peer.call("open_session", {"agent": "Codex", "title": "Still here"})
        assert answer["result"]["isError"] is False
