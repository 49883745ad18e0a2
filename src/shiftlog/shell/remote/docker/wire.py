"""Wires into a container: each is a `docker exec -i` (or `podman exec -i`) client process.

The end of a client does not show whether the process inside ended or the container stopped, so the container is
inspected before an end is accepted.
"""

from __future__ import annotations

import asyncio
import os
import tty
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from anyio import move_on_after
from anyio.abc import TaskGroup

from shiftlog.shell.engine.terminal import open_terminal
from shiftlog.shell.ports import Stream, Terminal
from shiftlog.shell.remote.ports import WireEnd, WireListener

_ASK_S = 10.0
_GONE_S = 2.0
#: Docker may report the end of a process before that of its container.
_DOUBT_S = (0.0, 0.05, 0.1, 0.2, 0.3)
_KILLED = 137
_STREAMS: dict[int, Stream] = {1: "stdout", 2: "stderr"}
_FORMAT = "{{.Id}} {{.State.Running}} {{.State.Paused}} {{.State.StartedAt}} {{.Name}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container as docker describes it; `started_at` differs after a restart."""

    id: str
    name: str
    running: bool
    started_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerClient:
    """The command line that talks to the engine, and the environment it is run with."""

    program: str
    env: Mapping[str, str]

    async def find(self, name: str) -> Container | None:
        """Return a container by name, id or the beginning of its id; raises `ConnectionError` without an engine."""
        code, out, err = await self._run("inspect", "--type", "container", "--format", _FORMAT, "--", name)
        if code == 0:
            words = out.decode("utf-8", "replace").split()
            running = words[1] == "true" and words[2] == "false"
            return Container(id=words[0], name=words[-1].lstrip("/"), running=running, started_at=" ".join(words[3:-1]))
        said = err.decode("utf-8", "replace").lower()
        if "no such" in said or "not found" in said:
            return None
        raise ConnectionError(said.strip()[:200] or "the engine does not answer")

    async def still(self, known: Container) -> bool:
        """Return True if a container still runs and was not restarted."""
        try:
            now = await self.find(known.id)
        except (ConnectionError, TimeoutError, OSError):
            return False
        return now is not None and now.running and now.started_at == known.started_at

    async def _run(self, *arguments: str) -> tuple[int, bytes, bytes]:
        process = await asyncio.create_subprocess_exec(
            self.program,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=dict(self.env),
        )
        try:
            async with asyncio.timeout(_ASK_S):
                out, err = await process.communicate()
        except BaseException:
            if process.returncode is None:
                process.kill()
            raise
        return process.returncode or 0, out, err


class DockerHost:
    """One running container."""

    def __init__(self, client: DockerClient, container: Container, tasks: TaskGroup) -> None:
        self.tasks = tasks
        self._client = client
        self._container = container
        self.wires: set[DockerWire] = set()
        self._leaving = False

    async def open_wire(
        self, listener: WireListener, *, script: str | None = None, terminal: Terminal | None = None
    ) -> DockerWire:
        options = ["-i"] if terminal is None else ["-i", "-t"]
        argv = [self._client.program, "exec", *options, self._container.id, "sh", *([script] if script else [])]
        wire = DockerWire(self, listener)
        self.wires.add(wire)
        try:
            await wire.start(argv, self._client.env, terminal)
        except OSError as error:
            raise ConnectionError("the docker client could not be started") from error
        return wire

    async def judge(self, code: int) -> WireEnd:
        """Return what the end of a client means for its process inside."""
        if self._leaving and code >= 0:
            return WireEnd(exit_code=code)
        if code < 0:
            return WireEnd(exit_code=None, lost=True)
        for pause_s in _DOUBT_S if code == _KILLED else _DOUBT_S[:1] if code else ():
            await asyncio.sleep(pause_s)
            if not await self._client.still(self._container):
                return WireEnd(exit_code=None, lost=True)
        return WireEnd(exit_code=code)

    def leave(self) -> None:
        """Accept every end from now on without inspecting the container."""
        self._leaving = True

    async def close(self) -> None:
        """Kill the remaining clients, and wait for their ends."""
        left = list(self.wires)
        for wire in left:
            wire.close()
        with move_on_after(_GONE_S):
            for wire in left:
                await wire.over.wait()


class DockerWire(asyncio.SubprocessProtocol):
    """One client."""

    def __init__(self, host: DockerHost, listener: WireListener) -> None:
        self._host = host
        self._listener = listener
        self._transport: asyncio.SubprocessTransport | None = None
        self._stdin: asyncio.WriteTransport | None = None
        self._screen: int | None = None
        self._unsent = bytearray()
        self._open = 0
        self._exited = False
        self._closed = False
        self._judging = False
        self._writable = asyncio.Event()
        self._writable.set()
        self.over = asyncio.Event()

    async def start(self, argv: Sequence[str], env: Mapping[str, str], terminal: Terminal | None) -> None:
        """Start the client; with `terminal`, on a local terminal, because it refuses `-t` without one."""
        loop = asyncio.get_running_loop()
        if terminal is None:
            self._open = 2
            transport, _ = await loop.subprocess_exec(lambda: self, *argv, env=dict(env), start_new_session=True)
            self._transport = transport
            self._stdin = cast("asyncio.WriteTransport | None", transport.get_pipe_transport(0))
            return
        ours, theirs = open_terminal(terminal)
        try:
            tty.setraw(theirs)  # input that arrives before the client takes the terminal over belongs to the program
            self._open = 1
            transport, _ = await loop.subprocess_exec(
                lambda: self, *argv, env=dict(env), stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
            )
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        self._transport = transport
        self._screen = ours
        loop.add_reader(ours, self._read_screen)

    def write(self, data: bytes) -> None:
        if self._screen is not None:
            self._unsent += data
            self._type()
        elif self._stdin is not None and not self._stdin.is_closing():
            self._stdin.write(data)

    async def send(self, data: bytes) -> None:
        view = memoryview(data)
        while view and not self._exited:
            self.write(bytes(view[: 256 * 1024]))
            view = view[256 * 1024 :]
            await self._writable.wait()

    def write_eof(self) -> None:
        if self._stdin is not None and not self._stdin.is_closing():
            self._stdin.close()

    def close(self) -> None:
        """Kill the client; the process inside goes on."""
        self._closed = True
        if self._transport is not None and not self._exited:
            self._transport.kill()

    # What asyncio calls

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if not self._closed:
            self._listener.received(_STREAMS[fd], data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Count the outputs that ended."""
        if fd in _STREAMS:
            self._open -= 1
            self._maybe_over()

    def process_exited(self) -> None:
        """Note the client's exit; its outputs may still hold bytes."""
        self._exited = True
        self._writable.set()
        self._maybe_over()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # Inside

    def _maybe_over(self) -> None:
        if self._exited and self._open <= 0 and not self._judging:
            self._judging = True
            if self._closed:
                self._end(WireEnd(exit_code=None))
            else:
                self._host.tasks.start_soon(self._judge)

    async def _judge(self) -> None:
        assert self._transport is not None
        code = self._transport.get_returncode()
        self._end(await self._host.judge(-1 if code is None else code))

    def _end(self, end: WireEnd) -> None:
        assert self._transport is not None
        self._transport.close()
        self._host.wires.discard(self)
        self.over.set()
        self._listener.finished(end)

    def _read_screen(self) -> None:
        assert self._screen is not None
        try:
            data = os.read(self._screen, 65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            if not self._closed:
                self._listener.received("stdout", data)
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._screen)
        loop.remove_writer(self._screen)
        os.close(self._screen)
        self._screen = None
        self._open -= 1
        self._maybe_over()

    def _type(self) -> None:
        if self._screen is None:
            return
        loop = asyncio.get_running_loop()
        try:
            del self._unsent[: os.write(self._screen, self._unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self._unsent.clear()
        if self._unsent:
            self._writable.clear()
            loop.add_writer(self._screen, self._type)
        else:
            self._writable.set()
            loop.remove_writer(self._screen)
