"""The floor of a tool call: the same daemon, bridge and SDK, with one tool that does nothing.

`python -m bench.noop_daemon sdk --home DIR` serves it with the SDK alone; with `registry` it is a tool of our registry.
"""

import sys
from collections.abc import AsyncGenerator, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel.server import Server

from shiftlog.daemon import main
from shiftlog.daemon.control import Answer
from shiftlog.daemon.lines import LineStream
from shiftlog.daemon.services import ServeMcp
from shiftlog.daemon.upkeep import Upkeep
from shiftlog.mcp.calls import Context
from shiftlog.mcp.registry import Registry, Reply, Selection, Tool
from shiftlog.mcp.server import Servers
from shiftlog.mcp.transport import serve_lines
from shiftlog.model.caller import Caller
from shiftlog.model.errors import UnknownTool
from shiftlog.params.fields import Record, Text


async def _nothing(caller: Caller, arguments: dict[str, Any]) -> Reply:
    return Reply(data={"ok": True})


NOOP = Tool(
    name="noop",
    toolset="journal",
    title="No-op",
    description="Do nothing.",
    params=Record(fields={"text": Text(description="Ignored.", lines=True)}),
    read_only=True,
    destructive=False,
    idempotent=True,
    open_world=False,
    run=_nothing,
)


def _registry_server() -> Server[Any]:
    return Servers(Registry(tools=(NOOP,))).serving(Selection())


def _sdk_server() -> Server[Any]:
    listed = types.ListToolsResult(tools=[NOOP.as_listed()])

    async def list_tools(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return listed

    async def call_tool(ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(text='{"ok":true}')], structured_content={"ok": True})

    return Server("noop", version="1", on_list_tools=list_tools, on_call_tool=call_tool)


MADE = {"sdk": _sdk_server, "registry": _registry_server}


class NoopServices:
    """What the lifecycle needs, with nothing behind it."""

    idle_stop_s: float | None = 60.0
    log_level = "info"
    must_restart: str | None = None

    def __init__(self, server: Server[Any]) -> None:
        self._server = server
        self.upkeep = Upkeep()

    async def open_mcp(self, options: dict[str, object]) -> ServeMcp:
        server = self._server

        async def serve(lines: LineStream, caller: Caller, draining: anyio.Event) -> None:
            await serve_lines(server, lines, lines, caller, drain=draining)

        return serve

    def control(self, method: str, params: dict[str, object], caller: Caller) -> Answer:
        raise UnknownTool(f"Unknown question: {method}")

    async def client_gone(self, caller: Caller) -> None: ...

    async def renew_leases(self, client_ids: Iterable[str]) -> None: ...

    async def sweep(self, client_ids: Iterable[str]) -> None: ...

    def busy(self) -> bool:
        return False

    def end_shells(self) -> None: ...

    async def status(self) -> dict[str, object]:
        return {}

    async def run_background(self, draining: anyio.Event) -> None: ...


if __name__ == "__main__":
    made = MADE[sys.argv.pop(1)]

    @asynccontextmanager
    async def open_noop_services(home: str, connected: Callable[[], Collection[str]]) -> AsyncGenerator[NoopServices]:
        yield NoopServices(made())

    sys.exit(main(open_services=open_noop_services))
