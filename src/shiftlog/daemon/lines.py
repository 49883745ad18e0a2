"""Lines on a connection: reading them with a limit, and sending whole ones from several tasks."""

import anyio
from anyio.abc import ByteStream

CHUNK_BYTES = 65536

GONE = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)


class LineTooLong(ValueError):
    """A line went over the limit; the connection cannot be read any further."""


class LineStream(ByteStream):
    """A byte stream that can be read line by line; bytes beyond the last line wait in `rest`."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self.rest = bytearray()
        # Two tasks that send at once would mix their lines.
        self._sending = anyio.Lock(fast_acquire=True)

    async def read(self, limit_bytes: int) -> bytes | None:
        """Return the next line with its newline; None if the other side has closed."""
        looked = 0
        while (end := self.rest.find(b"\n", looked)) < 0:
            looked = len(self.rest)
            if looked > limit_bytes:
                raise LineTooLong
            try:
                self.rest += await self._stream.receive(CHUNK_BYTES)
            except GONE:
                return None
        line = bytes(self.rest[: end + 1])
        del self.rest[: end + 1]
        return line

    async def receive(self, max_bytes: int = CHUNK_BYTES) -> bytes:
        """Return bytes that have been read already, else the next ones."""
        if self.rest:
            waiting = bytes(self.rest[:max_bytes])
            del self.rest[:max_bytes]
            return waiting
        return await self._stream.receive(max_bytes)

    async def send(self, item: bytes) -> None:
        """Send one whole line; raise one of `GONE` if the other side has closed."""
        async with self._sending:
            try:
                await self._stream.send(item)
            except MemoryError as error:
                await self._stream.aclose()  # part of the line may be sent, so no other line can follow
                raise anyio.BrokenResourceError from error

    async def send_eof(self) -> None:
        """Close the sending direction."""
        await self._stream.send_eof()

    async def aclose(self) -> None:
        """Close the stream below."""
        await self._stream.aclose()
