"""Runs one program on a remote target beside its shell; checkpoints of remote workspaces need this."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from shiftlog.shell.engine import protocol
from shiftlog.shell.ports import Stream
from shiftlog.shell.remote.ports import RemoteHost, WireEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """How a program on the target ended, and what it wrote."""

    exit_code: int
    stdout: bytes
    stderr: bytes


class _Both:
    """Collects both streams; `ready` resolves once the program has taken over the standard input."""

    def __init__(self, token: bytes) -> None:
        self.streams: dict[Stream, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[None] = loop.create_future()
        self.end: asyncio.Future[WireEnd] = loop.create_future()
        self._token = token

    def received(self, stream: Stream, data: bytes) -> None:
        """Keep the bytes."""
        gathered = self.streams[stream]
        gathered += data
        if stream == "stdout" and not self.ready.done() and self._token in gathered:
            del gathered[: gathered.index(self._token) + len(self._token)]
            self.ready.set_result(None)

    def finished(self, end: WireEnd) -> None:
        """Wake all waiters."""
        if not self.ready.done():
            self.ready.set_result(None)
        if not self.end.done():
            self.end.set_result(end)


async def carry(host: RemoteHost, argv: Sequence[str], stdin: bytes) -> Carried:
    """Run an argument list on the target; raises `ConnectionError` if its end is unknown."""
    token = protocol.draw_token()
    heard = _Both(token.encode())
    wire = await host.open_wire(heard)
    words = " ".join(map(protocol.quote, argv))
    # Only after the token has the program taken over the input that the shell read its line from.
    wire.write(f"{{ printf %s {token}; exec {words}; }}\n".encode("utf-8", "surrogateescape"))
    await heard.ready
    if not heard.end.done():
        await wire.send(stdin)
        wire.write_eof()
    end = await heard.end
    if end.lost or end.exit_code is None:
        raise ConnectionError("the target ended the wire")
    return Carried(
        exit_code=end.exit_code, stdout=bytes(heard.streams["stdout"]), stderr=bytes(heard.streams["stderr"])
    )
