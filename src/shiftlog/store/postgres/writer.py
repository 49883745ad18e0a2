"""Changing PostgreSQL inside one transaction: locks, heads, search and erasing; the rest of the writer is shared.

A writer locks what it looks up, until its transaction ends, so that two processes decide one after the other: the row
of a session, and by an advisory lock a key that may have no row yet. Works on different sessions do not wait.
"""

import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cache

from psycopg.errors import SerializationFailure

from shiftlog.facts.batch import LongText
from shiftlog.model.entry import Body
from shiftlog.model.nouns import Lease, Session, Token, Turn
from shiftlog.model.times import millis
from shiftlog.store.codec.documents import decode_noun
from shiftlog.store.keeping import Archived, Hold, is_archived
from shiftlog.store.postgres.archiving import remove
from shiftlog.store.postgres.connections import PendingDatabase
from shiftlog.store.postgres.distribution import MONTHS_AHEAD, NUMBER_BITS, distributed
from shiftlog.store.postgres.patterns import columns
from shiftlog.store.postgres.pending import Pending
from shiftlog.store.postgres.reader import PostgresReader
from shiftlog.store.postgres.substrings import GRAMS, MOST_CAUGHT_UP
from shiftlog.store.postgres.words import findable
from shiftlog.store.protocol import Answer, Filter, Indexed, Page, SessionRow
from shiftlog.store.sources import Origin, Packed, Source
from shiftlog.store.sql.columns import TURN_COLUMNS, turn_columns
from shiftlog.store.sql.database import Put, Row, upsert
from shiftlog.store.sql.grams import head, is_behind
from shiftlog.store.sql.rows import entry_id, hash_shown
from shiftlog.store.sql.tallies import add, change_of, recount
from shiftlog.store.sql.writer import SqlWriter
from shiftlog.store.tallies import Figures, TallyKey

_PUT_FOUND = upsert("found", "id", "words", "line")
# Updating a text that is there keeps another process from removing it before this transaction ends.
_PUT_BLOB = upsert("blobs", "hash", "chars", "data", changes="chars = blobs.chars")
_PUT_JOURNAL = upsert("journals", "key", "id", "head_seq", "head_hash")
_PUT_TURN = upsert("turns", "key, session_key", "request_id", "ordinal", "begun_ms", *TURN_COLUMNS, "doc")


@cache
def _put_session(names: tuple[str, ...]) -> Put:
    return upsert("sessions", "key", "entries", "doc", *names)


class PostgresWriter(SqlWriter, PostgresReader):
    """The changes that the store makes, over the writer's connection."""

    _db: PendingDatabase

    def __init__(self, db: PendingDatabase, pending: Pending) -> None:
        super().__init__(db, pending.recent)
        self._pending = pending

    def _put(self, put: Put, row: Row) -> None:
        self._put_all(put, (row,))

    def _put_all(self, put: Put, rows: Sequence[Row]) -> None:
        self._pending.put(*distributed(put, rows))

    # Locks

    def _hold(self, *names: str) -> None:
        """Lock a key until the transaction ends."""
        if names not in self._pending.held:
            digest = hashlib.blake2b("\0".join(names).encode(), digest_size=8, person=b"shiftlog").digest()
            self._db.execute("SELECT pg_advisory_xact_lock(?)", (int.from_bytes(digest, signed=True),))
            self._pending.held.add(names)

    def _key(self, session_id: str) -> int | None:
        """Return the key of a session, and lock it until the transaction ends.

        A session that did not exist a moment ago was begun by another process: the transaction runs again.
        """
        key = self._keys.get(session_id)
        if key is None:
            row = self._db.stored(
                "SELECT key, head_seq, head_hash FROM journals WHERE id = ? FOR NO KEY UPDATE", session_id
            ).fetchone()
            if row is None:
                self._pending.absent.add(session_id)
                return None
            if session_id in self._pending.absent:
                raise SerializationFailure(f"another process has begun the session {session_id}")
            key = self._keys[session_id] = int(row[0])
            self._pending.heads[session_id] = int(row[1]), bytes(row[2])
        return key

    def session(self, session_id: str) -> Session | None:
        if self._key(session_id) is None:
            return None
        session = self._recent.sessions.get(session_id)
        if session is None:
            row = self._db.stored("SELECT doc FROM sessions WHERE id = ?", session_id).fetchone()
            session = None if row is None else decode_noun(row[0], Session)
            if session is not None:
                self._recent.sessions[session_id] = session
        return session

    def turn(self, session_id: str, request_id: str) -> Turn | None:
        turn = self._recent.turns.get((session_id, request_id))
        key = self._key(session_id)
        if turn is None and key is not None:
            row = self._db.stored(
                "SELECT doc FROM turns WHERE session_key = ? AND request_id = ?", key, request_id
            ).fetchone()
            if row is not None:
                turn = self._recent.turns[session_id, request_id] = self._turn_of(row[0])
        return turn

    def head(self, session_id: str) -> tuple[int, str] | None:
        if self._key(session_id) is None:
            return None
        seq, digest = self._pending.heads[session_id]
        return seq, hash_shown(digest)

    def lease(self, session_id: str) -> Lease | None:
        leases = self._pending.known.leases
        return leases[session_id] if session_id in leases else super().lease(session_id)

    def grant(self, session_id: str, client_id: str) -> int | None:
        grants = self._pending.known.grants.get(session_id)
        return super().grant(session_id, client_id) if grants is None else grants.get(client_id)

    def turn_of(self, session_id: str, client_id: str) -> str | None:
        turns = self._pending.known.turns.get(session_id)
        return super().turn_of(session_id, client_id) if turns is None else turns.get(client_id)

    def agent_of(self, client_id: str) -> str | None:
        agents = self._pending.known.agents
        return agents[client_id] if client_id in agents else super().agent_of(client_id)

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

    def holds(self, *, lifted: bool = False) -> list[Hold]:
        self._hold("holds")  # what a hold covers is not removed while it is set
        return super().holds(lifted=lifted)

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
        self._pending.appended.add(session_id)
        self._insert_packed(key, entries)
        self._put_all(
            _PUT_FOUND, [(entry_id(key, entry.seq), *findable(entry.text)) for entry in entries if entry.text]
        )

    def _move_head(self, session_id: str, first: int, last: int, digest: bytes) -> int:
        """Move the head, whose row is locked; a session that is new may meet another one of its name at the end."""
        key = self._key(session_id)
        seq, _ = self._pending.heads.get(session_id, (0, b""))
        if first != seq + 1:
            if key is not None and seq == 0:
                raise is_archived(session_id)
            raise self._refuse(session_id, first)
        if key is None:
            key = self._keys[session_id] = int(self._value("SELECT next_session_key()"))
            self._pending.absent.discard(session_id)
        self._pending.heads[session_id] = last, digest
        self._put(_PUT_JOURNAL, (key, session_id, last, digest))
        return key

    def _store_session(self, key: int, session: Session, before: Session | None, document: bytes) -> None:
        self._pending.sizes[key] += len(document)
        facts = columns(session)
        self._put(_put_session(tuple(facts)), (key, session.head_seq, document, *facts.values()))

    def _store_turn(self, key: int, turn_key: int, turn: Turn, stored: Turn | None, document: bytes) -> None:
        facts = (turn.request_id, turn.ordinal, millis(turn.begun_at), *turn_columns(turn))
        self._pending.sizes[key] += len(document)
        self._put(_PUT_TURN, (turn_key, key, *facts, document))

    def _put_long_texts(self, texts: list[LongText]) -> None:
        self._put_all(_PUT_BLOB, [(text.digest, text.chars, text.data) for text in texts])

    def _keep(self, digest: bytes, text: str) -> None:
        if not self._pending.is_waiting(_PUT_BLOB, (digest,)):
            super()._keep(digest, text)

    def _tally(self, before: Session | None, after: Session | None) -> None:
        self._pending.tallies.append(change_of(before, after))

    def _store_tallies(self) -> None:
        add(self._db, self._pending.summed_tallies())

    def tallies_are_right(self) -> bool:
        self._store_tallies()
        return super().tallies_are_right()

    def tallies(self, where: Filter, by: Iterable[str]) -> list[tuple[TallyKey, Figures]] | None:
        self._store_tallies()
        return super().tallies(where, by)

    def next_alias(self) -> int:
        return int(self._value("SELECT nextval('aliases')"))

    def put_last_numbers(self, alias: int) -> None:
        self._db.execute("SELECT setval('aliases', ?, ?)", (max(alias, 1), alias > 0))
        self._db.execute(
            "SELECT setval(pg_get_serial_sequence('journals', 'key'), max(key & ?)) FROM journals HAVING max(key) > 0",
            ((1 << NUMBER_BITS) - 1,),
        )

    def forget_outcomes(self, before: datetime) -> None:
        super().forget_outcomes(before)
        self._db.execute("SELECT make_partitions(?::integer)", (MONTHS_AHEAD,))
        self._db.execute("DELETE FROM commits WHERE at < now() - interval '1 hour'")

    # Erasing, archiving and rebuilding

    def remove_archived(self, items: Sequence[Archived]) -> tuple[list[str], list[str]]:
        """Remove the entries of sessions that are still as they were archived; return their ids, and dropped months."""
        still = [item for item in items if self.session(item.session.id) == item.session]
        for item in still:
            self.put_archived(item)
            self.forget_answers(session_id=item.session.id)
        names = [item.session.id for item in still]
        dropped = remove(self._db, [self._known_key(name) for name in names])
        self._recent.forget()
        return names, dropped

    def erase_body(self, session_id: str, seq: int) -> None:
        row_id = entry_id(self._known_key(session_id), seq)
        self._db.execute("UPDATE entries SET body = NULL, salt = NULL, facet = NULL WHERE id = ?", (row_id,))
        self._db.execute("DELETE FROM found WHERE id = ?", (row_id,))
        GRAMS.forget(self._db, row_id)
        uses = self._db.execute("DELETE FROM blob_uses WHERE entry_id = ? RETURNING hash", (row_id,)).fetchall()
        for (digest,) in sorted(uses):
            # Waits for a transaction that stores the same text; only then are its uses seen.
            self._db.execute("SELECT 1 FROM blobs WHERE hash = ? FOR UPDATE", (digest,))
            self._db.execute(
                "DELETE FROM blobs b WHERE hash = ? AND NOT EXISTS (SELECT 1 FROM blob_uses u WHERE u.hash = b.hash)",
                (digest,),
            )

    def catch_up(self, session_id: str) -> bool:
        """Add rows of texts for some entries of a session; return True if it lacks more."""
        key = self._key(session_id)
        if key is None:
            return False
        GRAMS.cover(self._db, key, head(self._db, key), MOST_CAUGHT_UP)
        return is_behind(self._db, key)

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
                self._put(_PUT_FOUND, (row_id, *findable(item.text)))
            else:
                self._db.execute("DELETE FROM found WHERE id = ?", (row_id,))
        GRAMS.forget(self._db, entry_id(key, 1))
