"""Runs one program on a remote target beside its shell, for uploads and the checkpoints of remote workspaces.

The reader that collects a wire's output up to a token is here too; the control shell uses it as well.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from shiftlog.shell.engine import protocol
from shiftlog.shell.ports import Stream
from shiftlog.shell.remote.ports import RemoteHost, WireEnd


class TokenReader:
    """Collects both streams of a wire, and returns stdout up to a token."""

    def __init__(self, limit: int | None = None) -> None:
        self.streams: dict[Stream, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        self.end: asyncio.Future[WireEnd] = asyncio.get_running_loop().create_future()
        self._limit = limit  # of the bytes kept of a stream
        self._news = asyncio.Event()

    def received(self, stream: Stream, data: bytes) -> None:
        kept = self.streams[stream]
        kept += data
        if self._limit is not None:
            del kept[: -self._limit]
        self._news.set()

    def finished(self, end: WireEnd) -> None:
        self.end.set_result(end)
        self._news.set()

    async def until(self, token: bytes) -> bytes:
        """Return and drop the bytes before the token; raises `ConnectionError` if the wire ends first."""
        stdout = self.streams["stdout"]
        while token not in stdout:
            if self.end.done():
                raise ConnectionError("the target ended the wire")
            self._news.clear()
            await self._news.wait()
        before, _, rest = stdout.partition(token)
        stdout[:] = rest
        return bytes(before)


async def carry(host: RemoteHost, argv: Sequence[str], stdin: bytes) -> tuple[int, bytes, bytes]:
    """Run an argument list on the target; return exit code, stdout and stderr.

    Raises `ConnectionError` if the program's end is unknown.
    """
    token = protocol.draw_token()
    heard = TokenReader()
    wire = await host.open_wire(heard)
    words = " ".join(map(protocol.quote, argv))
    # Only after the token has the program taken over the input that the shell read its line from.
    wire.write(f"{{ printf %s {token}; exec {words}; }}\n".encode("utf-8", "surrogateescape"))
    with contextlib.suppress(ConnectionError):
        await heard.until(token.encode())
    if not heard.end.done():
        await wire.send(stdin)
        wire.write_eof()
    end = await heard.end
    if end.lost or end.exit_code is None:
        raise ConnectionError("the target ended the wire")
    return end.exit_code, bytes(heard.streams["stdout"]), bytes(heard.streams["stderr"])


async def upload(host: RemoteHost, path: str, data: bytes) -> None:
    """Write a file on the target; raises `ConnectionError` if that fails."""
    if (await carry(host, ["sh", "-c", 'cat >"$0"', path], data))[0] != 0:
        raise ConnectionError("the command could not be sent to the target")
