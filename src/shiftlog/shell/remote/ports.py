"""The interfaces of remote targets: a host opens wires, and each wire is one program with three byte streams.

`ssh/wire.py` implements them over ssh, `docker/wire.py` for containers. The programs are in `programs.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from shiftlog.shell.ports import Stream, Terminal


@dataclass(frozen=True, slots=True, kw_only=True)
class WireEnd:
    """The end of a wire: the program's exit code, or `lost` if that is unknown."""

    exit_code: int | None
    lost: bool = False


class WireListener(Protocol):
    """Receives the bytes of a wire; called on the event loop."""

    def received(self, stream: Stream, data: bytes) -> None:
        """Take the next bytes of a stream."""
        ...

    def finished(self, end: WireEnd) -> None:
        """Note the end of the wire; called once, after all bytes."""
        ...


class Wire(Protocol):
    """A running program on the target."""

    def write(self, data: bytes) -> None:
        """Send bytes to its standard input without waiting."""
        ...

    async def send(self, data: bytes) -> None:
        """Send bytes, waiting while the target's buffer is full."""
        ...

    def write_eof(self) -> None:
        """Close its standard input."""
        ...

    def close(self) -> None:
        """Close it; the program on the target may go on."""
        ...


class RemoteHost(Protocol):
    """A host or container on which wires open."""

    async def open_wire(
        self, listener: WireListener, *, script: str | None = None, terminal: Terminal | None = None
    ) -> Wire:
        """Start `sh` on the target, which reads its standard input or the file `script`; raises `ConnectionError`."""
        ...

    def leave(self) -> None:
        """The shell is closing: from now on, accept the end of a wire without a check."""
        ...

    async def close(self) -> None:
        """Close all wires and connections."""
        ...
