"""The kernel's interface: syscall numbers, flags, and raw syscalls.

Standard library only and few imports, because the launcher loads it before every shell. A machine that is not listed
has no numbers; `detect` then reports that nothing can be enforced.
"""

import ctypes
import os
import sys

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

MACHINE = os.uname().machine if sys.platform.startswith("linux") else ""

# name: (x86_64, aarch64); None where an architecture never had the call.
ALL_NUMBERS: dict[str, tuple[int | None, int | None]] = {
    "open": (2, None),
    "ioctl": (16, 29),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "socket": (41, 198),
    "connect": (42, 203),
    "sendto": (44, 206),
    "sendmsg": (46, 211),
    "socketpair": (53, 199),
    "execve": (59, 221),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "truncate": (76, 45),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "ptrace": (101, 117),
    "capset": (126, 91),
    "utime": (132, None),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "semtimedop": (220, 192),
    "utimes": (235, None),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "kexec_load": (246, 104),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "openat": (257, 56),
    "fchownat": (260, 54),
    "futimesat": (261, None),
    "fchmodat": (268, 53),
    "signalfd4": (289, 74),
    "utimensat": (280, 88),
    "prlimit64": (302, 261),
    "open_by_handle_at": (304, 265),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "seccomp": (317, 277),
    "sendmmsg": (307, 269),
    "kexec_file_load": (320, 294),
    "bpf": (321, 280),
    "execveat": (322, 281),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "openat2": (437, 437),
    "pidfd_getfd": (438, 438),
    "landlock_create_ruleset": (444, 444),
    "landlock_add_rule": (445, 445),
    "landlock_restrict_self": (446, 446),
    "fchmodat2": (452, 452),
    "setxattrat": (463, 463),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
}
_COLUMN = {"x86_64": 0, "aarch64": 1}.get(MACHINE)
NUMBERS: dict[str, int] = (
    {} if _COLUMN is None else {name: row[_COLUMN] for name, row in ALL_NUMBERS.items() if row[_COLUMN] is not None}  # pyright: ignore[reportAssignmentType]
)
AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}.get(MACHINE, 0)
X32_BIT = 0x40000000  # on x86_64 the same calls answer under a second set of numbers

PR_SET_NO_NEW_PRIVS = 38
PR_CAPBSET_DROP = 24
SECCOMP_SET_MODE_FILTER = 1
FILTER_FLAG_NEW_LISTENER = 1 << 3
FILTER_FLAG_WAIT_KILLABLE_RECV = 1 << 5
LANDLOCK_VERSION = 1 << 0
LANDLOCK_PATH_BENEATH = 1


def syscall(name: str, *args: object) -> int:
    """Make a raw syscall; raises `OSError` with the kernel's reason."""
    number = NUMBERS.get(name)
    if number is None:
        raise OSError(38, f"{name}: no number known for {MACHINE or sys.platform}")
    wide = [ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in args]
    result: int = libc.syscall(ctypes.c_long(number), *wide)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return result


def prctl(option: int, value: int) -> None:
    """Set a property of this process; raises `OSError`."""
    if libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"prctl {option}: {os.strerror(code)}")


def landlock_abi() -> int:
    """Return the kernel's Landlock version; 0 if it has none."""
    try:
        return syscall("landlock_create_ruleset", None, 0, LANDLOCK_VERSION)
    except OSError:
        return 0


def install_filter(program: bytes, *, flags: int = 0) -> int:
    """Install a seccomp program on this process; return the listener's descriptor, or 0 without one."""
    instructions = ctypes.create_string_buffer(program, len(program))

    class _FilterProgram(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]

    header = _FilterProgram(len(program) // 8, ctypes.addressof(instructions))
    return syscall("seccomp", SECCOMP_SET_MODE_FILTER, flags, ctypes.byref(header))


class _RulesetAttributes(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("access", ctypes.c_uint64), ("parent", ctypes.c_int32)]


class Ruleset:
    """A Landlock ruleset under construction; `apply` puts this process and all its children under it."""

    def __init__(self, *, files: int, network: int, scoped: int, abi: int) -> None:
        attributes = _RulesetAttributes(files, network, scoped)
        size = 8 if abi < 4 else 16 if abi < 6 else 24
        self._fd = syscall("landlock_create_ruleset", ctypes.byref(attributes), size, 0)

    def grant(self, path: str | bytes, access: int) -> bool:
        """Grant rights on a file or everything below a directory; return False if the path does not exist."""
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return False
        try:
            self.grant_opened(place, access)
        finally:
            os.close(place)
        return True

    def grant_opened(self, place: int, access: int) -> None:
        """Grant rights on an opened file or everything below an opened directory."""
        rule = _PathBeneath(access, place)
        syscall("landlock_add_rule", self._fd, LANDLOCK_PATH_BENEATH, ctypes.byref(rule), 0)

    def apply(self) -> None:
        """Put this process under the ruleset; needs no_new_privs."""
        syscall("landlock_restrict_self", self._fd, 0)
        os.close(self._fd)
