"""Space on the disk that only the record of shells may use: a file that is removed when the disk is full.

Without it a command that fills the disk could not even be recorded as ended, nor could the one that makes room again.
"""

import os
from contextlib import suppress
from pathlib import Path

RESERVE_BYTES = 8 << 20
_PART = 16  # of a small disk: a sixteenth
_TIMES_FREE = 4  # the reserve is only made where it is a small part of the free space


class DiskReserve:
    """The reserve of one state directory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held = False

    def hold(self) -> None:
        """Make the reserve if it is missing and the disk has room for it."""
        if self._held:
            return
        try:
            disk = os.statvfs(self._path.parent)
            size = min(RESERVE_BYTES, disk.f_blocks * disk.f_frsize // _PART)
            if self._path.exists() or disk.f_bavail * disk.f_frsize > size * _TIMES_FREE:
                self._allocate(size)
                self._held = True
        except OSError:
            with suppress(OSError):  # a folder, say; commands are recorded without a reserve
                self._path.unlink()

    def release(self) -> bool:
        """Give the space back to the disk; return False if there is none."""
        self._held = False
        try:
            self._path.unlink()
        except OSError:
            return False
        return True

    def _allocate(self, size: int) -> None:
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.posix_fallocate(fd, 0, size)
        finally:
            os.close(fd)
