"""Reading one consistent state of tables: the `Reader` half of a store, but for search."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from shiftlog.model.entry import Entry, Kind
from shiftlog.model.ids import is_vendor_id
from shiftlog.model.nouns import FileTouch, Receipt, Session, Turn
from shiftlog.store.codec.documents import decode_noun, decode_turn
from shiftlog.store.protocol import EntryRow, FileRow, Filter, Indexed, Page, SessionRow, TurnRow
from shiftlog.store.sql.clients import SqlClientReader
from shiftlog.store.sql.comparing import Comparison
from shiftlog.store.sql.database import NO_LIMIT, Database, Row, is_one_of
from shiftlog.store.sql.filters import FilterSql, add_span
from shiftlog.store.sql.imports import SqlImportReader
from shiftlog.store.sql.keeping import SqlKeepingReader
from shiftlog.store.sql.rows import (
    ENTRY_COLUMNS,
    SEQ_LIMIT,
    entry_id,
    entry_of,
    fetch_blob,
    hash_shown,
    time_of,
)
from shiftlog.store.sql.tallies import are_right, read_tallies
from shiftlog.store.tallies import Figures, TallyKey

_FILES = (
    "turn_files f JOIN turns t ON t.key = f.turn_key AND t.session_key = f.session_key"
    " JOIN sessions s ON s.key = f.session_key"
)


class SqlReader(SqlClientReader, SqlImportReader, SqlKeepingReader):
    """The questions that every store in tables answers alike, over one connection inside one transaction."""

    # How the database spells filters, and what of a session has a column of its own there.
    _filters: FilterSql
    _columns: Callable[[Session], dict[str, Any]]

    def __init__(self, db: Database) -> None:
        super().__init__(db)
        self._keys: dict[str, int] = {}

    # Single things

    def _key(self, session_id: str) -> int | None:
        key = self._keys.get(session_id)
        if key is None:
            key = self._value("SELECT key FROM journals WHERE id = ?", session_id)
            if key is not None:
                self._keys[session_id] = key
        return key

    def session(self, session_id: str) -> Session | None:
        row = self._db.execute("SELECT key, doc FROM sessions WHERE id = ?", (session_id,)).fetchone()
        if row is None:
            return None
        self._keys[session_id] = row[0]
        return decode_noun(row[1], Session)

    def session_id_of_alias(self, alias: int) -> str | None:
        return self._value("SELECT id FROM sessions WHERE run_alias = ?", alias)

    def session_ids_of_vendor(self, vendor_session_id: str) -> list[str]:
        rows = self._db.execute(
            "SELECT id FROM sessions WHERE vendor_id = ? AND hidden = 0 ORDER BY key",
            (vendor_session_id.lower(),),
        )
        found = [str(row[0]) for row in rows]
        if is_vendor_id(vendor_session_id):
            return found
        kept = ((name, self.session(name)) for name in found)
        return [name for name, session in kept if session and session.vendor_session_id == vendor_session_id]

    def session_ids(self) -> list[str]:
        # A head without entries is damage, unless the archive of the session is known.
        rows = self._db.execute(
            "SELECT id FROM journals j WHERE head_seq > 0"
            " OR NOT EXISTS (SELECT 1 FROM archived a WHERE a.session_id = j.id) ORDER BY key"
        )
        return [str(row[0]) for row in rows]

    def session_names(self) -> list[tuple[str, str | None]]:
        rows = self._db.execute("SELECT id, vendor_id FROM sessions WHERE hidden = 0 ORDER BY key")
        return [(str(name), vendor_id) for name, vendor_id in rows]

    def head(self, session_id: str) -> tuple[int, str] | None:
        row = self._db.execute("SELECT head_seq, head_hash FROM journals WHERE id = ?", (session_id,)).fetchone()
        return None if row is None else (int(row[0]), hash_shown(row[1]))

    def turn(self, session_id: str, request_id: str) -> Turn | None:
        row = self._db.execute(
            "SELECT doc FROM turns WHERE session_key = ? AND request_id = ?",
            (self._key(session_id), request_id),
        ).fetchone()
        return None if row is None else self._turn_of(row[0])

    def turns(self, session_id: str, *, after: int = 0, limit: int | None = None) -> list[Turn]:
        rows = self._db.execute(
            "SELECT doc FROM turns WHERE session_key = ? AND ordinal > ? ORDER BY ordinal LIMIT ?",
            (self._key(session_id), after, NO_LIMIT if limit is None else limit),
        )
        return [self._turn_of(row[0]) for row in rows]

    def _turn_of(self, data: bytes) -> Turn:
        return decode_turn(data, partial(fetch_blob, self._db))

    def differences(self, session: Session, turns: Mapping[str, Turn], items: Iterable[Indexed]) -> Iterator[str]:
        key = self._key(session.id)
        if key is None:
            return
        comparison = Comparison(self._db, key, self._columns)
        yield from comparison.session(session)
        yield from comparison.turns(turns)
        yield from comparison.facets(items)

    def entries(
        self,
        session_id: str,
        *,
        after: int = 0,
        until: int | None = None,
        limit: int | None = None,
        turn: str | None = None,
        kinds: Iterable[Kind] | None = None,
    ) -> list[Entry]:
        key = self._key(session_id)
        if key is None:
            return []
        # A seq outside the range would name an entry of a neighbouring session.
        first, last = (min(max(seq, 0), SEQ_LIMIT - 1) for seq in (after, SEQ_LIMIT if until is None else until))
        values: list[Any] = [entry_id(key, first), entry_id(key, last)]
        sql = f"SELECT {ENTRY_COLUMNS} FROM entries WHERE id > ? AND id <= ?"
        if turn is not None:
            sql += " AND turn = ?"
            values.append(turn)
        if kinds is not None:
            sql += f" AND {is_one_of('kind', [str(kind) for kind in kinds], values)}"
        rows = self._db.execute(sql + " ORDER BY id LIMIT ?", (*values, NO_LIMIT if limit is None else limit))
        return [entry_of(self._db, row) for row in rows.fetchall()]

    # Lists

    def find_sessions(self, where: Filter, page: Page, *, by_activity: bool = False) -> list[SessionRow]:
        time = "s.active_ms" if by_activity else "s.started_ms"
        clauses, values = self._filters.of_sessions(where)
        order = _paged(page, (time, "s.key"), clauses, values)
        rows = self._db.execute(
            f"SELECT s.doc, {time}, s.key FROM sessions s WHERE {' AND '.join(clauses)} ORDER BY {order} LIMIT ?",
            (*values, page.limit),
        )
        return [SessionRow(session=decode_noun(doc, Session), at=(ms, key)) for doc, ms, key in rows]

    def find_turns(self, where: Filter, page: Page) -> list[TurnRow]:
        clauses, values = self._filters.of_turns(where)
        order = _paged(page, ("t.begun_ms", "t.key"), clauses, values)
        rows: list[Row] = self._db.execute(
            "SELECT s.doc, t.doc, t.begun_ms, t.key FROM turns t JOIN sessions s ON s.key = t.session_key"
            f" WHERE {' AND '.join(clauses)} ORDER BY {order} LIMIT ?",
            (*values, page.limit),
        ).fetchall()
        return [TurnRow(session=decode_noun(s, Session), turn=self._turn_of(t), at=(ms, key)) for s, t, ms, key in rows]

    def find_files(self, where: Filter, page: Page) -> list[FileRow]:
        clauses, values = self._filters.of_files(where)
        order = _paged(page, ("f.turn_key", "f.place"), clauses, values)
        rows = self._db.execute(
            "SELECT s.id, t.request_id, f.path, f.changes, f.last_type, f.seq, f.turn_key, f.place,"
            f" {self._filters.touched} FROM {_FILES}"
            f" WHERE {' AND '.join(clauses)} ORDER BY {order} LIMIT ?",
            (*values, page.limit),
        )
        return [
            FileRow(
                session_id=session_id,
                request_id=request_id,
                path=path,
                touch=FileTouch(changes=changes, last_type=last_type, seq=seq),
                touched=None if touched is None else time_of(touched),
                at=(turn_key, place),
            )
            for session_id, request_id, path, changes, last_type, seq, turn_key, place, touched in rows
        ]

    def find_entries(self, where: Filter, page: Page, facets: Iterable[str] | None) -> list[EntryRow]:
        clauses, values = self._entry_conditions(where, facets)
        order = _paged(page, ("e.id",), clauses, values)
        columns = ", ".join("e." + name for name in ENTRY_COLUMNS.split(", "))
        rows: list[Row] = self._db.execute(
            f"SELECT s.id, {columns} FROM entries e JOIN sessions s ON s.key = {self._filters.session_key('e')}"
            f" WHERE {' AND '.join(clauses)} ORDER BY {order} LIMIT ?",
            (*values, page.limit),
        ).fetchall()
        return [EntryRow(session_id=row[0], entry=entry_of(self._db, row[1:]), at=(row[1], 0)) for row in rows]

    def count(self, what: str, where: Filter, facets: Iterable[str] | None = None) -> int:
        if what == "session":
            clauses, values = self._filters.of_sessions(where)
            source = "count(*) FROM sessions s"
        elif what == "turn":
            clauses, values = self._filters.of_turns(where)
            source = "count(*) FROM turns t JOIN sessions s ON s.key = t.session_key"
        elif what == "file":
            clauses, values = self._filters.of_files(where)
            source = f"count(*) FROM {_FILES}"
        elif facets is None and where.from_ is None and where.to is None and not where.asks_turn:
            clauses, values = self._filters.of_sessions(where)
            source = "coalesce(sum(s.entries), 0) FROM sessions s"
        else:
            clauses, values = self._entry_conditions(where, facets)
            source = f"count(*) FROM entries e JOIN sessions s ON s.key = {self._filters.session_key('e')}"
        return int(self._value(f"SELECT {source} WHERE {' AND '.join(clauses)}", *values) or 0)

    def _entry_conditions(self, where: Filter, facets: Iterable[str] | None) -> tuple[list[str], list[Any]]:
        clauses, values = self._filters.of_sessions(where)
        if where.session_id is not None:
            key = self._key(where.session_id) or 0
            clauses.append("e.id > ? AND e.id < ?")
            values.extend((entry_id(key, 0), entry_id(key + 1, 0)))
        if facets is not None:
            clauses.append(is_one_of("e.facet", facets, values))
        add_span(where, "e.at", clauses, values)
        self._filters.add_own_turn(where, "e", clauses, values)
        return clauses, values

    def agent_ids(self, *, like: str | None = None, limit: int = 1000) -> list[tuple[str, str]]:
        rows = self._db.execute(
            "SELECT agent_key, min(agent_id) FROM sessions"
            f" WHERE hidden = 0 AND {self._filters.position}(agent_key, ?) > 0"
            " GROUP BY agent_key ORDER BY agent_key LIMIT ?",
            (like or "", limit),
        )
        return [(str(key), str(shown)) for key, shown in rows]

    def receipts(self, session_id: str) -> list[Receipt]:
        rows = self._db.execute("SELECT doc FROM receipts WHERE session_id = ? ORDER BY seq", (session_id,))
        return [decode_noun(row[0], Receipt) for row in rows]

    def projection_version(self) -> int:
        return self._value("SELECT max(version) FROM projection_version") or 0

    def recent_sessions(self, where: Filter, *, offset: int, limit: int) -> list[Session]:
        clauses, values = self._filters.of_sessions(where)
        rows = self._db.execute(
            f"SELECT s.doc FROM sessions s WHERE {' AND '.join(clauses)}"
            " ORDER BY s.active_ms / 1000 DESC, s.id LIMIT ? OFFSET ?",
            (*values, limit, offset),
        )
        return [decode_noun(row[0], Session) for row in rows]

    def tags_of(self, session_id: str) -> list[str]:
        return self._distinct("turn_tags", "tag", session_id)

    def count_files(self, *session_ids: str) -> int:
        return len({path for session_id in session_ids for path in self._distinct("turn_files", "path", session_id)})

    def _distinct(self, table: str, column: str, session_id: str) -> list[str]:
        """Return a session's distinct values in order, leaping from one to the next through the index."""
        least = f"SELECT min({column}) FROM {table} WHERE session_key = ?"
        key = self._key(session_id)
        rows = self._db.execute(
            f"WITH RECURSIVE each(value) AS ({least} UNION ALL"
            f" SELECT ({least} AND {column} > each.value) FROM each WHERE each.value IS NOT NULL)"
            " SELECT value FROM each WHERE value IS NOT NULL",
            (key, key),
        )
        return [str(row[0]) for row in rows]

    def last_alias(self) -> int:
        """Return the number that `next_alias` returned last; 0 if none."""
        raise NotImplementedError

    def tallies_are_right(self) -> bool:
        return are_right(self._db)

    def tallies(self, where: Filter, by: Iterable[str]) -> list[tuple[TallyKey, Figures]] | None:
        return read_tallies(self._db, where, by)


def _paged(page: Page, columns: tuple[str, ...], clauses: list[str], values: list[Any]) -> str:
    """Begin a list after the row where the last page ended; return its order."""
    if page.after is not None:
        marks = ", ".join("?" for _ in columns)
        clauses.append(f"({', '.join(columns)}) {'>' if page.oldest_first else '<'} ({marks})")
        values.extend(page.after[: len(columns)])
    return ", ".join(column if page.oldest_first else f"{column} DESC" for column in columns)
