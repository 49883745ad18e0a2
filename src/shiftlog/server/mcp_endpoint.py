"""MCP over HTTP without affinity: each request is answered whole by the replica that it reaches.

The newer revision has no sessions. A session of the older one is in the database: `initialize` stores what the client
said of itself, and every later request is served as if the same connection had said it. The server never asks a client
anything, so it offers no stream of its own.
"""

import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.lowlevel.server import Server
from mcp.server.runner import modern_error_data, serve_one
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.message import MessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from shiftlog.app.team import McpSessions
from shiftlog.mcp.calls import CALLER
from shiftlog.mcp.http import (
    CLIENT_HEADER,
    MAX_BODY_BYTES,
    VERSION_HEADER,
    http_caller,
    read_message,
    refused_message,
)
from shiftlog.mcp.lines import InvalidMessage
from shiftlog.model.team import ApiKey, KeyScope, McpSession
from shiftlog.server.access import key_of
from shiftlog.server.bodies import BodyTooLarge, read_body

ACCEPTED, BAD_REQUEST, NOT_FOUND, NOT_ALLOWED, TOO_LARGE = 202, 400, 404, 405, 413

_TRANSPORT = TransportContext(kind="streamable-http", can_send_request=False)


@dataclass(slots=True, kw_only=True)
class _Exchange:
    """One request and its answer, as the SDK sees it: nothing else can be sent to the client."""

    request_id: types.RequestId | None
    transport: TransportContext = _TRANSPORT
    message_metadata: MessageMetadata = None
    can_send_request: bool = False
    cancel_requested: anyio.Event = field(default_factory=anyio.Event)

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        raise NoBackChannelError(method)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        """Drop a notification: the answer is one JSON message."""

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Drop a report of progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ForKeys:
    """The server for one kind of key: the SDK's own, and its entry for the newer revision."""

    server: Server[Any]
    newer: StreamableHTTPSessionManager


class McpEndpoint:
    """Answers MCP requests; keys without the scope `write` get the tools that change nothing."""

    def __init__(self, *, writing: Server[Any], reading: Server[Any], sessions: McpSessions) -> None:
        self._writing, self._reading = _part(writing), _part(reading)
        self._sessions = sessions

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None]:
        """Keep the SDK's entries open for the time of a with block."""
        async with AsyncExitStack() as stack:
            for part in (self._writing, self._reading):
                await stack.enter_async_context(part.newer.run())
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        key = key_of(scope)
        part = self._writing if key.allows(KeyScope.WRITE) else self._reading
        token = CALLER.set(http_caller(request))
        try:
            version = request.headers.get(VERSION_HEADER)
            if version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS:
                await part.newer.handle_request(scope, receive, send)
                return
            response = await self._older(request, part.server, key)
        finally:
            CALLER.reset(token)
        await response(scope, receive, send)

    async def _older(self, request: Request, server: Server[Any], key: ApiKey) -> Response:
        if request.method == "DELETE":
            session = await self._find(request, key)
            if isinstance(session, Response):
                return session
            await self._sessions.close(session.id)
            return Response(status_code=200)
        if request.method != "POST":
            says = "This server sends no messages of its own; send requests with POST"
            return _refused(NOT_ALLOWED, types.INVALID_REQUEST, says, {"Allow": "POST, DELETE"})
        try:
            message = read_message(await read_body(request, MAX_BODY_BYTES))
        except InvalidMessage as refused:
            return refused_message(refused)
        except BodyTooLarge:
            return _refused(TOO_LARGE, types.INVALID_REQUEST, f"A message may have at most {MAX_BODY_BYTES} bytes")
        if isinstance(message, types.JSONRPCRequest) and message.method == "initialize":
            return await self._initialize(server, message, key)
        session = await self._find(request, key)
        if isinstance(session, Response):
            return session
        if not isinstance(message, types.JSONRPCRequest):
            return Response(status_code=ACCEPTED)
        connection = Connection.from_envelope(session.version, session.client_info, session.capabilities)
        return JSONResponse(await _answered(server, message, connection))

    async def _initialize(self, server: Server[Any], message: types.JSONRPCRequest, key: ApiKey) -> Response:
        connection = Connection.from_envelope(LATEST_HANDSHAKE_VERSION, None, None)
        answer = await _answered(server, message, connection)
        said = connection.client_params
        if "error" in answer or said is None:
            return JSONResponse(answer)
        session = McpSession(
            id=uuid.uuid4().hex,
            key_id=key.id,
            version=connection.protocol_version,
            client_info=said.client_info.model_dump(by_alias=True, mode="json", exclude_none=True),
            capabilities=said.capabilities.model_dump(by_alias=True, mode="json", exclude_none=True),
        )
        await self._sessions.open(session)
        return JSONResponse(answer, headers={CLIENT_HEADER: session.id})

    async def _find(self, request: Request, key: ApiKey) -> McpSession | Response:
        """Return the session that a request names; another key's session is as unknown as any."""
        name = request.headers.get(CLIENT_HEADER)
        if not name:
            return _refused(BAD_REQUEST, types.INVALID_REQUEST, "Mcp-Session-Id is missing; send initialize first")
        session = await self._sessions.find(name)
        if session is None or session.key_id != key.id:
            return _refused(NOT_FOUND, types.INVALID_REQUEST, "Session not found; send initialize")
        return session


def _part(server: Server[Any]) -> _ForKeys:
    newer = StreamableHTTPSessionManager(
        app=server, stateless=True, json_response=True, max_request_body_size=MAX_BODY_BYTES
    )
    return _ForKeys(server=server, newer=newer)


async def _answered(server: Server[Any], message: types.JSONRPCRequest, connection: Connection) -> dict[str, Any]:
    answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message.id}
    try:
        exchange = _Exchange(request_id=message.id)
        result = await serve_one(
            server, exchange, message.method, message.params, connection=connection, lifespan_state={}
        )
    except Exception as error:  # noqa: BLE001 - the edge of this face
        return answer | {"error": modern_error_data(error).model_dump(by_alias=True, mode="json", exclude_none=True)}
    return answer | {"result": result}


def _refused(status: int, code: int, says: str, headers: Mapping[str, str] | None = None) -> Response:
    answer = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": says}}
    return JSONResponse(answer, status_code=status, headers=headers)
