"""Starting the daemon on demand: one client spawns it, the others wait for its socket.

Loaded only if no daemon listens. The start lock keeps twenty clients from spawning twenty processes. That only one
daemon serves a state directory is guarded by the daemon's own lock, which this module never takes.
"""

import _socket
import errno
import fcntl
import os
import sys
import time

from shiftlog.link.files import open_regular
from shiftlog.link.wire import RETRY_S, WireError, connect, log_path, socket_path

LOG_TAIL_BYTES = 2000

_children: list[int] = []

# Variables of one run of make or of one git hook; a daemon outlives both.
_OF_MAKE = frozenset({"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MAKE_TERMOUT", "MAKE_TERMERR"})
_OF_GIT = frozenset(
    {
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_PREFIX",
        "GIT_COMMON_DIR",
        "GIT_OBJECT_DIRECTORY",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_QUARANTINE_PATH",
    }
)


def start_daemon(home: str, *, deadline: float, patience_s: float = 0.0, purpose: str = "") -> _socket.socket:
    """Spawn the daemon unless another client does, and return a connection to its socket.

    The daemon prepares for the `purpose` that it is started for. If it does not come up, raises WireError with the end
    of its log.
    """
    reap()
    _check_socket_place(home)
    starter = _StartLock(home)
    spawn_from = time.monotonic() + patience_s
    child = None
    try:
        while (now := time.monotonic()) < deadline:
            if child is None and now >= spawn_from and starter.take():
                # The previous holder of the lock may have started the daemon since we looked.
                sock = connect(home)
                if sock is not None:
                    return sock
                child = _SpawnedDaemon(home, purpose)
            ended = child is not None and child.has_ended()
            sock = connect(home)
            if sock is not None:
                reap()
                return sock
            if ended and child is not None:
                raise _failed("The daemon ended while it started", home, child)
            time.sleep(RETRY_S)
        raise _failed("The daemon did not come up in time", home, child)
    except OSError as error:
        raise _not_started(error, home) from error
    finally:
        if child is not None:
            child.release()
        starter.release()


def _check_socket_place(home: str) -> None:
    """Refuse a folder in the place of the socket: every other kind of file there gives way to the next socket."""
    path = socket_path(home)
    if os.path.isdir(path) and not os.path.islink(path):
        raise WireError("storage_error", f"{path} is a directory, so no daemon can listen there", "Move it away")


def start_reader(home: str) -> _socket.socket:
    """Spawn a process that answers this client about a state directory that cannot be written; return its socket."""
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
    os.set_inheritable(theirs.fileno(), True)
    argv = [sys.executable, "-P", "-m", "shiftlog.daemon", "--home", home, "--read-only", str(theirs.fileno())]
    try:
        _children.append(os.posix_spawn(sys.executable, argv, daemon_environment(dict(os.environ))))
    except OSError as error:
        ours.close()
        raise _not_started(error, home) from error
    finally:
        theirs.close()
    return ours


def _not_started(error: OSError, home: str) -> WireError:
    """Return the error for a daemon that the machine does not let start: the reason, and what to do about it."""
    says, hint = f"The daemon cannot be started: {error.strerror}", "Run shiftlog doctor"
    if error.errno == errno.EROFS:
        says = f"The daemon cannot be started: the file system of {home} is read-only"
        hint = (
            "Mount it for writing, or set SHIFTLOG_HOME to a directory that you can write; shiftlog show, verify and "
        )
        hint += "export read it as it is"
    elif error.filename:
        says += f" ({error.filename})"
    return WireError("storage_error", says, hint)


def reap() -> None:
    """Collect the processes that spawned a daemon and ended at once, so that no zombie stays behind."""
    for pid in list(_children):
        try:
            if os.waitpid(pid, os.WNOHANG)[0] == 0:
                continue
        except ChildProcessError:
            pass
        _children.remove(pid)


def daemon_environment(environ: dict[str, str]) -> dict[str, str]:
    """Copy the environment without the variables of a surrounding make or git run."""
    # Outside of make, MAKEFLAGS is the user's own choice, such as -j8.
    dropped = _OF_GIT | _OF_MAKE if "MAKELEVEL" in environ else _OF_GIT
    return {name: value for name, value in environ.items() if name not in dropped}


class _StartLock:
    """The right to spawn the daemon of a state directory; the kernel releases it when the holder dies."""

    def __init__(self, home: str) -> None:
        self._path = os.path.join(home, "start.lock")
        self._fd: int | None = None

    def take(self) -> bool:
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd
        return True

    def release(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


class _SpawnedDaemon:
    """A daemon that this process spawned, and where its part of the log begins.

    It is no child of ours: the process that we spawn leaves it behind. It holds one end of a pipe until it listens.
    """

    def __init__(self, home: str, purpose: str) -> None:
        log = log_path(home)
        try:
            self.log_start = os.path.getsize(log)
        except OSError:
            self.log_start = 0
        append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        # If opening the log failed in the spawn, the error would name the program.
        os.close(open_regular(log, append))
        self._alive, theirs = os.pipe()
        os.set_blocking(self._alive, False)
        os.set_inheritable(theirs, True)
        purposes = ["--for", purpose] if purpose else []
        # -P: never import from the client's working directory.
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-P", "-m", "shiftlog.daemon", "--home", home, "--detach", str(theirs), *purposes],
            daemon_environment(dict(os.environ)),
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, log, append, 0o600),
                (os.POSIX_SPAWN_OPEN, 2, log, append, 0o600),
            ],
            setsid=True,
        )
        os.close(theirs)
        _children.append(pid)

    def has_ended(self) -> bool:
        """Return True if it ended; also once it listens, so look for its socket afterwards."""
        reap()
        try:
            return os.read(self._alive, 1) == b""
        except BlockingIOError:
            return False

    def release(self) -> None:
        os.close(self._alive)


def _failed(what: str, home: str, child: _SpawnedDaemon | None) -> WireError:
    tail = ""
    try:
        with open(open_regular(log_path(home)), "rb") as log:
            size = log.seek(0, os.SEEK_END)
            begin = 0 if child is None or child.log_start > size else child.log_start
            log.seek(max(size - LOG_TAIL_BYTES, begin))
            tail = log.read().decode("utf-8", "replace").strip()
    except OSError:
        pass
    if not tail and _is_full(home):
        return WireError("storage_error", f"{what}: the disk is full (state directory {home})", "Make room on the disk")
    empty = "Its log is empty; run `shiftlogd --foreground` to see why"
    return WireError("storage_error", f"{what} (state directory {home})", f"It said: {tail}" if tail else empty)


def _is_full(home: str) -> bool:
    try:
        disk = os.statvfs(home)
    except OSError:
        return False
    return not disk.f_bavail or bool(disk.f_files and not disk.f_favail)
