"""HTTP of the daemon: served from its start if the operator enabled it, else once a user opens the page.

The listener itself is in `http`, which loads the web framework and is therefore imported late.
"""

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from shiftlog.app.app import App
from shiftlog.daemon.mcp_loading import McpLoader
from shiftlog.daemon.tasks import until
from shiftlog.link.wire import http_port_path
from shiftlog.model.caller import Caller
from shiftlog.model.errors import StorageError, Unauthorized
from shiftlog.model.limits import HTTP_START_WAIT_S

if TYPE_CHECKING:
    from shiftlog.daemon.http import HttpFace

log = logging.getLogger(__name__)


class HttpService:
    """The HTTP listener of one daemon, started when it is needed."""

    def __init__(self, app: App, mcp: McpLoader) -> None:
        self._app = app
        self._mcp = mcp
        self._face: HttpFace | None = None
        self._page_wanted = anyio.Event()
        self._decided = anyio.Event()
        self._fault: str | None = None

    def clients(self) -> list[str]:
        """Return the clients that sent a request over HTTP lately."""
        return self._face.clients() if self._face is not None else []

    def was_used(self) -> bool:
        """Return True if a request came over HTTP since the last call of this method."""
        return self._face is not None and self._face.was_used()

    async def open_page(self, session_id: object, caller: Caller) -> dict[str, object]:
        """Serve the page if it is not served yet, and return a link that opens it once."""
        if not caller.operator:
            raise Unauthorized("Only an operator may open the page", hint="Read the history with your own tools")
        self._page_wanted.set()
        await self._decided.wait()
        if self._face is None:
            raise StorageError(
                "The page cannot be served", hint="shiftlog doctor shows why; try again if the daemon stopped"
            )
        await self._face.ready.wait()
        url = self._face.open_page(session_id)
        if url is None:
            port = self._app.config.http.port
            raise StorageError(f"Port {port} is taken", hint="Set http.port in config.toml to another; 0 takes any")
        return {"url": url, "expires_in_s": 60}

    async def status(self) -> dict[str, object]:
        """Return the addresses, and why HTTP is not served although it is enabled."""
        enabled = self._app.config.http.enabled
        if enabled:
            with anyio.move_on_after(HTTP_START_WAIT_S):
                await self._decided.wait()
                if self._face is not None:
                    await self._face.ready.wait()
        url = self._face.url if self._face is not None else None
        fault = self._fault or (self._face.fault if self._face is not None else None)
        return {
            "http": url if enabled else None,
            "http_fault": (fault or "it is about to start") if enabled and url is None else None,
            "page": url.removesuffix("/mcp") if url else None,
        }

    async def run(self, draining: anyio.Event) -> None:
        """Serve from the moment that HTTP is needed until the daemon drains."""
        try:
            await self._open(draining)
        finally:
            self._decided.set()  # those who wait for the page learn of a failure too
        if self._face is not None:
            await self._face.serve(draining)

    async def _open(self, draining: anyio.Event) -> None:
        settings = self._app.config.http
        Path(http_port_path(str(self._app.home))).unlink(missing_ok=True)  # a daemon that was killed left it
        if not settings.enabled:
            async with until(draining):
                await self._page_wanted.wait()
        if draining.is_set():
            return
        servers = await self._mcp.servers()
        from shiftlog.daemon.http import HttpFace
        from shiftlog.mcp.catalogue import selection_for

        server = servers.serving(selection_for(self._app, {})) if settings.enabled else None
        try:
            self._face = HttpFace(server, self._app, settings)
        except OSError as error:  # the token file; the daemon goes on without HTTP
            self._fault = f"{error.filename}: {error.strerror}"
            log.error("HTTP cannot be served: %s", self._fault)
