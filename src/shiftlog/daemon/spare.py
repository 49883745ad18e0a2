"""A descriptor in reserve: at the limit of descriptors, a new client still gets the reason why it is not served."""

import os
import resource
import socket

from shiftlog.daemon.hello import error_line

HINT = "Close some clients or shells; or raise the limit (ulimit -n) and run shiftlog daemon stop"


class SpareDescriptor:
    """One open descriptor that is given up to accept, and refuse, a client."""

    def __init__(self) -> None:
        self._descriptor: int | None = None
        self._take()

    def refuse_one(self, listener: socket.socket) -> None:
        """Accept a waiting client with the spare descriptor, send it the reason, and close the connection."""
        if self._descriptor is None:
            self._take()
            return
        os.close(self._descriptor)
        self._descriptor = None
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        says = f"The daemon has no file descriptors left (its limit is {limit})"
        try:
            sock, _ = listener.accept()
            with sock:
                sock.send(error_line("storage_error", says, HINT))
        except OSError:
            pass
        self._take()

    def _take(self) -> None:
        try:
            self._descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            pass  # the next refusal tries again
