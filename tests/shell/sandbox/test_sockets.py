"""A confined shell reaches no socket outside of its own directories, with or without a network."""

import os
import socket
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shiftlog.shell.sandbox.detect import detect
from tests.shell.sandbox.conftest import Shells, needs_broker, needs_confinement
from tests.shell.sandbox.flipping import flipped

pytestmark = [needs_confinement(), needs_broker()]
Make = Callable[..., Shells]
BOTH = pytest.mark.parametrize("bwrap", [True, False], ids=["bwrap", "landlock alone"])
NETWORK = pytest.mark.parametrize("network", [True, False], ids=["network", "no network"])
TRIES = pytest.mark.parametrize("tries", [100, pytest.param(3000, marks=pytest.mark.guard)])
STREAM = (
    "import socket,sys; s=socket.socket(socket.AF_UNIX, {kind}); s.connect({path!r}); s.send(b'x'); print('reached')"
)
DATAGRAM = "import socket; s={made}; s.sendto(b'x', {path!r}); print('reached')"
WORKS = """
import os, socket, threading
listener = socket.socket(socket.AF_UNIX)
listener.bind("own.sock")
listener.listen(1)
client = socket.socket(socket.AF_UNIX)
client.connect(os.path.join(os.getcwd(), "own.sock"))
server = listener.accept()[0]
client.send(b"over my own socket")
print(server.recv(100).decode())
one, other = socket.socketpair()
one.send(b"over a pair")
print(other.recv(100).decode())
"""


@contextmanager
def listening(path: Path, kind: int = socket.SOCK_STREAM) -> Generator[list[bytes]]:
    """A service outside of the shell that keeps what it was sent."""
    heard: list[bytes] = []
    with socket.socket(socket.AF_UNIX, kind) as service:
        service.bind(str(path))

        def serve() -> None:
            while not over.is_set():
                try:
                    heard.append(service.recv(10) if kind == socket.SOCK_DGRAM else _first_of(service))
                except TimeoutError:
                    continue

        service.settimeout(0.1)
        over = threading.Event()
        if kind != socket.SOCK_DGRAM:
            service.listen(100)
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield heard
        over.set()
        thread.join(5)


def _first_of(service: socket.socket) -> bytes:
    with service.accept()[0] as client:
        return client.recv(10)


def _says(shells: Shells, program: str) -> str:
    (shells.workspace / "program.py").write_text(program)
    ran = shells.run(f"{os.path.realpath(sys.executable)} -I program.py")
    return ran.out


@BOTH
@NETWORK
def test_a_service_outside_cannot_be_reached_by_any_path(make_shells: Make, bwrap: bool, network: bool) -> None:
    shells = make_shells("workspace-write", bwrap=bwrap, network=network)
    service = shells.home / "service.sock"
    (shells.workspace / "link.sock").symlink_to(service)
    (shells.workspace / "folder").symlink_to(shells.home)
    with listening(service) as heard:
        for path in (
            str(service),
            "link.sock",
            "folder/service.sock",
            f"/proc/self/root{service}",
            f"/proc/1/root{service}",
            f"/proc/{os.getpid()}/root{service}",
        ):
            assert "reached" not in _says(shells, STREAM.format(kind="socket.SOCK_STREAM", path=path))
            assert "reached" not in _says(shells, STREAM.format(kind="socket.SOCK_SEQPACKET", path=path))
    assert heard == []


@BOTH
def test_a_service_in_a_further_writable_place_is_outside(make_shells: Make, bwrap: bool, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    shells = make_shells("workspace-write", bwrap=bwrap, write_extra=(str(cache),))
    with listening(cache / "bus") as heard:
        for path in (str(cache / "bus"), f"/proc/self/root{cache}/bus"):
            assert "reached" not in _says(shells, STREAM.format(kind="socket.SOCK_STREAM", path=path))
    assert heard == []


@BOTH
def test_a_datagram_to_a_service_outside_is_not_sent(make_shells: Make, bwrap: bool) -> None:
    shells = make_shells("workspace-write", bwrap=bwrap)
    service = shells.home / "log.sock"
    made = ("socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)", "socket.socket(socket.AF_UNIX, socket.SOCK_RAW)",
            "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0]")  # fmt: skip
    with listening(service, socket.SOCK_DGRAM) as heard:
        for way in made:
            assert "reached" not in _says(shells, DATAGRAM.format(made=way, path=str(service)))
    assert heard == []


@BOTH
@NETWORK
def test_sockets_inside_work(make_shells: Make, bwrap: bool, network: bool) -> None:
    shells = make_shells("workspace-write", bwrap=bwrap, network=network)
    assert _says(shells, WORKS) == "over my own socket\nover a pair\n"


@BOTH
def test_the_network_works_where_it_is_permitted(make_shells: Make, bwrap: bool) -> None:
    shells = make_shells("workspace-write", bwrap=bwrap)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        connect = f"socket.create_connection(('127.0.0.1', {port}), {{}})"
        said = _says(
            shells,
            f"import socket\n{connect.format('None')}; {connect.format('5')}; print('connected')\n"
            "try: socket.create_connection(('127.0.0.1', 1))\nexcept ConnectionRefusedError: print('refused')",
        )
    assert said == "connected\nrefused\n"


@BOTH
@TRIES
def test_a_link_between_two_sockets_reaches_only_the_one_inside(make_shells: Make, bwrap: bool, tries: int) -> None:
    if not detect().takes_sockets:
        pytest.skip(detect().why["sockets"])
    shells = make_shells("workspace-write", bwrap=bwrap)
    inside, outside = shells.workspace / "inside.sock", shells.home / "outside.sock"
    one, other = shells.workspace / "one", shells.workspace / "other"
    one.symlink_to(inside)
    other.symlink_to(outside)
    many = (
        "import socket\nfor _ in range({}):\n    s = socket.socket(socket.AF_UNIX)\n"
        "    try: s.connect('one'); s.send(b'x'); print('reached')\n    except OSError: pass\n"
    )
    with listening(inside) as heard, listening(outside) as leaked:
        with flipped(one, other, 0.001):
            _says(shells, many.format(tries))
        one.unlink()
        one.symlink_to(inside)
        assert "reached" in _says(shells, many.format(1))  # the same program, once the link holds still
    assert heard
    assert leaked == []


def test_a_full_backlog_holds_up_no_other_program(make_shells: Make) -> None:
    shells = make_shells("workspace-write", process=True)
    full = (
        "import socket, subprocess, sys, threading, time\n"
        "l = socket.socket(socket.AF_UNIX); l.bind('full.sock'); l.listen(0)\n"
        "def wait():\n    socket.socket(socket.AF_UNIX).connect('full.sock')\n"
        "for _ in range(8): threading.Thread(target=wait, daemon=True).start()\n"
        "time.sleep(0.2)\n"
        "print(subprocess.run(['/bin/echo', 'started'], capture_output=True, timeout=10).stdout)\n"
        "sys.stdout.flush(); import os; os._exit(0)\n"
    )
    assert _says(shells, full) == "b'started\\n'\n"
