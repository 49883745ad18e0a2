"""Chooses the channel for each command's output in a remote shell: the shell's own wire while it is free, else pipes.

Tracks which pipe channels are idle, which command uses the wire, and whether a leftover process may still write to
it. How pipes carry their bytes is in `pipe_channel.py`.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from anyio import move_on_after

from shiftlog.shell.ports import STREAMS, OutputSink, Stream
from shiftlog.shell.remote import programs
from shiftlog.shell.remote.pipe_channel import MarkScanner, PipeChannel

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from shiftlog.shell.remote.command import RemoteCommand
    from shiftlog.shell.remote.control import ControlShell
    from shiftlog.shell.remote.ports import RemoteHost

_IDLE_LINES = 2
#: A program that closes inherited descriptors, forks and exits takes longer than this.
_QUICK_S = 0.05
_SCAN_S = 0.03
_LOOK_S = 10.0
_GONE_S = 1.0


class DirectChannel:
    """One command's output on the shell's own wire, up to its own token or the shell's `last` one.

    It costs the target nothing, so foreground commands without input use it.
    """

    def __init__(self, token: str, last: str, sink: OutputSink) -> None:
        self._sink = sink
        self._begin = re.compile(rb"(%b) pid (?P<pid>\d+)/\1\n" % re.escape(token.encode()))
        self._before: dict[Stream, bytes] = {"stdout": b"", "stderr": b""}
        self._scanners: dict[Stream, MarkScanner] = {}
        self._marks = (token.encode(), last.encode())
        self._passing: set[Stream] = set()
        self._ended: set[Stream] = set()
        self.held: bool | None = None  # whether a process of the command holds its outputs; None before the report
        self._closed = False
        self.on_begin: Callable[[int], None] | None = None
        self.on_end: Callable[[], None] | None = None

    @property
    def arrived(self) -> bool:
        """True once all of the command's own output has arrived."""
        return len(self._ended) == len(STREAMS) and self.held is not None

    @property
    def open_streams(self) -> frozenset[Stream]:
        """Both streams while a child of the command holds either; the report does not say which."""
        return frozenset(STREAMS) if self.held else frozenset()

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

    def note_held(self, held: bool) -> None:
        """Note whether a process of the command still holds its outputs."""
        self.held = held
        self._changed()

    def give_up(self) -> None:
        """The wire is over: pass on the rest and close the streams."""
        for stream in STREAMS:
            scanner = self._scanners.get(stream)
            rest = scanner.rest() if scanner is not None and stream not in self._ended else b""
            if rest:
                self._sink.write(stream, rest)
            self._ended.add(stream)
        self.held = bool(self.held)
        self.close_streams()

    def _unbegun(self, stream: Stream, data: bytes) -> bytes:
        """Return a report without a beginning to the engine: it means that the unit never ran."""
        if self._marks[1] in data:
            self._end(stream)
        return data if stream == "stdout" and (b" end " in data or b" bad " in data) else b""

    def _end(self, stream: Stream) -> None:
        self._ended.add(stream)
        self._changed()

    def _changed(self) -> None:
        if self.arrived and not self.held:
            self.close_streams()
        if self.on_end is not None:
            self.on_end()

    def close_streams(self) -> None:
        """Close the streams: no process holds the outputs any more."""
        if not self._closed:
            self._closed = True
            for stream in STREAMS:
                self._sink.close(stream)


class Channels:
    """The wire and the pipe channels of one shell."""

    def __init__(self, host: RemoteHost, control: ControlShell, tasks: TaskGroup) -> None:
        self._host = host
        self._control = control
        self._tasks = tasks
        self._direct: DirectChannel | None = None
        self._held_by: list[DirectChannel] = []
        self._is_held = False
        self._scanning: asyncio.Future[bool] | None = None
        self._is_written_to = False
        self._idle: deque[PipeChannel] = deque()
        self._pipes: set[PipeChannel] = set()
        self._leaving = False
        #: The shell's own processes, which have the wire as output.
        self.own_pids: set[int] = set()

    def leave(self) -> None:
        """Keep no channel for further commands."""
        self._leaving = True

    # The shell's own wire

    async def is_wire_free(self) -> bool:
        """Return True if no leftover process of an earlier command can write to the wire."""
        if self._scanning is not None:
            await asyncio.wait([self._scanning], timeout=_SCAN_S)
            if not self._scanning.done():
                return False
            self._is_written_to = self._scanning.result()
            self._scanning = None
            if self._is_written_to:
                self._begin_scan()
        return not (self._is_held or self._is_written_to)

    def open_direct(self, token: str, last: str, sink: OutputSink) -> DirectChannel:
        """Give the wire to a command."""
        self._direct = DirectChannel(token, last, sink)
        return self._direct

    def received(self, stream: Stream, data: bytes) -> bytes:
        """Pass on the bytes of the command that uses the wire; return the rest."""
        return data if self._direct is None else self._direct.received(stream, data)

    def note_held(self, held: bool) -> None:
        """Note whether a leftover process of a command still holds the wire."""
        self._is_held = held
        direct = self._direct
        if direct is not None and direct.held is None:
            direct.note_held(held)
            if held:
                self._held_by.append(direct)
        if not held:
            for one in self._held_by:
                one.close_streams()
            self._held_by.clear()

    def note_over(self) -> None:
        """The shell ended; no held-output report will follow."""
        if self._direct is not None and self._direct.held is None:
            self._direct.note_held(False)

    def give_up(self) -> None:
        """The wire ended: end the streams of all commands on it."""
        for direct in [*self._held_by, *([self._direct] if self._direct is not None else [])]:
            direct.give_up()

    # Lines

    async def open_pipes(self, sink: OutputSink, *, once: bool, feeds: bool) -> PipeChannel:
        """Give a command a pipe channel: a new one with `once`, else the one that was idle longest.

        A channel just used is still preparing for its next command.
        """
        self._direct = None
        channel: PipeChannel | None = None
        while not once and self._idle and channel is None:
            channel = self._idle.popleft()
            channel = None if channel.over else channel
        if channel is None:
            channel = PipeChannel(self._control.kept.directory, reusable=not once, feeds=feeds)
            self._pipes.add(channel)
            await channel.start(self._host)
        channel.begin(sink)
        return channel

    def let_go(self, command: RemoteCommand) -> None:
        """Take a command's channel back; it is reused if no process of the command holds it."""
        channel = command.channel
        if isinstance(channel, DirectChannel):
            if time.monotonic() - command.since > _QUICK_S and not self._leaving:
                self._begin_scan()
            return
        if channel.reusable and channel.clean and len(self._idle) < _IDLE_LINES and not self._leaving:
            self._idle.append(channel)
        else:
            channel.leave()
        self._pipes = {one for one in self._pipes if not one.over}

    # Ending

    async def hang_up(self, *, lost: bool) -> None:
        """Let the programs of all pipe channels end; wait for that unless the connection is lost."""
        for channel in self._pipes:
            channel.hang_up()
        if not lost:
            with move_on_after(_GONE_S):
                for channel in self._pipes:
                    await channel.gone.wait()

    @property
    def stuck_pids(self) -> set[int]:
        """The programs of pipe channels that did not end by themselves."""
        return {channel.pid for channel in self._pipes if channel.pid is not None and not channel.over}

    def close(self) -> None:
        """Close the wires of all pipe channels."""
        for channel in self._pipes:
            channel.close()

    def _begin_scan(self) -> None:
        self._scanning = asyncio.get_running_loop().create_future()
        self._tasks.start_soon(self._scan, self._scanning)

    async def _scan(self, found: asyncio.Future[bool]) -> None:
        """Find foreign processes with the wire as output; a few have closed the pipe that normally shows this."""
        try:
            data = await self._control.ask(programs.writers(self._control.kept.keeper), _LOOK_S)
        except (TimeoutError, ConnectionError):
            found.set_result(True)
        else:
            found.set_result(any(int(word) not in self.own_pids for word in data.split()))
