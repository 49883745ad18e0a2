"""Worker processes of an import: starting one, and starting some before the import that needs them.

The first import of a state directory also starts the daemon. Its workers load in parallel with the daemon, on a core
that would be idle. Standard library only, because this runs before the daemon loads anything.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

# -P: never import from the client's working directory.
WORKER = (sys.executable, "-P", "-m", "shiftlog.app.import_worker")
MOST_WORKERS = 4
# With this size a reading thread takes the interpreter once or twice a batch, not twenty times.
PIPE_BYTES = 1 << 20
NICENESS = 6

_waiting: list["subprocess.Popen[bytes]"] = []


def default_jobs() -> int:
    """Return the default number of workers."""
    return min(os.cpu_count() or 1, MOST_WORKERS)


def start_worker(command: Sequence[str] = WORKER) -> "subprocess.Popen[bytes]":
    """Start a worker, which loads and then waits for work."""
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, pipesize=PIPE_BYTES)
    # The one writer and the user's own programs go first.
    os.setpriority(os.PRIO_PROCESS, worker.pid, NICENESS)
    return worker


def prestart_workers() -> None:
    """Start the default number of workers."""
    with suppress(OSError):  # the import will report the error
        _waiting.extend(start_worker() for _ in range(default_jobs()))


def take_prestarted(most: int) -> list["subprocess.Popen[bytes]"]:
    """Return at most `most` of the waiting workers and end the others."""
    taken = _waiting[:most]
    spare = _waiting[most:]
    _waiting.clear()
    for worker in spare:
        end_worker(worker)
    return taken


def end_worker(worker: "subprocess.Popen[bytes]") -> None:
    """End a worker without reading its output."""
    worker.kill()
    worker.wait()
    for pipe in (worker.stdin, worker.stdout):
        if pipe is not None:
            pipe.close()
