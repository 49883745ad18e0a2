"""One temporary directory per session, which the confined shells of the session share as their `/tmp`.

A link in the state directory remembers it, so that a shell of a later server finds it again. The service removes it
when the session is closed.
"""

import os
import re
import stat
import tempfile
from pathlib import Path

from shiftlog.shell.engine.reaper import remove_tree

PREFIX = "shiftlog-session-"
_NAMED = re.compile(r"(?<![\w./-])/(?:var/)?tmp/[^\s'\"`:;,()<>|&]+")

PRIVATE_NOTE = (
    "/tmp and /var/tmp are private: the sandboxed shells of this session share one directory for both, this machine's "
    "own are not visible in it, and it is removed when the session is closed"
)
OWN_NOTE = (
    "of temporary directories only $TMPDIR is writable: the sandboxed shells of this session share it, and it is "
    "removed when the session is closed"
)


class SessionTemps:
    """The temporary directories of sessions; `links` is where they are remembered."""

    def __init__(self, links: Path) -> None:
        self._links = links

    def open(self, session_id: str) -> str:
        """Return the directory of a session; make it if there is none."""
        found = self._find(session_id)
        if found is not None:
            return found
        link = self._links / session_id
        self._links.mkdir(mode=0o700, exist_ok=True)
        link.unlink(missing_ok=True)
        made = os.path.realpath(tempfile.mkdtemp(prefix=PREFIX))
        link.symlink_to(made)
        return made

    def sessions(self) -> list[str]:
        """Return the sessions that have a directory."""
        return sorted(link.name for link in self._links.iterdir()) if self._links.is_dir() else []

    def remove(self, session_id: str) -> None:
        """Remove the directory of a session with all that is in it."""
        found = self._find(session_id)
        (self._links / session_id).unlink(missing_ok=True)
        if found is not None:
            remove_tree(found)

    def _find(self, session_id: str) -> str | None:
        """Return a session's directory if it is still ours: a cleaner of /tmp may have removed it."""
        try:
            path = (self._links / session_id).readlink()
            is_ours = _is_own_directory(path.lstat())
        except OSError:
            return None
        return str(path) if is_ours and path.name.startswith(PREFIX) else None


def _is_own_directory(status: os.stat_result) -> bool:
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def missing_path(temp: str, said: str, shown: tuple[str, ...]) -> str | None:
    """Return the first path below /tmp in a message that the private directory lacks; `shown` places are not in it."""
    for path in _NAMED.findall(said):
        if any(path == place or path.startswith(f"{place}/") for place in (temp, *shown)):
            continue
        inside = path.removeprefix("/var").removeprefix("/tmp")
        if not os.path.lexists(f"{temp}{inside}"):
            return path
    return None


def missing_hint(path: str) -> str:
    """Return the hint for a path below /tmp that a confined shell does not have."""
    return f"{path} is not in this shell's /tmp, which is private to the sandboxed shells of this session"
