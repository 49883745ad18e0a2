"""Who is on a new connection: the kernel's word about the process, and the client's hello line.

Nothing is served here. A client of another user is refused whatever it says, and so is one that speaks
another wire.
"""

import os
import socket
import struct
import sys
from dataclasses import dataclass
from typing import Literal, cast

import msgspec

from shiftlog import __version__
from shiftlog.link import processes, wire
from shiftlog.model.caller import Caller

Role = Literal["mcp", "control"]

_CREDENTIALS = struct.Struct("3i")
_XUCRED = struct.Struct("=IIh2x16I")
_LOCAL_PEERCRED = 1


class Refused(Exception):
    """Why a connection is not served, in the words that its client gets."""

    def __init__(self, code: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.line = error_line(code, message, hint)


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """What a client says about itself."""

    hello: int
    version: str = ""
    role: Role = "mcp"
    face: str = ""
    client_id: str = ""
    pid: int | None = None
    pid_started: str | None = None
    cwd: str | None = None
    options: dict[str, object] = {}


class _FirstLine(msgspec.Struct):
    shiftlog: Hello


class _Number(msgspec.Struct):
    hello: int


class _FirstNumber(msgspec.Struct):
    shiftlog: _Number


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """The process that connected, as the kernel knows it; `pid` is None where it does not say.

    `started` is None where it had ended before it was looked at: whoever holds its connection now is somebody else.
    """

    uid: int
    pid: int | None
    started: str | None = None

    @property
    def is_inside(self) -> bool:
        """Whether it may stand below this daemon, in one of its shells."""
        if self.pid is None:
            return False
        if self.started is None or not processes.alive(self.pid, self.started):
            return True
        return processes.descends_from(self.pid, os.getpid())


def read_peer(sock: socket.socket) -> Peer:
    """Ask the kernel who connected; where it cannot say, the socket's mode has kept others out."""
    if sys.platform == "darwin":
        _, uid, *_ = cast("tuple[int, ...]", _XUCRED.unpack(sock.getsockopt(0, _LOCAL_PEERCRED, _XUCRED.size)))
        return Peer(uid=uid, pid=None)
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return Peer(uid=os.geteuid(), pid=None)
    raw = sock.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size)
    pid, uid, _ = cast("tuple[int, int, int]", _CREDENTIALS.unpack(raw))
    return Peer(uid=uid, pid=pid or None, started=processes.started(pid) if pid else None)


def check_peer(peer: Peer) -> None:
    """Refuse every other user, root too."""
    if peer.uid != os.geteuid():
        raise Refused(
            "unauthorized",
            f"This daemon serves uid {os.geteuid()} only",
            "Run Shiftlog as the user whose sessions these are",
        )


def read_hello(line: bytes) -> Hello:
    """Read the client's first line; raise Refused for another wire or for what is no hello."""
    try:
        number = msgspec.json.decode(line, type=_FirstNumber).shiftlog.hello
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Refused(
            "invalid_parameter",
            "The first line of a connection must be a Shiftlog hello",
            "Connect with `shiftlog mcp` or the `shiftlog` command line",
        ) from None
    if number != wire.WIRE:
        raise Refused(
            "wire_mismatch",
            f"The client speaks wire {number}, the daemon {__version__} speaks wire {wire.WIRE}",
            "Run `shiftlog daemon stop`, then restart the client so that both are of one version",
        )
    try:
        return msgspec.json.decode(line, type=_FirstLine).shiftlog
    except msgspec.DecodeError:
        raise Refused(
            "invalid_parameter", "The hello line has a field of the wrong type", "Restart the client"
        ) from None


def caller_of(hello: Hello, peer: Peer) -> Caller:
    """Return the caller of a connection's requests; where the kernel knows better than the client, it counts.

    A control connection is the operator's unless it comes from inside a shell of this daemon, or from a process that
    ended since and left it to another.
    """
    pid = peer.pid or hello.pid
    if peer.pid is None and pid is not None and processes.alive(pid):
        # The kernel does not know the process, as from outside of our container; what it says of itself must do.
        peer = Peer(uid=peer.uid, pid=pid, started=processes.started(pid))
    return Caller(
        client_id=hello.client_id or None,
        face=hello.face or hello.role,
        host=socket.gethostname(),
        pid=pid,
        pid_started=peer.started or hello.pid_started,
        cwd=hello.cwd,
        holds_leases=hello.role == "mcp",
        operator=hello.role == "control" and not peer.is_inside,
    )


def hello_line() -> bytes:
    """Return the daemon's answer to a hello."""
    return f'{{"shiftlog":{{"hello":{wire.WIRE},"version":"{__version__}","pid":{os.getpid()}}}}}\n'.encode()


def error_line(code: str, message: str, hint: str | None) -> bytes:
    """Return the answer to a client that is not served."""
    error = {"code": code, "message": message, "hint": hint}
    return msgspec.json.encode({"shiftlog": {"error": error}}) + b"\n"


def farewell_line(reason: str) -> bytes:
    """Return the last line to a bridge, which then knows whether to look for another daemon at once."""
    return msgspec.json.encode({"shiftlog": {"bye": reason}}) + b"\n"
