"""Lines of JSON-RPC: bytes in, messages out, with an exact refusal for everything else.

Nothing is read or written here; `transport` moves the bytes.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn, cast

import mcp_types as types
from pydantic import ValidationError

_HEAD_BYTES, _TAIL_BYTES = 1024, 512
_ID = rb'"id"\s*:\s*(-?\d{1,18}|"[^"\\]{1,200}")\s*'
_ID_AT_HEAD = re.compile(rb'\s*\{\s*(?:"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"\s*,\s*)*' + _ID + rb"[,}]")
_ID_AT_TAIL = re.compile(rb",\s*" + _ID + rb'(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


@dataclass(frozen=True, slots=True)
class Overlong:
    """The two ends of a line over the limit."""

    head: bytes
    tail: bytes


class LineSplitter:
    """Splits bytes into lines with bounded memory."""

    def __init__(self, max_line_bytes: int) -> None:
        self._limit = max_line_bytes
        self._held = bytearray()
        self._head: bytes | None = None

    def feed(self, chunk: bytes) -> Iterator[bytes | Overlong]:
        """Yield the lines that end in this chunk, without their newline."""
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            self._hold(chunk[start:end])
            yield self._take()
            start = end + 1
        self._hold(chunk[start:])

    def rest(self) -> Iterator[bytes | Overlong]:
        """Yield the text after the last newline once the input has ended."""
        if self._held:
            yield self._take()

    def _hold(self, part: bytes) -> None:
        self._held += part
        if self._head is None and len(self._held) > self._limit:
            self._head = bytes(self._held[:_HEAD_BYTES])
        if self._head is not None:
            del self._held[:-_TAIL_BYTES]

    def _take(self) -> bytes | Overlong:
        held, head = bytes(self._held), self._head
        self._held, self._head = bytearray(), None
        return held if head is None else Overlong(head, held)


class InvalidMessage(Exception):
    """A line that is not a message; answered with this JSON-RPC error."""

    def __init__(self, code: int, message: str, request_id: str | int | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.request_id = code, message, request_id


def parse_line(line: bytes) -> types.JSONRPCMessage:
    """Read one line; raise InvalidMessage for what is not a JSON-RPC message.

    The standard library parses it, because its strings may hold lone surrogates: these reach the checks of
    the fields, whose error names the argument.
    """
    try:
        data: object = json.loads(line.decode("utf-8"), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise InvalidMessage(types.PARSE_ERROR, f"Parse error: not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise InvalidMessage(types.INVALID_REQUEST, "Invalid request: nested too deeply", find_id(line, line)) from None
    except json.JSONDecodeError as error:
        raise InvalidMessage(types.PARSE_ERROR, f"Parse error: {error}") from None
    except ValueError as error:  # NaN or Infinity, which JSON does not have; the rest of the message is whole
        raise InvalidMessage(types.PARSE_ERROR, f"Parse error: {error}", find_id(line, line)) from None
    if isinstance(data, list):
        raise InvalidMessage(
            types.INVALID_REQUEST, "Invalid request: batches are not served; send one message at a time"
        )
    if not isinstance(data, dict):
        raise InvalidMessage(types.INVALID_REQUEST, "Invalid request: a JSON object is expected")
    return _message(cast("dict[str, Any]", data))


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _message(data: dict[str, Any]) -> types.JSONRPCMessage:
    request_id: object = data.get("id")
    if "id" in data and (isinstance(request_id, bool) or not isinstance(request_id, str | int)):
        raise InvalidMessage(types.INVALID_REQUEST, "Invalid request: 'id' must be a string or an integer")
    known_id = cast("str | int | None", request_id)
    if data.get("jsonrpc") != "2.0":
        raise InvalidMessage(types.INVALID_REQUEST, "Invalid request: 'jsonrpc' must be \"2.0\"", known_id)
    if "method" not in data:
        return _response(data)
    method: object = data["method"]
    if not isinstance(method, str):
        raise InvalidMessage(types.INVALID_REQUEST, "Invalid request: 'method' must be a string", known_id)
    params: object = data.get("params")
    if params is not None and not isinstance(params, dict):
        raise InvalidMessage(types.INVALID_PARAMS, "Invalid params: 'params' must be an object", known_id)
    given = cast("dict[str, Any] | None", params)
    if known_id is None:
        return types.JSONRPCNotification(jsonrpc="2.0", method=method, params=given)
    return types.JSONRPCRequest(jsonrpc="2.0", id=known_id, method=method, params=given)


def _response(data: dict[str, Any]) -> types.JSONRPCMessage:
    try:
        kind = types.JSONRPCError if "error" in data else types.JSONRPCResponse
        return kind.model_validate(data)
    except ValidationError:
        raise InvalidMessage(
            types.INVALID_REQUEST, "Invalid request: neither a request nor a well-formed response"
        ) from None


def find_id(head: bytes, tail: bytes) -> str | int | None:
    """Return the id of a message that cannot be parsed, if it is where clients write it.

    Without it the client would wait for ever for an answer with its id.
    """
    found = _ID_AT_HEAD.match(head) or _ID_AT_TAIL.search(tail[-_TAIL_BYTES:])
    if found is None:
        return None
    try:
        return json.loads(found[1])
    except ValueError:
        return None
