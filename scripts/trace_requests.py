"""Trace four requests through a real daemon: which of our files and functions does each one enter, and in which order?

`python scripts/trace_requests.py` prints a table; `--files` adds the files of each request in the order of their first
use. Each request runs once unrecorded, so that neither imports nor caches count, then several times: functions that not
every run enters belong to the daemon's own work beside it. `--source DIR` traces another checkout with the same
environment, to compare.
"""

import argparse
import json
import os
import re
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from http.cookiejar import CookieJar
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parent.parent
WAIT_S = 60.0
PROMPT = "Rename the function greet to welcome."
ANSWER = "Renamed in hello.py and its test."
RUNS = 4

Calls = list[tuple[str, str]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", action="store_true", help="list the files and functions of each request too")
    parser.add_argument("--source", type=Path, default=ROOT / "src", help="the src folder to trace")
    parser.add_argument("--daemon", nargs=2, metavar=("HOME", "OUT"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.daemon:
        return _run_traced_daemon(*given.daemon, source=given.source.resolve())
    with tempfile.TemporaryDirectory(prefix="shiftlog-trace-") as scratch:
        traces = _trace_all(Path(scratch), given.source.resolve())
    print(f"{'request':<14}{'files':>7}{'functions':>11}{'packages':>10}{'returns':>9}")
    for name, trace in traces.items():
        print(f"{name:<14}{trace['files']:>7}{trace['functions']:>11}{trace['packages']:>10}{trace['returns']:>9}")
    if given.files:
        for name, trace in traces.items():
            print(f"\n{name}")
            for file, functions in trace["order"].items():
                print(f"  {functions:>4}  {file}  {', '.join(trace['functions_of'][file])}")
    return 0


# The daemon's side: a profile function that counts calls between two signals.


def _run_traced_daemon(home: str, out: str, *, source: Path) -> int:
    prefix = f"{source}/shiftlog/"
    calls: Calls = []
    state = {"on": False}

    def profile(frame: FrameType, event: str, _arg: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and state["on"] and file.startswith(prefix) and file.endswith(".py"):
            name = re.sub(r"\.?<(listcomp|dictcomp|setcomp|genexpr|locals)>", "", frame.f_code.co_qualname)
            calls.append((file[len(prefix) :], name))

    def begin(_number: int, _frame: FrameType | None) -> None:
        calls.clear()
        state["on"] = True
        Path(out).write_text("recording", "utf-8")

    def end(_number: int, _frame: FrameType | None) -> None:
        state["on"] = False
        Path(f"{out}.new").write_text(json.dumps(calls), "utf-8")
        Path(f"{out}.new").replace(out)

    signal.signal(signal.SIGUSR1, begin)
    signal.signal(signal.SIGUSR2, end)
    threading.setprofile(profile)
    sys.setprofile(profile)
    sys.argv = ["shiftlogd", "--home", home, "--foreground"]
    runpy.run_module("shiftlog.daemon", run_name="__main__")
    return 0


# The client's side: real programs that ask the daemon.


def _trace_all(scratch: Path, source: Path) -> dict[str, dict[str, Any]]:
    home, workspace, out = scratch / "home", scratch / "work", scratch / "trace.json"
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(scratch),
        "SHIFTLOG_HOME": str(home),
        "PYTHONPATH": str(source),
    }
    workspace.mkdir()
    for words in (
        ["init", "-q"],
        ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "--allow-empty", "-m", "a"],
    ):
        subprocess.run(["git", *words], cwd=workspace, env=environ, check=True)
    words = [sys.executable, __file__, "--source", str(source), "--daemon", str(home), str(out)]
    with (scratch / "daemon.out").open("wb") as log:
        daemon = subprocess.Popen(words, env=environ, stdout=log, stderr=log)
    try:
        _until((home / "daemon.sock").exists)
        return _trace_requests(daemon.pid, out, workspace, environ)
    finally:
        daemon.terminate()
        daemon.wait(WAIT_S)


def _trace_requests(pid: int, out: Path, workspace: Path, environ: dict[str, str]) -> dict[str, dict[str, Any]]:
    client = _Client(workspace, environ)
    session = client.call("open_session", {"agent": "ClaudeCode", "title": "Trace"})["session_id"]
    client.call("begin_turn", {"session_id": session, "query_title": "Trace", "query_text": PROMPT})
    shell = client.call("open_shell", {"session_id": session, "workspace": str(workspace)})["shell_id"]
    page = _Page(workspace, environ)

    def update(number: int) -> None:
        item = {"role": "model", "category": "observation", "content": f"{ANSWER} {number}"}
        client.call("update_turn", {"session_id": session, "dialog": [item]})

    def command(number: int) -> None:
        client.call("run_command", {"shell_id": shell, "command": f"echo {number} > hello.txt && cat hello.txt"})

    def import_(number: int) -> None:
        transcript = _write_transcript(Path(environ["HOME"]), number, workspace)
        words = [sys.executable, "-m", "shiftlog", "import", str(transcript)]
        subprocess.run(words, env=environ, check=True, stdout=subprocess.DEVNULL)

    def show(_number: int) -> None:
        page.read(f"/sessions/{session}")

    requests: dict[str, Callable[[int], None]] = {
        "turn update": update,
        "command": command,
        "import": import_,
        "page": show,
    }
    try:
        return {name: _traced(pid, out, request) for name, request in requests.items()}
    finally:
        client.call("close_shell", {"shell_id": shell})  # it would outlive the daemon
        client.close()


def _traced(pid: int, out: Path, request: Callable[[int], None]) -> dict[str, Any]:
    request(0)
    runs: list[Calls] = []
    for number in range(1, RUNS + 1):
        time.sleep(1.5)  # what the one before left to do later is over
        runs.append(_recorded(pid, out, lambda number=number: request(number)))
    always = set(runs[0]).intersection(*runs[1:])
    return _summary([call for call in runs[-1] if call in always])


def _recorded(pid: int, out: Path, request: Callable[[], None]) -> Calls:
    os.kill(pid, signal.SIGUSR1)
    _until(lambda: out.exists() and out.read_text("utf-8") == "recording")
    request()
    os.kill(pid, signal.SIGUSR2)
    _until(lambda: out.read_text("utf-8") != "recording")
    return [(file, function) for file, function in json.loads(out.read_text("utf-8"))]


def _summary(calls: Calls) -> dict[str, Any]:
    order: dict[str, set[str]] = {}
    packages: list[str] = []
    for file, function in calls:
        order.setdefault(file, set()).add(function)
        package = Path(file).parts[0]
        if not packages or packages[-1] != package:
            packages.append(package)
    return {
        "files": len(order),
        "functions": sum(map(len, order.values())),
        "packages": len(set(packages)),
        "returns": len(packages) - len(set(packages)),
        "order": {file: len(functions) for file, functions in order.items()},
        "functions_of": {file: sorted(functions) for file, functions in order.items()},
    }


def _until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.02)


class _Client:
    """An MCP client at the far end of a real bridge."""

    def __init__(self, workspace: Path, environ: dict[str, str]) -> None:
        words = [sys.executable, "-m", "shiftlog", "mcp"]
        self._process = subprocess.Popen(
            words, cwd=workspace, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._ids = 0
        about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "trace", "version": "1"}}
        self._request("initialize", about)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdout is not None
        self._ids += 1
        self._send({"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params})
        while True:
            answer: dict[str, Any] = json.loads(self._process.stdout.readline())
            if answer.get("id") == self._ids:
                return answer["result"]

    def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool and return its structured answer."""
        result = self._request("tools/call", {"name": tool, "arguments": arguments})
        if result.get("isError"):
            raise RuntimeError(json.dumps(result["structuredContent"]))
        return result["structuredContent"]

    def close(self) -> None:
        """Close the bridge's input and wait for its end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(WAIT_S)


class _Page:
    """A browser without a screen: it enters by the link that `shiftlog open` prints and keeps the cookie."""

    def __init__(self, workspace: Path, environ: dict[str, str]) -> None:
        words = [sys.executable, "-m", "shiftlog", "open", "--print"]
        printed = subprocess.run(words, cwd=workspace, env=environ, check=True, capture_output=True, text=True).stdout
        link = re.search(r"http://\S+", printed)
        assert link is not None, printed
        self._base = re.sub(r"(http://[^/]+).*", r"\1", link[0])
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        self._opener.addheaders = [("Accept", "text/html")]
        self._opener.open(link[0], timeout=WAIT_S).read()

    def read(self, path: str) -> None:
        """Load one page as a browser asks for it."""
        self._opener.open(self._base + path, timeout=WAIT_S).read()


def _write_transcript(folder: Path, number: int, workspace: Path) -> Path:
    """Write a short transcript of Claude Code: a prompt, a call of a tool with its result, an answer."""
    session = f"00000000-0000-4000-8000-{number:012d}"
    common = {
        "sessionId": session,
        "cwd": str(workspace),
        "version": "2.1.0",
        "gitBranch": "main",
        "isSidechain": False,
    }
    usage = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    call = {
        "type": "tool_use",
        "id": f"toolu_{number}",
        "name": "Bash",
        "input": {"command": "sed -i s/greet/welcome/ hello.py"},
    }
    result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": "done"}
    parts: list[tuple[str, dict[str, Any]]] = [
        ("user", {"role": "user", "content": PROMPT}),
        (
            "assistant",
            {
                "id": f"msg_1{number}",
                "model": "claude-sonnet-4-5",
                "role": "assistant",
                "content": [call],
                "usage": usage,
            },
        ),
        ("user", {"role": "user", "content": [result]}),
        (
            "assistant",
            {
                "id": f"msg_2{number}",
                "model": "claude-sonnet-4-5",
                "role": "assistant",
                "stop_reason": "end_turn",
                "content": [{"type": "text", "text": ANSWER}],
                "usage": usage,
            },
        ),
    ]
    path = folder / f"{session}.jsonl"
    parent = None
    with path.open("w", encoding="utf-8") as file:
        for place, (kind, message) in enumerate(parts):
            record = {
                **common,
                "type": kind,
                "uuid": f"{number:08d}-0000-4000-8000-{place:012d}",
                "parentUuid": parent,
                "timestamp": f"2026-01-01T10:00:0{place}.000Z",
                "message": message,
            }
            parent = record["uuid"]
            file.write(json.dumps(record) + "\n")
    return path


if __name__ == "__main__":
    sys.exit(main())
