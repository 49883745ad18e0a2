"""What the native tools say of themselves: golden files, structure, size, and that they keep what they promise.

`SHIFTLOG_UPDATE_GOLDEN=1` writes the golden files anew; a changed description is then a diff to review.
"""

import json
import os
import re
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from shiftlog.config.tool_names import DEFAULT_TOOLSETS, DIALECTS, TOOLS, TOOLSETS
from shiftlog.mcp.catalogue import registry_for
from shiftlog.mcp.registry import Reply, Tool
from shiftlog.mcp.server import COMMON_CODES, build_server
from shiftlog.model.caller import LIBRARY
from shiftlog.model.errors import ShiftlogError, leaves
from tests.journal.harness import Harness, client, open_harness
from tests.mcp.wire import sdk_client

pytestmark = pytest.mark.anyio

GOLDEN = Path(__file__).parent / "golden"
JOURNAL = (
    "open_session",
    "resume_session",
    "close_session",
    "begin_turn",
    "update_turn",
    "finish_turn",
    "query_history",
)
DEFAULT_TOOLS = (
    *JOURNAL,
    *("open_shell", "run_command", "read_output", "send_input", "list_shells", "close_shell"),
    *("create_checkpoint", "list_checkpoints", "diff_checkpoint", "restore_checkpoint"),
)
CODES = frozenset(leaf.code for leaf in leaves())
ITEM = {"role": "model", "category": "decision", "content": "Decision: lock the temp dir"}
ACTION = {"description": "Lock it", "type": "edit", "status": "completed", "file_path": "src/up.py"}


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncGenerator[Harness]:
    async with open_harness(tmp_path / "home") as harness:
        yield harness


async def listed(harness: Harness) -> dict[str, dict[str, Any]]:
    """Return the tools as `tools/list` gives them to a client."""
    async with sdk_client(build_server(registry_for(harness.app))) as mcp:
        tools = (await mcp.list_tools()).tools
    return {tool.name: tool.model_dump(by_alias=True, exclude_none=True, mode="json") for tool in tools}


def check_golden(tool: dict[str, Any]) -> None:
    """Compare a listed tool with its golden file, or write that anew."""
    text = json.dumps(tool, indent=2, ensure_ascii=False) + "\n"
    golden = GOLDEN / f"{tool['name']}.json"
    if os.environ.get("SHIFTLOG_UPDATE_GOLDEN") == "1":
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def native(harness: Harness) -> dict[str, Tool]:
    return {tool.name: tool for tool in registry_for(harness.app).tools}


async def run(harness: Harness, tool: str, /, **arguments: Any) -> dict[str, Any]:
    """Run a tool and return its data in full, having held them against its output schema."""
    found = native(harness)[tool]
    in_full = {"detail": "full"} if "detail" in found.params.fields else {}
    reply = await found.run(LIBRARY, {**arguments, **in_full})
    assert isinstance(reply, Reply)
    assert isinstance(reply.data, dict)
    assert found.output is not None
    schema: Any = jsonschema.Draft202012Validator(found.output)
    schema.validate(reply.data)
    assert json.loads(json.dumps(reply.data)) == reply.data
    return reply.data


# Golden files


async def test_seventeen_tools_are_listed_by_default_and_nothing_else(harness: Harness) -> None:
    assert tuple(await listed(harness)) == DEFAULT_TOOLS
    assert len(DEFAULT_TOOLS) == 17


@pytest.mark.parametrize("name", DEFAULT_TOOLS)
async def test_a_tool_is_listed_as_its_golden_file_says(harness: Harness, name: str) -> None:
    check_golden((await listed(harness))[name])


async def test_the_settings_know_the_names_of_all_tools_by_toolset(harness: Harness) -> None:
    tools = registry_for(harness.app).tools
    assert {toolset: tuple(t.name for t in tools if t.toolset == toolset) for toolset in TOOLS} == TOOLS
    assert {tool.toolset for tool in tools} == {*TOOLSETS, *DIALECTS} == TOOLS.keys()


def test_there_is_no_golden_file_without_a_tool() -> None:
    of_dialects = {name for dialect in DIALECTS for name in TOOLS[dialect]}
    assert set(DEFAULT_TOOLS) <= {path.stem for path in GOLDEN.glob("*.json")} <= {*DEFAULT_TOOLS, *of_dialects}


# Structure


def parameters_of(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Return every named parameter of a schema, also those inside lists, objects and alternatives."""
    for name, part in schema.get("properties", {}).items():
        yield f"{path}{name}", part
        yield from parameters_of(part, f"{path}{name}.")
        yield from parameters_of(part.get("items", {}), f"{path}{name}[].")
    for alternative in schema.get("anyOf", ()):
        yield from parameters_of(alternative, path)


@pytest.mark.parametrize("name", DEFAULT_TOOLS)
async def test_every_parameter_nested_ones_too_is_described_and_typed_in_place(harness: Harness, name: str) -> None:
    schema = (await listed(harness))[name]["inputSchema"]
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["additionalProperties"] is False
    assert "$ref" not in json.dumps(schema)
    assert "$defs" not in schema
    parameters = dict(parameters_of(schema))
    assert parameters
    # DatabaseDescription once, in run_command; here the types are repeated and the description names that tool.
    for path, part in parameters.items():
        top = parameters[path.split(".")[0].split("[")[0]]
        if top is part or "budget of run_command" not in top["description"]:
            assert part.get("description", "").endswith((".", "…", "…).")), path
        assert "type" in part or "enum" in part, path
        assert part.get("type") != "array" or "items" in part, path
        assert part.get("type") != "object" or part.get("properties") or part.get("additionalProperties"), path
    assert set(schema.get("required", ())) <= set(schema["properties"])


@pytest.mark.parametrize("name", DEFAULT_TOOLS)
async def test_a_default_is_a_value_that_the_parameter_accepts(harness: Harness, name: str) -> None:
    tool = native(harness)[name]
    for path, part in parameters_of((await listed(harness))[name]["inputSchema"]):
        validator: Any = jsonschema.Draft202012Validator(part)
        for value in (*part.get("examples", ()), *([part["default"]] if "default" in part else ())):
            validator.validate(value)
            if "." not in path and "[" not in path:
                tool.params.fields[path].read(value, path)


@pytest.mark.parametrize("name", DEFAULT_TOOLS)
async def test_the_listed_parameters_are_those_that_are_checked(harness: Harness, name: str) -> None:
    tool = native(harness)[name]
    schema = (await listed(harness))[name]["inputSchema"]
    fields = {field: spec for field, spec in tool.params.fields.items() if spec.listed}
    assert list(schema["properties"]) == list(fields)
    assert schema.get("required", []) == [field for field, spec in fields.items() if spec.required]
    assert not [field for field, spec in tool.params.fields.items() if spec.required and not spec.listed]


READS = {"query_history", "read_output", "list_shells", "list_checkpoints", "diff_checkpoint"}
DESTROYS = {"close_session", "run_command", "send_input", "close_shell", "restore_checkpoint"}
REACHES_OUT = {"open_shell", "run_command", "send_input"}


@pytest.mark.parametrize("name", DEFAULT_TOOLS)
async def test_titles_are_for_people_and_the_four_annotations_are_explicit(harness: Harness, name: str) -> None:
    tool = (await listed(harness))[name]
    assert " " in tool["title"]
    assert tool["title"][0].isupper()
    hints = {hint: tool["annotations"][hint] for hint in tool["annotations"] if hint.endswith("Hint")}
    assert hints == {
        "readOnlyHint": name in READS,
        "destructiveHint": name in DESTROYS,
        "idempotentHint": name in READS | {"close_session", "finish_turn", "close_shell"},
        "openWorldHint": name in REACHES_OUT,
    }


def _stated_codes(description: str) -> set[str]:
    """Return the codes of a description's last line; what stands in brackets is their remedy."""
    line = re.sub(r"\([^)]*\)", "", description.split("Errors:")[1])
    return set(re.findall(r"[a-z]+(?:_[a-z]+)+", line))


@pytest.mark.parametrize("name", DEFAULT_TOOLS)
async def test_a_description_names_a_sibling_and_only_codes_that_exist(harness: Harness, name: str) -> None:
    description = (await listed(harness))[name]["description"]
    words = set(re.findall(r"[a-z]+(?:_[a-z]+)+", description))
    assert words & (set(DEFAULT_TOOLS) - {name}), "it names no other tool"
    first, *rest = description.splitlines()
    assert first[0].isupper()
    assert first.endswith(".")
    assert len(first) < 130, "the purpose comes first, in one sentence that stands alone"
    assert description.count("Errors:") == 1
    assert rest[-1].startswith("Errors: ")
    assert any(line.startswith(("Returns ", "Keep data.recovery_token")) for line in rest), "what comes back"
    stated = _stated_codes(description)
    assert stated <= CODES, stated - CODES
    assert not stated & set(COMMON_CODES) - {"invalid_parameter"}, "the instructions name them"
    assert len(description) < 1_400
    assert not re.search(r"(^|[ ,])_[a-z]", description), "codes are written out"


PROVOKED: list[tuple[str, str, dict[str, Any]]] = [
    ("open_session", "session_already_exists", {"agent": "Codex", "title": "x", "session_id": "$open"}),
    ("open_session", "invalid_session_id", {"agent": "Codex", "title": "x", "session_id": "x"}),
    ("open_session", "invalid_parameter", {"agent": "Codex"}),
    ("open_session", "session_not_found", {"agent": "Codex", "title": "x", "parent_session_id": 99}),
    ("open_session", "idempotency_conflict", {"agent": "Codex", "title": "y", "idempotency_key": "k"}),
    ("begin_turn", "session_not_found", {"session_id": 99, "query_title": "x", "query_text": "x"}),
    ("begin_turn", "invalid_session_id", {"session_id": "x", "query_title": "x", "query_text": "x"}),
    ("begin_turn", "session_closed", {"session_id": "$closed", "query_title": "x", "query_text": "x"}),
    ("begin_turn", "invalid_parameter", {"session_id": "$open", "query_title": "x"}),
    ("begin_turn", "lease_lost", {"session_id": "$open", "query_title": "x", "query_text": "x", "fence": 9}),
    (
        "begin_turn",
        "turn_already_exists",
        {"session_id": "$open", "query_title": "x", "query_text": "x", "request_id": "$turn"},
    ),
    (
        "begin_turn",
        "invalid_request_id",
        {"session_id": "$open", "query_title": "x", "query_text": "x", "request_id": "x"},
    ),
    ("update_turn", "session_not_found", {"session_id": 99, "tags": ["x"]}),
    ("update_turn", "invalid_session_id", {"session_id": "x", "tags": ["x"]}),
    ("update_turn", "invalid_request_id", {"session_id": "$open", "request_id": "x", "tags": ["x"]}),
    ("update_turn", "session_closed", {"session_id": "$closed", "tags": ["x"]}),
    ("update_turn", "turn_not_found", {"session_id": "$fresh", "tags": ["x"]}),
    ("update_turn", "turn_immutable", {"session_id": "$open", "request_id": "$done", "tags": ["x"]}),
    ("update_turn", "lease_lost", {"session_id": "$open", "tags": ["x"], "fence": 9}),
    ("update_turn", "invalid_parameter", {"session_id": "$open"}),
    ("finish_turn", "session_not_found", {"session_id": 99, "outcome": "completed"}),
    ("finish_turn", "invalid_session_id", {"session_id": "x", "outcome": "completed"}),
    ("finish_turn", "invalid_request_id", {"session_id": "$open", "request_id": "x", "outcome": "completed"}),
    ("finish_turn", "session_closed", {"session_id": "$closed", "outcome": "completed"}),
    ("finish_turn", "turn_not_found", {"session_id": "$fresh", "outcome": "completed"}),
    (
        "finish_turn",
        "turn_immutable",
        {"session_id": "$open", "request_id": "$done", "outcome": "failed", "error_message": "x"},
    ),
    ("finish_turn", "lease_lost", {"session_id": "$open", "outcome": "completed", "response": "x", "fence": 9}),
    ("finish_turn", "invalid_parameter", {"session_id": "$open", "outcome": "completed"}),
    ("close_session", "session_not_found", {"session_id": 99}),
    ("close_session", "invalid_session_id", {"session_id": "x"}),
    ("close_session", "session_held", {"session_id": "$held"}),
    ("close_session", "invalid_parameter", {}),
    ("resume_session", "no_resumable_session", {"agent_id": "nobody"}),
    ("resume_session", "session_not_found", {"agent_id": "Codex", "session_id": 99}),
    ("resume_session", "invalid_session_id", {"agent_id": "Codex", "session_id": "x"}),
    ("resume_session", "session_held", {"agent_id": "Codex", "session_id": "$held"}),
    ("resume_session", "agent_not_entitled", {"agent_id": "Other", "session_id": "$open"}),
    ("resume_session", "invalid_parameter", {}),
    ("query_history", "session_not_found", {"session_id": 99}),
    ("query_history", "invalid_session_id", {"session_id": "x"}),
    ("query_history", "turn_not_found", {"session_id": "$open", "request_id": "req-20260701T120000Z-x"}),
    ("query_history", "invalid_request_id", {"session_id": "$open", "request_id": "x"}),
    ("query_history", "invalid_parameter", {"limit": 0}),
]


@pytest.mark.parametrize(
    ("name", "code", "arguments"), PROVOKED, ids=lambda value: value if isinstance(value, str) else ""
)
async def test_an_error_that_can_be_provoked_is_in_the_description_and_has_its_shape(
    harness: Harness, name: str, code: str, arguments: dict[str, Any]
) -> None:
    names = {"$open": await harness.open(title="Open", idempotency_key="k")}
    names["$done"] = await harness.begin(names["$open"])
    await harness.complete(names["$open"])
    names["$turn"] = await harness.begin(names["$open"])
    names["$fresh"] = await harness.open(title="Fresh")
    names["$closed"] = await harness.open(title="Closed")
    await harness.call("close_session", {"session_id": names["$closed"]})
    names["$held"] = await harness.open(client("holder"), title="Held")
    given = {key: names.get(value, value) if isinstance(value, str) else value for key, value in arguments.items()}
    tool = native(harness)[name]
    with pytest.raises(ShiftlogError) as refused:
        await tool.run(LIBRARY, given)
    assert refused.value.code == code
    # A code that only an unlisted parameter brings about is not in the text.
    told = all(tool.params.fields[key].listed for key in arguments)
    assert code in _stated_codes(tool.description) | set(COMMON_CODES) or not told
    async with sdk_client(build_server(registry_for(harness.app))) as mcp:
        result = await mcp.call_tool(name, given)
    assert result.is_error
    body = result.structured_content
    assert body is not None
    assert json.loads(result.content[0].model_dump()["text"]) == body
    assert body["error"].keys() >= {"code", "message", "hint", "retryable"}
    shown = body if name in ("close_session", "resume_session") else body["error"]
    assert shown.keys() >= {"code", "message", "details", "hint", "retryable"}
    assert (shown["code"], shown["message"]) == (code, refused.value.message)
    next_call = shown["details"].pop("next_call", None)
    if name not in ("close_session", "resume_session"):
        assert list(shown) == ["code", "message", "details", "hint", "retryable"]
        assert shown == refused.value.as_dict()
    if next_call is not None:
        helper = native(harness)[next_call["name"]]
        jsonschema.validate(next_call["arguments"], helper.params.type_schema())
        assert set(next_call["arguments"]) >= {key for key, spec in helper.params.fields.items() if spec.required}


# Size


def _size(tools: list[dict[str, Any]]) -> int:
    return len(json.dumps(tools, ensure_ascii=False, separators=(",", ":")).encode())


async def test_the_list_of_tools_stays_small(harness: Harness) -> None:
    tools = await listed(harness)
    bare = {name: {key: value for key, value in tool.items() if key != "outputSchema"} for name, tool in tools.items()}
    assert _size(list(tools.values())) <= 48 * 1024
    assert _size(list(bare.values())) <= 34 * 1024
    assert _size([bare[name] for name in JOURNAL]) <= 16 * 1024
    assert DEFAULT_TOOLSETS == ("journal", "shell", "workspace")


# Results


async def test_what_the_tools_answer_fits_their_output_schemas(harness: Harness) -> None:
    for more in ({}, {"model": "m", "pid": 1, "tags": ["a"]}, {"agent_id": "agent-0123456789ab"}):
        opened = await run(harness, "open_session", agent="Codex", title="x", **more)
    session = opened["session_id"]
    await run(harness, "begin_turn", session_id=session, query_title="x", query_text="x")
    await run(harness, "begin_turn", session_id=session, query_title="x", query_text="x")
    await run(harness, "update_turn", session_id=session, dialog=[ITEM], actions=[{**ACTION, "type": "odd"}])
    await run(harness, "update_turn", session_id=session, tags=[])
    await run(harness, "finish_turn", session_id=session, outcome="completed", response="x")
    await run(harness, "finish_turn", session_id=session, outcome="completed", response="y")
    await run(harness, "begin_turn", session_id=session, query_title="x", query_text="x")
    await run(harness, "finish_turn", session_id=session, outcome="failed", error_message="x", error_code="c")
    for question in (
        {},
        {"session_id": session},
        {"session_id": session, "max_chars": 500},
        {"kinds": ["session", "turn", "entry", "decision", "file", "run"]},
        {"text": "lock"},
        {"text": "nothing"},
    ):
        await run(harness, "query_history", **question)
    for more in ({"include_summary": False}, {}):
        await run(harness, "close_session", session_id=session, returncode=0, **more)
    await run(harness, "resume_session", agent_id="agent-0123456789ab")


async def test_every_output_schema_is_a_schema_that_asks_for_something(harness: Harness) -> None:
    for name, tool in (await listed(harness)).items():
        schema = tool["outputSchema"]
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        assert schema["required"], name


async def test_a_text_that_a_dialect_takes_is_taken_natively_too(harness: Harness) -> None:
    session = (await run(harness, "open_session", agent="Codex", title="Two\nlines", tags=["a\nb"]))["session_id"]
    begun = await run(harness, "begin_turn", session_id=session, query_title="Two\nlines", query_text="x", tags="one")
    assert begun["request_id"].endswith("-two-lines")
    await run(harness, "update_turn", session_id=session, clear="tags")
    turn = await harness.turn(session)
    assert (turn.query_title, turn.tags) == ("Two\nlines", ())
    found = await run(harness, "query_history", text="two\nlines", tag="a\nb")
    assert found["items"][0]["title"] == "Two\nlines"
