"""MCP over any pair of byte streams: newline-delimited JSON, one message a line.

Bytes become the SDK's messages and back. Bad input is answered with a JSON-RPC error and never ends the connection.
`lines` decides what is a message, `admission` how many requests run at once; the caller opens and closes the streams.
"""

import json
from collections import deque
from typing import Any

import anyio
import mcp_types as types
import msgspec
from anyio.abc import ByteReceiveStream, ByteSendStream, ObjectReceiveStream, ObjectSendStream
from mcp.server.lowlevel.server import Server
from mcp.shared.message import ServerMessageMetadata, SessionMessage

from shiftlog.mcp.admission import Admission
from shiftlog.mcp.calls import CALLER, enter_connection
from shiftlog.mcp.lines import InvalidMessage, LineSplitter, Overlong, find_id, parse_line
from shiftlog.model.caller import Caller
from shiftlog.model.limits import MCP_FINISH_S, MCP_STALL_S

MAX_LINE_BYTES = 64 * 1024 * 1024


async def serve_lines(
    server: Server[Any],
    receive: ByteReceiveStream,
    send: ByteSendStream,
    caller: Caller,
    *,
    drain: anyio.Event | None = None,
    finish_s: float = MCP_FINISH_S,
    max_line_bytes: int = MAX_LINE_BYTES,
) -> None:
    """Serve one connection until its input ends or `drain` is set, then finish what is in flight.

    Requests run concurrently. Once no more is read, those in flight have `finish_s` to be answered; the rest
    are cancelled and answered with an error. The streams stay open: they belong to the caller.
    """
    reading = _LineReader(receive, _LineWriter(send), max_line_bytes=max_line_bytes, finish_s=finish_s)
    token = CALLER.set(caller)
    enter_connection(lambda: reading.has_ended)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reading.stop_at, reading.writing.broken)
            if drain is not None:
                tasks.start_soon(reading.stop_at, drain)
            await server.run(reading, reading.writing, server.create_initialization_options())
            tasks.cancel_scope.cancel()
    finally:
        reading.writing.admission.clear()
        CALLER.reset(token)


class _LineWriter(ObjectSendStream[SessionMessage]):
    """The SDK's output: one message, one line."""

    def __init__(self, sink: ByteSendStream) -> None:
        self._sink = sink
        self.admission = Admission()
        # Held for a whole line, because byte streams refuse or mix what two tasks send at once.
        self._lock = anyio.Lock(fast_acquire=True)
        self.broken = anyio.Event()
        self.unanswered = 0
        self._all_answered = anyio.Event()

    async def send(self, item: SessionMessage) -> None:
        """Write a message of the SDK."""
        message = item.message
        try:
            if isinstance(message, types.JSONRPCResponse):
                await self._write({"jsonrpc": "2.0", "id": message.id, "result": message.result})
            else:
                await self._write(message.model_dump(by_alias=True, exclude_unset=True))
        finally:
            if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
                self.admission.end(message.id)
                await self.count_answered()

    async def refuse(self, refused: InvalidMessage) -> None:
        """Answer a line that is not a message."""
        error = {"code": refused.code, "message": refused.message}
        try:
            await self._write({"jsonrpc": "2.0", "id": refused.request_id, "error": error})
        except anyio.BrokenResourceError:
            pass  # the client is gone, and reading stops with it

    async def _write(self, body: dict[str, Any]) -> None:
        async with self._lock:
            if self.broken.is_set():
                raise anyio.BrokenResourceError
            # Cancelling a request must not cut its line in half; a client that stopped reading ends it all. So does a
            # lack of memory: what became of the request is in the journal, and the bridge asks for it.
            with anyio.move_on_after(MCP_STALL_S, shield=True):
                try:
                    await self._sink.send(_encoded(body))
                    return
                except (anyio.BrokenResourceError, anyio.ClosedResourceError, MemoryError):
                    pass
            self.broken.set()
            raise anyio.BrokenResourceError

    async def count_answered(self) -> None:
        """Count one request as done, answered or not."""
        self.unanswered -= 1
        if self.unanswered == 0:
            self._all_answered.set()

    async def finish(self, finish_s: float) -> None:
        """Wait until nothing is in flight, or for `finish_s`."""
        if self.unanswered > 0:
            self._all_answered = anyio.Event()
            with anyio.move_on_after(finish_s):
                await self._all_answered.wait()

    async def aclose(self) -> None:
        """Leave the stream to its owner."""


async def _cancel_at(event: anyio.Event, scope: anyio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


def _encoded(body: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(body) + b"\n"
    except UnicodeEncodeError:
        return json.dumps(body, separators=(",", ":")).encode() + b"\n"


class _LineReader(ObjectReceiveStream[SessionMessage | Exception]):
    """The SDK's input: lines become messages; a line that is not a message is answered here."""

    def __init__(
        self, source: ByteReceiveStream, writing: _LineWriter, *, max_line_bytes: int, finish_s: float
    ) -> None:
        self.writing = writing
        self._source = source
        self._cutter = LineSplitter(max_line_bytes)
        self._max_line_bytes = max_line_bytes
        self._finish_s = finish_s
        self._lines: deque[bytes | Overlong] = deque()
        self._waiting: anyio.CancelScope | None = None
        # Set when nothing more is read; requests then end without having been cancelled.
        self.has_ended = False
        self._admission = writing.admission

    async def stop_at(self, event: anyio.Event) -> None:
        """Read no more once the event is set."""
        await event.wait()
        self.has_ended = True
        if self._waiting is not None:
            self._waiting.cancel()

    async def receive(self) -> SessionMessage:
        """Return the next message; raise EndOfStream when the input has ended and all is answered.

        A client that is gone reads no answers: its requests that have not begun are dropped.
        """
        while True:
            if self.writing.broken.is_set():
                self._lines.clear()
                self.writing.unanswered -= self._admission.drop_held()
            if (request := self._admission.next()) is not None:
                return SessionMessage(request, self._metadata(request.id))
            if self._lines and not self._admission.is_full:
                message = await self._admit(self._lines.popleft())
                if message is not None:
                    return message
                continue
            if self._admission.holds:
                await self._wait_for_room()
                continue
            if self.has_ended:
                await self.writing.finish(self._finish_s)
                raise anyio.EndOfStream
            await self._read_more()

    async def _wait_for_room(self) -> None:
        """Wait until a held request may run; read on meanwhile, since a cancellation may arrive."""
        async with anyio.create_task_group() as waiting:

            async def read() -> None:
                await self._read_more()
                waiting.cancel_scope.cancel()

            if not self.has_ended and not self._admission.is_full:
                waiting.start_soon(read)
            waiting.start_soon(_cancel_at, self.writing.broken, waiting.cancel_scope)
            await self._admission.room()
            waiting.cancel_scope.cancel()

    async def _read_more(self) -> None:
        try:
            with anyio.CancelScope() as self._waiting:
                self._lines.extend(self._cutter.feed(await self._source.receive()))
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._lines.extend(self._cutter.rest())
            self.has_ended = True

    async def _admit(self, line: bytes | Overlong) -> SessionMessage | None:
        if isinstance(line, Overlong):
            says = f"Invalid request: a line may have at most {self._max_line_bytes} bytes"
            await self.writing.refuse(InvalidMessage(types.INVALID_REQUEST, says, find_id(line.head, line.tail)))
            return None
        if not line or line.isspace():
            return None
        try:
            message = parse_line(line)
        except InvalidMessage as refused:
            await self.writing.refuse(refused)
            return None
        if isinstance(message, types.JSONRPCNotification) and self._admission.withdraw(message):
            await self.writing.count_answered()
            return None
        if not isinstance(message, types.JSONRPCRequest):
            return SessionMessage(message)
        if self._admission.is_in_use(message.id):
            says = f"Invalid request: a request with the id {message.id!r} is not answered yet"
            await self.writing.refuse(InvalidMessage(types.INVALID_REQUEST, says, message.id))
            return None
        self.writing.unanswered += 1
        self._admission.hold(message, len(line))
        return None

    def _metadata(self, request_id: types.RequestId) -> ServerMessageMetadata:
        async def unanswered() -> None:
            self._admission.end(request_id)
            await self.writing.count_answered()

        return ServerMessageMetadata(on_request_unanswered=unanswered)

    async def aclose(self) -> None:
        """Leave the stream to its owner."""
