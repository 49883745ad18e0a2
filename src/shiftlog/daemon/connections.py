"""The daemon's connections: each says hello, is served in its role, and fails alone.

`lifecycle` decides when the daemon ends; a client can only request it.
"""

import logging
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio
from anyio.abc import SocketStream

from shiftlog import __version__
from shiftlog.daemon.control import Answer, Control
from shiftlog.daemon.hello import (
    Hello,
    HelloRefused,
    Peer,
    caller_of,
    check_peer,
    error_line,
    farewell_line,
    hello_line,
    read_hello,
    read_peer,
)
from shiftlog.daemon.lines import GONE, LineStream, LineTooLong
from shiftlog.daemon.services import ServeMcp, Services
from shiftlog.daemon.tasks import until
from shiftlog.link import processes, wire
from shiftlog.link.build import build_id, is_later
from shiftlog.model.caller import Caller
from shiftlog.model.errors import ShiftlogError, Unauthorized, trouble
from shiftlog.model.limits import HELLO_S

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConnectedClient:
    """A connection that has said hello."""

    sock: socket.socket
    hello: Hello
    caller: Caller
    since: float = field(default_factory=time.monotonic)

    def as_dict(self) -> dict[str, object]:
        """Return what the status shows of it."""
        return {
            "role": self.hello.role,
            "face": self.caller.face,
            "pid": self.caller.pid,
            "version": self.hello.version,
            "cwd": self.caller.cwd,
            "age_s": round(time.monotonic() - self.since, 1),
        }


class Connections:
    """All connections of one daemon; `end` is called with a reason when a client stops the daemon."""

    def __init__(self, home: str, services: Services, end: Callable[[str], None]) -> None:
        self._home = home
        self._services = services
        self._end = end
        self._started = time.monotonic()
        self._clients: set[ConnectedClient] = set()
        self.open_count = 0
        self._emptied = anyio.Event()
        self.draining = anyio.Event()  # after it, no new request is read
        self._farewell = "stop"
        self.last_use = self._started

    def mcp_client_ids(self) -> set[str]:
        """Return the ids of the MCP clients that are connected; may be called from any thread."""
        ids = {client.caller.client_id for client in tuple(self._clients) if client.hello.role == "mcp"}
        return {client_id for client_id in ids if client_id is not None}

    async def drain(self, reason: str) -> None:
        """Stop reading, and return when every request is answered and every connection closed."""
        self._farewell = reason
        self.draining.set()
        while self.open_count:
            self._emptied = anyio.Event()
            await self._emptied.wait()

    def cut(self) -> None:
        """Close the connections that are still open, before their tasks are cancelled.

        The outcome of an interrupted request is in the journal, and its bridge asks for it; an error from here could
        not know if the request was applied.
        """
        for client in self._clients:
            try:
                client.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    async def serve(self, sock: socket.socket) -> None:
        """Serve one connection until either side ends it; never raise."""
        self.open_count += 1
        try:
            sock.setblocking(False)
            peer = read_peer(sock)
            # Not UNIXSocketStream: its reads log an error if they are cancelled at the wrong moment.
            async with await SocketStream.from_socket(sock) as stream:
                await self._receive(LineStream(stream), sock, peer)
        except GONE:
            pass
        except Exception:
            log.exception("A connection failed")
        finally:
            self.open_count -= 1
            self.last_use = time.monotonic()
            if not self.open_count:
                self._emptied.set()

    async def _receive(self, lines: LineStream, sock: socket.socket, peer: Peer) -> None:
        try:
            # Read before refusing: a client that is still sending would not see the reason.
            line = await self._first_line(lines)
            if line is None:
                return
            check_peer(peer)
            hello = read_hello(line)
            serve_mcp = await self._services.open_mcp(hello.options) if hello.role == "mcp" else None
        except HelloRefused as refusal:
            await lines.send(refusal.line)
            return
        except Exception as error:
            told = error if isinstance(error, ShiftlogError) else trouble(error)
            if told is None:
                raise
            await lines.send(error_line(told.code, told.message, told.hint))
            return
        client = ConnectedClient(sock=sock, hello=hello, caller=caller_of(hello, peer))
        self._clients.add(client)
        try:
            await lines.send(hello_line())
            if not await self._yields_to(hello, lines):
                await self._serve_role(client, lines, serve_mcp)
        finally:
            self._clients.discard(client)
            await self._note_departure(client)

    async def _first_line(self, lines: LineStream) -> bytes | None:
        line = None
        async with until(self.draining):
            with anyio.move_on_after(HELLO_S):
                try:
                    line = await lines.read(wire.HELLO_BYTES)
                except LineTooLong:
                    return None
        return line

    async def _yields_to(self, hello: Hello, lines: LineStream) -> bool:
        """Return True, and begin to end, if a newer client wants its own daemon instead of this one."""
        if hello.version == __version__:
            is_newer = is_later(hello.build, build_id())
        else:
            is_newer = wire.newer(hello.version, __version__)
        if not is_newer:
            return False
        async with until(self.draining):
            line = await lines.read(wire.HELLO_BYTES)
            if line == wire.RETIRE:
                self._end("retire")
                return True
            if line is not None:
                lines.rest[:0] = line
        return False

    async def _serve_role(self, client: ConnectedClient, lines: LineStream, serve_mcp: ServeMcp | None) -> None:
        if serve_mcp is None:
            control = Control(lines, lambda method, params: self._answer(method, params, client.caller))
            await control.serve(self.draining)
            return
        await serve_mcp(lines, client.caller, self.draining)
        if self.draining.is_set():
            await lines.send(farewell_line(self._farewell))

    async def _note_departure(self, client: ConnectedClient) -> None:
        """Report a client that left. The clients of a draining daemon come back to the next one."""
        client_id = client.caller.client_id
        if client.hello.role != "mcp" or self.draining.is_set() or client_id in self.mcp_client_ids():
            return
        with anyio.CancelScope(shield=True):
            try:
                await self._services.client_gone(client.caller)
            except ShiftlogError as error:
                log.warning("A client left, which could not be recorded: %s", error.message)

    def _answer(self, method: str, params: dict[str, object], caller: Caller) -> Answer:
        if method == "daemon.status":
            return self._status()
        if method == "daemon.stop":
            return self._stop(caller, shells=params.get("shells") is True)
        return self._services.control(method, params, caller)

    async def _status(self) -> dict[str, object]:
        own: dict[str, object] = {
            "pid": os.getpid(),
            "version": __version__,
            "build": build_id(),
            "uptime_s": round(time.monotonic() - self._started, 1),
            "home": self._home,
            "socket": wire.socket_path(self._home),
            "rss_bytes": processes.rss_bytes(),
            "connections": [client.as_dict() for client in sorted(self._clients, key=lambda client: client.since)],
        }
        return own | await self._services.status()

    async def _stop(self, caller: Caller, *, shells: bool) -> dict[str, object]:
        if not caller.operator:
            raise Unauthorized("Only the operator may stop the daemon")
        if shells:
            self._services.end_shells()
        self._end("stop")
        return {"stopping": True, "pid": os.getpid()}
