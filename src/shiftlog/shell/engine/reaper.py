"""The small parent of one shell: it adopts every orphan below it, and ends them all when told to or when left alone.

Run by path as its own program (`python -I -S reaper.py FD DIRECTORY -- COMMAND…`), with the standard library alone.
It reports exits on its socket (`exit PID STATUS`); the line `close`, or the end of the socket, ends the whole tree.
The process table for the engine's signals is here too.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import sys
import time

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_RLIMIT_LOCKS = 10
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_POLITE_S = 0.3
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
    channel = socket.socket(fileno=int(argv[0]))
    channel.set_inheritable(False)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    _mark(libc)
    wake_out, wake_in = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.signal(signal.SIGCHLD, _wake)
    signal.set_wakeup_fd(wake_in, warn_on_full_buffer=False)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    pid = _start(libc, argv[argv.index("--") + 1 :])
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    _tell(channel, f"started {pid} {os.getpid()}\n")
    _serve(channel, wake_out)
    ended = _end_tree(channel)
    _remove(argv[1])
    _tell(channel, f"gone {ended}\n")
    return 0


def _mark(libc: ctypes.CDLL) -> None:
    """Mark this process and all its descendants as inside a shell; `link.processes.is_marked` reads the mark.

    A lower hard limit of file locks, which no kernel since 2.4 uses, can never be raised again by an ordinary user.
    Root could raise it, so root gets an empty seccomp filter as well, which no process can remove.
    """
    limits = (ctypes.c_uint64 * 2)()
    libc.getrlimit(_RLIMIT_LOCKS, ctypes.byref(limits))
    lower = min(limits[1], 1 << 62) - 1
    libc.setrlimit(_RLIMIT_LOCKS, ctypes.byref((ctypes.c_uint64 * 2)(lower, lower)))
    number = _SECCOMP.get(os.uname().machine)
    if number is not None and os.geteuid() == 0:
        allow = ctypes.c_uint64(0x7FFF0000 << 32 | 0x06)  # one instruction: return ALLOW
        program = (ctypes.c_uint64 * 2)(1, ctypes.addressof(allow))
        libc.syscall(number, 1, 1 << 2, ctypes.byref(program))  # SET_MODE_FILTER, SPEC_ALLOW


def _remove(directory: str) -> None:
    """Remove the shell's flat private directory, never what a link in its place leads to; a killed server cannot."""
    try:
        opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        for name in os.listdir(opened):  # noqa: PTH208 - as above
            os.unlink(name, dir_fd=opened)
        os.rmdir(directory)  # noqa: PTH106 - as above
    except OSError:
        pass
    finally:
        os.close(opened)


def _wake(number: int, frame: object) -> None:
    """Do nothing: the byte on the wake-up pipe is enough."""


def _start(libc: ctypes.CDLL, command: list[str]) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(127)
        signal.set_wakeup_fd(-1)
        for number in range(1, signal.NSIG):
            if number not in (signal.SIGKILL, signal.SIGSTOP):
                try:
                    signal.signal(number, signal.SIG_DFL)
                except (OSError, ValueError):
                    pass
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    os._exit(127)


def _serve(channel: socket.socket, wake: int) -> None:
    while True:
        ready, _, _ = select.select([channel, wake], [], [])
        if wake in ready:
            os.read(wake, 4096)
            _reap(channel)
        if channel in ready:
            try:
                word = channel.recv(4096)
            except OSError:
                return
            if not word or b"close" in word:
                return


def _reap(channel: socket.socket) -> bool:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
        _tell(channel, f"exit {pid} {status}\n")


def _tell(channel: socket.socket, line: str) -> None:
    try:
        channel.sendall(line.encode())
    except OSError:
        pass


def _end_tree(channel: socket.socket) -> int:
    """Ask all processes below to end, then kill them; return how many there were."""
    ended: set[int] = set()
    me = os.getpid()
    begun = time.monotonic()
    number = signal.SIGHUP
    while _reap(channel):
        for process in below(me, process_table()):
            if process.pid not in ended or number == signal.SIGKILL:
                send(process.pid, number)
                if number != signal.SIGKILL:
                    send(process.pid, signal.SIGTERM)
                    send(process.pid, signal.SIGCONT)
            ended.add(process.pid)
        time.sleep(0.003)
        if time.monotonic() - begun > _POLITE_S:
            number = signal.SIGKILL
    return len(ended)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
