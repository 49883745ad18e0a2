"""The state of files: read by system calls on this machine, and from the output of a script on any other target."""

import os
import stat
import time
from collections.abc import Sequence

from shiftlog.workspace.ports import FileKind, FileStat, FileSurvey

FRESH_S = 3
_USUAL = (stat.S_IFREG | 0o644, stat.S_IFREG | 0o755)
# Kernels stamp files with a clock of 1 to 10 ms, so two writes within a tick look like one.
TICK_NS = 20_000_000

# Prints the target's time, then per batch a line of marks (link, readable, unreadable, missing) and a line per file.
STATS = """
cd "$1" || exit 3
if stat -c %f . >/dev/null 2>&1; then how=-c what='%f %s %Z %i %y %z'
else how=-f what='%Xp %z %c %i %Fm %Fc'; fi
export how what LC_ALL=C
date +%s
xargs -0 -n 500 sh -c '
  marks=
  for file do
    if [ -L "$file" ]; then marks=${marks}l
    elif [ -r "$file" ]; then marks=${marks}r
    elif [ -e "$file" ]; then marks=${marks}u
    else marks=$marks-; fi
  done
  echo ":$marks"
  stat "$how" "$what" "$@" 2>/dev/null || :' sh
"""


def here(directory: int, paths: Sequence[bytes], *, signed: bool) -> list[FileStat | None]:
    """Return the state of paths below an open directory; None if missing."""
    now_ns, user = time.time_ns(), os.geteuid()
    found: list[FileStat | None] = []
    for path in paths:
        try:
            seen = os.lstat(path, dir_fd=directory)
        except OSError:
            found.append(None)
            continue
        found.append(_fact(seen, directory, path, now_ns, user, signed=signed))
    return found


def of_open_file(descriptor: int) -> FileStat:
    """Return the state of an open file, signed."""
    return _fact(os.fstat(descriptor), None, b"", time.time_ns(), 0, signed=True)


def survey_here(directory: int, paths: Sequence[bytes], found: FileSurvey) -> None:
    """Add to a survey; kept minimal, because this loop is most of a first scan."""
    now_ns, user = time.time_ns(), os.geteuid()
    fresh_s = now_ns / 1_000_000_000 - FRESH_S
    lstat, add, unusual = os.lstat, found.sizes.append, found.unusual
    for path in paths:
        try:
            seen = lstat(path, dir_fd=directory)
        except OSError:
            add(-1)
            continue
        add(seen.st_size)
        if seen.st_mode not in _USUAL or seen.st_ctime >= fresh_s:
            unusual[path] = _fact(seen, directory, path, now_ns, user, signed=False)


def read_stats(output: bytes) -> list[FileStat | None] | None:
    """Read the output of the stat script; None if a file disappeared meanwhile."""
    lines = output.split(b"\n")[:-1]
    if not lines:
        return None
    now = int(lines[0])
    found: list[FileStat | None] = []
    rest = iter(lines[1:])
    line = next(rest, None)
    while line is not None:
        facts: list[bytes] = []
        marks, line = line[1:], next(rest, None)
        while line is not None and not line.startswith(b":"):
            facts.append(line)
            line = next(rest, None)
        if len(facts) != len(marks) - marks.count(b"-"):
            return None
        remaining = iter(facts)
        found += [None if mark == ord("-") else _read_fact(next(remaining), mark, now) for mark in marks]
    return found


def _read_fact(line: bytes, mark: int, now: int) -> FileStat:
    mode, size, changed, signature = line.split(b" ", 3)
    raw = int(mode, 16)
    return FileStat(
        kind=_kind(raw),
        permissions=stat.S_IMODE(raw),
        size=int(size),
        fresh=int(changed) >= now - FRESH_S,
        # Without sub-second clocks two writes look alike; from the next second on they differ.
        signature="" if int(changed) >= now else signature.decode("ascii"),
        readable=mark != ord("u"),
    )


def _fact(
    seen: os.stat_result, directory: int | None, path: bytes, now_ns: int, user: int, *, signed: bool
) -> FileStat:
    mode, changed = seen.st_mode, seen.st_ctime_ns
    is_own = user == 0 or (seen.st_uid == user and bool(mode & 0o400))
    readable = is_own or os.access(path, os.R_OK, dir_fd=directory)
    fresh, signature = changed >= now_ns - FRESH_S * 1_000_000_000, ""
    if (fresh or signed) and changed < now_ns - TICK_NS:
        signature = f"{seen.st_ino} {seen.st_mtime_ns} {changed} {seen.st_size}"
    kind = "file" if mode & 0o170000 == 0o100000 else _kind(mode)
    return FileStat(kind, mode & 0o7777, seen.st_size, fresh, signature, readable)


def _kind(mode: int) -> FileKind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISLNK(mode):
        return "link"
    return "directory" if stat.S_ISDIR(mode) else "other"
