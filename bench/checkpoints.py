"""What a checkpoint costs beside `git status` of the same tree and beside a plain shadow `git add -A` + commit.

All of it in one run and in turns, so that a busy machine slows every side alike; the figures are medians.
"""

import asyncio
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from pathlib import Path

from shiftlog.workspace.checkpoints import Checkpoints, Workspace
from shiftlog.workspace.ports import Location, Record
from shiftlog.workspace.runner import LocalRunner

FILES = 20_000
SMALL = 1_000
ROUNDS = 11
# Files that were just written are read again by the next look; this is how old they must be to be trusted.
SETTLE_S = 4
IDENTITY = ("-c", "user.name=b", "-c", "user.email=b@b", "-c", "gc.auto=0")


class ListLog:
    """Records in memory: what is measured is the workspace, not the journal."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    async def append(self, location: Location, record: Record) -> None:
        self.records.append(record)

    async def read(self, location: Location) -> Sequence[Record]:
        return self.records

    async def turn_began(self, location: Location, request_id: str, session_id: str | None) -> datetime | None:
        return None

    async def command_began(self, location: Location, command_id: str) -> datetime | None:
        return None


def main(scratch: Path | None = None) -> None:
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        asyncio.run(_measure(Path(folder)))


async def _measure(root: Path) -> None:
    work = make_tree(root / "work", FILES)
    small = make_tree(root / "small", SMALL)
    await asyncio.sleep(SETTLE_S)
    figures: dict[str, list[float]] = {}

    async def timed(name: str, step: Callable[[], Awaitable[object]]) -> None:
        begun = time.perf_counter()
        await step()
        figures.setdefault(name, []).append((time.perf_counter() - begun) * 1000)

    async def status(beside: str) -> None:
        await timed(f"status {beside}", lambda: asyncio.to_thread(run_git, work, "status", "--porcelain"))

    for number in range(5):
        await status("first")
        service, workspace = await open_workspace(work, root / f"first-{number}")
        await timed("first", lambda: service.save(workspace, kind="open"))  # noqa: B023
    plain = root / "plain"
    await timed("plain first", lambda: asyncio.to_thread(save_plainly, work, plain))
    service, workspace = await open_workspace(work, root / "state")
    await service.save(workspace, kind="open")
    await timed("copy", lambda: service.copy_borrowed(workspace))
    for _ in range(ROUNDS):
        await status("unchanged")
        await timed("unchanged", lambda: service.save(workspace, kind="auto"))
        await timed("plain unchanged", lambda: asyncio.to_thread(save_plainly, work, plain))
    for number in range(ROUNDS):
        edit_ten(work, number)
        await status("10 changed")
        await timed("10 changed", lambda: service.save(workspace, kind="auto"))
        await timed("plain 10 changed", lambda: asyncio.to_thread(save_plainly, work, plain))
    service, workspace = await open_workspace(small, root / "small-state")
    await service.save(workspace, kind="open")
    for _ in range(51):
        await timed("1,000 unchanged", lambda: service.save(workspace, kind="auto"))
    _print(figures)


def _print(figures: dict[str, list[float]]) -> None:
    limits = {"unchanged": 1.2, "10 changed": 2.0, "first": 3.0}
    print(
        f"\ncheckpoints of {FILES:,} files, medians in ms; each beside git status of the same tree in the same minute"
    )
    for name, most in limits.items():
        ours, status, plain = (statistics.median(figures[kind]) for kind in (name, f"status {name}", f"plain {name}"))
        print(
            f"  {name:<12} {ours:8.1f}   git status {status:7.1f}   ratio {ours / status:5.2f} (at most {most})"
            f"   plain shadow add+commit {plain:8.1f}"
        )
    print(f"  copy         {figures['copy'][0]:8.1f}  once, in the background")
    print(f"  1,000 files unchanged: p50 {statistics.median(figures['1,000 unchanged']):.1f} ms (at most 25)")


async def open_workspace(work: Path, state: Path) -> tuple[Checkpoints, Workspace]:
    """Return a fresh service and its workspace, with the shadow repository made."""
    service = Checkpoints(ListLog(), data=str(state))
    return service, await service.open(LocalRunner(), str(work))


def make_tree(work: Path, count: int) -> Path:
    """Make a repository of Python-like files, committed and packed as a clone would be."""
    for number in range(count):
        folder = work / f"package{number % 100:02d}" / f"module{number % 7}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"file{number}.py").write_text(f"def answer_{number}():\n    return {number}\n" * 20)
    (work / ".gitignore").write_text("*.pyc\n/out/\n")
    run_git(work, "init", "-q")
    run_git(work, "add", "-A")
    run_git(work, *IDENTITY, "commit", "-qm", "x")
    run_git(work, "repack", "-adq")
    return work


def edit_ten(work: Path, round_number: int) -> None:
    """Change ten files of a tree."""
    for number in range(10):
        with (work / f"package{number:02d}" / f"module{number % 7}" / f"file{number}.py").open("a") as out:
            out.write(f"# {round_number}\n")


def save_plainly(work: Path, shadow: Path) -> None:
    """Do what simple tools do: add everything to a shadow repository and commit."""
    env = {"GIT_DIR": str(shadow), "GIT_WORK_TREE": str(work)}
    if not shadow.exists():
        run_git(work, "init", "-q", env=env)
    run_git(work, "add", "-A", env=env)
    run_git(work, *IDENTITY, "commit", "-q", "--allow-empty", "-m", "x", env=env)


def run_git(work: Path, *arguments: str, env: dict[str, str] | None = None) -> None:
    """Run git in a tree and wait for its end."""
    subprocess.run(["git", *arguments], cwd=work, check=True, capture_output=True, env={**os.environ, **(env or {})})


if __name__ == "__main__":
    main()
