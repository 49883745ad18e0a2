"""The journal tools, one by one: in-process and through the bridge, beside a no-op tool and a bare insert."""

import itertools
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import apsw

from bench.bridge_client import SHIFTLOG, BridgeClient
from bench.tables import ms, percentile, print_table, ratio
from shiftlog.app import App, open_app
from shiftlog.model.caller import LIBRARY

CALLS = 800
# The first call after a change finds cold caches; as no multiple of the story's steps, it is each tool's turn.
TOGETHER = 11
TEXT = "The upload test flakes because two workers clean the same temp directory; lock it."

Call = Callable[[str, dict[str, Any]], dict[str, Any]]
AsyncCall = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]


def story() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the calls of an agent's day, for ever; `session_id` is filled in by whoever sends them."""
    for number in itertools.count():
        yield "open_session", {"agent": "Bench", "title": f"Shift {number}"}
        for _ in range(4):
            yield "begin_turn", {"query_title": "Fix the flake", "query_text": TEXT}
            for category in ("reasoning", "decision", "observation"):
                item = {"role": "model", "category": category, "content": TEXT}
                yield "update_turn", {"dialog": [item], "tags": [category]}
            yield "finish_turn", {"outcome": "completed", "response": TEXT}
        yield "query_history", {}
        yield "close_session", {"reason": "done"}
        yield "resume_session", {"agent_id": "Bench"}
        yield "close_session", {"reason": "done"}


class Spans:
    """How long each tool took, call by call."""

    def __init__(self) -> None:
        self.by_tool: dict[str, list[float]] = {}

    def add(self, tool: str, seconds: float) -> None:
        self.by_tool.setdefault(tool, []).append(seconds)


def _addressed(tool: str, arguments: dict[str, Any], session_id: str) -> dict[str, Any]:
    return arguments if tool in ("open_session", "resume_session") else {"session_id": session_id, **arguments}


async def in_process(home: Path) -> Spans:
    """Time the services without any transport."""
    async with open_app(home, {}) as app:
        services = _services(app)
        spans, session_id = Spans(), ""
        for tool, arguments in itertools.islice(story(), CALLS):
            start = time.perf_counter()
            answer = await services[tool](_addressed(tool, arguments, session_id), LIBRARY)
            spans.add(tool, time.perf_counter() - start)
            session_id = answer.get("session_id", session_id)
        return spans


def _services(app: App) -> dict[str, Any]:
    return {
        "open_session": app.sessions.open_session,
        "begin_turn": app.sessions.begin_turn,
        "update_turn": app.sessions.update_turn,
        "finish_turn": app.sessions.finish_turn,
        "close_session": app.continuity.close_session,
        "resume_session": app.continuity.resume_session,
        "query_history": app.history.query_history,
    }


@contextmanager
def noop_daemon(home: Path) -> Generator[None]:
    """Run the no-op daemon for the time of a with block."""
    process = subprocess.Popen([sys.executable, "-m", "bench.noop_daemon", "--home", str(home), "--foreground"])
    try:
        deadline = time.monotonic() + 30
        while not (home / "daemon.sock").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        yield
    finally:
        process.terminate()
        process.wait(timeout=30)


def through_bridge(home: Path, noop_home: Path) -> tuple[Spans, list[float]]:
    """Time the tools as an agent's client sees them, a few calls at a time beside the no-op tool."""
    spans, noop, session_id = Spans(), list[float](), ""
    with noop_daemon(noop_home), BridgeClient(noop_home) as floor, BridgeClient(home) as client:
        floor.initialize()
        client.initialize()
        for number, (tool, arguments) in enumerate(itertools.islice(story(), CALLS)):
            if number % TOGETHER == 0:
                noop += _timed_noops(floor)
            start = time.perf_counter()
            answer = client.call(tool, _addressed(tool, arguments, session_id))
            spans.add(tool, time.perf_counter() - start)
            session_id = answer.get("session_id", session_id)
    return spans, noop


def _timed_noops(client: BridgeClient) -> list[float]:
    spans: list[float] = []
    for _ in range(TOGETHER):
        start = time.perf_counter()
        client.call("noop", {"text": TEXT})
        spans.append(time.perf_counter() - start)
    return spans


def bare_inserts(home: Path) -> list[float]:
    """Time one row in one durable transaction, the floor of any journal on SQLite."""
    database = apsw.Connection(str(home / "bare.db"))
    database.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, body TEXT)")
    spans: list[float] = []
    for _ in range(CALLS):
        start = time.perf_counter()
        database.execute("INSERT INTO t (body) VALUES (?)", (TEXT,))
        spans.append(time.perf_counter() - start)
    database.close()
    return spans


async def throughput(home: Path, writers: int = 32, calls: int = 50) -> float:
    """Return entries per second with many writers at once, in-process, durable."""
    async with open_app(home, {}) as app:
        opened = await app.sessions.open_session({"agent": "Bench", "title": "Throughput"}, LIBRARY)
        named = {"session_id": opened["session_id"]}
        await app.sessions.begin_turn({**named, "query_title": "t", "query_text": "t"}, LIBRARY)

        async def write() -> None:
            for _ in range(calls):
                item = {"role": "model", "category": "reasoning", "content": TEXT}
                await app.sessions.update_turn({**named, "dialog": [item]}, LIBRARY)

        start = time.perf_counter()
        async with anyio.create_task_group() as group:
            for _ in range(writers):
                group.start_soon(write)
        return writers * calls / (time.perf_counter() - start)


def main(scratch: Path) -> None:
    """Measure and print."""
    homes = {name: scratch / name for name in ("in-process", "bridge", "noop", "bare", "throughput")}
    for home in homes.values():
        home.mkdir(mode=0o700)
    bare = percentile(bare_inserts(homes["bare"]), 0.5)
    inside = anyio.run(in_process, homes["in-process"])
    bridged, noop = through_bridge(homes["bridge"], homes["noop"])
    floor = percentile(noop, 0.5)
    stop = {"SHIFTLOG_HOME": str(homes["bridge"])}
    subprocess.run([str(SHIFTLOG), "daemon", "stop"], env=stop, check=True, stdout=subprocess.DEVNULL)
    rows: list[list[str]] = [
        ["(no-op tool)", "", "", ms(floor), ms(percentile(noop, 0.95)), "1.00×"],
        ["(bare insert)", ms(bare), "", "", "", ""],
    ]
    for tool, spans in bridged.by_tool.items():
        local = inside.by_tool[tool]
        rows.append(
            [
                tool,
                ms(percentile(local, 0.5)),
                ms(percentile(local, 0.95)),
                ms(percentile(spans, 0.5)),
                ms(percentile(spans, 0.95)),
                ratio(percentile(spans, 0.5), floor),
            ]
        )
    print_table(
        "Journal tools, durable (fsync) writes",
        ["tool", "in-process p50", "p95", "bridge p50", "p95", "bridge ÷ no-op"],
        rows,
    )
    rate = anyio.run(throughput, homes["throughput"])
    print(f"\n  32 writers at once, one dialog item a call: {rate:,.0f} durable calls/s")
