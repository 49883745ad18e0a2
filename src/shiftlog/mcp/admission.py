"""Limits how many requests run at once, for each connection and for all together; the others wait.

Without this limit a client that sends and never reads would fill the memory with answers. Cancellations do not wait:
they remove the waiting request that they name.
"""

import anyio
import mcp_types as types

from shiftlog.model.limits import MCP_HELD_BYTES, MCP_REQUESTS, MCP_REQUESTS_IN_ALL

OBJECT_BYTES = 1024  # the memory of a waiting request besides its text


class RunningRequests:
    """Counts the running requests of all connections; connections wait here for one to end."""

    def __init__(self) -> None:
        self.running = 0
        self.waiting: set[anyio.Event] = set()

    def leave(self, count: int) -> None:
        """Count requests that ended, and wake the connections that wait."""
        self.running -= count
        for event in self.waiting:
            event.set()


ALL_CONNECTIONS = RunningRequests()


class Admission:
    """The running and the waiting requests of one connection; used only on the event loop."""

    def __init__(self, on_all: RunningRequests = ALL_CONNECTIONS) -> None:
        self._all = on_all
        self._running: set[types.RequestId] = set()
        self._held: dict[types.RequestId, tuple[types.JSONRPCRequest, int]] = {}
        self._held_bytes = 0

    @property
    def holds(self) -> bool:
        """True if a request waits."""
        return bool(self._held)

    @property
    def is_full(self) -> bool:
        """True if so many bytes wait that no more should be read."""
        return self._held_bytes >= MCP_HELD_BYTES

    def is_in_use(self, request_id: types.RequestId) -> bool:
        """Return True if a request with this id runs or waits."""
        return request_id in self._running or request_id in self._held

    def hold(self, request: types.JSONRPCRequest, size: int) -> None:
        """Let a request wait until `next` returns it."""
        size += OBJECT_BYTES
        self._held[request.id] = request, size
        self._held_bytes += size

    def next(self) -> types.JSONRPCRequest | None:
        """Return the request that may run now; None if none waits, or too many run."""
        running = len(self._running)
        if not self._held or running >= MCP_REQUESTS or (running and self._all.running >= MCP_REQUESTS_IN_ALL):
            return None
        request, _ = self._take(next(iter(self._held)))
        self._running.add(request.id)
        self._all.running += 1
        return request

    def end(self, request_id: types.RequestId | None) -> None:
        """Record the end of a request, answered or not."""
        if request_id in self._running:
            self._running.discard(request_id)
            self._all.leave(1)

    def withdraw(self, notification: types.JSONRPCNotification) -> bool:
        """Remove the waiting request that a cancellation names; return True if there was one."""
        request_id = (notification.params or {}).get("requestId")
        if notification.method != "notifications/cancelled" or not isinstance(request_id, str | int):
            return False
        if request_id not in self._held:
            return False
        self._take(request_id)
        return True

    def drop_held(self) -> int:
        """Drop the requests that wait; return how many there were."""
        waited = len(self._held)
        self._held.clear()
        self._held_bytes = 0
        return waited

    def clear(self) -> None:
        """Forget all requests at the end of the connection."""
        self.drop_held()
        self._all.leave(len(self._running))
        self._running.clear()

    async def room(self) -> None:
        """Wait until a request ended, on this connection or another."""
        event = anyio.Event()
        self._all.waiting.add(event)
        try:
            await event.wait()
        finally:
            self._all.waiting.discard(event)

    def _take(self, request_id: types.RequestId) -> tuple[types.JSONRPCRequest, int]:
        request, size = self._held.pop(request_id)
        self._held_bytes -= size
        return request, size
