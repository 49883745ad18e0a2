"""The shell engine beside a bare pipe-and-marker loop: one bash, one command, in the same run.

Run as `python -m bench.shell_engine`.
"""

import asyncio
import os
import resource
import subprocess
import time

from anyio import create_task_group
from anyio.abc import TaskGroup

from bench.tables import ms, percentile, print_table, ratio
from shiftlog.shell.engine.local import LocalTarget
from shiftlog.shell.ports import CommandSpec, OutputSink, ShellSpec, Stream

TIMES = 3000
OPENINGS = 20
MANY = 50
GIGABYTE = 1_000_000_000
BASH = ["bash", "--norc", "--noprofile"]


class Nothing(OutputSink):
    """Takes output and keeps its size."""

    def __init__(self) -> None:
        self.size = 0

    def write(self, stream: Stream, data: bytes) -> None:
        self.size += len(data)

    def close(self, stream: Stream) -> None:
        pass


def main() -> None:
    """Measure and print."""
    asyncio.run(_main())


async def _main() -> None:
    async with create_task_group() as tasks:
        await _print_latency(tasks)
        await _print_openings(tasks)
        await _print_volume(tasks)


async def _print_latency(tasks: TaskGroup) -> None:
    # The three take turns, so that a busy machine slows them alike.
    bare, floor, engine = list[float](), list[float](), list[float]()
    plain = subprocess.Popen(BASH, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: ASYNC220 - the floor blocks
    piped = await asyncio.create_subprocess_exec(*BASH, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    shell = await LocalTarget().open(ShellSpec(cwd="/"), tasks)
    assert plain.stdin is not None
    assert plain.stdout is not None
    assert piped.stdin is not None
    assert piped.stdout is not None
    command, sink = CommandSpec(text="true"), Nothing()
    for _ in range(TIMES):
        begun = time.perf_counter()
        os.write(plain.stdin.fileno(), b"true\necho done $?\n")
        os.read(plain.stdout.fileno(), 100)
        bare.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        piped.stdin.write(b"true\necho done $?\n")
        await piped.stdout.readuntil(b"\n")
        floor.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        running = await shell.start(command, sink)
        await running.ended
        running.recorded()
        engine.append(time.perf_counter() - begun)
    await shell.close()
    piped.stdin.close()
    await piped.wait()
    plain.communicate()
    rows = [
        (
            name,
            ms(percentile(spans, 0.5)),
            ms(percentile(spans, 0.95)),
            ratio(percentile(spans, 0.5), percentile(floor, 0.5)),
        )
        for name, spans in (
            ("bare loop, blocking", bare),
            ("bare loop on asyncio (the floor)", floor),
            ("engine", engine),
        )
    ]
    print_table("`true`", ("shell", "p50", "p95", "to the floor"), rows)


async def _print_openings(tasks: TaskGroup) -> None:
    spans = list[float]()
    for _ in range(OPENINGS):
        begun = time.perf_counter()
        shell = await LocalTarget().open(ShellSpec(cwd="/"), tasks)
        spans.append(time.perf_counter() - begun)
        await shell.close()
    begun = time.perf_counter()
    shells = await asyncio.gather(*(LocalTarget().open(ShellSpec(cwd="/"), tasks) for _ in range(MANY)))
    opened = time.perf_counter() - begun
    begun = time.perf_counter()
    started = await asyncio.gather(*(shell.start(CommandSpec(text="true"), Nothing()) for shell in shells))
    await asyncio.gather(*(command.ended for command in started))
    ran = time.perf_counter() - begun
    await asyncio.gather(*(shell.close() for shell in shells))
    rows = [
        ("open one shell, p50", ms(percentile(spans, 0.5))),
        (f"open {MANY} shells at once", ms(opened * 1000)),
        (f"run `true` in {MANY} shells at once", ms(ran * 1000)),
    ]
    print_table("Openings", ("what", "time"), rows)


async def _print_volume(tasks: TaskGroup) -> None:
    begun = time.perf_counter()
    subprocess.run("yes | head -c 1000000000 | cat >/dev/null", shell=True, check=True)  # noqa: ASYNC221 - alone
    floor = (time.perf_counter() - begun) * 1000
    shell = await LocalTarget().open(ShellSpec(cwd="/"), tasks)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sink = Nothing()
    begun = time.perf_counter()
    await (await shell.start(CommandSpec(text=f"yes | head -c {GIGABYTE}"), sink)).ended
    took = (time.perf_counter() - begun) * 1000
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    await shell.close()
    rows = [("through a pipe to cat", ms(floor), "–"), ("engine", ms(took), f"{grown / 1024:.1f} MB")]
    print_table(f"1 GB of output ({sink.size} bytes taken)", ("way", "time", "memory grown"), rows)


if __name__ == "__main__":
    main()
