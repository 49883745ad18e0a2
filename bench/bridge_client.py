"""A client at the far end of a real bridge: what an agent's MCP client does, with a stop watch."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

SHIFTLOG = Path(sys.executable).with_name("shiftlog")
INITIALIZE: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}


class BridgeClient:
    """One `shiftlog mcp` process, spoken to over its pipes."""

    def __init__(self, home: Path) -> None:
        environ = {**os.environ, "SHIFTLOG_HOME": str(home)}
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        self.started_at = time.perf_counter()
        self.process = subprocess.Popen(
            [str(SHIFTLOG), "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ
        )
        self._ids = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=30)

    def request(self, method: str, params: dict[str, Any]) -> Any:
        """Send one request and return its result."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._ids += 1
        message = {"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params}
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(str(answer["error"]))
        return answer["result"]

    def initialize(self) -> float:
        """Shake hands; return the seconds from the start of the process to the answer."""
        self.request("initialize", INITIALIZE)
        took = time.perf_counter() - self.started_at
        assert self.process.stdin is not None
        self.process.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        self.process.stdin.flush()
        return took

    def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool and return its structured answer."""
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        if result.get("isError"):
            raise RuntimeError(str(result["structuredContent"]))
        return result["structuredContent"]

    def rss_mb(self) -> float:
        """Return the resident memory of the bridge."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
