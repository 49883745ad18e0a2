"""Comparing the words of the full-text index with those of the entries.

The index of parts of words is not compared: it only narrows down which turns a search reads.
"""

from collections.abc import Iterable, Iterator

import apsw

from shiftlog.model.search import apart
from shiftlog.store.protocol import Indexed
from shiftlog.store.sql.rows import SEQ_BITS, entry_id

# FTS5 indexes only so many bytes of a longer word, and may cut a character in two.
WORD_BYTES = 32_768


class WordComparison:
    """Names the entries of some sessions that the full-text index finds by other words than their own.

    The index is read once from its beginning to its end, which is quick but knows no sessions; so many are compared at
    a time. Words are summed up without their order, by hashes that differ from process to process.
    """

    def __init__(self, db: apsw.Connection, keys: Iterable[int]) -> None:
        self._tokenizer = db.fts5_tokenizer("unicode61", ["remove_diacritics", "2"])
        self._sums: dict[int, dict[int, int]] = {key: {} for key in keys}
        db.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.found_words USING fts5vocab('main', 'found', 'instance')")
        span = (entry_id(min(self._sums), 0), entry_id(max(self._sums) + 1, 0)) if self._sums else (0, 0)
        words = db.execute("SELECT CAST(term AS BLOB), doc FROM found_words WHERE doc >= ? AND doc < ?", span)
        for word, row_id in words:
            sums = self._sums.get(row_id >> SEQ_BITS)
            if sums is not None:
                sums[row_id] = sums.get(row_id, 0) + hash(word)

    def session(self, key: int, items: Iterable[Indexed]) -> Iterator[str]:
        """Compare the words of a session's entries."""
        sums, first = self._sums.pop(key), entry_id(key, 0)
        for item in items:
            if sums.pop(first + item.entry.seq, 0) != self._sum(item.text):
                yield f"the words that entry {item.entry.seq} is found by"
        yield from (f"words without a text at entry {row_id - first}" for row_id in sums)

    def _sum(self, text: str) -> int:
        data = apart(text).encode("utf-8", "replace")
        words = self._tokenizer(data, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False, include_colocated=False)
        return sum(hash(str(word).encode()[:WORD_BYTES]) for word in words)
