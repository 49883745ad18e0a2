"""The socket between the engine and one bash: lines go in, reports come back with their sender's pid.

A socket cannot be opened through /proc, as a pipe can, so no other process can write into the script of the shell.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import struct
from collections.abc import Callable
from pathlib import Path

from shiftlog.shell.engine import words

_REPORT_BYTES = 512
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
_ROOM = socket.CMSG_SPACE(_CREDENTIALS.size)
_NUMBER = re.compile(rb"[0-9]{1,18}")


class Script:
    """Our end of a shell's script, on the event loop."""

    def __init__(self, ours: socket.socket, theirs: str) -> None:
        self._socket = ours
        self._theirs = theirs  # how the kernel calls the other end
        self._loop = asyncio.get_running_loop()
        self._backlog = b""
        self._rest: dict[int, bytes] = {}
        self._seen = 0
        self.on_sent: Callable[[], None] = lambda: None  # called when nothing is left of what did not fit at once

    def listen(self, on_reports: Callable[[], None]) -> None:
        """Call back when there is something to `read`."""
        self._loop.add_reader(self._socket, on_reports)

    @property
    def fileno(self) -> int:
        """The descriptor of our end."""
        return self._socket.fileno()

    def write(self, lines: str) -> bool:
        """Send lines, in the background what does not fit at once; return False if something is left."""
        data = lines.encode(errors="surrogateescape")
        if self._backlog:
            self._backlog += data
            return False
        self._backlog = data[self._send(data) :]
        if self._backlog:
            self._loop.add_writer(self._socket, self._write_more)
        return not self._backlog

    def read(self) -> list[tuple[int, int]]:
        """Return the reports of the next sender that has written, each with its pid; -1 stands for a wrong line.

        They stay in the socket until `consume`, so that a server that is killed meanwhile loses none.
        """
        received = self._receive()
        if received is None:
            return []
        pid, data = received
        self._seen = len(data)
        *complete, rest = (self._rest.pop(pid, b"") + data).split(b"\n")
        if rest:
            self._rest[pid] = rest[-_REPORT_BYTES:]
        return [(pid, int(line) if _NUMBER.fullmatch(line) else -1) for line in complete]

    def consume(self) -> None:
        """Remove the reports that `read` returned."""
        if self._seen:
            self._socket.recv(self._seen)
            self._seen = 0

    def is_input_of(self, process: str) -> bool:
        """Return True if a process, given by its directory in /proc, sleeps with the script as its fd 0.

        Bash never does so inside a command.
        """
        try:
            stdin = os.readlink(f"{process}/fd/0")  # noqa: PTH115 - a socket is no path
            state = Path(f"{process}/stat").read_bytes().rpartition(b")")[2].split()[0]
        except OSError:
            return False
        return stdin == self._theirs and state == b"S"

    def close(self) -> None:
        """Close our end; bash then reads the end of its script."""
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()

    def _send(self, data: bytes) -> int:
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0
        except OSError:  # the shell is gone; the reaper reports that
            return len(data)

    def _write_more(self) -> None:
        self._backlog = self._backlog[self._send(self._backlog[: 1 << 20]) :]
        if not self._backlog:
            self._loop.remove_writer(self._socket)
            self.on_sent()

    def _receive(self) -> tuple[int, bytes] | None:
        try:
            data, ancillary, _flags, _address = self._socket.recvmsg(_REPORT_BYTES, _ROOM, socket.MSG_PEEK)
        except BlockingIOError:
            return None
        except OSError:
            data, ancillary = b"", []
        if not data:
            self._loop.remove_reader(self._socket)
            return None
        return _CREDENTIALS.unpack(ancillary[0][2])[0] if ancillary else 0, data


class DueReports:
    """The reports that a shell owes, in the order in which they were asked for."""

    def __init__(self, due: dict[int, int], taken: list[int]) -> None:
        self._due = due
        self._taken = taken  # numbers that were taken, but may still wait in the socket

    def __len__(self) -> int:
        return len(self._due)

    def draw(self, command: int) -> int:
        """Draw the number of a report for this command; no process can know it before the shell reads it."""
        number = words.draw_number()
        self._due[number] = command
        return number

    def take(self, value: int) -> tuple[int | None, int]:
        """Return the command of a report, None if it is not due, and the status in it."""
        number, status = divmod(value, words.STATUSES)
        command = self._due.get(number)
        if command is not None:
            self._taken.append(number)
        for due in list(self._due) if command is not None else ():  # an interrupt has dropped the lines before it
            del self._due[due]
            if due == number:
                break
        return command, status


def open_script() -> tuple[socket.socket, socket.socket]:
    """Return our end, non-blocking, and bash's; the kernel adds the sender to all that comes."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    return ours, theirs
