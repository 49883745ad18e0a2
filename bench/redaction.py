"""How well redaction tells secrets from look-alikes, and how fast, beside bare passes over the same bytes.

The generated samples differ on every run; `SEED=…` repeats one. Failures of contexts that were looked at are printed,
those of held-out contexts are only counted.
"""

import os
import random
import re
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path

from bench.tables import print_table
from shiftlog.guard.secrets.redactor import Redactor
from tests.guard.secrets.chunks import ChunkRedactor
from tests.guard.secrets.corpus import CASES, Case, draw_cases, score
from tests.guard.secrets.generated.drawing import CONTEXTS, Tally, draw_samples, tally

REDRAWS = range(100, 120)
SAMPLES = 60_000
FAILURES_SHOWN = 12
ADVERSARIAL = (
    "Cookie: ",
    "password=",
    "token,a\n",
    "curl -u a:",
    "://a:",
    "-----BEGIN RSA PRIVATE KEY-----\n",
    "ghp_a\n",
)
MEGABYTE = 1_000_000
PROSE = "The run went on for another hour; nothing in the output of the build looked out of place.\n"
SHORT = "Ran the unit tests of the parser, fixed two of them and pushed the branch for review."
SHORT_WITH_SECRET = "Ran the deployment with password: hunter2hunter2 and it went through."


def main() -> None:
    """Measure and print."""
    redactor = Redactor()
    _print_accuracy(redactor)
    _print_generated(redactor, int(os.environ.get("SEED") or random.randrange(10**9)))
    _print_speed(redactor)
    _print_growth(redactor)
    _print_latency(redactor)


def _print_accuracy(redactor: Redactor) -> None:
    redrawn = [case for seed in REDRAWS for case in draw_cases(seed)]
    rows = [_accuracy("the corpus", redactor, CASES), _accuracy("with other random parts", redactor, redrawn)]
    header = (
        "redaction: accuracy",
        "cases",
        "secrets",
        "innocent",
        "masked",
        "missed",
        "mistaken",
        "precision",
        "recall",
    )
    print_table("Redaction", header, rows)


def _accuracy(title: str, redactor: Redactor, cases: list[Case]) -> tuple[object, ...]:
    found = score(lambda text: redactor.text(text).text, cases)
    secrets = sum(len(case.spans) for case in cases)
    innocent = sum(case.innocent for case in cases)
    shares = (f"{found.precision:.4f}", f"{found.recall:.4f}")
    return (title, len(cases), secrets, innocent, found.masked, found.missed, found.mistaken, *shares)


def _print_generated(redactor: Redactor, seed: int) -> None:
    seen, held_out = tally(lambda text: redactor.text(text).text, draw_samples(seed, SAMPLES))
    rows = [_generated_row("looked at", seen), _generated_row("held out", held_out)]
    header = ("contexts", "number", "samples", "masked", "leaked", "mistaken", "precision", "recall")
    print_table(f"Generated samples (SEED={seed})", header, rows)
    worst = seen.failures.most_common(FAILURES_SHOWN)
    print_table("Looked-at contexts that fail most", ("failures", "context"), [(n, c.template) for c, n in worst])


def _generated_row(title: str, found: Tally) -> tuple[object, ...]:
    contexts = sum(context.held_out == (title == "held out") for context in CONTEXTS)
    counts = (contexts, found.samples, found.masked, found.leaked, found.mistaken)
    return (title, *counts, f"{found.precision:.4f}", f"{found.recall:.4f}")


def _print_growth(redactor: Redactor) -> None:
    rows = [_growth_row(redactor, piece) for piece in ADVERSARIAL]
    print_table("Made-up repeats: seconds, and how they grow", ("text", "100 KB", "1 MB", "ratio (10 is linear)"), rows)


def _growth_row(redactor: Redactor, piece: str) -> tuple[object, ...]:
    small, large = (piece * (size // len(piece)) for size in (MEGABYTE // 10, MEGABYTE))
    redactor.text(small)
    short, long = (_processor_seconds(lambda text=text: redactor.text(text)) for text in (small, large))
    return repr(piece), f"{short:.2f}", f"{long:.2f}", f"{long / max(short, 1e-6):.1f}"


def _print_speed(redactor: Redactor) -> None:
    sources = Path(sysconfig.get_path("stdlib")).glob("*.py")
    code = "".join(path.read_text(encoding="utf-8", errors="replace") for path in sorted(sources))
    prose = PROSE * (4 * MEGABYTE // len(PROSE))
    dense = "\n".join(case.text for case in CASES) + "\n"
    words = re.compile(r"password|token|secret", re.IGNORECASE)
    rows = [
        _speed("floor: encode and count line breaks", prose, lambda text: text.encode().count(b"\n")),
        _speed("floor: re, three words, any case", prose[:MEGABYTE], words.search),
        _speed("prose without triggers", prose, redactor.text),
        _speed("source code (the standard library)", code, redactor.text),
        _speed("the same, streamed in chunks of 4 KiB", code, lambda text: _stream(redactor, text)),
        _speed("one line of 4 MB", prose.replace("\n", " "), redactor.text),
        _speed("the corpus itself: every line a trigger", dense, redactor.text),
    ]
    print_table("Throughput of one core (processor time)", ("text", "MB", "MB/s"), rows)


def _speed(title: str, text: str, work: Callable[[str], object]) -> tuple[object, ...]:
    size = len(text.encode()) / MEGABYTE
    work(text)  # the first pass builds the states of the search
    best = min(_processor_seconds(lambda: work(text)) for _ in range(3))
    return title, f"{size:.1f}", f"{size / best:.0f}"


def _stream(redactor: Redactor, text: str) -> None:
    stream = ChunkRedactor(redactor)
    for start in range(0, len(text), 4096):
        stream.feed(text[start : start + 4096])
    stream.finish()


def _print_latency(redactor: Redactor) -> None:
    body = {"title": SHORT, "dialog": [{"role": "model", "content": SHORT}] * 5, "tags": ["a", "b"]}
    rows = [
        _latency("a short text without triggers", lambda: redactor.text(SHORT), 20_000),
        _latency("a short text with a secret", lambda: redactor.text(SHORT_WITH_SECRET), 2_000),
        _latency("a JSON body of 24 strings and keys", lambda: redactor.value(body), 2_000),
    ]
    print_table("Latency (processor time)", ("call", "µs"), rows)


def _latency(title: str, work: Callable[[], object], times: int) -> tuple[object, ...]:
    def repeat() -> None:
        for _ in range(times):
            work()

    best = min(_processor_seconds(repeat) for _ in range(3))
    return title, f"{best / times * 1e6:.1f}"


def _processor_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


if __name__ == "__main__":
    main()
