"""A session log to talk to: a fresh state directory, a workspace, a clock that tests move, and real REPL processes."""

import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from shiftlog.link.client import connect
from tests.daemon.support import DEADLINE_S, Bridge, environment

REPL = [sys.executable, "-c", "import sys; from shiftlog.repl.__main__ import main; sys.exit(main())"]
PREFIX = "workflow.sessionlog."
NOON = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
SESSION = "Codex-20260701T080000Z-fix-upload"
OTHER_SESSION = "Codex-20260701T090000Z-other"
TURN = "req-20260701T080005Z-upload-001"
TURN_2 = "req-20260701T080100Z-upload-002"

Payload = dict[str, Any]
Call = tuple[str, Any]


def envelope(method: str, params: object, request_id: str = "c-1") -> dict[str, Any]:
    """Return a request; a method without a dot is one of `workflow.sessionlog`."""
    name = method if "." in method else PREFIX + method
    return {"type": "request", "payload": {"requestId": request_id, "method": name, "params": params}}


def lines(calls: Iterable[Call]) -> str:
    """Return calls as JSON lines with the request ids c-1, c-2 …"""
    return "".join(json.dumps(envelope(*call, f"c-{n}")) + "\n" for n, call in enumerate(calls, start=1))


@dataclass(slots=True, kw_only=True)
class Log:
    """One state directory and one workspace."""

    home: Path
    workspace: Path
    clock: Path

    # Talking to it

    def environment(self, **more: str) -> dict[str, str]:
        clock = {"SHIFTLOG_TEST": "1", "SHIFTLOG_NOW": f"@{self.clock}"}
        return environment(self.home, **clock, **more)

    def run(
        self,
        text: str | bytes,
        *arguments: str,
        workspace: Path | None = None,
        environ: dict[str, str] | None = None,
    ) -> "subprocess.CompletedProcess[bytes]":
        """Run one REPL process over some input, which must not end in a traceback."""
        done = subprocess.run(
            [*REPL, *(arguments or ("--agent-stdio",))],
            input=text.encode() if isinstance(text, str) else text,
            cwd=workspace or self.workspace,
            env=self.environment(**(environ or {})),
            capture_output=True,
            timeout=DEADLINE_S * 2,
            check=False,
        )
        assert b"Traceback" not in done.stderr, done.stderr.decode()
        return done

    def answers(
        self, *calls: Call, workspace: Path | None = None, environ: dict[str, str] | None = None
    ) -> list[Payload]:
        """Send calls to one process and return the payloads of its answers, in order."""
        done = self.run(lines(calls), workspace=workspace, environ=environ)
        assert done.returncode == 0, done.stderr.decode()
        answers = [json.loads(line) for line in done.stdout.decode().splitlines()]
        assert [answer["payload"]["requestId"] for answer in answers] == [f"c-{n + 1}" for n in range(len(calls))]
        return [answer["payload"] for answer in answers]

    def results(self, *calls: Call, environ: dict[str, str] | None = None) -> list[Any]:
        """Return the results of calls, none of which may fail."""
        answers = self.answers(*calls, environ=environ)
        assert all("result" in answer for answer in answers), answers
        return [answer["result"] for answer in answers]

    def do(self, method: str, **params: Any) -> Any:
        """Return the result of one call in a process of its own."""
        return self.results((method, params))[0]

    def error(self, method: str, **params: Any) -> Payload:
        """Return the error that answers one call in a process of its own, having checked that it stored nothing."""
        before = self.heads()
        (answer,) = self.answers((method, params))
        assert "code" in answer, f"{method} was not refused but answered {answer}"
        assert self.heads() == before, "a refused call stored something"
        return answer

    def open(self, session: str = SESSION, **params: Any) -> Any:
        return self.do("openSession", **{"sessionId": session, "title": "Fix upload", **params})

    def begin(self, turn: str = TURN, **params: Any) -> Any:
        return self.do("beginTurn", **{"requestId": turn, "queryTitle": "Find it", "queryText": "Why?", **params})

    def live(self) -> "Live":
        """Start a process that stays, to be asked one call after the other."""
        return Live(self)

    # Looking at what is stored

    def ask(self, question: str, **params: object) -> Any:
        with connect(str(self.home), start=False) as client:
            return client.call(question, params)

    def items(self, question: str, **params: object) -> list[Any]:
        with connect(str(self.home), start=False) as client:
            return list(client.stream(question, params))

    def heads(self) -> dict[str, str]:
        """Return the head of every session's journal."""
        if not (self.home / "keys").exists():  # no daemon has been there
            return {}
        items = self.items("verify")[1:]
        assert all(item["ok"] for item in items), items
        return {item["session_id"]: item["entries"] for item in items}

    def turns(self, session: str = SESSION) -> dict[str, dict[str, Any]]:
        """Return the turns of a session by id, each with its contents."""
        shown = [item for item in self.items("show", session_id=session) if "turn" in item]
        return {item["turn"]["request_id"]: {**item["turn"], "contents": item["contents"]} for item in shown}

    def turn(self, turn: str = TURN, session: str = SESSION) -> dict[str, Any]:
        return self.turns(session)[turn]

    def dialog(self, turn: str = TURN) -> list[dict[str, Any]]:
        return [item for item in self.turn(turn)["contents"] if item["kind"] == "dialog"]

    def actions(self, turn: str = TURN) -> list[dict[str, Any]]:
        return [item for item in self.turn(turn)["contents"] if item["kind"] == "action"]

    # Time

    def set_time(self, at: datetime) -> None:
        self.clock.write_text(at.isoformat(), encoding="utf-8")

    def now(self) -> datetime:
        return datetime.fromisoformat(self.clock.read_text(encoding="utf-8"))

    def wait(self, **span: float) -> None:
        self.set_time(self.now() + timedelta(**span))


class Live:
    """A REPL process that stays."""

    def __init__(self, log: Log) -> None:
        self.process = subprocess.Popen(
            [*REPL, "--agent-stdio"],
            cwd=log.workspace,
            env=log.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __enter__(self) -> "Live":
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        assert self.process.wait(DEADLINE_S) == 0
        self.process.stdout.close()

    def ask(self, method: str, params: object = None, request_id: str = "live") -> Payload:
        """Send one call and wait for its answer, while the input stays open."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(envelope(method, params, request_id)).encode() + b"\n")
        self.process.stdin.flush()
        payload = json.loads(self.process.stdout.readline())["payload"]
        assert payload["requestId"] == request_id
        return payload


class Tools:
    """An MCP client of the dialect, over a real bridge."""

    def __init__(self, log: Log, *arguments: str) -> None:
        self.log = log
        self._bridge = Bridge(
            log.home,
            *(arguments or ("--dialect", "mcpserver")),
            SHIFTLOG_TEST="1",
            SHIFTLOG_NOW=f"@{log.clock}",
        )
        self._number = 0

    def __enter__(self) -> "Tools":
        self._bridge.shake_hands()
        return self

    def __exit__(self, *_: object) -> None:
        self._bridge.end()

    def request(self, method: str, **params: Any) -> Any:
        self._number += 1
        return self._bridge.request(self._number, method, **params)

    def call(self, tool: str, **arguments: Any) -> tuple[bool, dict[str, Any]]:
        """Return whether a tool failed, and its content, the same in both blocks."""
        arguments.setdefault("workspacePath", str(self.log.workspace))
        result = self.request("tools/call", name=tool, arguments=arguments)["result"]
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        return result["isError"], result["structuredContent"]

    def do(self, tool: str, **arguments: Any) -> dict[str, Any]:
        failed, content = self.call(tool, **arguments)
        assert not failed, content
        return content

    def error(self, tool: str, **arguments: Any) -> dict[str, Any]:
        failed, content = self.call(tool, **arguments)
        assert failed, content
        return content


def without(result: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return a result but for the keys that every write has, and those named."""
    return {name: value for name, value in result.items() if name not in ("journal", *names)}


def free_of(home: Path, *secrets: str) -> bool:
    """Tell whether no file below a folder holds any of some texts."""
    files = [path for path in sorted(home.rglob("*")) if path.is_file()]
    return not any(secret.encode() in path.read_bytes() for path in files for secret in secrets)


def numbered(n: int) -> str:
    """Return the nth turn id of a test."""
    return f"req-20260701T080000Z-n{n:03d}"
