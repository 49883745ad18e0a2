"""HTTP connections: how many there may be, and how long and how large the head of a request may be.

A connection without a request costs an attacker nothing, so it must keep no client out: where too many are open, the
one that has been idle for longest is closed for a new one, first among those that never sent a request. Only where
every connection has a request under way is a further one refused, by the application, so that it is counted and logged.

uvicorn writes the head and the body of an answer apart; here they go to the kernel together, which wakes a client once.
"""

import asyncio
import time
from typing import Any, cast

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from shiftlog.model.limits import HTTP_BODY_S, HTTP_HEAD_BYTES, HTTP_HEAD_S

_LATE = "shiftlog.late"
# As much of an answer waits for the end of the loop's turn; more is written at once.
_JOINED_BYTES = 65_536


def is_late(scope: Scope) -> bool:
    """Return True if a request came over a connection beyond the limit."""
    return bool(scope.get(_LATE))


class _Joined:
    """A transport that writes once for all that is given to it in one turn of the event loop."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._waiting: list[bytes] = []
        self._size = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write by and by."""
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append(data)
        self._size += len(data)
        if self._size > _JOINED_BYTES:
            self._flush()

    def close(self) -> None:
        """Write what waits and close."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._waiting:
            joined, self._waiting, self._size = b"".join(self._waiting), [], 0
            self._transport.write(joined)


class LimitedProtocol(HttpToolsProtocol):
    """One connection. uvicorn's own limit would refuse every request of every client while too many are open."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._most, self.limit_concurrency = self.limit_concurrency, None
        self._is_late = False
        self._has_sent_request = False
        self._idle_since = time.monotonic()
        # Set while the head of a request is awaited.
        self._head_timer: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        # Set while the rest of a body is awaited whose request has its answer.
        self._rest_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, in place of an idle one where too many are open."""
        super().connection_made(transport)
        self.transport = cast("asyncio.Transport", _Joined(transport, self.loop))
        if self._most is not None and len(self.connections) > self._most:
            self._is_late = not self._close_an_idle_one(self._most)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        self._end_head()
        self._end_rest()
        super().connection_lost(exc)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header. The space around its value is no part of it (RFC 9110, 5.5), but the parser leaves some."""
        super().on_header(name, value.strip(b" \t"))

    def data_received(self, data: bytes) -> None:
        """Take bytes of a request; a head that grows too long ends the connection."""
        if self._head_timer is None and self._is_idle:
            self._await_head()
        super().data_received(data)
        if self._head_timer is not None:
            self._head_bytes += len(data)
            if self._head_bytes > HTTP_HEAD_BYTES:
                self.transport.close()

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self.scope[_LATE] = self._is_late  # type: ignore[typeddict-unknown-key]

    def on_headers_complete(self) -> None:
        """Start a request whose head is whole."""
        self._end_head()
        self._has_sent_request = True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """End a request."""
        self._end_rest()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Note when the connection became idle; a body that was answered before its end has to end soon."""
        self._idle_since = time.monotonic()
        if self.cycle.more_body and not self.transport.is_closing():
            self._rest_timer = self.loop.call_later(HTTP_BODY_S, self.transport.close)
        super().on_response_complete()

    @property
    def _is_idle(self) -> bool:
        return not self.cycle or self.cycle.response_complete

    def _close_an_idle_one(self, most: int) -> bool:
        """Close the connection that has been idle for longest; return False if there is none but this one."""
        every = cast("set[LimitedProtocol]", self.connections)
        live = [each for each in every if not each.transport.is_closing()]
        if len(live) <= most:
            return True
        idle = [each for each in live if each is not self and each._is_idle]
        if not idle:
            return False
        min(idle, key=lambda each: (each._has_sent_request, each._idle_since)).transport.close()
        return True

    def _await_head(self) -> None:
        self._head_bytes = 0
        self._head_timer = self.loop.call_later(HTTP_HEAD_S, self._give_up)

    def _end_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _end_rest(self) -> None:
        if self._rest_timer is not None:
            self._rest_timer.cancel()
            self._rest_timer = None

    def _give_up(self) -> None:
        self._head_timer = None
        self.transport.close()
