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
from shiftlog.shell.engine.kept import MARK_BYTES, RAW_MOST_BYTES, READ_BYTES, KeptPipe, PendingInput, RawMemory
from shiftlog.shell.engine.protocol import quote
from shiftlog.shell.engine.terminal import end_of_file
from shiftlog.shell.ports import OutputSink

if TYPE_CHECKING:
    from collections.abc import Callable

    from shiftlog.shell.engine.directory import PipeDirectory
    from shiftlog.shell.engine.links import ReaperChannel
    from shiftlog.shell.ports import Stream

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
    """One output of a command. The next command reuses it unless a leftover process holds it.

    Bytes go from the pipe into memory that the shell's holder keeps too, and from there to the sink. The memory is
    given back once the sink has stored them and `kept` says how the sink goes on from there.
    """

    def __init__(self, poll: OutputPoll, fd: int, raw: RawMemory, kept: KeptPipe, save: Callable[[], None]) -> None:
        self.path = quote(kept.path)
        self.kept = kept
        self.raw = raw
        self._poll = poll
        self._fd = fd
        self._save = save
        self._sink: OutputSink | None = None
        self._wide = False
        self.touched = False
        poll.add(fd, self.pump)

    @property
    def fileno(self) -> int:
        """The descriptor that is read."""
        return self._fd

    @property
    def held(self) -> bool:
        """True while a command's output arrives here."""
        return self._sink is not None

    @property
    def closed(self) -> bool:
        """True once it is closed for good."""
        return self._fd < 0

    def begin(self, sink: OutputSink, number: int) -> None:
        """Send all bytes from now on to the sink of this command."""
        self._sink = sink
        self.touched = False
        kept = self.kept
        kept.command, kept.marked, kept.mark, kept.lingers, kept.ended = number, self.raw.size, b"", False, False
        self.raw.free(self.raw.size)

    def resume(self, sink: OutputSink) -> None:
        """Send the bytes that an earlier server did not store to the sink, then those that come."""
        self.touched = self.raw.size > self.kept.marked or bool(self.kept.mark)
        if self.kept.is_torn:
            sink.tear(self.kept.stream)
        position = self.kept.marked
        while data := self.raw.read(position):
            sink.write(self.kept.stream, data)
            position += len(data)
        if self.kept.ended:
            sink.close(self.kept.stream)
        else:
            self._sink = sink

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
                    self._sink.write(self.kept.stream, exit_output)
                self._detach()
            taken += size
        self.kept.lingers = self._sink is not None
        return self.kept.lingers

    def close(self) -> None:
        """Stop reading for good."""
        if self._fd >= 0:
            self._poll.discard(self._fd)
            os.close(self._fd)
            self.raw.close()
            self._fd = -1
            self._detach()

    def pump(self) -> None:
        """Read a few times; an end of file counts only after the command's end, the pipe may not be open before."""
        self.touched = True
        until = time.monotonic() + _TURN_S
        for _ in range(_READS_IN_A_ROW):
            if self._sink is not None and self._sink.is_behind:
                break
            size = self._read()
            if size == 0 and self.kept.lingers:
                self.close()
            if size <= 0:
                return
            if time.monotonic() > until:
                break
        self._poll.again(self._fd)

    def mark(self) -> bool:
        """Let the sink store what it has; return True if a record of that is to be saved."""
        kept, size = self.kept, self.raw.size
        if self._sink is None or size == kept.marked or kept.is_torn:
            return False
        mark = self._sink.mark(kept.stream)
        if mark is None and size - kept.marked < RAW_MOST_BYTES:
            return False
        kept.is_torn = mark is None
        kept.marked, kept.mark = size, mark or b""
        return True

    def free(self) -> None:
        """Give back the memory of what a saved record covers."""
        self.raw.free(self.kept.marked)

    def _read(self) -> int:
        """Read once; return the number of bytes, 0 at the end, -1 if nothing is there now."""
        try:
            data = self._take()
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
            self._sink.write(self.kept.stream, data)
            if self.raw.size - self.kept.marked >= MARK_BYTES and self.mark():
                self._save()
                self.free()
        return len(data)

    def _take(self) -> bytes:
        return self.raw.take(self._fd)

    def _detach(self) -> None:
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.close(self.kept.stream)
            self.kept.ended = True

    def _widen(self) -> None:
        self._wide = True
        try:
            fcntl.fcntl(self._fd, fcntl.F_SETPIPE_SZ, _WIDE_PIPE_BYTES)
        except OSError:
            pass  # the user's pipe memory is used up; the small pipe works too


class TerminalOutput(OutputPipe):
    """The output of a terminal; a pipe of its own lies between, because only pipes can be moved into memory."""

    def __init__(
        self,
        poll: OutputPoll,
        fd: int,
        raw: RawMemory,
        kept: KeptPipe,
        save: Callable[[], None],
        between: tuple[int, int],
    ) -> None:
        super().__init__(poll, fd, raw, kept, save)
        self._between = between

    def close(self) -> None:
        """Stop reading for good."""
        if not self.closed:
            super().close()
            for end in self._between:
                os.close(end)

    def _take(self) -> bytes:
        try:
            return self.raw.take(self._between[0])
        except BlockingIOError:
            os.splice(self._fd, self._between[1], _DEFAULT_PIPE_BYTES, flags=os.SPLICE_F_NONBLOCK)
        return self.raw.take(self._between[0])


class FreeOutputs:
    """The output pipes of one shell, in its private directory."""

    def __init__(
        self, poll: OutputPoll, directory: PipeDirectory, save: Callable[[], None], keeper: ReaperChannel
    ) -> None:
        self._poll = poll
        self._directory = directory
        self._save = save
        self._keeper = keeper
        self._free: dict[Stream, str] = {}
        self.pipes: dict[str, OutputPipe] = {}

    def take(self, stream: Stream, kept: dict[str, KeptPipe], number: int) -> str:
        """Return the name of a free pipe: the last command's, or a new one if a leftover child still holds that."""
        name = self._free.get(stream, "")
        pipe = self.pipes.get(name)
        if pipe is not None and not pipe.held and not pipe.closed:
            return name
        name = f"{stream}-{number}"
        path = self._directory.make(name)
        fd = self._directory.open(path, os.O_RDONLY)
        raw = RawMemory()
        self._keeper.keep(**{name: fd, f"raw-{name}": raw.fd})
        kept[name] = KeptPipe(stream=stream, path=path)
        self.pipes[name] = OutputPipe(self._poll, fd, raw, kept[name], self._save)
        self._free[stream] = name
        return name

    def add(self, name: str, pipe: OutputPipe) -> None:
        """Add a pipe of another kind, or one that an earlier server made."""
        self.pipes[name] = pipe
        if pipe.kept.path and name > self._free.get(pipe.kept.stream, ""):
            self._free[pipe.kept.stream] = name

    def forget(self, kept: dict[str, KeptPipe]) -> None:
        """Forget the pipes that are closed for good."""
        for name in [name for name, pipe in self.pipes.items() if pipe.closed]:
            del self.pipes[name]
            kept.pop(name, None)
            self._keeper.drop(name, f"raw-{name}", f"in-{name}", f"out-{name}", f"slave-{name}")

    def mark(self) -> list[OutputPipe]:
        """Let the sinks store their bytes; return the pipes whose record must be saved."""
        return [pipe for pipe in self.pipes.values() if not pipe.closed and pipe.mark()]

    def close(self) -> None:
        """Stop reading."""
        for pipe in self.pipes.values():
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


class CollectedOutput(OutputSink):
    """A sink that keeps the first 64 KiB of both streams together."""

    limit = 64 * 1024

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, stream: Stream, data: bytes) -> None:
        self.data += data[: max(0, self.limit - len(self.data))]

    def close(self, stream: Stream) -> None:
        """Ignore the end of a stream."""


class InputPipe:
    """The writing end of a command's standard input.

    The shell's holder has a copy of it, so that the command never reads an end of file that was not sent.
    """

    def __init__(self, directory: PipeDirectory, over: Callable[[], bool], keeper: ReaperChannel, name: str) -> None:
        self._directory = directory
        self._over = over
        self._keeper = keeper
        self._name = name
        self._fd = -1
        self._is_met = False  # the command has opened its end
        self._closed = False
        self._pending: PendingInput | None = None
        self._turn = asyncio.Lock()  # keeps the writes of two callers apart

    def prepare(self, path: str, initial: bytes) -> None:
        """Open the pipe and keep the initial input, before the command starts: a server that ends loses none of it."""
        reader = self._directory.open(path, os.O_RDONLY)  # without one, ours cannot be opened
        try:
            self._fd = self._directory.open(path, os.O_WRONLY)
        finally:
            os.close(reader)
        self._pending = PendingInput()
        self._pending.add(initial)
        self._keeper.keep(**{self._name: self._fd, f"pending-{self._name}": self._pending.fd})

    def adopt(self, fd: int, pending: int) -> None:
        """Go on with the pipe of an earlier server."""
        self._fd, self._pending = fd, PendingInput(pending)

    async def open(self) -> None:
        """Wait until the command has opened its end."""
        async with self._turn:
            await self._meet()

    async def send(self, data: bytes) -> None:
        """Write all bytes; stops silently if the command stops reading."""
        async with self._turn:
            pending = self._pending
            if self._closed or pending is None:
                raise StdinClosed("the command's standard input is closed")
            pending.add(data)
            if not await self._meet():
                return
            while not self._closed and not self._over() and pending.left:
                try:
                    pending.move(self._fd)
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
        if not self._closed and self._pending is not None:
            self._keeper.drop(self._name, f"pending-{self._name}")
            self._pending.close()
            os.close(self._fd)
        self._closed = True

    async def _meet(self) -> bool:
        """Wait until the command reads; a pipe that nothing reads would refuse the bytes."""
        while not self._is_met and not self._closed:
            if self._over():
                return False
            poll = select.poll()
            poll.register(self._fd, select.POLLOUT)
            self._is_met = not any(events & select.POLLERR for _, events in poll.poll(0))
            if not self._is_met:
                await asyncio.sleep(_RENDEZVOUS_S)
        return not self._closed


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
