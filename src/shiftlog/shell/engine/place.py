"""The directory that a shell is in, as the kernel tells it."""

from __future__ import annotations

import os
from pathlib import Path

_DELETED = " (deleted)"


class ShellPlace:
    """The working directory of one process; a name that it was given stays while it leads to the same directory."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._link = b""
        self._real = b""
        self._has_other_name = False

    def follow(self, pid: int) -> None:
        """Look at this process from now on."""
        self._link = b"/proc/%d/cwd" % pid

    def look(self) -> None:
        """Read the directory; the last one stays if the process is gone."""
        try:
            real = os.readlink(self._link)  # noqa: PTH115 - once per command
        except OSError:
            return
        if real != self._real or self._has_other_name:
            shown = os.fsdecode(real).removesuffix(_DELETED)
            self._has_other_name = self.path != shown and self._leads_there(self.path)
            self._real = real
            if not self._has_other_name:
                self.path = shown

    def _leads_there(self, path: str) -> bool:
        try:
            return Path(os.fsdecode(self._link)).samefile(path)
        except OSError:
            return False
