"""Reading one consistent state of the SQLite file: the `Reader` half of the store."""

from collections.abc import Iterable
from typing import Any

import apsw

from shiftlog.model.entry import Body, Entry, Kind
from shiftlog.model.nouns import FileTouch, Lease, Receipt, Session, Turn
from shiftlog.model.search import Expr
from shiftlog.store import blobs
from shiftlog.store.documents import decode, from_document
from shiftlog.store.protocol import (
    Answer,
    Counts,
    EntryRow,
    FileRow,
    Filter,
    Found,
    Hit,
    Page,
    SessionRow,
    TurnRow,
)
from shiftlog.store.sqlite.filters import match_expression, session_conditions, turn_conditions
from shiftlog.store.sqlite.rows import ENTRY_COLUMNS, SEQ_BITS, SEQ_LIMIT, entry_id, entry_of, fetch_blob, hash_shown


class SqliteReader:
    """The questions that the store answers, over one connection inside one transaction."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db
        self._keys: dict[str, int] = {}

    # Single things

    def _key(self, session_id: str) -> int | None:
        key = self._keys.get(session_id)
        if key is None:
            row = self._db.execute("SELECT key FROM journals WHERE id = ?", (session_id,)).fetchone()
            if row is None:
                return None
            key = self._keys[session_id] = int(row[0])
        return key

    def session(self, session_id: str) -> Session | None:
        row = self._db.execute("SELECT key, doc FROM sessions WHERE id = ?", (session_id,)).fetchone()
        if row is None:
            return None
        self._keys[session_id] = row[0]
        return from_document(decode(row[1]), Session)

    def session_id_of_alias(self, alias: int) -> str | None:
        return self._value("SELECT id FROM sessions WHERE run_alias = ?", alias)

    def session_ids_of_vendor(self, vendor_session_id: str) -> list[str]:
        rows = self._db.execute(
            "SELECT id FROM sessions WHERE vendor_id = ? AND hidden = 0 ORDER BY key",
            (vendor_session_id.lower(),),
        )
        return [str(row[0]) for row in rows]

    def session_ids(self) -> list[str]:
        return [str(row[0]) for row in self._db.execute("SELECT id FROM journals ORDER BY key")]

    def head(self, session_id: str) -> tuple[int, str] | None:
        row = self._db.execute(
            "SELECT head_seq, head_hash FROM journals WHERE id = ?", (session_id,)
        ).fetchone()
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
            (self._key(session_id), after, -1 if limit is None else limit),
        )
        return [self._turn_of(row[0]) for row in rows]

    def _turn_of(self, data: bytes) -> Turn:
        document = decode(data)
        if b'"$blob"' in data:
            document = blobs.internalise(document, lambda digest: fetch_blob(self._db, digest))
        return from_document(document, Turn)

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
        last = SEQ_LIMIT - 1 if until is None else until
        values: list[Any] = [entry_id(key, after), entry_id(key, min(last, SEQ_LIMIT - 1))]
        sql = f"SELECT {ENTRY_COLUMNS} FROM entries WHERE id > ? AND id <= ?"
        if turn is not None:
            sql += " AND turn = ?"
            values.append(turn)
        if kinds is not None:
            wanted = [str(kind) for kind in kinds]
            sql += f" AND kind IN ({', '.join('?' * len(wanted))})"
            values.extend(wanted)
        rows = self._db.execute(sql + " ORDER BY id LIMIT ?", (*values, -1 if limit is None else limit))
        return [entry_of(self._db, row) for row in rows.fetchall()]

    # Lists

    def find_sessions(self, where: Filter, page: Page, *, by_activity: bool = False) -> list[SessionRow]:
        time = "s.active_ms" if by_activity else "s.started_ms"
        clauses, values = session_conditions(where)
        if page.after is not None:
            clauses.append(f"({time}, s.key) < (?, ?)")
            values.extend(page.after)
        rows = self._db.execute(
            f"SELECT s.doc, {time}, s.key FROM sessions s WHERE {' AND '.join(clauses)}"
            f" ORDER BY {time} DESC, s.key DESC LIMIT ?",
            (*values, page.limit),
        )
        return [
            SessionRow(session=from_document(decode(doc), Session), at=(ms, key)) for doc, ms, key in rows
        ]

    def find_turns(self, where: Filter, page: Page) -> list[TurnRow]:
        clauses, values = turn_conditions(where)
        if page.after is not None:
            clauses.append("t.key < ?")
            values.append(page.after[0])
        rows = self._db.execute(
            "SELECT s.doc, t.doc, t.key FROM turns t JOIN sessions s ON s.key = t.session_key"
            f" WHERE {' AND '.join(clauses)} ORDER BY t.key DESC LIMIT ?",
            (*values, page.limit),
        ).fetchall()
        return [
            TurnRow(session=from_document(decode(s), Session), turn=self._turn_of(t), at=(key, 0))
            for s, t, key in rows
        ]

    def find_files(self, where: Filter, page: Page) -> list[FileRow]:
        clauses, values = self._file_conditions(where)
        if page.after is not None:
            clauses.append("f.key < ?")
            values.append(page.after[0])
        rows = self._db.execute(
            "SELECT s.id, t.request_id, f.path, f.changes, f.last_type, f.seq, f.key FROM turn_files f"
            " JOIN turns t ON t.key = f.turn_key JOIN sessions s ON s.key = f.session_key"
            f" WHERE {' AND '.join(clauses)} ORDER BY f.key DESC LIMIT ?",
            (*values, page.limit),
        )
        return [
            FileRow(
                session_id=session_id,
                request_id=request_id,
                path=path,
                touch=FileTouch(changes=changes, last_type=last_type, seq=seq),
                at=(key, 0),
            )
            for session_id, request_id, path, changes, last_type, seq, key in rows
        ]

    def find_entries(self, where: Filter, page: Page, facets: Iterable[str] | None) -> list[EntryRow]:
        clauses, values = self._entry_conditions(where, facets)
        if page.after is not None:
            clauses.append("e.id < ?")
            values.append(page.after[0])
        columns = ", ".join("e." + name for name in ENTRY_COLUMNS.split(", "))
        rows = self._db.execute(
            f"SELECT s.id, {columns} FROM entries e JOIN sessions s ON s.key = e.id >> {SEQ_BITS}"
            f" WHERE {' AND '.join(clauses)} ORDER BY e.id DESC LIMIT ?",
            (*values, page.limit),
        ).fetchall()
        return [
            EntryRow(session_id=row[0], entry=entry_of(self._db, row[1:]), at=(row[1], 0)) for row in rows
        ]

    def count(self, what: str, where: Filter, facets: Iterable[str] | None = None) -> int:
        if what == "session":
            clauses, values = session_conditions(where)
            source = "count(*) FROM sessions s"
        elif what == "turn":
            clauses, values = turn_conditions(where)
            source = "count(*) FROM turns t JOIN sessions s ON s.key = t.session_key"
        elif what == "file":
            clauses, values = self._file_conditions(where)
            source = (
                "count(*) FROM turn_files f JOIN turns t ON t.key = f.turn_key"
                " JOIN sessions s ON s.key = f.session_key"
            )
        elif facets is None:
            clauses, values = session_conditions(where)
            source = "coalesce(sum(s.entries), 0) FROM sessions s"
        else:
            clauses, values = self._entry_conditions(where, facets)
            source = f"count(*) FROM entries e JOIN sessions s ON s.key = e.id >> {SEQ_BITS}"
        return int(self._value(f"SELECT {source} WHERE {' AND '.join(clauses)}", *values) or 0)

    def _entry_conditions(self, where: Filter, facets: Iterable[str] | None) -> tuple[list[str], list[Any]]:
        clauses, values = session_conditions(where)
        if where.session_id is not None:
            key = self._key(where.session_id) or 0
            clauses.append("e.id > ? AND e.id < ?")
            values.extend((entry_id(key, 0), entry_id(key + 1, 0)))
        if facets is not None:
            wanted = list(facets)
            clauses.append(f"e.facet IN ({', '.join('?' * len(wanted))})")
            values.extend(wanted)
        return clauses, values

    @staticmethod
    def _file_conditions(where: Filter) -> tuple[list[str], list[Any]]:
        clauses, values = turn_conditions(where)
        if where.path is not None:
            clauses.append("f.path GLOB ?")
            values.append(where.path)
        return clauses, values

    def search(
        self, expr: Expr, where: Filter, *, most: int, facets: Iterable[str] | None = None
    ) -> Found:
        clauses, values = session_conditions(where)
        plain = len(clauses) == 1  # only `hidden`, which the join below need not tell for the candidates
        if where.session_id is not None:
            key = self._key(where.session_id) or 0
            clauses.append("found.rowid > ? AND found.rowid < ?")
            values.extend((entry_id(key, 0), entry_id(key + 1, 0)))
        join = "" if plain else f"JOIN sessions s ON s.key = found.rowid >> {SEQ_BITS}"
        if facets is not None:
            wanted = list(facets)
            join += " JOIN entries x ON x.id = found.rowid"
            clauses.append(f"x.facet IN ({', '.join('?' * len(wanted))})")
            values.extend(wanted)
        conditions = " AND ".join(clauses[1:] if plain else clauses) or "1"
        # The cross join keeps SQLite from starting at the sessions, whatever its statistics say.
        rows = self._db.execute(
            f"SELECT s.id, e.id, e.turn, c.score FROM (SELECT found.rowid AS id, -bm25(found) AS score FROM found {join}"
            f" WHERE found MATCH ? AND {conditions} ORDER BY found.rowid DESC LIMIT ?) c"
            f" CROSS JOIN entries e ON e.id = c.id CROSS JOIN sessions s ON s.key = c.id >> {SEQ_BITS}"
            " WHERE s.hidden = 0",
            (match_expression(expr), *values, most + 1),
        ).fetchall()
        hits = [
            Hit(session_id=session_id, seq=row_id & (SEQ_LIMIT - 1), turn=turn, score=score)
            for session_id, row_id, turn, score in rows[:most]
        ]
        return Found(hits=hits, complete=len(rows) <= most)

    def agent_ids(self, *, like: str | None = None, limit: int = 1000) -> list[tuple[str, str]]:
        rows = self._db.execute(
            "SELECT agent_key, min(agent_id) FROM sessions WHERE hidden = 0 AND agent_key LIKE ? ESCAPE '\\'"
            " GROUP BY agent_key LIMIT ?",
            ("%" if like is None else f"%{like}%", limit),
        )
        return [(str(key), str(shown)) for key, shown in rows]

    # Leases, answers, receipts

    def lease(self, session_id: str) -> Lease | None:
        data = self._value("SELECT doc FROM leases WHERE session_id = ?", session_id)
        return None if data is None else from_document(decode(data), Lease)

    def leases(self) -> list[Lease]:
        return [from_document(decode(row[0]), Lease) for row in self._db.execute("SELECT doc FROM leases")]

    def grant(self, session_id: str, client_id: str) -> int | None:
        return self._value(
            "SELECT fence FROM grants WHERE session_id = ? AND client_id = ?", session_id, client_id
        )

    def answer(self, scope: str, key: str) -> Answer | None:
        data = self._value("SELECT doc FROM answers WHERE scope = ? AND key = ?", scope, key)
        return None if data is None else decode(data, type=Answer)

    def outcome(self, client_id: str, call_id: str) -> Body | None:
        data = self._value("SELECT doc FROM outcomes WHERE client_id = ? AND call_id = ?", client_id, call_id)
        return None if data is None else decode(data)

    def receipts(self, session_id: str) -> list[Receipt]:
        rows = self._db.execute("SELECT doc FROM receipts WHERE session_id = ? ORDER BY seq", (session_id,))
        return [from_document(decode(row[0]), Receipt) for row in rows]

    def counts(self) -> Counts:
        sessions, entries = self._db.execute("SELECT count(*), coalesce(sum(head_seq), 0) FROM journals").fetchall()[0]
        pages, size = self._value("PRAGMA page_count"), self._value("PRAGMA page_size")
        return Counts(
            sessions=sessions,
            turns=self._value("SELECT count(*) FROM turns") or 0,
            entries=entries,
            bytes=(pages or 0) * (size or 0),
            schema=self._value("SELECT max(number) FROM migrations") or 0,
        )

    def _value(self, sql: str, *values: Any) -> Any:
        row = self._db.execute(sql, values).fetchone()
        return None if row is None else row[0]
