"""The program that runs before a sandboxed shell: applies a launch plan to itself and becomes the shell.

The plan holds everything it must do, prepared by `launch`. Both ends run the same Python, so its format is `marshal`,
which is built in and costs no import.

It starts with a clean environment, so that nothing an agent chose (LD_PRELOAD, PYTHONPATH) acts before the rules. Any
failure ends it with status 125 and one line on standard error: a shell never starts half-guarded.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import sys
from _socket import AF_UNIX, SCM_RIGHTS, SOCK_STREAM, SOL_SOCKET, socket

from shiftlog.shell.sandbox import kernel

TYPE_CHECKING = False  # of `typing`; its import, and that of `collections`, would take a millisecond of each start
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

FAILED_STATUS = 125
_LAST_CAPABILITY = 63
_SIGPIPE, _SIGXFSZ = 13, 25
_RLIMIT_CORE = 4
_NEW_MOUNTS, _NEW_IPC, _NEW_USER = 0x20000, 0x8000000, 0x10000000
_RECURSIVE_SLAVE = 1 << 19 | 1 << 14
_NO_SETUID_NO_EXEC = 2 | 8
_READ_ONLY_AGAIN = 1 | 2 | 8 | 32 | 4096  # MS_REMOUNT and MS_BIND: of this one mount
_SHARED_DEVICES = (b"null", b"zero", b"full", b"random", b"urandom", b"tty")


class LaunchPlan:
    """The rules that are checked and applied, in this order: mounts, limits, capabilities, Landlock, seccomp, program.

    `places` are the writable mounts that bubblewrap was told to make, each with the descriptor of the directory that it
    must show; -1 for one that the sandbox made itself. None means that bubblewrap is not used.
    """

    __slots__ = ("arguments", "environment", "filter_flags", "filter_program", "keep_capabilities", "own_terminals",
                 "places", "program", "rules", "ruleset", "socket")  # fmt: skip

    def __init__(
        self,
        *,
        program: bytes = b"",
        arguments: Sequence[bytes] = (),
        environment: Mapping[bytes, bytes] | None = None,
        ruleset: tuple[int, int, int, int] | None = None,
        rules: Iterable[tuple[int, bytes | int]] = (),
        filter_program: bytes = b"",
        filter_flags: int = 0,
        socket: int = -1,
        keep_capabilities: int | None = None,
        places: Mapping[bytes, int] | None = None,
        own_terminals: bool = False,
    ) -> None:
        self.program = program
        self.arguments = list(arguments)
        self.environment = dict(environment or {})
        self.ruleset = ruleset
        self.rules = list(rules)
        self.filter_program = filter_program
        self.filter_flags = filter_flags
        self.socket = socket
        self.keep_capabilities = keep_capabilities
        self.places = None if places is None else dict(places)
        self.own_terminals = own_terminals


def encode(plan: LaunchPlan) -> bytes:
    """Write a plan for the launcher."""
    return marshal.dumps({name: getattr(plan, name) for name in LaunchPlan.__slots__})


def decode(data: bytes) -> LaunchPlan:
    """Read a plan; raise `ValueError` if it is incomplete or not a plan."""
    try:
        return LaunchPlan(**marshal.loads(data))  # noqa: S302 — the daemon wrote it into a private memory file
    except (EOFError, TypeError, ValueError) as error:
        raise ValueError(f"the launch plan cannot be read: {error}") from None


def main() -> None:
    """Apply the plan in the descriptor of the first argument and start its program."""
    try:
        plan = _read_plan(int(sys.argv[1]))
        # Python ignores these signals, and the shell and its children would inherit that.
        kernel.libc.signal(_SIGPIPE, None)
        kernel.libc.signal(_SIGXFSZ, None)
        if plan.places is not None:
            _check_mounts(plan.places)
            _keep_devices()
        if plan.own_terminals:
            make_own_terminals()
        _limit()
        if plan.keep_capabilities is not None:
            _drop_capabilities(plan.keep_capabilities)
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        _restrict_files(plan)
        _close_places(plan)
        _install_filter(plan)
        os.execve(plan.program, plan.arguments, plan.environment)
    except (OSError, ValueError) as problem:
        os.write(2, f"shiftlog: the sandbox could not be applied: {problem}\n".encode())
        os._exit(FAILED_STATUS)


def _read_plan(descriptor: int) -> LaunchPlan:
    chunks: list[bytes] = []
    while chunk := os.read(descriptor, 1 << 20):
        chunks.append(chunk)
    os.close(descriptor)
    return decode(b"".join(chunks))


def _check_mounts(places: Mapping[bytes, int]) -> None:
    """Refuse mounts that do not show the directories that were judged; a path may have been exchanged meanwhile."""
    for path, fd in places.items():
        if fd >= 0:
            meant, shown = os.fstat(fd), os.lstat(path)
            if (meant.st_dev, meant.st_ino) != (shown.st_dev, shown.st_ino):
                raise OSError(116, f"{os.fsdecode(path)} was replaced while the shell was opened")
    descriptor = os.open("/proc/self/mountinfo", os.O_RDONLY)
    chunks: list[bytes] = []
    while chunk := os.read(descriptor, 1 << 16):
        chunks.append(chunk)
    os.close(descriptor)
    for line in b"".join(chunks).splitlines():
        words = line.split(b" ")
        path = _unescaped(words[4])
        if not words[5].startswith(b"ro") and path not in places and _is_on(path, words[0]):
            raise OSError(116, f"{os.fsdecode(path)} became writable while the shell was opened")


def _keep_devices() -> None:
    """Keep root from changing modes and owners of the null devices, which are the machine's own.

    Bubblewrap could do it only so that they cannot be opened any more; on a read-only mount they can.
    """
    if os.geteuid() == 0:
        for name in _SHARED_DEVICES:
            _libc_call("mount", None, b"/dev/" + name, None, ctypes.c_ulong(_READ_ONLY_AGAIN), None)


def _is_on(path: bytes, mount: bytes) -> bool:
    """Return True if a path leads to this mount, and not to another one that covers it."""
    try:
        place = os.open(path, os.O_PATH)
    except OSError:
        return False
    facts = os.open(f"/proc/self/fdinfo/{place}", os.O_RDONLY)
    try:
        return os.read(facts, 4096).partition(b"mnt_id:")[2].split(None, 1)[0] == mount
    finally:
        os.close(facts)
        os.close(place)


def make_own_terminals() -> None:
    """Give this process and its descendants terminals of their own at /dev/pts, and shared memory; raises `OSError`."""
    user, group = os.geteuid(), os.getegid()
    _libc_call("unshare", _NEW_MOUNTS | _NEW_IPC | (_NEW_USER if user else 0))
    if user:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            descriptor = os.open(f"/proc/self/{name}", os.O_WRONLY)
            os.write(descriptor, text.encode())
            os.close(descriptor)
    _libc_call("mount", None, b"/", None, ctypes.c_ulong(_RECURSIVE_SLAVE), None)
    options = b"newinstance,ptmxmode=0666,mode=620"
    _libc_call("mount", b"devpts", b"/dev/pts", b"devpts", ctypes.c_ulong(_NO_SETUID_NO_EXEC), options)


def _libc_call(name: str, *arguments: object) -> None:
    if getattr(kernel.libc, name)(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")


def _close_places(plan: LaunchPlan) -> None:
    """Close the descriptors of directories: each leads out of the mounts."""
    granted = {place for _, place in plan.rules if isinstance(place, int)}
    for descriptor in granted.union((plan.places or {}).values()) - {-1}:
        os.close(descriptor)


def _unescaped(path: bytes) -> bytes:
    """Return a path of the mount table as it is."""
    parts = path.split(b"\\")
    return parts[0] + b"".join(bytes((int(part[:3], 8),)) + part[3:] for part in parts[1:])


def _limit() -> None:
    # A core dump would write a program's memory, including secrets, to a writable path.
    zero = (ctypes.c_ulong * 2)(0, 0)
    if kernel.libc.setrlimit(_RLIMIT_CORE, ctypes.byref(zero)) != 0:
        raise OSError(ctypes.get_errno(), "setrlimit")


def _drop_capabilities(keep: int) -> None:
    for number in range(_LAST_CAPABILITY + 1):
        if not keep >> number & 1:
            try:
                kernel.prctl(kernel.PR_CAPBSET_DROP, number)
            except OSError as problem:
                if problem.errno == 22:  # beyond the last one of this kernel
                    break
                raise
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    current = _permitted_capabilities() & keep
    low, high = current & 0xFFFFFFFF, current >> 32
    kernel.syscall("capset", ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)(low, low, 0, high, high, 0)))


def _permitted_capabilities() -> int:
    descriptor = os.open("/proc/self/status", os.O_RDONLY)
    try:
        for line in os.read(descriptor, 16384).splitlines():
            if line.startswith(b"CapPrm:"):
                return int(line.split()[1], 16)
    finally:
        os.close(descriptor)
    raise OSError(2, "no capabilities in /proc/self/status")


def _restrict_files(plan: LaunchPlan) -> None:
    if plan.ruleset is None:
        return
    files, network, scoped, abi = plan.ruleset
    ruleset = kernel.Ruleset(files=files, network=network, scoped=scoped, abi=abi)
    for access, place in plan.rules:
        if isinstance(place, int):
            ruleset.grant_opened(place, access)
        else:
            ruleset.grant(place, access)  # a path that is gone by now needs no right
    ruleset.apply()


def _install_filter(plan: LaunchPlan) -> None:
    if not plan.filter_program:
        return
    listener = kernel.install_filter(plan.filter_program, flags=plan.filter_flags)
    if not plan.filter_flags & kernel.FILTER_FLAG_NEW_LISTENER:
        return
    channel = socket(AF_UNIX, SOCK_STREAM, 0, fileno=plan.socket)
    channel.sendmsg([b"L"], [(SOL_SOCKET, SCM_RIGHTS, listener.to_bytes(4, sys.byteorder))])
    os.close(listener)
    if channel.recv(1) != b"K":
        raise OSError(32, "the supervisor went away")
    channel.close()


if __name__ == "__main__":
    main()
