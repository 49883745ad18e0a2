"""Processes as the kernel sees them: when one started, whether it runs, what it weighs, who its parents are.

Standard library only and few imports, since the bridge loads this at start. A pid alone says little, because
pids are used again; a pid with its start time names one process.
"""

import os
import sys

_PROC = sys.platform.startswith("linux")


def open_missing_streams() -> None:
    """Put an empty file where a standard stream is closed, so that nothing else that is opened takes its number."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def working_directory() -> str | None:
    """Return the directory that this process works in, None for one that was removed."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


def started(pid: int | None = None) -> str | None:
    """Return when a process started, as text to compare with itself; None when there is no such process.

    Where there is no /proc this asks `ps`, which costs some milliseconds.
    """
    if _PROC:
        fields = _stat(pid)
        return None if fields is None or fields[0] in "ZX" else fields[19]
    return _ps(pid, "lstart")


def alive(pid: int, started_at: str | None = None) -> bool:
    """Say whether a process runs; with `started_at` (from `started`), whether it is still the same one."""
    now = started(pid)
    return now is not None and (started_at is None or now == started_at)


def descends_from(pid: int, ancestor: int) -> bool:
    """Say whether a process is `ancestor` or stands somewhere below it; one that is gone counts as if it did."""
    start = pid
    for _ in range(1024):  # a chain that changes while it is walked must not keep us for ever
        if pid == ancestor:
            return True
        above = parent(pid)
        if above is None and pid == start:
            return True
        if above == 0:
            return False
        pid = start if above is None else above  # one that ended meanwhile has left its children to another
    return True


def parent(pid: int) -> int | None:
    """Return the pid of a process's parent, None when the process is gone."""
    if _PROC:
        fields = _stat(pid)
        return None if fields is None else int(fields[1])
    text = _ps(pid, "ppid")
    return int(text) if text and text.isdecimal() else None


def rss_bytes(pid: int | None = None) -> int | None:
    """Return the resident memory of a process in bytes."""
    if _PROC:
        try:
            with open(f"/proc/{pid or 'self'}/statm", "rb") as statm:
                return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except OSError:
            return None
    text = _ps(pid, "rss")
    return int(text) * 1024 if text and text.isdecimal() else None


def _stat(pid: int | None) -> list[str] | None:
    try:
        with open(f"/proc/{pid or 'self'}/stat", "rb") as stat:
            text = stat.read()
    except OSError:
        return None
    # The program's name may hold spaces and parentheses: what follows the last one are plain fields.
    return text[text.rindex(b")") + 2 :].decode("ascii").split()


def _ps(pid: int | None, field: str) -> str | None:
    import subprocess

    command = ["ps", "-o", f"{field}=", "-p", str(pid or os.getpid())]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
