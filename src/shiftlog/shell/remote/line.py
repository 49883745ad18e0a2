"""A line: the wire that carries one command's streams, and the small scanner that finds where they end.

A line is reused while nothing of a command holds its pipes; a child left behind keeps it, and what it writes later is
dropped. What the line's program is stands in `remote_programs.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from shiftlog.shell.engine import words as framing
from shiftlog.shell.ports import OutputSink, Stream
from shiftlog.shell.remote import programs as remote_programs
from shiftlog.shell.remote.ports import RemoteHost, Wire, WireEnd

STREAMS: tuple[Stream, Stream] = ("stdout", "stderr")


class MarkScanner:
    """Cuts a stream at the first of some marks of one length, which may arrive in pieces."""

    def __init__(self, *marks: bytes) -> None:
        self._marks = marks
        self._size = len(marks[0])
        self._held = b""

    def feed(self, data: bytes) -> tuple[bytes, bool, bytes]:
        """Take bytes; return those before a mark, whether one was found, and the rest, which begins with it."""
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
        """Give up what was held back because it might have become a mark."""
        held, self._held = self._held, b""
        return held

    def _overlap(self, data: bytes, mark: bytes) -> int:
        """Return how many bytes at the end may be the beginning of a mark."""
        tail = data[-(self._size - 1) :]
        at = tail.find(mark[:1])
        while at >= 0:
            if mark.startswith(tail[at:]):
                return len(tail) - at
            at = tail.find(mark[:1], at + 1)
        return 0


class Line:
    """One line; what comes while no command has it is dropped."""

    def __init__(self, directory: str, *, reusable: bool, feeds: bool = False) -> None:
        self._directory = directory
        self._name = framing.draw_token()[:12]
        self._token = framing.draw_token()
        self._mark = framing.draw_token()
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
        """Where a command finds its three streams, as redirection targets."""
        stdin = self._place("i") if self.feeds else "/dev/null"
        return stdin, self._place("o"), self._place("e")

    @property
    def over(self) -> bool:
        """Whether the wire itself is over."""
        return self.gone.is_set()

    @property
    def open_streams(self) -> frozenset[Stream]:
        """The streams of the current command whose end was not seen yet."""
        return frozenset(self._open)

    async def start(self, host: RemoteHost) -> None:
        """Open the wire and wait until the pipes are there."""
        self._wire = await host.open_wire(self)
        make = {"directory": self._directory, "name": self._name}
        if self.reusable:
            program = remote_programs.line(self._token, self._mark, **make)
        else:
            program = remote_programs.line_once(self._token, self._mark, **make, feeds=self.feeds)
        self._wire.write(program.encode("utf-8", "surrogateescape"))
        await self._ready

    def begin(self, sink: OutputSink) -> None:
        """Send what comes from now on to this sink, until each stream's end."""
        self._sink = sink
        self._open = set(STREAMS)

    async def send(self, data: bytes) -> None:
        """Feed the command."""
        if self._wire is not None and not self.over:
            await self._wire.send(data)

    def finish_input(self) -> None:
        """Let the command read end-of-file."""
        if self._wire is not None and not self.over:
            self._wire.write_eof()

    def probe(self) -> tuple[str, tuple[str, ...]]:
        """Return a mark and where to write it, so that it follows all that the command itself has written.

        From then on the first mark of a stream ends what is passed on, and only the next one closes the stream.
        """
        self.retired = True
        self._probed = set(self._open)
        return self._mark, tuple(self.places[1 + STREAMS.index(stream)] for stream in STREAMS if stream in self._open)

    @property
    def settled(self) -> bool:
        """Whether everything that the command itself wrote has been passed on."""
        return not self._probed if self.retired else not self._open

    @property
    def clean(self) -> bool:
        """Whether the next command may have it: nothing of an earlier one holds it."""
        return not self._open and not self.retired and not self.over

    def leave(self) -> None:
        """Let the line's program end as soon as nothing holds its pipes."""
        if not self._open:
            self.hang_up()

    def hang_up(self) -> None:
        """Let the line's program end."""
        if self._wire is not None and not self.over:
            if self.reusable:
                self._wire.write(b"bye\n")
            self._wire.write_eof()

    def close(self) -> None:
        """Let go of the wire and of the command's streams."""
        if self._wire is not None:
            self._wire.close()
        self._end_all()

    def received(self, stream: Stream, data: bytes) -> None:
        """Pass a command's bytes on and notice the end of each stream."""
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
            self._ready.set_exception(ConnectionError("a line to the shell could not be opened"))
            self._ready.exception()
        self.gone.set()
        self._end_all()

    def _hear_ready(self, stream: Stream, data: bytes) -> bytes:
        """Drop what rc files and the like print before the line's first word."""
        if stream != "stdout":
            return b""
        self._opening = (self._opening + data)[-65536:]
        for report in framing_lines(self._opening, self._token):
            self.pid = report
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
        return framing.quote(f"{self._directory}/{letter}{self._name}")


def framing_lines(data: bytes, token: str) -> list[int]:
    """Return the pids that a line told with its token."""
    pieces = data.split(f"{token} line ".encode())[1:]
    return [int(piece.partition(b"/")[0]) for piece in pieces if f"/{token}\n".encode() in piece]
