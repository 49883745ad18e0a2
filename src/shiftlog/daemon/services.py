"""What the daemon serves, as its lifecycle sees it: a small protocol that the app fulfils.

The lifecycle (seat, connections, drain, idle stop) knows nothing about sessions; this is all it asks for.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import anyio

from shiftlog.daemon.control import Answer
from shiftlog.daemon.lines import LineStream
from shiftlog.model.caller import Caller

# Serves one client until it closes, or until the event is set and everything that was read is answered.
ServeMcp = Callable[[LineStream, Caller, anyio.Event], Awaitable[None]]


class Services(Protocol):
    """The work behind the connections."""

    @property
    def idle_stop_s(self) -> float | None:
        """How long the daemon stays without client and work; None for ever."""
        ...

    @property
    def log_level(self) -> str:
        """From which level on records are kept."""
        ...

    async def open_mcp(self, options: dict[str, object]) -> ServeMcp:
        """Return what serves a client with these options; raise ShiftlogError for options of no sense."""
        ...

    def control(self, method: str, params: dict[str, object], caller: Caller) -> Answer:
        """Answer a control question with one result or a stream of items; raise ShiftlogError."""
        ...

    async def client_gone(self, caller: Caller) -> None:
        """Take notice that the last connection of an MCP client has closed."""
        ...

    async def renew_leases(self, client_ids: Iterable[str]) -> None:
        """Keep the leases of connected clients alive."""
        ...

    async def sweep(self, client_ids: Iterable[str]) -> None:
        """Do what is due now and then while these clients are connected: end what has expired, suspend what idles."""
        ...

    def busy(self) -> bool:
        """Say whether something runs that must not end with the last client, such as a shell."""
        ...

    async def status(self) -> dict[str, object]:
        """Return what the status adds to the daemon's own figures."""
        ...

    async def run_beside(self, draining: anyio.Event) -> None:
        """Run whatever else listens; after `draining` finish what is there and return."""
        ...


# Opens the services of a state directory; the function it is given returns the ids of the connected MCP clients.
OpenServices = Callable[[str, Callable[[], Collection[str]]], AbstractAsyncContextManager[Services]]
