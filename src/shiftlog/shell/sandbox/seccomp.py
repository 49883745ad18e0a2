"""Assembles seccomp programs: which calls go to the broker, which are refused; all others pass.

Pure: options in, bytes out. A filter sees numbers and registers, never memory, so a call whose verdict depends on a
path goes to the broker.
"""

import errno
import struct
from dataclasses import dataclass

from shiftlog.shell.sandbox import kernel

_LOAD, _EQUAL, _AT_LEAST, _SET, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _NOTIFY, _ERROR, _KILL = 0x7FFF0000, 0x7FC00000, 0x00050000, 0x80000000
_NUMBER_AT, _ARCH_AT, _ARGUMENTS_AT = 0, 4, 16
_AF_UNIX, _AF_NETLINK, _NETLINK_ROUTE = 1, 16, 0
_TYPE_BITS, _DATAGRAM, _RAW = 0xF, 2, 3
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_O_WRITES, _O_TRUNC = 0o3, 0o1000
_RLIMIT_LOCKS = 10
_MSG_FASTOPEN = 0x20000000
# Calls that send, with the place of their flags.
_SENDING = {"sendto": 3, "sendmsg": 2, "sendmmsg": 3}

# Calls that change a file without opening it for writing, so that Landlock does not see them.
METADATA_BY_PATH = ("chmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchownat", "utime", "utimes", "futimesat",
                    "utimensat", "setxattr", "lsetxattr", "removexattr", "lremovexattr")  # fmt: skip
METADATA_BY_FD = ("fchmod", "fchown", "fsetxattr", "fremovexattr")
# Newer variants; the C library falls back to the older calls.
METADATA_TWINS = ("setxattrat", "removexattrat", "file_setattr")
# Calls that reach into another process or around the filter; builds do not need them.
_REACH = ("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd")
# The kernel keeps keys for the user, not for the shell, and starts a program for a key that it lacks.
_CONFINED = ("open_by_handle_at", "io_uring_setup", "kexec_load", "kexec_file_load", "bpf", "userfaultfd",
             "add_key", "request_key", "keyctl")  # fmt: skip
# Memory, semaphores and queues that all processes of a user share by number or name.
_SHARED = ("shmget", "shmat", "shmctl", "semget", "semop", "semtimedop", "semctl", "msgget", "msgsnd", "msgrcv",
           "msgctl", "mq_open", "mq_unlink")  # fmt: skip
# Requests that change a file which is open for reading only: its flags, version, encryption and the like. Of btrfs,
# f2fs and bcachefs, whose requests also make and remove directories, only those that copy extents remain.
_CHANGING = (0x40086602, 0x40046602, 0x40087602, 0x40047602, 0x40086604, 0x401C5820, 0x40806685, 0x800C6613,
             0xC0506617, 0xC0406618, 0xC0406619, 0x6609, 0x40047211)  # fmt: skip
_FILE_SYSTEMS, _OF_ONE_KIND = (0x9400, 0xF500, 0xBC00), 0xFF00
_COPYING = (0x40049409, 0x4020940D, 0xC0189436)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterOptions:
    """The rules of a filter; `metadata` says who controls chmod and similar calls without read-only mounts.

    With `sockets` the broker connects sockets; local datagrams, which need no connection, are refused. `own_ipc` says
    that the shell shares memory and queues with no other program.
    """

    broker: bool
    confined: bool = False
    network: bool = True
    metadata: str = "free"  # free | broker | refused
    guard_truncate: bool = False
    sockets: bool = False
    own_ipc: bool = True


def _do(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value & 0xFFFFFFFF)


def _refuse(code: int) -> bytes:
    return _do(_RETURN, _ERROR | code)


def _call(name: str, body: bytes) -> bytes:
    """Run `body`, which must return, for the call of this name; the accumulator holds the number before and after."""
    number = kernel.NUMBERS.get(name)
    if number is None:
        return b""
    return _do(_EQUAL, number, 0, len(body) // 8) + body


def _argument(index: int) -> bytes:
    """Load the low half of an argument; both architectures are little-endian, these arguments have 32 bits."""
    return _do(_LOAD, _ARGUMENTS_AT + 8 * index)


def _local_socket(*, datagrams: bool) -> bytes:
    """Decide about a local socket by its type; a datagram names its receiver where a filter cannot see it."""
    if datagrams:
        return _do(_RETURN, _ALLOW)
    return (
        _argument(1) + _do(_AND, _TYPE_BITS)
        + _do(_EQUAL, _DATAGRAM, 1, 0) + _do(_EQUAL, _RAW, 0, 1) + _refuse(errno.EACCES)
        + _do(_RETURN, _ALLOW)
    )  # fmt: skip


def _sockets(*, network: bool, datagrams: bool) -> bytes:
    local = _local_socket(datagrams=datagrams)
    foreign = b"" if network else (
        _do(_EQUAL, _AF_NETLINK, 1, 0) + _refuse(errno.EACCES)
        + _argument(2)
        + _do(_EQUAL, _NETLINK_ROUTE, 1, 0) + _refuse(errno.EACCES)
    )  # fmt: skip
    return _argument(0) + _do(_EQUAL, _AF_UNIX, 0, len(local) // 8) + local + foreign + _do(_RETURN, _ALLOW)


def _truncating_open(flags_at: int) -> bytes:
    """Refuse O_TRUNC without write access: it empties a file that Landlock saw opened for reading."""
    return (
        _argument(flags_at)
        + _do(_SET, _O_TRUNC, 1, 0) + _do(_RETURN, _ALLOW)
        + _do(_SET, _O_WRITES, 1, 0) + _refuse(errno.EACCES)
        + _do(_RETURN, _ALLOW)
    )  # fmt: skip


def _no_connection(flags_at: int) -> bytes:
    """Refuse to connect by sending the first bytes, as kernels do where that is switched off."""
    refuse = _do(_SET, _MSG_FASTOPEN, 0, 1) + _refuse(errno.EOPNOTSUPP)
    return _argument(flags_at) + refuse + _do(_RETURN, _ALLOW)


def _limits_of_others(*, confined: bool) -> bytes:
    """Refuse to set limits of other processes: a confined shell none, because a limit of time ends a process.

    By the limit of file locks, processes inside and outside of shells differ, so no shell sets that of others.
    """
    ours = _argument(0) + _do(_EQUAL, 0, 0, 1) + _do(_RETURN, _ALLOW)
    if confined:
        reads = _argument(2) + _do(_EQUAL, 0, 0, 3) + _do(_LOAD, _ARGUMENTS_AT + 20) + _do(_EQUAL, 0, 0, 1)
        return ours + reads + _do(_RETURN, _ALLOW) + _refuse(errno.EPERM)
    locks = _argument(1) + _do(_EQUAL, _RLIMIT_LOCKS, 1, 0) + _do(_RETURN, _ALLOW)
    return ours + locks + _refuse(errno.EPERM)


def _requests(*, changing: bool) -> bytes:
    """Refuse requests that type into a terminal; without `changing` also those that change files behind Landlock."""
    refused = (_TIOCSTI, _TIOCLINUX) if changing else (_TIOCSTI, _TIOCLINUX, *_CHANGING)
    body = _argument(1) + b"".join(_do(_EQUAL, number, 0, 1) + _refuse(errno.EPERM) for number in refused)
    if not changing:
        body += b"".join(_do(_EQUAL, number, 0, 1) + _do(_RETURN, _ALLOW) for number in _COPYING)
        body += _do(_AND, _OF_ONE_KIND)
        body += b"".join(_do(_EQUAL, kind, 0, 1) + _refuse(errno.ENOTTY) for kind in _FILE_SYSTEMS)
    return body + _do(_RETURN, _ALLOW)


def build(options: FilterOptions) -> bytes:
    """Assemble the program for this machine's architecture."""
    notify = _do(_RETURN, _NOTIFY)
    parts = [
        _do(_LOAD, _ARCH_AT),
        # Numbers of another architecture mean other calls, so such a program is ended.
        _do(_EQUAL, kernel.AUDIT_ARCH, 1, 0),
        _do(_RETURN, _KILL),
        _do(_LOAD, _NUMBER_AT),
    ]
    if kernel.MACHINE == "x86_64":
        parts += [_do(_AT_LEAST, kernel.X32_BIT, 0, 1), _refuse(errno.ENOSYS)]
    if options.broker:
        parts += [_call("execve", notify), _call("execveat", notify)]
    parts += [_call(name, _refuse(errno.EPERM)) for name in _REACH]
    parts.append(_call("prlimit64", _limits_of_others(confined=options.confined)))
    if options.confined:
        parts += [_call(name, _refuse(errno.EPERM)) for name in _CONFINED]
        parts.append(_call("ioctl", _requests(changing=options.metadata == "free")))
    if not options.own_ipc:
        parts += [_call(name, _refuse(errno.EPERM)) for name in _SHARED]
    if options.metadata != "free":
        answer = notify if options.metadata == "broker" else _refuse(errno.EPERM)
        parts += [_call(name, answer) for name in METADATA_BY_PATH + METADATA_BY_FD]
        parts += [_call(name, _refuse(errno.ENOSYS)) for name in METADATA_TWINS]
    if options.guard_truncate:
        parts += [
            _call("truncate", _refuse(errno.EACCES)),
            _call("open", _truncating_open(1)),
            _call("openat", _truncating_open(2)),
            _call("openat2", _refuse(errno.ENOSYS)),
        ]
    if options.sockets:
        parts += [_call("connect", notify), _call("socketpair", _sockets(network=True, datagrams=False))]
        parts += [_call(name, _no_connection(flags)) for name, flags in _SENDING.items()]
    if options.sockets or not options.network:
        made = _sockets(network=options.network, datagrams=not options.sockets)
        parts += [_call("socket", made), _call("io_uring_setup", _refuse(errno.EPERM))]
    parts.append(_do(_RETURN, _ALLOW))
    return b"".join(parts)
