"""The state that the works of one transaction share: locks, rows that wait for its end, and what was looked up ahead.

Rows wait in memory and go to the server together, many in one statement. A statement that names a table sends the rows
of all tables first, so a work reads what it has written. A session's own rows are found in `recent` instead.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from shiftlog.model.nouns import Lease
from shiftlog.store.sql.database import Put, Row
from shiftlog.store.sql.recent import RecentNouns
from shiftlog.store.tallies import Figures, Tallies

# A statement is prepared for each of these numbers of rows, and no other is ever sent.
_SIZES = (64, 32, 16, 8, 4, 2, 1)
_NAME = re.compile(r"\w+")

Waiting = dict[Put, dict[Row, Row]]


@lru_cache(maxsize=4096)
def _names(sql: str) -> frozenset[str]:
    return frozenset(_NAME.findall(sql))


@lru_cache(maxsize=1024)
def _statement(put: Put, count: int) -> str:
    row = f"({', '.join('?' * len(put.columns))})"
    return f"INSERT INTO {put.table} ({', '.join(put.columns)}) VALUES {', '.join([row] * count)}{put.conflict}"


def _statements(put: Put, rows: Sequence[Row]) -> Iterator[tuple[str, list[Any]]]:
    """Yield the statements that store rows of a table, and their values."""
    start = 0
    for size in _SIZES:
        while len(rows) - start >= size:
            yield _statement(put, size), [value for row in rows[start : start + size] for value in row]
            start += size


@dataclass(slots=True)
class Known:
    """Leases, grants, turns and agents of clients, looked up for all works of a transaction at once."""

    leases: dict[str, Lease | None] = field(default_factory=dict[str, Lease | None])
    grants: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    turns: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    agents: dict[str, str | None] = field(default_factory=dict[str, str | None])

    def forget(self, names: frozenset[str]) -> None:
        """Forget the rows of tables that a statement may change."""
        if "leases" in names:
            self.leases.clear()
        if "grants" in names:
            self.grants.clear()
        if "client_turns" in names:
            self.turns.clear()
        if "client_agents" in names:
            self.agents.clear()


@dataclass(slots=True)
class Pending:
    """The state that the works of a transaction share.

    A tally is shared by many sessions, so its row is locked last, and tallies in the order of their keys. `appended`
    names the sessions that got entries, also from a work that failed.
    """

    appended: set[str] = field(default_factory=set[str])
    held: set[tuple[str, ...]] = field(default_factory=set[tuple[str, ...]])
    recent: RecentNouns = field(default_factory=RecentNouns)
    heads: dict[str, tuple[int, bytes]] = field(default_factory=dict[str, tuple[int, bytes]])
    # Sessions that a work has looked for in vain: it may have decided by that.
    absent: set[str] = field(default_factory=set[str])
    known: Known = field(default_factory=Known)
    tallies: list[Tallies] = field(default_factory=list[Tallies])
    # Bytes of the documents that were stored for each session, by its key.
    sizes: Counter[int] = field(default_factory=Counter[int])
    # Rows by their statement and key: of finished works, and of the one that runs.
    _rows: Waiting = field(default_factory=dict[Put, dict[Row, Row]])
    _own_rows: Waiting = field(default_factory=dict[Put, dict[Row, Row]])
    _tables: set[str] = field(default_factory=set[str])
    _mark: int = 0

    def put(self, put: Put, rows: Iterable[Row]) -> None:
        """Keep rows for the end of the transaction; of two with the same key the later one counts."""
        waiting = self._own_rows.get(put)
        if waiting is None:
            waiting = self._own_rows[put] = {}
            self._tables.add(put.table)
            self.known.forget(frozenset((put.table,)))
        width = len(put.key)
        for row in rows:
            waiting[row[:width]] = row

    def is_waiting(self, put: Put, key: Row) -> bool:
        """Return True if a row with this key waits."""
        return any(key in rows.get(put, ()) for rows in (self._own_rows, self._rows))

    def concerns(self, sql: str) -> bool:
        """Return True if a statement may read or change rows that wait; known rows that it may change are forgotten."""
        names = _names(sql)
        if not sql.startswith("SELECT"):
            self.known.forget(names)
        return not self._tables.isdisjoint(names)

    @property
    def has_own_rows(self) -> bool:
        """Return True if rows of the running work wait."""
        return bool(self._own_rows)

    def taken(self) -> Iterator[tuple[str, list[Any]]]:
        """Yield the statements for all rows of finished works, which no longer wait."""
        waiting, self._rows = self._rows, {}
        self._tables = {put.table for put in self._own_rows}
        for put in sorted(waiting, key=lambda each: each.table):
            rows = waiting[put]
            # In the order of their keys, so that transactions lock them in one order.
            yield from _statements(put, [rows[key] for key in sorted(rows)])

    def begin_work(self) -> None:
        """Note where a work begins."""
        self._mark = len(self.tallies)

    def keep_work(self) -> None:
        """Let the rows of a work wait with those of the works before."""
        for put, rows in self._own_rows.items():
            self._rows.setdefault(put, {}).update(rows)
        self._own_rows = {}

    def drop_work(self) -> None:
        """Forget a failed work; the caller has sent the rows of the works before.

        PostgreSQL releases the locks that were taken since a savepoint, so they are taken again.
        """
        self._own_rows = {}
        self._tables.clear()
        self.held.clear()
        self.recent.forget()
        self.heads.clear()
        self.absent.clear()
        self.known = Known()
        del self.tallies[self._mark :]

    def summed_tallies(self) -> Tallies:
        """Return the sums of the waiting changes of tallies, in the order of keys; they no longer wait."""
        sums: Tallies = {}
        for changes in self.tallies:
            for key, figures in changes.items():
                sums[key] = sums.get(key, Figures()).plus(figures)
        self.tallies.clear()
        self._mark = 0
        return {key: sums[key] for key in sorted(sums, key=repr) if sums[key] != Figures()}
