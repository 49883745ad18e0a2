"""The direct channel: a command's output on the shell's own wire, between the tokens that frame the command.

It costs the target nothing, so foreground commands without input use it. Other commands use pipes, and so do all
commands while a leftover process may still write to the wire.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from shiftlog.shell.ports import OutputSink, Stream
from shiftlog.shell.remote.pipe_channel import STREAMS, MarkScanner


class DirectChannel:
    """One command's part of the wire, up to its own token or the shell's `last` one."""

    feeds = False

    def __init__(self, token: str, last: str, sink: OutputSink) -> None:
        self._sink = sink
        self._begin = re.compile(rb"(%b) pid (?P<pid>\d+)/\1\n" % re.escape(token.encode()))
        self._before: dict[Stream, bytes] = {"stdout": b"", "stderr": b""}
        self._scanners: dict[Stream, MarkScanner] = {}
        self._marks = (token.encode(), last.encode())
        self._passing: set[Stream] = set()
        self._ended: set[Stream] = set()
        self._held: bool | None = None
        self._closed = False
        self.on_begin: Callable[[int], None] | None = None
        self.on_end: Callable[[], None] | None = None

    @property
    def arrived(self) -> bool:
        """True once all of the command's own output has arrived."""
        return len(self._ended) == len(STREAMS) and self._held is not None

    @property
    def open_streams(self) -> frozenset[Stream]:
        """Both streams while a child of the command holds either; the report does not say which."""
        return frozenset(STREAMS) if self._held else frozenset()

    def received(self, stream: Stream, data: bytes) -> bytes:
        """Take bytes from the wire; return those that are not the command's: the engine's lines around it."""
        if stream in self._ended:
            return data
        if stream not in self._passing:
            data = self._before[stream] = self._before[stream] + data
            begun = self._begin.search(data)
            if begun is None:
                self._before[stream] = data[-4096:]
                return self._unbegun(stream, data)
            self._passing.add(stream)
            self._scanners[stream] = MarkScanner(*self._marks)
            if self.on_begin is not None:
                self.on_begin(int(begun["pid"]))
            data = data[begun.end() :]
        data, found, rest = self._scanners[stream].feed(data)
        if data:
            self._sink.write(stream, data)
        if not found:
            return b""
        self._end(stream)
        return rest

    @property
    def is_held_known(self) -> bool:
        """True once a report said whether a process holds the outputs."""
        return self._held is not None

    def note_held(self, held: bool) -> None:
        """Note whether a process of the command still holds its outputs."""
        self._held = held
        self._maybe_close()
        if self.on_end is not None:
            self.on_end()

    def released(self) -> None:
        """No process holds the outputs any more."""
        self._close_streams()

    def give_up(self) -> None:
        """The wire is over: pass on the rest and close the streams."""
        for stream in STREAMS:
            scanner = self._scanners.get(stream)
            rest = scanner.rest() if scanner is not None and stream not in self._ended else b""
            if rest:
                self._sink.write(stream, rest)
            self._ended.add(stream)
        self._held = bool(self._held)
        self._close_streams()

    async def send(self, data: bytes) -> None:
        """Ignore input; commands with input use a pipe channel."""

    def finish_input(self) -> None:
        """Do nothing; there is no input."""

    def _unbegun(self, stream: Stream, data: bytes) -> bytes:
        """Return a report without a beginning to the engine: it means that the unit never ran."""
        if self._marks[1] in data:
            self._end(stream)
        return data if stream == "stdout" and (b" end " in data or b" bad " in data) else b""

    def _end(self, stream: Stream) -> None:
        self._ended.add(stream)
        self._maybe_close()
        if self.on_end is not None:
            self.on_end()

    def _maybe_close(self) -> None:
        if self.arrived and not self._held:
            self._close_streams()

    def _close_streams(self) -> None:
        if not self._closed:
            self._closed = True
            for stream in STREAMS:
                self._sink.close(stream)
