"""The daemon's lock, which only one daemon of a state directory holds, and the socket that it guards.

The lock is the kernel's (flock) and ends with its holder, even after a crash; the file's text is only for readers. The
socket's file is created and removed only while the lock is held, so two daemons never race for it.
"""

import fcntl
import os
import socket
import time
from pathlib import Path

from shiftlog.link import processes, wire
from shiftlog.link.files import open_regular, read_regular
from shiftlog.model.limits import DAEMON_LOCK_WAIT_S

BACKLOG = 512


class AlreadyServed(Exception):
    """Another daemon serves this state directory."""


class DaemonLock:
    """The lock of one state directory, held until it is closed."""

    def __init__(self, home: str, lock: int) -> None:
        self.home = home
        self._descriptor = lock
        self.socket_path: Path | None = None  # set by `listen`
        self._socket_inode: tuple[int, int] | None = None

    def listen(self) -> socket.socket:
        """Open a non-blocking socket (0600) and replace the file of an earlier daemon.

        It listens before it gets its name, so that no client that sees the file is refused.
        """
        path = Path(self.home, "daemon.sock")
        if len(os.fsencode(path)) > wire.SOCKET_PATH_BYTES:
            path = Path(wire.short_socket_path(self.home))
        draft = path.with_suffix(".new")
        draft.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            mask = os.umask(0o177)
            try:
                listener.bind(os.fspath(draft))
            finally:
                os.umask(mask)
            listener.listen(BACKLOG)
            listener.setblocking(False)
            self._note(path)
            self._socket_inode = _inode(draft)
            draft.replace(path)
            self.socket_path = path
        except BaseException:
            draft.unlink(missing_ok=True)
            listener.close()
            raise
        return listener

    def _note(self, path: Path) -> None:
        text = f"{os.getpid()}\n{path}\n".encode("utf-8", "surrogateescape")
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, text, 0)

    def is_held(self) -> bool:
        """Return True if the lock file is still the one that we hold; without it another daemon could start."""
        return _is_in_place(Path(wire.lock_path(self.home)), _inode(self._descriptor))

    def has_socket(self) -> bool:
        """Return True if the socket's file is still there; cleaners of temporary files remove such files."""
        return self.socket_path is not None and _is_in_place(self.socket_path, self._socket_inode)

    def remove_socket(self) -> None:
        """Remove the socket's file, so that no more clients connect."""
        if self.socket_path is not None and self.has_socket():
            self.socket_path.unlink(missing_ok=True)

    def close(self) -> None:
        """Remove the socket's file and release the lock."""
        self.remove_socket()
        os.close(self._descriptor)


def take_lock(home: str) -> DaemonLock:
    """Take the lock, waiting for a daemon that is stopping; raise AlreadyServed if it stays."""
    path = Path(wire.lock_path(home))
    deadline = time.monotonic() + DAEMON_LOCK_WAIT_S
    while True:
        lock = open_regular(path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
        else:
            # Between opening and locking the file may have been removed; then the lock guards nothing.
            if _inode(lock) == _inode(path):
                return DaemonLock(home, lock)
            os.close(lock)
            continue
        other = wire.connect(home)
        if other is not None:
            other.close()
            # A process that a killed daemon was just starting holds both until it has become another program.
            if not _is_dead(_holder(path)):
                raise AlreadyServed(f"A daemon already serves {home} (pid {_holder(path)})")
        if time.monotonic() > deadline:
            raise AlreadyServed(f"The daemon with pid {_holder(path)} holds {path} but does not answer; end it first")
        time.sleep(wire.RETRY_S)


def _holder(path: Path) -> str:
    try:
        return read_regular(path).decode("utf-8", "replace").partition("\n")[0] or "unknown"
    except OSError:
        return "unknown"


def _is_dead(holder: str) -> bool:
    return holder.isdecimal() and not processes.alive(int(holder))


def _inode(file: Path | int) -> tuple[int, int] | None:
    try:
        info = os.fstat(file) if isinstance(file, int) else file.stat()
    except OSError:
        return None
    return info.st_dev, info.st_ino


def _is_in_place(path: Path, inode: tuple[int, int] | None) -> bool:
    """Return True if a file is the known one, or lies where this user may not look: it is not gone then."""
    try:
        info = path.stat()
    except PermissionError:
        return True
    except OSError:
        return False
    return (info.st_dev, info.st_ino) == inode
