"""The warm server: it has imported all modules of the daemon and forks a daemon for each request.

A daemon takes half a second of processor time to import its modules, 1.5 s with the MCP SDK; the suite starts hundreds.
A forked one runs the same code in a process of its own, from `main` on. `handing_over.py` is the client.
"""

import ctypes
import gc
import json
import os
import resource
import socket
import sys
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import shiftlog
from tests.warm.handing_over import MESSAGE_BYTES, TAKEN, surroundings

# The daemon's command line is written over this process's own, so that tests which look for a daemon by it find one.
COMMAND_LINE_ROOM = "-" * 4096
FREE_DESCRIPTORS_FROM = 1000


def main(listener_fd: int) -> None:
    """Import what a daemon needs, then fork daemons until the suite ends this process."""
    import_module("anyio._backends._asyncio")
    for module in walk_packages(shiftlog.__path__, "shiftlog."):
        if not module.name.endswith(".__main__"):
            import_module(module.name)
    gc.collect()
    gc.freeze()
    here = surroundings()
    suite = os.getppid()
    with socket.socket(fileno=listener_fd) as listener:
        listener.settimeout(1.0)
        while os.getppid() == suite:
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            connection.setblocking(True)
            with connection:
                _answer(connection, here)


def _answer(connection: socket.socket, here: list[str]) -> None:
    """Fork a daemon if a child of this process would be just what the client would have become."""
    message, descriptors, _, _ = socket.recv_fds(connection, MESSAGE_BYTES, 16)
    request = json.loads(message or "{}")
    if request.get("surroundings") == here:
        child = os.fork()
        if not child:
            if os.fork():
                os._exit(0)  # so that the daemon is no child of this process
            _become(request, descriptors)
        os.waitpid(child, 0)
        with suppress(BrokenPipeError):  # a test may have killed the client meanwhile
            connection.send(TAKEN)
    for descriptor in descriptors:
        os.close(descriptor)


def _become(request: dict[str, Any], descriptors: list[int]) -> None:
    """Be the daemon of the request in this forked process, and end with it."""
    moved = [os.dup2(descriptor, FREE_DESCRIPTORS_FROM + n) for n, descriptor in enumerate(descriptors)]
    os.closerange(3, FREE_DESCRIPTORS_FROM)
    for descriptor, number in zip(moved, request["descriptors"], strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.setsid()
    os.chdir(request["folder"])
    os.nice(request["niceness"] - os.nice(0))
    for name, limits in request["limits"].items():
        resource.setrlimit(getattr(resource, name), limits)
    os.environ.clear()
    os.environ.update(request["environ"])
    time.tzset()
    _show_as(request["program"])
    from shiftlog.daemon import main as daemon

    sys.exit(daemon(request["arguments"]))


def _show_as(program: list[str]) -> None:
    """Overwrite the command line that /proc shows."""
    line = b"".join(os.fsencode(word) + b"\0" for word in program)
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    assert len(line) < end - start, "the command line does not fit"
    ctypes.memset(start, 0, end - start)
    ctypes.memmove(start, line, len(line))


if __name__ == "__main__":
    main(int(sys.argv[1]))
