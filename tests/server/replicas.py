"""Real replicas of a team's server for tests: processes over one PostgreSQL, and what clients do with them."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from tests.daemon.support import environment, eventually

MAIN = [sys.executable, "-c", "import sys; from shiftlog.entry import main; sys.exit(main())"]
START_S = 120.0
ACCEPT = "application/json, text/event-stream"
OLDER, NEWER = "2025-11-25", "2026-07-28"
CLIENT = {"name": "peer", "version": "1"}

# After many faults a busy machine verifies hundreds of thousands of entries.
RUN_S = 600


class Replica:
    """One process of `shiftlog server`; its log is read line by line."""

    def __init__(self, home: Path, url: str, *options: str, **environ: str) -> None:
        settings = {"SHIFTLOG_STORE_URL": url, "SHIFTLOG_SERVER_PORT": "0", "SHIFTLOG_SERVER_DRAIN_S": "0.3"} | environ
        self.process = subprocess.Popen(
            [*MAIN, "server", *options],
            env=environment(home, **settings),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.log: list[dict[str, Any]] = []
        self.other_output: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            for line in lines:
                try:
                    self.log.append(json.loads(line))
                except ValueError:
                    self.other_output.append(line)

    @property
    def url(self) -> str:
        """The address, once the replica listens."""

        def look() -> str | None:
            assert self.process.poll() is None, (self.log[-3:], self.other_output)
            return next((line["url"] for line in tuple(self.log) if line["message"] == "listens"), None)

        return eventually(look, within_s=START_S)

    def said(self, message: str) -> list[dict[str, Any]]:
        """Return the lines of the log with this message."""
        return [line for line in tuple(self.log) if line["message"] == message]

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def end(self) -> int:
        """Stop the replica as an operator does, and return its exit status."""
        if self.process.poll() is None:
            self.signal()
        status = self.process.wait(START_S)
        self._reader.join(START_S)
        return status

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(START_S)
        self._reader.join(START_S)


def make_key(home: Path, url: str, *scopes: str, name: str = "test") -> str:
    """Make an API key by the command line."""
    asked = [word for scope in scopes or ("write",) for word in ("--scope", scope)]
    return command(home, url, "keys", "create", name, *asked, "--json")["api_key"]


def command(home: Path, url: str, *arguments: str) -> Any:
    """Run a command of ours with the database, and return its JSON."""
    done = run(home, url, *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def run(home: Path, url: str, *arguments: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    """Run a command of ours with the database."""
    settings = environment(home, SHIFTLOG_STORE_URL=url, **environ)
    return subprocess.run([*MAIN, *arguments], env=settings, capture_output=True, text=True, timeout=RUN_S, check=False)


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


class Peer:
    """A client of the older revision; each of its requests may go to another replica."""

    def __init__(self, key: str) -> None:
        self.headers = {**bearer(key), "Accept": ACCEPT, "Content-Type": "application/json"}
        self.session: str | None = None
        self._last_id = 0

    def send(self, base: str, method: str, params: Mapping[str, Any] | None = None) -> httpx.Response:
        self._last_id += 1
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params or {}}
        headers = self.headers | ({"Mcp-Session-Id": self.session} if self.session else {})
        return httpx.post(f"{base}/mcp", json=message, headers=headers, timeout=30)

    def initialize(self, base: str) -> dict[str, Any]:
        answer = self.send(base, "initialize", {"protocolVersion": OLDER, "capabilities": {}, "clientInfo": CLIENT})
        assert answer.status_code == 200, answer.text
        self.session = answer.headers["mcp-session-id"]
        noted = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        headers = self.headers | {"Mcp-Session-Id": self.session}
        assert httpx.post(f"{base}/mcp", json=noted, headers=headers).status_code == 202
        return answer.json()["result"]

    def call(self, base: str, tool: str, **arguments: Any) -> dict[str, Any]:
        answer = self.send(base, "tools/call", {"name": tool, "arguments": arguments})
        assert answer.status_code == 200, answer.text
        return answer.json()["result"]["structuredContent"]


def newer_call(base: str, key: str, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool by the newer revision, which has no sessions."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": NEWER,
        "io.modelcontextprotocol/clientInfo": CLIENT,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments, "_meta": meta},
    }
    headers = {**bearer(key), "Accept": ACCEPT, "MCP-Protocol-Version": NEWER, "Mcp-Method": "tools/call"}
    answer = httpx.post(f"{base}/mcp", json=message, headers={**headers, "Mcp-Name": tool}, timeout=30)
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]["structuredContent"]


def rest_call(base: str, key: str, tool: str, http: httpx.Client | None = None, /, **arguments: Any) -> httpx.Response:
    """Call a tool by plain HTTP."""
    post = (http or httpx).post
    return post(f"{base}/tools/{tool}", json=arguments, headers=bearer(key), timeout=30)
