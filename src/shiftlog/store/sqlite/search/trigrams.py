"""Substrings of long sessions: an index of every three characters that follow each other in the texts of entries.

A row of the index holds GRAM_ROW entries, and rows are made GRAM_BATCH entries at a time, so a short session has none.
The index only narrows down which turns to look at; entries that it does not reach are scanned, and the caller decides
what matches.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice

import apsw

from shiftlog.model.turn_texts import texts_in
from shiftlog.store.codec import blobs
from shiftlog.store.codec.documents import decode_body
from shiftlog.store.codec.packed import MARK
from shiftlog.store.sql.database import Row
from shiftlog.store.sql.rows import SEQ_BITS, SEQ_LIMIT, entry_id, fetch_blob

GRAM = 3
GRAM_ROW = 16
GRAM_BATCH = 256
# How many short entries, missing in the index, are added with each batch.
MOST_MISSED = 2 * GRAM_BATCH
# With more entries than this outside the index, reading all turns in their order is quicker.
MOST_UNREACHED = 8 * GRAM_BATCH
# How many short entries a store indexes after a search that met a session without an index.
MOST_CAUGHT_UP = 2_048
# A longer entry counts as several short ones.
SHORT_CHARS = 256
MOST_GRAMS = 16
_ROWS_COMPARED = 1024
_ROWS_AT_ONCE = 16
_SCANNED_AT_ONCE = 1024

# Stands in a row for texts that cannot be read here: an entry that is erased or damaged. It matches every search.
_ANYTHING = "\x02\x02\x02"
# Fields of a body that no turn is found by: hashes and ids, in which any three digits stand sooner or later.
_NO_TEXTS = frozenset({"seal", "record", "vendor", "call_id"})
# The entries that a turn has its texts from.
_KINDS = "('turn.begun', 'turn.updated', 'dialog', 'action', 'turn.completed', 'turn.failed', 'import.noted')"


# -- Keeping -----------------------------------------------------------------------------------------------------------


def extend(db: apsw.Connection, key: int, first: int, last: int) -> None:
    """Index whole batches after entries were appended, and a bounded part of what the index lacks before them."""
    if last // GRAM_BATCH > (first - 1) // GRAM_BATCH:
        _cover(db, key, last, last - first + 1 + MOST_MISSED)


def catch_up(db: apsw.Connection, keys: Iterable[int]) -> None:
    """Index a bounded part of sessions whose index is behind."""
    left = MOST_CAUGHT_UP
    for key in keys:
        left -= _cover(db, key, _head(db, key), left)


def is_behind(db: apsw.Connection, key: int) -> bool:
    """Return True if the index lacks more of a session than ordinary writes ever leave, as after an import."""
    return _head(db, key) - _mark(db, key) >= 2 * GRAM_BATCH


def forget(db: apsw.Connection, row_id: int) -> None:
    """Remove an entry and those after it in its session from the index."""
    key, seq = row_id >> SEQ_BITS, row_id & (SEQ_LIMIT - 1)
    mark, kept = _mark(db, key), max(seq - 1, 0) // GRAM_BATCH * GRAM_BATCH
    if kept < mark:
        for start in range(kept, mark, GRAM_ROW):
            db.execute("DELETE FROM grams WHERE rowid = ?", (entry_id(key, start + 1),))
        db.execute("UPDATE gram_marks SET seq = ? WHERE session_key = ?", (kept, key))


def _head(db: apsw.Connection, key: int) -> int:
    row: Row | None = db.execute("SELECT head_seq FROM journals WHERE key = ?", (key,)).fetchone()
    return int(row[0]) if row else 0


def _mark(db: apsw.Connection, key: int) -> int:
    """Return the seq up to which a session is indexed."""
    row: Row | None = db.execute("SELECT seq FROM gram_marks WHERE session_key = ?", (key,)).fetchone()
    return int(row[0]) if row else 0


def _put_mark(db: apsw.Connection, key: int, before: int, mark: int) -> None:
    if mark > before:
        db.execute("INSERT OR REPLACE INTO gram_marks VALUES (?, ?)", (key, mark))


def _cover(db: apsw.Connection, key: int, last: int, most: int) -> int:
    """Index whole batches up to an entry until so many short entries are spent; return how many were."""
    start = _mark(db, key)
    end, spent = start, 0
    while end + GRAM_BATCH <= last and spent < most:
        spent += max(_cover_batch(db, key, end) // SHORT_CHARS, GRAM_BATCH)
        end += GRAM_BATCH
    _put_mark(db, key, start, end)
    return spent


def _cover_batch(db: apsw.Connection, key: int, start: int) -> int:
    """Index one batch and return how many characters it had."""
    rows: list[Row] = db.execute(
        f"SELECT turn, kind, CASE WHEN turn IS NOT NULL AND kind IN {_KINDS} THEN body ELSE x'' END FROM entries"
        " WHERE id > ? AND id <= ? ORDER BY id",
        (entry_id(key, start), entry_id(key, start + GRAM_BATCH)),
    ).fetchall()
    texts = [_text_of(db, *row) for row in rows]
    for place in range(0, GRAM_BATCH, GRAM_ROW):
        text = "\n".join(texts[place : place + GRAM_ROW])
        db.execute("INSERT INTO grams (rowid, text) VALUES (?, ?)", (entry_id(key, start + place + 1), text))
    return sum(map(len, texts))


def _text_of(db: apsw.Connection, turn: str | None, kind: str, body: bytes | None) -> str:
    """Return what an entry adds to the texts of its turn, folded."""
    if body == b"" or turn is None:
        return ""
    try:
        document = decode_body(body or b"", partial(fetch_blob, db))
    except ValueError:
        return _ANYTHING
    texts = list(texts_in([value for name, value in document.items() if name not in _NO_TEXTS]))
    if kind == "turn.begun":
        # A turn without title and text of its own is shown with those of others.
        texts.append(turn if "query_title" in document and "query_text" in document else turn + _ANYTHING)
    return "\n".join(texts).casefold()


# -- Asking ------------------------------------------------------------------------------------------------------------


def turns_in_question(db: apsw.Connection, key: int, covers: Sequence[Sequence[str]]) -> Iterator[str] | None:
    """Name the turns of a session that may hold one part of each cover; None if nothing narrows them down.

    Parts below three characters are in no index: if a cover has nothing longer, every entry is scanned.
    """
    mark = _mark(db, key)
    if not covers or _head(db, key) - mark > MOST_UNREACHED:
        return None
    indexed = [cover for cover in covers if all(len(part) >= GRAM for part in cover)]
    if not indexed:
        last = entry_id(key, _head(db, key))
        starts = range(entry_id(key, 1), last + 1, _SCANNED_AT_ONCE)
        return _each_turn(db, ((start, min(start + _SCANNED_AT_ONCE, last + 1)) for start in starts), covers[0])
    cover = min(indexed, key=lambda cover: len(_rows(db, key, cover, _ROWS_COMPARED)))
    ranges = ((row, row + GRAM_ROW) for row in _each_row(db, key, cover))
    return _each_turn(db, chain(ranges, [(entry_id(key, mark + 1), entry_id(key + 1, 0))]), cover)


def _rows(db: apsw.Connection, key: int, cover: Sequence[str], limit: int, after: int = 0) -> list[int]:
    # A row must have all grams of one of the parts.
    each = (" AND ".join(_quoted(gram) for gram in _grams(part)) for part in cover)
    expression = " OR ".join([*(f"({grams})" for grams in each), f'"{_ANYTHING}"'])
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
        f"e.kind IN {_KINDS} AND ({found} OR e.body IS NULL OR length({text}) <> length(e.body)"
        f" OR instr({text}, '\"{blobs.REFERENCE}\"') > 0 OR substr(e.body, 1, 1) = x'{MARK.hex()}'"
        " OR e.kind = 'turn.begun' AND (length(CAST(e.turn AS BLOB)) <> length(e.turn)"
        f" OR instr({text}, '\"query_title\"') = 0 OR instr({text}, '\"query_text\"') = 0))"
    )
