"""The pipe channel: a wire of its own that carries one command's streams, and the scanner that finds their ends.

It is reused once no process holds its pipes; a leftover child keeps it, and its later output is dropped. The program
at its other end is in `programs.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from shiftlog.shell.engine import protocol
from shiftlog.shell.ports import STREAMS, OutputSink, Stream
from shiftlog.shell.remote import programs
from shiftlog.shell.remote.ports import RemoteHost, Wire, WireEnd


class MarkScanner:
    """Cuts a stream at the first of several marks of equal length, which may arrive in pieces."""

    def __init__(self, *marks: bytes) -> None:
        self._marks = marks
        self._size = len(marks[0])
        self._held = b""

    def feed(self, data: bytes) -> tuple[bytes, bool, bytes]:
        """Take bytes; return those before a mark, whether one was found, and the rest from the mark on."""
        data = self._held + data
        self._held = b""
        at = min((found for mark in self._marks if (found := data.find(mark)) >= 0), default=-1)
        if at >= 0:
            return data[:at], True, data[at:]
        keep = max(self._overlap(data, mark) for mark in self._marks)
        if keep:
            self._held = data[-keep:]
            data = data[:-keep]
        return data, False, b""

    def rest(self) -> bytes:
        """Return the bytes held back as a possible start of a mark."""
        held, self._held = self._held, b""
        return held

    def _overlap(self, data: bytes, mark: bytes) -> int:
        """Return how many bytes at the end may be the start of a mark."""
        tail = data[-(self._size - 1) :]
        at = tail.find(mark[:1])
        while at >= 0:
            if mark.startswith(tail[at:]):
                return len(tail) - at
            at = tail.find(mark[:1], at + 1)
        return 0


class PipeChannel:
    """One pipe channel; bytes that arrive while no command uses it are dropped."""

    def __init__(self, directory: str, *, reusable: bool, feeds: bool = False) -> None:
        self._directory = directory
        self._name = protocol.draw_token()[:12]
        self._token = protocol.draw_token()
        self._mark = protocol.draw_token()
        self._scanners = {stream: MarkScanner(self._mark.encode()) for stream in STREAMS}
        self._opening = b""
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.gone = asyncio.Event()  # the wire is over
        self._wire: Wire | None = None
        self._sink: OutputSink | None = None
        self._open: set[Stream] = set()
        self._probed: set[Stream] = set()
        self.on_end: Callable[[], None] | None = None
        self.pid: int | None = None
        self.reusable = reusable
        self.feeds = feeds
        self.retired = False

    @property
    def places(self) -> tuple[str, str, str]:
        """The command's three streams as redirection targets."""
        stdin = self._place("i") if self.feeds else "/dev/null"
        return stdin, self._place("o"), self._place("e")

    @property
    def over(self) -> bool:
        """True once the wire has ended."""
        return self.gone.is_set()

    @property
    def open_streams(self) -> frozenset[Stream]:
        """The open streams of the current command."""
        return frozenset(self._open)

    async def start(self, host: RemoteHost) -> None:
        """Open the wire and wait until the pipes exist."""
        self._wire = await host.open_wire(self)
        program = programs.pipes(
            self._token,
            self._mark,
            directory=self._directory,
            name=self._name,
            reusable=self.reusable,
            feeds=self.feeds,
        )
        self._wire.write(program.encode("utf-8", "surrogateescape"))
        await self._ready

    def begin(self, sink: OutputSink) -> None:
        """Send all bytes to this sink until each stream ends."""
        self._sink = sink
        self._open = set(STREAMS)

    async def send(self, data: bytes) -> None:
        """Write to the command's input."""
        if self._wire is not None and not self.over:
            await self._wire.send(data)

    def finish_input(self) -> None:
        """Close the command's input."""
        if self._wire is not None and not self.over:
            self._wire.write_eof()

    def probe(self) -> tuple[str, tuple[str, ...]]:
        """Return a mark and where to write it, so that it follows the command's own output.

        From then on the first mark ends what a stream passes on, and the next one closes the stream.
        """
        self.retired = True
        self._probed = set(self._open)
        return self._mark, tuple(self.places[1 + STREAMS.index(stream)] for stream in STREAMS if stream in self._open)

    @property
    def arrived(self) -> bool:
        """True once all of the command's own output has been passed on."""
        return not self._probed if self.retired else not self._open

    @property
    def clean(self) -> bool:
        """True if the next command may use it: no process of an earlier one holds it."""
        return not self._open and not self.retired and not self.over

    def leave(self) -> None:
        """End the channel's program if no process holds its pipes."""
        if not self._open:
            self.hang_up()

    def hang_up(self) -> None:
        """End the channel's program."""
        if self._wire is not None and not self.over:
            if self.reusable:
                self._wire.write(b"bye\n")
            self._wire.write_eof()

    def close(self) -> None:
        """Close the wire and the command's streams."""
        if self._wire is not None:
            self._wire.close()
        self._end_all()

    def received(self, stream: Stream, data: bytes) -> None:
        """Pass a command's bytes on and find the end of each stream."""
        if not self._ready.done():
            data = self._hear_ready(stream, data)
        while data:
            data, found, rest = self._scanners[stream].feed(data)
            if data and self._passes(stream) and self._sink is not None:
                self._sink.write(stream, data)
            if found:
                self._end(stream)
            data = rest[len(self._mark) :]

    def finished(self, end: WireEnd) -> None:
        """The wire is over, and with it the streams."""
        if not self._ready.done():
            self._ready.set_exception(ConnectionError("a channel to the shell could not be opened"))
            self._ready.exception()
        self.gone.set()
        self._end_all()

    def _hear_ready(self, stream: Stream, data: bytes) -> bytes:
        """Drop the output of rc files before the program's first line."""
        if stream != "stdout":
            return b""
        self._opening = (self._opening + data)[-65536:]
        _, _, reported = self._opening.partition(f"{self._token} line ".encode())
        pid, end, _ = reported.partition(f"/{self._token}\n".encode())
        if end:
            self.pid = int(pid)
            self._ready.set_result(None)
        return b""

    def _passes(self, stream: Stream) -> bool:
        return stream in (self._probed if self.retired else self._open)

    def _end(self, stream: Stream) -> None:
        if stream in self._probed:
            self._probed.discard(stream)
        elif stream in self._open:
            self._open.discard(stream)
            if self._sink is not None:
                self._sink.close(stream)
        if self.on_end is not None:
            self.on_end()

    def _end_all(self) -> None:
        for stream in STREAMS:
            rest = self._scanners[stream].rest()
            if rest and self._passes(stream) and self._sink is not None:
                self._sink.write(stream, rest)
            self._probed.discard(stream)
            self._end(stream)

    def _place(self, letter: str) -> str:
        return protocol.quote(f"{self._directory}/{letter}-{self._name}")
