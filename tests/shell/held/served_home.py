"""A real daemon and one real client of it, in whose shells commands go on while daemons come and go."""

import os
import signal
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from shiftlog.link import processes
from tests.daemon.support import (
    REAL,
    Bridge,
    Spawned,
    control,
    end_daemon,
    eventually,
    lock_holder,
    nobody_may_start,
    start_daemon,
)


class ServedHome:
    """A state directory, its daemon, and a client that speaks MCP through the bridge."""

    def __init__(self, home: Path, bridge: Bridge) -> None:
        self.home = home
        self.bridge = bridge
        self.numbers = 0
        self._starts = ExitStack()

    def send(self, tool: str, **arguments: Any) -> int:
        """Send a call; return its number."""
        self.numbers += 1
        params = {"name": tool, "arguments": arguments}
        self.bridge.send({"jsonrpc": "2.0", "id": self.numbers, "method": "tools/call", "params": params})
        return self.numbers

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return its result."""
        number = self.send(tool, **arguments)
        answer = self.bridge.read(60)
        assert answer["id"] == number
        assert "result" in answer, answer
        result = answer["result"]
        assert not result.get("isError"), result
        return result["structuredContent"]

    def open(self, **arguments: Any) -> str:
        """Open a shell and return its id."""
        return self.call("open_shell", **arguments)["shell_id"]

    def run(self, shell_id: str, command: str, **arguments: Any) -> dict[str, Any]:
        """Run a command."""
        return self.call("run_command", shell_id=shell_id, command=command, **arguments)

    def finished(self, command_id: str, within_s: int = 60) -> tuple[int | None, str]:
        """Wait for the end of a command; return its exit code and all that it wrote."""
        ended = self.call("read_output", command_id=command_id, wait_s=within_s, wait_for="end", max_chars=1_000_000)
        assert ended["state"] == "finished", ended
        text, cursor = ended["text"], ended["next_cursor"]
        while cursor and not ended["eof"]:
            ended = self.call("read_output", command_id=command_id, cursor=cursor, max_chars=1_000_000)
            text, cursor = text + ended["text"], ended["next_cursor"]
        return ended["exit_code"], text

    def kill(self) -> None:
        """Kill the daemon at once; the client waits for the one that `start` starts."""
        self._starts.enter_context(nobody_may_start(self.home))
        pid = lock_holder(self.home)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: not processes.alive(pid))

    def stop(self, *, shells: bool = False) -> None:
        """Stop the daemon as an operator does."""
        with control(self.home) as client:
            pid = client.daemon_pid
            client.call("daemon.stop", {"shells": shells})
        eventually(lambda: not processes.alive(pid))

    def release(self) -> None:
        """Let clients start daemons again."""
        self._starts.close()

    def start(self, **more: str) -> Spawned:
        """Start the next daemon."""
        try:
            return start_daemon(self.home, program=REAL, **more)
        finally:
            self._starts.close()


@contextmanager
def served_home(folder: Path, settings: str = "") -> Generator[ServedHome]:
    """Start a daemon and a client for the time of a with block; no process of it stays."""
    home = folder / "home"
    home.mkdir(mode=0o700, exist_ok=True)
    if settings:
        (home / "config.toml").write_text(settings, encoding="utf-8")
    try:
        start_daemon(home, program=REAL, SHIFTLOG_DURABILITY="process")
        with Bridge(home, SHIFTLOG_DURABILITY="process") as bridge:
            bridge.shake_hands()
            served = ServedHome(home, bridge)
            try:
                yield served
            finally:
                served.release()
    finally:
        end_daemon(home)
