"""A connection to an SQL database as the shared statements use it, and what is written differently in each database.

Statements have `?` for each value. Their text is the same for every call, so that a database can prepare it once.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Row = tuple[Any, ...]

# Stands for no limit, in a statement that has one.
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
    value that `pattern` makes of a GLOB.
    """

    position: str
    tagged: str
    subagent: str
    fits: str
    pattern: Callable[[str], str]


def upsert(table: str, key: str, *others: str) -> str:
    """Return the statement that stores a row in place of the one with the same key."""
    columns = (*key.split(", "), *others)
    changes = ", ".join(f"{name} = excluded.{name}" for name in others)
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
        f" ON CONFLICT ({key}) DO {f'UPDATE SET {changes}' if changes else 'NOTHING'}"
    )


def is_one_of(column: str, wanted: Iterable[str], values: list[Any]) -> str:
    """Return the condition that a column holds one of the wanted values, adding them to the bound ones."""
    added = list(wanted)
    values.extend(added)
    return f"{column} IN ({', '.join('?' * len(added))})" if added else "FALSE"
