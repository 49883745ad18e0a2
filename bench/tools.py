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
from shiftlog.app.app import App, open_app
from shiftlog.model.caller import LIBRARY

CALLS = 800
# The first call after a change finds cold caches; as no multiple of the story's steps, it is each tool's turn.
TOGETHER = 11
SDK_NOOP, REGISTRY_NOOP = "(no-op tool of the SDK)", "(no-op tool in our registry)"
TEXT = "The upload test flakes because two workers clean the same temp directory; lock it."

Call = Callable[[str, dict[str, Any]], dict[str, Any]]
AsyncCall = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]


def story() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the calls of an agent's day, for ever; the sender fills in `session_id`."""
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
def noop_client(kind: str, home: Path) -> Generator[BridgeClient]:
    """Run a no-op daemon and a bridge to it for the time of a with block."""
    process = subprocess.Popen([sys.executable, "-m", "bench.noop_daemon", kind, "--home", str(home), "--foreground"])
    try:
        deadline = time.monotonic() + 30
        while not (home / "daemon.sock").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        with BridgeClient(home) as client:
            client.initialize()
            yield client
    finally:
        process.terminate()
        process.wait(timeout=30)


def through_bridge(home: Path, sdk_home: Path, registry_home: Path) -> Spans:
    """Time the tools as an agent's client sees them, a few calls at a time beside both no-op tools."""
    spans, session_id = Spans(), ""
    with (
        noop_client("sdk", sdk_home) as sdk,
        noop_client("registry", registry_home) as registry,
        BridgeClient(home) as client,
    ):
        client.initialize()
        for number, (tool, arguments) in enumerate(itertools.islice(story(), CALLS)):
            if number % TOGETHER == 0:
                _time_noops(spans, SDK_NOOP, sdk)
                _time_noops(spans, REGISTRY_NOOP, registry)
            start = time.perf_counter()
            answer = client.call(tool, _addressed(tool, arguments, session_id))
            spans.add(tool, time.perf_counter() - start)
            session_id = answer.get("session_id", session_id)
    return spans


def _time_noops(spans: Spans, name: str, client: BridgeClient) -> None:
    for _ in range(TOGETHER):
        start = time.perf_counter()
        client.call("noop", {"text": TEXT})
        spans.add(name, time.perf_counter() - start)


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
    homes = {name: scratch / name for name in ("in-process", "bridge", "sdk", "registry", "bare", "throughput")}
    for home in homes.values():
        home.mkdir(mode=0o700)
    bare = percentile(bare_inserts(homes["bare"]), 0.5)
    inside = anyio.run(in_process, homes["in-process"])
    bridged = through_bridge(homes["bridge"], homes["sdk"], homes["registry"])
    sdk, registry = (percentile(bridged.by_tool[name], 0.5) for name in (SDK_NOOP, REGISTRY_NOOP))
    stop = {"SHIFTLOG_HOME": str(homes["bridge"])}
    subprocess.run([str(SHIFTLOG), "daemon", "stop"], env=stop, check=True, stdout=subprocess.DEVNULL)
    rows: list[list[str]] = [["(bare insert)", ms(bare), "", "", "", "", ""]]
    for tool, spans in bridged.by_tool.items():
        local = inside.by_tool.get(tool)
        middle = percentile(spans, 0.5)
        rows.append(
            [
                tool,
                ms(percentile(local, 0.5)) if local else "",
                ms(percentile(local, 0.95)) if local else "",
                ms(middle),
                ms(percentile(spans, 0.95)),
                ratio(middle, sdk),
                ratio(middle, registry),
            ]
        )
    print_table(
        "Journal tools, durable (fsync) writes",
        ["tool", "in-process p50", "p95", "bridge p50", "p95", "÷ the SDK's no-op", "÷ ours"],
        rows,
    )
    rate = anyio.run(throughput, homes["throughput"])
    print(f"\n  32 writers at once, one dialog item a call: {rate:,.0f} durable calls/s")
