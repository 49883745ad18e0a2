"""Changing PostgreSQL inside one transaction: locks, heads, search and erasing; the rest of the writer is shared.

A writer locks what it looks up, until its transaction ends, so that two processes decide one after the other: the row
of a session, and by an advisory lock a key that may have no row yet. Works on different sessions do not wait.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from shiftlog.facts.batch import LongText
from shiftlog.model.entry import Body
from shiftlog.model.nouns import Lease, Session, Token
from shiftlog.store.postgres.connections import PostgresDatabase
from shiftlog.store.postgres.reader import PostgresReader
from shiftlog.store.postgres.words import findable
from shiftlog.store.protocol import Answer, Filter, Indexed, Page, SessionRow
from shiftlog.store.sources import Origin, Packed, Source
from shiftlog.store.sql.database import upsert
from shiftlog.store.sql.recent import RecentNouns
from shiftlog.store.sql.rows import entry_id
from shiftlog.store.sql.tallies import add, change_of, recount
from shiftlog.store.sql.writer import SqlWriter
from shiftlog.store.tallies import Figures, Tallies, TallyKey

_PUT_FOUND = (
    "INSERT INTO found (id, words, line) VALUES (?, ?::tsvector, ?)"
    " ON CONFLICT (id) DO UPDATE SET words = excluded.words, line = excluded.line"
)
# Updating a text that is there keeps another process from removing it before this transaction ends.
_PUT_BLOB = upsert("blobs", "hash", "chars", "data").replace(
    "chars = excluded.chars, data = excluded.data", "chars = blobs.chars"
)


@dataclass(slots=True)
class Pending:
    """The state that the works of a transaction share: the locks it holds, and changes that wait for its end.

    A tally is shared by many sessions, so its row is locked last, and tallies in the order of their keys.
    """

    held: set[tuple[str, ...]] = field(default_factory=set[tuple[str, ...]])
    recent: RecentNouns = field(default_factory=RecentNouns)
    tallies: list[Tallies] = field(default_factory=list[Tallies])

    def forget(self, mark: int) -> None:
        """Forget what came after a savepoint; PostgreSQL releases the locks taken since then."""
        self.held.clear()
        self.recent.forget()
        del self.tallies[mark:]

    def store_tallies(self, db: PostgresDatabase) -> None:
        """Add what waits to the tallies."""
        sums: Tallies = {}
        for changes in self.tallies:
            for key, figures in changes.items():
                sums[key] = sums.get(key, Figures()).plus(figures)
        self.tallies.clear()
        add(db, {key: sums[key] for key in sorted(sums, key=repr) if sums[key] != Figures()})


class PostgresWriter(SqlWriter, PostgresReader):
    """The changes that the store makes, over the writer's connection."""

    _db: PostgresDatabase

    def __init__(self, db: PostgresDatabase, pending: Pending) -> None:
        super().__init__(db, pending.recent)
        self._pending = pending

    # Locks

    def _hold(self, *names: str) -> None:
        """Lock a key until the transaction ends."""
        if names not in self._pending.held:
            digest = hashlib.blake2b("\0".join(names).encode(), digest_size=8, person=b"shiftlog").digest()
            self._db.execute("SELECT pg_advisory_xact_lock(?)", (int.from_bytes(digest, signed=True),))
            self._pending.held.add(names)

    def _key(self, session_id: str) -> int | None:
        key = self._keys.get(session_id)
        if key is None:
            key = self._value("SELECT key FROM journals WHERE id = ? FOR NO KEY UPDATE", session_id)
            if key is not None:
                self._keys[session_id] = key
        return key

    def session(self, session_id: str) -> Session | None:
        self._key(session_id)
        return super().session(session_id)

    def head(self, session_id: str) -> tuple[int, str] | None:
        self._key(session_id)
        return super().head(session_id)

    def session_ids_of_vendor(self, vendor_session_id: str) -> list[str]:
        self._hold("vendor", vendor_session_id.lower())
        return super().session_ids_of_vendor(vendor_session_id)

    def find_sessions(self, where: Filter, page: Page, *, by_activity: bool = False) -> list[SessionRow]:
        if where.agent_key is not None:
            self._hold("agent", where.agent_key)
        return super().find_sessions(where, page, by_activity=by_activity)

    def leases(self) -> list[Lease]:
        self._hold("leases")
        return super().leases()

    def token(self, token_hash: str) -> Token | None:
        self._hold("token", token_hash)
        return super().token(token_hash)

    def answer(self, scope: str, key: str) -> Answer | None:
        self._hold("answer", scope, key)
        return super().answer(scope, key)

    def outcome(self, client_id: str, call_id: str) -> Body | None:
        self._hold("outcome", client_id, call_id)
        return super().outcome(client_id, call_id)

    def pointer(self, workspace: str, agent: str) -> str | None:
        self._hold("pointer", workspace, agent)
        return super().pointer(workspace, agent)

    def source(self, path: str) -> Source | None:
        self._hold("imports")
        return super().source(path)

    def origins(self, keys: Iterable[bytes]) -> dict[bytes, Origin]:
        self._hold("imports")
        return super().origins(keys)

    # Changes

    def append(self, session_id: str, entries: Sequence[Packed]) -> None:
        if not entries:
            return
        key = self._move_head(session_id, entries[0].seq, entries[-1].seq, entries[-1].hash)
        self._insert_packed(key, entries)
        found = [(entry_id(key, entry.seq), *findable(entry.text)) for entry in entries if entry.text]
        if found:
            self._db.executemany(_PUT_FOUND, found)

    def _move_head(self, session_id: str, first: int, last: int, head: bytes) -> int:
        key = self._key(session_id)
        if key is not None:
            moved = self._value(
                "UPDATE journals SET head_seq = ?, head_hash = ? WHERE key = ? AND head_seq = ? RETURNING key",
                *(last, head, key, first - 1),
            )
        else:
            moved = first == 1 or None
        if moved is None:
            raise self._refuse(session_id, first)
        if key is None:
            key = self._keys[session_id] = int(
                self._value(
                    "INSERT INTO journals (id, head_seq, head_hash) VALUES (?, ?, ?) RETURNING key",
                    *(session_id, last, head),
                )
            )
        return key

    def _put_long_texts(self, texts: list[LongText]) -> None:
        self._db.executemany(_PUT_BLOB, sorted((text.digest, text.chars, text.data) for text in texts))

    def _tally(self, before: Session | None, after: Session | None) -> None:
        self._pending.tallies.append(change_of(before, after))

    def tallies_are_right(self) -> bool:
        self._pending.store_tallies(self._db)
        return super().tallies_are_right()

    def tallies(self, where: Filter, by: Iterable[str]) -> list[tuple[TallyKey, Figures]] | None:
        self._pending.store_tallies(self._db)
        return super().tallies(where, by)

    def next_alias(self) -> int:
        return int(self._value("SELECT nextval('aliases')"))

    def put_last_numbers(self, alias: int) -> None:
        self._db.execute("SELECT setval('aliases', ?, ?)", (max(alias, 1), alias > 0))
        self._db.execute(
            "SELECT setval(pg_get_serial_sequence('journals', 'key'), max(key)) FROM journals HAVING max(key) > 0"
        )

    def forget_outcomes(self, before: datetime) -> None:
        super().forget_outcomes(before)
        self._db.execute("DELETE FROM commits WHERE at < now() - interval '1 hour'")

    # Erasing and rebuilding

    def erase_body(self, session_id: str, seq: int) -> None:
        row_id = entry_id(self._known_key(session_id), seq)
        self._db.execute("UPDATE entries SET body = NULL, salt = NULL, facet = NULL WHERE id = ?", (row_id,))
        self._db.execute("DELETE FROM found WHERE id = ?", (row_id,))
        uses = self._db.execute("DELETE FROM blob_uses WHERE entry_id = ? RETURNING hash", (row_id,)).fetchall()
        for (digest,) in sorted(uses):
            # Waits for a transaction that stores the same text; only then are its uses seen.
            self._db.execute("SELECT 1 FROM blobs WHERE hash = ? FOR UPDATE", (digest,))
            self._db.execute(
                "DELETE FROM blobs b WHERE hash = ? AND NOT EXISTS (SELECT 1 FROM blob_uses u WHERE u.hash = b.hash)",
                (digest,),
            )

    def recount(self) -> None:
        self._pending.tallies.clear()
        self._db.execute("LOCK TABLE tallies IN EXCLUSIVE MODE")
        recount(self._db)

    def reindex(self, session_id: str, items: Iterable[Indexed]) -> None:
        key = self._known_key(session_id)
        for item in items:
            row_id = entry_id(key, item.entry.seq)
            self._db.execute(
                "UPDATE entries SET facet = ? WHERE id = ? AND facet IS DISTINCT FROM ?",
                (item.facet, row_id, item.facet),
            )
            if item.text:
                self._db.execute(_PUT_FOUND, (row_id, *findable(item.text)))
            else:
                self._db.execute("DELETE FROM found WHERE id = ?", (row_id,))
