"""The control client of the command line: questions to the daemon, answers and streams back, errors raised.

Synchronous, one question at a time, standard library only. How the daemon is found and started stands in
`wire`.
"""

import json
import os
import time
from collections.abc import Generator
from types import TracebackType
from typing import Any, Self

from shiftlog.link import processes, wire
from shiftlog.model.errors import InternalError, InvalidParameter, ShiftlogError, StorageError, leaves

CALL_S = 60.0
STOP_S = 15.0
# What changes something, so that a lost answer leaves open whether it did; repeating an import changes nothing.
CHANGES = frozenset(
    "approve close_shell continuity decline erase exec offer reissue_token revoke rewind tool undo".split()
)
# Who gives up on a change ends it half-way, and these others take as long as there are files; so all are waited for.
PATIENT = CHANGES | {"checkpoints", "diff", "gc"}
UNKNOWN_HINT = "It may have been done: look with shiftlog tail or shiftlog show before you repeat it"


class DaemonUnreachable(StorageError, ConnectionError):
    """No daemon could be had, or it went away before it answered."""

    hint = "Run shiftlog doctor, and look at daemon.log in the state directory"


class Client:
    """A control connection; `with` closes it."""

    def __init__(self, connection: wire.Connection, home: str) -> None:
        self.home = home
        self.daemon_pid = connection.daemon_pid
        self.daemon_version = connection.daemon_version
        self._connection = connection
        self._last_id = 0
        self._asked = ""
        # Whose reader's end is noticed while a stream is quiet.
        self._output: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the daemon then ends what this client still has running."""
        self._connection.close()

    def call(self, method: str, params: dict[str, object] | None = None, *, timeout_s: float | None = CALL_S) -> Any:
        """Ask one question and return its result; raise the ShiftlogError that the daemon answered with.

        With `timeout_s` None the answer is waited for as long as the daemon lives, and always for what is `PATIENT`.
        """
        if method in PATIENT:
            timeout_s = None
        number = self._ask(method, params)
        while True:
            answer = self._answer(number, timeout_s)
            if "item" not in answer:
                return answer.get("result")

    def stream(
        self,
        method: str,
        params: dict[str, object] | None = None,
        *,
        timeout_s: float | None = None,
        output: int | None = None,
    ) -> Generator[Any]:
        """Ask one question and yield its items as they come; closing the generator ends the stream.

        `timeout_s` bounds the wait for each item; without it a quiet stream is waited for, with `output` only until
        nobody reads that descriptor any more (BrokenPipeError).
        """
        number = self._ask(method, params)
        ended = False
        self._output = output
        try:
            while True:
                answer = self._answer(number, timeout_s)
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
        self._asked = method
        return self._last_id

    def _send(self, message: dict[str, object]) -> None:
        try:
            line = json.dumps(message, ensure_ascii=False).encode() + b"\n"
        except UnicodeEncodeError:
            raise InvalidParameter("An argument is not valid UTF-8", hint="Write it in UTF-8") from None
        try:
            self._connection.send(line)
        except OSError as error:
            raise DaemonUnreachable("The daemon went away before it could be asked") from error

    def _answer(self, number: int, timeout_s: float | None) -> dict[str, Any]:
        while True:
            if self._output is not None:
                self._connection.wait_beside(self._output)
            try:
                line = self._connection.read_line(timeout_s)
            except TimeoutError as error:
                raise DaemonUnreachable(f"The daemon did not answer within {STOP_S:.0f} s") from error
            if line is None:
                hint = UNKNOWN_HINT if self._asked in CHANGES else None
                raise DaemonUnreachable("The daemon went away before it answered", hint=hint)
            answer: dict[str, Any] = json.loads(line)
            if answer.get("id") not in (number, None):
                continue  # the rest of a stream that was ended
            if "error" in answer:
                raise error_from(answer["error"])
            return answer


def connect(
    home: str | None = None, *, start: bool = True, face: str = "cli", timeout_s: float = 30.0, purpose: str = ""
) -> Client:
    """Connect to the daemon of a state directory, starting it if need be; raise DaemonUnreachable.

    With `start=False` nothing is started or replaced, and the daemon is taken whatever its version. One that is started
    is told its `purpose`, if there is one.
    """
    try:
        opened = wire.open_home(home)
        hello = wire.hello_line(role="control", face=face, client_id=os.urandom(16).hex())
        connection = wire.open_connection(opened, hello, start=start, timeout_s=timeout_s, purpose=purpose)
    except wire.WireError as error:
        raise _unreachable(error) from error
    return Client(connection, opened)


def stop_daemon(home: str | None = None) -> int | None:
    """Ask the daemon to stop, wait until its process has ended, and return its pid; None when none ran."""
    try:
        client = connect(home, start=False)
    except DaemonUnreachable:
        return None
    with client:
        pid, started = client.daemon_pid, processes.started(client.daemon_pid)
        client.call("daemon.stop")
    deadline = time.monotonic() + STOP_S
    while processes.alive(pid, started):
        if time.monotonic() > deadline:
            raise DaemonUnreachable(f"The daemon (pid {pid}) did not stop within {STOP_S:.0f} s")
        time.sleep(wire.RETRY_S)
    return pid


def error_from(wire_error: dict[str, Any]) -> ShiftlogError:
    """Return the error that an answer carries, as the class of its code."""
    classes = {leaf.code: leaf for leaf in leaves()}
    leaf = classes.get(str(wire_error.get("code")), InternalError)
    return leaf(str(wire_error.get("message")), details=wire_error.get("details"), hint=wire_error.get("hint"))


def _unreachable(error: wire.WireError) -> ShiftlogError:
    if error.code in ("storage_error", "wire_mismatch"):
        return DaemonUnreachable(error.message, hint=error.hint)
    return error_from({"code": error.code, "message": error.message, "hint": error.hint})
