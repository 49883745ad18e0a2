"""Substrings of long sessions: rows of folded texts, which trigrams find where the database has pg_trgm.

A session gets its rows after a search that met it without them, so appends cost nothing more. Rows only narrow down
which entries to read; entries that have none are read too, and the caller decides what matches.
"""

from collections.abc import Iterator, Sequence

from shiftlog.store.postgres.connections import PostgresDatabase
from shiftlog.store.postgres.patterns import like
from shiftlog.store.sql.database import Row
from shiftlog.store.sql.grams import ANYTHING, GRAM_ROW, KINDS, MOST_UNREACHED, Grams, head, mark, text_of
from shiftlog.store.sql.rows import SEQ_BITS, entry_id

GRAMS = Grams(
    insert="INSERT INTO grams (id, text, session_key)"
    f" SELECT id, text, id >> {SEQ_BITS} FROM (VALUES (?::bigint, ?::text)) AS given (id, text)",
    delete="DELETE FROM grams WHERE id = ?",
)
# How many short entries get rows at once: their session is locked for so long.
MOST_CAUGHT_UP = 512
_ROWS_COMPARED = 1024
_ROWS_AT_ONCE = 8
_ENTRIES_AT_ONCE = 256


def turns_in_question(db: PostgresDatabase, key: int, covers: Sequence[Sequence[str]]) -> Iterator[str] | None:
    """Name the turns of a session that may hold one part of each cover; None if nothing narrows them down.

    A session without rows is read in order: asking for each turn by itself would take more round trips.
    """
    reached, last = mark(db, key), head(db, key)
    if not covers or not reached or last - reached > MOST_UNREACHED:
        return None
    cover = covers[0]
    if len(covers) > 1:
        cover = min(covers, key=lambda cover: len(_rows(db, key, cover, _ROWS_COMPARED)))
    return _each_turn(db, key, cover, reached, last)


def _rows(db: PostgresDatabase, key: int, cover: Sequence[str], limit: int, after: int = 0) -> list[int]:
    span = (max(entry_id(key, 0), after), entry_id(key + 1, 0))
    likes = " OR ".join(["text LIKE ?"] * len(cover))
    each = "SELECT id FROM grams WHERE id > ? AND id < ? AND ({}) ORDER BY id LIMIT ?"
    # Planned each time: a part that many rows hold, or without a trigram, is soonest found by reading the session.
    rows = db.planned(
        f"({each.format(likes)}) UNION ({each.format('is_open')}) ORDER BY id LIMIT ?",
        (*span, *(f"%{like(part)}%" for part in cover), limit, *span, limit, limit),
    )
    return [int(row[0]) for row in rows]


def _each_turn(db: PostgresDatabase, key: int, cover: Sequence[str], reached: int, last: int) -> Iterator[str]:
    """Yield the turns of entries that may hold a part, each once."""
    seen: set[str] = set()
    for ids in _each_portion(db, key, cover, reached, last):
        rows: list[Row] = db.execute(
            "SELECT turn, kind, body FROM entries"
            f" WHERE id = ANY (?) AND turn IS NOT NULL AND kind IN {KINDS} ORDER BY id",
            (ids,),
        ).fetchall()
        for turn, kind, body in rows:
            if turn not in seen and _may_hold(text_of(db, turn, kind, body), cover):
                seen.add(turn)
                yield turn


def _each_portion(db: PostgresDatabase, key: int, cover: Sequence[str], reached: int, last: int) -> Iterator[list[int]]:
    """Yield the ids of entries to read: those of rows that may hold a part, then those without rows."""
    after = 0
    while rows := _rows(db, key, cover, _ROWS_AT_ONCE, after):
        yield [row_id for row in rows for row_id in range(row, row + GRAM_ROW)]
        after = rows[-1]
    for start in range(reached + 1, last + 1, _ENTRIES_AT_ONCE):
        yield list(range(entry_id(key, start), entry_id(key, min(start + _ENTRIES_AT_ONCE, last + 1))))


def _may_hold(text: str, cover: Sequence[str]) -> bool:
    return ANYTHING in text or any(part in text for part in cover)
