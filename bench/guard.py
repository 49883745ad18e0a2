"""The guard for agents' own tools: what a `true` costs a client more in `enforce` mode, in a workspace of 20,000 files.

One round is what a client does for one call: the hook before it, then a shell with the command as it then is.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from bench.tables import ms, percentile, print_table

FILES, FOLDERS = 20_000, 200
ROUNDS = 25
HOOK = Path(sys.executable).with_name("shiftlog-hook")
SHIFTLOG = Path(sys.executable).with_name("shiftlog")
SESSION = "5e551000-0000-4000-8000-00000000000a"


def main(scratch: Path) -> None:
    """Measure and print; the modes take turns, so that both see the same machine."""
    work = scratch / "work"
    _fill(work)
    environs = {mode: _environ(scratch / mode) for mode in ("off", "enforce")}
    spans: dict[str, list[tuple[float, float]]] = {mode: [] for mode in environs}
    try:
        for mode, environ in environs.items():
            _begin(environ, work, mode)
            _round(environ, work, 0)
        for number in range(1, ROUNDS + 1):
            for mode, environ in environs.items():
                spans[mode].append(_round(environ, work, number))
    finally:
        for environ in environs.values():
            _shiftlog(environ, work, "daemon", "stop")
    wholes = {mode: [hook + run for hook, run in taken] for mode, taken in spans.items()}
    without = percentile(wholes["off"], 0.5)
    rows = [
        [
            mode,
            ms(percentile([hook for hook, _ in spans[mode]], 0.5)),
            ms(percentile([run for _, run in spans[mode]], 0.5)),
            ms(percentile(taken, 0.5)),
            ms(percentile(taken, 0.95)),
            ms(percentile(taken, 0.5) - without),
        ]
        for mode, taken in wholes.items()
    ]
    heads = ["guard", "hook p50", "command p50", "both p50", "both p95", "more"]
    print_table(f"A guarded `true`, {FILES:,} files, nothing changed", heads, rows)


def _environ(home: Path) -> dict[str, str]:
    """Return an environment with a state directory of its own."""
    home.mkdir(mode=0o700)
    environ = {**os.environ, "SHIFTLOG_HOME": str(home)}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    return environ


def _begin(environ: dict[str, str], work: Path, mode: str) -> None:
    """Let an agent begin a turn; the guard is switched on before, as an agent's process may not do that."""
    if mode != "off":
        _shiftlog(environ, work, "guard", "on", "--agent", "claude", "--mode", mode)
    _hook(environ, work, "SessionStart", source="startup")
    _hook(environ, work, "UserPromptSubmit", prompt="Measure")
    _shiftlog(environ, work, "checkpoints")  # waits for the one that is being made


def _fill(work: Path) -> None:
    for folder in range(FOLDERS):
        place = work / f"folder{folder}"
        place.mkdir(parents=True)
        for file in range(FILES // FOLDERS):
            (place / f"file{file}.txt").write_text(f"{folder} {file}\n")
    for words in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=b", "-c", "user.email=b@b", "commit", "-qm", "files"],
    ):
        subprocess.run(["git", "-C", str(work), *words], check=True)


def _shiftlog(environ: dict[str, str], work: Path, *arguments: str) -> None:
    subprocess.run([str(SHIFTLOG), *arguments], env=environ, cwd=work, check=False, stdout=subprocess.DEVNULL)


def _hook(environ: dict[str, str], work: Path, event: str, **facts: object) -> str:
    data = json.dumps({"hook_event_name": event, "session_id": SESSION, "cwd": str(work), **facts}).encode()
    command = [str(HOOK), "claude"]
    return subprocess.run(command, input=data, env=environ, check=True, stdout=subprocess.PIPE).stdout.decode()


def _round(environ: dict[str, str], work: Path, number: int) -> tuple[float, float]:
    """Return how long the hook took, and how long the command as it then is."""
    start = time.perf_counter()
    call = {"tool_name": "Bash", "tool_use_id": f"toolu_{number}", "tool_input": {"command": "true"}}
    said = _hook(environ, work, "PreToolUse", **call)
    command = json.loads(said)["hookSpecificOutput"]["updatedInput"]["command"] if said else "true"
    judged = time.perf_counter()
    subprocess.run(["bash", "-c", command], cwd=work, env=environ, check=True)
    return judged - start, time.perf_counter() - judged
