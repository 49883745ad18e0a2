"""Chooses the channel for each command's output in a remote shell: the shell's own wire while it is free, else pipes.

Tracks which pipe channels are idle, which command uses the wire, and whether a leftover process may still write to
it. How a channel carries its bytes is in `direct_channel.py` and `pipe_channel.py`.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING

from anyio import move_on_after

from shiftlog.shell.ports import OutputSink, Stream
from shiftlog.shell.remote import programs
from shiftlog.shell.remote.direct_channel import DirectChannel
from shiftlog.shell.remote.pipe_channel import PipeChannel

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
        self._kept: programs.KeeperReply | None = None
        self._leaving = False
        #: The shell's own processes, which have the wire as output.
        self.own_pids: set[int] = set()

    @property
    def kept(self) -> programs.KeeperReply:
        """The keeper's reply, set before any command starts."""
        assert self._kept is not None
        return self._kept

    def begin(self, kept: programs.KeeperReply) -> None:
        """Set the keeper's reply: where pipes go, and the shell's first processes."""
        self._kept = kept
        self.own_pids |= {kept.keeper, kept.session}

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
        if direct is not None and not direct.is_held_known:
            direct.note_held(held)
            if held:
                self._held_by.append(direct)
        if not held:
            for one in self._held_by:
                one.released()
            self._held_by.clear()

    def note_over(self) -> None:
        """The shell ended; no held-output report will follow."""
        if self._direct is not None and not self._direct.is_held_known:
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
            channel = PipeChannel(self.kept.directory, reusable=not once, feeds=feeds)
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
            data = await self._control.ask(programs.writers(self.kept.keeper), _LOOK_S)
        except (TimeoutError, ConnectionError):
            found.set_result(True)
        else:
            found.set_result(any(int(word) not in self.own_pids for word in data.split()))
