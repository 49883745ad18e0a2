"""Substrings of long sessions: SQLite's index of every three characters that follow each other in rows of `grams`.

The index only narrows down which turns to look at; entries that it does not reach are scanned, and the caller decides
what matches.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

import apsw

from shiftlog.store.codec import blobs
from shiftlog.store.codec.packed import MARK
from shiftlog.store.sql.database import Row
from shiftlog.store.sql.grams import ANYTHING, GRAM_BATCH, GRAM_ROW, KINDS, MOST_UNREACHED, Grams, head, mark
from shiftlog.store.sql.rows import entry_id

GRAM = 3
# How many short entries, missing in the index, are added with each batch.
MOST_MISSED = 2 * GRAM_BATCH
# How many short entries a store indexes after a search that met a session without an index.
MOST_CAUGHT_UP = 2_048
MOST_GRAMS = 16
_ROWS_COMPARED = 1024
_ROWS_AT_ONCE = 16
_SCANNED_AT_ONCE = 1024

GRAMS = Grams(
    insert="INSERT INTO grams (rowid, text) VALUES (?, ?)",
    delete="DELETE FROM grams WHERE rowid = ?",
)


def extend(db: apsw.Connection, key: int, first: int, last: int) -> None:
    """Index whole batches after entries were appended, and a bounded part of what the index lacks before them."""
    if last // GRAM_BATCH > (first - 1) // GRAM_BATCH:
        GRAMS.cover(db, key, last, last - first + 1 + MOST_MISSED)


def catch_up(db: apsw.Connection, keys: Iterable[int]) -> None:
    """Index a bounded part of sessions whose index is behind."""
    left = MOST_CAUGHT_UP
    for key in keys:
        left -= GRAMS.cover(db, key, head(db, key), left)


def turns_in_question(db: apsw.Connection, key: int, covers: Sequence[Sequence[str]]) -> Iterator[str] | None:
    """Name the turns of a session that may hold one part of each cover; None if nothing narrows them down.

    Parts below three characters are in no index: if a cover has nothing longer, every entry is scanned.
    """
    reached = mark(db, key)
    if not covers or head(db, key) - reached > MOST_UNREACHED:
        return None
    indexed = [cover for cover in covers if all(len(part) >= GRAM for part in cover)]
    if not indexed:
        last = entry_id(key, head(db, key))
        starts = range(entry_id(key, 1), last + 1, _SCANNED_AT_ONCE)
        return _each_turn(db, ((start, min(start + _SCANNED_AT_ONCE, last + 1)) for start in starts), covers[0])
    cover = min(indexed, key=lambda cover: len(_rows(db, key, cover, _ROWS_COMPARED)))
    ranges = ((row, row + GRAM_ROW) for row in _each_row(db, key, cover))
    return _each_turn(db, chain(ranges, [(entry_id(key, reached + 1), entry_id(key + 1, 0))]), cover)


def _rows(db: apsw.Connection, key: int, cover: Sequence[str], limit: int, after: int = 0) -> list[int]:
    # A row must have all grams of one of the parts.
    each = (" AND ".join(_quoted(gram) for gram in _grams(part)) for part in cover)
    expression = " OR ".join([*(f"({grams})" for grams in each), f'"{ANYTHING}"'])
    rows = db.execute(
        "SELECT rowid FROM grams WHERE grams MATCH ? AND rowid > ? AND rowid < ? ORDER BY rowid LIMIT ?",
        (expression, max(entry_id(key, 0), after), entry_id(key + 1, 0), limit),
    )
    return [int(row[0]) for row in rows]


def _quoted(gram: str) -> str:
    return '"' + gram.replace('"', '""') + '"'


def _grams(part: str) -> list[str]:
    found = dict.fromkeys(part[start : start + GRAM] for start in range(len(part) - GRAM + 1))
    return list(islice(found, MOST_GRAMS))


def _each_row(db: apsw.Connection, key: int, cover: Sequence[str]) -> Iterator[int]:
    after = 0
    while rows := _rows(db, key, cover, _ROWS_AT_ONCE, after):
        yield from rows
        after = rows[-1]


def _each_turn(db: apsw.Connection, ranges: Iterable[tuple[int, int]], cover: Sequence[str]) -> Iterator[str]:
    """Yield the turns of entries that may hold a part, each once."""
    seen: set[str] = set()
    sql = f"SELECT turn FROM entries e WHERE id >= ? AND id < ? AND turn IS NOT NULL AND {_may_hold(len(cover))}"
    values = [value for part in cover for value in (_as_json(part), part)]
    for first, beyond in ranges:
        rows: list[Row] = db.execute(sql, (first, beyond, *values)).fetchall()
        for (turn,) in rows:
            if turn not in seen:
                seen.add(turn)
                yield turn


def _as_json(part: str) -> str:
    """Return a part as it stands inside a JSON text."""
    return part.replace("\\", "\\\\").replace('"', '\\"')


def _may_hold(parts: int) -> str:
    """Return the condition that an entry may bring one of some folded parts to its turn.

    What is erased, packed, keeps long texts elsewhere or has characters beyond ASCII always may: only ASCII is folded
    here as the caller folds.
    """
    text = "CAST(e.body AS TEXT)"
    found = " OR ".join(
        [f"instr(lower({text}), ?) > 0 OR e.kind = 'turn.begun' AND instr(lower(e.turn), ?) > 0"] * parts
    )
    return (
        f"e.kind IN {KINDS} AND ({found} OR e.body IS NULL OR length({text}) <> length(e.body)"
        f" OR instr({text}, '\"{blobs.REFERENCE}\"') > 0 OR substr(e.body, 1, 1) = x'{MARK.hex()}'"
        " OR e.kind = 'turn.begun' AND (length(CAST(e.turn AS BLOB)) <> length(e.turn)"
        f" OR instr({text}, '\"query_title\"') = 0 OR instr({text}, '\"query_text\"') = 0))"
    )
