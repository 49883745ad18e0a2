"""The HTTP listener of the daemon: token, loopback port and web server, for MCP and for the page.

Access and answers are decided in `shiftlog.mcp.http` and `shiftlog.web`; `http_service` decides when to listen.
"""

import logging
import os
import secrets
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import uvicorn
from mcp.server.lowlevel.server import Server
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shiftlog.app.app import App
from shiftlog.config.loading import HttpSection
from shiftlog.daemon.http_connections import LimitedProtocol, is_late
from shiftlog.link.files import open_regular, read_regular
from shiftlog.link.wire import http_port_path
from shiftlog.mcp.http import LOOPBACK, PATHS, HostGate, http_app, http_caller
from shiftlog.model.caller import Caller
from shiftlog.model.limits import HTTP_BODY_S, HTTP_CLIENT_KEPT_S, HTTP_FINISH_S, MCP_REQUESTS_IN_ALL
from shiftlog.web.door import Door
from shiftlog.web.live import Live
from shiftlog.web.routes import OPEN, page_routes

TOKEN_FILE = "http.token"
TOO_MANY = PlainTextResponse("Too many connections", 503, headers={"Connection": "close"})

log = logging.getLogger(__name__)


class HttpFace:
    """The HTTP listener of one daemon; `ready` is set once it listens at `url`, or cannot listen because of `fault`.

    Without an MCP server it serves the page alone, on any port if the configured one is taken.
    """

    def __init__(self, server: Server[Any] | None, app: App, settings: HttpSection) -> None:
        self._settings = settings
        self._port_file = Path(http_port_path(str(app.home)))
        token = open_token(app.home)
        self._door = Door(token)
        self._live = Live(app=app)
        pages = page_routes(app, self._door, self._live)
        if server is None:
            self._app = Starlette(routes=pages, middleware=[Middleware(HostGate, hosts=LOOPBACK)])
        else:
            self._app = http_app(
                server, token=token, caller_for=self._caller, client_gone=self._client_gone, routes=pages
            )
        self._continuity = app.continuity
        self._any_port = server is None
        self.ready = anyio.Event()
        self._streams: set[anyio.CancelScope] = set()
        self._seen: dict[str, float] = {}
        self._running = 0
        self._used = False
        self.url: str | None = None
        self.fault: str | None = None

    def open_page(self, session_id: object = None) -> str | None:
        """Return a link that opens the page once within a minute; None if nothing listens."""
        if self.url is None:
            return None
        begin = f"&session={quote(str(session_id), safe='')}" if session_id else ""
        return self.url.removesuffix("/mcp") + f"{OPEN}?code={self._door.issue_code()}{begin}"

    def was_used(self) -> bool:
        """Return True if a request runs or has run since the last call of this method."""
        used, self._used = self._used or self._running > 0, False
        return used

    def clients(self) -> list[str]:
        """Return the clients with a recent request, as none keeps a connection; may be called from any thread."""
        since = time.monotonic() - HTTP_CLIENT_KEPT_S
        return [client for client, at in tuple(self._seen.items()) if at >= since]

    def _caller(self, connection: HTTPConnection) -> Caller:
        caller = http_caller(connection)
        if caller.client_id and connection.scope.get("method") == "DELETE":
            self._seen.pop(caller.client_id, None)
        elif caller.client_id:
            recent = self.clients()
            self._seen = {client: self._seen[client] for client in recent} | {caller.client_id: time.monotonic()}
        return caller

    async def _client_gone(self, caller: Caller) -> None:
        """End the leases of a client that ends its MCP session."""
        if caller.client_id is not None:
            await self._continuity.client_gone(caller.client_id)

    async def serve(self, draining: anyio.Event) -> None:
        """Listen until `draining`, then finish the running requests; a taken port is logged and ends nothing."""
        host = self._settings.host.strip("[]")
        listener = self._listen(host)
        if listener is None:
            self.ready.set()
            return
        port = listener.getsockname()[1]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{port}/mcp"
        log.info("serves %s on %s", "the page" if self._any_port else "MCP and the page", self.url.removesuffix("/mcp"))
        self.ready.set()
        server = QuietServer(
            uvicorn.Config(
                self._count,
                interface="asgi3",
                log_config=None,
                access_log=False,
                lifespan="on",
                timeout_graceful_shutdown=HTTP_FINISH_S,
                server_header=False,
                http=LimitedProtocol,
                limit_concurrency=MCP_REQUESTS_IN_ALL,
            )
        )
        async with anyio.create_task_group() as tasks:

            async def stop() -> None:
                await draining.wait()
                self._live.stop()
                for stream in list(self._streams):
                    stream.cancel()
                server.should_exit = True

            tasks.start_soon(stop)
            try:
                await server.serve(sockets=[listener])
            except SystemExit:  # uvicorn could not start; the daemon goes on without it
                self.fault = "see daemon.log"
                log.error("HTTP could not start")
            tasks.cancel_scope.cancel()
        self.url = None
        self._port_file.unlink(missing_ok=True)

    def _listen(self, host: str) -> socket.socket | None:
        for port in (self._settings.port, 0) if self._any_port else (self._settings.port,):
            try:
                return self._told(listen_at(host, port))
            except OSError as error:
                self.fault = f"port {port}: {os.strerror(error.errno or 0)}"
                level = logging.INFO if self._any_port and port else logging.ERROR
                log.log(level, "HTTP cannot listen on %s", self.fault)
        return None

    def _told(self, listener: socket.socket) -> socket.socket:
        """Write the port down before anything is served: confined shells may not connect to it."""
        try:
            with os.fdopen(open_regular(self._port_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "w") as file:
                file.write(str(listener.getsockname()[1]))
        except OSError:
            listener.close()
            raise
        return listener

    async def _count(self, scope: Scope, receive: Receive, send: Send) -> None:
        app: ASGIApp = self._app
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        self._running += 1
        self._used = True
        try:
            if is_late(scope):
                await TOO_MANY(scope, receive, send)
            elif scope["method"] == "GET" and scope["path"] in PATHS:
                await self._stream(scope, receive, send)
            else:
                await app(scope, bounded(receive), send)
        finally:
            self._running -= 1

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve an endless stream of events until its client or the daemon ends it."""
        begun = False

        async def noting(message: Message) -> None:
            nonlocal begun
            begun = begun or message["type"] == "http.response.start"
            await send(message)

        with anyio.CancelScope() as stream:
            self._streams.add(stream)
            try:
                await self._app(scope, receive, noting)
            finally:
                self._streams.discard(stream)
        if stream.cancelled_caught and begun:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


def listen_at(host: str, port: int) -> socket.socket:
    """Return a socket that listens; raise OSError if the port is taken."""
    listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    # asyncio sets this only if a socket names its protocol; without it small answers wait 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def bounded(receive: Receive) -> Receive:
    """Return a `receive` that gives up a client which announced more of a body than it sends."""
    is_whole = False

    async def bounded() -> Message:
        nonlocal is_whole
        if is_whole:
            return await receive()
        message: Message = {"type": "http.disconnect"}
        with anyio.move_on_after(HTTP_BODY_S):
            message = await receive()
        is_whole = not message.get("more_body", False)
        return message

    return bounded


class QuietServer(uvicorn.Server):
    """A web server that leaves signals to its process."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def open_token(home: Path) -> str:
    """Return the HTTP token of a state directory, creating its file (0600) if needed."""
    path = home / TOKEN_FILE
    try:
        kept = read_regular(path).decode("ascii").strip()
        if kept:
            return kept
        log.warning("%s is empty; a new token is created", TOKEN_FILE)
    except FileNotFoundError:
        pass
    except UnicodeDecodeError:
        log.warning("%s is not a token; a new one is created", TOKEN_FILE)
    token = secrets.token_urlsafe(32)
    fresh = path.with_suffix(".new")
    descriptor = open_regular(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(token + "\n")
        file.flush()
        os.fsync(descriptor)  # otherwise a power loss may leave an empty file
    fresh.replace(path)
    return token
