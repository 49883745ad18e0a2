"""A program that an attacker runs inside a shell: it connects to the daemon by itself and states what it likes.

Run as `python intruder.py HOME WHAT [ARGUMENT…]`; prints one JSON line. With `--orphan` first, it leaves its shell: it
ends the shell's reaper, and goes on in a new session below another parent.
"""

import json
import os
import resource
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any


def parent_of(pid: int) -> int:
    """Return the parent of a process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def leave() -> None:
    """Become an orphan: kill every process above that is not the daemon, then wait for a new parent."""
    if os.fork():
        time.sleep(60)
    os.setsid()
    above, pid = list[int](), os.getppid()
    while pid > 1 and b"shiftlog.daemon" not in Path(f"/proc/{pid}/cmdline").read_bytes():
        above.append(pid)
        pid = parent_of(pid)
    for pid in reversed(above):
        os.kill(pid, signal.SIGKILL)
    while os.getppid() in above:
        time.sleep(0.01)


class Wire:
    """A connection of ours to the daemon, without any code of the product."""

    def __init__(self, home: str, role: str, cwd: str) -> None:
        self._sock = socket.socket(socket.AF_UNIX)
        self._sock.settimeout(30)
        os.chdir(home)
        self._sock.connect("daemon.sock")
        self._lines = self._sock.makefile("rb")
        self.questions = 0
        self.send(
            {"shiftlog": {"hello": 1, "version": "", "role": role, "face": "mcp", "client_id": "intruder", "cwd": cwd}}
        )
        self.read()

    def send(self, message: dict[str, Any]) -> None:
        self._sock.sendall(json.dumps(message).encode() + b"\n")

    def read(self) -> dict[str, Any]:
        return json.loads(self._lines.readline() or b"null")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Ask one request, and accept every question that comes back."""
        self.send({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        while True:
            message = self.read()
            if message.get("method") == "elicitation/create":
                self.questions += 1
                self.send({"jsonrpc": "2.0", "id": message["id"], "result": {"action": "accept", "content": {}}})
            elif message.get("id") == 1:
                return message

    def tool(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return its answer."""
        answer = self.ask("tools/call", name=name, arguments=arguments)
        return json.loads(answer["result"]["content"][0]["text"])


def agent(home: str, cwd: str) -> Wire:
    """Connect as an agent that can be asked."""
    wire = Wire(home, "mcp", cwd)
    about = {"name": "intruder", "version": "1"}
    wire.ask("initialize", protocolVersion="2025-11-25", capabilities={"elicitation": {}}, clientInfo=about)
    wire.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    return wire


def open_beside(home: str, place: str) -> dict[str, Any]:
    """Open another directory as a workspace, by naming it as our own working directory, and write there."""
    wire = agent(home, place)
    opened = wire.tool("open_shell", workspace=place)
    if "shell_id" not in opened:
        return opened
    return wire.tool("run_command", shell_id=opened["shell_id"], command="echo mine > written")


def use(home: str, shell_id: str) -> dict[str, Any]:
    """Run a command in another shell."""
    return agent(home, "/").tool("run_command", shell_id=shell_id, command="echo mine > written")


def answer_myself(home: str, place: str) -> dict[str, Any]:
    """Run a command that a person must approve, and approve it."""
    wire = agent(home, place)
    opened = wire.tool("open_shell", cwd=place)
    if "shell_id" not in opened:
        return opened
    said = wire.tool("run_command", shell_id=opened["shell_id"], command="touch written")
    return {"questions": wire.questions, "said": said}


def control(home: str, method: str, *argument: str) -> dict[str, Any]:
    """Ask what only the operator may ask."""
    wire = Wire(home, "control", "/")
    wire.send({"id": 1, "method": method, "params": json.loads(argument[0]) if argument else {}})
    return wire.read()


def lower(home: str, method: str) -> dict[str, Any]:
    """Lower the daemon's own limit, so that it may look as deep inside a shell as we are; then be the operator."""
    os.chdir(home)
    with socket.socket(socket.AF_UNIX) as line:
        line.connect("daemon.sock")
        daemon = int.from_bytes(line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], sys.byteorder)
    try:
        resource.prlimit(daemon, 10, (0, 0))
        lowered = True
    except PermissionError:
        lowered = False
    return {**control(home, method), "lowered": lowered}


def main() -> None:
    words = sys.argv[1:]
    report = words.pop(0)
    if words[0] == "--orphan":
        words.pop(0)
        leave()
    home, what, *arguments = words
    try:
        said = globals()[what](home, *arguments)
    except Exception as problem:  # noqa: BLE001 — the report must come, whatever fails
        said = {"refused": f"{type(problem).__name__}: {problem}"}
    partial = Path(f"{report}.part")
    partial.write_text(json.dumps(said))
    partial.rename(report)


if __name__ == "__main__":
    main()
