"""Worker processes of an import: how one is started, and those started ahead of the import that will need them.

The first import of a state directory starts its daemon too. Its workers then load beside the daemon, on a core that
would have nothing to do, instead of after it. Standard library only, because this runs before the daemon loads more.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

# -P: the directory that somebody works in may hold a module of any name, and must not be imported from.
WORKER = (sys.executable, "-P", "-m", "shiftlog.app.import_worker")
MOST_WORKERS = 4
# A thread that empties a pipe asks for the interpreter once or twice a batch then, not twenty times.
PIPE_BYTES = 1 << 20
NICENESS = 6

_waiting: list["subprocess.Popen[bytes]"] = []


def default_jobs() -> int:
    """Return how many workers read where nobody says."""
    return min(os.cpu_count() or 1, MOST_WORKERS)


def start_worker(command: Sequence[str] = WORKER) -> "subprocess.Popen[bytes]":
    """Start a worker, which loads and then waits for what to do."""
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, pipesize=PIPE_BYTES)
    # There is one writer, and whoever else works on the machine: both go first.
    os.setpriority(os.PRIO_PROCESS, worker.pid, NICENESS)
    return worker


def start_ahead() -> None:
    """Start as many workers as an import takes unless it is told otherwise."""
    with suppress(OSError):  # the import will say what keeps it from starting any
        _waiting.extend(start_worker() for _ in range(default_jobs()))


def take_ahead(most: int) -> list["subprocess.Popen[bytes]"]:
    """Return the workers that wait, at most so many, and end the others."""
    taken = _waiting[:most]
    spare = _waiting[most:]
    _waiting.clear()
    for worker in spare:
        end_worker(worker)
    return taken


def end_worker(worker: "subprocess.Popen[bytes]") -> None:
    """End a worker that nobody reads from."""
    worker.kill()
    worker.wait()
    for pipe in (worker.stdin, worker.stdout):
        if pipe is not None:
            pipe.close()
