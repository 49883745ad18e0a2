"""Calls of brief tools are answered by whoever reads the connection, and nobody can tell by the answers."""

import asyncio
import json
from typing import Any

import anyio
import mcp_types as types
import pytest

from shiftlog.mcp.registry import Registry, Reply
from shiftlog.mcp.server import build_server
from shiftlog.model.caller import Caller
from tests.mcp.samples import Gate, crash, echo, refuse, tool
from tests.mcp.wire import Peer, connected

pytestmark = pytest.mark.anyio

VENDORS = {"claudecode/toolUseId": "toolu_1", "com.example/x": {"deep": [1]}}

REQUESTS: list[dict[str, Any]] = [
    {"name": "echo", "arguments": {"text": "ü"}},
    {"name": "echo", "arguments": {}},
    {"name": "echo"},
    {"name": "echo", "arguments": None},
    {"name": "echo", "arguments": [1]},
    {"name": "echo", "arguments": {"a": {}}, "more": 1},
    {"name": "parrot", "arguments": {"text": "an alias"}},
    {"name": "checked", "arguments": {"count": 3}},
    {"name": "checked", "arguments": {"count": 300}},
    {"name": "refuse", "arguments": {"text": "x"}},
    {"name": "nothing", "arguments": {}},
    {"name": 7, "arguments": {}},
    {"arguments": {}},
    {},
    {"name": "echo", "arguments": {"text": "x"}, "_meta": None},
    {"name": "echo", "arguments": {"text": "x"}, "_meta": []},
    {"name": "echo", "arguments": {"text": "x"}, "_meta": {}},
    {"name": "echo", "arguments": {"text": "x"}, "_meta": {"progressToken": "p"}},
    {"name": "echo", "arguments": {"text": "x"}, "_meta": {"progressToken": 1}},
    {"name": "echo", "arguments": {"text": "x"}, "_meta": {"progressToken": True}},
    {"name": "echo", "arguments": {"text": "x"}, "_meta": {"progressToken": None}},
    {"name": "echo", "arguments": {"text": "x"}, "_meta": {"progressToken": 1.5}},
    {"name": "echo", "arguments": {"text": "x"}, "_meta": {"progressToken": {}}},
    {"name": "echo", "arguments": {"text": "x"}, "_meta": VENDORS},
    {"name": "echo", "arguments": {"text": "x"}, "_meta": {types.PROTOCOL_VERSION_META_KEY: "2026-07-28"}},
    {"name": "echo", "arguments": {"text": "x"}, "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "1"}}},
    {"name": "echo", "arguments": {"text": "x"}, "_meta": {"traceparent": "00-0-0-00"}},
]


class Runner:
    """A tool that remembers in which task it ran and for whom."""

    def __init__(self) -> None:
        self.ran: list[tuple[asyncio.Task[Any] | None, Caller]] = []

    async def run(self, caller: Caller, arguments: dict[str, Any]) -> Reply:
        self.ran.append((asyncio.current_task(), caller))
        return Reply(data={})


def registry(*, brief: bool) -> Registry:
    return Registry(
        tools=(
            tool("echo", echo, aliases=("parrot",), brief=brief),
            tool("checked", echo, validates=True, brief=brief),
            tool("refuse", refuse, brief=brief),
            tool("crash", crash, brief=brief),
        )
    )


async def answers(peer: Peer) -> list[dict[str, Any]]:
    return [await peer.ask("tools/call", params) for params in REQUESTS]


async def test_a_brief_call_is_answered_like_any_other():
    async with connected(build_server(registry(brief=True))) as peer:
        brief = await answers(peer)
    async with connected(build_server(registry(brief=False))) as peer:
        assert brief == await answers(peer)


async def test_before_the_handshake_a_brief_call_is_refused_like_any_other():
    said: list[dict[str, Any]] = []
    for brief in (True, False):
        async with connected(build_server(registry(brief=brief)), greets=False) as peer:
            said.append(await peer.call("echo", {"text": "x"}))
    assert "error" in said[0]
    assert said[0] == said[1]


async def test_whoever_reads_runs_a_brief_call_unless_more_is_asked_meanwhile():
    gate, runner = Gate(), Runner()
    server = build_server(Registry(tools=(tool("brief", runner.run, brief=True), tool("wait", gate.run))))
    async with connected(server) as peer:
        for _ in range(3):
            await peer.call("brief", {}, _meta=VENDORS)
        reader = runner.ran[0][0]
        assert [task is reader for task, _ in runner.ran] == [True] * 3
        assert [(caller.call_id, caller.client_id) for _, caller in runner.ran] == [
            (call_id, "client-1") for call_id in ("2", "3", "4")
        ]
        slow = peer.request("tools/call", {"name": "wait", "arguments": {}})
        await peer.send(slow)
        await gate.entered.wait()
        await peer.call("brief", {})
        assert runner.ran[-1][0] is not reader
        gate.go_on.set()
        assert (await peer.receive())["id"] == slow["id"]
        await peer.call("brief", {})
        assert runner.ran[-1][0] is reader


async def test_with_telemetry_every_call_goes_the_way_that_makes_its_span():
    runner = Runner()
    server = build_server(Registry(tools=(tool("brief", runner.run, brief=True),)), telemetry=True)
    async with connected(server) as peer:
        await peer.call("brief", {})
        await peer.call("brief", {})
    assert runner.ran[0][0] is not runner.ran[1][0]


async def test_brief_calls_that_come_together_run_together():
    gate, runner = Gate(), Runner()
    server = build_server(Registry(tools=(tool("wait", gate.run, brief=True), tool("brief", runner.run, brief=True))))
    async with connected(server) as peer:
        first, second = (peer.request("tools/call", {"name": name, "arguments": {}}) for name in ("wait", "brief"))
        await peer.write(b"".join(json.dumps(one).encode() + b"\n" for one in (first, second)))
        assert (await peer.receive())["id"] == second["id"]
        gate.go_on.set()
        assert (await peer.receive())["id"] == first["id"]


async def test_a_defect_in_a_brief_tool_costs_one_call(caplog: pytest.LogCaptureFixture):
    async with connected(build_server(registry(brief=True))) as peer:
        failed = (await peer.call("crash", {"text": "hidden-word"}))["result"]
        assert failed["isError"]
        assert failed["structuredContent"]["error"]["code"] == "internal_error"
        assert "hidden-word" not in json.dumps(failed) + caplog.text
        assert (await peer.call("echo", {"text": "x"}))["result"]["isError"] is False


async def test_a_brief_call_in_flight_is_answered_before_a_drain_ends_the_connection():
    gate, drain = Gate(), anyio.Event()
    server = build_server(Registry(tools=(tool("wait", gate.run, brief=True),)))
    async with connected(server, drain=drain) as peer:
        slow = peer.request("tools/call", {"name": "wait", "arguments": {}})
        await peer.send(slow)
        await gate.entered.wait()
        drain.set()
        await anyio.wait_all_tasks_blocked()
        gate.go_on.set()
        assert (await peer.receive())["id"] == slow["id"]
        assert await peer.at_end()


async def test_a_client_that_leaves_during_a_brief_call_lets_it_end():
    gate = Gate()
    server = build_server(Registry(tools=(tool("wait", gate.run, brief=True),)))
    async with connected(server) as peer:
        await peer.send(peer.request("tools/call", {"name": "wait", "arguments": {}}))
        await gate.entered.wait()
        await peer.stream.aclose()
        gate.go_on.set()
    assert not gate.cancelled.is_set()
