"""An attacker inside a shell that reaches for what is outside; prints the names of the ways that worked, as JSON.

Run as `python reaching.py PID FILE KEYS`: a process that is not the attacker's, a file that it may not change, and the
JSON of what others share by number or name. Every way works where nothing guards; a test says so.
"""

import array
import ctypes
import fcntl
import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
# x86_64, aarch64
NUMBERS = {
    "shmat": (30, 196), "semctl": (66, 191), "msgrcv": (70, 188), "mq_open": (240, 180), "keyctl": (250, 219),
    "process_vm_readv": (310, 270), "pidfd_getfd": (438, 438), "open_tree": (428, 428), "move_mount": (429, 429),
    "io_uring_setup": (425, 425), "ptrace": (101, 117),
}  # fmt: skip
GET_FLAGS, SET_FLAGS, NO_DUMP = 0x80086601, 0x40086602, 0x40
SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17
NEW_USER, NEW_MOUNTS = 0x10000000, 0x20000
BIND = 4096


@dataclass(frozen=True, slots=True)
class Target:
    """A process that is not the attacker's, a file that it may not change, and what others share."""

    pid: int
    file: Path
    shared: dict[str, Any]


def call(name: str, *arguments: Any) -> int:
    """Make a raw system call; raise `OSError` if it fails."""
    number = NUMBERS[name][os.uname().machine == "aarch64"]
    wide = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    result = libc.syscall(ctypes.c_long(number), *wide)
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def signal_it(at: Target) -> None:
    os.kill(at.pid, signal.SIGUSR1)


def signal_by_descriptor(at: Target) -> None:
    signal.pidfd_send_signal(os.pidfd_open(at.pid), signal.SIGCONT)


def signal_by_pipe(at: Target) -> None:
    """Let the kernel send the signal, when a pipe of ours has data."""
    reader, writer = os.pipe()
    fcntl.fcntl(reader, fcntl.F_SETOWN, at.pid)
    fcntl.fcntl(reader, 10, signal.SIGUSR2)  # F_SETSIG
    fcntl.fcntl(reader, fcntl.F_SETFL, os.O_ASYNC)
    os.write(writer, b"x")
    for _ in range(100):
        if "USR2" in at.file.with_name("heard").read_text():
            return
        signal.sigtimedwait([signal.SIGALRM], 0.005)
    raise PermissionError("not heard")


def trace(at: Target) -> None:
    call("ptrace", SEIZE, at.pid, 0, 0)
    call("ptrace", INTERRUPT, at.pid, 0, 0)
    os.waitpid(at.pid, 0)
    call("ptrace", DETACH, at.pid, 0, 0)


def read_memory(at: Target) -> None:
    start = int(Path(f"/proc/{at.pid}/maps").read_text().partition("-")[0], 16)
    own = ctypes.create_string_buffer(8)
    local = (ctypes.c_void_p * 2)(ctypes.addressof(own), 8)
    remote = (ctypes.c_void_p * 2)(start, 8)
    call("process_vm_readv", at.pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)


def take_descriptor(at: Target) -> None:
    os.close(call("pidfd_getfd", os.pidfd_open(at.pid), 0, 0))


def write(path: str) -> None:
    with Path(path).open("r+b", buffering=0) as opened:
        opened.write(b"X")


def change_flags(at: Target) -> None:
    with at.file.open("rb") as opened:
        flags = array.array("l", [0])
        fcntl.ioctl(opened, GET_FLAGS, flags)
        fcntl.ioctl(opened, SET_FLAGS, array.array("l", [flags[0] ^ NO_DUMP]))


def limit(at: Target) -> None:
    soft, hard = resource.prlimit(at.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(at.pid, resource.RLIMIT_NOFILE, (soft - 1, hard))


def attach(at: Target) -> None:
    address = call("shmat", at.shared["memory"], 0, 0)
    if ctypes.string_at(address, 7) != b"outside":
        raise PermissionError("other memory")  # with a number of its own


def raise_semaphore(at: Target) -> None:
    call("semctl", at.shared["semaphores"], 0, 16, 7)  # SETVAL


def take_message(at: Target) -> None:
    call("msgrcv", at.shared["messages"], ctypes.create_string_buffer(64), 32, 0, 0o4000)


def open_queue(at: Target) -> None:
    os.close(call("mq_open", at.shared["queue"].encode(), os.O_RDWR, 0, 0))


def change_key(at: Target) -> None:
    call("keyctl", 2, at.shared["key"], b"changed", 7, 0)  # KEYCTL_UPDATE


def connect(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(path)


def send(at: Target) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.sendto(b"x", str(at.file.with_name("datagram")))


def in_child(work: Callable[[], None]) -> None:
    """Do something that cannot be undone in a process of its own; raise `OSError` if it fails."""
    child = os.fork()
    if not child:
        try:
            work()
        except BaseException:  # noqa: BLE001 — only the status leaves the child
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        raise PermissionError("failed in the child")


def leave() -> None:
    """Get mounts of our own, and with them the rights to mount."""
    if libc.unshare(NEW_USER | NEW_MOUNTS) != 0:
        raise PermissionError


def mount_over(at: Target) -> None:
    def work() -> None:
        leave()
        if libc.mount(b"/etc", os.fsencode(at.file.parent), None, BIND, None) != 0:
            raise PermissionError

    in_child(work)


def move_tree(at: Target) -> None:
    def work() -> None:
        leave()
        tree = call("open_tree", -100, b"/etc", 1)  # OPEN_TREE_CLONE
        call("move_mount", tree, b"", -100, os.fsencode(at.file.parent), 4)

    in_child(work)


def enter(at: Target) -> None:
    with Path(f"/proc/{at.pid}/ns/mnt").open("rb") as space:
        in_child(lambda: None if libc.setns(space.fileno(), 0) == 0 else os._exit(1))


def change_metadata_of_a_tree(at: Target) -> None:
    """Change a mode through a mount of our own, where the file has another path."""

    def work() -> None:
        leave()
        tree = call("open_tree", -100, os.fsencode(at.shared["mirror"]), 1)
        os.fchdir(tree)
        Path(at.shared["mirrored"]).chmod(0o640)

    in_child(work)


WAYS: dict[str, Callable[[Target], object]] = {
    "a signal": signal_it,
    "a signal by a descriptor of the process": signal_by_descriptor,
    "a signal when a pipe has data": signal_by_pipe,
    "tracing": trace,
    "its memory, by a call": read_memory,
    "its memory, as a file": lambda at: Path(f"/proc/{at.pid}/mem").open("r+b", buffering=0).close(),
    "its descriptors, by a call": take_descriptor,
    "its descriptors, as files": lambda at: write(f"/proc/{at.pid}/fd/9"),
    "its environment": lambda at: Path(f"/proc/{at.pid}/environ").read_bytes(),
    "its root": lambda at: write(f"/proc/{at.pid}/root{at.file}"),
    "its working directory": lambda at: write(f"/proc/{at.pid}/cwd/{at.file.name}"),
    "its mounts": enter,
    "its limits": limit,
    "shared memory": attach,
    "shared semaphores": raise_semaphore,
    "a message queue": take_message,
    "a message queue with a name": open_queue,
    "a key": change_key,
    "flags of a file": change_flags,
    "a socket": lambda at: connect(str(at.file.with_name("socket"))),
    "a socket below its root": lambda at: connect(f"/proc/{at.pid}/root{at.file.with_name('socket')}"),
    "a socket below its directory": lambda at: connect(f"/proc/{at.pid}/cwd/socket"),
    "a datagram": send,
    "an abstract socket": lambda at: connect("\0" + at.shared["abstract"]),
    "a mount over a directory": mount_over,
    "a mount that is moved": move_tree,
    "a mode below a mount of our own": change_metadata_of_a_tree,
    "a ring of calls": lambda at: os.close(call("io_uring_setup", 4, ctypes.create_string_buffer(240))),
    "the mode of a device": lambda at: Path("/dev/zero").chmod(0o666),
}


def main() -> None:
    at = Target(int(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    worked: list[str] = []
    for name, way in WAYS.items():
        try:
            way(at)
        except (OSError, ValueError):
            continue
        worked.append(name)
    print(json.dumps(worked))


if __name__ == "__main__":
    main()
