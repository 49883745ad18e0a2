"""The hook beside a bare interpreter: what an agent waits for at each of its events, without a daemon and with one."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from bench.tables import interpreter_starts, ms, percentile, print_table, ratio

TIMES = 40
HOOK = Path(sys.executable).with_name("shiftlog-hook")
SHIFTLOG = Path(sys.executable).with_name("shiftlog")
COMMON = {"session_id": "5e551000-0000-4000-8000-00000000000a", "cwd": "/srv/app", "permission_mode": "default"}


def main(scratch: Path) -> None:
    """Measure and print."""
    home = scratch / "hook"
    home.mkdir(mode=0o700)
    environ = {**os.environ, "SHIFTLOG_HOME": str(home)}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    spans: dict[str, list[float]] = {}
    floors: list[float] = []
    events = {
        "UserPromptSubmit, no daemon": {"hook_event_name": "UserPromptSubmit", "prompt": "Find why the upload flakes"},
        "PostToolUse of 64 KiB, no daemon": {"hook_event_name": "PostToolUse", "tool_response": "x" * 65_536},
    }
    for name, event in events.items():
        spans[name] = _timed(event, environ, floors)
    subprocess.run([str(SHIFTLOG), "status"], env=environ, check=True, stdout=subprocess.DEVNULL)
    start = {"hook_event_name": "SessionStart", "source": "startup"}
    spans["SessionStart with its answer, warm daemon"] = _timed(start, environ, floors)
    subprocess.run([str(SHIFTLOG), "daemon", "stop"], env=environ, check=True, stdout=subprocess.DEVNULL)
    floor = percentile(floors, 0.5)
    rows: list[list[str]] = [["python -c pass", ms(floor), ms(percentile(floors, 0.95)), "1.00×"]]
    for name, taken in spans.items():
        middle = percentile(taken, 0.5)
        rows.append([name, ms(middle), ms(percentile(taken, 0.95)), ratio(middle, floor)])
    print_table("The hook", ["event", "p50", "p95", "÷ bare interpreter"], rows)


def _timed(event: dict[str, str], environ: dict[str, str], floors: list[float]) -> list[float]:
    """Run the hook again and again, each time beside a bare interpreter, so that both see the same machine."""
    data = json.dumps({**COMMON, **event}).encode()
    taken: list[float] = []
    for _ in range(TIMES):
        floors.extend(interpreter_starts(1))
        start = time.perf_counter()
        subprocess.run([str(HOOK), "claude"], input=data, env=environ, check=True, stdout=subprocess.DEVNULL)
        taken.append(time.perf_counter() - start)
    return taken
