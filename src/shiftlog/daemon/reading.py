"""Answers for a state directory that cannot be written: one client, no lock, no socket of our own, no change.

The client starts this process with one end of a socket pair and speaks to it as to any daemon.
"""

import socket
from pathlib import Path

import anyio

from shiftlog.app.app import open_app
from shiftlog.daemon.app_services import AppServices
from shiftlog.daemon.connections import Connections
from shiftlog.daemon.hello import error_line
from shiftlog.daemon.log import open_log
from shiftlog.daemon.upkeep import described
from shiftlog.model.errors import ShiftlogError


def serve_reader(home: str, descriptor: int) -> int:
    """Answer the client at a descriptor until it closes its end; return the exit status."""
    open_log("", "error", foreground=True)
    sock = socket.socket(fileno=descriptor)
    sock.setblocking(False)
    anyio.run(_serve, Path(home), sock)
    return 0


async def _serve(home: Path, sock: socket.socket) -> None:
    try:
        async with open_app(home, read_only=True) as app:
            await Connections(str(home), AppServices(app), lambda reason: None).serve(sock)
    except ShiftlogError as error:
        sock.send(error_line(error.code, described(error), error.hint))
