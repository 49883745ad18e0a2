"""Wires over ssh: each is a channel of a connection; if the server allows no more, another connection opens."""

from __future__ import annotations

import asyncio
import signal as signals
from collections.abc import Awaitable, Callable, Sequence

import asyncssh
from asyncssh.constants import EXTENDED_DATA_STDERR, OPEN_CONNECT_FAILED

from shiftlog.model.errors import ShiftlogError
from shiftlog.shell.engine import protocol
from shiftlog.shell.ports import Stream, Terminal
from shiftlog.shell.remote.ports import WireEnd, WireListener
from shiftlog.shell.remote.ssh.connect import close_all

_CHUNK = 256 * 1024

Connections = Sequence[asyncssh.SSHClientConnection]


class SshHost:
    """A host over one or more ssh connections."""

    def __init__(self, connections: Connections, again: Callable[[], Awaitable[Connections]]) -> None:
        self._channels: list[Connections] = [connections]
        self._again = again

    async def open_wire(
        self, listener: WireListener, *, script: str | None = None, terminal: Terminal | None = None
    ) -> SshWire:
        """Open a channel; `exec sh` means the same to every login shell."""
        command = "exec sh" if script is None else f"exec sh {protocol.quote(script)}"
        for route in reversed(self._channels):
            try:
                return await _open(route[-1], listener, command, terminal)
            except asyncssh.ChannelOpenError as error:
                if not _is_full(route[-1], error):
                    raise ConnectionError(error.reason) from error
            except (asyncssh.Error, OSError) as error:
                raise ConnectionError("the connection was lost") from error
        try:
            self._channels.append(await self._again())
            return await _open(self._channels[-1][-1], listener, command, terminal)
        except (ShiftlogError, asyncssh.Error, OSError) as error:
            raise ConnectionError("the host allows no more channels") from error

    def leave(self) -> None:
        """Do nothing; the end of an ssh channel is always accepted."""

    async def close(self) -> None:
        for route in self._channels:
            close_all(route)


def _is_full(connection: asyncssh.SSHClientConnection, error: asyncssh.ChannelOpenError) -> bool:
    """Return True if the host refused only one more channel; a lost connection is never opened again."""
    if connection.is_closed() or "connection closed" in error.reason.lower():
        return False
    return error.code == OPEN_CONNECT_FAILED or "open failed" in error.reason.lower()


async def _open(
    connection: asyncssh.SSHClientConnection, listener: WireListener, command: str, terminal: Terminal | None
) -> SshWire:
    wire = SshWire(listener)

    def session() -> asyncssh.SSHClientSession[bytes]:
        return wire

    term_type = "xterm-256color" if terminal is not None else None
    term_size = (terminal.cols, terminal.rows) if terminal is not None else None
    await connection.create_session(  # pyright: ignore[reportUnknownMemberType]
        session, command, encoding=None, term_type=term_type, term_size=term_size
    )
    return wire


class SshWire(asyncssh.SSHClientSession[bytes]):
    """One channel."""

    def __init__(self, listener: WireListener) -> None:
        self._listener = listener
        self._channel: asyncssh.SSHClientChannel[bytes] | None = None
        self._exit_code: int | None = None
        self._over = False
        self._writable = asyncio.Event()
        self._writable.set()

    def write(self, data: bytes) -> None:
        if self._channel is not None and not self._over and not self._channel.is_closing():
            self._channel.write(data)  # pyright: ignore[reportUnknownMemberType]

    async def send(self, data: bytes) -> None:
        view = memoryview(data)
        while view and not self._over:
            self.write(bytes(view[:_CHUNK]))
            view = view[_CHUNK:]
            await self._writable.wait()

    def write_eof(self) -> None:
        if self._channel is not None and not self._over and not self._channel.is_closing():
            self._channel.write_eof()

    def close(self) -> None:
        if self._channel is not None and not self._over:
            self._channel.close()

    # What asyncssh calls

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        self._channel = chan

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        stream: Stream = "stderr" if datatype == EXTENDED_DATA_STDERR else "stdout"
        self._listener.received(stream, data)

    def eof_received(self) -> bool:
        """Keep our side open; the channel is closed when the program ends."""
        return True

    def exit_status_received(self, status: int) -> None:
        self._exit_code = status

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        """Note what killed the program, as a shell would."""
        number = getattr(signals, f"SIG{signal}", 0)
        self._exit_code = 128 + int(number)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the wire; without an exit status the program's fate is unknown."""
        self._over = True
        self._writable.set()
        self._listener.finished(WireEnd(exit_code=self._exit_code, lost=self._exit_code is None))
