"""A connection to an SQL database as the shared statements use it, and the parts that each database spells differently.

Statements have `?` for each value. Their text is the same for every call, so that a database can prepare it once.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Row = tuple[Any, ...]

# Used in place of no limit, in statements that need one.
NO_LIMIT = (1 << 62) - 1


class Rows(Protocol):
    """The rows that a statement returned."""

    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Database(Protocol):
    """One connection, inside a transaction."""

    def execute(self, sql: str, values: Sequence[Any] = ..., /) -> Rows: ...
    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """Conditions that each database spells in its own way.

    `position` is the function that finds a text in another one. `tagged` says that the session `s` has a tag of its
    own. `subagent` is NULL if the session `{}` is not a subagent's. A path fits a pattern if it meets `fits` with the
    value that `pattern` makes of a GLOB. `session_key` is the key of the session of an entry `{}`. `ending` makes the
    value by which `{} LIKE ?` finds paths with an ending through an index, where there can be one.
    """

    position: str
    tagged: str
    subagent: str
    fits: str
    pattern: Callable[[str], str]
    session_key: str
    ending: Callable[[str], str] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Put:
    """The statement that stores a row of a table; `key` are its first columns, `conflict` its end after the values."""

    table: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    conflict: str
    sql: str


def insert(table: str, key: str, *others: str, conflict: str = "") -> Put:
    """Return the statement that stores a row whose key is new, unless `conflict` says more."""
    names = tuple(key.split(", "))
    columns = (*names, *others)
    places = ", ".join("?" * len(columns))
    sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places}){conflict}"
    return Put(table, names, columns, conflict, sql)


def upsert(table: str, key: str, *others: str, changes: str | None = None) -> Put:
    """Return the statement that stores a row in place of the one with the same key."""
    changes = changes or ", ".join(f"{name} = excluded.{name}" for name in others)
    action = f"UPDATE SET {changes}" if changes else "NOTHING"
    return insert(table, key, *others, conflict=f" ON CONFLICT ({key}) DO {action}")


def is_one_of(column: str, wanted: Iterable[str], values: list[Any]) -> str:
    """Return the condition that a column holds one of the wanted values, adding them to the bound ones."""
    added = list(wanted)
    values.extend(added)
    return f"{column} IN ({', '.join('?' * len(added))})" if added else "FALSE"
