"""Checkpoints of a large tree: ours, stepback's, a plain shadow `git add -A` + commit, and `git status`, in turns.

stepback works in a twin of the tree, because it keeps its objects in the user's own repository.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from bench import checkpoints as own
from bench.peers.installs import STEPBACK, install, version
from bench.peers.talks import TIMEOUT_S, Failed, Talk
from bench.tables import ms, percentile, print_table

ROUNDS = 7
FIRSTS = 3
BOUNDS = {"unchanged": 1.2, "10 files changed": 2.0, "first": 3.0}
DRIVER = Path(__file__).with_name("drivers") / "stepback_engine.py"


class Stepback:
    """stepback in a process of its own, or the reason why not."""

    def __init__(self, root: Path, twin: Path) -> None:
        self.reason = install(STEPBACK)
        self.name = "stepback"
        self._talk: Talk | None = None
        if self.reason is None:
            self.name = f"stepback {version(STEPBACK)}"
            command = [str(STEPBACK.program("python")), str(DRIVER), str(twin)]
            self._talk = Talk("stepback", command, STEPBACK.environ(), root)

    def save(self, *, changed: bool) -> float | None:
        """Take a checkpoint and return the seconds it took inside; nothing once it has failed."""
        if self.reason is not None or self._talk is None:
            return None
        try:
            self._talk.send({})
            answer = self._talk.receive(time.perf_counter() + TIMEOUT_S)
            if "failed" in answer:
                raise Failed(answer["failed"])
            if answer["saved"] is not changed:
                raise Failed(f"wrong: saved is {answer['saved']} where files changed is {changed}")
        except (Failed, OSError) as error:
            self.reason = str(error)
            return None
        return answer["seconds"]

    def stop(self) -> None:
        if self._talk is not None:
            self._talk.stop()


class Figures:
    """Spans by job and way."""

    def __init__(self) -> None:
        self._spans: dict[tuple[str, str], list[float]] = {}

    def add(self, job: str, way: str, seconds: float | None) -> None:
        if seconds is not None:
            self._spans.setdefault((job, way), []).append(seconds)

    async def timed(self, job: str, way: str, step: Callable[[], Awaitable[object]]) -> None:
        begun = time.perf_counter()
        await step()
        self.add(job, way, time.perf_counter() - begun)

    def at(self, job: str, way: str) -> float | None:
        spans = self._spans.get((job, way))
        return percentile(spans, 0.5) if spans else None


def main(scratch: Path, files: int) -> None:
    """Measure and print."""
    root = scratch / "checkpoints"
    root.mkdir()
    asyncio.run(_measure(root, files))


async def _measure(root: Path, files: int) -> None:
    work, twin = own.make_tree(root / "work", files), own.make_tree(root / "twin", files)
    stepback = Stepback(root, twin)
    figures = Figures()
    await asyncio.sleep(own.SETTLE_S)

    async def status(job: str) -> None:
        await figures.timed(job, "status", lambda: asyncio.to_thread(own.run_git, work, "status", "--porcelain"))

    async def plain(job: str) -> None:
        await figures.timed(job, "plain", lambda: asyncio.to_thread(own.save_plainly, work, root / "plain"))

    try:
        for number in range(FIRSTS):
            await status("first")
            service, workspace = await own.open_workspace(work, root / f"first-{number}")
            await figures.timed("first", "ours", lambda: service.save(workspace, kind="open"))  # noqa: B023
        figures.add("first", "stepback", stepback.save(changed=True))
        await plain("first")
        service, workspace = await own.open_workspace(work, root / "state")
        await service.save(workspace, kind="open")
        await service.copy_borrowed(workspace)
        for _ in range(ROUNDS):
            await status("unchanged")
            await figures.timed("unchanged", "ours", lambda: service.save(workspace, kind="auto"))
            figures.add("unchanged", "stepback", stepback.save(changed=False))
            await plain("unchanged")
        for number in range(ROUNDS):
            own.edit_ten(work, number)
            own.edit_ten(twin, number)
            await status("10 files changed")
            await figures.timed("10 files changed", "ours", lambda: service.save(workspace, kind="auto"))
            figures.add("10 files changed", "stepback", stepback.save(changed=True))
            await plain("10 files changed")
    finally:
        stepback.stop()
    _print(figures, stepback, files)


def _print(figures: Figures, stepback: Stepback, files: int) -> None:
    rows: list[list[str]] = []
    for job, bound in BOUNDS.items():
        ours, floor = figures.at(job, "ours"), figures.at(job, "status")
        assert ours is not None
        assert floor is not None
        row = [job, ms(floor), ms(ours), f"{ours / floor:.2f}×", f"≤ {bound}×: {_word(ours / floor <= bound)}"]
        for way in ("stepback", "plain"):
            other = figures.at(job, way)
            row += ["–", "–"] if other is None else [ms(other), f"{other / floor:.2f}×"]
        rows.append(row)
    header = [
        "job",
        "git status",
        "ours",
        "÷ status",
        "wanted",
        stepback.name,
        "÷ status",
        "add -A + commit",
        "÷ status",
    ]
    print_table(f"Checkpoints of {files:,} files, medians in turns", header, rows)
    if stepback.reason:
        print(f"  {stepback.name}: {stepback.reason}")


def _word(holds: bool) -> str:
    return "holds" if holds else "MISSED"
