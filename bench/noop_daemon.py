"""The floor of a tool call: the same daemon, bridge and SDK, with one tool that does nothing.

Run as `python -m bench.noop_daemon --home DIR`.
"""

import sys
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from shiftlog.daemon import main
from shiftlog.daemon.control import Answer
from shiftlog.daemon.lines import LineStream
from shiftlog.daemon.services import ServeMcp
from shiftlog.mcp.registry import Registry, Reply, Selection, Tool
from shiftlog.mcp.server import Servers
from shiftlog.mcp.transport import serve_lines
from shiftlog.model.caller import Caller
from shiftlog.model.errors import UnknownTool
from shiftlog.model.fields import Record, Text


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


class NoopServices:
    """What the lifecycle needs, with nothing behind it."""

    idle_stop_s: float | None = 60.0
    log_level = "info"

    def __init__(self) -> None:
        self._servers = Servers(Registry(tools=(NOOP,)))

    async def open_mcp(self, options: dict[str, object]) -> ServeMcp:
        server = self._servers.serving(Selection())

        async def serve(lines: LineStream, caller: Caller, draining: anyio.Event) -> None:
            await serve_lines(server, lines, lines, caller, drain=draining)

        return serve

    def control(self, method: str, params: dict[str, object], caller: Caller) -> Answer:
        raise UnknownTool(f"Unknown question: {method}")

    async def client_gone(self, caller: Caller) -> None: ...

    async def renew_leases(self, client_ids: Iterable[str]) -> None: ...

    async def sweep(self) -> None: ...

    def busy(self) -> bool:
        return False

    async def status(self) -> dict[str, object]:
        return {}

    async def run_beside(self, draining: anyio.Event) -> None: ...


@asynccontextmanager
async def open_noop_services(home: str) -> AsyncGenerator[NoopServices]:
    """Open nothing."""
    yield NoopServices()


if __name__ == "__main__":
    sys.exit(main(open_services=open_noop_services))
