"""Many shells, many openings, much output: nothing mixed, nothing leaked, memory bounded."""

import asyncio
import os
import random
import resource
from pathlib import Path

import pytest
from anyio.abc import TaskGroup

from shiftlog.shell.engine.local import LocalTarget
from shiftlog.shell.engine.reaper import below, process_table
from shiftlog.shell.ports import CommandSpec, OutputSink, ShellSpec, Stream
from tests.shell.engine.probe import finish, run


class Counted(OutputSink):
    """Counts bytes instead of keeping them."""

    def __init__(self) -> None:
        self.size = 0
        self.largest = 0

    def write(self, stream: Stream, data: bytes) -> None:
        self.size += len(data)
        self.largest = max(self.largest, len(data))

    def close(self, stream: Stream) -> None:
        pass


def _held() -> tuple[int, int]:
    return len(list(Path("/proc/self/fd").iterdir())), len(below(os.getpid(), process_table()))


async def test_fifty_shells_at_once_do_not_mix(tasks: TaskGroup) -> None:
    shells = await asyncio.gather(*(LocalTarget().open(ShellSpec(cwd="/"), tasks) for _ in range(50)))
    chance = random.Random(7)

    async def work(number: int) -> None:
        shell = shells[number]
        await run(shell, f"ME={number}")
        for turn in range(8):
            await asyncio.sleep(chance.random() / 50)
            text = f"echo $ME-{turn}; echo e$ME-{turn} >&2; (exit {(number + turn) % 200})"
            end, sink = await run(shell, text, background=chance.random() < 0.3)
            assert (sink.out, sink.err) == (f"{number}-{turn}\n".encode(), f"e{number}-{turn}\n".encode())
            assert end.exit_code == (number + turn) % 200

    try:
        await asyncio.gather(*(work(number) for number in range(50)))
    finally:
        await asyncio.gather(*(shell.close() for shell in shells))


async def _cycle(times: int, runtime_dir: Path, tasks: TaskGroup) -> None:
    target = LocalTarget(runtime_dir=runtime_dir)
    for number in range(times):
        shell = await target.open(ShellSpec(cwd="/"), tasks)
        await run(shell, "sleep 60 & echo x")
        if number % 3 == 0:
            await run(shell, "exit 1")
        await shell.close()


async def test_opening_and_closing_leaks_nothing(tmp_path: Path, tasks: TaskGroup) -> None:
    await _cycle(2, tmp_path, tasks)
    before = _held()
    await _cycle(12, tmp_path, tasks)
    assert _held() == before
    assert list(tmp_path.iterdir()) == []


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_a_thousand_openings_leak_nothing(tmp_path: Path, tasks: TaskGroup) -> None:
    await _cycle(2, tmp_path, tasks)
    before = _held()
    await _cycle(1000, tmp_path, tasks)
    assert _held() == before
    assert list(tmp_path.iterdir()) == []


async def test_many_commands_leak_no_descriptor(tasks: TaskGroup) -> None:
    shell = await LocalTarget().open(ShellSpec(cwd="/"), tasks)
    try:
        await run(shell, "true")
        before = _held()
        for number in range(300):
            await run(shell, "sleep 0.001 &" if number % 10 == 0 else "true", data=b"x" if number % 7 == 0 else None)
        await run(shell, "wait; sleep 0.05")
        assert _held() == before
    finally:
        await shell.close()


async def test_huge_output_streams_in_small_pieces(tasks: TaskGroup) -> None:
    shell = await LocalTarget().open(ShellSpec(cwd="/"), tasks)
    try:
        await run(shell, "true")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        sink = Counted()
        command = await shell.start(CommandSpec(text="yes | head -c 300000000"), sink)
        assert (await finish(command)).exit_code == 0
        assert sink.size == 300_000_000
        assert sink.largest <= 256 * 1024
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 * 1024
    finally:
        await shell.close()
