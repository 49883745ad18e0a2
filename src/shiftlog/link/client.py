"""The control client of the command line and the REPL: it sends requests to the daemon and raises its errors.

Synchronous, one request at a time. How the daemon is found and started is in `wire`.
"""

import json
import os
import time
from collections.abc import Generator
from typing import Any, Self

from shiftlog.link import processes, wire
from shiftlog.link.build import build_id
from shiftlog.link.limits import CALL_S, STOP_S
from shiftlog.model.errors import InternalError, InvalidParameter, ShiftlogError, StorageError, leaves

# Methods that change something: a lost answer leaves the outcome open. Repeating an import changes nothing.
CHANGES = frozenset(
    "approve close_shell continuity decline erase exec offer reissue_token revoke rewind tool undo".split()
)
# Giving up on a change would end it half-way, and the others take longer with more files: no timeout for these.
UNBOUNDED = CHANGES | {"checkpoints", "diff", "gc"}
UNKNOWN_HINT = "It may have been done: check with shiftlog tail or shiftlog show before you repeat it"


class DaemonUnreachable(StorageError, ConnectionError):
    """No daemon can be reached, or it went away before it answered."""

    hint = "Run shiftlog doctor, and look at daemon.log in the state directory"


class Client:
    """A control connection; `with` closes it."""

    def __init__(self, connection: wire.Connection, home: str) -> None:
        self.home = home
        self.daemon_pid = connection.daemon_pid
        self.daemon_version = connection.daemon_version
        self.daemon_build = connection.daemon_build
        self._connection = connection
        self._last_id = 0
        self._method = ""
        # While a stream is quiet, a closed reader of this descriptor is noticed.
        self._output: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the daemon then cancels the requests that still run."""
        self._connection.close()

    def call(self, method: str, params: dict[str, object] | None = None, *, timeout_s: float | None = CALL_S) -> Any:
        """Send one request and return its result; raise the ShiftlogError that the daemon answered with.

        With `timeout_s` None, and for `UNBOUNDED` methods, the wait ends only with the daemon.
        """
        if method in UNBOUNDED:
            timeout_s = None
        number = self._ask(method, params)
        while True:
            answer = self._answer(number, timeout_s)
            if "item" not in answer:
                return answer.get("result")

    def stream(
        self, method: str, params: dict[str, object] | None = None, *, output: int | None = None
    ) -> Generator[Any]:
        """Send one request and yield its items as they come; closing the generator ends the stream.

        With `output`, the stream also ends with BrokenPipeError once the reader of that descriptor has gone.
        """
        number = self._ask(method, params)
        ended = False
        self._output = output
        try:
            while True:
                answer = self._answer(number, None)
                if "item" not in answer:
                    ended = True
                    return
                yield answer["item"]
        except ShiftlogError:
            ended = True
            raise
        finally:
            self._output = None
            if not ended:
                self._send({"cancel": number})
                while "item" in self._answer(number, CALL_S):
                    pass

    def _ask(self, method: str, params: dict[str, object] | None) -> int:
        self._last_id += 1
        self._send({"id": self._last_id, "method": method, "params": params or {}})
        self._method = method
        return self._last_id

    def _send(self, message: dict[str, object]) -> None:
        try:
            line = json.dumps(message, ensure_ascii=False).encode() + b"\n"
        except UnicodeEncodeError:
            raise InvalidParameter("An argument is not valid UTF-8", hint="Write it in UTF-8") from None
        try:
            self._connection.send(line)
        except OSError as error:
            raise DaemonUnreachable("The daemon went away before it got the request") from error

    def _answer(self, number: int, timeout_s: float | None) -> dict[str, Any]:
        while True:
            if self._output is not None:
                self._connection.wait_beside(self._output)
            try:
                line = self._connection.read_line(timeout_s)
            except TimeoutError as error:
                raise DaemonUnreachable(f"The daemon did not answer within {timeout_s:.0f} s") from error
            if line is None:
                hint = UNKNOWN_HINT if self._method in CHANGES else None
                raise DaemonUnreachable("The daemon went away before it answered", hint=hint)
            answer: dict[str, Any] = json.loads(line)
            if answer.get("id") not in (number, None):
                continue  # the rest of a cancelled stream
            if "error" in answer:
                raise error_from(answer["error"])
            return answer


def connect(
    home: str | None = None,
    *,
    start: bool = True,
    timeout_s: float = 30.0,
    answers_within_s: float | None = None,
    purpose: str = "",
) -> Client:
    """Connect to the daemon of a state directory, starting it if needed; raise DaemonUnreachable.

    With `start=False` no daemon is started or replaced, and any version is accepted. A daemon that runs already has
    `answers_within_s`, if given, to answer. A new daemon prepares for its `purpose`. A state directory that cannot be
    written is answered for by a process that only reads.
    """
    try:
        chosen = home or wire.home_path()
        if start and wire.is_read_only(chosen) and not _is_served(chosen):
            return _read_only(os.path.abspath(chosen), timeout_s)
        opened = wire.open_home(home)
        hello = wire.hello_line(role="control", face="cli", client_id=os.urandom(16).hex(), build=build_id())
        connection = wire.open_connection(
            opened, hello, start=start, timeout_s=timeout_s, answers_within_s=answers_within_s, purpose=purpose
        )
    except wire.WireError as error:
        if error.code in ("storage_error", "wire_mismatch"):
            raise DaemonUnreachable(error.message, hint=error.hint) from error
        raise error_from({"code": error.code, "message": error.message, "hint": error.hint}) from error
    return Client(connection, opened)


def _is_served(home: str) -> bool:
    sock = wire.connect(home)
    if sock is not None:
        sock.close()
    return sock is not None


def _read_only(home: str, timeout_s: float) -> Client:
    from shiftlog.link.launch import start_reader

    hello = wire.hello_line(role="control", face="cli", client_id=os.urandom(16).hex())
    connection = wire.greet(start_reader(home), hello, timeout_s)
    if connection is None:
        raise wire.WireError("storage_error", f"The record in {home} cannot be read", "Run shiftlog doctor")
    return Client(connection, home)


def stop_daemon(home: str | None = None, *, shells: bool = False) -> int | None:
    """Stop the daemon, wait until its process has ended, and return its pid; None if none ran.

    With `shells`, its shells end too, instead of waiting for the next daemon.
    """
    try:
        client = connect(home, start=False)
    except DaemonUnreachable:
        return None
    with client:
        pid, started = client.daemon_pid, processes.started(client.daemon_pid)
        client.call("daemon.stop", {"shells": shells})
    deadline = time.monotonic() + STOP_S
    while processes.alive(pid, started):
        if time.monotonic() > deadline:
            raise DaemonUnreachable(f"The daemon (pid {pid}) did not stop within {STOP_S:.0f} s")
        time.sleep(wire.RETRY_S)
    return pid


def error_from(wire_error: dict[str, Any]) -> ShiftlogError:
    """Return the error in an answer as an instance of the class of its code."""
    classes = {leaf.code: leaf for leaf in leaves()}
    leaf = classes.get(str(wire_error.get("code")), InternalError)
    return leaf(str(wire_error.get("message")), details=wire_error.get("details"), hint=wire_error.get("hint"))
