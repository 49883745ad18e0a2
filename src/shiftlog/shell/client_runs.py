"""Commands that an agent's own program runs, each in a sandbox of ours: offered by the guard, begun by `link.guarded`.

The command keeps its place below the client; the daemon gives it a sandbox and learns how it ends. Over a socket the
runner sends the token of an offer, its directory and its environment; it gets the descriptors and the command line of a
reaper with the sandbox below it, and at the end the exit status and the directory. If the runner goes away, the tree
ends.
"""

import asyncio
import logging
import os
import secrets
import shutil
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from shiftlog.guard.directories import OpenDirectory, open_real
from shiftlog.guard.own_programs import search_path
from shiftlog.link import guarded
from shiftlog.link.files import run_by_path
from shiftlog.model.errors import ShiftlogError
from shiftlog.model.shell_errors import WorkspaceInvalid
from shiftlog.shell.engine import reaper
from shiftlog.shell.engine.links import ReaperChannel, environment_file, reaper_command, reaper_environment
from shiftlog.shell.guard import ShellGuard, ShellPolicy

if TYPE_CHECKING:
    from shiftlog.shell.sandbox.launch import Launch

SOCKET = "guard.sock"
MESSAGE_BYTES = 8 << 20
HELLO_S = 5.0
OFFERS_KEPT = 1_000
LEFT_LOOK_S = 1.0
# The descriptor on which the shell tells its last directory; bash uses 255 and those just above 9 itself.
DIRECTORY_FD = 198
# Tells the last directory, also after `exit` or where the command sets a trap of its own. The command is an argument:
# so errors of bash quote nothing but its own lines, with their own numbers.
_TELL = f"builtin pwd -P >&{DIRECTORY_FD} 2>/dev/null"
# The definitions of the client's shell come first; a function of the user may have the name of a builtin.
_DEFINITIONS = f"/dev/fd/{guarded.DEFINITIONS_FD}"
_DEFINE = f"if [[ -e {_DEFINITIONS} ]]; then builtin . {_DEFINITIONS} 2>/dev/null; exec {guarded.DEFINITIONS_FD}<&-; fi"
_RUN = (
    f"builtin trap '{_TELL}' EXIT; __shiftlog=$1; builtin set --; builtin eval \"$__shiftlog\"; __shiftlog=$?; "
    f"{_TELL}; builtin exit $__shiftlog"
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedRun:
    """A command that its client may run once, in this sandbox; `permitted` are the `ask` entries that it may use."""

    text: str
    workspace: str
    sandbox: str
    session_id: str
    permitted: tuple[str, ...] = ()
    command_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedRun:
    """The end of a command; `programs` are the program starts, None if the kernel does not tell.

    `state` is `finished` with an exit code, `cancelled` if the client ended it, `unknown` if the daemon did.
    """

    state: Literal["finished", "cancelled", "unknown"]
    exit_code: int | None
    is_vouched: bool
    cwd: str
    duration_ms: int
    programs: list[dict[str, Any]] | None
    programs_total: int


Begun = Callable[[OfferedRun, str], Awaitable[None]]
Over = Callable[[OfferedRun, EndedRun], Awaitable[None]]


class ClientRuns:
    """The socket for runners, and the commands that run."""

    def __init__(
        self, place: Path, policy: ShellPolicy, temp_of: Callable[[str], str], *, begun: Begun, over: Over
    ) -> None:
        self.path = place
        self._policy = policy
        self._temp_of = temp_of
        self._begun = begun
        self._over = over
        self._offers: dict[str, OfferedRun] = {}
        self._server: asyncio.Task[None] | None = None
        self._listener: socket.socket | None = None
        self._runs: set[asyncio.Task[None]] = set()

    def offer(self, run: OfferedRun) -> str:
        """Let a client run a command once; return the token that names the offer."""
        self._listen()
        token = secrets.token_hex(16)
        while len(self._offers) >= OFFERS_KEPT:
            del self._offers[next(iter(self._offers))]
        self._offers[token] = run
        return token

    def command(self, token: str) -> list[str]:
        """Return the words that run an offered command."""
        return [*run_by_path(guarded.__file__), str(self.path), token]

    async def aclose(self) -> None:
        """Stop listening and end every command."""
        tasks = [*([self._server] if self._server else []), *self._runs]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._listener is not None:
            self._listener.close()
            self.path.unlink(missing_ok=True)

    def _listen(self) -> None:
        if self._listener is not None and self.path.exists():
            return
        if self._server is not None:
            self._server.cancel()
        self.path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(self.path))
        self.path.chmod(0o600)
        listener.listen(64)
        listener.setblocking(False)
        self._listener = listener
        self._server = asyncio.create_task(self._serve(listener))

    async def _serve(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            runner, _ = await loop.sock_accept(listener)
            runner.setblocking(False)
            task = asyncio.create_task(self._take(runner))
            self._runs.add(task)
            task.add_done_callback(self._runs.discard)

    async def _take(self, runner: socket.socket) -> None:
        with runner:
            try:
                _, uid, _ = struct.unpack("3i", runner.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
                if uid != os.geteuid():
                    return
                async with asyncio.timeout(HELLO_S):
                    token, cwd, *variables = await _receive(runner)
                offered = self._offers.pop(token.decode("ascii", "replace"), None)
                if offered is None:
                    raise ShiftlogError("this command was not offered by the guard, or has run already")
                environment = dict(variable.split(b"=", 1) for variable in variables if b"=" in variable)
                await self._run(runner, offered, os.fsdecode(cwd), environment)
            except (ConnectionError, TimeoutError, asyncio.IncompleteReadError):
                return
            except ShiftlogError as error:
                with suppress(OSError):
                    await _send(runner, [b"no", f"the guard refuses this command: {error.message}".encode()])
            except Exception:
                log.exception("a guarded command failed")
                with suppress(OSError):
                    await _send(runner, [b"no", b"the guard failed; daemon.log has the details"])

    async def _run(self, runner: socket.socket, run: OfferedRun, cwd: str, environment: Mapping[bytes, bytes]) -> None:
        guard = await self._guard(run, cwd)
        running = _Running(guard=guard, run=run, cwd=cwd)
        try:
            await self._begun(run, cwd)
            try:
                await running.start(runner, environment)
                ended = await running.ended(runner)
            except BaseException:  # the daemon stops, or the command could not start: its record has an end too
                await self._over(run, running.left())
                raise
            await self._over(run, ended)
            if ended.exit_code is not None:
                said = _refusals(ended.programs or [])
                await _send(runner, [str(ended.exit_code).encode(), os.fsencode(ended.cwd), said])
            runner.close()
            await running.gone()
        finally:
            running.close()
            guard.close()

    async def _guard(self, run: OfferedRun, cwd: str) -> ShellGuard:
        """Return the guard of the command, with its launcher; refuse without one, as nothing would hold."""
        try:
            opened: OpenDirectory = open_real(run.workspace)
        except OSError as error:
            raise WorkspaceInvalid(f"workspace {run.workspace} cannot be used: {error.strerror}") from None
        values: dict[str, Any] = {
            "transport": "local",
            "workspace": opened.path,
            "cwd": cwd,
            "sandbox": run.sandbox,
            "env": {},
        }
        with opened:
            guard = await self._policy.guard(values, opened, self._temp_of(run.session_id))
        if guard.launcher is None and run.sandbox != "full-access":
            guard.close()
            raise ShiftlogError("this machine cannot enforce the sandbox")
        return guard


@dataclass(slots=True, kw_only=True)
class _Running:
    """One command that runs, from its start to the end of the last process that it left."""

    guard: ShellGuard
    run: OfferedRun
    cwd: str
    _channel: ReaperChannel | None = None
    _directory: int = -1
    _began: float = 0.0
    _exit: "asyncio.Future[int]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    _gone: asyncio.Event = field(default_factory=asyncio.Event)

    async def start(self, runner: socket.socket, environment: Mapping[bytes, bytes]) -> None:
        """Send the runner what it starts."""
        env = {os.fsdecode(name): os.fsdecode(value) for name, value in environment.items()}
        launcher = cast("Launch | None", self.guard.launcher)
        # Where no kernel judges what starts, only the text does, and an alias would change what it means.
        script = _RUN if launcher is None else f"{_DEFINE}; {_RUN}"
        bash = shutil.which("bash", path=search_path(os.environ, self.run.workspace)) or "bash"
        argv = [bash, "-c", script, "bash", self.run.text]
        self._directory, told = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        ours, theirs = socket.socketpair()
        self._channel = ReaperChannel(ours)
        self._channel.listen(self._exited, lambda _: self._left())
        with ExitStack() as ours_only:
            ours_only.callback(theirs.close)
            ours_only.callback(os.close, told)
            passed: list[int] = []
            if launcher is not None:
                ours_only.callback(launcher.started)
                wrapped = launcher.wrap(argv, env, self.cwd)
                argv, env, passed = wrapped.argv, wrapped.env, list(wrapped.pass_fds)
            variables = environment_file(env)
            ours_only.callback(os.close, variables)
            free = max([DIRECTORY_FD, *passed]) + 1
            words = reaper_command(free, free + 1, () if launcher is None else launcher.directories, argv)
            self.guard.command_began(self.run.command_id, list(self.run.permitted))
            fds = [*passed, told, theirs.fileno(), variables]
            numbers = [*passed, DIRECTORY_FD, free, free + 1]
            parts = [b"run", str(len(fds)).encode(), *(str(number).encode() for number in numbers)]
            outer = reaper_environment()
            parts += [*map(os.fsencode, words), b"", *(os.fsencode(f"{k}={v}") for k, v in outer.items())]
            self._began = time.perf_counter()
            await _send(runner, parts, fds)

    async def ended(self, runner: socket.socket) -> EndedRun:
        """Wait for the end of the command; end its tree if the runner goes away first."""
        watching = asyncio.create_task(_closed(runner))
        try:
            await asyncio.wait([self._exit, watching], return_when=asyncio.FIRST_COMPLETED)
        finally:
            watching.cancel()
        if not self._exit.done():
            if self._channel is not None:
                self._channel.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(HELLO_S):
                    await self._gone.wait()
        status = self._exit.result() if self._exit.done() and not self._exit.cancelled() else None
        return self._end("cancelled" if status is None else "finished", None if status is None else _exit_code(status))

    def left(self) -> EndedRun:
        """Return what is known of a command whose end the daemon does not see."""
        return self._end("unknown", None)

    def _end(self, state: Literal["finished", "cancelled", "unknown"], exit_code: int | None) -> EndedRun:
        programs, total = self.guard.command_ended(self.run.command_id)
        return EndedRun(
            state=state,
            exit_code=exit_code,
            is_vouched=exit_code is None or self.guard.vouches,
            cwd=self._last_directory(),
            duration_ms=int((time.perf_counter() - self._began) * 1000) if self._began else 0,
            programs=programs,
            programs_total=total,
        )

    async def gone(self) -> None:
        """Wait until every process that the command left in the background has ended; the rules hold for them too."""
        while not self._gone.is_set():
            channel = self._channel
            if (
                channel is not None
                and channel.reaper_pid
                and not reaper.below(channel.reaper_pid, reaper.process_table())
            ):
                channel.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(LEFT_LOOK_S):
                    await self._gone.wait()

    def close(self) -> None:
        """End what is left."""
        if self._channel is not None and not self._gone.is_set():
            self._channel.close()
        if self._directory >= 0:
            os.close(self._directory)
            self._directory = -1

    def _exited(self, pid: int, status: int) -> None:
        if self._channel is not None and pid == self._channel.child and not self._exit.done():
            self._exit.set_result(status)

    def _left(self) -> None:
        self._gone.set()
        if not self._exit.done():
            self._exit.cancel()

    def _last_directory(self) -> str:
        try:
            told = os.read(self._directory, 1 << 16)
        except OSError:
            return self.cwd
        path = os.fsdecode(told.rstrip(b"\n").rpartition(b"\n")[2])
        return path if path.startswith("/") else self.cwd


def _exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _refusals(programs: list[dict[str, Any]]) -> bytes:
    """Return a line for each program that was refused, with the reason."""
    refused = [start for start in programs if start["verdict"] != "allow" and start.get("reason")]
    lines = dict.fromkeys(f"shiftlog: {start['reason']}\n" for start in refused)
    return "".join(lines).encode("utf-8", "surrogateescape")


async def _closed(runner: socket.socket) -> None:
    """Return when the runner closes its connection."""
    loop = asyncio.get_running_loop()
    with suppress(OSError):
        while await loop.sock_recv(runner, 4096):
            pass


async def _receive(runner: socket.socket) -> list[bytes]:
    loop = asyncio.get_running_loop()
    data = b""
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
        more = await loop.sock_recv(runner, 1 << 16)
        if not more or len(data) > MESSAGE_BYTES:
            raise ConnectionError("the runner went away")
        data += more
    return data[4:].split(b"\0")


async def _send(runner: socket.socket, parts: list[bytes], descriptors: "list[int] | None" = None) -> None:
    text = b"\0".join(parts)
    data = len(text).to_bytes(4, "big") + text
    if descriptors:
        socket.send_fds(runner, [data[:4]], descriptors)
        data = data[4:]
    await asyncio.get_running_loop().sock_sendall(runner, data)
