"""What a remote target is to the in-band engine: a host that opens wires, each one program with three byte streams.

Here are only the seams; a wire over ssh is a channel (`ssh_wire.py`), one into a container a `docker exec` client
(`docker_wire.py`). What travels over them is `remote_programs.py`'s and
`remote_words.py`'s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from shiftlog.shell.ports import Stream, Terminal


@dataclass(frozen=True, slots=True, kw_only=True)
class WireEnd:
    """How a wire ended: the program's exit code, or `lost` where nobody can know."""

    exit_code: int | None
    lost: bool = False


class WireListener(Protocol):
    """Hears what comes over a wire; called on the event loop."""

    def received(self, stream: Stream, data: bytes) -> None:
        """Take the next bytes of a stream."""
        ...

    def finished(self, end: WireEnd) -> None:
        """Learn, once and last, that the wire is over."""
        ...


class Wire(Protocol):
    """A program that runs on the target."""

    def write(self, data: bytes) -> None:
        """Send bytes to its standard input without waiting."""
        ...

    async def send(self, data: bytes) -> None:
        """Send bytes, waiting while the target does not take them."""
        ...

    def write_eof(self) -> None:
        """Close its standard input."""
        ...

    def close(self) -> None:
        """Let go of it; what runs on the target may go on."""
        ...


class RemoteHost(Protocol):
    """Where wires lead to."""

    async def open_wire(
        self, listener: WireListener, *, script: str | None = None, terminal: Terminal | None = None
    ) -> Wire:
        """Start `sh` on the target, which reads its standard input or the file `script`; raises `ConnectionError`."""
        ...

    def leave(self) -> None:
        """Learn that the ends of wires are wanted from now on, and need not be doubted."""
        ...

    async def close(self) -> None:
        """Let go of the target."""
        ...
