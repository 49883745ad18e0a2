"""Runners: this machine, and any other target that a carrier can run a command line on.

`CommandRunner` uses POSIX sh only, so that a remote target needs no Python; ssh and docker supply the carrier. A runner
enters a workspace; on this machine that opens its directory once, and everything that follows goes by the descriptor.
"""

import asyncio
import fcntl
import os
import signal
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from shiftlog.guard.directories import OpenDirectory, make_directory, open_directory
from shiftlog.guard.own_programs import search_path
from shiftlog.model.errors import StorageError
from shiftlog.model.limits import CHECKPOINT_LOCK_WAIT_S
from shiftlog.workspace.files import stats
from shiftlog.workspace.files.pipes import release_pipes
from shiftlog.workspace.ports import Env, FileStat, FileSurvey, Ran, WorkTree

LOCK_STEP_S = 0.02
# A loop of system calls rarely releases the interpreter; other threads run between two steps.
SURVEY_STEP = 1000
# A program that runs this long may wait for a named pipe; each further look waits three times as long.
STALL_S = 1.0

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

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", env: Env | None = None, files: Sequence[int] = ()
    ) -> Ran:
        """Run a program to its end; cancelling ends it and its children."""
        return await run_here(argv, stdin, _own_environment(env), files=files)

    @asynccontextmanager
    async def enter(self, path: str, *, create: bool = False) -> AsyncGenerator[WorkTree]:
        """Open a workspace by its real path; raise `OSError` if it is gone or a link is on the way."""
        with (make_directory if create else open_directory)(path) as opened:
            yield LocalTree(opened=opened)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTree:
    """A workspace of this machine, by the descriptor of its directory."""

    opened: OpenDirectory

    @property
    def directory(self) -> int | None:
        return self.opened.descriptor

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", env: Env | None = None, files: Sequence[int] = ()
    ) -> Ran:
        """Run a program in the workspace; named pipes that it opens instead of git's files read as empty."""
        environment = _own_environment(env, self.opened.path)
        running = asyncio.ensure_future(run_here(argv, stdin, environment, files=files, cwd=self.opened.child_path))
        pause_s = STALL_S
        try:
            while not (await asyncio.wait({running}, timeout=pause_s))[0]:
                await asyncio.to_thread(release_pipes, self.opened.descriptor)
                pause_s *= 3
        except asyncio.CancelledError:
            running.cancel()
            await asyncio.wait({running})
            raise
        return running.result()

    async def stats(self, paths: Sequence[bytes], *, signed: bool = False) -> list[FileStat | None]:
        if len(paths) < 500:
            return stats.here(self.opened.descriptor, paths, signed=signed)
        return await asyncio.to_thread(stats.here, self.opened.descriptor, paths, signed=signed)

    async def survey(self, paths: Sequence[bytes]) -> FileSurvey:
        found = FileSurvey(sizes=[], unusual={})
        for begin in range(0, len(paths), SURVEY_STEP):
            step = paths[begin : begin + SURVEY_STEP]
            await asyncio.to_thread(stats.survey_here, self.opened.descriptor, step, found)
        return found


class CommandRunner:
    """Any other target, through a carrier."""

    def __init__(self, target: str, carry: Carrier) -> None:
        self.target: str | None = target
        self._carry = carry

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", env: Env | None = None, files: Sequence[int] = ()
    ) -> Ran:
        assert not files, "a descriptor means nothing on another target"
        assignments = [f"{name}={value}" for name, value in (env or {}).items()]
        return await self._carry(["sh", "-c", _CLEAN, "sh", *assignments, *argv], stdin)

    @asynccontextmanager
    async def enter(self, path: str, *, create: bool = False) -> AsyncGenerator[WorkTree]:
        """Name a workspace; its scripts find out whether it is there."""
        if create:
            await self.run(["mkdir", "-p", "--", path])
        yield CommandTree(runner=self, root=path)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandTree:
    """A workspace of another target, by its path."""

    runner: CommandRunner
    root: str
    directory: int | None = None

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", env: Env | None = None, files: Sequence[int] = ()
    ) -> Ran:
        return await self.runner.run(argv, stdin=stdin, env=env, files=files)

    async def stats(self, paths: Sequence[bytes], *, signed: bool = False) -> list[FileStat | None]:
        """Return the state of paths; retry if files come and go meanwhile."""
        if not paths:
            return []
        stdin = b"".join(b"./" + path + b"\0" for path in paths)
        error = b""
        for _ in range(3):
            ran = await self.run(["sh", "-c", stats.STATS, "sh", self.root], stdin=stdin)
            found = stats.read_stats(ran.stdout)
            if found is not None and len(found) == len(paths):
                return found
            error = ran.stderr
        raise StorageError(f"cannot look at files of {self.root}: {error.decode('utf-8', 'replace')[:200]}")

    async def survey(self, paths: Sequence[bytes]) -> FileSurvey:
        found = await self.stats(paths)
        usual = {0o644, 0o755}
        return FileSurvey(
            sizes=[-1 if seen is None else seen.size for seen in found],
            unusual={
                path: seen
                for path, seen in zip(paths, found, strict=True)
                if seen is not None and (seen.fresh or seen.kind != "file" or seen.permissions not in usual)
            },
        )


async def run_here(
    argv: Sequence[str], stdin: bytes, env: Env, *, files: Sequence[int] = (), cwd: str | None = None
) -> Ran:
    """Run a program on this machine in a process group of its own."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=pipe, stdout=pipe, stderr=pipe, env=dict(env), start_new_session=True, pass_fds=files, cwd=cwd
    )
    try:
        stdout, stderr = await process.communicate(stdin)
    except asyncio.CancelledError:
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        raise
    return Ran(exit_code=process.returncode or 0, stdout=stdout, stderr=stderr)


def _own_environment(env: Env | None, workspace: str | None = None) -> dict[str, str]:
    base = {"PATH": search_path(os.environ, workspace)}
    base |= {"HOME": os.environ["HOME"]} if "HOME" in os.environ else {}
    return {**base, **(env or {})}
