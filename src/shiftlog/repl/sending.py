"""Sending the REPL's calls to the daemon, started if needed, or to an app in this process if no daemon can be reached.

A call whose connection breaks is sent again; its number keeps it from being applied twice. The connection's binding
travels with every call, so that a new daemon goes on where the old one stopped.
"""

import os
import time
from typing import Any, Protocol

from shiftlog.link import wire
from shiftlog.link.client import Client, DaemonUnreachable
from shiftlog.model.errors import CommandTimeout, ConfigError, ShiftlogError, StorageError, Unauthorized

# The daemon enforces the timeout of a call; we wait a little longer for its answer.
GRACE_S = 1.0
REACH_S = 30.0
ATTEMPTS = 3
QUESTION = "sessionlog"
BOOTSTRAP = "workflow.sessionlog.bootstrap"
INGEST = "repl.sessionlog.ingestTranscripts"
MESSAGES = {
    "storage_error": "Storage error",
    "internal_error": "Internal error",
    "unauthorized": "The state directory belongs to another user",
    "command_timeout": "Command timed out",
    "invalid_config": "Configuration error",
}

Answer = dict[str, Any]


class Answers(Protocol):
    """A place where calls of the session log are answered: the daemon's client, or an app in this process."""

    def call(
        self, method: str, params: dict[str, object] | None = None, *, timeout_s: float | None = None
    ) -> Answer: ...
    def close(self) -> None: ...


class CallSender:
    """Sends the calls of one REPL."""

    def __init__(self, *, workspace: str, agent: str | None, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._about: dict[str, object] = {
            "workspace": workspace,
            "agent": agent,
            "timeout_s": timeout_s,
            "client": os.urandom(16).hex(),
        }
        self._binding: object = {}
        self._calls = 0
        self._answers: Answers | None = None

    def call(self, method: str, params: object) -> Answer:
        """Return `{"result": …}` or `{"error": …}`; never raise."""
        try:
            return self._call(method, params)
        except Exception as error:  # noqa: BLE001 - the edge of this face
            return {"error": _defect(error)}

    def _call(self, method: str, params: object) -> Answer:
        self._calls += 1
        expires = expiry(method, self._timeout_s)
        question = {**self._about, "method": method, "params": params, "call": self._calls, "expires": expires}
        problem: ShiftlogError | None = None
        for attempt in range(ATTEMPTS):
            try:
                answers = self._answers = self._answers or self._reach(expires)
                given = {**question, "binding": self._binding, "again": attempt > 0}
                left = self._left(expires)
                answer = answers.call(QUESTION, given, timeout_s=None if left is None else left + GRACE_S)
            except DaemonUnreachable as error:
                problem = error
                self.close()
            except ShiftlogError as error:
                problem = error
                break
            else:
                self._binding = answer.get("binding") or {}
                return answer
        assert problem is not None
        return {"error": self._refusal(method, params) or self._failure(method, problem)}

    def close(self) -> None:
        """Close the connection or the store."""
        if self._answers is not None:
            self._answers.close()
            self._answers = None

    def _left(self, expires: float | None) -> float | None:
        """Return the seconds that a call still has, None without a limit; raise CommandTimeout if none are left."""
        left = None if expires is None else expires - time.monotonic()
        if left is not None and left <= 0:
            raise CommandTimeout("Command timed out", details={"reason": f"not done within {self._timeout_s:g} s"})
        return left

    def _reach(self, expires: float | None) -> Answers:
        try:
            home = wire.open_home()
        except wire.WireError as error:
            raise _problem(error) from error
        try:
            hello = wire.hello_line(role="control", face="repl", client_id=str(self._about["client"]))
            seconds = min(REACH_S, self._left(expires) or REACH_S)
            return Client(wire.open_connection(home, hello, timeout_s=seconds), home)
        except wire.WireError as error:
            self._left(expires)
            if error.code != "storage_error":
                raise _problem(error) from error
        except OSError:
            pass  # a daemon that cannot start does not keep us from opening the store
        from shiftlog.repl.in_process import InProcessAnswers

        return InProcessAnswers(home)

    def _refusal(self, method: str, params: object) -> Answer | None:
        """Return the fault of a call that reached no store, if one can be found without a store."""
        from shiftlog.dialects.mcpserver.current import CallContext
        from shiftlog.dialects.mcpserver.errors import payload
        from shiftlog.dialects.mcpserver.service import check_method
        from shiftlog.guard.secrets.redactor import Redactor
        from shiftlog.model.caller import Caller

        context = CallContext(caller=Caller(face="repl"), workspace=str(self._about["workspace"]))
        try:
            check_method(Redactor(), method, params, context)
        except ShiftlogError as error:
            return payload(error)
        return None

    def _failure(self, method: str, problem: ShiftlogError) -> Answer:
        if method == BOOTSTRAP and problem.code not in ("command_timeout", "invalid_config"):
            details = {"storageError": _said(problem), "permissions": self._permissions()}
            message = "Failed to initialize session log storage"
            return {"code": "bootstrap_failed", "message": message, "retryable": False, "details": details}
        code = problem.code if problem.code in MESSAGES else "storage_error"
        return {
            "code": code,
            "message": MESSAGES[code],
            "retryable": code in ("storage_error", "command_timeout"),
            "details": {"reason": _said(problem)},
        }

    def _permissions(self) -> str | None:
        try:
            return oct(os.stat(wire.home_path()).st_mode & 0o7777)  # noqa: PTH116 - no pathlib here
        except OSError:
            return None


def _problem(error: wire.WireError) -> ShiftlogError:
    kind = {"unauthorized": Unauthorized, "invalid_config": ConfigError}.get(error.code, StorageError)
    return kind(error.message, hint=error.hint)


def _said(problem: ShiftlogError) -> str:
    reason = problem.details.get("reason")
    return f"{problem.message}: {reason}" if reason else problem.message


def expiry(method: str, timeout_s: float) -> float | None:
    """Return the moment at which a call that begins now times out, on this machine's clock; None for an import."""
    return None if method == INGEST else time.monotonic() + timeout_s


def _defect(error: Exception) -> Answer:
    import sys
    import traceback

    # Messages can repeat data of the client, so only the stack is printed.
    if sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison] - it is closed
        sys.stderr.write("".join(traceback.format_tb(error.__traceback__)) + f"{type(error).__name__}\n")
    reason = f"{type(error).__name__}; standard error says where"
    return {
        "code": "internal_error",
        "message": MESSAGES["internal_error"],
        "retryable": False,
        "details": {"reason": reason},
    }
