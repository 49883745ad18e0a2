"""Both ends of a wire: a raw peer that writes lines, and the SDK's own client over the same lines."""

import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Self

import anyio
import mcp_types as types
import pytest
from anyio.abc import ByteStream, UNIXSocketStream
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp.client._transport import TransportStreams
from mcp.client.client import Client
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage

from shiftlog.mcp.transport import serve_lines
from shiftlog.model.caller import Caller

REVISIONS = ("2025-11-25", "2026-07-28")
CALLER = Caller(client_id="client-1", face="mcp", pid=4711)
ENVELOPE = {
    types.PROTOCOL_VERSION_META_KEY: "2026-07-28",
    types.CLIENT_CAPABILITIES_META_KEY: {},
    types.CLIENT_INFO_META_KEY: {"name": "peer", "version": "1"},
}


class Peer:
    """A client that writes whatever it likes; by default requests of the revision it was made for."""

    def __init__(self, stream: ByteStream, revision: str) -> None:
        self.stream = stream
        self.modern = revision == "2026-07-28"
        self._lines = BufferedByteReceiveStream(stream)
        self._last_id = 0

    async def write(self, data: bytes) -> None:
        await self.stream.send(data)

    async def send(self, message: object) -> None:
        await self.write(json.dumps(message).encode() + b"\n")

    async def receive(self) -> dict[str, Any]:
        with anyio.fail_after(20):
            return json.loads(await self._lines.receive_until(b"\n", 1 << 27))

    async def at_end(self) -> bool:
        """Tell whether the server closed its end without another word."""
        with anyio.fail_after(20):
            try:
                return not await self._lines.receive()
            except anyio.EndOfStream:
                return True

    async def at_end_of(self, data: bytes) -> list[object]:
        """Read on from `data` to the end of the stream and return the ids of the lines."""
        whole = bytearray(data)
        try:
            while True:
                whole += await self.stream.receive()
        except anyio.EndOfStream:
            return [json.loads(line)["id"] for line in whole.splitlines()]

    def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        self._last_id += 1
        given = dict(params or {})
        if self.modern:
            given["_meta"] = {**ENVELOPE, **given.get("_meta", {})}
        return {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": given}

    async def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        request = self.request(method, params)
        await self.send(request)
        answer = await self.receive()
        assert answer["id"] == request["id"]
        return answer

    async def call(self, name: str, arguments: object = None, **params: Any) -> dict[str, Any]:
        return await self.ask("tools/call", {"name": name, "arguments": arguments, **params})

    async def greet(self) -> Self:
        """Shake hands where the revision asks for it."""
        if not self.modern:
            hello = {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "peer", "version": "1"},
            }
            assert (await self.ask("initialize", hello))["result"]["protocolVersion"] == "2025-11-25"
            await self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self


@asynccontextmanager
async def connected(
    server: Server[Any], revision: str = REVISIONS[0], caller: Caller = CALLER, *, greets: bool = True, **options: Any
) -> AsyncGenerator[Peer]:
    """Serve one connection over a socket pair and yield the other end, hands shaken unless told otherwise."""
    async with _served(server, caller, options) as stream:
        peer = Peer(stream, revision)
        yield await peer.greet() if greets else peer


@asynccontextmanager
async def sdk_client(server: Server[Any], revision: str = REVISIONS[0], **options: Any) -> AsyncGenerator[Client]:
    """Serve one connection over a socket pair and yield the SDK's own client at the other end."""
    mode = "legacy" if revision == "2025-11-25" else revision
    async with (
        _served(server, CALLER, {}) as stream,
        Client(_lines_transport(stream), mode=mode, cache=None, **options) as client,
    ):
        assert client.protocol_version == revision
        yield client


@asynccontextmanager
async def _served(server: Server[Any], caller: Caller, options: dict[str, Any]) -> AsyncGenerator[UNIXSocketStream]:
    here, there = socket.socketpair()
    ours = await UNIXSocketStream.from_socket(here)
    theirs = await UNIXSocketStream.from_socket(there)

    async def serve() -> None:
        async with theirs:
            await serve_lines(server, theirs, theirs, caller, **options)

    async with ours, anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        yield ours
        await ours.aclose()


@asynccontextmanager
async def _lines_transport(stream: ByteStream) -> AsyncGenerator[TransportStreams]:
    incoming_send, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, outgoing_receive = anyio.create_memory_object_stream[SessionMessage](0)

    async def pump_in() -> None:
        lines = BufferedByteReceiveStream(stream)
        async with incoming_send:
            while True:
                try:
                    line = await lines.receive_until(b"\n", 1 << 27)
                except (anyio.IncompleteRead, anyio.ClosedResourceError, anyio.BrokenResourceError):
                    return
                message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                await incoming_send.send(SessionMessage(message))

    async def pump_out() -> None:
        async with outgoing_receive:
            async for item in outgoing_receive:
                line = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                await stream.send(line.encode() + b"\n")

    async with incoming, outgoing, anyio.create_task_group() as tasks:
        tasks.start_soon(pump_in)
        tasks.start_soon(pump_out)
        yield incoming, outgoing
        tasks.cancel_scope.cancel()


async def transcript(client: Client) -> list[Any]:
    """Use every kind of request of the sample registry once and return what came back."""
    said: list[Any] = [
        await client.list_tools(),
        await client.list_resources(),
        await client.list_resource_templates(),
        await client.list_prompts(),
        await client.call_tool("echo", {"text": "ü", "tags": ["a"]}),
        await client.call_tool("echo"),
        await client.call_tool("refuse", {}),
        await client.call_tool("items", {}),
        await client.call_tool("picture", {}),
        await client.read_resource("shiftlog://notes"),
        await client.read_resource("shiftlog://things/a%23b"),
        await client.get_prompt("greeting", {"name": "Ada"}),
    ]
    for bad in (
        client.call_tool("no_such_tool", {}),
        client.get_prompt("greeting", {}),
        client.get_prompt("farewell", {}),
    ):
        with pytest.raises(MCPError) as caught:
            await bad
        said.append(caught.value.error)
    return [item.model_dump(exclude={"meta", "ttl_ms", "cache_scope"}) for item in said]
