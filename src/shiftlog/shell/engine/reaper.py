"""The small parent of one shell: it adopts every orphan below it, holds the shell's descriptors, and ends them all.

Run by path as its own program (`python -I -S reaper.py FD ENVIRONMENT DIRECTORY… -- COMMAND…`), with built-in modules
alone: each shell pays for its memory. The command's environment comes in a descriptor: an agent chose it, and its
LD_PRELOAD must not act here, before the mark is set. The reaper reports exits on its socket (`exit PID STATUS`). The
line `close` ends the whole tree, and so does the end of the socket, unless the server has sent `hold`: then the shell
waits for the next server. At the end it removes the directories, because there may be no server any more. The process
table for the engine's signals is here too.
"""

from __future__ import annotations

import _socket
import ctypes
import os
import select
import sys
import time

TYPE_CHECKING = False  # of `typing`, which would take half a megabyte
if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_RLIMIT_LOCKS = 10
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_POLITE_S = 0.3
_SO_PEERPIDFD = 77
_ENOPROTOOPT = 92
_CLOEXEC = 0x40000000  # of recvmsg
_MESSAGE_BYTES = 65536
_FDS_AT_ONCE = 100
_FDS_BYTES = _socket.CMSG_SPACE(4 * _FDS_AT_ONCE)
_EXITS_KEPT = 4096
_IGNORED = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP, _signal.SIGQUIT, _signal.SIGTSTP, _signal.SIGUSR1)
_DEEPEST = 1000
_BOOT_TICKS = 100 if not hasattr(os, "sysconf") else os.sysconf("SC_CLK_TCK")


class Process:
    """One line of the process table; `started` counts clock ticks since the machine started."""

    __slots__ = ("group", "parent", "pid", "session", "started", "zombie")

    def __init__(self, pid: int, fields: list[bytes]) -> None:
        self.pid = pid
        self.zombie = fields[0] in (b"Z", b"X")
        self.parent = int(fields[1])
        self.group = int(fields[2])
        self.session = int(fields[3])
        self.started = int(fields[19])


def ticks_now() -> int:
    """Return the machine's uptime in the clock ticks of the process table."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * _BOOT_TICKS)


def process_table() -> dict[int, Process]:
    """Read every process of this machine."""
    table: dict[int, Process] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - importing pathlib costs more than the rest of this program
        if not name.isdigit():
            continue
        try:
            fd = os.open(f"/proc/{name}/stat", os.O_RDONLY)
        except OSError:
            continue
        try:
            line = os.read(fd, 4096)
        except OSError:
            continue
        finally:
            os.close(fd)
        table[int(name)] = Process(int(name), line[line.rindex(b")") + 2 :].split())
    return table


def below(root: int, table: dict[int, Process]) -> list[Process]:
    """Return the living descendants of a process, nearest first."""
    children: dict[int, list[Process]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    waiting = [root]
    while waiting:
        for process in children.get(waiting.pop(0), []):
            waiting.append(process.pid)
            if not process.zombie:
                found.append(process)
    return found


def descends(pid: int, root: int) -> bool:
    """Return True if a process is below another one."""
    at = pid
    for _ in range(_DEEPEST):
        above = _parent(at)
        if above == root:
            return True
        if above == 0 or (above is None and at == pid):
            return False
        at = pid if above is None else above  # one in between ended, and its child has another parent now
    return False


def _parent(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - as above
            return int(file.read(4096).rpartition(b")")[2].split(None, 2)[1])
    except OSError:
        return None


def send(pid: int, number: int) -> bool:
    """Send a signal, to a whole group by its negated number; return True if the process exists."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def main(argv: list[str]) -> int:
    """Start the command and stay until its whole tree is gone."""
    channel = _socket.socket(fileno=int(argv[0]))
    os.set_inheritable(channel.fileno(), False)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    outside = _read_mark("self")
    mark(libc)
    # Not dumpable: a program of the same user must not reach the descriptors that are held here.
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    wake_out, wake_in = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    _signal.signal(_signal.SIGCHLD, _wake)
    _signal.set_wakeup_fd(wake_in, warn_on_full_buffer=False)
    for number in _IGNORED:
        _signal.signal(number, _signal.SIG_IGN)
    directories, command = argv[2 : argv.index("--")], argv[argv.index("--") + 1 :]
    pid = _start(libc, command, int(argv[1]))
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    holder = _Holder(channel, pid, outside)
    holder.tell(f"started {pid} {os.getpid()}\n")
    holder.serve(wake_out)
    ended = _end_tree(holder)
    for directory in (*directories, *holder.directories):
        remove_tree(directory)
    holder.tell(f"gone {ended}\n")
    return 0


class _Holder:
    """The descriptors of the shell, and the server that uses them: the present one, or the next one.

    A server that goes away leaves the shell as it is, if it has sent `hold`. The next one comes to the door, a socket
    in the state directory, and gets everything. Output waits in its pipes meanwhile.
    """

    def __init__(self, channel: _socket.socket | None, child: int, outside: tuple[int, int] | None) -> None:
        self._channel = channel
        self._started = f"started {child} {os.getpid()}\n"
        self._outside = outside  # the mark of processes that are not inside a shell
        self._kept: dict[str, int] = {}
        self._exits: dict[int, int] = {}
        self._hold_s = 0.0
        self._until = 0.0  # when a shell without a server ends
        self._door: _socket.socket | None = None
        self.directories: list[str] = []

    def serve(self, wake: int) -> None:
        """Answer the server until the shell must end."""
        while True:
            if self._channel is None:
                left_s = self._until - time.monotonic()
                if left_s <= 0 or self._door is None:
                    return
                ready, _, _ = select.select([self._door, wake], [], [], left_s)
            else:
                ready, _, _ = select.select([self._channel, wake], [], [])
            if wake in ready:
                os.read(wake, 4096)
                reap(self)
            if self._channel is not None and self._channel in ready:
                if not self._hear(self._channel):
                    return
            elif self._door is not None and self._door in ready:
                self._let_in(self._door)

    def note_exit(self, pid: int, status: int) -> None:
        """Tell the server of an exit, and remember it for the next server."""
        self._exits.pop(pid, None)
        self._exits[pid] = status
        if len(self._exits) > _EXITS_KEPT:
            del self._exits[next(iter(self._exits))]
        self.tell(f"exit {pid} {status}\n")

    def tell(self, line: str) -> None:
        """Send a line to the server, if there is one."""
        if self._channel is not None:
            try:
                self._channel.sendall(line.encode())
            except OSError:
                pass

    def _hear(self, channel: _socket.socket) -> bool:
        """Take a message of the server; return False if the shell must end."""
        try:
            data, extra, _, _ = channel.recvmsg(_MESSAGE_BYTES, _FDS_BYTES, _CLOEXEC)
        except OSError:
            data, extra = b"", []
        fds: list[int] = []
        for _level, kind, content in extra:
            if kind == _socket.SCM_RIGHTS:
                fds += [int.from_bytes(content[at : at + 4], sys.byteorder) for at in range(0, len(content) - 3, 4)]
        if not data:
            self._channel, self._until = None, time.monotonic() + self._hold_s
            channel.close()
            return self._hold_s > 0
        for line in data.splitlines():
            word, *names = line.decode().split("\t")
            if word == "close":
                return False
            if word == "keep":
                for name in names:
                    self._drop(name)
                    self._kept[name] = fds.pop(0)
            elif word == "drop":
                for name in names:
                    self._drop(name)
            elif word == "hold":
                self._hold(float(names[0]), names[1])
        for fd in fds:
            os.close(fd)
        return True

    def _hold(self, seconds: float, directory: str) -> None:
        """Stay for so long without a server; the door is in the directory, which is removed at the end."""
        self._hold_s, self.directories = seconds, [directory]
        fd = self._kept.pop("door", None)
        if fd is not None:
            self._door = _socket.socket(fileno=fd)
            self._door.listen(1)

    def _drop(self, name: str) -> None:
        fd = self._kept.pop(name, None)
        if fd is not None:
            os.close(fd)

    def _let_in(self, door: _socket.socket) -> None:
        """Hand everything to the next server; a process inside a shell is none."""
        try:
            fd = int(_accept(door)[0])
        except OSError:
            return
        channel = _socket.socket(fileno=fd)
        if not self._is_server(channel):
            channel.close()
            return
        self._channel = channel
        try:
            names = list(self._kept)
            for at in range(0, len(names), _FDS_AT_ONCE):
                some = names[at : at + _FDS_AT_ONCE]
                fds = b"".join(self._kept[name].to_bytes(4, sys.byteorder) for name in some)
                rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fds)]
                channel.sendmsg(["\t".join(("held", *some)).encode() + b"\n"], rights)
            channel.sendall(self._started.encode())
            for pid, status in self._exits.items():
                channel.sendall(f"exit {pid} {status}\n".encode())
            channel.sendall(b"all\n")
        except OSError:
            pass  # it went away again, which the next look at the channel shows

    def _is_server(self, channel: _socket.socket) -> bool:
        """Return True if a process of this user that is not inside a shell has connected, and lives."""
        raw = channel.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
        pid, uid = (int.from_bytes(raw[at : at + 4], sys.byteorder) for at in (0, 4))
        mark = _read_mark(pid)
        if uid != os.geteuid() or mark is None or self._outside is None:
            return False
        if mark[0] < self._outside[0] or (uid == 0 and mark[1] > self._outside[1]):
            return False
        try:
            pidfd = int.from_bytes(channel.getsockopt(_socket.SOL_SOCKET, _SO_PEERPIDFD, 4), sys.byteorder)
        except OSError as error:
            return error.errno == _ENOPROTOOPT  # a kernel before 6.5 cannot tell
        ended = select.select([pidfd], [], [], 0)[0]
        os.close(pidfd)
        return not ended


def _accept(door: _socket.socket) -> tuple[int, object]:
    """Accept a connection; `accept` itself only the larger module has."""
    return door._accept()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]


def _read_mark(pid: int | str) -> tuple[int, int] | None:
    """Return the hard limit of file locks and the number of seccomp filters of a process; None if it is gone."""
    try:
        with open(f"/proc/{pid}/limits", "rb") as limits, open(f"/proc/{pid}/status", "rb") as status:  # noqa: PTH123
            hard = limits.read().partition(b"Max file locks")[2].split(None, 2)[1]
            text = status.read()
    except (OSError, IndexError):
        return None
    filters = text.partition(b"Seccomp_filters:")[2] or text.partition(b"Seccomp:")[2] or b"0"
    return (1 << 64 if hard == b"unlimited" else int(hard)), int(filters.split(None, 1)[0])


def mark(libc: ctypes.CDLL) -> None:
    """Mark this process and all its descendants, one step further; `link.processes` reads the mark.

    A lower hard limit of file locks, which no kernel since 2.4 uses, can never be raised again by an ordinary user.
    Root could raise it, so root gets an empty seccomp filter as well, which no process can remove. One step means a
    process of ours that serves shells, two steps mean inside a shell: no process inside can look like one of ours.
    """
    limits = (ctypes.c_uint64 * 2)()
    libc.getrlimit(_RLIMIT_LOCKS, ctypes.byref(limits))
    lower = max(min(limits[1], 1 << 62) - 1, 0)
    libc.setrlimit(_RLIMIT_LOCKS, ctypes.byref((ctypes.c_uint64 * 2)(lower, lower)))
    number = _SECCOMP.get(os.uname().machine)
    if number is not None and os.geteuid() == 0:
        allow = ctypes.c_uint64(0x7FFF0000 << 32 | 0x06)  # one instruction: return ALLOW
        program = (ctypes.c_uint64 * 2)(1, ctypes.addressof(allow))
        libc.syscall(number, 1, 1 << 2, ctypes.byref(program))  # SET_MODE_FILTER, SPEC_ALLOW


def remove_tree(directory: str) -> None:
    """Remove a directory with all that is in it, never what a link leads to; its programs chose depth and modes."""
    try:
        top = _own_directory(directory)
    except OSError:
        return
    try:
        while names := os.listdir(top):  # noqa: PTH208 - as above
            for name in names:
                _remove_entry(name, top)
        os.rmdir(directory)  # noqa: PTH106 - as above
    except OSError:
        pass
    finally:
        os.close(top)


def _remove_entry(name: str, top: int) -> None:
    """Remove one entry of the top directory; what is deeper comes up to it, so that depth costs no descriptors."""
    if _unlinked(name, top):
        return
    inner = _own_directory(name, top)
    try:
        for below_it in os.listdir(inner):  # noqa: PTH208 - as above
            if not _unlinked(below_it, inner):
                os.close(_own_directory(below_it, inner))
                os.rename(below_it, os.urandom(8).hex(), src_dir_fd=inner, dst_dir_fd=top)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=top)


def _unlinked(name: str, above: int) -> bool:
    """Remove an entry unless it is a directory."""
    try:
        os.unlink(name, dir_fd=above)
    except (IsADirectoryError, PermissionError):
        return False
    return True


def _own_directory(name: str, above: int | None = None) -> int:
    """Open a directory, never a link to one, and give its owner all rights to it."""
    flags = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        opened = os.open(name, os.O_RDONLY | flags, dir_fd=above)
    except PermissionError:
        place = os.open(name, os.O_PATH | flags, dir_fd=above)
        try:
            os.chmod(f"/proc/self/fd/{place}", 0o700)  # noqa: PTH101 - as above
            opened = os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        finally:
            os.close(place)
    os.fchmod(opened, 0o700)
    return opened


def _wake(number: int, frame: object) -> None:
    """Do nothing: the byte on the wake-up pipe is enough."""


def _start(libc: ctypes.CDLL, command: list[str], variables: int) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid:
        os.close(variables)
        return pid
    try:
        os.setsid()
        mark(libc)
        libc.prctl(_PR_SET_PDEATHSIG, _signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(127)
        _signal.set_wakeup_fd(-1)
        for number in range(1, _signal.NSIG):
            if number not in (_signal.SIGKILL, _signal.SIGSTOP):
                try:
                    _signal.signal(number, _signal.SIG_DFL)
                except (OSError, ValueError):
                    pass
        os.execvpe(command[0], command, _read_environment(variables))
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    os._exit(127)


def _read_environment(fd: int) -> dict[bytes, bytes]:
    with open(fd, "rb") as file:
        pairs = (line.partition(b"=") for line in file.read().split(b"\0") if line)
        return {name: value for name, _, value in pairs}


def reap(holder: _Holder) -> bool:
    """Collect all processes that have exited; return True if others are left."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
        holder.note_exit(pid, status)


def _end_tree(holder: _Holder) -> int:
    """Ask all processes below to end, then kill them; return how many there were."""
    ended: set[int] = set()
    me = os.getpid()
    begun = time.monotonic()
    number = _signal.SIGHUP
    while reap(holder):
        for process in below(me, process_table()):
            if process.pid not in ended or number == _signal.SIGKILL:
                send(process.pid, number)
                if number != _signal.SIGKILL:
                    send(process.pid, _signal.SIGTERM)
                    send(process.pid, _signal.SIGCONT)
            ended.add(process.pid)
        time.sleep(0.003)
        if time.monotonic() - begun > _POLITE_S:
            number = _signal.SIGKILL
    return len(ended)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
