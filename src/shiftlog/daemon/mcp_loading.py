"""Loading the MCP face beside the running daemon.

Importing the MCP SDK takes most of a cold start, so it happens in a thread: the command line is answered meanwhile, and
only MCP clients wait for it. Without one the daemon loads it when what it was started for is likely over.
"""

import gc
from importlib import import_module
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from shiftlog.app.app import App
from shiftlog.daemon.tasks import until

if TYPE_CHECKING:
    from shiftlog.mcp.server import Servers

# What a command or a hook started the daemon for, and the look at an import's result, get the cores first.
PAUSE_S = 3.0


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
        """Load at once for a waiting MCP client, else after a pause in which no import needs the cores."""
        async with until(draining):
            is_importing = True
            while is_importing and not self._wanted.is_set():
                with anyio.move_on_after(PAUSE_S):
                    await self._wanted.wait()
                is_importing = self._app.is_importing
        if draining.is_set() and not self._wanted.is_set():
            return
        self._servers = await anyio.to_thread.run_sync(self._load)
        self._loaded.set()
        # So that the first call of a shell tool does not wait for it.
        await anyio.to_thread.run_sync(import_module, "shiftlog.app.shells")
        # What was loaded stays, and a full collection that looked at it would stop the daemon for 55 ms instead of 0.2.
        gc.freeze()

    def _load(self) -> "Servers":
        from shiftlog.mcp.catalogue import registry_for
        from shiftlog.mcp.server import Servers

        return Servers(registry_for(self._app))
