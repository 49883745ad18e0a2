"""The sample registry over standard input and output, for tests that need a real process."""

import sys

import anyio

from shiftlog.mcp.server import build_server
from shiftlog.mcp.stdio import serve_stdio
from tests.mcp.samples import sample_registry, tool
from tests.mcp.wire import CALLER

if __name__ == "__main__":

    async def chatter(*_: object):
        """Write where a careless library would."""
        import subprocess

        from shiftlog.mcp.registry import Reply

        print("stray words on standard output", flush=True)
        child = subprocess.run(["cat"], check=True, capture_output=True)  # noqa: ASYNC221
        return Reply(data={"child_read": len(child.stdout)})

    sys.exit(anyio.run(serve_stdio, build_server(sample_registry(tool("chatter", chatter))), CALLER))
