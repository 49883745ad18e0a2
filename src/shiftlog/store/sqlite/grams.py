"""Parts of words in long sessions: an index of every three characters that follow each other in its entries.

A row holds GRAM_ROW entries, and rows are made GRAM_BATCH entries at a time: a short session has none and pays nothing.
What the index does not reach yet is looked at itself. It only narrows down; what matches is decided by the caller.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, cast

import apsw
import msgspec
import zstandard

from shiftlog.store import blobs
from shiftlog.store.documents import decode
from shiftlog.store.documents_packed import MARK, unpacked
from shiftlog.store.sqlite.rows import REFERENCE_MARK, SEQ_BITS, SEQ_LIMIT, Row, entry_id, fetch_blob

GRAM = 3
GRAM_ROW = 16
GRAM_BATCH = 256
# How much of what was missed before is made up for at a time.
MOST_MISSED = 2 * GRAM_BATCH
# Beyond this many entries without an index, looking at all turns in their order is quicker.
MOST_UNREACHED = 8 * GRAM_BATCH
MOST_GRAMS = 16
_ROWS_COMPARED = 1024
_ROWS_AT_ONCE = 16

# Stands in a row whose texts are not all known here: an entry that is erased or cannot be read.
_ANYTHING = "\x02\x02\x02"
# Fields of a body that no turn is found by: hashes and ids, in which any three digits stand sooner or later.
_NO_TEXTS = frozenset({"seal", "record", "vendor", "call_id"})
# The entries that a turn has its texts from.
_KINDS = "('turn.begun', 'turn.updated', 'dialog', 'action', 'turn.completed', 'turn.failed', 'import.noted')"


# -- Keeping -----------------------------------------------------------------------------------------------------------


def extend(db: apsw.Connection, key: int, first: int, last: int) -> None:
    """Index whole batches after entries were appended."""
    if last // GRAM_BATCH == (first - 1) // GRAM_BATCH:
        return
    mark = _mark(db, key)
    _cover(db, key, mark, min(last, mark + (last - first + 1) + MOST_MISSED))


def renew(db: apsw.Connection, key: int) -> None:
    """Index all of a session anew."""
    forget(db, entry_id(key, 1))
    _cover(db, key, 0, _head(db, key))


def forget(db: apsw.Connection, row_id: int) -> None:
    """Forget what an entry and those after it in its session hold."""
    key, seq = row_id >> SEQ_BITS, row_id & (SEQ_LIMIT - 1)
    mark, kept = _mark(db, key), max(seq - 1, 0) // GRAM_ROW * GRAM_ROW
    if kept < mark:
        for start in range(kept, mark, GRAM_ROW):
            db.execute("DELETE FROM grams WHERE rowid = ?", (entry_id(key, start + 1),))
        db.execute("UPDATE gram_marks SET seq = ? WHERE session_key = ?", (kept, key))


def _head(db: apsw.Connection, key: int) -> int:
    row: Row | None = db.execute("SELECT head_seq FROM journals WHERE key = ?", (key,)).fetchone()
    return int(row[0]) if row else 0


def _mark(db: apsw.Connection, key: int) -> int:
    row: Row | None = db.execute("SELECT seq FROM gram_marks WHERE session_key = ?", (key,)).fetchone()
    return int(row[0]) if row else 0


def _cover(db: apsw.Connection, key: int, mark: int, last: int) -> None:
    end = last // GRAM_BATCH * GRAM_BATCH
    if end <= mark:
        return
    rows: list[Row] = db.execute(
        f"SELECT turn, kind, CASE WHEN kind IN {_KINDS} THEN body ELSE x'' END FROM entries"
        " WHERE id > ? AND id <= ? ORDER BY id",
        (entry_id(key, mark), entry_id(key, end)),
    ).fetchall()
    texts = (_text_of(db, *row) for row in rows)
    for start in range(mark, end, GRAM_ROW):
        text = "\n".join(islice(texts, GRAM_ROW))
        db.execute("INSERT INTO grams (rowid, text) VALUES (?, ?)", (entry_id(key, start + 1), text))
    db.execute("INSERT OR REPLACE INTO gram_marks VALUES (?, ?)", (key, end))


def _text_of(db: apsw.Connection, turn: str | None, kind: str, body: bytes | None) -> str:
    """Return what an entry brings to the texts of its turn, folded."""
    if turn is None or body == b"":
        return ""
    if body is None:
        return _ANYTHING
    try:
        data = unpacked(body)
        document: dict[str, Any] = decode(data, type=dict[str, Any])
        if REFERENCE_MARK in data:
            document = cast("dict[str, Any]", blobs.internalise(document, lambda digest: fetch_blob(db, digest)))
    except (msgspec.DecodeError, zstandard.ZstdError, ValueError):
        return _ANYTHING
    texts = list(_texts([value for name, value in document.items() if name not in _NO_TEXTS]))
    if kind == "turn.begun":
        texts.append(turn if _is_titled(data) else turn + _ANYTHING)
    return "\n".join(texts).casefold()


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in cast(Mapping[str, object], value).values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in cast(list[object], value):
            yield from _texts(item)


def _is_titled(data: bytes) -> bool:
    """Tell whether a turn has its title and text from its first entry, or is shown with others."""
    return b'"query_title"' in data and b'"query_text"' in data


# -- Asking ------------------------------------------------------------------------------------------------------------


def turns_in_question(db: apsw.Connection, key: int, covers: Sequence[Sequence[str]]) -> Iterator[str] | None:
    """Name the turns of a session that may hold one part of each cover; None where nothing narrows them down."""
    head, mark = _head(db, key), _mark(db, key)
    if head - mark > MOST_UNREACHED or not covers:
        return None
    asked = [cover for cover in covers if all(len(part) >= GRAM for part in cover)]
    if asked:
        cover = min(asked, key=lambda cover: len(_rows(db, key, cover, _ROWS_COMPARED)))
        rows = _each_row(db, key, cover)
    else:
        cover = covers[0]
        rows = (entry_id(key, start + 1) for start in range(0, mark, GRAM_ROW))
    ranges = ((row, row + GRAM_ROW) for row in rows)
    return _each_turn(db, chain(ranges, [(entry_id(key, mark + 1), entry_id(key + 1, 0))]), cover)


def _rows(db: apsw.Connection, key: int, cover: Sequence[str], limit: int, after: int = 0) -> list[int]:
    rows = db.execute(
        "SELECT rowid FROM grams WHERE grams MATCH ? AND rowid > ? AND rowid < ? ORDER BY rowid LIMIT ?",
        (_expression(cover), max(entry_id(key, 0), after), entry_id(key + 1, 0), limit),
    )
    return [int(row[0]) for row in rows]


def _expression(cover: Sequence[str]) -> str:
    """Return what a row must have, in FTS5's language: all grams of one of the parts."""
    each = (" AND ".join(f'"{gram}"' for gram in _grams(part)) for part in cover)
    return " OR ".join([*(f"({grams})" for grams in each), f'"{_ANYTHING}"'])


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
    for first, beyond in ranges:
        rows: list[Row] = db.execute(sql, (first, beyond, *(part for part in cover for _ in range(2)))).fetchall()
        for (turn,) in rows:
            if turn not in seen:
                seen.add(turn)
                yield turn


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
