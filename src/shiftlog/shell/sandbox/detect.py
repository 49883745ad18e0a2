"""Detects what this machine's kernel offers, by installing each mechanism in a child process and using it.

Asking is not enough: a container's filter or a security module may refuse an announced feature. The trials fork, so
they run in a process of their own, not in a daemon with threads.
"""

import array
import errno
import functools
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from shiftlog.shell.sandbox import kernel, landlock, launcher, seccomp, tracing
from shiftlog.shell.sandbox.notify import Listener
from shiftlog.shell.sandbox.processes import ProcessMemory

_PROBE_S = 5.0
_DESCENDANTS_ONLY = 1  # of ptrace_scope
_CAP_SYS_PTRACE = 19


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The mechanisms that can be enforced here; `why` gives the reason for each missing mechanism."""

    landlock_abi: int
    seccomp: bool
    exec_broker: bool
    filter_flags: int
    supervisor_process: bool
    bwrap: str | None
    why: dict[str, str]
    own_terminals: bool = False
    traces: bool = False
    takes_sockets: bool = False

    @property
    def any_kernel(self) -> bool:
        """True if at least one of the two mechanisms works."""
        return self.exec_broker or self.landlock_abi > 0


@functools.cache
def detect() -> Capabilities:
    """Try every mechanism once and cache the result."""
    if not kernel.NUMBERS:
        return _nothing(f"{sys.platform} on {kernel.MACHINE or 'this machine'} has no kernel rules of ours")
    command = [sys.executable, "-I", "-m", "shiftlog.shell.sandbox.detect"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=6 * _PROBE_S, check=True)
        return Capabilities(**json.loads(done.stdout))
    except (OSError, subprocess.SubprocessError, ValueError) as problem:
        return _nothing(f"the trial of the kernel's mechanisms failed ({problem})")


def programs_may_change_their_shell() -> bool:
    """Return True unless the kernel keeps programs of this user from writing into the memory of their parents."""
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        scope = int(Path("/proc/sys/kernel/yama/ptrace_scope").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return True
    # A program that root starts gets all that the bounding set permits.
    held = status.partition("CapEff:" if os.geteuid() else "CapBnd:")[2].split(None, 1)[0]
    return scope < _DESCENDANTS_ONLY or bool(int(held, 16) >> _CAP_SYS_PTRACE & 1)


def _nothing(reason: str) -> Capabilities:
    why = {name: reason for name in ("landlock", "seccomp", "exec_broker", "bwrap")}  # noqa: C420
    return Capabilities(
        landlock_abi=0, seccomp=False, exec_broker=False, filter_flags=0, supervisor_process=False, bwrap=None, why=why
    )


def main() -> None:
    """Try every mechanism and print the result as JSON."""
    why: dict[str, str] = {}
    flags, abi = _try_broker(why), _try_landlock(why)
    found = Capabilities(
        landlock_abi=abi,
        seccomp=_try_filter(why),
        exec_broker=flags is not None,
        filter_flags=flags or 0,
        supervisor_process=_may_read_any_process(),
        bwrap=_try_bwrap(why, alone=not abi),
        why=why,
        own_terminals=_try_terminals(why),
        traces=_try_with_child(tracing.seize, "tracing", "a program cannot be followed while it starts", why),
        takes_sockets=_try_with_child(_take_first, "sockets", "a socket cannot be taken from a program", why),
    )
    sys.stdout.write(json.dumps(asdict(found)))


def _in_child(work: Callable[[], int | None]) -> int:
    """Run work in a forked child and return its exit status."""
    child = os.fork()
    if child == 0:
        status = 255
        try:
            status = work() or 0
        except OSError as problem:
            status = min(problem.errno or 254, 254)
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def _try_landlock(why: dict[str, str]) -> int:
    abi = kernel.landlock_abi()
    if not abi:
        why["landlock"] = "the kernel has no Landlock, or it is not among the active security modules"
        return 0

    def confine() -> int:
        plan = landlock.make_plan(landlock.FileRules(abi=abi, confined=True))
        files, network, scoped, _ = plan.ruleset
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        ruleset = kernel.Ruleset(files=files, network=network, scoped=scoped, abi=abi)
        ruleset.grant("/", landlock.EXECUTE)
        ruleset.apply()
        try:
            os.close(os.open("/dev/full", os.O_WRONLY))
        except OSError as problem:
            return 0 if problem.errno == errno.EACCES else 253
        return 252  # the rule was accepted but has no effect

    status = _in_child(confine)
    if status:
        why["landlock"] = f"Landlock is there but could not be applied ({_reason(status)})"
        return 0
    return abi


def _try_filter(why: dict[str, str]) -> bool:
    def refuse_sockets() -> int:
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        kernel.install_filter(seccomp.build(seccomp.FilterOptions(broker=False, network=False)))
        try:
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()
        except OSError as problem:
            return 0 if problem.errno == errno.EACCES else 253
        return 252

    status = _in_child(refuse_sockets)
    if status:
        why["seccomp"] = f"a seccomp filter could not be applied ({_reason(status)})"
    return not status


def _try_broker(why: dict[str, str]) -> int | None:
    """Return the best filter flags that work; None if notifications are not available."""
    reason = ""
    for extra in (kernel.FILTER_FLAG_WAIT_KILLABLE_RECV, 0):
        flags = kernel.FILTER_FLAG_NEW_LISTENER | extra
        reason = _try_notification(flags)
        if not reason:
            return flags
    why["exec_broker"] = reason
    return None


def _try_notification(flags: int) -> str:
    """Install a filter in a child and answer one start of it; return the failure, empty on success."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        _be_probed(theirs, flags)
    theirs.close()
    fd = -1
    try:
        ours.settimeout(_PROBE_S)
        data, ancillary, _flags, _address = ours.recvmsg(1, socket.CMSG_SPACE(4))
        if data != b"L":
            return f"a notification filter could not be installed ({_reason(data[0] if data else 255)})"
        received = array.array("i")
        received.frombytes(ancillary[0][2][:4])
        fd = received[0]
        return _answer_probe(fd, child)
    except (OSError, IndexError) as problem:
        return f"a notification could not be answered ({problem})"
    finally:
        if fd >= 0:
            os.close(fd)
        ours.close()
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _be_probed(channel: socket.socket, flags: int) -> None:
    try:
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        listener = kernel.install_filter(seccomp.build(seccomp.FilterOptions(broker=True)), flags=flags)
        socket.send_fds(channel, [b"L"], [listener])
        os.close(listener)
        try:
            os.execv("/nonexistent/shiftlog-probe", ["probe"])
        except OSError as problem:
            channel.send(b"Y" if problem.errno == errno.EBADMSG else b"N")
        signal.pause()
    except OSError as problem:
        channel.send(bytes([min(problem.errno or 255, 255)]))
    finally:
        os._exit(0)


def _answer_probe(fd: int, child: int) -> str:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    if not poll.poll(_PROBE_S * 1000):
        return "a notification was never delivered"
    listener = Listener(fd)
    call = listener.receive()
    if call is None or call.pid != child:
        return "a notification was lost"
    memory = ProcessMemory(call.pid)
    try:
        path = memory.path(call.args[0])
    finally:
        memory.close()
    if not path.endswith(b"shiftlog-probe") or not listener.still_valid(call):
        return "a notification could not be read"
    listener.answer(call, errno.EBADMSG)
    return ""


def _may_read_any_process() -> bool:
    """Return True if a process may read any process of its user; some machines permit only ancestors."""
    reader, writer = os.pipe()
    other = os.fork()
    if other == 0:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    os.close(reader)

    def look() -> int:
        ProcessMemory(other).close()
        return 0

    try:
        return _in_child(look) == 0
    finally:
        os.close(writer)
        os.waitpid(other, 0)


def _try_with_child(work: Callable[[int], None], name: str, fault: str, why: dict[str, str]) -> bool:
    """Try something on a child process that waits."""
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    try:
        work(child)
    except OSError as problem:
        why[name] = f"{fault} ({problem.strerror})"
        return False
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return True


def _take_first(child: int) -> None:
    pidfd = os.pidfd_open(child)
    os.close(kernel.syscall("pidfd_getfd", pidfd, 1, 0))
    os.close(pidfd)


def _try_bwrap(why: dict[str, str], *, alone: bool) -> str | None:
    """Return the path of bubblewrap if it works.

    Where it is `alone`, without Landlock, its mounts hold only if the roots of other processes are out of reach: a
    set-uid bubblewrap makes no user namespace, and then the kernel shows them below /proc.
    """
    path = shutil.which("bwrap", path="/usr/local/bin:/usr/bin:/bin")
    if path is None:
        why["bwrap"] = "bubblewrap is not installed"
        return None
    mounts = ["--ro-bind", "/", "/", "--dev-bind", "/dev", "/dev", "--tmpfs", "/run"]
    look = f"! test -e /proc/{os.getpid()}/root/." if alone else ":"
    command = [path, "--unshare-ipc", *mounts, "/bin/sh", "-c", look]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_PROBE_S, check=False, env={})
    except (OSError, subprocess.TimeoutExpired) as problem:
        why["bwrap"] = f"bubblewrap does not work here ({problem})"
        return None
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or [
            "without Landlock and a user namespace, other processes' files stay in reach below /proc"
        ]
        why["bwrap"] = f"bubblewrap does not work here ({last[0]})"
        return None
    return str(Path(path).resolve())


def _try_terminals(why: dict[str, str]) -> bool:
    def use_one() -> int:
        launcher.make_own_terminals()
        ours = os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)
        return 0 if os.listdir("/dev/pts") and ours else 252

    status = _in_child(use_one)
    if status:
        why["terminals"] = f"a shell cannot get terminals of its own ({_reason(status)})"
    return not status


def _reason(status: int) -> str:
    if status == 252:
        return "it does not hold"
    return os.strerror(status) if 0 < status < 200 else f"status {status}"


if __name__ == "__main__":
    main()
