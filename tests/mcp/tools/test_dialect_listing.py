"""What the tools of the dialects say of themselves: golden files, described parameters, named siblings and errors.

Their contracts fix names, types and shapes; the tests in `tests/dialects` check those.
"""

import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from shiftlog.config.tool_names import DIALECTS
from shiftlog.dialects.mcpserver.errors import AmbiguousItem
from shiftlog.dialects.mcpserver.naming import params
from shiftlog.mcp.catalogue import registry_for
from shiftlog.mcp.registry import Tool
from shiftlog.model.errors import InvalidParameter
from tests.journal.harness import Harness, open_harness
from tests.mcp.tools.test_listing import CODES, DEFAULT_TOOLS, check_golden, parameters_of

pytestmark = pytest.mark.anyio


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncGenerator[Harness]:
    async with open_harness(tmp_path / "home") as harness:
        yield harness


def tools_of(harness: Harness) -> list[Tool]:
    return [tool for tool in registry_for(harness.app).tools if tool.toolset in DIALECTS and tool.listed]


def as_listed(tool: Tool) -> dict[str, Any]:
    return tool.as_listed().model_dump(by_alias=True, exclude_none=True, mode="json")


async def test_each_tool_is_listed_as_its_golden_file_says(harness: Harness) -> None:
    tools = tools_of(harness)
    assert len(tools) == 2 + 14 + 7
    for tool in tools:
        check_golden(as_listed(tool))


async def test_every_parameter_nested_ones_too_is_described_and_typed(harness: Harness) -> None:
    for tool in tools_of(harness):
        schema = as_listed(tool)["inputSchema"]
        jsonschema.Draft202012Validator.check_schema(schema)
        for path, part in parameters_of(schema):
            assert part.get("description", "").endswith((".", "…")), (tool.name, path)
            assert "type" in part or "anyOf" in part, (tool.name, path)
            assert part.get("type") != "array" or part["items"], (tool.name, path)


async def test_examples_and_defaults_are_values_that_the_parameter_accepts(harness: Harness) -> None:
    for tool in tools_of(harness):
        for path, part in parameters_of(as_listed(tool)["inputSchema"]):
            validator: Any = jsonschema.Draft202012Validator(part)
            for value in (*part.get("examples", ()), *([part["default"]] if part.get("default") is not None else ())):
                validator.validate(value)
                if path in tool.params.fields and value != "":  # empty text stands for unknown
                    field = tool.params.fields[path]
                    if tool.toolset == "mcpserver":  # which takes some parts under a second name
                        params({path: field}).read({path: value}, strict=True)
                    else:
                        field.read(value, path)


async def test_a_description_begins_with_its_purpose_names_a_sibling_and_ends_with_errors(harness: Harness) -> None:
    known = CODES | {AmbiguousItem.code, InvalidParameter.code}
    tools = tools_of(harness)
    for tool in tools:
        siblings = {other.name for other in tools if other.toolset == tool.toolset} - {tool.name}
        first, *rest = tool.description.splitlines()
        assert re.match(r"[A-Z][a-z]+ [^.]+\.", first), tool.name
        words = set(re.findall(r"[a-z]+(?:_[a-z]+)+", tool.description))
        native = set[str]() if tool.toolset == "execkit" else set(DEFAULT_TOOLS)  # it is served alone
        assert words & (siblings | native), f"{tool.name} names no other tool"
        assert not words & set(DEFAULT_TOOLS) - native, f"{tool.name} names a tool that is not served beside it"
        assert any(line.startswith("Returns ") for line in rest), tool.name
        if tool.toolset != "execkit":
            stated = re.sub(r"\([^)]*\)|\{[^}]*\}", "", rest[-1].split("The other errors")[0])
            assert rest[-1].startswith("Errors"), tool.name
            codes = set(re.findall(r"[a-z]+(?:_[a-z]+)+", stated))
            assert codes <= known, (tool.name, codes - known)


async def test_a_turn_as_it_is_read_can_be_sent_back_though_its_ignored_parts_are_not_listed(harness: Harness) -> None:
    tools = {tool.name: tool for tool in tools_of(harness)}
    ignored: dict[str, Any] = {"requestId": "req-20260701T080005Z-upload-001", "timestamp": "", "amendments": []}
    for name in ("sessionlog_complete_turn", "sessionlog_fail_turn", "sessionlog_replace_turn"):
        schema = as_listed(tools[name])["inputSchema"]["properties"]["turnJson"]
        assert not ignored.keys() & schema["properties"].keys(), name
        turn = {**ignored, "status": "in_progress", "response": "Fixed"}
        validator: Any = jsonschema.Draft202012Validator(schema)
        validator.validate(turn)
        read, _ = params({"turnJson": tools[name].params.fields["turnJson"]}).read({"turnJson": turn}, strict=True)
        assert read["turn_json"]["response"] == "Fixed"
