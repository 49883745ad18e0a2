"""The texts of long sessions in which parts of words are looked for, folded: some entries in each row of `grams`.

A row holds GRAM_ROW entries, and rows are made GRAM_BATCH entries at a time, so a short session has none. `gram_marks`
says how far a session is. Here rows are kept; each store asks them in its own way.
"""

from functools import partial

from shiftlog.model.turn_texts import texts_in
from shiftlog.store.codec.documents import decode_body
from shiftlog.store.sql.database import Database, Row
from shiftlog.store.sql.rows import SEQ_BITS, SEQ_LIMIT, entry_id, fetch_blob

GRAM_ROW = 16
GRAM_BATCH = 256
# With more entries than this outside the rows, reading all turns in their order is quicker.
MOST_UNREACHED = 8 * GRAM_BATCH
# A longer entry counts as several short ones.
SHORT_CHARS = 256

# Stands in a row for texts that cannot be read here: an entry that is erased or damaged. It matches every search.
ANYTHING = "\x02\x02\x02"
# The entries that a turn has its texts from.
KINDS = "('turn.begun', 'turn.updated', 'dialog', 'action', 'turn.completed', 'turn.failed', 'import.noted')"
# Fields of a body that no turn is found by: hashes and ids, in which any three digits stand sooner or later.
_NO_TEXTS = frozenset({"seal", "record", "vendor", "call_id"})


class Grams:
    """The rows of a database: the statements that add one, by the id of its first entry and its text, and remove it."""

    def __init__(self, *, insert: str, delete: str) -> None:
        self._insert = insert
        self._delete = delete

    def cover(self, db: Database, key: int, last: int, most: int) -> int:
        """Add rows for whole batches up to an entry until so many short entries are spent; return how many were."""
        end = start = mark(db, key)
        spent = 0
        while end + GRAM_BATCH <= last and spent < most:
            spent += max(self._cover_batch(db, key, end) // SHORT_CHARS, GRAM_BATCH)
            end += GRAM_BATCH
        if end > start:
            db.execute(
                "INSERT INTO gram_marks (session_key, seq) VALUES (?, ?)"
                " ON CONFLICT (session_key) DO UPDATE SET seq = excluded.seq",
                (key, end),
            )
        return spent

    def _cover_batch(self, db: Database, key: int, start: int) -> int:
        """Add the rows of one batch and return how many characters it had."""
        rows: list[Row] = db.execute(
            f"SELECT turn, kind, CASE WHEN turn IS NOT NULL AND kind IN {KINDS} THEN body ELSE ? END FROM entries"
            " WHERE id > ? AND id <= ? ORDER BY id",
            (b"", entry_id(key, start), entry_id(key, start + GRAM_BATCH)),
        ).fetchall()
        texts = [text_of(db, *row) for row in rows]
        for place in range(0, GRAM_BATCH, GRAM_ROW):
            text = "\n".join(texts[place : place + GRAM_ROW])
            db.execute(self._insert, (entry_id(key, start + place + 1), text))
        return sum(map(len, texts))

    def forget(self, db: Database, row_id: int) -> None:
        """Remove an entry and those after it in its session."""
        key, seq = row_id >> SEQ_BITS, row_id & (SEQ_LIMIT - 1)
        before, kept = mark(db, key), max(seq - 1, 0) // GRAM_BATCH * GRAM_BATCH
        if kept < before:
            for start in range(kept, before, GRAM_ROW):
                db.execute(self._delete, (entry_id(key, start + 1),))
            db.execute("UPDATE gram_marks SET seq = ? WHERE session_key = ?", (kept, key))


def head(db: Database, key: int) -> int:
    """Return the seq of the last entry of a session."""
    row: Row | None = db.execute("SELECT head_seq FROM journals WHERE key = ?", (key,)).fetchone()
    return int(row[0]) if row else 0


def mark(db: Database, key: int) -> int:
    """Return the seq up to which a session has rows."""
    row: Row | None = db.execute("SELECT seq FROM gram_marks WHERE session_key = ?", (key,)).fetchone()
    return int(row[0]) if row else 0


def is_behind(db: Database, key: int) -> bool:
    """Return True if a session lacks more rows than ordinary writes ever leave, as after an import."""
    return head(db, key) - mark(db, key) >= 2 * GRAM_BATCH


def text_of(db: Database, turn: str | None, kind: str, body: bytes | None) -> str:
    """Return the folded text that an entry adds to its turn."""
    if body == b"" or turn is None:
        return ""
    try:
        document = decode_body(body or b"", partial(fetch_blob, db))
    except ValueError:
        return ANYTHING
    texts = list(texts_in([value for name, value in document.items() if name not in _NO_TEXTS]))
    if kind == "turn.begun":
        # A turn without title and text of its own is shown with those of others.
        texts.append(turn if "query_title" in document and "query_text" in document else turn + ANYTHING)
    return "\n".join(texts).casefold()
