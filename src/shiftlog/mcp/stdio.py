"""Standard input and output as byte streams, for a server that runs in the client's own process tree.

While they are claimed, descriptor 0 reads nothing and descriptor 1 writes to standard error, so that a child
process or a stray print cannot disturb the wire.
"""

import os
import select
import stat
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import anyio
import anyio.lowlevel
from anyio.abc import ByteReceiveStream, ByteSendStream
from mcp.server.lowlevel.server import Server

from shiftlog.mcp.transport import serve_lines
from shiftlog.model.caller import Caller

# A pipe that is ready takes this much without blocking (POSIX); a blocked loop would stop every connection.
_READY_BYTES = select.PIPE_BUF


async def serve_stdio(server: Server[Any], caller: Caller, *, drain: anyio.Event | None = None) -> None:
    """Serve the client at the other end of standard input and output until it closes its end."""
    with claimed_stdio() as (receive, send):
        await serve_lines(server, receive, send, caller, drain=drain)


@contextmanager
def claimed_stdio() -> Generator[tuple["FdReceiveStream", "FdSendStream"]]:
    """Take descriptors 0 and 1 for the wire, and give them back at the end."""
    wire_in, wire_out = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nowhere, 0)
        os.dup2(2, 1)
        yield FdReceiveStream(wire_in), FdSendStream(wire_out)
    finally:
        os.dup2(wire_in, 0)
        os.dup2(wire_out, 1)
        for fd in (wire_in, wire_out, nowhere):
            os.close(fd)


def _can_wait(fd: int) -> bool:
    """Return True if the event loop can watch a descriptor; files and /dev/null are always ready."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)


class FdReceiveStream(ByteReceiveStream):
    """Reads a descriptor when it has something to read; does not own it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._waits = _can_wait(fd)

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Return the available bytes; raise EndOfStream at the end."""
        if self._waits:
            await anyio.wait_readable(self._fd)
        else:
            await anyio.lowlevel.checkpoint()
        try:
            data = os.read(self._fd, max_bytes)
        except OSError as error:
            raise anyio.BrokenResourceError from error
        if not data:
            raise anyio.EndOfStream
        return data

    async def aclose(self) -> None:
        """Leave the descriptor to its owner."""


class FdSendStream(ByteSendStream):
    """Writes a descriptor as far as it takes bytes; does not own it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._waits = _can_wait(fd)

    async def send(self, item: bytes) -> None:
        """Write everything, or raise BrokenResourceError."""
        rest = memoryview(item)
        try:
            while rest:
                if self._waits:
                    await anyio.wait_writable(self._fd)
                rest = rest[os.write(self._fd, rest[:_READY_BYTES]) :]
        except OSError as error:
            raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        """Leave the descriptor to its owner."""
