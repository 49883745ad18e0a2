"""Identifies the program in a file: by inode, content, first bytes, or the applet it is called as.

Answers are cached by inode and change time. The judge decides whether a program may start.
"""

import hashlib
import os
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from shiftlog.guard.directories import links_to, real_path
from shiftlog.guard.policy.files import SHEBANG_BYTES, interpreter_of
from shiftlog.link.files import open_regular
from shiftlog.shell.sandbox import kernel

# One file with many programs, selected by its name. Denying one of them must not deny the others.
MULTI_CALL = frozenset(
    "busybox toybox coreutils uutils sbase-box ubase-box toolbox dropbearmulti systemctl kmod lvm rustup snap "
    "xtables-nft-multi xtables-legacy-multi volta-shim".split()
)
_BOX = frozenset({"busybox", "toybox", "coreutils", "uutils", "sbase-box", "ubase-box", "toolbox"})
# Applets that start others; a box may run them inside itself, where the kernel sees no start.
RUNS_OTHERS = frozenset(
    "sh ash hush lash msh bash cttyhack xargs find time timeout nice nohup setsid env chroot watch run-parts "
    "start-stop-daemon chpst softlimit setuidgid envdir envuidgid ionice taskset chrt flock script inotifyd runsv "
    "runsvdir tcpsvd udpsvd nc crond init linuxrc su sulogin getty login telnetd ftpd httpd".split()
)
_LOADER_NAME = re.compile(r"ld(-linux|-musl|64|\.so)?[-.\w]*\.so(\.\d+)*$")
_LOADER_PLACES = ("/lib", "/lib64", "/lib32", "/usr/lib", "/usr/lib64")
_LOADER_VALUES = frozenset(
    {"--library-path", "--inhibit-rpath", "--audit", "--preload", "--argv0", "--glibc-hwcaps-prepend",
     "--glibc-hwcaps-mask"}
)  # fmt: skip
_CACHE_MAX = 4096
_SETTLED_NS = 100_000_000  # older kernels give two changes within one tick of theirs the same time
_SYSTEM = frozenset("usr bin sbin lib lib32 lib64 opt etc nix gnu snap".split())
_ELF_MACHINE = {"x86_64": b"\x3e\0", "aarch64": b"\xb7\0"}.get(kernel.MACHINE, b"")
_HASHED_MAX = 1 << 30


@dataclass(frozen=True, slots=True)
class FileFacts:
    """The identity of a file: its inode, the interpreter in its first line, and the named program it copies.

    `kind` says which image the kernel loads for it: its own, its interpreter's, or one that only the kernel knows. What
    cannot be read is `hidden` if its owner is this user, who could copy any program and take the right to read it away.
    """

    inode: tuple[int, int]
    interpreter: tuple[str, ...]
    loader: bool
    copy_of: str | None
    kind: Literal["native", "script", "other", "unreadable", "hidden"] = "native"


@dataclass(frozen=True, slots=True)
class _NamedFile:
    path: str
    loader: bool


class Identifier:
    """Recognises programs named in rules, their links and copies, loaders and scripts."""

    def __init__(self, named: Iterable[str]) -> None:
        self._by_inode: dict[tuple[int, int], _NamedFile] = {}
        self._by_size: dict[int, list[_NamedFile]] = {}
        self._digests: dict[str, str] = {}
        self._cache: dict[tuple[int, int, int, int], FileFacts] = {}
        for path in named:
            self._learn(path, loader=False)
        for path in find_loaders():
            self._learn(path, loader=True)

    def _learn(self, path: str, *, loader: bool) -> None:
        try:
            stat = os.stat(path)
        except OSError:
            return
        known = _NamedFile(path, loader)
        self._by_inode[stat.st_dev, stat.st_ino] = known
        self._by_size.setdefault(stat.st_size, []).append(known)

    def facts(self, fd: int) -> FileFacts:
        """Return the identity of the file behind a path-only descriptor."""
        stat = os.fstat(fd)
        key = (stat.st_dev, stat.st_ino, stat.st_ctime_ns, stat.st_size)
        found = self._cache.get(key)
        if found is None:
            found = self._look(fd, stat)
            if time.time_ns() - stat.st_ctime_ns > _SETTLED_NS:
                if len(self._cache) >= _CACHE_MAX:
                    self._cache.clear()
                self._cache[key] = found
        return found

    def _look(self, fd: int, stat: os.stat_result) -> FileFacts:
        inode = (stat.st_dev, stat.st_ino)
        if (stat.st_mode & 0o170000) != 0o100000:
            return FileFacts(inode, (), False, None, "other")
        known = self._by_inode.get(inode)
        try:
            reader = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:  # a program that cannot be read is identified by its inode only
            return replace(_facts(inode, b"", known), kind="hidden" if stat.st_uid == os.geteuid() else "unreadable")
        try:
            head = os.pread(reader, SHEBANG_BYTES, 0)
            if known is None and stat.st_size in self._by_size and stat.st_size <= _HASHED_MAX:
                known = self._same_content(reader, stat.st_size)
        finally:
            os.close(reader)
        return _facts(inode, head, known)

    def _same_content(self, reader: int, size: int) -> _NamedFile | None:
        digest = _digest(reader)
        for known in self._by_size[size]:
            if known.path not in self._digests:
                try:
                    original = open_regular(known.path)
                except OSError:
                    continue
                try:
                    self._digests[known.path] = _digest(original)
                finally:
                    os.close(original)
            if self._digests[known.path] == digest:
                return known
        return None


def _facts(inode: tuple[int, int], head: bytes, known: _NamedFile | None) -> FileFacts:
    loader = known is not None and known.loader
    interpreter = interpreter_of(head)
    kind = (
        "script"
        if interpreter
        else "native"
        if head.startswith(b"\x7fELF") and head[18:20] == _ELF_MACHINE
        else "other"
    )
    return FileFacts(inode, interpreter, loader, None if known is None or loader else known.path, kind)


def _digest(fd: int) -> str:
    digest, offset = hashlib.blake2b(digest_size=32), 0
    while chunk := os.pread(fd, 1 << 20, offset):
        digest.update(chunk)
        offset += len(chunk)
    return digest.hexdigest()


def find_loaders() -> list[str]:
    """List the dynamic loaders of this machine, which run a program given as an argument."""
    found: set[str] = set()
    for place in _LOADER_PLACES:
        for directory in (place, *_subdirectories(place)):
            try:
                names = os.listdir(directory)
            except OSError:
                continue
            found.update(os.path.realpath(f"{directory}/{name}") for name in names if _LOADER_NAME.match(name))
    return sorted(found)


def _subdirectories(place: str) -> list[str]:
    try:
        with os.scandir(place) as entries:
            return [entry.path for entry in entries if "linux-" in entry.name and entry.is_dir()]
    except OSError:
        return []


def is_systems_own(path: str) -> bool:
    """Return True if only root can exchange the file at a path: it lies among the system's own, and so does each link.

    A loader opens its program itself, after it was judged.
    """
    return all(
        place.split("/")[1] in _SYSTEM and all(map(_is_roots, (place, *map(str, Path(place).parents))))
        for place in (*links_to(path), real_path(path))
    )


def _is_roots(path: str) -> bool:
    stat = os.lstat(path)
    is_link, is_sticky = stat.st_mode & 0o170000 == 0o120000, bool(stat.st_mode & 0o1000)
    return stat.st_uid == 0 and (is_link or is_sticky or not stat.st_mode & 0o022)


def program_given_to_loader(argv: Sequence[str]) -> int | None:
    """Return the index of the program in a loader's arguments; None if there is none."""
    index = 1
    while index < len(argv):
        argument = argv[index]
        if argument in _LOADER_VALUES:
            index += 2
        elif argument.startswith("--"):
            index += 1
        else:
            return index
    return None


def applet(real_name: str, argv: Sequence[str]) -> tuple[str, bool] | None:
    """Return the applet that a multi-call binary would run, and True if its own name came first as a wrapper."""
    box = re.split(r"[-.]", real_name)[0] in _BOX or real_name in _BOX
    if not box and real_name not in MULTI_CALL:
        return None
    called = os.path.basename(argv[0]).lstrip("-") if argv else real_name
    if not box:
        return (called, False) if called != real_name else None
    if re.split(r"[-.]", called)[0] not in _BOX and called not in _BOX:
        return called, False
    for argument in argv[1:]:
        if argument.startswith("--coreutils-prog"):
            return os.path.basename(argument.rpartition("=")[2]), True
        if not argument.startswith("-"):
            return os.path.basename(argument), True
    return None
