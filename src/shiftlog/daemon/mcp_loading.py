"""Loading the MCP face beside the running daemon.

Importing the MCP SDK takes most of a cold start, so it happens in a thread: the command line is answered meanwhile, and
only MCP clients wait for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from shiftlog.app.app import App
from shiftlog.daemon.tasks import until

if TYPE_CHECKING:
    from shiftlog.mcp.server import Servers

# The client that started the daemon sends its first request within this time.
FIRST_REQUEST_S = 0.15
# After an import the user looks at the result; loading waits, so that this gets the cores.
AFTER_IMPORT_S = 3.0


class McpLoader:
    """The MCP servers of one app, loaded once."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._servers: Servers | None = None
        self._wanted = anyio.Event()
        self._loaded = anyio.Event()

    async def servers(self) -> "Servers":
        """Return the servers; this also ends the delay of a load that has not begun."""
        self._wanted.set()
        await self._loaded.wait()
        assert self._servers is not None
        return self._servers

    async def load(self, draining: anyio.Event) -> None:
        """Load at once for a waiting MCP client, else when no import needs the cores and the memory."""
        async with until(draining):
            with anyio.move_on_after(FIRST_REQUEST_S):
                await self._wanted.wait()
            while self._app.is_importing and not self._wanted.is_set():
                with anyio.move_on_after(AFTER_IMPORT_S):
                    await self._wanted.wait()
        if draining.is_set() and not self._wanted.is_set():
            return
        self._servers = await anyio.to_thread.run_sync(self._load)
        self._loaded.set()

    def _load(self) -> "Servers":
        import_module("shiftlog.app.shells")  # so that the first call of a shell tool does not wait for it
        from shiftlog.mcp.catalogue import registry_for
        from shiftlog.mcp.server import Servers

        return Servers(registry_for(self._app))
