"""The seccomp notification descriptor: receives the next waiting call, checks that it still waits, answers it.

One listener serves a whole process tree. A caller may die or be interrupted between any two steps; then the kernel
answers ENOENT and the notification is over.
"""

import errno
import fcntl
import struct
from dataclasses import dataclass

_RECEIVE, _SEND, _STILL_VALID, _SET_FLAGS = 0xC0502100, 0xC0182101, 0x40082102, 0x40082104
_SYNC_WAKE_UP = 1
_CONTINUE = 1
_CALL = struct.Struct("=QIIiIQ6Q")
_ANSWER = struct.Struct("=QqiI")


@dataclass(frozen=True, slots=True)
class Notification:
    """One call that waits for an answer."""

    id: int
    pid: int
    number: int
    args: tuple[int, ...]


class Listener:
    """The receiving end of one filter's notifications."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd
        try:  # Linux 6.6 and later: switch directly to the waiting process, which halves the wait
            fcntl.ioctl(fd, _SET_FLAGS, _SYNC_WAKE_UP)
        except OSError:
            pass

    def receive(self) -> Notification | None:
        """Take the next notification; None if its process died meanwhile."""
        buffer = bytearray(_CALL.size)
        try:
            fcntl.ioctl(self.fd, _RECEIVE, buffer)
        except OSError as problem:
            if problem.errno in (errno.ENOENT, errno.EINTR):
                return None
            raise
        ident, pid, _flags, number, _arch, _pointer, *args = _CALL.unpack(buffer)
        return Notification(ident, pid, number, tuple(args))

    def still_valid(self, call: Notification) -> bool:
        """Return True if the process still waits, so that data read under its pid was its own."""
        try:
            fcntl.ioctl(self.fd, _STILL_VALID, struct.pack("=Q", call.id))
        except OSError:
            return False
        return True

    def let_pass(self, call: Notification) -> None:
        """Let the kernel carry out the call."""
        self._answer(call, 0, _CONTINUE)

    def answer(self, call: Notification, code: int) -> None:
        """End the call in its caller with an error, or with success if the code is 0."""
        self._answer(call, -code, 0)

    def _answer(self, call: Notification, error: int, flags: int) -> None:
        try:
            fcntl.ioctl(self.fd, _SEND, _ANSWER.pack(call.id, 0, error, flags))
        except OSError as problem:
            if problem.errno != errno.ENOENT:
                raise
