"""Continuity on a large store: resuming among 100,000 sessions, in-process and through the bridge, and totals."""

import itertools
import subprocess
import time
from pathlib import Path

import anyio

from bench.bridge_client import SHIFTLOG, BridgeClient
from bench.tables import ms, percentile, print_table
from shiftlog.app.app import App, open_app
from shiftlog.journal.usage.service import runs_filter, total_usage
from shiftlog.journal.usage.totals import DIMENSIONS
from shiftlog.model.caller import LIBRARY

SESSIONS = 100_000
AGENTS = 2_000
RESUMES = 200
AT_ONCE = 200


async def fill(app: App, workspace: Path, sessions: int) -> None:
    """Open that many sessions, each with a run, a turn and its usage, many at a time."""

    async def one(number: int) -> None:
        opened = await app.sessions.open_session(
            {
                "agent": "Bench",
                "agent_id": f"agent-{number % AGENTS}",
                "title": f"Shift {number}",
                "model": "claude-opus-4-5",
                "cwd": str(workspace),
            },
            LIBRARY,
        )
        named = {"session_id": opened["session_id"]}
        await app.sessions.begin_turn({**named, "query_title": "Go", "query_text": "Go on"}, LIBRARY)
        used = {"input_tokens": 1_000, "output_tokens": 200}
        await app.sessions.finish_turn({**named, "outcome": "completed", "response": "Done", "usage": used}, LIBRARY)

    for first in range(0, sessions, AT_ONCE):
        async with anyio.create_task_group() as group:
            for number in range(first, min(first + AT_ONCE, sessions)):
                group.start_soon(one, number)


async def in_process(home: Path, workspace: Path, sessions: int) -> tuple[list[float], list[float], float]:
    """Fill a store; return the times of resumes and of the totals, and how long filling took."""
    async with open_app(home, {"SHIFTLOG_DURABILITY": "process"}) as app:
        start = time.perf_counter()
        await fill(app, workspace, sessions)
        filled = time.perf_counter() - start
        resumes: list[float] = []
        for number in range(RESUMES):
            start = time.perf_counter()
            await app.continuity.resume_session({"agent_id": f"agent-{number * 7 % AGENTS}"}, LIBRARY)
            resumes.append(time.perf_counter() - start)
        totals: list[float] = []
        for by in itertools.islice(itertools.cycle([name] for name in DIMENSIONS), 10):
            start = time.perf_counter()
            await app.store.read(
                lambda reader, by=by: total_usage(reader, app.runs, runs_filter(reader, {}, app.clock.now()), by)
            )
            totals.append(time.perf_counter() - start)
        return resumes, totals, filled


def through_bridge(home: Path) -> list[float]:
    """Time resumes as an agent's client sees them, the look at the workspace included."""
    spans: list[float] = []
    with BridgeClient(home) as client:
        client.initialize()
        for number in range(RESUMES):
            start = time.perf_counter()
            client.call("resume_session", {"agent_id": f"agent-{number * 11 % AGENTS}", "on_held": "take_over"})
            spans.append(time.perf_counter() - start)
    stop = {"SHIFTLOG_HOME": str(home)}
    subprocess.run([str(SHIFTLOG), "daemon", "stop"], env=stop, check=True, stdout=subprocess.DEVNULL)
    return spans


def main(scratch: Path, sessions: int = SESSIONS) -> None:
    """Measure and print."""
    home, workspace = scratch / "continuity", scratch / "workspace"
    home.mkdir(mode=0o700)
    workspace.mkdir()
    git = ["git", "-C", str(workspace), "-c", "user.name=Bench", "-c", "user.email=bench@localhost"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "First"], check=True)
    resumes, totals, filled = anyio.run(in_process, home, workspace, sessions)
    bridged = through_bridge(home)
    rows = [
        [name, ms(percentile(spans, 0.5)), ms(percentile(spans, 0.95))]
        for name, spans in (
            ("resume_session, in-process", resumes),
            ("resume_session, through the bridge", bridged),
            ("usage by day, model, agent, caller, project", totals),
        )
    ]
    print_table(f"Continuity on {sessions:,} sessions (filled in {filled:.0f} s)", ["what", "p50", "p95"], rows)
