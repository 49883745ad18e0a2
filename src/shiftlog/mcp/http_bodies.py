"""Check of HTTP request bodies before the SDK sees them, with the same errors as for lines.

By itself the SDK repeats some bad bodies in its answer and fails on others without naming the cause.
"""

import json
import re
from typing import Any, cast

import mcp_types as types
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shiftlog.mcp.errors import repeated
from shiftlog.mcp.face import refuse_depth
from shiftlog.mcp.lines import InvalidMessage, parse_line
from shiftlog.model.errors import InvalidParameter
from shiftlog.text.printable import SURROGATES

VERSION_HEADER = "mcp-protocol-version"

_MAYBE_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class BodyGate:
    """Refuses bodies that are not messages; other methods, the newer revision and oversized bodies are the SDK's."""

    def __init__(self, app: ASGIApp, max_body_bytes: int) -> None:
        self._app = app
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("method") != "POST" or Headers(scope=scope).get(VERSION_HEADER) in MODERN_PROTOCOL_VERSIONS:
            await self._app(scope, receive, send)
            return
        read: list[Message] = []
        body = bytearray()
        while len(body) <= self._max_body_bytes:
            message = await receive()
            read.append(message)
            body += message.get("body", b"")
            if message["type"] != "http.request" or not message.get("more_body"):
                break
        is_whole = read[-1]["type"] == "http.request" and not read[-1].get("more_body")
        refused = _refused(bytes(body)) if is_whole else None
        if refused is not None:
            await _answer(refused)(scope, receive, send)
            return
        held = iter(read)

        async def again() -> Message:
            return next(held, None) or await receive()

        await self._app(scope, again, send)


def _refused(body: bytes) -> InvalidMessage | None:
    """Return why a body is not a valid message, None if it is."""
    try:
        message = parse_line(body)
    except InvalidMessage as refused:
        return refused
    if not isinstance(message, types.JSONRPCRequest):
        return None
    arguments: object = (message.params or {}).get("arguments")
    if not isinstance(arguments, dict):
        return None
    given = cast("dict[str, Any]", arguments)
    try:
        refuse_depth(given)
        if _MAYBE_SURROGATE.search(body):
            _refuse_surrogates(given)
    except InvalidParameter as error:
        return InvalidMessage(types.INVALID_PARAMS, error.message, message.id)
    return None


def _refuse_surrogates(arguments: dict[str, Any]) -> None:
    for name, value in arguments.items():
        if SURROGATES.search(json.dumps([name, value], ensure_ascii=False)):
            raise InvalidParameter.invalid(repeated(name), "valid Unicode is expected, without lone surrogates")


def _answer(refused: InvalidMessage) -> JSONResponse:
    error = {"code": refused.code, "message": refused.message}
    return JSONResponse({"jsonrpc": "2.0", "id": refused.request_id, "error": error}, status_code=400)
