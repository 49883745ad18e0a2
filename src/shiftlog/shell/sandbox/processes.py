"""Reads a process that waits for an answer: its strings, and the file that a path means to it.

Paths are resolved as the process would: from its own root and working directory, through links, with `/proc/self` as
that process. The caller checks afterwards that the process still waits.
"""

import ctypes
import errno
import os
import stat
import struct

from shiftlog.shell.sandbox import kernel

AT_FDCWD, AT_EMPTY_PATH, AT_SYMLINK_NOFOLLOW = -100, 0x1000, 0x100
_PATH_MAX = 4096
_STRING_MAX = 131072  # the kernel's own limit for one argument
_ARGUMENTS_MAX = 4 << 20
_IN_ROOT = 0x10
_LINKS_MAX = 40
_PROC_MAGIC = 0x9FA0


class Unresolved(OSError):
    """The path cannot be resolved; carries the error to answer."""


class ProcessMemory:
    """The memory of another process, read through its descriptor in /proc."""

    __slots__ = ("_fd",)

    def __init__(self, pid: int) -> None:
        self._fd = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._fd)

    def read(self, address: int, size: int) -> bytes:
        """Read up to `size` bytes; fewer if the mapping ends."""
        return os.pread(self._fd, size, address)

    def string(self, address: int, limit: int = _STRING_MAX) -> bytes:
        """Read a NUL-terminated string; raise `Unresolved` if it has no end within the limit."""
        found, size = b"", 256
        while len(found) <= limit:
            try:
                chunk = os.pread(self._fd, size, address + len(found))
            except OSError:
                chunk = b""
            end = chunk.find(b"\0")
            if end >= 0:
                return found + chunk[:end]
            if not chunk:
                raise Unresolved(errno.EFAULT, "no such memory")
            found, size = found + chunk, 8192
        raise Unresolved(errno.ENAMETOOLONG if limit == _PATH_MAX else errno.E2BIG, "too long")

    def path(self, address: int) -> bytes:
        """Read a path."""
        return self.string(address, _PATH_MAX)

    def strings(self, address: int) -> list[bytes]:
        """Read a null-terminated array of strings, completely or not at all."""
        if not address:
            return []
        pointers: list[int] = []
        while True:
            chunk = self.read(address + 8 * len(pointers), 64 if not pointers else 4096)
            words = struct.unpack(f"={len(chunk) // 8}Q", chunk[: len(chunk) // 8 * 8])
            if not words:
                raise Unresolved(errno.EFAULT, "no such memory")
            if 0 in words:
                pointers += words[: words.index(0)]
                break
            pointers += words
            if len(pointers) * 8 > _ARGUMENTS_MAX:
                raise Unresolved(errno.E2BIG, "too many arguments")
        return self._strings_at(pointers)

    def _strings_at(self, pointers: list[int]) -> list[bytes]:
        # Strings that lie close together, as after xargs, are read at once.
        if len(pointers) > 1:
            low, high = min(pointers), max(pointers)
            if high - low <= 256 * len(pointers):
                block = self.read(low, high - low + _PATH_MAX)
                ends = [block.find(b"\0", pointer - low) for pointer in pointers]
                if min(ends) >= 0:
                    return [block[p - low : end] for p, end in zip(pointers, ends, strict=True)]
        found: list[bytes] = []
        total = 0
        for pointer in pointers:
            found.append(self.string(pointer))
            total += len(found[-1]) + 1
            if total > _ARGUMENTS_MAX:
                raise Unresolved(errno.E2BIG, "arguments too long")
        return found


def absolute(pid: int, dirfd: int, path: bytes) -> bytes:
    """Return the path from the process's root, with `..` and links unresolved."""
    if path.startswith(b"/"):
        return path
    place = b"cwd" if dirfd == AT_FDCWD else b"fd/%d" % dirfd
    try:
        base = os.readlink(b"/proc/%d/%b" % (pid, place))
        root = os.readlink(b"/proc/%d/root" % pid)
    except OSError as problem:
        raise Unresolved(errno.EBADF, "no such directory") from problem
    if root != b"/" and base.startswith(root):
        base = base[len(root) :] or b"/"
    return base.rstrip(b"/") + b"/" + path


def open_file(pid: int, dirfd: int, path: bytes, *, flags: int = 0) -> tuple[int, bytes]:
    """Open the file that the process means as a path-only descriptor; return it and the absolute path.

    The caller closes it. Raises `Unresolved` with the error that the process should see.
    """
    if path:
        text = absolute(pid, dirfd, path)
        return _open_below_root(pid, text, follow=not flags & AT_SYMLINK_NOFOLLOW), text
    if not flags & AT_EMPTY_PATH:
        raise Unresolved(errno.ENOENT, "empty path")
    link = b"/proc/%d/%b" % (pid, b"cwd" if dirfd == AT_FDCWD else b"fd/%d" % dirfd)
    try:
        return os.open(link, os.O_PATH | os.O_CLOEXEC), os.readlink(link)
    except OSError as problem:
        raise Unresolved(errno.EBADF, "no such descriptor") from problem


class _How(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


def _open_below_root(pid: int, path: bytes, *, follow: bool) -> int:
    flags = os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        root = os.open(b"/proc/%d/root" % pid, os.O_PATH | os.O_CLOEXEC)
    except OSError as problem:
        raise Unresolved(errno.EACCES, "the process's root cannot be read") from problem
    try:
        how = _How(flags, 0, _IN_ROOT)
        return kernel.syscall("openat2", root, ctypes.c_char_p(path), ctypes.byref(how), ctypes.sizeof(how))
    except OSError as problem:
        if problem.errno not in (errno.ELOOP, errno.EXDEV, errno.ENOSYS, errno.EAGAIN):
            raise Unresolved(problem.errno, "no such file") from problem
        # Links in /proc point to files, not names, and /proc/self would be us: such a path is walked by hand.
        return _walk(pid, root, path, follow=follow)
    finally:
        os.close(root)


def _walk(pid: int, root: int, path: bytes, *, follow: bool) -> int:
    """Resolve a path one part at a time, never above the root."""
    here = os.dup(root)
    parts = _pieces(path)
    links = 0
    try:
        while parts:
            part = parts.pop()
            if part == b"..":
                if not os.path.sameopenfile(here, root):
                    here = _step(here, b"..")
                continue
            found = os.open(part, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=here)
            if not stat.S_ISLNK(os.fstat(found).st_mode) or (not parts and not follow):
                os.close(here)
                here = found
                continue
            os.close(found)
            links += 1
            if links > _LINKS_MAX:
                raise OSError(errno.ELOOP, "too many links")
            on_proc = _on_proc(here)
            if on_proc and part in (b"self", b"thread-self"):
                parts.append(b"%d" % pid)
                continue
            target = os.readlink(part, dir_fd=here)
            if on_proc and _is_magic(part, target):
                here = _step(here, part)
                continue
            if target.startswith(b"/"):
                os.close(here)
                here = os.dup(root)
            parts += _pieces(target)
        return os.dup(here)
    except OSError as problem:
        raise Unresolved(problem.errno or errno.EACCES, "no such file") from problem
    finally:
        os.close(here)


def _pieces(path: bytes) -> list[bytes]:
    return [piece for piece in reversed(path.split(b"/")) if piece not in (b"", b".")]


def _step(here: int, part: bytes) -> int:
    beyond = os.open(part, os.O_PATH | os.O_CLOEXEC, dir_fd=here)
    os.close(here)
    return beyond


def _is_magic(name: bytes, target: bytes) -> bool:
    return name.isdigit() or name in (b"exe", b"cwd", b"root") or b":[" in target or target.startswith(b"/")


def _on_proc(fd: int) -> bool:
    buffer = ctypes.create_string_buffer(256)
    return kernel.libc.fstatfs(fd, buffer) == 0 and struct.unpack_from("=q", buffer.raw)[0] == _PROC_MAGIC


def signed(argument: int) -> int:
    """Return the low half of a register as a signed number."""
    low = argument & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low


def process_of(thread: int) -> int:
    """Return the process that a thread belongs to."""
    with open(f"/proc/{thread}/status", "rb") as status:
        return int(status.read(4096).partition(b"Tgid:")[2].split(None, 1)[0])


def parents(pid: int, until: int, limit: int = 32) -> tuple[int, ...]:
    """List a process's parents up to `until` or the first that is gone."""
    found: list[int] = []
    while pid != until and len(found) < limit:
        try:
            status = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
            try:
                pid = int(os.read(status, 512).rpartition(b")")[2].split(None, 2)[1])
            finally:
                os.close(status)
        except (OSError, IndexError, ValueError):
            break
        if pid <= 1:
            break
        found.append(pid)
    return tuple(found)
