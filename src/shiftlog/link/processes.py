"""Facts about processes: start time, liveness, memory, parents.

Few imports, since the bridge loads this at start. The kernel reuses pids, so only a pid with its start time identifies
a process.
"""

import os
import sys

_PROC = sys.platform.startswith("linux")
MOST_ANCESTORS = 64
_MARK_BELOW = 1 << 62
_CAP_SYS_RESOURCE = 1 << 24
_own: dict[int, tuple[int, int] | None] = {}


def open_missing_streams() -> None:
    """Open /dev/null for each closed standard stream, so that no other file gets its descriptor."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def working_directory() -> str | None:
    """Return the working directory, None if it was removed."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


def started(pid: int | None = None) -> str | None:
    """Return the start time of a process as opaque text; None if the process does not exist.

    Without /proc this runs `ps`, which costs some milliseconds.
    """
    if _PROC:
        fields = _stat(pid)
        return None if fields is None or fields[0] in "ZX" else fields[19]
    return _ps(pid, "lstart")


def alive(pid: int, started_at: str | None = None) -> bool:
    """Return True if a process runs and, with `started_at` (from `started`), is still the same one."""
    now = started(pid)
    return now is not None and (started_at is None or now == started_at)


def is_stopped(pid: int) -> bool:
    """Return True if a process was stopped by a signal or a debugger; False where the kernel does not say."""
    fields = _stat(pid) if _PROC else None
    return fields is not None and fields[0] in "Tt"


def descends_from(pid: int, ancestor: int) -> bool:
    """Return True if a process is `ancestor`, descends from it, or is gone."""
    start = pid
    for _ in range(1024):  # bounds the walk while the chain changes
        if pid == ancestor:
            return True
        above = parent(pid)
        if above is None and pid == start:
            return True
        if above == 0:
            return False
        pid = start if above is None else above  # the parent ended, and its children have another one now
    return True


def lineage(pid: int) -> tuple[tuple[int, str], ...]:
    """Return a process and those above it, the nearest first, each with its start time; empty without /proc."""
    found: list[tuple[int, str]] = []
    if not _PROC:
        return ()  # each step would run `ps` twice
    while pid > 1 and len(found) < MOST_ANCESTORS:
        started_at, above = started(pid), parent(pid)
        if started_at is None or above is None:
            break
        found.append((pid, started_at))
        pid = above
    return tuple(found)


def is_marked(pid: int) -> bool:
    """Return True if a process has the mark that a shell's processes inherit and this process does not, or is gone.

    `shell.engine.reaper` sets it; it outlasts new parents, sessions and programs.
    """
    if not _PROC:
        return False
    own, its = own_mark(), mark_of(pid)
    return own is None or its is None or its[0] < own[0] or (os.geteuid() == 0 and its[1] > own[1])


def serves_shells(pid: int) -> bool:
    """Return True if a process is one of ours that holds or supervises shells, of any daemon with this user's limits.

    Its mark is one step from this process's own; all that runs inside a shell is two steps away or more.
    """
    own, its = own_mark(), mark_of(pid)
    if own is None or its is None:
        return False
    return its[1] == own[1] + 1 if _may_raise_limits() else its[0] == min(own[0], _MARK_BELOW) - 1


def _may_raise_limits() -> bool:
    """Return True for root, unless it can never raise a limit, as in most containers: there it cannot filter either."""
    if os.geteuid() != 0:
        return False
    try:
        with open("/proc/self/status", "rb") as status:
            bounding = status.read().partition(b"CapBnd:")[2].split(None, 1)[0]
    except (OSError, IndexError):
        return True
    return bool(int(bounding, 16) & _CAP_SYS_RESOURCE)


def own_mark() -> tuple[int, int] | None:
    """Return the mark that this process had when it was first asked for: a program of this user can lower it later."""
    if os.getpid() not in _own:
        _own[os.getpid()] = mark_of("self")
    return _own[os.getpid()]


def mark_of(pid: int | str) -> tuple[int, int] | None:
    """Return the hard limit of file locks and the number of seccomp filters of a process."""
    try:
        with open(f"/proc/{pid}/limits", "rb") as limits, open(f"/proc/{pid}/status", "rb") as status:
            hard = limits.read().partition(b"Max file locks")[2].split(None, 2)[1]
            text = status.read()
    except (OSError, IndexError):
        return None
    filters = text.partition(b"Seccomp_filters:")[2] or text.partition(b"Seccomp:")[2] or b"0"
    return (1 << 64 if hard == b"unlimited" else int(hard)), int(filters.split(None, 1)[0])


def parent(pid: int) -> int | None:
    """Return the pid of a process's parent, None if the process is gone."""
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
    # The program's name may hold spaces and parentheses; the plain fields follow the last parenthesis.
    return text[text.rindex(b")") + 2 :].decode("ascii").split()


def _ps(pid: int | None, field: str) -> str | None:
    import subprocess

    command = ["ps", "-o", f"{field}=", "-p", str(pid or os.getpid())]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
