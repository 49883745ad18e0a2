"""Changes modes, owners, times and attributes on behalf of a shell, because Landlock does not control them.

The file is opened as the caller sees it, checked against the writable paths, and changed through that descriptor, so
that nothing can be swapped in between. Callers and broker run as the same user.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Callable

from shiftlog.shell.sandbox import kernel
from shiftlog.shell.sandbox.mounts import ShellPlaces
from shiftlog.shell.sandbox.notify import Listener, Notification
from shiftlog.shell.sandbox.processes import (
    AT_EMPTY_PATH,
    AT_FDCWD,
    AT_SYMLINK_NOFOLLOW,
    ProcessMemory,
    Unresolved,
    open_file,
    signed,
)

_XATTR_SIZE_MAX = 65536
# Rights of files and the like: a confined root lacks the capabilities for them, which the broker has.
_PRIVILEGED = (b"security.", b"trusted.")
_Change = Callable[[bytes], None]


class MetadataCalls:
    """Carries out chmod and similar calls within the writable paths, and refuses them elsewhere."""

    def __init__(self, writable: tuple[str, ...]) -> None:
        self.places = ShellPlaces(writable)
        self._names = {number: name for name, number in kernel.NUMBERS.items()}

    def answer(self, listener: Listener, call: Notification) -> None:
        """Carry out the call or refuse it; the caller gets the kernel's own error."""
        name = self._names.get(call.number, "")
        if os.stat(f"/proc/{call.pid}").st_uid != os.geteuid():
            raise Unresolved(errno.EPERM, "another user")  # must not use our rights
        memory = ProcessMemory(call.pid)
        try:
            dirfd, path, flags = _target(name, call.args, memory)
            change = _change(name, call.args, memory)
        finally:
            memory.close()
        fd, _text = open_file(call.pid, dirfd, path, flags=flags)
        try:
            if not listener.still_valid(call):
                return
            if not self._may_change(fd):
                raise Unresolved(errno.EROFS, "outside the writable places")
            try:
                change(b"/proc/self/fd/%d" % fd)
            except OSError as problem:
                raise Unresolved(problem.errno, "refused") from problem
        finally:
            os.close(fd)
        listener.answer(call, 0)

    def _may_change(self, fd: int) -> bool:
        path = os.readlink(f"/proc/self/fd/{fd}")
        # Pipes, sockets and memory have no path.
        return not path.startswith("/") or path.startswith("/memfd:") or self.places.hold(fd)


def _target(name: str, args: tuple[int, ...], memory: ProcessMemory) -> tuple[int, bytes, int]:
    """Return directory, path and flags of the file that a call means."""
    if name in ("fchmod", "fchown", "fsetxattr", "fremovexattr"):
        return signed(args[0]), b"", AT_EMPTY_PATH
    if name in ("fchmodat", "fchmodat2", "fchownat", "utimensat", "futimesat"):
        if not args[1]:  # futimens: the descriptor itself
            return signed(args[0]), b"", AT_EMPTY_PATH
        flags = {"fchmodat2": args[3], "fchownat": args[4], "utimensat": args[3]}.get(name, 0) & 0xFFFFFFFF
        return signed(args[0]), memory.path(args[1]), flags & (AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW)
    nofollow = name in ("lchown", "lsetxattr", "lremovexattr")
    return AT_FDCWD, memory.path(args[0]), AT_SYMLINK_NOFOLLOW if nofollow else 0


def _change(name: str, args: tuple[int, ...], memory: ProcessMemory) -> _Change:
    """Return the change to apply to the opened file."""
    if "chmod" in name:
        mode = args[1] if name in ("chmod", "fchmod") else args[2]
        return lambda path: os.chmod(path, mode & 0o7777)
    if "chown" in name:
        user, group = (args[2], args[3]) if name == "fchownat" else (args[1], args[2])
        return lambda path: os.chown(path, signed(user), signed(group))
    if "xattr" in name:
        return _attribute_change(name, args, memory)
    times = _times(name, args, memory)
    return lambda path: _set_times(path, times)


def _attribute_change(name: str, args: tuple[int, ...], memory: ProcessMemory) -> _Change:
    attribute = memory.string(args[1], 255)
    if attribute.startswith(_PRIVILEGED):
        raise Unresolved(errno.EPERM, "the shell's root has no right to it")
    if name.endswith("removexattr"):
        return lambda path: os.removexattr(path, attribute)
    size = args[3]
    if size > _XATTR_SIZE_MAX:
        raise Unresolved(errno.E2BIG, "attribute too long")
    value = memory.read(args[2], size) if size else b""
    return lambda path: os.setxattr(path, attribute, value, signed(args[4]))


def _times(name: str, args: tuple[int, ...], memory: ProcessMemory) -> bytes | None:
    """Return the two times in the kernel's format; None means now."""
    at = args[2] if name in ("utimensat", "futimesat") else args[1]
    if not at:
        return None
    if name == "utime":
        access, change = struct.unpack("=qq", memory.read(at, 16))
        return struct.pack("=qqqq", access, 0, change, 0)
    raw = memory.read(at, 32)
    if name == "utimensat":
        return raw
    access, access_us, change, change_us = struct.unpack("=qqqq", raw)
    return struct.pack("=qqqq", access, access_us * 1000, change, change_us * 1000)


def _set_times(path: bytes, times: bytes | None) -> None:
    buffer = None if times is None else ctypes.create_string_buffer(times, 32)
    kernel.syscall("utimensat", AT_FDCWD, ctypes.c_char_p(path), buffer, 0)
