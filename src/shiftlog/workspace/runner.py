"""Runners: this machine, and any other target that a carrier can run a command line on.

`CommandRunner` uses POSIX sh only, so that a remote target needs no Python; ssh and docker supply the carrier.
"""

import asyncio
import fcntl
import os
import signal
import stat
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from shiftlog.model.errors import StorageError
from shiftlog.model.limits import CHECKPOINT_LOCK_WAIT_S
from shiftlog.workspace.ports import FileKind, FileStat, FileSurvey, Ran

LOCK_STEP_S = 0.02
FRESH_S = 3
_USUAL = (stat.S_IFREG | 0o644, stat.S_IFREG | 0o755)
# A loop of system calls rarely releases the interpreter; other threads run between two steps.
SURVEY_STEP = 1000
# Kernels stamp files with a clock of 1 to 10 ms, so two writes within a tick look like one.
TICK_NS = 20_000_000

# Prints the target's time, then per batch a line of marks (link, readable, unreadable, missing) and a line per file.
_STATS = """
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

# Every file system creates a directory for exactly one caller. A lock is stale after ten minutes; no step takes that
# long.
_TAKE = """
tries=0
until mkdir "$1" 2>/dev/null; do
  [ -d "${1%/*}" ] || exit 76
  if [ -n "$(find "$1" -prune -mmin +10 2>/dev/null)" ]; then rmdir "$1" 2>/dev/null; continue; fi
  tries=$((tries + 1))
  [ "$tries" -ge "$2" ] && exit 75
  sleep 0.1 2>/dev/null || sleep 1
done
"""

_NOWHERE = 76

# Only PATH and HOME of the target are kept: no GIT_ variable of its login may interfere.
_CLEAN = 'exec env -i PATH="$PATH" HOME="$HOME" "$@"'


class LockTimeout(TimeoutError):
    """Another process kept the lock for too long."""


class Carrier(Protocol):
    """Runs one argument list on a target and returns its result."""

    async def __call__(self, argv: Sequence[str], stdin: bytes) -> Ran: ...


class LocalRunner:
    """This machine: child processes, and system calls for stats and locks."""

    target: str | None = None

    async def run(self, argv: Sequence[str], *, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Ran:
        """Run a program to its end; cancelling ends it and its children."""
        base = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        return await run_here(argv, stdin, {**base, **(env or {})})

    async def stats(self, root: str, paths: Sequence[bytes], *, signed: bool = False) -> list[FileStat | None]:
        if len(paths) < 500:
            return _stats(os.fsencode(root), paths, signed=signed)
        return await asyncio.to_thread(_stats, os.fsencode(root), paths, signed=signed)

    async def survey(self, root: str, paths: Sequence[bytes]) -> FileSurvey:
        found = FileSurvey(sizes=[], unusual={})
        for begin in range(0, len(paths), SURVEY_STEP):
            await asyncio.to_thread(_survey, os.fsencode(root), paths[begin : begin + SURVEY_STEP], found)
        return found

    @asynccontextmanager
    async def lock(self, path: str) -> AsyncGenerator[None]:
        """Hold a lock file; the system releases it when this process dies."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            deadline = time.monotonic() + CHECKPOINT_LOCK_WAIT_S
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise LockTimeout(path) from None
                    await asyncio.sleep(LOCK_STEP_S)
            yield
        finally:
            os.close(descriptor)


class CommandRunner:
    """Any other target, through a carrier."""

    def __init__(self, target: str, carry: Carrier) -> None:
        self.target: str | None = target
        self._carry = carry

    async def run(self, argv: Sequence[str], *, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Ran:
        assignments = [f"{name}={value}" for name, value in (env or {}).items()]
        return await self._carry(["sh", "-c", _CLEAN, "sh", *assignments, *argv], stdin)

    async def stats(self, root: str, paths: Sequence[bytes], *, signed: bool = False) -> list[FileStat | None]:
        """Return the state of paths below `root`; retry if files come and go meanwhile."""
        if not paths:
            return []
        stdin = b"".join(b"./" + path + b"\0" for path in paths)
        error = b""
        for _ in range(3):
            ran = await self.run(["sh", "-c", _STATS, "sh", root], stdin=stdin)
            found = read_stats(ran.stdout)
            if found is not None and len(found) == len(paths):
                return found
            error = ran.stderr
        raise StorageError(f"cannot look at files of {root}: {error.decode('utf-8', 'replace')[:200]}")

    async def survey(self, root: str, paths: Sequence[bytes]) -> FileSurvey:
        stats = await self.stats(root, paths)
        usual = {0o644, 0o755}
        return FileSurvey(
            sizes=[-1 if seen is None else seen.size for seen in stats],
            unusual={
                path: seen
                for path, seen in zip(paths, stats, strict=True)
                if seen is not None and (seen.fresh or seen.kind != "file" or seen.permissions not in usual)
            },
        )

    @asynccontextmanager
    async def lock(self, path: str) -> AsyncGenerator[None]:
        """Hold a lock directory on the target; raise `FileNotFoundError` if its parent is gone."""
        taken = await self.run(["sh", "-c", _TAKE, "sh", path, str(int(CHECKPOINT_LOCK_WAIT_S * 10))])
        if taken.exit_code == _NOWHERE:
            raise FileNotFoundError(path)
        if taken.exit_code != 0:
            raise LockTimeout(path)
        try:
            yield
        finally:
            await self.run(["rmdir", path])


async def run_here(argv: Sequence[str], stdin: bytes, env: Mapping[str, str]) -> Ran:
    """Run a program on this machine in a process group of its own."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=pipe, stdout=pipe, stderr=pipe, env=dict(env), start_new_session=True
    )
    try:
        stdout, stderr = await process.communicate(stdin)
    except asyncio.CancelledError:
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        raise
    return Ran(exit_code=process.returncode or 0, stdout=stdout, stderr=stderr)


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


def _stats(root: bytes, paths: Sequence[bytes], *, signed: bool) -> list[FileStat | None]:
    now_ns, user = time.time_ns(), os.geteuid()
    prefix = root + b"/"
    found: list[FileStat | None] = []
    for path in paths:
        try:
            seen = os.lstat(prefix + path)
        except OSError:
            found.append(None)
            continue
        found.append(_fact(seen, prefix + path, now_ns, user, signed=signed))
    return found


def _survey(root: bytes, paths: Sequence[bytes], found: FileSurvey) -> None:
    """Add to a survey; kept minimal, because this loop is most of a first scan."""
    now_ns, user = time.time_ns(), os.geteuid()
    fresh_s = now_ns / 1_000_000_000 - FRESH_S
    lstat, add, unusual = os.lstat, found.sizes.append, found.unusual
    above = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for path in paths:
            try:
                seen = lstat(path, dir_fd=above)
            except OSError:
                add(-1)
                continue
            add(seen.st_size)
            if seen.st_mode not in _USUAL or seen.st_ctime >= fresh_s:
                unusual[path] = _fact(seen, root + b"/" + path, now_ns, user, signed=False)
    finally:
        os.close(above)


def _fact(seen: os.stat_result, path: bytes, now_ns: int, user: int, *, signed: bool) -> FileStat:
    mode, changed = seen.st_mode, seen.st_ctime_ns
    readable = user == 0 or (seen.st_uid == user and bool(mode & 0o400)) or os.access(path, os.R_OK)
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
