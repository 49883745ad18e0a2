"""The services of the real daemon: the app, the MCP face over it, and HTTP where the operator wants it.

Importing the MCP SDK takes most of a cold start, so it happens in a thread beside the running daemon: the
command line is answered meanwhile, and only MCP clients wait for it.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import anyio
import anyio.to_thread

from shiftlog.app.app import App, Connected, open_app
from shiftlog.control.questions import answer
from shiftlog.daemon.control import Answer
from shiftlog.daemon.lines import LineStream
from shiftlog.daemon.services import ServeMcp
from shiftlog.daemon.until import until
from shiftlog.journal.sessions import workspace_of
from shiftlog.link.import_ahead import take_ahead
from shiftlog.model.caller import LIBRARY, Caller
from shiftlog.model.errors import InvalidParameter, ShiftlogError, StorageError, Unauthorized

if TYPE_CHECKING:
    from shiftlog.daemon.http import HttpFace
    from shiftlog.mcp.server import Servers

# Longer than the daemon drains: a request that does not finish in time is cut off by the closed socket, so that
# its bridge asks for the outcome instead of passing on an error that does not know it.
FINISH_S = 15.0

WATCH_AGAIN_S = 60.0

# What a hello says about the policy that its client was given.
CLIENT_POLICY = frozenset({"policy_files", "policy_variables"})

OPTIONS_HINT = "Correct the options of `shiftlog mcp` where the agent's configuration starts it"

# Within this time whoever started the daemon has said what for.
FIRST_ASKED_S = 0.15
# Who imported looks at what came of it next, and has the cores to itself for that.
LOOK_AGAIN_S = 3.0
# Who asks a daemon that has just started waits so long for the word whether HTTP is served.
HTTP_DECIDED_S = 3.0

log = logging.getLogger(__name__)


class AppServices:
    """One open app as the daemon's lifecycle sees it."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._servers: Servers | None = None
        self._mcp_wanted = anyio.Event()
        self._loaded = anyio.Event()
        self._http: HttpFace | None = None
        self._page_wanted = anyio.Event()
        self._http_made = anyio.Event()
        self._http_fault: str | None = None

    @property
    def idle_stop_s(self) -> float | None:
        """How long the daemon stays without client and work; None for ever."""
        return self._app.config.daemon.idle_stop_minutes * 60 or None

    @property
    def log_level(self) -> str:
        """From which level on records are kept."""
        return self._app.config.daemon.log_level

    async def open_mcp(self, options: dict[str, object]) -> ServeMcp:
        """Return what serves a client with these options; what they leave out the configuration says."""
        timeout_s = None
        if not CLIENT_POLICY.isdisjoint(options):
            from shiftlog.app.policy import command_timeout_s, without_policy

            variables = options.get("policy_variables", {})
            options = without_policy(self._app, options)
            timeout_s = command_timeout_s(cast("dict[str, str]", variables))
        servers = await self._face()
        from shiftlog.mcp.tools.journal import selection_for
        from shiftlog.mcp.transport import serve_lines

        try:
            server = servers.serving(selection_for(self._app, options))
        except InvalidParameter as error:
            error.hint = OPTIONS_HINT
            raise

        async def serve(lines: LineStream, caller: Caller, draining: anyio.Event) -> None:
            # A client that comes back after a restart of the daemon is the holder that it was.
            await self.renew_leases([caller.client_id] if caller.client_id else [])
            client = replace(_placed(caller), command_timeout_s=timeout_s)
            await serve_lines(server, lines, lines, client, drain=draining, finish_s=FINISH_S)

        return serve

    async def _face(self) -> "Servers":
        self._mcp_wanted.set()
        await self._loaded.wait()
        assert self._servers is not None
        return self._servers

    def control(self, method: str, params: dict[str, object], caller: Caller) -> Answer:
        """Answer a control question with one result or a stream of items; those of the page are answered here."""
        if method == "page.open":
            return self._open_page(params, caller)
        if method == "export":
            return self._export(params)
        return answer(self._app, method, params, _placed(caller))

    async def _open_page(self, params: dict[str, object], caller: Caller) -> object:
        """Serve the page if nobody does yet, and return a link that opens it once."""
        if not caller.operator:
            raise Unauthorized("Only an operator may open the page", hint="Read the history with your own tools")
        self._page_wanted.set()
        await self._http_made.wait()
        if self._http is None:
            raise StorageError("The page cannot be served", hint="Look at daemon.log; try again if the daemon stopped")
        await self._http.ready.wait()
        url = self._http.open_page(params.get("session_id"))
        if url is None:
            port = self._app.config.http.port
            raise StorageError(f"Port {port} is taken", hint="Set http.port in config.toml to another; 0 takes any")
        return {"url": url, "expires_in_s": 60}

    async def _export(self, params: dict[str, object]) -> AsyncGenerator[object]:
        from shiftlog.web.views.export import exported

        pieces = exported(self._app, str(params.get("session_id")), str(params.get("format", "md")))
        async for piece in pieces:
            yield {"text": piece}

    async def client_gone(self, caller: Caller) -> None:
        """End the leases of a client whose last connection has closed."""
        if caller.client_id is not None:
            await self._app.continuity.client_gone(caller.client_id)

    async def renew_leases(self, client_ids: Iterable[str]) -> None:
        """Keep the leases of connected clients alive, and of those that came over HTTP lately."""
        await self._app.continuity.renew(self.present(client_ids))

    async def sweep(self, client_ids: Iterable[str]) -> None:
        """Do what is due now and then, while these clients are connected."""
        await self._app.sweep(self.present(client_ids))

    def present(self, client_ids: Iterable[str]) -> list[str]:
        """Return the connected clients and those that came over HTTP lately."""
        over_http = self._http.clients() if self._http is not None else []
        return [*client_ids, *over_http]

    def busy(self) -> bool:
        """Say whether a shell lives, transcripts are watched, or somebody came over HTTP since this was last asked."""
        if self._app.live_shells() or self._app.config.ingest.watch:
            return True
        return self._http is not None and self._http.was_used()

    async def status(self) -> dict[str, object]:
        """Return the counts of the store, and where HTTP is served or why it is not although it is switched on."""
        enabled = self._app.config.http.enabled
        if enabled:
            with anyio.move_on_after(HTTP_DECIDED_S):
                await self._http_made.wait()
                if self._http is not None:
                    await self._http.ready.wait()
        counts = cast("Awaitable[dict[str, object]]", answer(self._app, "status", {}, LIBRARY))
        url = self._http.url if self._http is not None else None
        fault = self._http_fault or (self._http.fault if self._http is not None else None)
        return {
            **await counts,
            "http": url if enabled else None,
            "http_fault": (fault or "it is about to start") if enabled and url is None else None,
            "page": url.removesuffix("/mcp") if url else None,
        }

    async def run_beside(self, draining: anyio.Event) -> None:
        """Load the MCP face and serve HTTP, where enabled or once the page is wanted, and watch transcripts."""
        async with anyio.create_task_group() as beside:
            beside.start_soon(self._load_mcp, draining)
            beside.start_soon(self._end_unasked, draining)
            await self._recover_shells()
            beside.start_soon(self._app.hooks.run, draining)
            if self._app.config.ingest.watch:
                beside.start_soon(self._watch, draining)
            await self._serve_http(draining)

    async def _recover_shells(self) -> None:
        """Record the end of what an earlier daemon left; where that is nothing, shells are not even loaded."""
        if await self._app.shell_log.left(self._app.clock.now()):
            await self._app.shells.recover()

    async def _end_unasked(self, draining: anyio.Event) -> None:
        """End workers that were started ahead of an import that never came."""
        async with until(draining):
            await anyio.sleep(LOOK_AGAIN_S)
        if not self._app.is_importing:
            take_ahead(0)

    async def _load_mcp(self, draining: anyio.Event) -> None:
        """Load the MCP face at once for a client of it; else when no import has the cores and memory to itself."""
        async with until(draining):
            with anyio.move_on_after(FIRST_ASKED_S):
                await self._mcp_wanted.wait()
            while self._app.is_importing and not self._mcp_wanted.is_set():
                with anyio.move_on_after(LOOK_AGAIN_S):
                    await self._mcp_wanted.wait()
        if draining.is_set() and not self._mcp_wanted.is_set():
            return
        self._servers = await anyio.to_thread.run_sync(self._load)
        self._loaded.set()

    async def _watch(self, draining: anyio.Event) -> None:
        """Import transcripts as they grow, until the daemon drains; a failure is logged and tried again."""
        from shiftlog.ingest.importing.ports import ImportOptions, StopSign

        stop = StopSign()

        async def end() -> None:
            await draining.wait()
            stop.set()

        async with anyio.create_task_group() as waiting:
            waiting.start_soon(end)
            while not stop.is_set():
                try:
                    async for report in self._app.imports.watch(ImportOptions(), stop):
                        for error in report.errors:
                            log.warning("import: %s", error["message"])
                except ShiftlogError as error:
                    log.warning("import: %s", error.message)
                    await stop.wait(WATCH_AGAIN_S)

    async def _serve_http(self, draining: anyio.Event) -> None:
        settings = self._app.config.http
        if not settings.enabled:
            async with until(draining):
                await self._page_wanted.wait()
        if draining.is_set():
            self._http_made.set()
            return
        servers = await self._face()
        from shiftlog.daemon.http import HttpFace
        from shiftlog.mcp.tools.journal import selection_for

        server = servers.serving(selection_for(self._app, {})) if settings.enabled else None
        try:
            self._http = HttpFace(server, self._app, settings)
        except OSError as error:  # of the token's file; the daemon serves on without HTTP
            self._http_fault = f"{error.filename}: {error.strerror}"
            log.error("HTTP cannot be served: %s", self._http_fault)
        self._http_made.set()
        if self._http is not None:
            await self._http.serve(draining)

    def _load(self) -> "Servers":
        import_module("shiftlog.app.shells")  # so that the first call of a shell tool does not wait for it
        from shiftlog.mcp.server import Servers
        from shiftlog.mcp.tools.journal import native_registry

        return Servers(native_registry(self._app))


def _placed(caller: Caller) -> Caller:
    return caller if caller.cwd is None else replace(caller, workspace=workspace_of(caller.cwd))


@asynccontextmanager
async def open_app_services(home: str, connected: Connected) -> AsyncGenerator[AppServices]:
    """Open the app of a state directory for the time of a with block."""
    async with open_app(Path(home), connected=lambda: services.present(connected()), read_params=_read_params) as app:
        services = AppServices(app)
        yield services


def _read_params(text: str) -> Any:
    """Read the parameters of a queued call as the client script's own program, the REPL, does."""
    from shiftlog.repl.one_shot import parsed

    return parsed(text)
