"""The page in a real Chromium on a large store: first paint, opening a long session, scrolling it to its end.

The daemon serves, so that browser, server and this program are three processes as they are for a person. Wall times:
the figures mean something only on a quiet machine, so the load stands beside them.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import anyio
import httpx
from playwright.sync_api import Page, sync_playwright

from bench.page import ENTRIES, SESSIONS, fill, fill_long
from bench.tables import ms, percentile, print_table
from shiftlog.app.app import open_app
from shiftlog.link.client import stop_daemon
from shiftlog.model.caller import LIBRARY

SHIFTLOG = Path(sys.executable).with_name("shiftlog")
TIMES = 40
LOADS = 7
TURNS = 30_000
WIDTH, HEIGHT = 1440, 900
WHEEL_PX = 700
WHEEL_MS = 30
LONG_TASK_MS = 50
QUIET_MS = 3_000

# Keeps what the browser itself counts as a long task, and when the story was painted.
WATCH = """
window.longTasks = [];
new PerformanceObserver((list) => window.longTasks.push(...list.getEntries().map((one) => one.duration)))
  .observe({ type: "longtask", buffered: true });
const seen = () => {
  if (!document.querySelector("article.turn")) return requestAnimationFrame(seen);
  requestAnimationFrame(() => (window.storyMs = performance.now()));
};
requestAnimationFrame(seen);
"""
STORY = "window.storyMs ?? null"
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
AT_END = "scrollY + innerHeight >= document.documentElement.scrollHeight - 2 && !document.querySelector('a[data-next]')"


async def filled(home: Path, sessions: int) -> tuple[str, str]:
    """Fill a store; return the ids of a session of many entries and of one of many turns."""
    async with open_app(home, {"SHIFTLOG_DURABILITY": "process"}) as app:
        await fill(app, sessions)
        entries = await fill_long(app, ENTRIES)
        named = {
            "session_id": (await app.sessions.open_session({"agent": "Bench", "title": "Turns"}, LIBRARY))["session_id"]
        }
        for number in range(TURNS):
            await app.sessions.begin_turn({**named, "query_title": f"Part {number}", "query_text": "Go on"}, LIBRARY)
            outcome = {"outcome": "completed", "response": "Done"}
            if number % 1_000 == 0:
                outcome = {"outcome": "failed", "error_message": "Broken"}
            await app.sessions.finish_turn({**named, **outcome}, LIBRARY)
        return entries, str(named["session_id"])


def link(home: Path) -> str:
    """Start the daemon if it is not there, and return a link to its page."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), "SHIFTLOG_HOME": str(home)}
    done = subprocess.run([str(SHIFTLOG), "open", "--json"], env=environ, capture_output=True, text=True, check=True)
    return str(json.loads(done.stdout)["url"])


def answered(base: str, home: Path, path: str, times: int = TIMES) -> list[str]:
    """Ask for a page over one kept connection, as a browser does."""
    headers = {"Authorization": f"Bearer {(home / 'http.token').read_text().strip()}"}
    spans: list[float] = []
    with httpx.Client(base_url=base, headers=headers, timeout=120) as client:
        client.get(path)
        for _ in range(times):
            start = time.perf_counter()
            assert client.get(path).status_code == 200, path
            spans.append(time.perf_counter() - start)
    return [ms(percentile(spans, 0.5)), ms(percentile(spans, 0.95))]


def opened(page: Page, address: str, moment: str) -> list[str]:
    """Open a page several times; return how long after the click a moment came that the page itself noted."""
    found: list[float] = []
    for _ in range(LOADS + 1):
        page.goto(address)
        while (at := page.evaluate(moment)) is None:
            page.wait_for_timeout(5)
        found.append(float(at) / 1000)
        page.wait_for_timeout(QUIET_MS)  # the outline and the check of the chain come after the page; a person reads
    return [ms(percentile(found[1:], part)) for part in (0.5, 0.95)]


def scrolled(page: Page, address: str) -> list[str]:
    """Scroll a session to its end with the wheel; return the long tasks meanwhile."""
    page.goto(address)
    page.wait_for_timeout(2_000)  # what opening costs is measured by itself
    page.evaluate("window.longTasks.length = 0")
    page.mouse.move(WIDTH / 2, HEIGHT / 2)
    start, steps = time.perf_counter(), 0
    until = start + 180
    while not page.evaluate(AT_END) and time.perf_counter() < until:
        page.mouse.wheel(0, WHEEL_PX)
        page.wait_for_timeout(WHEEL_MS)
        steps += 1
    long = [float(one) for one in page.evaluate("window.longTasks")]
    worst = f"{max(long, default=0):.0f} ms"
    turns = int(page.evaluate("document.querySelectorAll('article.turn').length"))
    return [str(turns), str(steps), f"{time.perf_counter() - start:.0f} s", str(len(long)), worst]


def clicked(page: Page, address: str) -> str:
    """Click the strip of a session of many turns near its end; return how long the turn there takes to be painted."""
    page.goto(address)
    strip = page.locator(".strip").first
    box = strip.bounding_box()
    assert box is not None
    start = time.perf_counter()
    with page.expect_navigation(url="**turn=**"):
        page.mouse.click(box["x"] + box["width"] * 0.9, box["y"] + box["height"] / 2)
    while page.evaluate(STORY) is None:
        page.wait_for_timeout(5)
    return f"{(time.perf_counter() - start) * 1000:.0f} ms"


def main(scratch: Path, sessions: int = SESSIONS) -> None:
    """Measure and print."""
    home = scratch / "home"
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text("[http]\nport = 0\n")
    start = time.perf_counter()
    entries, turns = anyio.run(filled, home, sessions)
    print(f"filled in {time.perf_counter() - start:.0f} s")
    measure(home, sessions, entries, turns)


def measure(home: Path, sessions: int, entries: str, turns: str) -> None:
    """Ask the daemon and look with the browser."""
    first = link(home)
    base = first.partition("/open")[0]
    pages = {
        "first page": "/",
        f"session of {ENTRIES:,} entries": f"/sessions/{entries}",
        "its outline": f"/sessions/{entries}/outline?part=1",
        f"session of {TURNS:,} turns": f"/sessions/{turns}",
        "outline of these turns": f"/sessions/{turns}/outline?part=1",
        "usage of 30 days": "/usage",
    }
    try:
        with sync_playwright() as playwright:
            flags = ["--no-sandbox"] if os.geteuid() == 0 else []
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
            context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT})
            context.add_init_script(WATCH)
            page = context.new_page()
            page.goto(first)
            page.wait_for_url(f"{base}/")
            served = [[name, *answered(base, home, path)] for name, path in pages.items()]
            seen = [
                ["first page: first contentful paint", *opened(page, base + pages["first page"], PAINTED)],
                *[
                    [f"{name}: first turn painted", *opened(page, base + pages[name], STORY)]
                    for name in list(pages)[1:4:2]
                ],
                ["usage: first contentful paint", *opened(page, f"{base}/usage", PAINTED)],
            ]
            walked = [[name, *scrolled(page, base + pages[name])] for name in list(pages)[1:2]]
            click = clicked(page, base + list(pages.values())[3])
            browser.close()
    finally:
        stop_daemon(str(home))
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    print_table(
        f"The page on {sessions:,} sessions, wall time of an answer (load {load})", ["address", "p50", "p95"], served
    )
    print_table("In Chromium, from the click", ["moment", "p50", "p95"], seen)
    print_table(
        f"Scrolled to the end; tasks above {LONG_TASK_MS} ms",
        ["session", "turns", "steps", "time", "tasks", "longest"],
        walked,
    )
    print(f"\nClick on the strip of {TURNS:,} turns to the turn's paint: {click}")


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory(prefix="shiftlog-bench-") as folder:
        main(Path(folder), int(sys.argv[1]) if sys.argv[1:] else SESSIONS)
