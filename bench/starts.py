"""How fast things start: the bridge with a warm daemon, the daemon itself, beside a bare interpreter."""

import os
import subprocess
import time
from pathlib import Path

from bench.bridge_client import SHIFTLOG, BridgeClient
from bench.tables import interpreter_starts, ms, percentile, print_table, ratio

TIMES = 20


def main(scratch: Path) -> None:
    """Measure and print."""
    home = scratch / "starts"
    home.mkdir(mode=0o700)
    environ = {**os.environ, "SHIFTLOG_HOME": str(home)}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    floor = percentile(interpreter_starts(TIMES), 0.5)
    cold: list[float] = []
    for _ in range(5):
        with BridgeClient(home) as client:
            cold.append(client.initialize())
        subprocess.run([str(SHIFTLOG), "daemon", "stop"], env=environ, check=True, stdout=subprocess.DEVNULL)
    warm: list[float] = []
    weights: list[float] = []
    with BridgeClient(home) as keeper:
        keeper.initialize()
        for _ in range(TIMES):
            with BridgeClient(home) as client:
                warm.append(client.initialize())
                weights.append(client.rss_mb())
        status: list[float] = []
        for _ in range(5):
            start = time.perf_counter()
            subprocess.run([str(SHIFTLOG), "status"], env=environ, check=True, stdout=subprocess.DEVNULL)
            status.append(time.perf_counter() - start)
    subprocess.run([str(SHIFTLOG), "daemon", "stop"], env=environ, check=True, stdout=subprocess.DEVNULL)
    rows: list[list[str]] = [["python -c pass", ms(floor), "", "1.00×", ""]]
    for name, spans, weight in (
        ("bridge to initialize, warm daemon", warm, f"{max(weights):.1f} MB"),
        ("bridge to initialize, daemon started by it", cold, ""),
        ("shiftlog status", status, ""),
    ):
        middle = percentile(spans, 0.5)
        rows.append([name, ms(middle), ms(percentile(spans, 0.95)), ratio(middle, floor), weight])
    print_table("Starting", ["what", "p50", "p95", "÷ bare interpreter", "resident"], rows)
