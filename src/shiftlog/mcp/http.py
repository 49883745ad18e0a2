"""MCP over Streamable HTTP on a loopback port: the checks of access and of bodies in front of the SDK.

A foreign `Host` or `Origin` is refused first, because a page in the user's browser can reach a loopback port too; then
the token is checked, then the body. The daemon chooses token and port.
"""

import hmac
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http import EventStore
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shiftlog.mcp.calls import CALLER
from shiftlog.mcp.errors import repeated
from shiftlog.mcp.face import refuse_depth
from shiftlog.mcp.lines import InvalidMessage, parse_line
from shiftlog.model.caller import Caller
from shiftlog.model.errors import InvalidParameter, ShiftlogError, Unauthorized
from shiftlog.text.printable import SURROGATES

PATHS = ("/mcp", "/mcp-transport")
MAX_BODY_BYTES = 64 * 1024 * 1024
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})

_AUTHORITY = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+)(?::[0-9]{1,5})?")
_MAYBE_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")

# A request may name the session of its calls; the first of these that is present counts.
HANDLE_HEADERS = ("x-delx-session-id", "x-session-id")
HANDLE_QUERY = "session_id"
CLIENT_HEADER = "mcp-session-id"
VERSION_HEADER = "mcp-protocol-version"

CallerFor = Callable[[HTTPConnection], Caller]
ClientGone = Callable[[Caller], Awaitable[None]]


def http_app(
    server: Server[Any],
    *,
    token: str,
    caller_for: CallerFor | None = None,
    client_gone: ClientGone | None = None,
    routes: Sequence[BaseRoute] = (),
    event_store: EventStore | None = None,
    retry_ms: int | None = None,
) -> Starlette:
    """Build the application; `caller_for` sees headers and query of each request, `routes` are added.

    `client_gone` is called with a client that ends its MCP session, before the answer.

    The host check covers the added routes too. The token does not: pages have an access check of their own.
    """
    sessions = StreamableHTTPSessionManager(
        app=server, event_store=event_store, retry_interval=retry_ms, max_request_body_size=MAX_BODY_BYTES
    )
    served = _CallerScope(StreamableHTTPASGIApp(sessions), caller_for or http_caller, client_gone)
    endpoint = BearerGate(BodyGate(served), token=token)
    return Starlette(
        routes=[*(Route(path, endpoint=endpoint) for path in PATHS), *routes],
        middleware=[Middleware(HostGate, hosts=LOOPBACK)],
        lifespan=lambda _: sessions.run(),
    )


def http_caller(connection: HTTPConnection) -> Caller:
    """Return the caller of a request; an MCP session, if the revision has one, identifies the client."""
    headers = connection.headers
    named = [headers.get(name) for name in HANDLE_HEADERS]
    queried = connection.query_params.get(HANDLE_QUERY) if connection.scope["query_string"] else None
    handle = next((name for name in (*named, queried) if name), None)
    client = headers.get(CLIENT_HEADER)
    if not client:
        return Caller(face="http", session_handle=handle, inside=None)
    return Caller(client_id=f"http:{client}", face="http", session_handle=handle, holds_leases=True, inside=None)


class HostGate:
    """Refuses requests that name another host or come from a foreign page."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str]) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        problem = self._problem(headers.getlist("host"), headers.getlist("origin"))
        if problem is None:
            await self._app(scope, receive, send)
            return
        hint = "Ask for this machine by localhost or 127.0.0.1, without a page of another site"
        await refusal(403, Unauthorized(problem, hint=hint))(scope, receive, send)

    def _problem(self, hosts: list[str], origins: list[str]) -> str | None:
        if len(hosts) != 1 or not self._is_ours(hosts[0]):
            return "The Host header names a foreign host"
        for origin in origins:
            scheme, _, authority = origin.partition("://")
            if scheme not in ("http", "https") or not self._is_ours(authority):
                return "The Origin header names a foreign origin"
        return None

    def _is_ours(self, authority: str) -> bool:
        found = _AUTHORITY.fullmatch(authority)
        return found is not None and found[1].casefold() in self._hosts


class BearerGate:
    """Refuses requests without the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        if not token:
            raise ValueError("an empty token would let everyone in")
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._carries_token(Headers(scope=scope).getlist("authorization")):
            await self._app(scope, receive, send)
            return
        error = Unauthorized("A valid token is required", hint="Send 'Authorization: Bearer <token>'")
        await refusal(401, error, {"WWW-Authenticate": "Bearer"})(scope, receive, send)

    def _carries_token(self, values: list[str]) -> bool:
        if len(values) != 1:
            return False
        scheme, _, given = values[0].partition(" ")
        same = hmac.compare_digest(given.strip().encode("latin-1"), self._token)
        return same and scheme.casefold() == "bearer"


class BodyGate:
    """Refuses bodies that are not messages, with the same errors as for lines.

    By itself the SDK repeats some bad bodies in its answer and fails on others without naming the cause. Other methods,
    the newer revision and oversized bodies are left to it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("method") != "POST" or Headers(scope=scope).get(VERSION_HEADER) in MODERN_PROTOCOL_VERSIONS:
            await self._app(scope, receive, send)
            return
        read: list[Message] = []
        body = bytearray()
        while len(body) <= MAX_BODY_BYTES:
            message = await receive()
            read.append(message)
            body += message.get("body", b"")
            if message["type"] != "http.request" or not message.get("more_body"):
                break
        is_whole = read[-1]["type"] == "http.request" and not read[-1].get("more_body")
        try:
            if is_whole:
                read_message(bytes(body))
        except InvalidMessage as refused:
            await refused_message(refused)(scope, receive, send)
            return
        held = iter(read)

        async def again() -> Message:
            return next(held, None) or await receive()

        await self._app(scope, again, send)


def read_message(body: bytes) -> types.JSONRPCMessage:
    """Return the message of a body; raise InvalidMessage if it is not one, or holds arguments that no tool takes."""
    message = parse_line(body)
    if not isinstance(message, types.JSONRPCRequest):
        return message
    arguments: object = (message.params or {}).get("arguments")
    if not isinstance(arguments, dict):
        return message
    given = cast("dict[str, Any]", arguments)
    try:
        refuse_depth(given)
        if _MAYBE_SURROGATE.search(body):
            for name, value in given.items():
                if SURROGATES.search(json.dumps([name, value], ensure_ascii=False)):
                    raise InvalidParameter.invalid(repeated(name), "valid Unicode is expected, without lone surrogates")
    except InvalidParameter as error:
        raise InvalidMessage(types.INVALID_PARAMS, error.message, message.id) from None
    return message


def refused_message(refused: InvalidMessage) -> JSONResponse:
    """Return the answer to a body that is not a message."""
    error = {"code": refused.code, "message": refused.message}
    return JSONResponse({"jsonrpc": "2.0", "id": refused.request_id, "error": error}, status_code=400)


class _CallerScope:
    """Sets the current caller for each request."""

    def __init__(self, app: ASGIApp, caller_for: CallerFor, client_gone: ClientGone | None) -> None:
        self._app = app
        self._caller_for = caller_for
        self._client_gone = client_gone

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = self._caller_for(HTTPConnection(scope))
        gone = self._client_gone

        async def send_after_goodbye(message: Message) -> None:
            if gone is not None and message["type"] == "http.response.start" and message["status"] == 200:
                await gone(caller)
            await send(message)

        token = CALLER.set(caller)
        try:
            await self._app(scope, receive, send_after_goodbye if scope.get("method") == "DELETE" else send)
        finally:
            CALLER.reset(token)


def refusal(status: int, error: ShiftlogError, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return an error as JSON."""
    return JSONResponse({"error": error.as_dict()}, status_code=status, headers=headers)
