"""Timing and printing: percentiles, ratios and plain tables."""

import subprocess
import sys
import time
from collections.abc import Callable, Sequence


def percentile(seconds: Sequence[float], part: float) -> float:
    """Return a percentile in milliseconds."""
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] * 1000


def timed(work: Callable[[], object], times: int) -> list[float]:
    """Run work several times and return how long each took."""
    spans: list[float] = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        spans.append(time.perf_counter() - start)
    return spans


def interpreter_starts(times: int = 20) -> list[float]:
    """Measure the floor of every program: an interpreter that does nothing."""
    command = [sys.executable, "-c", "pass"]
    return timed(lambda: subprocess.run(command, check=True), times)


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table in plain text."""
    lines = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    print(f"\n{title}")
    for number, line in enumerate(lines):
        cells = [
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        print("  " + "  ".join(cells).rstrip())
        if number == 0:
            print("  " + "  ".join("-" * width for width in widths))


def ms(value: float) -> str:
    """Show milliseconds."""
    return f"{value:.2f} ms" if value < 100 else f"{value:.0f} ms"


def ratio(value: float, floor: float) -> str:
    """Show how many times the floor a figure is."""
    return f"{value / floor:.2f}×" if floor else "–"
