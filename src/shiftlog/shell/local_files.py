"""The local side of a file transfer: a file to read, or one to replace at once when it is whole.

The directory is opened once, by its real path, and judged by the operator's policy; the file is then opened below that
descriptor, so that no link that appears meanwhile leads elsewhere.
"""

import asyncio
import contextlib
import errno
import hashlib
import os
import secrets
import stat
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from shiftlog.guard.directories import OpenDirectory, open_beneath, open_directory
from shiftlog.model.caller import Caller
from shiftlog.model.errors import ShiftlogError
from shiftlog.model.shell_errors import SandboxNotAllowed, TransferFailed
from shiftlog.shell.guard import FULL_ACCESS, ShellPolicy, unusable
from shiftlog.shell.sandbox.spec import is_below, operators_path

T = TypeVar("T")

PIECE_BYTES = 1 << 20
_WRITABLE_BY_OTHERS = 0o022
_REASONS = {
    errno.ENOENT: "it does not exist",
    errno.EACCES: "access is denied",
    errno.ELOOP: "it was replaced by a link",
    errno.ENOTDIR: "its directory is not a directory",
    errno.ENXIO: "it is not a regular file",
    errno.ENOSPC: "the disk is full",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A local file that is open for reading, as long as it was then."""

    path: str
    descriptor: int
    size: int
    mode: int

    async def digest(self) -> str:
        """Return the SHA-256 of the content; a long file takes seconds."""
        digest = hashlib.sha256()
        async for piece in self.pieces():
            await _in_thread(digest.update, piece)
        return digest.hexdigest()

    async def pieces(self) -> AsyncGenerator[bytes]:
        """Yield the content, as much of it as there was when the file was opened."""
        at = 0
        while at < self.size:
            piece = await _in_thread(os.pread, self.descriptor, min(PIECE_BYTES, self.size - at), at)
            if not piece:
                return  # it became shorter, which the target finds by its size
            at += len(piece)
            yield piece


class PartFile:
    """A hidden file beside its destination, which takes its place when it is whole."""

    def __init__(self, directory: OpenDirectory, name: str) -> None:
        self.path = f"{directory.path.rstrip('/')}/{name}"
        self._directory = directory
        self._name = name
        self._part = f".shiftlog-{secrets.token_hex(8)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(self._part, flags, 0o600, dir_fd=directory.descriptor)

    def write(self, data: bytes) -> None:
        """Add the next piece."""
        while data:
            data = data[os.write(self._descriptor, data) :]

    async def place(self, mode: int) -> None:
        """Put the file into its place; an existing file keeps its permissions, a new one gives others no writing."""
        mode &= 0o777 & ~_WRITABLE_BY_OTHERS
        with contextlib.suppress(FileNotFoundError):
            found = os.stat(self._name, dir_fd=self._directory.descriptor, follow_symlinks=False)
            mode = stat.S_IMODE(found.st_mode) if stat.S_ISREG(found.st_mode) else mode
        os.fchmod(self._descriptor, mode)
        await _in_thread(os.fsync, self._descriptor)
        place = self._directory.descriptor
        os.rename(self._part, self._name, src_dir_fd=place, dst_dir_fd=place)
        await _in_thread(os.fsync, place)

    def close(self) -> None:
        """Close it, and remove it if it was not placed."""
        os.close(self._descriptor)
        with contextlib.suppress(OSError):
            os.unlink(self._part, dir_fd=self._directory.descriptor)


@contextmanager
def reading(path: str, policy: ShellPolicy, caller: Caller) -> Generator[SourceFile]:
    """Open a file to send; its real place must be one that the operator permits."""
    with _failing(path):
        real = os.path.realpath(path, strict=True)
        with _opened(os.path.dirname(real), policy, caller, writes=False) as directory:  # noqa: PTH120
            flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
            descriptor = open_beneath(directory.descriptor, os.fsencode(os.path.basename(real)), flags)  # noqa: PTH119
        try:
            facts = os.fstat(descriptor)
            if not stat.S_ISREG(facts.st_mode):
                what = "a directory; pack it first, as with tar" if stat.S_ISDIR(facts.st_mode) else "no regular file"
                raise TransferFailed(f"{path} cannot be sent: it is {what}", details={"path": path})
            yield SourceFile(
                path=real,
                descriptor=descriptor,
                size=facts.st_size,
                mode=stat.S_IMODE(facts.st_mode) & 0o777,
            )
        finally:
            os.close(descriptor)


@contextmanager
def writing(path: str, name: str, policy: ShellPolicy, caller: Caller) -> Generator[PartFile]:
    """Open the place of a file to fetch; a directory gets it under `name`."""
    with _failing(path):
        target = Path(path, name) if Path(path).is_dir() else Path(path)
        real = os.path.realpath(target.parent, strict=True)
        with _opened(real, policy, caller, writes=True) as directory:
            if not target.name or target.name in (".", "..") or target.is_dir():
                raise TransferFailed(f"{target} is a directory", details={"path": str(target)})
            part = PartFile(directory, target.name)
            try:
                yield part
            finally:
                part.close()


def _opened(real: str, policy: ShellPolicy, caller: Caller, *, writes: bool) -> OpenDirectory:
    """Open a directory by its real path if the operator permits files in it."""
    if is_below(real, str(policy.state_dir.resolve())):
        raise unusable(real, "it lies inside Shiftlog's own data")
    rules = policy.policy
    if writes and rules.sandbox_max == "read-only":
        details = {"mode": FULL_ACCESS, "max": rules.sandbox_max}
        raise SandboxNotAllowed("no file may be written: the policy's sandbox_max is read-only", details=details)
    extra = [operators_path(place, policy.home) for place in rules.sandbox_write] if writes else []
    if not any(is_below(real, place) for place in extra):  # a link among them leads nowhere
        policy.check_workspace(real, caller)
    return open_directory(real)


async def _in_thread(work: Callable[..., T], *arguments: Any) -> T:
    """Run slow work in a thread, and wait for its end even if cancelled: it uses a descriptor that is closed then."""
    running = asyncio.ensure_future(asyncio.to_thread(work, *arguments))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        raise


@contextmanager
def _failing(path: str) -> Generator[None]:
    try:
        yield
    except OSError as error:
        if isinstance(error, ShiftlogError | ConnectionError):
            raise
        why = _REASONS.get(error.errno or 0) or error.strerror or str(error)
        raise TransferFailed(f"{path} cannot be used: {why}", details={"path": path}) from None
