"""Parts of words in long sessions: an index of every three characters that follow each other in its entries.

A row holds GRAM_ROW entries, and rows are made GRAM_BATCH entries at a time: a short session has none and pays nothing.
What the index does not reach yet is looked at itself. It only narrows down; what matches is decided by the caller.
Shorter parts, and what a search must not find, are the work of the blocks beside it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, cast

import apsw
import msgspec
import zstandard

from shiftlog.model.nouns import Turn
from shiftlog.model.turn_texts import ITEM_TEXTS, texts_in
from shiftlog.store.codec import blobs
from shiftlog.store.codec.documents import decode
from shiftlog.store.codec.packed import MARK, unpacked
from shiftlog.store.sqlite.rows import REFERENCE_MARK, SEQ_BITS, SEQ_LIMIT, Row, entry_id, fetch_blob
from shiftlog.store.sqlite.search import gram_blocks
from shiftlog.store.sqlite.search.gram_blocks import ENDS

GRAM = 3
GRAM_ROW = 16
GRAM_BATCH = gram_blocks.BLOCK
# How much of what was missed before is made up for at a time.
MOST_MISSED = 2 * GRAM_BATCH
# Beyond this many entries without an index, looking at all turns in their order is quicker.
MOST_UNREACHED = 8 * GRAM_BATCH
# What is longer counts as several entries where much is made up for.
SHORT_CHARS = 256
MOST_GRAMS = 16
_ROWS_COMPARED = 1024
_BLOCKS_COMPARED = _ROWS_COMPARED * GRAM_ROW // GRAM_BATCH
_ROWS_AT_ONCE = 16
# With no more blocks than these left to look at, their turns are asked for one by one.
_FEW_BLOCKS = 4
# Of a turn that ends, so many entries before the batch are read again.
_MOST_BEFORE = 2 * GRAM_BATCH

# Stands in a row whose texts are not all known here: an entry that is erased or cannot be read.
_ANYTHING = "\x02\x02\x02"
# Fields of a body that no turn is found by: hashes and ids, in which any three digits stand sooner or later.
_NO_TEXTS = frozenset({"seal", "record", "vendor", "call_id"})
# The entries that a turn has its texts from.
_KINDS = "('turn.begun', 'turn.updated', 'dialog', 'action', 'turn.completed', 'turn.failed', 'import.noted')"


# -- Keeping -----------------------------------------------------------------------------------------------------------


def extend(db: apsw.Connection, key: int, first: int, last: int) -> None:
    """Index whole batches after entries were appended and the turns they belong to stored."""
    if last // GRAM_BATCH == (first - 1) // GRAM_BATCH:
        return
    mark = _mark(db, key)
    _cover(db, key, mark, min(last, mark + (last - first + 1) + MOST_MISSED))


def catch_up(db: apsw.Connection, key: int, most: int) -> int:
    """Index what is still missing of a session, as much as `most` short entries take; return how many that took."""
    start, head, spent = _mark(db, key), _head(db, key), 0
    end = start
    while end + GRAM_BATCH <= head and spent < most:
        spent += max(_cover_batch(db, key, end) // SHORT_CHARS, GRAM_BATCH)
        end += GRAM_BATCH
    _put_mark(db, key, start, end)
    return spent


def has_much_left(db: apsw.Connection, key: int) -> bool:
    """Tell whether more of a session has no index than one that grows by ordinary writes ever leaves."""
    return _head(db, key) - _mark(db, key) >= 2 * GRAM_BATCH


def is_behind(db: apsw.Connection, key: int) -> bool:
    """Tell whether so much of a session has no index that searches do without it."""
    return _head(db, key) - _mark(db, key) > MOST_UNREACHED


def forget(db: apsw.Connection, row_id: int) -> None:
    """Forget what an entry and those after it in its session hold."""
    key, seq = row_id >> SEQ_BITS, row_id & (SEQ_LIMIT - 1)
    mark, kept = _mark(db, key), max(seq - 1, 0) // GRAM_BATCH * GRAM_BATCH
    if kept < mark:
        for start in range(kept, mark, GRAM_ROW):
            db.execute("DELETE FROM grams WHERE rowid = ?", (entry_id(key, start + 1),))
        gram_blocks.forget(db, key, kept // GRAM_BATCH)
        db.execute("UPDATE gram_marks SET seq = ? WHERE session_key = ?", (kept, key))


def _head(db: apsw.Connection, key: int) -> int:
    row: Row | None = db.execute("SELECT head_seq FROM journals WHERE key = ?", (key,)).fetchone()
    return int(row[0]) if row else 0


def _mark(db: apsw.Connection, key: int) -> int:
    row: Row | None = db.execute("SELECT seq FROM gram_marks WHERE session_key = ?", (key,)).fetchone()
    return int(row[0]) if row else 0


def _cover(db: apsw.Connection, key: int, mark: int, last: int) -> None:
    end = last // GRAM_BATCH * GRAM_BATCH
    for start in range(mark, end, GRAM_BATCH):
        _cover_batch(db, key, start)
    _put_mark(db, key, mark, end)


def _put_mark(db: apsw.Connection, key: int, before: int, mark: int) -> None:
    if mark > before:
        db.execute("INSERT OR REPLACE INTO gram_marks VALUES (?, ?)", (key, mark))


def _cover_batch(db: apsw.Connection, key: int, start: int) -> int:
    """Index one batch and return how many characters that were."""
    entries = _read_entries(db, entry_id(key, start), entry_id(key, start + GRAM_BATCH))
    texts = [_text_of(*entry) for entry in entries]
    for place in range(0, GRAM_BATCH, GRAM_ROW):
        text = "\n".join(texts[place : place + GRAM_ROW])
        db.execute("INSERT INTO grams (rowid, text) VALUES (?, ?)", (entry_id(key, start + place + 1), text))
    whole = "\n".join(texts)
    pairs = None if _ANYTHING in whole else gram_blocks.pairs_of(whole)
    gram_blocks.put(db, key, start // GRAM_BATCH, pairs, _common_of(db, key, entries))
    return len(whole)


# An entry as the index reads it: id, turn, kind and body; without a body where no turn has texts from its kind, with
# that of None where it is not known here.
_Read = tuple[int, str | None, str, dict[str, Any] | None]


def _read_entries(db: apsw.Connection, after: int, until: int, turn: str | None = None) -> list[_Read]:
    rows: list[Row] = db.execute(
        f"SELECT id, turn, kind, CASE WHEN turn IS NOT NULL AND kind IN {_KINDS} THEN body ELSE x'' END FROM entries"
        " WHERE id > ?1 AND id <= ?2 AND (?3 IS NULL OR turn = ?3) ORDER BY id",
        (after, until, turn),
    ).fetchall()
    return [(row_id, name, kind, _document(db, body)) for row_id, name, kind, body in rows]


def _document(db: apsw.Connection, body: bytes | None) -> dict[str, Any] | None:
    if not body:
        return None if body is None else {}
    try:
        data = unpacked(body)
        document: dict[str, Any] = decode(data, type=dict[str, Any])
        if REFERENCE_MARK in data:
            document = cast("dict[str, Any]", blobs.internalise(document, lambda digest: fetch_blob(db, digest)))
    except (msgspec.DecodeError, zstandard.ZstdError, ValueError):
        return None
    return document


def _text_of(row_id: int, turn: str | None, kind: str, document: dict[str, Any] | None) -> str:
    """Return what an entry brings to the texts of its turn, folded."""
    if turn is None or document == {}:
        return ""
    if document is None:
        return _ANYTHING
    texts = list(texts_in([value for name, value in document.items() if name not in _NO_TEXTS]))
    if kind == "turn.begun":
        texts.append(turn if _is_titled(document) else turn + _ANYTHING)
    return "\n".join(texts).casefold()


def _common_of(db: apsw.Connection, key: int, entries: list[_Read]) -> str | None:
    """Return what the turns that ended among some entries have in common; None where none did."""
    ended = dict.fromkeys(turn for _, turn, kind, _ in entries if turn and kind in ENDS)
    items: dict[str, list[_Read]] = defaultdict(list)
    for entry in entries:
        if entry[2] in ITEM_TEXTS and entry[1] in ended:
            items[entry[1]].append(entry)
    turns: list[list[str]] = []
    for name in ended:
        try:
            turn = gram_blocks.finished_turn(db, key, name)
        except ValueError:
            return ""
        if turn is not None:
            before = _entries_before(db, key, turn, entries[0][0])
            kept = chain.from_iterable(_item_texts(turn, entry) for entry in [*before, *items[name]])
            turns.append([*gram_blocks.sure_texts(turn), *kept])
    return gram_blocks.common_parts(turns) if turns else None


def _entries_before(db: apsw.Connection, key: int, turn: Turn, first: int) -> list[_Read]:
    """Return the entries of a turn before an id, the last of them where they are many."""
    begun = max(entry_id(key, turn.begun_seq), first - _MOST_BEFORE)
    return _read_entries(db, begun, first - 1, turn.request_id) if begun < first - 1 else []


def _item_texts(turn: Turn, entry: _Read) -> Iterator[str]:
    row_id, _, kind, document = entry
    keeps = turn.keeps_dialog if kind == "dialog" else turn.keeps_action
    if kind in ITEM_TEXTS and document and keeps(row_id & (SEQ_LIMIT - 1)):
        most = gram_blocks.MOST_TEXT_CHARS
        yield from (str(document.get(name, ""))[:most].casefold() for name in ITEM_TEXTS[kind])


def _is_titled(document: dict[str, Any]) -> bool:
    """Tell whether a turn has its title and text from its first entry, or is shown with others."""
    return "query_title" in document and "query_text" in document


# -- Asking ------------------------------------------------------------------------------------------------------------


def turns_in_question(
    db: apsw.Connection, key: int, covers: Sequence[Sequence[str]], rules_out: Callable[[str], bool] | None
) -> Iterator[str] | None:
    """Name the turns of a session that may hold one part of each cover, and that nothing they say rules out.

    None where nothing narrows them down.
    """
    mark = _mark(db, key)
    if not (covers or rules_out) or is_behind(db, key):
        return None
    tail = (entry_id(key, mark + 1), entry_id(key + 1, 0))
    if rules_out is not None:
        blocks = gram_blocks.blocks_left(db, key, mark, lambda _, common: common is None or rules_out(common))
        few = list(islice(blocks, _FEW_BLOCKS + 1)) if covers else []
        if len(few) <= _FEW_BLOCKS:
            return _each_ended(db, key, chain(few, blocks, [tail]))
    cover = min(covers, key=lambda cover: _cost(db, key, mark, cover))
    ranges = _rows_of(db, key, cover) if _is_long(cover) else _blocks_of(db, key, mark, cover)
    return _each_turn(db, chain(ranges, [tail]), cover)


def _is_long(cover: Sequence[str]) -> bool:
    return all(len(part) >= GRAM for part in cover)


def _cost(db: apsw.Connection, key: int, mark: int, cover: Sequence[str]) -> int:
    """Return how many entries are to be looked at for a cover; beyond some number that makes no difference."""
    if _is_long(cover):
        return GRAM_ROW * len(_rows(db, key, cover, _ROWS_COMPARED))
    return GRAM_BATCH * sum(1 for _ in islice(_blocks_of(db, key, mark, cover), _BLOCKS_COMPARED))


def _blocks_of(db: apsw.Connection, key: int, mark: int, cover: Sequence[str]) -> Iterator[tuple[int, int]]:
    return gram_blocks.blocks_left(
        db, key, mark, lambda pairs, _: not any(gram_blocks.may_hold(pairs, part) for part in cover)
    )


def _rows_of(db: apsw.Connection, key: int, cover: Sequence[str]) -> Iterator[tuple[int, int]]:
    return ((row, row + GRAM_ROW) for row in _each_row(db, key, cover))


def _each_ended(db: apsw.Connection, key: int, ranges: Iterable[tuple[int, int]]) -> Iterator[str]:
    """Yield the turns that are open, and those that ended in some ranges of entries."""
    yield from _column(db, "SELECT request_id FROM turns WHERE session_key = ? AND status = 'in_progress'", key)
    sql = f"SELECT turn FROM entries WHERE id >= ? AND id < ? AND turn IS NOT NULL AND kind IN {ENDS}"
    for first, beyond in ranges:
        yield from _column(db, sql, first, beyond)


def _column(db: apsw.Connection, sql: str, *values: int) -> list[str]:
    return [str(row[0]) for row in db.execute(sql, values).fetchall()]


def _rows(db: apsw.Connection, key: int, cover: Sequence[str], limit: int, after: int = 0) -> list[int]:
    rows = db.execute(
        "SELECT rowid FROM grams WHERE grams MATCH ? AND rowid > ? AND rowid < ? ORDER BY rowid LIMIT ?",
        (_expression(cover), max(entry_id(key, 0), after), entry_id(key + 1, 0), limit),
    )
    return [int(row[0]) for row in rows]


def _expression(cover: Sequence[str]) -> str:
    """Return what a row must have, in FTS5's language: all grams of one of the parts."""
    each = (" AND ".join(_quoted(gram) for gram in _grams(part)) for part in cover)
    return " OR ".join([*(f"({grams})" for grams in each), f'"{_ANYTHING}"'])


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
