"""The program that runs before a sandboxed shell: applies a launch plan to itself and becomes the shell.

It starts with a clean environment, so that nothing an agent chose (LD_PRELOAD, PYTHONPATH) acts before the rules. Any
failure ends it with status 125 and one line on standard error: a shell never starts half-guarded.
"""

import ctypes
import os
import sys
from _socket import AF_UNIX, SCM_RIGHTS, SOCK_STREAM, SOL_SOCKET, socket

from shiftlog.shell.sandbox import kernel
from shiftlog.shell.sandbox.plan import LaunchPlan, decode

FAILED_STATUS = 125
_LAST_CAPABILITY = 63
_SIGPIPE, _SIGXFSZ = 13, 25
_RLIMIT_CORE = 4


def main() -> None:
    """Apply the plan in the descriptor of the first argument and start its program."""
    try:
        plan = _read_plan(int(sys.argv[1]))
        _restore_signals()
        _limit()
        if plan.keep_capabilities is not None:
            _drop_capabilities(plan.keep_capabilities)
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        _restrict_files(plan)
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


def _restore_signals() -> None:
    # Python ignores these signals, and the shell and its children would inherit that.
    kernel.libc.signal(_SIGPIPE, None)
    kernel.libc.signal(_SIGXFSZ, None)


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
    for access, path in plan.rules:
        ruleset.grant(path, access)  # a path that is gone by now needs no right
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
