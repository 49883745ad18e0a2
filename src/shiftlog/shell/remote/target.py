"""A remote target as the service sees it: connect, then open a shell in-band over that connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from shiftlog.shell.ports import ShellSpec
from shiftlog.shell.remote.ports import RemoteHost
from shiftlog.shell.remote.shell import InbandShell


class RemoteTarget:
    """Opens shells on what `connect` leads to; each has a connection of its own."""

    def __init__(self, connect: Callable[[], Awaitable[RemoteHost]]) -> None:
        self._connect = connect

    async def open(self, spec: ShellSpec) -> InbandShell:
        """Connect and start a shell; raises what connecting raises, or `OpenFailed` with the reason."""
        shell = InbandShell(await self._connect())
        await shell.open(spec)
        return shell
