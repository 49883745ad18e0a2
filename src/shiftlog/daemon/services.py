"""The protocol between the daemon's lifecycle and the work behind it, which `app_services` implements.

The lifecycle (lock, connections, drain, idle stop) knows nothing about sessions.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import anyio

from shiftlog.daemon.control import Answer
from shiftlog.daemon.lines import LineStream
from shiftlog.daemon.upkeep import Upkeep
from shiftlog.model.caller import Caller

# Serves one client until it closes, or until the event is set and every request that was read is answered.
ServeMcp = Callable[[LineStream, Caller, anyio.Event], Awaitable[None]]


class Services(Protocol):
    """The work behind the connections."""

    @property
    def idle_stop_s(self) -> float | None:
        """Return how long the daemon stays without client and work; None for ever."""
        ...

    @property
    def upkeep(self) -> Upkeep:
        """The maintenance jobs, and which of them wait."""
        ...

    @property
    def must_restart(self) -> str | None:
        """Return why the daemon should make way for a new one; None mostly."""
        ...

    @property
    def log_level(self) -> str:
        """The lowest level of records that are kept."""
        ...

    async def open_mcp(self, options: dict[str, object]) -> ServeMcp:
        """Return the function that serves a client with these options; raise ShiftlogError for invalid ones."""
        ...

    def control(self, method: str, params: dict[str, object], caller: Caller) -> Answer:
        """Answer a control request with one result or a stream of items; raise ShiftlogError."""
        ...

    async def client_gone(self, caller: Caller) -> None:
        """Handle the end of the last connection of an MCP client."""
        ...

    async def renew_leases(self, client_ids: Iterable[str]) -> None:
        """Keep the leases of connected clients alive."""
        ...

    async def sweep(self, client_ids: Iterable[str]) -> None:
        """Do the periodic work while these clients are connected: end expired leases, suspend idle sessions."""
        ...

    def busy(self) -> bool:
        """Return True if something runs that must not end with the last client, such as a shell."""
        ...

    def end_shells(self) -> None:
        """Let the shells end with this daemon instead of outliving it."""
        ...

    async def status(self) -> dict[str, object]:
        """Return the fields that the status adds to the daemon's own."""
        ...

    async def run_background(self, draining: anyio.Event) -> None:
        """Run the background work; after `draining` finish it and return."""
        ...


# Opens the services of a state directory; the function it is given returns the ids of the connected MCP clients.
OpenServices = Callable[[str, Callable[[], Collection[str]]], AbstractAsyncContextManager[Services]]
