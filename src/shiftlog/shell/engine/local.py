"""Opens shells on this machine: the base environment, the private directory, and the start of bash below a reaper.

`shell.py` drives the started bash, `reaper.py` is the program of its parent; a launcher puts both into a sandbox.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from anyio.abc import TaskGroup

from shiftlog.guard.own_programs import search_path
from shiftlog.guard.policy.files import DEFAULT_PATH
from shiftlog.model.environment import looks_secret
from shiftlog.model.shell_errors import OpenFailed
from shiftlog.shell.engine import protocol
from shiftlog.shell.engine.directory import PipeDirectory
from shiftlog.shell.engine.holders import ClaimedShell, ShellHolders
from shiftlog.shell.engine.kept import KeptShell, Ledger
from shiftlog.shell.engine.links import ReaperLink
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
        holders: ShellHolders | None = None,
    ) -> None:
        self._environment = base_environment(os.environ) if environment is None else dict(environment)
        self._runtime_dir = runtime_dir or default_runtime_dir()
        self._launcher = launcher
        self._holders = holders if launcher is None or launcher.can_be_held else None

    async def open(self, spec: ShellSpec, tasks: TaskGroup) -> EngineShell:
        """Start a bash below a reaper of its own; raises `OpenFailed` with the reason."""
        env = protocol.without_prompts(self._environment | dict(spec.env))
        # From the server's own PATH: the caller's must not decide what runs as the shell.
        bash = shutil.which("bash", path=search_path(self._environment)) or shutil.which("bash", path=DEFAULT_PATH)
        if bash is None:
            raise OpenFailed.because("bash was not found on this machine")
        cwd = spec.cwd or str(Path.cwd())
        if not Path(cwd).is_dir():
            raise OpenFailed.because(f"cwd {cwd} does not exist")
        deadline = asyncio.get_running_loop().time() + spec.ready_s
        shell = self._start(bash, env, cwd, spec.directories, tasks)
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

    def _start(self, bash: str, env: Mapping[str, str], cwd: str, more: Sequence[str], tasks: TaskGroup) -> EngineShell:
        inside = None if self._launcher is None else self._launcher.runtime_dir
        directory = PipeDirectory(tempfile.mkdtemp(prefix="shiftlog-", dir=inside or self._runtime_dir))
        ours, theirs = open_script()
        outputs = [os.pipe2(os.O_CLOEXEC) for _ in STREAMS]
        ledger = Ledger()
        try:
            argv = [bash, *protocol.WITHOUT_PROFILES, *protocol.BASH_OPTIONS]
            stdio = (theirs.fileno(), outputs[0][1], outputs[1][1])
            reaper = self._start_reaper(argv, (directory.path, *more), env, cwd, stdio)
            name = f"socket:[{os.fstat(theirs.fileno()).st_ino}]"
            own = {f"own-{stream}": readable for stream, (readable, _) in zip(STREAMS, outputs, strict=True)}
            reaper.keep(script=ours.fileno(), ledger=ledger.fd, directory=directory.fd, **own)
        except OSError as error:
            ours.close()
            ledger.close()
            for readable, _ in outputs:
                os.close(readable)
            directory.close()
            shutil.rmtree(directory.path, ignore_errors=True)
            raise OpenFailed.because(error.strerror or str(error)) from error
        finally:
            theirs.close()
            for _, writable in outputs:
                os.close(writable)
        for readable, _ in outputs:
            os.set_blocking(readable, False)
        kept = KeptShell(
            directory=directory.path,
            bash=bash,
            script=name,
            own_terminals=self._launcher is not None and self._launcher.own_terminals,
            cwd=os.fsencode(cwd),
            careful="TIMEFORMAT" in env,
        )
        return EngineShell(
            kept,
            ledger,
            directory,
            script=Script(ours, name),
            outputs=(outputs[0][0], outputs[1][0]),
            reaper=reaper,
            tasks=tasks,
            on_over=None if self._launcher is None else self._launcher.close,
            holders=self._holders,
        )

    def _start_reaper(
        self,
        argv: list[str],
        directories: tuple[str, ...],
        env: Mapping[str, str],
        cwd: str,
        stdio: tuple[int, int, int],
    ) -> ReaperLink:
        if self._launcher is None:
            return ReaperLink(argv, directories, env=env, cwd=cwd, stdio=stdio)
        wrapped = self._launcher.wrap(argv, env, cwd)
        directories += self._launcher.directories
        fds = wrapped.pass_fds
        try:
            return ReaperLink(wrapped.argv, directories, env=wrapped.env, cwd=cwd, stdio=stdio, pass_fds=fds)
        finally:
            self._launcher.started()


async def _run_profiles(shell: EngineShell) -> bytes:
    output = CollectedOutput()
    command = await shell.start(CommandSpec(text=protocol.PROFILES), output)
    await asyncio.wait([command.ended])
    return bytes(output.data)


def adopt(
    claimed: ClaimedShell, tasks: TaskGroup, on_over: Callable[[], None] | None, holders: ShellHolders
) -> EngineShell:
    """Return the shell that an earlier server left; `EngineShell.resume` brings its commands."""
    held = claimed.descriptors
    ours = socket.socket(fileno=held.pop("script"))
    return EngineShell(
        claimed.state,
        claimed.ledger,
        PipeDirectory(claimed.state.directory, held.pop("directory")),
        script=Script(ours, claimed.state.script),
        outputs=(held.pop("own-stdout"), held.pop("own-stderr")),
        reaper=claimed.link,
        tasks=tasks,
        on_over=on_over,
        holders=holders,
    )
