"""The race of the shells: `true`, a million lines, opening, memory, fifty at once; all contestants take turns."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from bench.peers.contestants import NO_BUDGET, NO_SHELL, SHIFTLOG, Contestant, Entrant, entrants
from bench.peers.installs import install, version
from bench.peers.talks import Failed
from bench.tables import ms, percentile, print_table

# A tool has so many calls in a row before the next one has its turn; the first of them find cold caches.
IN_A_ROW = 25
COLD = 5
AGAIN = 5
MANY = 50
SEQ_TIMES = 5
SLOW_S = 15.0
HEADER = [
    "shell",
    "p50",
    "p95",
    "÷ floor",
    "÷ execkit-mcp",
    "first five",
    "÷ execkit-mcp",
    "start + open",
    "open",
    "memory a shell",
    "50 at once",
]
PEER = "execkit-mcp"
FLOOR = "floor, pipe and marker"


class Figures:
    """What was measured of one contestant, and what could not be, with the reason."""

    def __init__(self, entrant: Entrant) -> None:
        self.name = entrant.name
        self.spans: dict[str, list[float]] = {}
        self.reasons: dict[str, str] = {}
        self.memory_mb: float | None = None

    def take(self, what: str, measure: Callable[[], float | list[float]]) -> bool:
        """Measure, or keep the reason why not."""
        if what in self.reasons:
            return False
        try:
            value = measure()
        except (Failed, OSError) as error:
            self.reasons[what] = str(error)
            return False
        self.spans.setdefault(what, []).extend(value if isinstance(value, list) else [value])
        return True

    def at(self, what: str, part: float = 0.5) -> float | None:
        """Return a percentile in milliseconds, where there is one."""
        return percentile(self.spans[what], part) if self.spans.get(what) else None

    def shown(self, what: str, part: float = 0.5) -> str:
        value = self.at(what, part)
        if value is None:
            return reason if (reason := self.reasons.get(what)) in (NO_BUDGET, NO_SHELL) else "–"
        return ms(value)


def main(scratch: Path, rounds: int, only: str = "") -> None:
    """Measure and print; with `only` no other peer takes part."""
    racing: list[tuple[Figures, Contestant]] = []
    everyone: list[Figures] = []
    for entrant in entrants(scratch):
        if entrant.peer is not None and only not in entrant.name:
            continue
        figures = Figures(entrant)
        everyone.append(figures)
        if entrant.peer is not None:
            reason = install(entrant.peer)
            if reason:
                figures.reasons["start"] = reason
                continue
            figures.name = figures.name.replace(entrant.peer.name, f"{entrant.peer.name} {version(entrant.peer)}")
        contestant = entrant.build()
        if figures.take("start", lambda: _seconds(contestant.start)):  # noqa: B023 - called at once
            racing.append((figures, contestant))
            if entrant.name.startswith("ours, bridge"):
                _start_again(figures, entrant)
        else:
            contestant.stop()
    try:
        _race(racing, rounds)
        _crowd(racing)
    finally:
        for _, contestant in racing:
            contestant.stop()
        _stop_daemons(scratch)
    _print(everyone)


def _start_again(figures: Figures, entrant: Entrant) -> None:
    """Start a second client beside the first: the usual case, in which the daemon is there."""
    for _ in range(AGAIN):
        second = entrant.build()
        figures.take("start warm", lambda: _seconds(second.start))  # noqa: B023
        second.leave()


def _race(racing: list[tuple[Figures, Contestant]], rounds: int) -> None:
    for _, contestant in racing:
        _try(lambda: contestant.trues(COLD))  # noqa: B023 - the first calls pay for what later ones find
    for _ in range(rounds):
        for figures, contestant in racing:
            if figures.take("true", lambda: contestant.trues(IN_A_ROW)):  # noqa: B023
                figures.spans.setdefault("true cold", []).extend(figures.spans["true"][-IN_A_ROW:][:COLD])
    for what, budget in (("seq tail", True), ("seq", False)):
        for number in range(SEQ_TIMES):
            for figures, contestant in racing:
                if number == 0 or (figures.at(what) or 0) < SLOW_S * 1000:
                    figures.take(what, lambda: contestant.seq(budget=budget))  # noqa: B023


def _crowd(racing: list[tuple[Figures, Contestant]]) -> None:
    """Open shells one by one, then fifty more at once; the memory of those is what a shell costs."""
    for figures, contestant in racing:
        for _ in range(AGAIN):
            figures.take("open", lambda: contestant.open(1))  # noqa: B023
        before = contestant.memory()
        if figures.take("open many", lambda: contestant.open(MANY)):  # noqa: B023
            figures.memory_mb = (contestant.memory() - before) / MANY / 1e6
        elif figures.reasons["open many"] != NO_SHELL:
            continue
        for _ in range(3):
            figures.take("all", contestant.trues_at_once)


def _seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _try(work: Callable[[], object]) -> None:
    try:
        work()
    except (Failed, OSError):
        pass  # the measurement that follows meets the same and keeps the reason


def _stop_daemons(scratch: Path) -> None:
    for home in scratch.glob("ours*/state"):
        environ = {"SHIFTLOG_HOME": str(home)}
        subprocess.run([SHIFTLOG, "daemon", "stop"], env=environ, capture_output=True, check=False, timeout=60)


def _print(everyone: list[Figures]) -> None:
    floor = next((figures.at("true") for figures in everyone if figures.name == FLOOR), None)
    peers = [figures for figures in everyone if figures.name.startswith(PEER)]
    peer, cold_peer = (peers[0].at(what) if peers else None for what in ("true", "true cold"))
    rows: list[list[str]] = []
    for figures in everyone:
        own, cold = figures.at("true"), figures.at("true cold")
        memory = "–" if figures.memory_mb is None else f"{figures.memory_mb:.1f} MB"
        rows.append(
            [
                figures.name,
                figures.shown("true"),
                figures.shown("true", 0.95),
                f"{own / floor:.1f}×" if own and floor else "–",
                f"{own / peer:.3f}×" if own and peer else "–",
                figures.shown("true cold"),
                f"{cold / cold_peer:.3f}×" if cold and cold_peer else "–",
                figures.shown("start"),
                figures.shown("open"),
                memory,
                f"{figures.shown('open many')} + {figures.shown('all')}",
            ]
        )
    count = max((len(figures.spans.get("true", [])) for figures in everyone), default=0)
    title = f"`true`, {count} times each in turns of {IN_A_ROW}; 50 more shells opened at once + `true` in all"
    print_table(title, HEADER, rows)
    _print_volume(everyone, peers)
    reasons = [
        (figures.name, what, reason)
        for figures in everyone
        for what, reason in figures.reasons.items()
        if reason not in (NO_BUDGET, NO_SHELL)
    ]
    if reasons:
        print_table("No figure, and why", ["shell", "what", "reason"], reasons)
    _print_bounds(everyone, peers)


def _print_volume(everyone: list[Figures], peers: list[Figures]) -> None:
    rows: list[list[str]] = []
    for figures in everyone:
        cells = [figures.name]
        for what in ("seq tail", "seq"):
            own, other = figures.at(what), peers[0].at(what) if peers else None
            cells += [figures.shown(what), f"{own / other:.3f}×" if own and other else "–"]
        rows.append(cells)
    header = ["1,000,000 lines", "budget: last 50", "÷ execkit-mcp", "as it comes", "÷ execkit-mcp"]
    print_table("`seq 1 1000000`, medians", header, rows)


def _print_bounds(everyone: list[Figures], peers: list[Figures]) -> None:
    for figures in everyone:
        if figures.name.startswith("ours, bridge") and peers:
            for what, bound in (("true", 1 / 6), ("seq tail", 1 / 3)):
                own, other = figures.at(what), peers[0].at(what)
                if own and other:
                    word = "holds" if own / other <= bound else "MISSED"
                    print(f"  {figures.name}: {what} {own / other:.3f} of execkit-mcp (at most {bound:.3f}): {word}")
        if "start warm" in figures.spans:
            print(f"  {figures.name}: start + open {figures.shown('start warm')} where the daemon runs already")
    engine = next((figures.at("true") for figures in everyone if figures.name == "ours, engine"), None)
    floor = next((figures.at("true") for figures in everyone if figures.name == FLOOR), None)
    if engine and floor:
        print(f"  engine: {engine / floor:.2f}× the floor (at most 3): {'holds' if engine <= 3 * floor else 'MISSED'}")
