"""Talking to a measured process over its pipes, one JSON object a line, with a limit on every wait.

Two kinds of talk: MCP with a server, and the short words of `drivers/loop.py` with a driver.
"""

import json
import os
import select
import subprocess
import time
from pathlib import Path
from typing import Any

TIMEOUT_S = 120.0
MARK = "BENCH_PEER"


class Failed(Exception):
    """A measurement that gave no figure; the message is what the table says."""


class Talk:
    """One process and its two pipes."""

    def __init__(self, name: str, command: list[str], environ: dict[str, str], cwd: Path) -> None:
        # The mark finds what the process starts, daemons too, and nothing of another run.
        self._mark = f"{name} {os.getpid()}"
        self._log = cwd / "stderr.log"
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**environ, MARK: self._mark},
                cwd=cwd,
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._in, self._out = self.process.stdin.fileno(), self.process.stdout.fileno()
        self._poll = select.poll()
        self._poll.register(self._out, select.POLLIN)
        self._buffer = bytearray()

    def send(self, *messages: dict[str, Any]) -> None:
        """Write messages, each on a line."""
        data = b"".join(json.dumps(message).encode() + b"\n" for message in messages)
        while data:
            data = data[os.write(self._in, data) :]

    def receive(self, deadline: float) -> dict[str, Any]:
        """Read the next message before the deadline."""
        while (end := self._buffer.find(b"\n")) < 0:
            left = deadline - time.perf_counter()
            if left <= 0 or not self._poll.poll(left * 1000):
                raise Failed(f"no answer in {TIMEOUT_S:.0f} s")
            data = os.read(self._out, 1 << 20)
            if not data:
                raise Failed(f"ended: {self._last_words()}")
            self._buffer += data
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return json.loads(line)

    def stop(self) -> None:
        """Close the pipes and end everything that was started for it."""
        self.close()
        end_marked(self._mark)

    def close(self) -> None:
        """Close the pipes, and end the process if that is not enough."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(timeout=20)

    def memory(self) -> int:
        """Return the proportional memory of everything that runs for it: what is shared counts once."""
        return memory_marked(self._mark)

    def _last_words(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else f"exit status {self.process.poll()}"


class McpTalk(Talk):
    """An MCP server over standard input and output."""

    _ids = 0

    def initialize(self) -> None:
        """Shake hands."""
        client = {"name": "bench", "version": "1"}
        self.request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send one request and return its result."""
        return self.requests(method, [params])[0]

    def requests(self, method: str, many: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Send requests together and return their results in the same order."""
        first = self._ids + 1
        self._ids += len(many)
        deadline = time.perf_counter() + TIMEOUT_S
        self.send(
            *(
                {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
                for number, params in enumerate(many, first)
            )
        )
        answers: dict[int, dict[str, Any]] = {}
        while len(answers) < len(many):
            message = self.receive(deadline)
            if "method" in message:
                continue  # logs and progress: the agent's client reads them as well
            if "error" in message:
                raise Failed(str(message["error"].get("message"))[:200])
            answers[message["id"]] = message["result"]
        return [answers[number] for number in range(first, first + len(many))]

    def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool and return its result."""
        return self.calls(tool, [arguments])[0]

    def calls(self, tool: str, many: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Call a tool many times at once."""
        results = self.requests("tools/call", [{"name": tool, "arguments": arguments} for arguments in many])
        for result in results:
            if result.get("isError"):
                raise Failed(str(result["content"][0]["text"])[:200])
        return results


def memory_marked(value: str) -> int:
    """Return the proportional memory of all processes with a mark and of what they started."""
    return sum(_proportional(pid) for pid in _family(_marked(value)))


def end_marked(value: str) -> None:
    """Ask every process with a mark to end."""
    for pid in _marked(value):
        _end(pid)


def _marked(value: str) -> list[int]:
    """Find the processes that were started with our mark, also those that became daemons."""
    mark = f"{MARK}={value}".encode()
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
            except OSError:
                continue
    return found


def _family(roots: list[int]) -> set[int]:
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = int((folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                continue
            children.setdefault(parent, []).append(int(folder.name))
    found, waiting = set[int](), list(roots)
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += children.get(pid, [])
    return found


def _proportional(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def _end(pid: int) -> None:
    try:
        os.kill(pid, 15)
    except ProcessLookupError:
        pass
