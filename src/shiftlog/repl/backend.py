"""Who answers the REPL's calls: the daemon, started if need be, or this process where no daemon can be had.

A call whose connection breaks is asked again; it carries a number, so that one that was carried out is not carried out
twice. What the connection is bound to travels with every call, so that a new daemon goes on where the old one was.
"""

import os
from typing import Any, Protocol

from shiftlog.link import wire
from shiftlog.link.client import Client, DaemonUnreachable
from shiftlog.model.errors import ShiftlogError, StorageError, Unauthorized

# The daemon keeps the time of a call; we wait a little longer for it to say so.
GRACE_S = 30.0
ATTEMPTS = 3
QUESTION = "sessionlog"
BOOTSTRAP = "workflow.sessionlog.bootstrap"
INGEST = "repl.sessionlog.ingestTranscripts"
MESSAGES = {
    "storage_error": "Storage error",
    "internal_error": "Internal error",
    "unauthorized": "The state directory belongs to another user",
}

Answer = dict[str, Any]


class Answers(Protocol):
    """Something that answers a question about the session log."""

    def ask(self, question: dict[str, object]) -> Answer: ...
    def close(self) -> None: ...


class Backend:
    """The calls of one connection."""

    def __init__(self, *, workspace: str, agent: str | None, timeout_s: float, home: str | None = None) -> None:
        self._home = home
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
        """Return `{"result": …}` or `{"error": …}`; never raise for what a call or the daemon does."""
        self._calls += 1
        question = {**self._about, "method": method, "params": params, "call": self._calls}
        problem: ShiftlogError | None = None
        for attempt in range(ATTEMPTS):
            try:
                answers = self._answers = self._answers or self._reach()
                answer = answers.ask({**question, "binding": self._binding, "again": attempt > 0})
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
        """Hang up, or close the store."""
        if self._answers is not None:
            self._answers.close()
            self._answers = None

    def _reach(self) -> Answers:
        try:
            home = wire.open_home(self._home)
        except wire.WireError as error:
            raise _problem(error) from error
        try:
            hello = wire.hello_line(role="control", face="repl", client_id=str(self._about["client"]))
            return _Daemon(Client(wire.open_connection(home, hello), home), self._timeout_s)
        except wire.WireError as error:
            if error.code != "storage_error":
                raise _problem(error) from error
        except OSError:
            pass  # whatever keeps a daemon from starting need not keep us from opening the store
        from shiftlog.repl.in_process import InProcess

        return InProcess(home)

    def _refusal(self, method: str, params: object) -> Answer | None:
        """Return what is wrong with a call that reached nobody: whatever needs no store is checked before it."""
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
        if method == BOOTSTRAP:
            details = {"storageError": _said(problem), "permissions": self._permissions()}
            message = "Failed to initialize session log storage"
            return {"code": "bootstrap_failed", "message": message, "retryable": False, "details": details}
        code = problem.code if problem.code in MESSAGES else "storage_error"
        return {
            "code": code,
            "message": MESSAGES[code],
            "retryable": code == "storage_error",
            "details": {"reason": _said(problem)},
        }

    def _permissions(self) -> str | None:
        try:
            return oct(os.stat(self._home or wire.home_path()).st_mode & 0o7777)  # noqa: PTH116 - no pathlib here
        except OSError:
            return None


def _problem(error: wire.WireError) -> ShiftlogError:
    kind = Unauthorized if error.code == "unauthorized" else StorageError
    return kind(error.message, hint=error.hint)


def _said(problem: ShiftlogError) -> str:
    reason = problem.details.get("reason")
    return f"{problem.message}: {reason}" if reason else problem.message


def waiting_s(method: str, timeout_s: float) -> float | None:
    """Return how long the daemon's answer is waited for; an import takes the time that it takes."""
    return None if method == INGEST else timeout_s + GRACE_S


class _Daemon:
    """The daemon, over its control connection."""

    def __init__(self, client: Client, timeout_s: float) -> None:
        self._client = client
        self._timeout_s = timeout_s

    def ask(self, question: dict[str, object]) -> Answer:
        return self._client.call(QUESTION, question, timeout_s=waiting_s(str(question["method"]), self._timeout_s))

    def close(self) -> None:
        self._client.close()
