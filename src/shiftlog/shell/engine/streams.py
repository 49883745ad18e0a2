"""The engine's ends of a command's pipes: outputs that are read into a sink, and the input that is written.

Every pipe is a named one in the shell's private directory, which the shell opens by name, so that no two commands share
one and a leftover child keeps writing to its own command. Nothing here depends on bash.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import select
import time
from typing import TYPE_CHECKING

from shiftlog.model.shell_errors import StdinClosed
from shiftlog.shell.engine.protocol import quote
from shiftlog.shell.engine.terminal import end_of_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from shiftlog.shell.ports import OutputSink, Stream

READ_BYTES = 256 * 1024
_DEFAULT_PIPE_BYTES = 64 * 1024
_WIDE_PIPE_BYTES = 1024 * 1024
_DRAIN_BYTES = 2 * 1024 * 1024
_READS_IN_A_ROW = 4
_TURN_S = 0.02
_RENDEZVOUS_S = 0.0005
_TAKEN_S = 2.0
_TAKEN_STEP_S = 0.005


class OutputPoll:
    """Watches the outputs of one shell, with one descriptor on the event loop for any number of pipes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._epoll = select.epoll()
        self._pumps: dict[int, Callable[[], object]] = {}
        self._due: set[int] = set()  # descriptors whose pump is scheduled
        loop.add_reader(self._epoll.fileno(), self.pump)

    def add(self, fd: int, pump: Callable[[], object]) -> None:
        """Call `pump` at every new event of a descriptor; it must read until nothing is left."""
        self._pumps[fd] = pump
        self._epoll.register(fd, select.EPOLLIN | select.EPOLLET)

    def again(self, fd: int) -> None:
        """Call its pump again after the others had their turn."""
        if fd not in self._due:
            self._due.add(fd)
            self._loop.call_soon(self._pump_due, fd)

    def discard(self, fd: int) -> None:
        """Forget a descriptor that is about to be closed; closing removes it from the kernel's set."""
        self._pumps.pop(fd, None)

    def close(self) -> None:
        """Stop watching."""
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()

    def pump(self) -> None:
        """Handle all pending events."""
        for fd, _ in self._epoll.poll(0):
            # A process that writes without end makes an event of each read; handling each would starve the loop.
            if fd not in self._due and fd in self._pumps:
                self._pumps[fd]()

    def _pump_due(self, fd: int) -> None:
        self._due.discard(fd)
        if fd in self._pumps:
            self._pumps[fd]()


class OutputPipe:
    """One output of a command. The next command reuses it unless a leftover process holds it."""

    def __init__(self, poll: OutputPoll, fd: int, stream: Stream, path: str = "") -> None:
        self.path = path
        self._poll = poll
        self._fd = fd
        self._stream: Stream = stream
        self._sink: OutputSink | None = None
        self._lingers = False
        self._wide = False
        self.touched = False
        poll.add(fd, self.pump)

    @property
    def held(self) -> bool:
        """True while a command's output arrives here."""
        return self._sink is not None

    @property
    def closed(self) -> bool:
        """True once it is closed for good."""
        return self._fd < 0

    def begin(self, sink: OutputSink) -> None:
        """Send all bytes from now on to this sink."""
        self._sink = sink
        self.touched = False

    def probe(self) -> None:
        """Check whether a process has the pipe open: then a read does not return the end."""
        if self._read() != 0:
            self.touched = True

    def drain(self, exit_output: bytes = b"") -> bool:
        """Read the rest of the pipe at the command's end; return True if a process still holds it."""
        taken = 0
        while self._sink is not None and taken < _DRAIN_BYTES:
            size = self._read()
            if size < 0:
                break
            if size == 0:
                if exit_output:
                    self._sink.write(self._stream, exit_output)
                self._detach()
            taken += size
        self._lingers = self._sink is not None
        return self._lingers

    def close(self) -> None:
        """Stop reading for good."""
        if self._fd >= 0:
            self._poll.discard(self._fd)
            os.close(self._fd)
            self._fd = -1
            self._detach()

    def pump(self) -> None:
        """Read a few times; an end of file counts only after the command's end, the pipe may not be open before."""
        self.touched = True
        until = time.monotonic() + _TURN_S
        for _ in range(_READS_IN_A_ROW):
            size = self._read()
            if size == 0 and self._lingers:
                self.close()
            if size <= 0:
                return
            if time.monotonic() > until:
                break
        self._poll.again(self._fd)

    def _read(self) -> int:
        """Read once; return the number of bytes, 0 at the end, -1 if nothing is there now."""
        try:
            data = os.read(self._fd, READ_BYTES)
        except BlockingIOError:
            return -1
        except OSError as error:  # a terminal whose last process is gone
            if error.errno != errno.EIO:
                raise
            return 0
        if not data:
            return 0
        if not self._wide and len(data) >= _DEFAULT_PIPE_BYTES:
            self._widen()
        if self._sink is not None:
            self._sink.write(self._stream, data)
        return len(data)

    def _detach(self) -> None:
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.close(self._stream)

    def _widen(self) -> None:
        self._wide = True
        try:
            fcntl.fcntl(self._fd, fcntl.F_SETPIPE_SZ, _WIDE_PIPE_BYTES)
        except OSError:
            pass  # the user's pipe memory is used up; the small pipe works too


class FreeOutputs:
    """The output pipes of one shell, in its private directory."""

    def __init__(self, poll: OutputPoll, directory: str) -> None:
        self._poll = poll
        self._directory = directory
        self._pipes: dict[Stream, OutputPipe] = {}
        self._made = 0

    def take(self, stream: Stream) -> OutputPipe:
        """Return a free pipe: the last command's, or a new one if a leftover child still holds that."""
        pipe = self._pipes.get(stream)
        if pipe is None or pipe.held or pipe.closed:
            self._made += 1
            path = f"{self._directory}/{stream}-{self._made}"
            os.mkfifo(path, 0o600)
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            pipe = self._pipes[stream] = OutputPipe(self._poll, fd, stream, quote(path))
        return pipe

    def close(self) -> None:
        """Stop reading."""
        for pipe in self._pipes.values():
            pipe.close()


class ShellOutput:
    """The shell's own output, outside of any command; kept to show the output of an exit trap."""

    def __init__(self, poll: OutputPoll, fd: int) -> None:
        self._poll = poll
        self._fd = fd
        self.data = b""  # emptied when a command begins
        poll.add(fd, self.read)

    def read(self) -> bytes:
        """Return the newest output since the last command began."""
        try:
            while data := os.read(self._fd, READ_BYTES):
                self.data = (self.data + data)[-_DEFAULT_PIPE_BYTES:]
        except BlockingIOError:
            pass
        return self.data

    def close(self) -> None:
        """Stop reading."""
        self._poll.discard(self._fd)
        os.close(self._fd)


class CollectedOutput:
    """A sink that keeps the first 64 KiB of both streams together."""

    limit = 64 * 1024

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, stream: Stream, data: bytes) -> None:
        self.data += data[: max(0, self.limit - len(self.data))]

    def close(self, stream: Stream) -> None:
        """Ignore the end of a stream."""


class InputPipe:
    """The writing end of a command's standard input; opened when the shell opens the other end."""

    def __init__(self, path: str, over: Callable[[], bool]) -> None:
        self._path = path
        self._over = over
        self._fd = -1
        self._closed = False
        self._turn = asyncio.Lock()  # keeps the writes of two callers apart

    async def open(self) -> None:
        """Open the writing end; the shell waits for it when it opens the other end."""
        async with self._turn:
            if not self._closed:
                await self._rendezvous()

    async def send(self, data: bytes) -> None:
        """Write all bytes; stops silently if the command stops reading."""
        async with self._turn:
            if self._closed:
                raise StdinClosed("the command's standard input is closed")
            if not await self._rendezvous():
                return
            view = memoryview(data)
            while view and not self._over() and not self._closed:
                try:
                    view = view[os.write(self._fd, view) :]
                except BlockingIOError:
                    await _writable(self._fd)
                except BrokenPipeError:
                    return

    async def finish(self) -> None:
        """Let the command read end-of-file after what was sent."""
        await self.open()
        self.close()

    def close(self) -> None:
        """Close the pipe, whether or not it was read."""
        self._closed = True
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    async def _rendezvous(self) -> bool:
        while self._fd < 0:
            if self._over():
                return False
            try:
                self._fd = os.open(self._path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except FileNotFoundError:
                return False
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                await asyncio.sleep(_RENDEZVOUS_S)
        return True


class TerminalInput:
    """The keyboard of a command that has a terminal."""

    def __init__(self, fd: int, over: Callable[[], bool]) -> None:
        self._fd = fd
        self._over = over
        self._taken = False
        self._typed = b""

    async def open(self) -> None:
        """Wait until a process has the terminal; an earlier control character would signal nothing."""
        deadline = asyncio.get_running_loop().time() + _TAKEN_S
        while not self._taken and not self._over() and asyncio.get_running_loop().time() < deadline:
            try:
                self._taken = os.tcgetpgrp(self._fd) > 0
            except OSError:
                return
            if not self._taken:
                await asyncio.sleep(_TAKEN_STEP_S)

    async def send(self, data: bytes) -> None:
        """Type the bytes."""
        await self.open()
        self._typed = data or self._typed
        view = memoryview(data)
        while view and not self._over():
            try:
                view = view[os.write(self._fd, view) :]
            except BlockingIOError:
                await _writable(self._fd)

    async def finish(self) -> None:
        """Type the end-of-file character."""
        await self.send(end_of_file(self._typed))

    def close(self) -> None:
        """Do nothing; the terminal is closed with its output."""


async def _writable(fd: int) -> None:
    """Wait until the pipe is writable, at most a moment: the reader may be gone without notice."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_writer(fd, lambda: ready.done() or ready.set_result(None))
    try:
        await asyncio.wait([ready], timeout=0.1)
    finally:
        loop.remove_writer(fd)
