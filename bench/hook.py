"""The hook beside a bare interpreter: what an agent waits for at each of its events, without a daemon and with one."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from bench.tables import interpreter_starts, ms, percentile, print_table, ratio

TIMES = 40
COLD_TIMES = 5
HOOK = Path(sys.executable).with_name("shiftlog-hook")
SHIFTLOG = Path(sys.executable).with_name("shiftlog")
SESSION = "5e551000-0000-4000-8000-00000000000a"
PROMPT = {"hook_event_name": "UserPromptSubmit", "prompt": "Find why the upload flakes"}
EVENTS = {
    "SessionStart with its answer": {"hook_event_name": "SessionStart", "source": "startup"},
    "UserPromptSubmit": PROMPT,
    "PreToolUse": {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "true"}},
    "PostToolUse of 64 KiB": {"hook_event_name": "PostToolUse", "tool_response": "x" * 65_536},
    "SubagentStart": {"hook_event_name": "SubagentStart", "agent_id": "a1"},
    "PreCompact": {"hook_event_name": "PreCompact", "trigger": "auto"},
    "Stop with its checkpoint": {"hook_event_name": "Stop", "last_assistant_message": "Done"},
    "SessionEnd": {"hook_event_name": "SessionEnd", "reason": "other"},
}


def main(scratch: Path) -> None:
    """Measure and print."""
    work = scratch / "work"
    work.mkdir()
    (work / "a.txt").write_text("a\n")
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    spans: dict[str, list[float]] = {name: [] for name in EVENTS}
    floors: list[float] = []
    cold: list[float] = []
    for number in range(COLD_TIMES):
        environ = _environ(scratch / f"cold{number}")
        cold.append(_timed(PROMPT, environ, work, floors))
        _shiftlog(environ, "daemon", "stop")
    environ = _environ(scratch / "warm")
    _shiftlog(environ, "status")
    for number in range(TIMES):
        for name, event in EVENTS.items():
            spans[name].append(_timed({**event, "tool_use_id": f"toolu_{number}"}, environ, work, floors))
    _shiftlog(environ, "daemon", "stop")
    floor = percentile(floors, 0.5)
    rows: list[list[str]] = [["python -c pass", ms(floor), ms(percentile(floors, 0.95)), "1.00×"]]
    for name, taken in {**spans, "UserPromptSubmit that starts the daemon": cold}.items():
        middle = percentile(taken, 0.5)
        rows.append([name, ms(middle), ms(percentile(taken, 0.95)), ratio(middle, floor)])
    print_table("The hook, with a daemon that runs", ["event", "p50", "p95", "÷ bare interpreter"], rows)


def _environ(home: Path) -> dict[str, str]:
    """Return an environment with a state directory of its own."""
    home.mkdir(mode=0o700)
    environ = {**os.environ, "SHIFTLOG_HOME": str(home)}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    return environ


def _shiftlog(environ: dict[str, str], *arguments: str) -> None:
    subprocess.run([str(SHIFTLOG), *arguments], env=environ, check=True, stdout=subprocess.DEVNULL)


def _timed(event: Mapping[str, object], environ: dict[str, str], work: Path, floors: list[float]) -> float:
    """Run the hook beside a bare interpreter, so that both see the same machine."""
    spool = Path(environ["SHIFTLOG_HOME"], "spool")
    while any(_size(path) for path in spool.glob("hooks-*")):  # an agent's events come at a person's pace
        time.sleep(0.01)
    data = json.dumps({"session_id": SESSION, "cwd": str(work), "permission_mode": "default", **event}).encode()
    floors.extend(interpreter_starts(1))
    start = time.perf_counter()
    subprocess.run([str(HOOK), "claude"], input=data, env=environ, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def _size(path: Path) -> int:
    """Return the size of a spool file; the daemon may have removed it since it was listed."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
