"""What clients of execkit read in `tools/list`: parameters, what is required, and the hints of each tool."""

from typing import Any

import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError

from tests.dialects.execkit.test_acceptance import call, client

__all__ = ["client"]

NULLABLE_TEXTS = ("container", "host", "user", "password", "key_path", "fingerprint", "workspace")
LISTS = ("allow", "deny", "paths", "checkpoint_ignores")
PARAMETERS = {
    "session_create": {"transport", *NULLABLE_TEXTS, "port", *LISTS, "auto_snapshot", "output_budget"},
    "session_exec": {"session_id", "command", "budget", "timeout_secs"},
    "session_list": set[str](),
    "session_destroy": {"session_id"},
    "session_checkpoint": {"session_id", "label"},
    "session_checkpoints": {"session_id"},
    "session_restore": {"session_id", "checkpoint_id"},
}
REQUIRED = {
    "session_create": ["transport"],
    "session_exec": ["session_id", "command"],
    "session_list": [],
    "session_destroy": ["session_id"],
    "session_checkpoint": ["session_id"],
    "session_checkpoints": ["session_id"],
    "session_restore": ["session_id"],
}


async def schemas(client: Client) -> dict[str, dict[str, Any]]:
    return {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}


async def test_case_52_parameters_are_those_that_clients_send(client: Client) -> None:
    listed = await schemas(client)
    assert {name: set(schema.get("properties", {})) for name, schema in listed.items()} == PARAMETERS
    assert {name: schema.get("required", []) for name, schema in listed.items()} == REQUIRED
    assert all(schema["additionalProperties"] is False for schema in listed.values())


async def test_case_52_types_allow_null_where_clients_send_it(client: Client) -> None:
    listed = await schemas(client)
    create = listed["session_create"]["properties"]
    assert create["transport"]["enum"] == ["local", "ssh", "docker"]
    assert all(create[name]["type"] == ["string", "null"] for name in NULLABLE_TEXTS)
    assert (create["port"]["type"], create["port"]["minimum"], create["port"]["maximum"]) == (
        ["integer", "null"],
        0,
        65535,
    )
    assert all(create[name]["type"] == "array" for name in LISTS)
    assert create["auto_snapshot"]["type"] == "boolean"
    execute = listed["session_exec"]["properties"]
    assert (execute["timeout_secs"]["type"], execute["timeout_secs"]["minimum"]) == (["integer", "null"], 0)
    for budget in (create["output_budget"], execute["budget"]):
        shape, null = budget["anyOf"]
        assert null == {"type": "null"}
        assert set(shape["properties"]) == {"grep", "keep", "max_chars"}


async def test_hints_say_what_reads_and_what_destroys(client: Client) -> None:
    tools = (await client.list_tools()).tools
    hints = {tool.name: tool.annotations for tool in tools if tool.annotations is not None}
    assert {name for name, hint in hints.items() if hint.read_only_hint} == {"session_list", "session_checkpoints"}
    assert {name for name, hint in hints.items() if hint.destructive_hint} == {
        *("session_exec", "session_destroy", "session_restore"),
    }
    assert {name for name, hint in hints.items() if hint.open_world_hint} == {"session_exec"}


@pytest.mark.parametrize(
    ("tool", "arguments", "named"),
    [
        ("session_create", {}, "transport"),
        ("session_create", {"transport": 5}, "transport"),
        ("session_create", {"transport": "local", "deny": "ls"}, "deny"),
        ("session_exec", {"session_id": "x"}, "command"),
        ("session_exec", {"session_id": "x", "command": "true", "timeout_secs": -1}, "timeout_secs"),
        ("session_exec", {"session_id": "x", "command": 1}, "command"),
        ("session_list", {"all": True}, "all"),
        ("session_destroy", {"session": "x"}, "session"),
    ],
)
async def test_case_52_a_faulty_argument_is_an_error_of_the_protocol_that_names_it(
    client: Client, tool: str, arguments: dict[str, Any], named: str
) -> None:
    with pytest.raises(MCPError) as fault:
        await client.call_tool(tool, arguments)
    assert fault.value.error.code == -32602
    assert named in fault.value.error.message


async def test_null_stands_for_what_is_left_out(client: Client) -> None:
    nothing = dict.fromkeys((*NULLABLE_TEXTS, "port", "output_budget"))
    session = (await call(client, "session_create", transport="local", **nothing))["session_id"]
    result = await call(client, "session_exec", session_id=session, command="echo x", budget=None, timeout_secs=None)
    assert result["stdout"] == "x"
