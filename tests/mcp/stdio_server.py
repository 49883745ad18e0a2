"""The sample registry over standard input and output, for tests that need a real process."""

import subprocess
import sys
from typing import Any

import anyio

from shiftlog.mcp.registry import Reply
from shiftlog.mcp.server import build_server
from shiftlog.mcp.stdio import serve_stdio
from shiftlog.model.caller import Caller
from tests.mcp.samples import sample_registry, tool
from tests.mcp.wire import CALLER


async def chatter(caller: Caller, arguments: dict[str, Any]) -> Reply:
    """Write where a careless library would, and start a child that reads what it can get."""
    print("stray words on standard output", flush=True)
    child = subprocess.run(["cat"], check=True, capture_output=True)  # noqa: ASYNC221 - it reads nothing
    return Reply(data={"child_read": len(child.stdout)})


if __name__ == "__main__":
    sys.exit(anyio.run(serve_stdio, build_server(sample_registry(tool("chatter", chatter))), CALLER))
