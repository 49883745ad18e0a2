"""The warm server: it has imported all modules of the daemon and forks a daemon for each request.

A daemon takes half a second of processor time to import its modules, 1.5 s with the MCP SDK; the suite starts hundreds.
A forked one runs the same code in a process of its own, from `main` on. `handing_over.py` is the client.
"""

import ctypes
import gc
import json
import os
import resource
import runpy
import socket
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import shiftlog
from shiftlog.daemon import main as daemon
from tests.warm.handing_over import GO_ON, MESSAGE_BYTES, TAKEN, surroundings

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
            if not os.fork():  # so that it is no child of this process
                if "child" in request and (forked := os.fork()):
                    _report_end(forked, connection, descriptors)
                else:
                    _become(request, descriptors, connection)
            os._exit(0)
        os.waitpid(child, 0)
    for descriptor in descriptors:
        os.close(descriptor)


def _report_end(forked: int, connection: socket.socket, descriptors: list[int]) -> None:
    """Wait for a daemon in the foreground, and tell the test how it ended."""
    for descriptor in descriptors:
        os.close(descriptor)
    _, status = os.waitpid(forked, 0)
    try:
        connection.send(str(status).encode())
    except OSError:
        pass  # the test does not want to know


def _agrees(connection: socket.socket) -> bool:
    """Return True if the client lives and leaves its part to this process.

    A test that kills the client finds either the client or this process, which shows as a daemon by now.
    """
    try:
        connection.send(TAKEN + str(os.getpid()).encode())
        return connection.recv(len(GO_ON)) == GO_ON
    except OSError:
        return False


def _become(request: dict[str, Any], descriptors: list[int], connection: socket.socket) -> None:
    """Be the daemon of the request in this forked process, and end with it."""
    _show_as(request["program"])
    if not _agrees(connection):
        return
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
    tempfile.tempdir = None  # the server's own choice, which followed from its own environment
    os._exit(_run(request))


def _run(request: dict[str, Any]) -> int:
    """Run the daemon, or the test's own program that is one; return its exit status."""
    script = request.get("script")
    if not script:
        return daemon(request["arguments"])
    sys.argv = [script, *request["arguments"]]
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


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
