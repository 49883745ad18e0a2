"""Rows of a session's tables with the session's key, which every primary key has in PostgreSQL.

The embedded store tells the session by the id of an entry, and the shared statements store rows without it.
A session's key holds the month in which it was recorded, in its upper bits: tables are partitioned by month.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

from shiftlog.store.sql.database import Put, Row
from shiftlog.store.sql.rows import SEQ_BITS

# The lower bits of a session's key number the sessions; the upper ones are months since January 2020.
NUMBER_BITS = 29
MONTHS_AHEAD = 3

_KEY = "session_key"
# The columns that hold the id of an entry.
_IDS = {"entries": "id", "found": "id", "blob_uses": "entry_id"}
_TABLES = frozenset((*_IDS, "turn_files"))


def distributed(put: Put, rows: Sequence[Row]) -> tuple[Put, Iterable[Row]]:
    """Return the statement and its rows with the key of the session first."""
    if put.table not in _TABLES:
        return put, rows
    made, place, is_id = _with_key(put)
    if is_id:
        return made, [(row[place] >> SEQ_BITS, *row) for row in rows]
    return made, [(row[place], *row[:place], *row[place + 1 :]) for row in rows]


@cache
def _with_key(put: Put) -> tuple[Put, int, bool]:
    """Return the statement with the session's key, where a row has that key, and whether it is the id of an entry."""
    is_id = _KEY not in put.columns
    place = put.columns.index(_IDS[put.table] if is_id else _KEY)
    key = (_KEY, *put.key)
    columns = (_KEY, *(name for name in put.columns if name != _KEY))
    conflict = put.conflict.replace(f"ON CONFLICT ({', '.join(put.key)})", f"ON CONFLICT ({', '.join(key)})")
    sql = f"INSERT INTO {put.table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}){conflict}"
    return replace(put, key=key, columns=columns, conflict=conflict, sql=sql), place, is_id
