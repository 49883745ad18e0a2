"""The clients of the warm server: a process that was started as a daemon gives its part to a forked one.

A test that starts a daemon itself, as its child, asks for one in the same way and is told when it ends.
"""

import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

VARIABLE = "WARM_DAEMONS"
MESSAGE_BYTES = 1 << 20
ANSWER_S = 60.0
TAKEN = b"taken"
GO_ON = b"go on"
# The options by which a client starts a daemon; each names a descriptor. In the foreground a daemon stays what it is.
BY_CLIENTS = frozenset({"--detach", "--read-only"})
HERE = str(Path(__file__).parent)


def hand_over(address: str) -> None:
    """End this process if the server becomes the daemon in its place; else return, to start as users start one."""
    arguments = sys.orig_argv[sys.orig_argv.index("shiftlog.daemon") + 1 :]
    theirs = [int(value) for option, value in pairwise(arguments) if option in BY_CLIENTS]
    if not theirs:
        return
    descriptors = [0, 1, 2, *theirs]
    # Without a server the daemon starts by itself.
    with suppress(OSError), _asked(address, sys.orig_argv, arguments, _environ(), descriptors) as server:
        if server.recv(MESSAGE_BYTES).startswith(TAKEN):
            server.send(GO_ON)
            os._exit(0)


def _asked(
    address: str, program: list[str], arguments: list[str], environ: dict[str, str], descriptors: list[int], **more: str
) -> socket.socket:
    """Ask the server for a daemon that runs as this process does; return the connection for the answer."""
    limits = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    request = {
        "program": program,
        "arguments": arguments,
        "descriptors": descriptors,
        "environ": environ,
        "folder": str(Path.cwd()),
        "limits": {name: resource.getrlimit(getattr(resource, name)) for name in limits},
        "niceness": os.nice(0),
        "surroundings": surroundings(),
    }
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        server.settimeout(ANSWER_S)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MESSAGE_BYTES)
        server.connect(address)
        socket.send_fds(server, [json.dumps(request | more).encode()], descriptors)
    except BaseException:
        server.close()
        raise
    return server


class WarmChild:
    """A daemon in the foreground that the server has forked: what a test needs of a `Popen`."""

    def __init__(self, pid: int, server: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._server = server

    def poll(self) -> int | None:
        """Return the exit status, None while it runs."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status once it ended; raise TimeoutExpired."""
        status = self._look(timeout)
        if status is None:
            raise subprocess.TimeoutExpired("a warm daemon", timeout or 0)
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal unless it ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _look(self, within_s: float | None) -> int | None:
        if self.returncode is None and select.select([self._server], [], [], within_s)[0]:
            self.returncode = os.waitstatus_to_exitcode(int(self._server.recv(MESSAGE_BYTES)))
            self._server.close()
        return self.returncode


def warm_child(program: list[str], arguments: list[str], environ: dict[str, str]) -> WarmChild | None:
    """Start a daemon of this process in the foreground; None without a server that could."""
    address = os.environ.get(VARIABLE)
    module, script = program[1:] == ["-m", "shiftlog.daemon"], len(program) == 2
    if address is None or program[0] != sys.executable or not (module or script):
        return None
    own = {name: value for name, value in environ.items() if name != VARIABLE}
    with open(os.devnull, "r+b") as nothing:  # noqa: PTH123
        descriptors = [nothing.fileno(), nothing.fileno(), 2]
        how = {"child": "yes", "script": program[1] if script else ""}
        server = _asked(address, [*program, *arguments], arguments, own, descriptors, **how)
    said = server.recv(MESSAGE_BYTES)
    if not said.startswith(TAKEN):
        server.close()
        return None
    server.send(GO_ON)
    return WarmChild(int(said.removeprefix(TAKEN)), server)


def surroundings() -> list[str]:
    """Return the facts about this process that a child of the server could not take on: rights, namespaces, tracer."""
    wanted = ("Uid", "Gid", "Groups", "NoNewPrivs", "Seccomp", "CapEff", "CapBnd", "CapAmb", "TracerPid")
    own = Path("/proc/self")
    status = [line for line in own.joinpath("status").read_text().splitlines() if line.partition(":")[0] in wanted]
    spaces = [f"{space.name} {space.readlink()}" for space in sorted(own.joinpath("ns").iterdir())]
    files = [own.joinpath(name).read_text() for name in ("cgroup", "oom_score_adj")]
    deaf = "no interrupts" if signal.getsignal(signal.SIGINT) is signal.SIG_IGN else "interrupts"
    preloaded = os.environ.get("LD_PRELOAD", "")
    return [*status, *spaces, str(own.joinpath("root").readlink()), *files, deaf, preloaded]


def _environ() -> dict[str, str]:
    """Return the environment as it would be without the warm server."""
    environ = {name: value for name, value in os.environ.items() if name not in (VARIABLE, "PYTHONPATH")}
    others = [folder for folder in os.environ["PYTHONPATH"].split(os.pathsep) if folder != HERE]
    return environ | ({"PYTHONPATH": os.pathsep.join(others)} if others else {})
