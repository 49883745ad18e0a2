"""The identity of a new connection: what the kernel says about its process, and the client's hello line.

Clients of other users are always refused, and so are clients with another wire version. Nothing is served here.
"""

import errno
import os
import select
import socket
import struct
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, cast

import msgspec

from shiftlog import __version__
from shiftlog.link import processes, wire
from shiftlog.link.build import build_id
from shiftlog.model.caller import Caller, ClientSigns
from shiftlog.model.ids import is_vendor_id

Role = Literal["mcp", "control"]

_CREDENTIALS = struct.Struct("3i")
_XUCRED = struct.Struct("=IIh2x16I")
_LOCAL_PEERCRED = 1
_SO_PEERPIDFD = 77
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class HelloRefused(Exception):
    """A connection is not served; `line` is what its client gets."""

    def __init__(self, code: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.line = error_line(code, message, hint)


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """A client's statement about itself."""

    hello: int
    version: str = ""
    build: str = ""
    role: Role = "mcp"
    face: str = ""
    client_id: str = ""
    pid: int | None = None
    pid_started: str | None = None
    cwd: str | None = None
    vendor_ids: dict[str, str] = {}
    options: dict[str, object] = {}


class _FirstLineHello(msgspec.Struct):
    shiftlog: Hello


class _WireNumber(msgspec.Struct):
    hello: int


class _FirstLineNumber(msgspec.Struct):
    shiftlog: _WireNumber


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """The process that connected, as the kernel reports it; `pid` is None if the kernel does not say.

    `started` is None if the process had already ended: another process holds its connection now.
    """

    uid: int
    pid: int | None
    started: str | None = None

    @property
    def is_inside(self) -> bool:
        """True if the process may run in one of this daemon's shells."""
        if self.pid is None:
            return False
        if self.started is None or not processes.alive(self.pid, self.started):
            return True
        return processes.is_marked(self.pid) or processes.descends_from(self.pid, os.getpid())


def read_peer(sock: socket.socket) -> Peer:
    """Ask the kernel who connected; if it cannot say, the socket's mode has kept other users out."""
    if sys.platform == "darwin":
        _, uid, *_ = cast("tuple[int, ...]", _XUCRED.unpack(sock.getsockopt(0, _LOCAL_PEERCRED, _XUCRED.size)))
        return Peer(uid=uid, pid=None)
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return Peer(uid=os.geteuid(), pid=None)
    raw = sock.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size)
    pid, uid, _ = cast("tuple[int, int, int]", _CREDENTIALS.unpack(raw))
    started = processes.started(pid) if pid else None
    return Peer(uid=uid, pid=pid or None, started=None if _has_ended(sock) else started)


def _has_ended(sock: socket.socket) -> bool:
    """Return True if the process that connected is gone, so that its pid may be another one's."""
    try:
        pidfd = int.from_bytes(sock.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD, 4), sys.byteorder)
    except OSError as error:
        return error.errno != errno.ENOPROTOOPT  # a kernel before 6.5 cannot tell
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    try:
        return bool(poll.poll(0))
    finally:
        os.close(pidfd)


def check_peer(peer: Peer) -> None:
    """Refuse every other user, even root."""
    if peer.uid != os.geteuid():
        raise HelloRefused(
            "unauthorized",
            f"This daemon serves uid {os.geteuid()} only",
            "Run Shiftlog as the user whose sessions these are",
        )


def read_hello(line: bytes) -> Hello:
    """Read the client's first line; raise HelloRefused for another wire version or an invalid hello."""
    try:
        number = msgspec.json.decode(line, type=_FirstLineNumber).shiftlog.hello
    except _UNREADABLE:
        raise HelloRefused(
            "invalid_parameter",
            "The first line of a connection must be a Shiftlog hello",
            "Connect with `shiftlog mcp` or the `shiftlog` command line",
        ) from None
    if number != wire.WIRE:
        raise HelloRefused(
            "wire_mismatch",
            f"The client speaks wire {number}, the daemon {__version__} speaks wire {wire.WIRE}",
            "Run `shiftlog daemon stop`, then restart the client so that both are of one version",
        )
    try:
        return msgspec.json.decode(line, type=_FirstLineHello).shiftlog
    except _UNREADABLE:
        raise HelloRefused(
            "invalid_parameter", "The hello line has a field of the wrong type", "Restart the client"
        ) from None


def caller_of(hello: Hello, peer: Peer) -> Caller:
    """Return the caller of a connection's requests; facts from the kernel override the client's own.

    A control connection has the operator's rights unless it comes from a shell of this daemon, or from a process that
    ended and left its connection to another.
    """
    pid = peer.pid or hello.pid
    if peer.pid is None and pid is not None and processes.alive(pid):
        # The kernel cannot see the process, as from outside of our container; its own statement must do.
        peer = Peer(uid=peer.uid, pid=pid, started=processes.started(pid))
    inside = peer.is_inside
    return Caller(
        client_id=hello.client_id or None,
        face=hello.face or hello.role,
        host=socket.gethostname(),
        pid=pid,
        pid_started=peer.started or hello.pid_started,
        cwd=hello.cwd,
        holds_leases=hello.role == "mcp",
        operator=hello.role == "control" and not inside,
        inside=inside,
        signs=ClientSigns(
            vendor_ids={agent: name for agent, name in hello.vendor_ids.items() if is_vendor_id(name)},
            processes=processes.lineage(peer.pid) if peer.pid is not None and peer.started is not None else (),
            since=datetime.now(UTC),
        ),
    )


def hello_line() -> bytes:
    """Return the daemon's answer to a hello."""
    own = f'"hello":{wire.WIRE},"version":"{__version__}","pid":{os.getpid()},"build":"{build_id()}"'
    return f'{{"shiftlog":{{{own}}}}}\n'.encode()


def error_line(code: str, message: str, hint: str | None) -> bytes:
    """Return the refusal of a client."""
    error = {"code": code, "message": message, "hint": hint}
    return msgspec.json.encode({"shiftlog": {"error": error}}) + b"\n"


def farewell_line(reason: str) -> bytes:
    """Return the last line to a bridge; its reason decides whether the bridge looks for another daemon at once."""
    return msgspec.json.encode({"shiftlog": {"bye": reason}}) + b"\n"
