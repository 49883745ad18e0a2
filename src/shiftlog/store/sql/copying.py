"""Copying the facts of one store into another, table by table in the order of keys.

The stores have the same tables of facts, and an entry keeps its id, so rows are copied as they are. Projections and the
search index are not copied: `rebuild` makes them. A copy that was ended goes on after the last row that was stored.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from shiftlog.model.errors import StorageError
from shiftlog.store.sql.database import Row, upsert
from shiftlog.store.sql.reader import SqlReader
from shiftlog.store.sql.writer import SqlWriter

ROWS_AT_ONCE = 500
_MARK = "copy:"

# Every table of facts with its key and its other columns; entries come before the journals that name their heads.
FACTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "entries": ("id", ("kind", "at", "turn", "facet", "body", "salt", "body_hash", "hash")),
    "blobs": ("hash", ("chars", "data")),
    "blob_uses": ("hash, entry_id", ()),
    "journals": ("key", ("id", "head_seq", "head_hash")),
    "receipts": ("session_id, seq", ("doc",)),
    "answers": ("scope, key", ("session_id", "at_ms", "doc")),
    "outcomes": ("hour, client_id, call_id", ("at_ms", "doc")),
    "leases": ("session_id", ("client_id", "expires_ms", "doc")),
    "grants": ("session_id, client_id", ("fence", "at_ms")),
    "client_agents": ("client_id", ("agent_key", "at_ms")),
    "client_turns": ("session_id, client_id", ("request_id", "at_ms")),
    "tokens": ("hash", ("session_id", "issued_ms", "expires_ms", "used_ms", "revoked_ms")),
    "pointers": ("workspace, agent", ("session_id",)),
    "sources": ("path", ("doc",)),
    "source_states": ("path", ("state",)),
    "origins": ("key", ("session_key", "turn", "doc")),
    "imported": ("session_id", ("doc",)),
    "project_paths": ("path", ("project",)),
    "holds": ("scope, name, at_ms", ("lifted_ms", "doc")),
    "archived": ("session_id", ("doc",)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FactCounts:
    """The number of rows in each table of facts, and a digest of all heads."""

    rows: dict[str, int]
    heads: str
    last_alias: int


def counted(reader: SqlReader) -> FactCounts:
    """Count the facts of a store."""
    digest = hashlib.sha256()
    for name, seq, head in reader.rows("SELECT id, head_seq, head_hash FROM journals ORDER BY key"):
        digest.update(f"{name} {seq} {bytes(head).hex()}\n".encode())
    rows = {table: int(next(iter(reader.rows(f"SELECT count(*) FROM {table}")))[0]) for table in FACTS}
    return FactCounts(rows=rows, heads=digest.hexdigest(), last_alias=reader.last_alias())


def begin(writer: SqlWriter, source: FactCounts) -> bool:
    """Mark a store as a copy that is not whole yet; return True if an earlier one of the same source goes on.

    Raises StorageError if the store holds anything else.
    """
    marks = [str(row[0]) for row in writer.rows("SELECT projection FROM unbuilt") if str(row[0]).startswith(_MARK)]
    if marks == [_MARK + source.heads]:
        return True
    if marks:
        raise _refused("it holds a part of another copy, or its source has changed since")
    if any(writer.rows("SELECT 1 FROM journals LIMIT 1")):
        raise _refused("it is not empty")
    writer.rows("INSERT INTO unbuilt VALUES (?)", _MARK + source.heads)
    writer.put_projection_version(0)
    return False


def _refused(reason: str) -> StorageError:
    return StorageError(
        "Storage error", details={"reason": f"the store to copy to: {reason}"}, hint="Copy to a new file or database"
    )


def last_key(reader: SqlReader, table: str) -> Row | None:
    """Return the key of the last row of a table."""
    key, _ = FACTS[table]
    order = ", ".join(f"{name} DESC" for name in key.split(", "))
    return next(iter(reader.rows(f"SELECT {key} FROM {table} ORDER BY {order} LIMIT 1")), None)


def read_part(reader: SqlReader, table: str, after: Row | None) -> list[Row]:
    """Return the next rows of a table after a key."""
    key, others = FACTS[table]
    columns = ", ".join((key, *others))
    marks = ", ".join("?" * len(key.split(", ")))
    where = "" if after is None else f" WHERE ({key}) > ({marks})"
    return list(
        reader.rows(f"SELECT {columns} FROM {table}{where} ORDER BY {key} LIMIT ?", *(after or ()), ROWS_AT_ONCE)
    )


def key_of(table: str, row: Row) -> Row:
    """Return the key of a row that `read_part` returned."""
    return row[: len(FACTS[table][0].split(", "))]


def storing(table: str, rows: list[Row]) -> Callable[[SqlWriter], None]:
    """Return the work that stores rows of a table."""
    key, others = FACTS[table]
    return lambda writer: writer.put_rows(upsert(table, key, *others), rows)


def finish(writer: SqlWriter, source: FactCounts) -> None:
    """Let new sessions and runs have numbers of their own, and remove the mark."""
    writer.put_last_numbers(source.last_alias)
    writer.rows("DELETE FROM unbuilt WHERE projection = ?", _MARK + source.heads)
