"""The daemon's seat: the lock that only one daemon of a state directory holds, and the socket it listens on.

The lock is the kernel's (flock), so that it ends with its holder however that dies; the file's text is only
for readers. The socket's file is made and removed only while the lock is held, so two daemons never race for
it.
"""

import fcntl
import os
import socket
import time
from pathlib import Path

from shiftlog.link import wire

BACKLOG = 512
# Longer than a daemon may drain, so that a successor that is already waiting takes over.
LOCK_WAIT_S = 15.0


class SeatTaken(Exception):
    """Another daemon serves this state directory."""


class Seat:
    """The lock of one state directory, taken; closing gives it back."""

    def __init__(self, home: str, lock: int) -> None:
        self.home = home
        self._lock = lock
        self._socket_path: Path | None = None
        self._socket_inode: tuple[int, int] | None = None

    @property
    def socket_path(self) -> Path:
        """Return where the daemon listens; known after `listen`."""
        if self._socket_path is None:
            raise RuntimeError("the daemon does not listen yet")
        return self._socket_path

    def listen(self) -> socket.socket:
        """Listen without blocking, and put the socket (0600) in place of whatever an earlier daemon left.

        It is listened on before it has its name, so that nobody who sees it is refused.
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
            self._socket_path = path
        except BaseException:
            draft.unlink(missing_ok=True)
            listener.close()
            raise
        return listener

    def _note(self, path: Path) -> None:
        text = f"{os.getpid()}\n{path}\n".encode("utf-8", "surrogateescape")
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, text, 0)

    def is_ours(self) -> bool:
        """Say whether the lock file is still the one that we hold; without it another daemon could start."""
        return _inode(Path(wire.lock_path(self.home))) == _inode(self._lock)

    def can_be_found(self) -> bool:
        """Say whether the socket's file is still there; cleaners of temporary files remove such things."""
        return self._socket_path is not None and _inode(self._socket_path) == self._socket_inode

    def vanish(self) -> None:
        """Remove the socket's file, so that clients no longer come here."""
        if self._socket_path is not None and self.can_be_found():
            self._socket_path.unlink(missing_ok=True)

    def close(self) -> None:
        """Remove the socket's file and give the lock back."""
        self.vanish()
        os.close(self._lock)


def take_seat(home: str) -> Seat:
    """Take the lock, waiting for a daemon that is stopping; raise SeatTaken when one stays."""
    path = Path(wire.lock_path(home))
    deadline = time.monotonic() + LOCK_WAIT_S
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
        else:
            # Between opening and locking the file may have been removed; then the lock guards nothing.
            if _inode(lock) == _inode(path):
                return Seat(home, lock)
            os.close(lock)
            continue
        other = wire.connect(home)
        if other is not None:
            other.close()
            raise SeatTaken(f"A daemon already serves {home} (pid {_holder(path)})")
        if time.monotonic() > deadline:
            raise SeatTaken(f"The daemon with pid {_holder(path)} holds {path} but does not answer; end it first")
        time.sleep(wire.RETRY_S)


def _holder(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").partition("\n")[0] or "unknown"
    except OSError:
        return "unknown"


def _inode(file: Path | int) -> tuple[int, int] | None:
    try:
        info = os.fstat(file) if isinstance(file, int) else file.stat()
    except OSError:
        return None
    return info.st_dev, info.st_ino
