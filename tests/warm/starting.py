"""Offering warm daemons to every program that a test starts; the server comes up with the first that wants one."""

import os
import select
import socket
import subprocess
import sys
import threading
from pathlib import Path

from tests.warm.handing_over import HERE, VARIABLE
from tests.warm.server import COMMAND_LINE_ROOM

ROOT = Path(__file__).parents[2]


class WarmDaemons:
    """The offer, for the time of a with block."""

    def __init__(self, address: Path) -> None:
        self._address = address
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._stop, self._stopping = os.pipe()
        self._watcher = threading.Thread(target=self._start_for_first, name="warm daemons")
        self._server: subprocess.Popen[bytes] | None = None
        self._path = os.environ.get("PYTHONPATH")

    def __enter__(self) -> None:
        self._listener.bind(str(self._address))
        self._listener.listen(64)
        os.environ[VARIABLE] = str(self._address)
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [HERE, self._path]))
        self._watcher.start()

    def __exit__(self, *_: object) -> None:
        os.close(self._stopping)
        self._watcher.join()
        os.close(self._stop)
        self._listener.close()
        if self._server is not None:
            self._server.kill()
            self._server.wait()
        del os.environ[VARIABLE], os.environ["PYTHONPATH"]
        if self._path is not None:
            os.environ["PYTHONPATH"] = self._path

    def _start_for_first(self) -> None:
        ready, _, _ = select.select([self._listener, self._stop], [], [])
        if self._stop in ready:
            return
        descriptor = self._listener.fileno()
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.warm.server", str(descriptor), COMMAND_LINE_ROOM],
            cwd=ROOT,
            pass_fds=[descriptor],
            stdin=subprocess.DEVNULL,
        )
