"""Opens shells on this machine: the base environment, the private directory, and the start of bash below a reaper.

`shell.py` drives the started bash, `reaper.py` is the program of its parent; a launcher puts both into a sandbox.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from anyio.abc import TaskGroup

from shiftlog.model.environment import looks_secret
from shiftlog.model.shell_errors import OpenFailed
from shiftlog.shell.engine import protocol, reaper
from shiftlog.shell.engine.script import Script, open_script
from shiftlog.shell.engine.shell import EngineShell
from shiftlog.shell.engine.streams import CollectedOutput
from shiftlog.shell.ports import STREAMS, CommandSpec, ShellSpec

if TYPE_CHECKING:
    from shiftlog.shell.sandbox.launch import Launch

_OWN_PREFIX = "SHIFTLOG_"
_KEPT_OWN = "SHIFTLOG_HOME"


def base_environment(environ: Mapping[str, str], passed: Sequence[str] = ()) -> dict[str, str]:
    """Return the server's environment without variables that look secret, except those named in `passed`."""
    kept = {
        name: value
        for name, value in environ.items()
        if name in passed or (not looks_secret(name) and (not name.startswith(_OWN_PREFIX) or name == _KEPT_OWN))
    }
    return kept | {name: value for name, value in protocol.ENVIRONMENT.items() if name not in passed}


def default_runtime_dir() -> Path:
    """Return a directory for pipes, in memory if possible."""
    for candidate in (os.environ.get("XDG_RUNTIME_DIR"), "/dev/shm"):
        if candidate and os.access(candidate, os.W_OK | os.X_OK):
            return Path(candidate)
    return Path(tempfile.gettempdir())


class ReaperChannel:
    """The socket of a reaper: hears of every exit below it, and can end its tree."""

    def __init__(self, ours: socket.socket) -> None:
        self.child: int | None = None
        self.reaper_pid: int | None = None
        self._rest = b""
        self._count = 0
        self._heard_exit: Callable[[int, int], None] = lambda _pid, _status: None
        self._heard_gone: Callable[[int], None] = lambda _count: None
        self._ours = ours
        self._ours.setblocking(False)

    def listen(self, on_exit: Callable[[int, int], None], on_gone: Callable[[int], None]) -> None:
        """Call back at every exit below the reaper, and once at its own with the number of processes it ended."""
        self._heard_exit, self._heard_gone = on_exit, on_gone
        asyncio.get_running_loop().add_reader(self._ours, self._read)

    def close(self) -> None:
        """Let the reaper end the whole tree."""
        try:
            self._ours.send(b"close\n")
        except OSError:
            pass

    def _read(self) -> None:
        try:
            data = self._ours.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *complete, self._rest = (self._rest + data).split(b"\n")
        for line in complete:
            kind, *numbers = line.split()
            if kind == b"started":
                self.child, self.reaper_pid = int(numbers[0]), int(numbers[1])
            elif kind == b"gone":
                self._count = int(numbers[0])
            else:
                self._heard_exit(int(numbers[0]), int(numbers[1]))
        if not data:
            self._leave()
            self._heard_gone(self._count)

    def _leave(self) -> None:
        if self._ours.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._ours)
            self._ours.close()


class ReaperLink(ReaperChannel):
    """One reaper and the command below it. The tree ends when this process ends, however that happens."""

    def __init__(
        self,
        command: Sequence[str],
        directory: Path,
        *,
        env: Mapping[str, str],
        cwd: str,
        stdio: tuple[int, int, int],
        pass_fds: Sequence[int] = (),
    ) -> None:
        ours, theirs = socket.socketpair()
        super().__init__(ours)
        try:
            self._process = subprocess.Popen(
                reaper_command(theirs.fileno(), str(directory), command),
                stdin=stdio[0],
                stdout=stdio[1],
                stderr=stdio[2],
                env=dict(env),
                cwd=cwd,
                pass_fds=(theirs.fileno(), *pass_fds),
                start_new_session=True,
            )
        except BaseException:
            self._ours.close()
            raise
        finally:
            theirs.close()
        self.pid = self._process.pid

    def kill(self) -> None:
        """End everything by force, the reaper last."""
        for process in reaper.below(self.pid, reaper.process_table()):
            reaper.send(process.pid, 9)
        self._process.kill()
        self._leave()

    def _leave(self) -> None:
        if self._ours.fileno() >= 0:
            super()._leave()
            self._process.wait()


def reaper_command(channel: int, directory: str, command: Sequence[str]) -> list[str]:
    """Return the command line of a reaper with a command below it; it removes the directory when all is over."""
    program = str(Path(reaper.__file__).resolve())
    return [sys.executable, "-I", "-S", program, str(channel), directory, "--", *command]


class LocalTarget:
    """Opens shells on this machine, with `environment` as the base one; with a launcher, inside its sandbox."""

    label = "local"
    shown = None

    def __init__(
        self,
        *,
        environment: Mapping[str, str] | None = None,
        runtime_dir: Path | None = None,
        launcher: Launch | None = None,
    ) -> None:
        self._environment = base_environment(os.environ) if environment is None else dict(environment)
        self._runtime_dir = runtime_dir or default_runtime_dir()
        self._launcher = launcher

    async def open(self, spec: ShellSpec, tasks: TaskGroup) -> EngineShell:
        """Start a bash below a reaper of its own; raises `OpenFailed` with the reason."""
        env = protocol.without_prompts(self._environment | dict(spec.env))
        # From the server's own PATH: the caller's must not decide what runs as the shell.
        bash = shutil.which("bash", path=self._environment.get("PATH")) or shutil.which("bash")
        if bash is None:
            raise OpenFailed.because("bash was not found on this machine")
        cwd = spec.cwd or str(Path.cwd())
        if not Path(cwd).is_dir():
            raise OpenFailed.because(f"cwd {cwd} does not exist")
        deadline = asyncio.get_running_loop().time() + spec.ready_s
        shell = self._start(bash, env, cwd, tasks)
        try:
            await shell.prepare(spec.ready_s, "sh" if spec.shell == "sh" else "bash")
            if spec.login:
                left_s = deadline - asyncio.get_running_loop().time()
                async with asyncio.timeout(left_s):
                    shell.startup_output = await _run_profiles(shell)
        except TimeoutError:
            await shell.close("unresponsive")
            raise OpenFailed.because(f"it was not ready within {spec.ready_s:g} s") from None
        except asyncio.CancelledError:
            await shell.close()
            raise
        if shell.ended.done():
            raise OpenFailed.because("it ended while it started")
        return shell

    def _start(self, bash: str, env: Mapping[str, str], cwd: str, tasks: TaskGroup) -> EngineShell:
        inside = None if self._launcher is None else self._launcher.runtime_dir
        directory = Path(tempfile.mkdtemp(prefix="shiftlog-", dir=inside or self._runtime_dir))
        ours, theirs = open_script()
        outputs = [os.pipe2(os.O_CLOEXEC) for _ in STREAMS]
        try:
            argv = [bash, *protocol.WITHOUT_PROFILES, *protocol.BASH_OPTIONS]
            stdio = (theirs.fileno(), outputs[0][1], outputs[1][1])
            reaper = self._start_reaper(argv, directory, env, cwd, stdio)
            script = Script(ours, f"socket:[{os.fstat(theirs.fileno()).st_ino}]")
        except OSError as error:
            ours.close()
            for readable, _ in outputs:
                os.close(readable)
            shutil.rmtree(directory, ignore_errors=True)
            raise OpenFailed.because(error.strerror or str(error)) from error
        finally:
            theirs.close()
            for _, writable in outputs:
                os.close(writable)
        for readable, _ in outputs:
            os.set_blocking(readable, False)
        return EngineShell(
            directory,
            script=script,
            outputs=(outputs[0][0], outputs[1][0]),
            reaper=reaper,
            bash=bash,
            cwd=cwd,
            careful="TIMEFORMAT" in env,
            tasks=tasks,
            on_over=None if self._launcher is None else self._launcher.close,
            own_terminals=self._launcher is not None and self._launcher.own_terminals,
        )

    def _start_reaper(
        self, argv: list[str], directory: Path, env: Mapping[str, str], cwd: str, stdio: tuple[int, int, int]
    ) -> ReaperLink:
        if self._launcher is None:
            return ReaperLink(argv, directory, env=env, cwd=cwd, stdio=stdio)
        wrapped = self._launcher.wrap(argv, env, cwd)
        try:
            return ReaperLink(wrapped.argv, directory, env=wrapped.env, cwd=cwd, stdio=stdio, pass_fds=wrapped.pass_fds)
        finally:
            self._launcher.started()


async def _run_profiles(shell: EngineShell) -> bytes:
    output = CollectedOutput()
    command = await shell.start(CommandSpec(text=protocol.PROFILES), output)
    await asyncio.wait([command.ended])
    return bytes(output.data)
