"""The client of the warm server: a process that was started as a daemon gives its part to a forked one."""

import json
import os
import resource
import signal
import socket
import sys
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

VARIABLE = "WARM_DAEMONS"
MESSAGE_BYTES = 1 << 20
ANSWER_S = 60.0
TAKEN = b"taken"
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
    limits = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    request = {
        "program": sys.orig_argv,
        "arguments": arguments,
        "descriptors": descriptors,
        "environ": _environ(),
        "folder": str(Path.cwd()),
        "limits": {name: resource.getrlimit(getattr(resource, name)) for name in limits},
        "niceness": os.nice(0),
        "surroundings": surroundings(),
    }
    # Without a server the daemon starts by itself.
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.settimeout(ANSWER_S)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MESSAGE_BYTES)
        server.connect(address)
        socket.send_fds(server, [json.dumps(request).encode()], descriptors)
        if server.recv(len(TAKEN)) == TAKEN:
            os._exit(0)


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
