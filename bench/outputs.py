"""How fast outputs are viewed, masked and spooled, how fast budgets read them again, and what memory that takes."""

import asyncio
import hashlib
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.tables import ms, percentile, print_table, timed
from shiftlog.guard.budgets.spec import read_budget
from shiftlog.guard.secrets.redactor import Redactor
from shiftlog.shell.outputs.command_output import CommandOutput
from shiftlog.shell.outputs.keeper import OutputKeeper

MEGABYTE = 1_000_000
CHUNK = 64 * 1024
LINES = 1_000_000
BUDGETS: list[tuple[str, dict[str, object]]] = [
    ("no budget, default cap", {}),
    ("tail 2", {"keep": {"mode": "tail", "n": 2}}),
    ("head and tail of 1,000", {"keep": {"mode": "head_tail", "head": 1000, "tail": 1000}}),
    ("grep of one line", {"grep": {"pattern": "^777777$"}}),
    ("grep of 1 line in 10", {"grep": {"pattern": "7$"}}),
    ("grep of every line", {"grep": {"pattern": "."}}),
    ("grep, context 3, tail 50", {"grep": {"pattern": "00$", "context": 3}, "keep": {"mode": "tail", "n": 50}}),
]


def main(scratch: Path, size: int = 200 * MEGABYTE) -> None:
    """Measure and print."""
    keeper = OutputKeeper(scratch / "outputs", Redactor())
    _print_speed(keeper, size)
    _print_reading(keeper)
    _print_latency(keeper)


def _print_speed(keeper: OutputKeeper, size: int) -> None:
    seq = b"".join(b"%d\n" % number for number in range(1, 100_001))
    log = b"2026-11-15T06:14:59.120Z INFO  worker-7 served GET /items/1834 in 12 ms\n"
    ansi = b"\x1b[32m  Compiling\x1b[0m serde v1.0.219 (/srv/app/vendor/serde)\n"
    texts = [
        ("y", b"y\n" * (CHUNK // 2)),
        ("numbers", seq),
        ("a service's log", log * 10_000),
        ("the same with umlauts", log.replace(b"served", "erfüllte".encode()) * 10_000),
        ("coloured build output", ansi * 10_000),
        ("carriage returns", b"frame  10\rframe  20\rframe  30\n" * 10_000),
        ("one endless line", b"x" * CHUNK),
        ("random bytes", hashlib.shake_256(b"bench").digest(4 * CHUNK)),
    ]
    rows = [("floor: digest and write", f"{size // MEGABYTE}", f"{_floor(size):.0f}", "–")]
    for number, (title, text) in enumerate(texts, start=1):
        portion = size if number < 4 else size // 5
        before = _peak_bytes()
        seconds, output = _spooled(keeper, f"bench-1_local#{number}", _chunks(text, portion))
        grown = (_peak_bytes() - before) / MEGABYTE
        rows.append(
            (title, f"{portion // MEGABYTE}", f"{output.raw_bytes / MEGABYTE / seconds:.0f}", f"{grown:.1f} MB")
        )
    print_table(
        "Outputs: bytes to spool (processor time)", ("what a command prints", "MB", "MB/s", "peak memory grew"), rows
    )


def _print_reading(keeper: OutputKeeper) -> None:
    seq = b"".join(b"%d\n" % number for number in range(1, LINES + 1))
    _spooled(keeper, "bench-2_local#1", _chunks(seq, len(seq)))
    rows: list[tuple[object, ...]] = []
    for title, value in BUDGETS:
        budget = read_budget(value)
        spans = timed(lambda budget=budget: keeper.reopen("bench-2_local#1").show(budget), 5)
        rows.append((title, ms(percentile(spans, 0.5))))
    spans = timed(lambda: keeper.reopen("bench-2_local#1").page(from_line=900_000), 20)
    rows.append(("a page from line 900,000", ms(percentile(spans, 0.5))))
    print_table("Outputs: 1,000,000 lines read again", ("budget", "p50"), rows)


def _print_latency(keeper: OutputKeeper) -> None:
    numbers = iter(range(1, 1_000_000))

    def run(text: bytes) -> Callable[[], object]:
        return lambda: _run_small(keeper, f"bench-3_local#{next(numbers)}", text)

    rows = [
        (title, ms(percentile(timed(run(text), 500), 0.5))) for title, text in (("nothing", b""), ("a line", b"hi\n"))
    ]
    print_table("Outputs: a small command from begin to result", ("prints", "p50"), rows)


def _run_small(keeper: OutputKeeper, command_id: str, text: bytes) -> None:
    output = keeper.begin(command_id)
    if text:
        output.write("stdout", text)
    output.finish()
    output.show()


def _spooled(keeper: OutputKeeper, command_id: str, chunks: Iterator[bytes]) -> tuple[float, CommandOutput]:
    return asyncio.run(_spool(keeper.begin(command_id), chunks))


async def _spool(output: CommandOutput, chunks: Iterator[bytes]) -> tuple[float, CommandOutput]:
    """Write as a shell does: no more is read while text waits to be masked."""
    start = time.process_time()
    for chunk in chunks:
        output.write("stdout", chunk)
        if output.is_behind:
            await output.catch_up()
    output.finish()
    return time.process_time() - start, output


def _chunks(text: bytes, size: int) -> Iterator[bytes]:
    pieces = [text[start : start + CHUNK] for start in range(0, len(text), CHUNK)]
    sent = 0
    while sent < size:
        for piece in pieces:
            yield piece
            sent += len(piece)


def _floor(size: int) -> float:
    digest = hashlib.sha256()
    start = time.process_time()
    with tempfile.TemporaryFile() as file:
        for chunk in _chunks(b"y\n" * (CHUNK // 2), size):
            digest.update(chunk)
            file.write(chunk)
    return size / MEGABYTE / (time.process_time() - start)


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    folder = Path(tempfile.mkdtemp(prefix="shiftlog-bench-"))
    try:
        main(folder)
    finally:
        shutil.rmtree(folder)
