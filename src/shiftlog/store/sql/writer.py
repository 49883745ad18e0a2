"""Changing tables inside one transaction: the `Writer` half of a store, but for search, heads and erasing."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter

import msgspec

from shiftlog.facts.batch import LongText
from shiftlog.model.entry import Body
from shiftlog.model.errors import StorageError
from shiftlog.model.nouns import FileTouch, Receipt, Session, Turn
from shiftlog.model.times import millis
from shiftlog.store.codec import blobs
from shiftlog.store.codec.documents import encode, encode_noun, encode_turn
from shiftlog.store.sources import Origin, Packed
from shiftlog.store.sql.clients import SqlClientWriter
from shiftlog.store.sql.columns import tags_of_turn, turn_columns
from shiftlog.store.sql.database import Database, Put, Row, insert, upsert
from shiftlog.store.sql.imports import SqlImportWriter
from shiftlog.store.sql.keeping import SqlKeepingWriter
from shiftlog.store.sql.reader import SqlReader
from shiftlog.store.sql.recent import RecentNouns
from shiftlog.store.sql.rows import RECEIPT_KEYS, entry_id, hour_of
from shiftlog.store.sql.tallies import add, change_of, note_owed

_INSERT_ENTRY = insert("entries", "id", "kind", "at", "turn", "facet", "body", "salt", "body_hash", "hash")
_INSERT_TAG = insert("turn_tags", "session_key, tag, turn_key")
_PUT_BLOB_USE = upsert("blob_uses", "hash, entry_id")
_PUT_FILE = upsert("turn_files", "turn_key, place", "path", "session_key", "changes", "last_type", "seq")
_PUT_OUTCOME = upsert("outcomes", "hour, client_id, call_id", "at_ms", "doc")
_PUT_RECEIPT = upsert("receipts", "session_id, seq", "doc")
_PUT_ORIGIN = upsert("origins", "key", "session_key", "turn", "doc")

# The fields that decide how a session counts in the tallies, but for those that never change.
_tallied_fields = attrgetter("agent_id", "model", "workspace", "hidden", "started", "run", "usage", "model_usage")


class SqlWriter(SqlClientWriter, SqlImportWriter, SqlKeepingWriter, SqlReader):
    """The changes that every store in tables makes alike, over one connection."""

    def __init__(self, db: Database, recent: RecentNouns | None = None) -> None:
        super().__init__(db)
        self._recent = recent or RecentNouns()
        self._keys = self._recent.keys

    def session(self, session_id: str) -> Session | None:
        if session_id not in self._recent.sessions:
            self._recent.sessions[session_id] = super().session(session_id)
        return self._recent.sessions[session_id]

    def turn(self, session_id: str, request_id: str) -> Turn | None:
        name = session_id, request_id
        if name not in self._recent.turns:
            self._recent.turns[name] = super().turn(session_id, request_id)
        return self._recent.turns[name]

    def _known_key(self, session_id: str) -> int:
        key = self._key(session_id)
        if key is None:
            raise LookupError(f"no entry of session {session_id} was appended yet")
        return key

    def _refuse(self, session_id: str, seq: int) -> StorageError:
        return StorageError(
            "Storage error", details={"reason": f"entry {seq} does not follow the head of {session_id}"}
        )

    def put_origins(self, origins: Mapping[bytes, Origin]) -> None:
        keys = {session_id: self._known_key(session_id) for session_id in {o.session_id for o in origins.values()}}
        rows = [
            (key, keys[origin.session_id], origin.turn, None if origin.doc is None else encode(origin.doc))
            for key, origin in origins.items()
        ]
        # In the order of their keys, so that the tree grows page by page.
        self._put_all(_PUT_ORIGIN, sorted(rows))

    def _insert_packed(self, key: int, entries: Sequence[Packed]) -> None:
        """Insert the rows of packed entries and the blobs of their long texts."""
        base = entry_id(key, entries[-1].seq) - entries[-1].seq
        rows = [
            (base + seq, kind, at, turn, facet, document, salt, body_hash, digest)
            for seq, kind, at, turn, facet, document, salt, body_hash, digest, _, _ in entries
        ]
        self._put_all(_INSERT_ENTRY, rows)
        texts = [(long, base + e.seq) for e in entries for long in e.long_texts]
        if texts:
            self._put_long_texts([*{long.digest: long for long, _ in texts}.values()])
            self._put_all(_PUT_BLOB_USE, [(long.digest, row) for long, row in texts])

    def _put_long_texts(self, texts: list[LongText]) -> None:
        """Store long texts that are not there yet."""
        raise NotImplementedError

    def _keep(self, digest: bytes, text: str) -> None:
        if self._db.execute("SELECT 1 FROM blobs WHERE hash = ?", (digest,)).fetchone() is None:
            self._put_long_texts([LongText(digest, len(text), blobs.pack(text))])

    def _tally(self, before: Session | None, after: Session | None) -> None:
        """Count a session as it stands after a change instead of before it."""
        add(self._db, change_of(before, after))

    def put_session(self, session: Session) -> None:
        key = self._known_key(session.id)
        document = encode_noun(session)
        before = self.session(session.id)
        self._recent.sessions[session.id] = session
        self._recent.stored_bytes += len(document)
        if before is None or _tallied_fields(before) != _tallied_fields(session):
            self._tally(before, session)
        self._store_session(key, session, before, document)

    def _store_session(self, key: int, session: Session, before: Session | None, document: bytes) -> None:
        """Store a session's row."""
        if before is None:
            columns = self._columns(session)
            names = ", ".join(columns)
            self._db.execute(
                f"INSERT INTO sessions (key, entries, doc, {names}) VALUES (?, ?, ?{', ?' * len(columns)})",
                (key, session.head_seq, document, *columns.values()),
            )
            return
        # An index is written whenever one of its columns is named, so only those that change are.
        stored = self._columns(before)
        moved = {name: value for name, value in self._columns(session).items() if value != stored[name]}
        names = "".join(f", {name} = ?" for name in moved)
        self._db.execute(
            f"UPDATE sessions SET entries = ?, doc = ?{names} WHERE key = ?",
            (session.head_seq, document, *moved.values(), key),
        )

    def put_turn(self, session_id: str, turn: Turn) -> None:
        key = self._known_key(session_id)
        document = encode_turn(turn, self._keep)
        stored = self.turn(session_id, turn.request_id)
        self._recent.turns[session_id, turn.request_id] = turn
        self._recent.stored_bytes += len(document)
        turn_key = entry_id(key, turn.begun_seq)
        self._store_turn(key, turn_key, turn, stored, document)
        if (tags := tags_of_turn(stored) if stored else ()) != tags_of_turn(turn):
            self._index_tags(key, turn_key, tags, tags_of_turn(turn))
        if (files := stored.files if stored else {}) != turn.files:
            self._index_files(key, turn_key, files, turn.files)

    def _store_turn(self, key: int, turn_key: int, turn: Turn, stored: Turn | None, document: bytes) -> None:
        """Store a turn's row."""
        if stored is None:
            self._db.execute(
                "INSERT INTO turns (key, session_key, request_id, ordinal, begun_ms, status, updated_ms, plan_file,"
                " todo_id, doc) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (turn_key, key, turn.request_id, turn.ordinal, millis(turn.begun_at), *turn_columns(turn), document),
            )
        elif turn_columns(stored) == turn_columns(turn):
            self._db.execute("UPDATE turns SET doc = ? WHERE key = ?", (document, turn_key))
        else:
            self._db.execute(
                "UPDATE turns SET status = ?, updated_ms = ?, plan_file = ?, todo_id = ?, doc = ? WHERE key = ?",
                (*turn_columns(turn), document, turn_key),
            )

    def _index_tags(self, key: int, turn_key: int, old: Iterable[str], new: Iterable[str]) -> None:
        before, after = set(old), set(new)
        for tag in before - after:
            self._db.execute(
                "DELETE FROM turn_tags WHERE session_key = ? AND tag = ? AND turn_key = ?", (key, tag, turn_key)
            )
        for tag in after - before:
            self._put(_INSERT_TAG, (key, tag, turn_key))

    def _index_files(self, key: int, turn_key: int, old: dict[str, FileTouch], new: dict[str, FileTouch]) -> None:
        before = list(old.items())
        for place, (path, touch) in enumerate(new.items()):
            if place >= len(before) or before[place] != (path, touch):
                self._put(
                    _PUT_FILE,
                    (turn_key, place, path, key, touch.changes, touch.last_type, touch.seq),
                )
        if len(new) < len(before):
            self._db.execute("DELETE FROM turn_files WHERE turn_key = ? AND place >= ?", (turn_key, len(new)))

    def put_outcome(self, client_id: str, call_id: str, outcome: Body, at: datetime) -> None:
        self._put(
            _PUT_OUTCOME,
            (hour_of(at), client_id, call_id, millis(at), encode(self._compact(outcome))),
        )

    def _compact(self, outcome: Body) -> Body | list[int]:
        """Return an outcome without the facts that its entry has, if it is the receipt of one.

        Every call leaves one for a day, and hardly any is ever read.
        """
        if outcome.keys() != RECEIPT_KEYS or outcome["code"] != "persisted":
            return outcome
        session = self._recent.sessions.get(outcome["session_id"])
        if session is None or (session.head_seq, session.head_hash) != (outcome["seq"], outcome["hash"]):
            return outcome
        return [self._known_key(session.id), session.head_seq, outcome["redactions"]]

    def put_receipt(self, receipt: Receipt) -> None:
        self._put(
            _PUT_RECEIPT,
            (receipt.session_id, receipt.seq, encode_noun(receipt)),
        )

    def put_projection_version(self, version: int) -> None:
        self._db.execute("DELETE FROM projection_version")
        self._db.execute("INSERT INTO projection_version VALUES (?)", (version,))

    # Copying

    def put_rows(self, put: Put, rows: Sequence[Row]) -> None:
        """Store rows of another store."""
        self._put_all(put, rows)

    def put_last_numbers(self, alias: int) -> None:
        """Let the next alias follow this one, and the next session the last one that was copied."""
        raise NotImplementedError

    # Rebuilding

    def forget_projection(self, session_id: str) -> None:
        try:
            self._tally(self.session(session_id), None)
        except msgspec.MsgspecError:
            note_owed(self._db)  # the figures of a damaged document are unknown
        self._recent.sessions.pop(session_id, None)
        self._recent.turns.clear()
        key = self._key(session_id)
        self._db.execute("DELETE FROM turn_tags WHERE session_key = ?", (key,))
        self._db.execute("DELETE FROM turn_files WHERE session_key = ?", (key,))
        self._db.execute("DELETE FROM turns WHERE session_key = ?", (key,))
        self._db.execute("DELETE FROM sessions WHERE key = ?", (key,))

    def forget_turn(self, session_id: str, request_id: str) -> None:
        self._recent.turns.pop((session_id, request_id), None)
        key = self._known_key(session_id)
        row = self._db.execute(
            "DELETE FROM turns WHERE session_key = ? AND request_id = ? RETURNING key", (key, request_id)
        ).fetchone()
        if row is not None:
            self._db.execute("DELETE FROM turn_tags WHERE session_key = ? AND turn_key = ?", (key, *row))
            self._db.execute("DELETE FROM turn_files WHERE turn_key = ?", row)
