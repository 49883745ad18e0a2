"""How long a verdict takes, how many spellings of a denied program get through, how many innocent commands do not."""

import statistics
import time
from collections.abc import Callable, Sequence

from bench.tables import print_table
from shiftlog.guard.policy.files import LocalFiles, NoFiles
from shiftlog.guard.policy.judge import Judge, Judgement
from shiftlog.guard.policy.operator import OperatorPolicy, read_policy, shell_rules
from tests.guard.policy.innocent import DENY, INNOCENT
from tests.guard.policy.marker import DENIED
from tests.guard.policy.spellings import SPELLINGS

ROUNDS = 20
KILOBYTE = 1024
MEGABYTE = 1 << 20
PLACE = "/opt/marker"


def main() -> None:
    """Measure and print."""
    _print_accuracy()
    _print_latency()
    _print_large()


def _print_accuracy() -> None:
    marked = shell_rules(OperatorPolicy(), deny=DENIED)
    sensible = shell_rules(read_policy({"deny": list(DENY)}, "bench"))
    local, remote = Judge(sensible, kernel=True, files=LocalFiles()), Judge(sensible, kernel=False, files=NoFiles())
    texts = [spelling.text.replace("@D@", PLACE).replace("@F@", f"{PLACE}/ran") for spelling in SPELLINGS]
    rows = [
        _share("spellings of a denied program: allowed, text alone", texts, Judge(marked, kernel=False), _passes),
        _share("innocent commands: refused, kernel on", INNOCENT, local, _fails),
        _share("innocent commands: refused, text alone", INNOCENT, remote, _fails),
    ]
    print_table("Policy verdicts", ("what", "commands", "counted", "share"), rows)


def _share(
    title: str, texts: Sequence[str], judge: Judge, counts: Callable[[Judgement], bool]
) -> tuple[str, int, int, str]:
    counted = sum(counts(judge.judge(text)) for text in texts)
    return title, len(texts), counted, f"{100 * counted / len(texts):.1f} %"


def _passes(judgement: Judgement) -> bool:
    return not judgement.violations


def _fails(judgement: Judgement) -> bool:
    return bool(judgement.violations or judgement.asks or judgement.syntax_error)


def _print_latency() -> None:
    short = [text for text in INNOCENT if len(text) < KILOBYTE]
    rules = shell_rules(read_policy({"deny": list(DENY)}, "bench"))
    rows = [
        _latency("no list, dangerous rules on", short, Judge(shell_rules(OperatorPolicy()), kernel=True)),
        _latency("deny list, kernel on", short, Judge(rules, kernel=True, files=LocalFiles())),
        _latency("deny list, text alone", short, Judge(rules, kernel=False, files=NoFiles())),
    ]
    print_table("Time of one verdict, commands under 1 KB (µs)", ("rules", "p50", "p95", "p99"), rows)


def _latency(title: str, texts: Sequence[str], judge: Judge) -> tuple[str, ...]:
    times: list[float] = []
    for text in [*texts] * ROUNDS:
        started = time.perf_counter()
        judge.judge(text)
        times.append((time.perf_counter() - started) * 1e6)
    cuts = statistics.quantiles(times, n=100)
    return title, *(f"{cuts[percent - 1]:.0f}" for percent in (50, 95, 99))


def _print_large() -> None:
    judge = Judge(shell_rules(read_policy({"deny": list(DENY)}, "bench")), kernel=False)
    texts = {
        "one quoted argument": ": '" + "x" * MEGABYTE + "'",
        "a here-document": "cat > f <<'E'\n" + "line of text\n" * (MEGABYTE // 13) + "E\n",
        "short commands": "echo a;" * (MEGABYTE // 7),
        "open parentheses": "(" * MEGABYTE,
    }
    rows: list[tuple[object, ...]] = []
    for title, text in texts.items():
        started = time.perf_counter()
        verdict = judge.judge(text).verdict
        rows.append((title, verdict, f"{(time.perf_counter() - started) * 1e3:.0f}"))
    print_table("One megabyte", ("text", "verdict", "ms"), rows)


if __name__ == "__main__":
    main()
