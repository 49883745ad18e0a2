"""Legal holds, archived sessions and bytes of sessions in tables."""

from collections.abc import Iterable

import msgspec

from shiftlog.model.entry import Kind
from shiftlog.model.times import millis
from shiftlog.store.codec.documents import encode
from shiftlog.store.keeping import Archived, Hold, SessionBytes
from shiftlog.store.sql.database import upsert
from shiftlog.store.sql.rows import Changes, Queries, entry_id

_PUT_HOLD = upsert("holds", "scope, name, at_ms", "lifted_ms", "doc")
_PUT_ARCHIVED = upsert("archived", "session_id", "doc")
_ENTRY_BYTES = " + ".join(
    f"coalesce(length({name}), 0)" for name in ("kind", "at", "turn", "facet", "body", "salt", "body_hash", "hash")
)

_hold_of = msgspec.json.Decoder(Hold).decode
_archived_of = msgspec.json.Decoder(Archived).decode


class SqlKeepingReader(Queries):
    """The facet `KeepingReader`."""

    def holds(self, *, lifted: bool = False) -> list[Hold]:
        which = "" if lifted else " WHERE lifted_ms IS NULL"
        rows = self._db.execute(f"SELECT doc FROM holds{which} ORDER BY at_ms, scope, name")
        return [_hold_of(row[0]) for row in rows]

    def archived(self, session_id: str) -> Archived | None:
        data = self._value("SELECT doc FROM archived WHERE session_id = ?", session_id)
        return None if data is None else _archived_of(data)

    def archived_ids(self) -> list[str]:
        return [str(row[0]) for row in self._db.execute("SELECT session_id FROM archived ORDER BY session_id")]

    def erasable(self, session_id: str) -> list[int]:
        key = self._value("SELECT key FROM journals WHERE id = ?", session_id) or 0
        rows = self._db.execute(
            "SELECT id FROM entries WHERE id >= ? AND id < ? AND body IS NOT NULL AND kind <> ? ORDER BY id",
            (entry_id(key, 0), entry_id(key + 1, 0), str(Kind.ERASED)),
        )
        return [row[0] - entry_id(key, 0) for row in rows]

    def bytes_of(self, session_ids: Iterable[str]) -> dict[str, SessionBytes]:
        return {session_id: self._bytes_of(session_id) for session_id in session_ids}

    def _bytes_of(self, session_id: str) -> SessionBytes:
        key = self._value("SELECT key FROM journals WHERE id = ?", session_id) or 0
        own = (entry_id(key, 0), entry_id(key + 1, 0))
        used = "SELECT u.hash FROM blob_uses u WHERE u.entry_id >= ? AND u.entry_id < ?"
        return SessionBytes(
            entries=self._sum(f"SELECT sum({_ENTRY_BYTES}) FROM entries WHERE id >= ? AND id < ?", *own),
            texts=self._sum(f"SELECT sum(length(b.data)) FROM blobs b WHERE b.hash IN ({used})", *own),
            projections=self._sum("SELECT sum(length(doc)) FROM turns WHERE session_key = ?", key)
            + self._sum("SELECT length(doc) FROM sessions WHERE key = ?", key),
        )

    def _sum(self, sql: str, *values: int) -> int:
        return int(self._value(sql, *values) or 0)


class SqlKeepingWriter(SqlKeepingReader, Changes):
    """The facet `KeepingWriter`."""

    def put_hold(self, hold: Hold) -> None:
        lifted = None if hold.lifted_at is None else millis(hold.lifted_at)
        self._put(_PUT_HOLD, (hold.scope, hold.name, millis(hold.at), lifted, encode(hold)))

    def put_archived(self, archived: Archived) -> None:
        self._put(_PUT_ARCHIVED, (archived.session.id, encode(archived)))

    def forget_archived(self, session_id: str) -> None:
        self._db.execute("DELETE FROM archived WHERE session_id = ?", (session_id,))
