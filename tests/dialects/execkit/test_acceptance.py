"""The execkit dialect through MCP: names, shapes and texts of its seven tools, over real shells."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError

from shiftlog.mcp.catalogue import registry_for
from shiftlog.mcp.registry import Selection
from shiftlog.mcp.server import build_server
from tests.mcp.wire import sdk_client
from tests.shell.rig import shell_rig

NAMES = [
    "session_create",
    "session_exec",
    "session_list",
    "session_destroy",
    "session_checkpoint",
    "session_checkpoints",
    "session_restore",
]


@asynccontextmanager
async def execkit(folder: Path, settings: str = "") -> AsyncGenerator[Client]:
    async with shell_rig(folder, settings=settings, shell=False) as harness:
        server = build_server(registry_for(harness.app), Selection(dialects=("execkit",)))
        async with sdk_client(server) as client:
            yield client


@pytest.fixture
async def client(tmp_path: Path) -> AsyncGenerator[Client]:
    async with execkit(tmp_path) as client:
        yield client


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    [block] = result.content
    assert block.type == "text"
    assert not result.is_error, block.text
    return json.loads(block.text)


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    [block] = result.content
    assert block.type == "text"
    assert result.is_error
    return block.text


async def test_case_52_seven_tools_faults_by_name_and_destroying_twice(client: Client) -> None:
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert list(tools) == NAMES
    assert tools["session_create"].input_schema["required"] == ["transport"]
    assert set(tools["session_exec"].input_schema["properties"]) == {"session_id", "command", "budget", "timeout_secs"}
    with pytest.raises(MCPError) as fault:
        await client.call_tool("session_create", {"transport": "local", "hots": "x"})
    assert fault.value.error.code == -32602
    assert "hots" in fault.value.error.message
    session = (await call(client, "session_create", transport="local"))["session_id"]
    assert (await call(client, "session_destroy", session_id=session)) == {"destroyed": True}
    assert (await call(client, "session_destroy", session_id=session)) == {"destroyed": False}


async def test_case_53_a_restore_removes_what_is_newer_and_the_safety_checkpoint_keeps_it(
    client: Client, tmp_path: Path
) -> None:
    place = tmp_path / "place"
    (place / "a").write_text("one\n")
    session = (await call(client, "session_create", transport="local", workspace=str(place)))["session_id"]
    saved = await call(client, "session_checkpoint", session_id=session, label="first")
    await call(client, "session_exec", session_id=session, command=f"echo two > {place}/a; echo n > {place}/n")
    back = await call(client, "session_restore", session_id=session)
    assert (back["restored_to"], back["files_changed"]) == (saved["checkpoint_id"], 2)
    assert (place / "a").read_text() == "one\n"
    assert not (place / "n").exists()
    rows = await call(client, "session_checkpoints", session_id=session)
    assert rows[0]["id"] == back["safety_checkpoint_id"]
    assert {"id", "label", "created"} <= rows[0].keys()
    assert rows[0]["created"].isdecimal()
    again = await call(client, "session_restore", session_id=session, checkpoint_id=back["safety_checkpoint_id"])
    assert again["files_changed"] == 2
    assert (place / "n").read_text() == "n\n"


async def test_case_54_a_command_that_ends_the_session_is_answered_whole(client: Client) -> None:
    session = (await call(client, "session_create", transport="local"))["session_id"]
    result = await call(client, "session_exec", session_id=session, command="echo x; exit 3")
    assert (result["stdout"], result["exit_code"], result["session_closed"]) == ("x", 3, True)
    said = await refused(client, "session_exec", session_id=session, command="true")
    assert said == f"unknown session_id '{session}'; call session_list to see live sessions"


async def test_results_have_the_shapes_that_clients_know(client: Client) -> None:
    created = await call(client, "session_create", transport="local", host="ignored.example", port=22)
    assert created["ignored"] == ["host", "port"]
    other = await call(client, "session_create", transport="local", host="", port=0)
    assert "ignored" not in other
    await call(client, "session_destroy", session_id=other["session_id"])
    session = created["session_id"]
    keep = {"keep": {"mode": "tail", "n": 2, "head": None}, "grep": None}
    result = await call(client, "session_exec", session_id=session, command="seq 1 10", budget=keep)
    assert list(result)[:8] == [
        "command",
        "stdout",
        "stderr",
        "exit_code",
        "duration_ms",
        "cwd",
        "truncated",
        "timed_out",
    ]
    assert result["stdout"] == "... 8 lines elided ...\n9\n10"
    assert result["budget"]["stdout"] == {"mode": "tail", "lines_total": 10, "lines_kept": 2}
    assert isinstance(result["duration_ms"], int)
    assert await call(client, "session_list") == [{"session_id": session, "transport": "local", "idle_secs": 0}]
    assert await call(client, "session_checkpoints", session_id=session) == []


async def test_a_timeout_is_clamped_and_ends_the_command(client: Client) -> None:
    session = (await call(client, "session_create", transport="local"))["session_id"]
    result = await call(client, "session_exec", session_id=session, command="sleep 60", timeout_secs=0)
    assert (result["exit_code"], result["timed_out"]) == (124, True)
    with pytest.raises(MCPError, match="timeout_secs"):
        await client.call_tool("session_exec", {"session_id": session, "command": "true", "timeout_secs": -1})


async def test_errors_have_the_texts_that_clients_know(client: Client, tmp_path: Path) -> None:
    session = (await call(client, "session_create", transport="local", deny=["ls"]))["session_id"]
    assert await refused(client, "session_exec", session_id=session, command="ls") == (
        "blocked by policy: 'ls' is denylisted"
    )
    said = await refused(client, "session_exec", session_id=session, command="true", budget={"keep": {"mode": "tail"}})
    assert said.startswith("invalid output budget: ")
    said = await refused(client, "session_exec", session_id=session, command="true", budget={"keep": {"mode": "last"}})
    assert said == "unknown keep mode: last"
    assert await refused(client, "session_checkpoint", session_id=session) == (
        "unsupported: checkpoints require an explicit workspace"
    )
    assert (await refused(client, "session_create", transport="ssh")) == (
        "session_create failed: pty/transport error: ssh: 'host' required"
    )
    assert (await refused(client, "session_create", transport="telnet")) == (
        'session_create failed: pty/transport error: transport must be "local", "ssh" or "docker"'
    )
    assert (await refused(client, "session_create", transport="ssh", host="nowhere.example")).startswith(
        "session_create failed: pty/transport error: ssh: 'user' required"
    )
    assert (await refused(client, "session_create", transport="docker", container="a b")) == (
        "session_create failed: pty/transport error: invalid docker container name/id"
    )
    place = str(tmp_path / "place")
    covered = (await call(client, "session_create", transport="local", workspace=place))["session_id"]
    assert await refused(client, "session_restore", session_id=covered, checkpoint_id="xyz") == "invalid checkpoint id"
    assert await refused(client, "session_restore", session_id=covered) == "no checkpoint to restore"


async def test_too_many_sessions_are_refused_in_execkits_words(tmp_path: Path) -> None:
    async with execkit(tmp_path, "[policy.limits]\nshells = 1\n") as client:
        await call(client, "session_create", transport="local")
        said = await refused(client, "session_create", transport="local")
        assert said == "session limit reached (1); destroy unused sessions"


async def test_syntax_errors_are_results(client: Client) -> None:
    session = (await call(client, "session_create", transport="local"))["session_id"]
    result = await call(client, "session_exec", session_id=session, command='echo "abc')
    assert result["exit_code"] == 2
    assert result["stderr"].startswith("syntax error: line 1")


@pytest.mark.parametrize("named", ["no such", "it's", "x" * 400, "", "a\nb"])
async def test_whatever_names_no_session_is_repeated_as_it_was_given(client: Client, named: str) -> None:
    said = f"unknown session_id '{named}'; call session_list to see live sessions"
    assert await refused(client, "session_exec", session_id=named, command="true") == said
    for tool in ("session_checkpoint", "session_checkpoints", "session_restore"):
        assert await refused(client, tool, session_id=named) == said
    assert await call(client, "session_destroy", session_id=named) == {"destroyed": False}


async def test_a_checkpoint_id_of_any_length_is_invalid_and_a_timeout_of_any_length_clamped(
    client: Client, tmp_path: Path
) -> None:
    session = (await call(client, "session_create", transport="local", workspace=str(tmp_path)))["session_id"]
    for wanted in ("", "abc", "f" * 41, "f" * 500, "zzzz"):
        said = await refused(client, "session_restore", session_id=session, checkpoint_id=wanted)
        assert said == "invalid checkpoint id"
    ran = await call(client, "session_exec", session_id=session, command="echo x", timeout_secs=10**30)
    assert ran["stdout"] == "x"


async def test_no_error_repeats_a_secret(client: Client) -> None:
    token = "ghp_" + "a1B2" * 9
    said = await refused(client, "session_exec", session_id=token, command="true")
    assert said == "unknown session_id '[REDACTED:github]'; call session_list to see live sessions"
    with pytest.raises(MCPError) as fault:
        await client.call_tool("session_create", {"transport": "local", token: 1})
    assert fault.value.error.message == 'unknown argument "[REDACTED:github]"'
    assert token not in str(fault.value.error.data)
