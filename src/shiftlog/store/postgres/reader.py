"""Reading one consistent state of PostgreSQL: search and sizes; the rest is shared."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from shiftlog.model.search import Expr
from shiftlog.store.postgres.connections import PostgresDatabase
from shiftlog.store.postgres.patterns import FILTERS, columns
from shiftlog.store.postgres.substrings import turns_in_question
from shiftlog.store.postgres.words import condition, findable
from shiftlog.store.protocol import Filter, Hit, Indexed, SearchResult, StoreSize, Unit
from shiftlog.store.sql.database import Row, is_one_of
from shiftlog.store.sql.filters import add_span
from shiftlog.store.sql.grams import is_behind
from shiftlog.store.sql.reader import SqlReader
from shiftlog.store.sql.rows import SEQ_LIMIT, entry_id

_SIZE = (
    "SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM pg_class"
    " WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
)
_GROUPS: dict[Unit, str] = {"entry": "c.id", "turn": "c.session_key, c.turn", "session": "c.session_key"}
# A search looks at so many of the newest sessions first, and at least at so many times more if too few entries match.
FIRST_WINDOW = 1_000
WINDOW_GROWTH = 4


class PostgresReader(SqlReader):
    """The questions that the store answers, over one connection inside one transaction."""

    _filters = FILTERS
    _columns = staticmethod(columns)

    def __init__(self, db: PostgresDatabase) -> None:
        super().__init__(db)
        self._postgres = db
        # Sessions whose rows of texts are to be continued, because a search could have used them.
        self.behind: list[str] = []

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
        sessions = FIRST_WINDOW
        while True:
            oldest = self._first_id(where, sessions)
            rows = self._newest(oldest, expr, where, unit=unit, limit=limit, most=most, facets=facets)
            matches = int(rows[0][5]) if rows else 0
            if not oldest or matches > most:
                break
            # As many as hold enough, if the words are as frequent in older sessions; rare words are sought in all.
            sessions *= max(WINDOW_GROWTH, 2 * most // max(matches, 1))
        hits = [
            Hit(session_id=session_id, seq=row_id & (SEQ_LIMIT - 1), turn=turn, score=float(fit))
            for session_id, row_id, turn, fit, _, _ in rows
        ]
        return SearchResult(hits=hits, total=rows[0][4] if rows else 0, complete=matches <= most)

    def _first_id(self, where: Filter, sessions: int) -> int:
        """Return the id from which on the newest sessions are searched, 0 if all are.

        Words that are everywhere are in enough entries of the newest ones, and only the newest matches count.
        """
        if where.session_id is not None:
            return 0
        key = self._value("SELECT key FROM journals ORDER BY key DESC LIMIT 1 OFFSET ?", sessions)
        return 0 if key is None else entry_id(key, 0)

    def _newest(
        self,
        oldest: int,
        expr: Expr,
        where: Filter,
        *,
        unit: Unit,
        limit: int,
        most: int,
        facets: Iterable[str] | None,
    ) -> list[Row]:
        """Return the best of the newest matches, one of each session or turn, with the counts of all."""
        candidates, values = self._candidates(oldest, expr, where, facets, unit)
        return self._db.execute(
            f"WITH c AS MATERIALIZED ({candidates}), b AS MATERIALIZED (SELECT DISTINCT ON ({_GROUPS[unit]}) c.id,"
            " c.session_key, c.score FROM (SELECT * FROM c ORDER BY id DESC LIMIT ?) c"
            f" ORDER BY {_GROUPS[unit]}, c.score DESC, c.id DESC),"
            " best AS MATERIALIZED (SELECT * FROM b ORDER BY score DESC, id DESC LIMIT ?)"
            " SELECT s.id, e.id, e.turn, b.score, (SELECT count(*) FROM b), (SELECT count(*) FROM c)"
            " FROM best b JOIN entries e ON e.id = b.id AND e.session_key = b.session_key"
            " JOIN sessions s ON s.key = b.session_key ORDER BY b.score DESC, b.id DESC",
            (*values, most + 1, most, limit),
        ).fetchall()

    def _candidates(
        self, oldest: int, expr: Expr, where: Filter, facets: Iterable[str] | None, unit: Unit
    ) -> tuple[str, list[Any]]:
        """Return the query for the newest matches with their scores, and its values but the limit.

        Tables are joined only if something is asked of them: a word may be in very many entries. Entries are scored
        here, because sorting 10,000 of them with their words does not fit into the usual `work_mem`.
        """
        matches, needles, query = condition(expr)
        score = "0" if query is None else "coalesce(ts_rank(f.words, ?::tsquery, 1), 0)"
        values: list[Any] = [*(() if query is None else (query,)), oldest, *needles]
        clauses, asked = FILTERS.of_sessions(where)
        source = "found f"
        if clauses == ["s.hidden = 0"]:
            clauses = ["f.session_key NOT IN (SELECT h.key FROM sessions h WHERE h.hidden = 1)"]
        else:
            source += " JOIN sessions s ON s.key = f.session_key"
        values.extend(asked)
        if where.session_id is not None:
            key = self._key(where.session_id) or 0
            clauses.append("f.id > ? AND f.id < ?")
            values.extend((entry_id(key, 0), entry_id(key + 1, 0)))
        of_entry: list[str] = []
        if facets is not None:
            of_entry.append(is_one_of("x.facet", facets, values))
        if unit == "turn":
            of_entry.append("x.turn IS NOT NULL")
        if unit == "entry":
            add_span(where, "x.at", of_entry, values)
            if where.asks_turn:
                FILTERS.add_own_turn(where, "x", of_entry, values)
        if of_entry:
            source += " JOIN entries x ON x.id = f.id AND x.session_key = f.session_key"
        return (
            f"SELECT f.id, f.session_key, {'x.turn' if of_entry else 'NULL'} AS turn, {score} AS score FROM {source}"
            f" WHERE f.id >= ? AND {matches} AND {' AND '.join((*clauses, *of_entry))} ORDER BY f.id DESC LIMIT ?"
        ), values

    def last_alias(self) -> int:
        return int(self._value("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM aliases"))

    def turns_that_may_hold(self, session_id: str, covers: Sequence[Sequence[str]]) -> Iterator[str] | None:
        key = self._key(session_id)
        if key is None:
            return iter(())
        if is_behind(self._db, key):
            self.behind.append(session_id)
        return turns_in_question(self._postgres, key, covers)

    def _distinct(self, table: str, column: str, session_id: str) -> list[str]:
        rows = self._db.execute(
            f"SELECT DISTINCT {column} FROM {table} WHERE session_key = ? ORDER BY {column}", (self._key(session_id),)
        )
        return [str(row[0]) for row in rows]

    def word_differences(
        self, session_ids: Sequence[str], items_of: Callable[[str], Iterable[Indexed]]
    ) -> Iterator[tuple[str, str]]:
        for session_id in session_ids:
            key = self._key(session_id)
            if key is not None:
                for what in self._word_differences(key, items_of(session_id)):
                    yield session_id, what

    def _word_differences(self, key: int, items: Iterable[Indexed]) -> Iterator[str]:
        first = entry_id(key, 0)
        rows = self._db.execute("SELECT id FROM found WHERE id >= ? AND id < ?", (first, entry_id(key + 1, 0)))
        stored = {int(row[0]) for row in rows}
        for item in items:
            row_id = first + item.entry.seq
            is_stored = row_id in stored
            stored.discard(row_id)
            if not item.text and not is_stored:
                continue
            words, line = findable(item.text)
            same = self._value(
                "SELECT 1 FROM found WHERE id = ? AND words IS NOT DISTINCT FROM ?::tsvector"
                " AND line IS NOT DISTINCT FROM ?",
                row_id,
                words,
                line,
            )
            if not item.text or same is None:
                yield f"the words that entry {item.entry.seq} is found by"
        yield from (f"words without a text at entry {row_id - first}" for row_id in sorted(stored))

    def counts(self) -> StoreSize:
        return StoreSize(
            sessions=self._value("SELECT count(*) FROM journals"),
            turns=self._value("SELECT count(*) FROM turns"),
            entries=self._value("SELECT coalesce(sum(head_seq), 0) FROM journals"),
            bytes=self._value(_SIZE),
            schema=self._value("SELECT max(number) FROM migrations") or 0,
        )
