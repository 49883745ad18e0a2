"""Months of a PostgreSQL store: their sizes, and removing sessions whose entries are in an archive.

A month from which every session was archived is detached and dropped, which frees its space at once; from other months
rows are deleted.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from shiftlog.store.postgres.distribution import NUMBER_BITS
from shiftlog.store.sql.database import Database
from shiftlog.store.sql.reader import SqlReader
from shiftlog.store.sql.rows import SEQ_BITS, entry_id

EARLIER, DEFAULT = "earlier", "default"
_BASE = 2020
PARTITIONED = ("entries", "found")


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthSize:
    """A partition: sessions and entries that it has, and its bytes on disk with indexes."""

    name: str
    sessions: int
    entries: int
    bytes: int


def month_of(key: int) -> str:
    """Return the name of the month in which a session was recorded, `earlier` if it is older than months."""
    month = key >> NUMBER_BITS
    return f"{_BASE + month // 12}-{month % 12 + 1:02d}" if month else EARLIER


def months(reader: SqlReader) -> list[MonthSize]:
    """Return the partitions, oldest first."""
    sizes: dict[str, int] = {}
    for parent in PARTITIONED:
        rows = reader.rows(
            "SELECT c.relname, pg_total_relation_size(c.oid) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
            " WHERE i.inhparent = ?::regclass",
            parent,
        )
        for table, size in rows:
            name = _shown(str(table).removeprefix(f"{parent}_"))
            sizes[name] = sizes.get(name, 0) + int(size)
    bound = "SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE oid = 'entries_earlier'::regclass"
    beyond_earlier = int(re.findall(r"\d+", next(iter(reader.rows(bound)))[0])[-1])
    counted: dict[str, tuple[int, int]] = {}
    for month, sessions, entries in reader.rows(
        f"SELECT key >> {NUMBER_BITS}, count(*), sum(head_seq) FROM journals WHERE head_seq > 0 GROUP BY 1"
    ):
        name = month_of(int(month) << NUMBER_BITS)
        if name not in sizes:
            name = EARLIER if int(month) << (SEQ_BITS + NUMBER_BITS) < beyond_earlier else DEFAULT
        before = counted.get(name, (0, 0))
        counted[name] = before[0] + int(sessions), before[1] + int(entries)
    order = sorted(sizes, key=lambda name: (name == DEFAULT, name != EARLIER, name))
    return [
        MonthSize(name=name, sessions=counted.get(name, (0, 0))[0], entries=counted.get(name, (0, 0))[1], bytes=size)
        for name in order
        for size in (sizes[name],)
    ]


def _shown(suffix: str) -> str:
    return suffix if suffix in (EARLIER, DEFAULT) else suffix.replace("_", "-")


def remove(db: Database, keys: Sequence[int]) -> list[str]:
    """Remove the entries of sessions, whose rows are locked, and all that follows from them; return dropped months.

    The heads stay, but for the number of entries: nothing can be appended before the entries are back.
    """
    given = list(keys)
    db.execute("UPDATE journals SET head_seq = 0 WHERE key = ANY (?)", (given,))
    for table in ("turn_tags", "turn_files", "turns"):
        db.execute(f"DELETE FROM {table} WHERE session_key = ANY (?)", (given,))
    for table in ("grams", "gram_marks"):
        db.execute(f"DELETE FROM {table} WHERE session_key = ANY (?)", (given,))
    _remove_texts(db, given)
    dropped: list[str] = []
    for month in sorted({key >> NUMBER_BITS for key in given}):
        own = [key for key in given if key >> NUMBER_BITS == month]
        if _drop(db, month):
            dropped.append(month_of(month << NUMBER_BITS))
            continue
        for table in PARTITIONED:
            db.executemany(
                f"DELETE FROM {table} WHERE id >= ? AND id < ?",
                [(entry_id(key, 0), entry_id(key + 1, 0)) for key in own],
            )
    return dropped


def _remove_texts(db: Database, keys: list[int]) -> None:
    """Remove long texts that no other session has."""
    rows = db.execute("DELETE FROM blob_uses WHERE session_key = ANY (?) RETURNING hash", (keys,)).fetchall()
    hashes = sorted({bytes(row[0]) for row in rows})
    # Waits for transactions that store the same texts; only then are their uses seen.
    db.execute("SELECT 1 FROM blobs WHERE hash = ANY (?) ORDER BY hash FOR UPDATE", (hashes,)).fetchall()
    db.execute(
        "DELETE FROM blobs b WHERE hash = ANY (?) AND NOT EXISTS (SELECT 1 FROM blob_uses u WHERE u.hash = b.hash)",
        (hashes,),
    )


def _drop(db: Database, month: int) -> bool:
    """Drop the tables of a month in the past that no session is left in."""
    if not month:
        return False
    first, beyond = month << NUMBER_BITS, (month + 1) << NUMBER_BITS
    row = db.execute(
        "SELECT to_regclass(?) IS NOT NULL AND session_month(now()) > ? AND NOT EXISTS"
        " (SELECT 1 FROM journals WHERE key >= ? AND key < ? AND head_seq > 0)",
        (f"entries_{month_of(first).replace('-', '_')}", month, first, beyond),
    ).fetchone()
    if not row[0]:
        return False
    # Others wait behind this lock, so it must come soon or not at all.
    db.execute("SELECT set_config('lock_timeout', '5s', true)")
    for table in PARTITIONED:
        name = f"{table}_{month_of(first).replace('-', '_')}"
        db.execute(f"ALTER TABLE {table} DETACH PARTITION {name}")
        db.execute(f"DROP TABLE {name}")
    return True
