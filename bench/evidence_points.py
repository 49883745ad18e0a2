"""Fits the points of `evidence.POINTS` to the contexts that were looked at, and prints the table.

Logistic regression on what was observed about each value near a name: `python -m bench.evidence_points`.
"""

import math
import os
import random
import sysconfig
from collections import Counter
from pathlib import Path

from shiftlog.guard.secrets.detectors.evidence import weigh
from tests.guard.secrets.corpus import CASES
from tests.guard.secrets.generated.drawing import CONTEXTS, draw_sample

DRAWS = 4
ROUNDS, STEP, SHRINK = 60, 0.05, 1e-4
INNOCENT_WEIGHT = 4  # in real texts values near names are innocent more often than here
RARE = 8
CODE_FILES = 1500

Observed = tuple[list[str], bool]  # what was observed about a value, and whether it is a secret


def main() -> None:
    """Draw, fit and print."""
    rng = random.Random(int(os.environ.get("SEED") or 1))
    observed = [*_draw(rng), *_read_code()]
    points = fit(observed, rng)
    hits = Counter((secret, sum(points.get(sign, 0.0) for sign in signs) > 0) for signs, secret in observed)
    print(
        f"# {len(observed)} values; found {hits[True, True]}, missed {hits[True, False]}, mistaken {hits[False, True]}"
    )
    for sign, point in sorted(points.items(), key=lambda item: -item[1]):
        print(f'    "{sign}": {point:.1f},')


def _draw(rng: random.Random) -> "list[Observed]":
    found: list[Observed] = []
    for context in (context for context in CONTEXTS if not context.held_out):
        for _ in range(DRAWS):
            case = draw_sample(context, rng).case
            spans = [tuple(len(case.text[:place].encode()) for place in span) for span in case.spans]
            found += _observe(case.text.encode(), spans)
    for case in CASES:
        spans = [tuple(len(case.text[:place].encode()) for place in span) for span in case.spans]
        found += DRAWS * _observe(case.text.encode(), spans)
    return found


def _read_code() -> "list[Observed]":
    """Observe the code of Python's library and of installed packages, where hardly any value is a secret."""
    paths = [
        *Path(sysconfig.get_path("stdlib")).glob("*.py"),
        *sorted(Path(sysconfig.get_path("purelib")).rglob("*.py")),
    ]
    return [found for path in paths[:CODE_FILES] for found in _observe(path.read_bytes(), [])]


def _observe(text: bytes, spans: "list[tuple[int, ...]]") -> "list[Observed]":
    found: list[Observed] = []
    offset = 0
    for data in text.split(b"\n"):
        for _, start, end, signs in weigh(data.decode("latin-1"), data, 0, len(data)):
            secret = any(first < offset + end and offset + start < last for first, last in spans)
            found.append((signs, secret))
        offset += len(data) + 1
    return found


def fit(observed: "list[Observed]", rng: random.Random) -> dict[str, float]:
    """Return the points that separate secrets from other values best."""
    counts = Counter(sign for signs, _ in observed for sign in signs)
    points = {sign: 0.0 for sign, count in counts.items() if count >= RARE}
    observed = [*observed]
    for turn in range(ROUNDS):
        rng.shuffle(observed)
        step = STEP / (1 + turn / 10)
        for signs, secret in observed:
            total = sum(points.get(sign, 0.0) for sign in signs)
            change = (
                step * (1 if secret else INNOCENT_WEIGHT) * (secret - 1 / (1 + math.exp(-max(-30.0, min(30.0, total)))))
            )
            for sign in signs:
                if sign in points:
                    points[sign] += change - step * SHRINK * points[sign]
    return points


if __name__ == "__main__":
    main()
