"""Ranking matches: BM25 with a bound on its work, since FTS5's own counts every row of every word first.

How rare a word is gets estimated from at most `COUNTED_MOST` rows. Matches come newest first, session by session;
of each session only the newest are scored where sessions or turns are asked for, so that one long session neither
costs nor hides the others. Older ones count as found, with a score below all others.
"""

import math

import apsw

from shiftlog.model.search import Expr, Phrase, Word, positive_terms
from shiftlog.store.sql.rows import SEQ_BITS
from shiftlog.store.sqlite.filters import match_expression

FUNCTION = "fits"
COUNTED_MOST = 5_000
SCORED_A_SESSION = 50
SCORED_MOST = 2_000
_SATURATION = 1.2
_LENGTH_WEIGHT = 0.75


class Ranking:
    """The scoring function of a connection for its next query; the words' rarity is estimated first."""

    def __init__(self, db: apsw.Connection, expr: Expr, *, each_entry: bool) -> None:
        self._db = db
        terms = positive_terms(expr)
        rows = self._db.execute("SELECT count(*) FROM found_docsize").fetchone() if len(terms) > 1 else None
        total = max(int(rows[0]), 1) if rows else 1
        self._rarity = {_words(term): self._rarity_of(term, total) for term in terms} if len(terms) > 1 else {}
        self._mean_length = 0.0
        self._session = -1
        self._session_left = 0
        self._left = SCORED_MOST
        self._a_session = SCORED_MOST if each_entry else SCORED_A_SESSION
        db.register_fts5_function(FUNCTION, self._score)

    def _rarity_of(self, term: Word | Phrase, total: int) -> float:
        row = self._db.execute(
            "SELECT count(*) FROM (SELECT 1 FROM found WHERE found MATCH ? LIMIT ?)",
            (match_expression(term)[0], COUNTED_MOST),
        ).fetchone()
        count = int(row[0]) if row else 0
        return math.log(1 + (total - count + 0.5) / (count + 0.5))

    def _score(self, api: apsw.FTS5ExtensionApi, *arguments: object) -> float:
        session = api.rowid >> SEQ_BITS
        if session != self._session:
            self._session, self._session_left = session, self._a_session
        if self._session_left <= 0 or self._left <= 0:
            return 0.0
        self._session_left -= 1
        self._left -= 1
        if not self._mean_length:
            self._mean_length = max(api.column_total_size(0) / max(api.row_count, 1), 1.0)
        stretch = 1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * api.column_size(0) / self._mean_length
        score = 0.0
        for number, words in enumerate(api.phrases):
            often = len(api.phrase_locations(number)[0])
            rarity = self._rarity.get(tuple(word or "" for word in words), 1.0)
            score += rarity * often * (_SATURATION + 1) / (often + _SATURATION * stretch)
        return score


def _words(term: Word | Phrase) -> tuple[str, ...]:
    return (term.text,) if isinstance(term, Word) else term.words
