"""The ways that output of a remote shell's commands takes: the shell's own wire while it is free, else a line.

Knows which lines are idle, which command has the wire, and whether something that an earlier command left behind may
still write to it. What a line or the wire carries is told to the command by `remote_line.py` and `remote_direct.py`.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING

from anyio import move_on_after

from shiftlog.shell.ports import OutputSink, Stream
from shiftlog.shell.remote import programs as remote_programs
from shiftlog.shell.remote.direct import Direct
from shiftlog.shell.remote.line import Line

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from shiftlog.shell.remote.aside import Aside
    from shiftlog.shell.remote.command import InbandCommand
    from shiftlog.shell.remote.ports import RemoteHost

_IDLE_LINES = 2
#: No program that closes what it inherits, starts another and goes away is done as soon as this.
_QUICK_S = 0.05
_SCAN_S = 0.03
_LOOK_S = 10.0
_GONE_S = 1.0


class Ways:
    """The wire and the lines of one shell."""

    def __init__(self, host: RemoteHost, aside: Aside, tasks: TaskGroup) -> None:
        self._host = host
        self._aside = aside
        self._tasks = tasks
        self._direct: Direct | None = None
        self._held_by: list[Direct] = []
        self._is_held = False
        self._scanning: asyncio.Future[bool] | None = None
        self._is_written_to = False
        self._idle: deque[Line] = deque()
        self._lines: set[Line] = set()
        self._kept: remote_programs.Kept | None = None
        self._leaving = False
        #: The processes that have the wire as output by right.
        self.own_pids: set[int] = set()

    @property
    def kept(self) -> remote_programs.Kept:
        """What the keeper told; known before any command."""
        assert self._kept is not None
        return self._kept

    def begin(self, kept: remote_programs.Kept) -> None:
        """Learn where the shell's pipes are and what its first processes are."""
        self._kept = kept
        self.own_pids |= {kept.keeper, kept.session}

    def leave(self) -> None:
        """Learn that no further command comes."""
        self._leaving = True

    # The shell's own wire

    async def is_wire_free(self) -> bool:
        """Say whether nothing that an earlier command left behind could still write to the wire."""
        if self._scanning is not None:
            await asyncio.wait([self._scanning], timeout=_SCAN_S)
            if not self._scanning.done():
                return False
            self._is_written_to = self._scanning.result()
            self._scanning = None
            if self._is_written_to:
                self._begin_scan()
        return not (self._is_held or self._is_written_to)

    def open_direct(self, token: str, last: str, sink: OutputSink) -> Direct:
        """Give the wire to a command."""
        self._direct = Direct(token, last, sink)
        return self._direct

    def received(self, stream: Stream, data: bytes) -> bytes:
        """Pass on what is the command's that has the wire; return the rest."""
        return data if self._direct is None else self._direct.received(stream, data)

    def tell_held(self, held: bool) -> None:
        """Learn whether anything that a command left behind may still write to the wire."""
        self._is_held = held
        direct = self._direct
        if direct is not None and not direct.is_told:
            direct.tell_held(held)
            if held:
                self._held_by.append(direct)
        if not held:
            for one in self._held_by:
                one.released()
            self._held_by.clear()

    def tell_over(self) -> None:
        """Learn that the shell is over; who holds its outputs nobody will tell any more."""
        if self._direct is not None and not self._direct.is_told:
            self._direct.tell_held(False)

    def give_up(self) -> None:
        """The wire is over."""
        for direct in [*self._held_by, *([self._direct] if self._direct is not None else [])]:
            direct.give_up()

    # Lines

    async def open_line(self, sink: OutputSink, *, once: bool, feeds: bool) -> Line:
        """Give a command a line: one for it alone where it is asked for, else the one that was idle longest.

        A line just used is still getting ready for its next command.
        """
        self._direct = None
        line: Line | None = None
        while not once and self._idle and line is None:
            line = self._idle.popleft()
            line = None if line.over else line
        if line is None:
            line = Line(self.kept.directory, reusable=not once, feeds=feeds)
            self._lines.add(line)
            await line.start(self._host)
        line.begin(sink)
        return line

    def let_go(self, command: InbandCommand) -> None:
        """Take a command's way back; a line serves the next one if nothing of the command is left."""
        way = command.line
        if isinstance(way, Direct):
            if time.monotonic() - command.since > _QUICK_S and not self._leaving:
                self._begin_scan()
            return
        if way.reusable and way.clean and len(self._idle) < _IDLE_LINES and not self._leaving:
            self._idle.append(way)
        else:
            way.leave()
        self._lines = {one for one in self._lines if not one.over}

    # Ending

    async def hang_up(self, *, lost: bool) -> None:
        """Let the programs of all lines end, and wait for that unless nobody would tell."""
        for line in self._lines:
            line.hang_up()
        if not lost:
            with move_on_after(_GONE_S):
                for line in self._lines:
                    await line.gone.wait()

    @property
    def stuck_pids(self) -> set[int]:
        """The programs of lines that did not end by themselves."""
        return {line.pid for line in self._lines if line.pid is not None and not line.over}

    def close(self) -> None:
        """Let go of the wires of all lines."""
        for line in self._lines:
            line.close()

    def _begin_scan(self) -> None:
        self._scanning = asyncio.get_running_loop().create_future()
        self._tasks.start_soon(self._scan, self._scanning)

    async def _scan(self, found: asyncio.Future[bool]) -> None:
        """Find processes that have the wire as output besides the shell's own; some have closed the pipe that tells."""
        try:
            data = await self._aside.ask(remote_programs.writers(self.kept.keeper), _LOOK_S)
        except (TimeoutError, ConnectionError):
            found.set_result(True)
        else:
            found.set_result(any(int(word) not in self.own_pids for word in data.split()))
