"""Connects sockets on behalf of a confined shell, so that it reaches only the sockets in its own directories.

A filter cannot see an address, and Landlock does not control sockets that have a path. The socket is taken from the
caller and connected here, by the address as it was judged, so that nothing can be swapped in between. The other side
sees the supervisor as the process that connected.
"""

import ctypes
import errno
import os
import socket
import threading

from shiftlog.shell.sandbox import kernel
from shiftlog.shell.sandbox.mounts import ShellPlaces
from shiftlog.shell.sandbox.notify import Listener, Notification
from shiftlog.shell.sandbox.processes import AT_FDCWD, ProcessMemory, Unresolved, open_file, process_of, signed

_ADDRESS_MAX = 128  # the kernel's own limit
_AT_ONCE = 128
_FAMILY_BYTES = 2
_MAPPED, _NONE, _ONE = bytes(10) + b"\xff\xff", bytes(16), bytes(15) + b"\1"


class SocketCalls:
    """Carries out `connect`; a path must lie below the reachable directories, abstract sockets are refused.

    So is the port at which the daemon serves HTTP: command lines and files of others show links and tokens for it.
    """

    def __init__(self, reachable: tuple[str, ...], http_port: str) -> None:
        self.places = ShellPlaces(reachable)
        self._http_port = http_port
        self._room = threading.BoundedSemaphore(_AT_ONCE)

    def answer(self, listener: Listener, call: Notification) -> None:
        """Connect, or refuse; a connection may take long, so a thread waits for it."""
        address = _address(call)
        taken = socket.socket(fileno=_take_descriptor(call))
        target = -1
        try:
            if taken.family == socket.AF_UNIX:
                target = self._open_target(call, address)
                address = _unix_address(b"/proc/self/fd/%d" % target)
            elif self._is_own_port(address):
                raise Unresolved(errno.ECONNREFUSED, "the daemon's own")
            if not listener.still_valid(call):
                raise Unresolved(errno.ECONNABORTED, "the caller is gone")
            if not self._room.acquire(blocking=False):
                raise Unresolved(errno.EAGAIN, "too many connections at once")
        except BaseException:
            _close(taken, target)
            raise
        threading.Thread(target=self._connect, args=(listener, call, taken, target, address), daemon=True).start()

    def _is_own_port(self, address: bytes) -> bool:
        """Return True for the address of the daemon's HTTP on this machine."""
        if not _is_this_machine(address):
            return False
        try:
            with open(self._http_port, "rb") as file:
                return int.from_bytes(address[2:4], "big") == int(file.read(8))
        except (OSError, ValueError):
            return False  # it serves no HTTP

    def _open_target(self, call: Notification, address: bytes) -> int:
        """Open the socket file that an address means to the caller; raise `Unresolved` if it may not be reached."""
        path = address[_FAMILY_BYTES:].split(b"\0", 1)[0]
        if int.from_bytes(address[:_FAMILY_BYTES], "little") != socket.AF_UNIX:
            raise Unresolved(errno.EINVAL, "another family")
        if not path:
            raise Unresolved(errno.ECONNREFUSED, "an abstract socket")
        if os.stat(f"/proc/{call.pid}").st_uid != os.geteuid():
            raise Unresolved(errno.EACCES, "another user")  # must not use our rights
        target, _text = open_file(call.pid, AT_FDCWD, path)
        if not self.places.hold(target):
            os.close(target)
            raise Unresolved(errno.EACCES, "outside the shell's own directories")
        return target

    def _connect(
        self, listener: Listener, call: Notification, taken: socket.socket, target: int, address: bytes
    ) -> None:
        try:
            failed = kernel.libc.connect(taken.fileno(), address, len(address)) != 0
            listener.answer(call, ctypes.get_errno() if failed else 0)
        except OSError:  # the shell is over
            pass
        finally:
            _close(taken, target)
            self._room.release()


def _address(call: Notification) -> bytes:
    size = signed(call.args[2])
    if not 0 <= size <= _ADDRESS_MAX:
        raise Unresolved(errno.EINVAL, "no such address")
    memory = ProcessMemory(call.pid)
    try:
        return memory.read(call.args[1], size)
    finally:
        memory.close()


def _is_this_machine(address: bytes) -> bool:
    """Return True for a loopback or unspecified address of the internet."""
    family = int.from_bytes(address[:_FAMILY_BYTES], "little")
    host = address[4:8] if family == socket.AF_INET else address[8:24] if family == socket.AF_INET6 else b""
    host = host.removeprefix(_MAPPED)
    return host[:1] == b"\x7f" if len(host) == 4 and any(host) else host in (_NONE, _ONE, _NONE[:4])


def _unix_address(path: bytes) -> bytes:
    return socket.AF_UNIX.to_bytes(_FAMILY_BYTES, "little") + path + b"\0"


def _take_descriptor(call: Notification) -> int:
    """Return a copy of the caller's socket."""
    pidfd = os.pidfd_open(process_of(call.pid))
    try:
        return kernel.syscall("pidfd_getfd", pidfd, signed(call.args[0]), 0)
    except OSError as problem:
        raise Unresolved(problem.errno, "no such socket") from problem
    finally:
        os.close(pidfd)


def _close(taken: socket.socket, target: int) -> None:
    taken.close()
    if target >= 0:
        os.close(target)
