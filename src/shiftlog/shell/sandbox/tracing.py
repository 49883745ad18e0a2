"""Follows an allowed start until the kernel has loaded the program, and compares it with what was judged.

The kernel reads path and arguments again after the broker's answer. The supervisor traces the caller for that moment:
the kernel stops it before the new program's first instruction, where image and arguments cannot change any more.
"""

import ctypes
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from shiftlog.shell.sandbox import kernel

_SEIZE, _INTERRUPT, _DETACH, _EVENT_MESSAGE = 0x4206, 0x4207, 17, 0x4201
_STOP_AT_EXEC, _KILL_WITH_TRACER = 1 << 4, 1 << 20
_LOADED = signal.SIGTRAP | 4 << 8  # PTRACE_EVENT_EXEC
_OWN_TRACEES = 0x40000000 | 0x20000000  # __WALL, __WNOTHREAD
_FAILED_AFTER_S = 0.5

_ptrace = kernel.libc.ptrace
_ptrace.restype = ctypes.c_long
_ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


@dataclass(slots=True)
class _Followed:
    check: Callable[[int], bool]
    since: float


class Tracer:
    """The starts that are allowed but not loaded yet; all calls come from one thread."""

    def __init__(self) -> None:
        self._followed: dict[int, _Followed] = {}

    @property
    def busy(self) -> bool:
        """Return True if any start is followed."""
        return bool(self._followed)

    def follow(self, thread: int, check: Callable[[int], bool]) -> None:
        """Call `check` with the process once its program is loaded, and kill it if that returns False.

        Raises `OSError` if the thread cannot be traced.
        """
        if thread not in self._followed:
            seize(thread)
        self._followed[thread] = _Followed(check, time.monotonic())

    def collect(self) -> None:
        """Take all processes that have stopped or ended since."""
        while self._followed:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | _OWN_TRACEES)
            except ChildProcessError:
                self._followed.clear()
                return
            if not pid:
                self._give_up()
                return
            if not os.WIFSTOPPED(status):
                self._followed.pop(pid, None)
            elif status >> 8 == _LOADED:
                self._loaded(pid)
            else:
                self._left(pid, status)

    def _loaded(self, pid: int) -> None:
        followed = self._followed.pop(_thread_before(pid), None)
        self._followed.pop(pid, None)
        try:
            as_judged = followed is not None and followed.check(pid)
        except OSError:
            as_judged = False
        if as_judged:
            detach(pid)
        else:
            # Followed until its end: its parent learns of that only after us.
            self._followed[pid] = _Followed(lambda _: False, time.monotonic())
            os.kill(pid, signal.SIGKILL)

    def _left(self, pid: int, status: int) -> None:
        """Let a process go that stopped for another reason: it started nothing, and asks again before it does."""
        self._followed.pop(pid, None)
        is_signal = status >> 16 == 0
        detach(pid, os.WSTOPSIG(status) if is_signal else 0)

    def _give_up(self) -> None:
        """Stop those that started nothing for a while, because the kernel refused; `_left` lets them go."""
        before = time.monotonic() - _FAILED_AFTER_S
        for pid, followed in self._followed.items():
            if followed.since < before:
                _ptrace(_INTERRUPT, pid, None, None)


def _thread_before(pid: int) -> int:
    """Return the thread that started a program; from then on it has the pid of its process."""
    thread = ctypes.c_ulong(pid)
    _ptrace(_EVENT_MESSAGE, pid, None, ctypes.byref(thread))
    return thread.value


def stops() -> int:
    """Return a descriptor that can be read when a followed process has stopped, for a process without other threads."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    chosen = ctypes.c_uint64(1 << signal.SIGCHLD - 1)
    return kernel.syscall("signalfd4", -1, ctypes.byref(chosen), 8, os.O_NONBLOCK | os.O_CLOEXEC)


def seize(pid: int) -> None:
    """Trace a process without stopping it; raises `OSError`."""
    if _ptrace(_SEIZE, pid, None, _STOP_AT_EXEC | _KILL_WITH_TRACER) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"ptrace: {os.strerror(code)}")


def detach(pid: int, number: int = 0) -> None:
    """Let a stopped process go on, with a signal if a number is given."""
    _ptrace(_DETACH, pid, None, number)
