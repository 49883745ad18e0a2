"""Full-text search as the journal grows: p50 and p95 of two-word queries on 100,000 and 1,000,000 entries."""

import itertools
import random
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import anyio

from bench.tables import ms, percentile, print_table
from shiftlog.app.app import App, open_app
from shiftlog.model.caller import LIBRARY

VOCABULARY = 50_000
WORDS_AN_ENTRY = 30
ENTRIES_A_SESSION = 2_000
QUERIES = 200


class Words:
    """Words as they fall in real text: few common ones, many rare ones."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._words = [self._spelled(n) for n in range(VOCABULARY)]
        self._weights = list(itertools.accumulate(1 / (n + 1) for n in range(VOCABULARY)))

    @staticmethod
    def _spelled(n: int) -> str:
        letters = ""
        n += 27
        while n:
            n, rest = divmod(n, 26)
            letters += chr(97 + rest)
        return letters

    def text(self, count: int = WORDS_AN_ENTRY) -> str:
        """Return a text."""
        return " ".join(self._random.choices(self._words, cum_weights=self._weights, k=count))

    def query(self) -> str:
        """Return two words of a text, as a person who remembers it would search."""
        return " ".join(self._random.sample(self.text().split(), 2))


async def fill(app: App, words: Words, entries: int) -> None:
    """Write sessions of one long turn each until the journal has that many entries."""
    written = (await app.store.read(lambda reader: reader.counts())).entries
    while written < entries:
        opened = await app.sessions.open_session({"agent": "Bench", "title": words.text(6)}, LIBRARY)
        named = {"session_id": opened["session_id"]}
        await app.sessions.begin_turn({**named, "query_title": words.text(6), "query_text": words.text()}, LIBRARY)
        for _ in range(ENTRIES_A_SESSION // 1_000):
            items = [{"role": "model", "category": "reasoning", "content": words.text()} for _ in range(1_000)]
            await app.sessions.update_turn({**named, "dialog": items}, LIBRARY)
        closed = await app.sessions.finish_turn({**named, "outcome": "completed", "response": "ok"}, LIBRARY)
        written += closed["receipt"]["seq"]


async def measure(home: Path, sizes: list[int]) -> None:
    words = Words(seed=1)
    rows: list[list[str]] = []
    async with open_app(home, {"SHIFTLOG_DURABILITY": "process"}) as app:
        for size in sizes:
            start = time.perf_counter()
            await fill(app, words, size)
            filled = time.perf_counter() - start
            for kind in ("session", "entry"):
                spans, found = await _queries(app, words, kind)
                rows.append(
                    [
                        f"{size:,} entries, kind {kind}",
                        ms(percentile(spans, 0.5)),
                        ms(percentile(spans, 0.95)),
                        ms(percentile(spans, 1.0)),
                        f"{found / QUERIES:,.0f}",
                    ]
                )
            size_kb = (await app.store.read(lambda reader: reader.counts())).bytes / size
            rows.append([f"  filled in {filled:.0f} s, {size_kb:.0f} KB per 1,000 entries", "", "", "", ""])
    print_table("Search: two words, first page", ["journal", "p50", "p95", "slowest", "mean matches"], rows)


async def _queries(app: App, words: Words, kind: str) -> tuple[list[float], int]:
    spans: list[float] = []
    found = 0
    for warm in (True, False):
        spans.clear()
        found = 0
        for _ in range(QUERIES // 4 if warm else QUERIES):
            question: dict[str, Any] = {"text": words.query(), "kinds": [kind]}
            start = time.perf_counter()
            answer = await app.history.query_history(question, LIBRARY)
            spans.append(time.perf_counter() - start)
            found += answer["total"]
    return spans, found


def main(sizes: list[int]) -> None:
    """Measure search on a journal that grows through the sizes."""
    home = Path(tempfile.mkdtemp(prefix="shiftlog-bench-"))
    try:
        anyio.run(measure, home, sizes)
    finally:
        shutil.rmtree(home)
