"""Entries as rows: the id that holds session and seq, hashes as bytes, long texts in blobs."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from shiftlog.model.entry import Entry, Kind
from shiftlog.store.codec import blobs
from shiftlog.store.codec.documents import decode_body
from shiftlog.store.sql.database import Database, Put, Row, Rows

SEQ_BITS = 24
SEQ_LIMIT = 1 << SEQ_BITS
ENTRY_COLUMNS = "id, kind, at, turn, body, salt, body_hash, hash"

# The keys of an outcome that says only that an entry was written.
RECEIPT_KEYS = frozenset({"code", "session_id", "seq", "hash", "redactions"})

_KINDS = {str(kind): kind for kind in Kind}


def entry_id(session_key: int, seq: int) -> int:
    """Return the id of an entry, from which the full-text index alone can tell the session."""
    if not 0 <= seq < SEQ_LIMIT:
        raise OverflowError(f"a session holds at most {SEQ_LIMIT - 1} entries")
    return (session_key << SEQ_BITS) + seq


def whole_second_ms(at: datetime) -> int:
    """Return the sort key of an activity: whole seconds, so that a burst of writes changes no index."""
    return int(at.timestamp()) * 1000


def time_of_ms(ms: int) -> datetime:
    """Return the time of a column that holds milliseconds."""
    return datetime.fromtimestamp(ms / 1000, UTC)


def hour_of(at: datetime) -> int:
    """Return the hour under which an outcome is stored, so that old ones are removed without another index."""
    return int(at.timestamp()) // 3600


def hash_shown(data: bytes) -> str:
    """Return a hash as it is shown."""
    return "sha256:" + data.hex()


def fetch_blob(db: Database, digest: bytes) -> str:
    """Return a long text; a blob that is gone or damaged reads as text that says so, and verify finds the entry."""
    row = db.execute("SELECT data FROM blobs WHERE hash = ?", (digest,)).fetchone()
    try:
        return blobs.unpack(bytes(row[0])) if row else f"[missing text {digest.hex()}]"
    except ValueError:
        return f"[unreadable text {digest.hex()}]"


def entry_of(db: Database, row: Row) -> Entry:
    """Return the entry of a row of ENTRY_COLUMNS."""
    row_id, kind, at, turn, body, salt, body_hash, digest = row
    return Entry(
        seq=row_id & (SEQ_LIMIT - 1),
        kind=_kind_of(kind),
        at=time_of(at),
        turn=turn,
        body=None if body is None else _body_of(db, body),
        salt=salt,
        body_hash=hash_shown(body_hash),
        hash=hash_shown(digest),
    )


# A row changed behind our back must still be readable, so that verify can name it: its hash will not fit.


def _kind_of(text: str) -> Kind:
    return _KINDS.get(text, Kind.ERASED)


def time_of(text: str) -> datetime:
    """Return a time as it is written in a row; one that was tampered with is the beginning of time."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return datetime.fromtimestamp(0, UTC)


def _body_of(db: Database, data: bytes) -> dict[str, Any]:
    try:
        return decode_body(data, partial(fetch_blob, db))
    except ValueError:
        return {"unreadable": True}


class Queries:
    """Reading over one connection, inside one transaction."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def rows(self, sql: str, *values: Any) -> Rows:
        """Run a statement that copies between stores have; all others are in the facets."""
        return self._db.execute(sql, values)

    def _value(self, sql: str, *values: Any) -> Any:
        row = self._db.execute(sql, values).fetchone()
        return None if row is None else row[0]


class Changes(Queries):
    """Writing over one connection, inside one transaction."""

    def _put(self, put: Put, row: Row) -> None:
        """Store a row; a store may delay it while no statement can see the difference."""
        self._db.execute(put.sql, row)

    def _put_all(self, put: Put, rows: Sequence[Row]) -> None:
        """Store several rows of a table."""
        self._db.executemany(put.sql, rows)
