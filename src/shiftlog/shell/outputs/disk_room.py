"""The share of the disk that outputs may take: they leave a reserve free, for the journal and for other programs."""

import os
from pathlib import Path

RESERVE_BYTES = 256 << 20
RESERVE_PART = 8  # of a small disk: an eighth
_AHEAD_BYTES = 4 << 20  # granted before the disk is asked again


class DiskRoom:
    """The free space of the disk below a folder, less the reserve."""

    def __init__(self, folder: Path, reserve_bytes: int = RESERVE_BYTES) -> None:
        self._folder = folder
        self._reserve_bytes = reserve_bytes
        self._left = 0

    def take(self, size: int) -> int:
        """Grant as much of a size as leaves the reserve free."""
        if size > self._left:
            self._left = min(max(0, self.free()), max(_AHEAD_BYTES, size))
        granted = min(size, self._left)
        self._left -= granted
        return granted

    def free(self) -> int:
        """Return the free bytes above the reserve; negative if the reserve is used already."""
        try:
            disk = os.statvfs(self._folder)
        except OSError:
            return _AHEAD_BYTES  # writing says what is wrong
        reserve = min(self._reserve_bytes, disk.f_blocks * disk.f_frsize // RESERVE_PART)
        return disk.f_bavail * disk.f_frsize - reserve
