"""The page on a large store: server time of each address among 100,000 sessions, a session of 30,000 entries, weight.

Asked in the process that serves, so that the figures are the server's own; nothing else runs on its loop meanwhile.
The processor's time is what remains comparable on a busy machine.
"""

import gzip
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import httpx
from starlette.applications import Starlette

from bench.tables import ms, percentile, print_table
from shiftlog.app.app import App, open_app
from shiftlog.journal.clock import Clock
from shiftlog.journal.pen import Pen
from shiftlog.model.caller import LIBRARY
from shiftlog.model.entry import Kind
from shiftlog.model.times import compact, precise, truncated
from shiftlog.store.protocol import Writer
from shiftlog.web.door import Door
from shiftlog.web.live import Live
from shiftlog.web.present.templates import HERE
from shiftlog.web.routes import page_routes

SESSIONS = 100_000
ENTRIES = 30_000
TIMES = 15
AGENTS = 2_000
AT_ONCE = 1_000
TOKEN = "bench"


async def fill(app: App, sessions: int) -> None:
    """Write that many sessions with a run, a turn and its usage, many in one transaction; each a minute older."""
    newest = truncated(app.clock.now())
    for first in range(0, sessions, AT_ONCE):

        def work(writer: Writer, first: int = first) -> None:
            for number in range(first, min(first + AT_ONCE, sessions)):
                _write(writer, app.clock, number, newest - timedelta(minutes=number))

        await app.store.write(work)


def _write(writer: Writer, clock: Clock, number: int, at: datetime) -> None:
    session_id, turn = f"Bench-{compact(at)}-shift-{number}", f"req-{compact(at)}-go"
    model = ("claude-opus-4-5", "gpt-5.5")[number % 2]
    opened = {
        "agent": "Bench",
        "agent_id": f"agent-{number % AGENTS}",
        "title": f"Shift {number}: look after part {number % 97}",
        "model": model,
        "workspace": f"/srv/project-{number % 50}",
        "run": {"alias": writer.next_alias(), "model": model, "session_type": "interactive_desktop"},
    }
    pen = Pen(writer, session_id, None, clock)
    when = precise(at)
    pen.write(Kind.SESSION_OPENED, opened, at=when)
    pen.write(Kind.TURN_BEGUN, {"query_title": "Go", "query_text": "Go on", "model": model}, turn, at=when)
    edited = {"type": "edit", "description": "Look after it", "file_path": f"src/part_{number % 997}.py"}
    pen.write(Kind.ACTION, edited, turn, at=when)
    if number % 10 == 0:
        decided = {"role": "model", "category": "decision", "content": f"Part {number % 97} stays as it is"}
        pen.write(Kind.DIALOG, decided, turn, at=when)
    pen.write(Kind.USAGE, {"input_tokens": 1_000, "output_tokens": 200, "model": model}, turn, at=when)
    pen.write(Kind.TURN_COMPLETED, {"response": "Done"}, turn, at=when)
    pen.commit(writer)


async def fill_long(app: App, entries: int) -> str:
    """Record a session of about so many entries."""
    named = {
        "session_id": (await app.sessions.open_session({"agent": "Bench", "title": "Long"}, LIBRARY))["session_id"]
    }
    dialog = [{"role": "model", "category": "observation", "content": f"Step {number}"} for number in range(190)]
    for number in range(entries // 192):
        await app.sessions.begin_turn({**named, "query_title": f"Part {number}", "query_text": "Go on"}, LIBRARY)
        await app.sessions.update_turn({**named, "dialog": dialog}, LIBRARY)
        await app.sessions.finish_turn({**named, "outcome": "completed", "response": "Done"}, LIBRARY)
    return str(named["session_id"])


async def measured(home: Path, sessions: int) -> tuple[list[list[str]], list[list[str]], float]:
    """Fill a store and ask for each page several times."""
    async with open_app(home, {"SHIFTLOG_DURABILITY": "process"}) as app:
        start = time.perf_counter()
        await fill(app, sessions)
        long = await fill_long(app, ENTRIES)
        filled = time.perf_counter() - start
        served = Starlette(routes=page_routes(app, Door(TOKEN), Live(app=app)))
        headers = {"Authorization": f"Bearer {TOKEN}"}
        transport = httpx.ASGITransport(served)
        turn = (await app.store.read(lambda reader: reader.turns(long, limit=1)))[0].request_id
        async with httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1", headers=headers, timeout=120
        ) as client:
            pages: dict[str, tuple[str, int]] = {
                "first page": ("/", TIMES),
                "first page as JSON": ("/sessions.json", TIMES),
                "filtered by agent": ("/sessions?agent_id=agent-7", TIMES),
                "search": ("/sessions?q=shift", 5),
                "palette": ("/palette?q=part", 5),
                "projects": ("/projects", 5),
                "one project": ("/projects/project-7", 5),
                "one file": ("/files?project=project-7&path=src/part_7.py", 5),
                "decisions": ("/decisions", 5),
                f"a session of {ENTRIES:,} entries": (f"/sessions/{long}", TIMES),
                "its outline": (f"/sessions/{long}/outline?part=1", 5),
                "its first turn": (f"/sessions/{long}/turns/{turn}?part=1", TIMES),
                "search in it": (f"/sessions/{long}/find?q=step", 5),
                "its chain, verified": (f"/sessions/{long}/trust", 5),
                "usage of 30 days": ("/usage", 2),
            }
            rows = [[name, *await _asked(client, path, times)] for name, (path, times) in pages.items()]
    return rows, _weights(), filled


async def _asked(client: httpx.AsyncClient, path: str, times: int) -> list[str]:
    await client.get(path)
    spans: list[float] = []
    worked: list[float] = []
    size = 0
    for _ in range(times):
        start, start_cpu = time.perf_counter(), time.process_time()
        answer = await client.get(path)
        spans.append(time.perf_counter() - start)
        worked.append(time.process_time() - start_cpu)
        assert answer.status_code == 200, answer.text[:200]
        size = len(answer.content)
    figures = (percentile(spans, 0.5), percentile(spans, 0.95), percentile(worked, 0.5))
    return [*map(ms, figures), f"{size / 1024:.0f} KB"]


def _weights() -> list[list[str]]:
    """Return what a browser loads once: style, scripts and icon."""
    files = sorted((HERE / "static").iterdir())
    rows: list[list[Any]] = [[path.name, path.stat().st_size, len(gzip.compress(path.read_bytes()))] for path in files]
    rows.append(["all", sum(row[1] for row in rows), sum(row[2] for row in rows)])
    return [[name, f"{whole / 1024:.1f} KB", f"{packed / 1024:.1f} KB"] for name, whole, packed in rows]


def main(scratch: Path, sessions: int = SESSIONS) -> None:
    """Measure and print."""
    home = scratch / "home"
    home.mkdir(mode=0o700)
    rows, weights, filled = anyio.run(measured, home, sessions)
    title = f"The page on {sessions:,} sessions (filled in {filled:.0f} s), server time"
    print_table(title, ["address", "p50", "p95", "processor", "size"], rows)
    print_table("Weight of the page without content", ["file", "size", "gzipped"], weights)


if __name__ == "__main__":
    import sys
    import tempfile

    with tempfile.TemporaryDirectory(prefix="shiftlog-bench-") as folder:
        main(Path(folder), int(sys.argv[1]) if sys.argv[1:] else SESSIONS)
