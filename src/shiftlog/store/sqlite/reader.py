"""Reading one consistent state of the SQLite file: search, substrings and sizes; the rest is shared."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import apsw

from shiftlog.model.search import Expr
from shiftlog.store.protocol import Filter, Hit, Indexed, SearchResult, StoreSize, Unit
from shiftlog.store.sql.database import Row, is_one_of
from shiftlog.store.sql.filters import add_span
from shiftlog.store.sql.grams import is_behind
from shiftlog.store.sql.reader import SqlReader
from shiftlog.store.sql.rows import SEQ_BITS, SEQ_LIMIT, entry_id
from shiftlog.store.sqlite.filters import FILTERS, columns, match_expression
from shiftlog.store.sqlite.search.comparing import WordComparison
from shiftlog.store.sqlite.search.ranking import FUNCTION, Ranking
from shiftlog.store.sqlite.search.trigrams import turns_in_question


class SqliteReader(SqlReader):
    """The questions that the store answers, over one connection inside one transaction."""

    _filters = FILTERS
    _columns = staticmethod(columns)
    _db: apsw.Connection

    def __init__(self, db: apsw.Connection) -> None:
        super().__init__(db)
        # Sessions whose index of substrings is to be continued, because a search could have used it.
        self.behind: list[int] = []

    def word_differences(
        self, session_ids: Sequence[str], items_of: Callable[[str], Iterable[Indexed]]
    ) -> Iterator[tuple[str, str]]:
        keys = {session_id: key for session_id in session_ids if (key := self._key(session_id)) is not None}
        comparison = WordComparison(self._db, keys.values())
        for session_id, key in keys.items():
            for what in comparison.session(key, items_of(session_id)):
                yield session_id, what

    def search(
        self,
        expr: Expr,
        where: Filter,
        *,
        unit: Unit,
        limit: int,
        most: int,
        facets: Iterable[str] | None = None,
    ) -> SearchResult:
        self._index_pending()
        Ranking(self._db, expr, each_entry=unit == "entry")
        candidates, values = self._candidates(expr, where, facets, unit)
        group = {"entry": "id", "turn": f"id >> {SEQ_BITS}, turn", "session": f"id >> {SEQ_BITS}"}[unit]
        # Cross joins keep SQLite from starting at the sessions, even if its statistics suggest that.
        rows: list[Row] = self._db.execute(
            f"WITH c AS MATERIALIZED ({candidates}), b AS MATERIALIZED"
            f" (SELECT id, max(score) AS score FROM (SELECT * FROM c LIMIT ?) GROUP BY {group})"
            " SELECT s.id, e.id, e.turn, b.score, (SELECT count(*) FROM b), (SELECT count(*) FROM c)"
            f" FROM b CROSS JOIN entries e ON e.id = b.id CROSS JOIN sessions s ON s.key = b.id >> {SEQ_BITS}"
            " ORDER BY b.score DESC, b.id DESC LIMIT ?",
            (*values, most + 1, most, limit),
        ).fetchall()
        hits = [
            Hit(session_id=session_id, seq=row_id & (SEQ_LIMIT - 1), turn=turn, score=score)
            for session_id, row_id, turn, score, _, _ in rows
        ]
        total, counted = (rows[0][4], rows[0][5]) if rows else (0, 0)
        return SearchResult(hits=hits, total=total, complete=counted <= most)

    def _index_pending(self) -> None:
        """Index what this transaction has written: nothing here, but a writer overrides this."""

    def _candidates(self, expr: Expr, where: Filter, facets: Iterable[str] | None, unit: Unit) -> tuple[str, list[Any]]:
        """Return the query for the newest matches, the only ones that are ranked; its limit is still to bind."""
        text, negated = match_expression(expr)
        clauses, values = FILTERS.of_sessions(where)
        has_hidden = self._value("SELECT EXISTS (SELECT 1 FROM sessions WHERE hidden = 1)") == 1
        asks_session = len(clauses) > 1 or has_hidden
        if not asks_session:
            clauses = ["TRUE"]
        if where.session_id is not None:
            key = self._key(where.session_id) or 0
            clauses.append("found.rowid > ? AND found.rowid < ?")
            values.extend((entry_id(key, 0), entry_id(key + 1, 0)))
        if facets is not None:
            clauses.append(is_one_of("x.facet", facets, values))
        if unit == "turn":
            clauses.append("x.turn IS NOT NULL")
        is_timed = unit == "entry" and (where.from_ is not None or where.to is not None)
        asks_turn = unit == "entry" and where.asks_turn
        if is_timed:
            add_span(where, "x.at", clauses, values)
        if asks_turn:
            FILTERS.add_own_turn(where, "x", clauses, values)
        looks_at_entry = unit == "turn" or facets is not None or is_timed or asks_turn
        matched = "found.rowid NOT IN (SELECT rowid FROM found WHERE found MATCH ?)"
        return (
            f"SELECT found.rowid AS id, {'x.turn' if looks_at_entry else 'NULL'} AS turn,"
            f" {'0.0' if negated else f'{FUNCTION}(found)'} AS score"
            f" FROM found{f' CROSS JOIN sessions s ON s.key = found.rowid >> {SEQ_BITS}' if asks_session else ''}"
            f"{' CROSS JOIN entries x ON x.id = found.rowid' if looks_at_entry else ''}"
            f" WHERE {matched if negated else 'found MATCH ?'} AND {' AND '.join(clauses)}"
            " ORDER BY found.rowid DESC LIMIT ?"
        ), [text, *values]

    def counts(self) -> StoreSize:
        pages, size = self._value("PRAGMA page_count"), self._value("PRAGMA page_size")
        return StoreSize(
            sessions=self._value("SELECT count(*) FROM journals"),
            turns=self._value("SELECT count(*) FROM turns") or 0,
            entries=self._value("SELECT coalesce(sum(head_seq), 0) FROM journals"),
            bytes=(pages or 0) * (size or 0),
            schema=self._value("SELECT max(number) FROM migrations") or 0,
        )

    def last_alias(self) -> int:
        return int(self._value("SELECT seq FROM sqlite_sequence WHERE name = 'aliases'") or 0)

    def turns_that_may_hold(self, session_id: str, covers: Sequence[Sequence[str]]) -> Iterator[str] | None:
        key = self._key(session_id)
        if key is None:
            return iter(())
        if is_behind(self._db, key):
            self.behind.append(key)
        return turns_in_question(self._db, key, covers)
