"""The session log: a one-shot call, a round trip beside the bridge's, and every method as a session grows."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.bridge_client import SHIFTLOG, BridgeClient
from bench.tables import interpreter_starts, ms, percentile, print_table, ratio, timed

REPL = Path(sys.executable).with_name("mcpserver-repl")
PREFIX = "workflow.sessionlog."
SESSION = "Codex-20260701T080000Z-bench"
TURN = "req-20260701T080000Z-bench"
SIZES = (100, 1_000, 10_000)
AT_ONCE = 2_000
CALLS = 200
TEXT = "The upload test flakes because two workers clean the same temp directory; lock it."
ITEM = {"role": "model", "category": "reasoning", "content": TEXT}
ACTION = {"description": "Lock it", "type": "edit", "status": "completed", "filePath": "src/up.py"}


class ReplClient:
    """One REPL process, spoken to over its pipes."""

    def __init__(self, environ: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [str(REPL), "--agent-stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ
        )

    def call(self, method: str, params: dict[str, Any]) -> Any:
        """Send one call and return its result."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        payload = {"requestId": "bench", "method": PREFIX + method, "params": params}
        self._process.stdin.write(json.dumps({"type": "request", "payload": payload}).encode() + b"\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())["payload"]
        if "result" not in answer:
            raise RuntimeError(str(answer))
        return answer["result"]

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)


@contextmanager
def _repl(environ: dict[str, str]) -> Generator[ReplClient]:
    client = ReplClient(environ)
    try:
        yield client
    finally:
        client.close()


def main(scratch: Path) -> None:
    """Measure and print."""
    home = scratch / "sessionlog"
    home.mkdir(mode=0o700)
    environ = {**os.environ, "SHIFTLOG_HOME": str(home)}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        with _repl(environ) as repl:
            repl.call("openSession", {"sessionId": SESSION, "title": "Bench"})
            _starts(environ)
            _round_trips(repl, home)
            _growth(repl)
    finally:
        subprocess.run([str(SHIFTLOG), "daemon", "stop"], env=environ, check=True, stdout=subprocess.DEVNULL)


def _starts(environ: dict[str, str]) -> None:
    floor = percentile(interpreter_starts(), 0.5)
    command = [str(REPL), "--invoke", PREFIX + "currentSession"]
    spans = timed(lambda: subprocess.run(command, env=environ, check=True, stdout=subprocess.DEVNULL), 20)
    middle = percentile(spans, 0.5)
    rows = [
        ["python -c pass", ms(floor), "", "1.00×"],
        ["mcpserver-repl --invoke, warm daemon", ms(middle), ms(percentile(spans, 0.95)), ratio(middle, floor)],
    ]
    print_table("One-shot call", ["what", "p50", "p95", "÷ bare interpreter"], rows)


def _round_trips(repl: ReplClient, home: Path) -> None:
    repl.call("beginTurn", {"requestId": TURN, "queryTitle": "x", "queryText": TEXT})
    ours: list[float] = []
    theirs: list[float] = []
    with BridgeClient(home) as bridge:
        bridge.initialize()
        for n in range(CALLS):  # one beside the other, so that both see the same disk
            start = time.perf_counter()
            repl.call("updateTurn", {"interpretation": f"{TEXT} {n}"})
            ours.append(time.perf_counter() - start)
            start = time.perf_counter()
            bridge.call("update_turn", {"session_id": SESSION, "interpretation": f"{n} {TEXT}"})
            theirs.append(time.perf_counter() - start)
    floor = percentile(theirs, 0.5)
    rows = [
        [name, ms(percentile(spans, 0.5)), ms(percentile(spans, 0.95)), ratio(percentile(spans, 0.5), floor)]
        for name, spans in (("update_turn through the bridge", theirs), ("updateTurn through the REPL", ours))
    ]
    print_table("Round trip of a write, warm daemon", ["what", "p50", "p95", "÷ bridge"], rows)


def _growth(repl: ReplClient) -> None:
    columns: dict[str, list[str]] = {}
    turns = 0
    for size in SIZES:
        while turns < size:
            count = min(AT_ONCE, size - turns)
            repl.call("importRecovery", _imported(turns, count))
            turns += count
        for method, middle in _methods(repl, size):
            columns.setdefault(method, []).append(ms(middle))
    rows = [[method, *figures] for method, figures in columns.items()]
    print_table("Every method as a session grows, p50", ["method", *(f"{size:,} turns" for size in SIZES)], rows)


def _imported(first: int, count: int) -> dict[str, Any]:
    turns = [
        {
            "requestId": f"req-20260701T080000Z-i{n}",
            "status": "completed",
            "response": f"{TEXT} {n}",
            "tags": [f"tag{n % 7}"],
            "filesModified": [f"src/{n % 400}.py"],
            "processingDialog": [ITEM],
        }
        for n in range(first, first + count)
    ]
    return {"agent": "Codex", "sessionId": SESSION, "title": "Bench", "turns": turns}


def _methods(repl: ReplClient, size: int) -> Iterator[tuple[str, float]]:
    """Time each method over the session as it stands; the turns that this begins are few beside those it has."""
    begin = {"queryTitle": "x", "queryText": TEXT}
    asked: list[tuple[str, list[dict[str, Any]]]] = [
        ("beginTurn", [{"requestId": f"req-20260701T080000Z-s{size}-{n}", **begin} for n in range(20)]),
        ("updateTurn", [{"interpretation": f"{n} {size}", "tags": [f"tag{n}"]} for n in range(20)]),
        ("appendDialog", [{"dialogItems": [ITEM]}] * 20),
        ("appendActions", [{"actions": [ACTION]}] * 20),
        ("setTurnTitle", [{"queryTitle": f"{n} {size}"} for n in range(20)]),
        ("clearSection", [{"section": "dialog"}] * 5),
        ("completeTurn", [{"response": "ok"}]),
        ("currentSession", [{}] * 20),
        ("queryHistory", [{}] * 20),
        ("queryHistory text, found", [{"text": "upload"}] * 5),
        ("queryHistory text, not found", [{"text": "zebra"}] * 5),
        ("queryHistory text, common and rare", [{"text": "upload zebra"}] * 5),
        ("queryHistory two characters, not found", [{"text": "zq"}] * 5),
        ("queryHistory negation, true of no turn", [{"text": "!upload"}] * 5),
        ("queryHistory found and denied in all turns", [{"text": "upload !directory"}] * 5),
        ("importRecovery of one turn again", [_imported(size // 2, 1)] * 20),
    ]
    for name, calls in asked:
        spans: list[float] = []
        for params in calls:
            start = time.perf_counter()
            repl.call(name.partition(" ")[0], params)
            spans.append(time.perf_counter() - start)
        yield name, percentile(spans, 0.5)
