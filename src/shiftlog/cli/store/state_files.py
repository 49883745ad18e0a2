"""Files of the state directory that are of another kind than they must be, for `shiftlog doctor`.

The database has a check of its own, and so has the socket.
"""

from collections.abc import Iterator
from pathlib import Path

FOLDERS = {
    "keys": "Put a backup in its place, or move it away: new keys are made, and recovery tokens given out so far end",
    "outputs": "Move it away: without the directory no shell opens and no record is verified",
    "spool": "Move it away: hooks cannot leave their events",
    "held": "Move it away: without the directory local shells end with their daemon",
    "checkpoints": "Move it away: without the directory no workspace is saved",
    "temps": "Move it away: without the directory no sandboxed shell opens",
}
REGULAR = {
    "daemon.lock": "Move it away: no daemon can start",
    "start.lock": "Move it away: no client can start a daemon",
    "config.toml": "Move it away, or put your settings in its place",
    "guard.json": "Move it away, and set the guard again: shiftlog guard on",
    "http.token": "Move it away: a new token is made",
    "daemon.log": "Move it away: a new log is begun",
}


def odd_files(home: Path) -> Iterator[tuple[str, str]]:
    """Yield the problem with each file of a wrong kind, and what to do."""
    for name, hint in FOLDERS.items():
        if _is_there(path := home / name) and not path.is_dir():
            yield f"{path} is not a directory", hint
    for name, hint in REGULAR.items():
        if _is_there(path := home / name) and not path.is_file():
            yield f"{path} is not a regular file", hint


def _is_there(path: Path) -> bool:
    """Return True if there is anything of this name, also a dangling link, which is in the way too."""
    return path.is_symlink() or path.exists()
