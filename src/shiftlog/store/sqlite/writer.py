"""Changing the SQLite file inside one transaction: the `Writer` half of the store."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter

import apsw
import msgspec

from shiftlog.model.entry import Body
from shiftlog.model.errors import StorageError
from shiftlog.model.nouns import FileTouch, Receipt, Session, Turn
from shiftlog.model.search import apart
from shiftlog.model.times import millis
from shiftlog.store.codec import blobs
from shiftlog.store.codec.documents import encode, encode_noun, encode_turn
from shiftlog.store.protocol import Indexed
from shiftlog.store.sources import Origin, Packed
from shiftlog.store.sqlite.clients import SqliteClientWriter
from shiftlog.store.sqlite.columns import session_columns, tags_of_turn, turn_columns
from shiftlog.store.sqlite.imports import OriginKeys, SqliteImportWriter
from shiftlog.store.sqlite.reader import SqliteReader
from shiftlog.store.sqlite.recent import RecentNouns
from shiftlog.store.sqlite.rows import RECEIPT_KEYS, entry_id, hour_of
from shiftlog.store.sqlite.search import trigrams as grams
from shiftlog.store.sqlite.tallies import recount, tally


@dataclass(slots=True)
class Backlog:
    """The updates that a group of works still owes the search indexes.

    FTS5 writes a segment at every savepoint, and merging many small ones takes a sixth of the work of busy writers; so
    the whole group is indexed at its end. `grown` names sessions and ranges of entries whose substrings are indexed
    last, when their turns are stored too; those of bulk work are left to the first search for parts of words.
    `last_entry` is the id of the newest entry.
    """

    is_bulk: bool = False
    texts: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    last_entry: int = 0
    indexed: int = 0
    erased: bool = False
    grown: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])

    def index_texts(self, db: apsw.Connection) -> None:
        """Index the words of texts that are not indexed yet."""
        if self.indexed < len(self.texts):
            db.executemany("INSERT INTO found (rowid, text) VALUES (?, ?)", self.texts[self.indexed :])
            self.indexed = len(self.texts)

    def finish(self, db: apsw.Connection) -> None:
        """Bring the indexes up to date; after an erasure also merge them, because until then they keep erased words."""
        self.index_texts(db)
        for grown in self.grown:
            grams.extend(db, *grown)
        if self.erased:
            db.execute("INSERT INTO found (found) VALUES ('optimize')")
            db.execute("INSERT INTO grams (grams) VALUES ('optimize')")

    def mark(self) -> tuple[int, int, bool, int, int]:
        """Return a state that `back_to` can return to."""
        return len(self.texts), self.indexed, self.erased, len(self.grown), self.last_entry

    def back_to(self, mark: tuple[int, int, bool, int, int]) -> None:
        """Forget what was added since a mark; the caller rolls back what was indexed since then."""
        count, self.indexed, self.erased, grown, self.last_entry = mark
        del self.texts[count:]
        del self.grown[grown:]


# The fields that decide how a session counts in the tallies, but for those that never change.
_tallied_fields = attrgetter("agent_id", "model", "workspace", "hidden", "started", "run", "usage", "model_usage")


class SqliteWriter(SqliteClientWriter, SqliteImportWriter, SqliteReader):
    """The changes that the store makes, over the writer's connection."""

    def __init__(
        self, db: apsw.Connection, backlog: Backlog, origin_keys: OriginKeys, recent: RecentNouns | None = None
    ) -> None:
        super().__init__(db)
        self._backlog = backlog
        self._origin_keys = origin_keys
        self._recent = recent or RecentNouns()
        self._keys = self._recent.keys

    def session(self, session_id: str) -> Session | None:
        session = self._recent.sessions.get(session_id)
        if session is None and (session := super().session(session_id)) is not None:
            self._recent.sessions[session_id] = session
        return session

    def turn(self, session_id: str, request_id: str) -> Turn | None:
        turn = self._recent.turns.get((session_id, request_id))
        if turn is None and (turn := super().turn(session_id, request_id)) is not None:
            self._recent.turns[session_id, request_id] = turn
        return turn

    def append(self, session_id: str, entries: Sequence[Packed]) -> None:
        if not entries:
            return
        key = self._move_head(session_id, entries[0].seq, entries[-1].seq, entries[-1].hash)
        self.insert_packed(key, entries)
        if not self._backlog.is_bulk:
            self._backlog.grown.append((key, entries[0].seq, entries[-1].seq))
        self._backlog.last_entry = entry_id(key, entries[-1].seq)
        base = self._backlog.last_entry - entries[-1].seq
        self._backlog.texts += [(base + entry.seq, apart(entry.text)) for entry in entries if entry.text]

    def put_origins(self, origins: Mapping[bytes, Origin]) -> None:
        keys = {session_id: self._known_key(session_id) for session_id in {o.session_id for o in origins.values()}}
        rows = [
            (key, keys[origin.session_id], origin.turn, None if origin.doc is None else encode(origin.doc))
            for key, origin in origins.items()
        ]
        # In the order of their keys, so that the tree grows page by page.
        self._db.executemany("INSERT OR REPLACE INTO origins VALUES (?, ?, ?, ?)", sorted(rows))
        if self._origin_keys is not None:
            self._origin_keys.add(origins)

    def _move_head(self, session_id: str, first: int, last: int, head: bytes) -> int:
        key = self._key(session_id)
        if key is not None:
            self._db.execute(
                "UPDATE journals SET head_seq = ?, head_hash = ? WHERE key = ? AND head_seq = ?",
                (last, head, key, first - 1),
            )
        if first != 1 if key is None else not self._db.changes():
            raise StorageError(
                "Storage error", details={"reason": f"entry {first} does not follow the head of {session_id}"}
            )
        if key is None:
            self._db.execute(
                "INSERT INTO journals (id, head_seq, head_hash) VALUES (?, ?, ?)", (session_id, last, head)
            )
            key = self._keys[session_id] = self._db.last_insert_rowid()
        return key

    def _known_key(self, session_id: str) -> int:
        key = self._key(session_id)
        if key is None:
            raise LookupError(f"no entry of session {session_id} was appended yet")
        return key

    def _keep(self, digest: bytes, text: str) -> None:
        if self._db.execute("SELECT 1 FROM blobs WHERE hash = ?", (digest,)).fetchone() is None:
            self._db.execute("INSERT INTO blobs VALUES (?, ?, ?)", (digest, len(text), blobs.pack(text)))

    def put_session(self, session: Session) -> None:
        key = self._known_key(session.id)
        document = encode_noun(session)
        before = self.session(session.id)
        self._recent.sessions[session.id] = session
        self._recent.stored_bytes += len(document)
        if before is None or _tallied_fields(before) != _tallied_fields(session):
            tally(self._db, before, session)
        if before is None:
            columns = session_columns(session)
            names = ", ".join(columns)
            self._db.execute(
                f"INSERT INTO sessions (key, entries, doc, {names}) VALUES (?, ?, ?{', ?' * len(columns)})",
                (key, session.head_seq, document, *columns.values()),
            )
            return
        # An index is written whenever one of its columns is named, so only those that change are.
        stored = session_columns(before)
        moved = {name: value for name, value in session_columns(session).items() if value != stored[name]}
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
        if (tags := tags_of_turn(stored) if stored else ()) != tags_of_turn(turn):
            self._index_tags(key, turn_key, tags, tags_of_turn(turn))
        if (files := stored.files if stored else {}) != turn.files:
            self._index_files(key, turn_key, files, turn.files)

    def _index_tags(self, key: int, turn_key: int, old: Iterable[str], new: Iterable[str]) -> None:
        before, after = set(old), set(new)
        for tag in before - after:
            self._db.execute(
                "DELETE FROM turn_tags WHERE session_key = ? AND tag = ? AND turn_key = ?", (key, tag, turn_key)
            )
        for tag in after - before:
            self._db.execute("INSERT INTO turn_tags VALUES (?, ?, ?)", (key, tag, turn_key))

    def _index_files(self, key: int, turn_key: int, old: dict[str, FileTouch], new: dict[str, FileTouch]) -> None:
        before = list(old.items())
        for place, (path, touch) in enumerate(new.items()):
            if place >= len(before) or before[place] != (path, touch):
                self._db.execute(
                    "INSERT OR REPLACE INTO turn_files VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (turn_key, place, path, key, touch.changes, touch.last_type, touch.seq),
                )
        if len(new) < len(before):
            self._db.execute("DELETE FROM turn_files WHERE turn_key = ? AND place >= ?", (turn_key, len(new)))

    def next_alias(self) -> int:
        self._db.execute("INSERT INTO aliases DEFAULT VALUES")
        alias = self._db.last_insert_rowid()
        self._db.execute("DELETE FROM aliases WHERE alias < ?", (alias,))
        return alias

    def _index_pending(self) -> None:
        self._backlog.index_texts(self._db)

    def put_outcome(self, client_id: str, call_id: str, outcome: Body, at: datetime) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO outcomes VALUES (?, ?, ?, ?, ?)",
            (hour_of(at), client_id, call_id, millis(at), encode(self._compact(outcome))),
        )

    def _compact(self, outcome: Body) -> Body | list[int]:
        """Return an outcome without what its entry says anyway, if it is the receipt of one.

        Every call leaves one for a day, and hardly any is ever read.
        """
        if outcome.keys() != RECEIPT_KEYS or outcome["code"] != "persisted":
            return outcome
        session = self._recent.sessions.get(outcome["session_id"])
        if session is None or (session.head_seq, session.head_hash) != (outcome["seq"], outcome["hash"]):
            return outcome
        return [self._known_key(session.id), session.head_seq, outcome["redactions"]]

    def put_receipt(self, receipt: Receipt) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO receipts VALUES (?, ?, ?)",
            (receipt.session_id, receipt.seq, encode_noun(receipt)),
        )

    def put_projection_version(self, version: int) -> None:
        self._db.execute("DELETE FROM projection_version")
        self._db.execute("INSERT INTO projection_version VALUES (?)", (version,))

    # Erasing and rebuilding

    def erase_body(self, session_id: str, seq: int) -> None:
        row_id = entry_id(self._known_key(session_id), seq)
        self._backlog.index_texts(self._db)
        self._backlog.erased = True
        # Kept until the file is scrubbed, so that a process that ends in between leaves the work to the next.
        self._db.execute("PRAGMA user_version = 1")
        self._db.execute("UPDATE entries SET body = NULL, salt = NULL, facet = NULL WHERE id = ?", (row_id,))
        self._db.execute("DELETE FROM found WHERE rowid = ?", (row_id,))
        grams.forget(self._db, row_id)
        uses = self._db.execute("DELETE FROM blob_uses WHERE entry_id = ? RETURNING hash", (row_id,)).fetchall()
        for (digest,) in uses:
            self._db.execute(
                "DELETE FROM blobs WHERE hash = ?1 AND NOT EXISTS (SELECT 1 FROM blob_uses WHERE hash = ?1)",
                (digest,),
            )

    def forget_projection(self, session_id: str) -> None:
        try:
            tally(self._db, self.session(session_id), None)
        except msgspec.MsgspecError:
            # What its damaged document counted for is not known.
            self._db.execute("INSERT OR IGNORE INTO unbuilt VALUES ('tallies')")
        self._recent.sessions.pop(session_id, None)
        self._recent.turns.clear()
        key = self._key(session_id)
        self._db.execute("DELETE FROM turn_tags WHERE session_key = ?", (key,))
        self._db.execute("DELETE FROM turn_files WHERE session_key = ?", (key,))
        self._db.execute("DELETE FROM turns WHERE session_key = ?", (key,))
        self._db.execute("DELETE FROM sessions WHERE key = ?", (key,))

    def recount(self) -> None:
        recount(self._db)

    def reindex(self, session_id: str, items: Iterable[Indexed]) -> None:
        key = self._known_key(session_id)
        self._backlog.index_texts(self._db)
        stray = self._db.execute(
            "SELECT id FROM found_docsize d WHERE id >= ? AND id < ?"
            " AND NOT EXISTS (SELECT 1 FROM entries e WHERE e.id = d.id)",
            (entry_id(key, 0), entry_id(key + 1, 0)),
        ).fetchall()
        self._db.executemany("DELETE FROM found WHERE rowid = ?", stray)
        for item in items:
            row_id = entry_id(key, item.entry.seq)
            self._db.execute(
                "UPDATE entries SET facet = ? WHERE id = ? AND facet IS NOT ?", (item.facet, row_id, item.facet)
            )
            self._db.execute("DELETE FROM found WHERE rowid = ?", (row_id,))
            if item.text:
                self._db.execute("INSERT INTO found (rowid, text) VALUES (?, ?)", (row_id, apart(item.text)))
        grams.forget(self._db, entry_id(key, 1))
        self._backlog.grown.append((key, 1, (self.head(session_id) or (0, ""))[0]))

    def catch_up(self, keys: Iterable[int]) -> None:
        """Index more of the substrings of sessions; the store asks for this after a search that missed them."""
        grams.catch_up(self._db, keys)

    def forget_turn(self, session_id: str, request_id: str) -> None:
        self._recent.turns.pop((session_id, request_id), None)
        key = self._known_key(session_id)
        row = self._db.execute(
            "DELETE FROM turns WHERE session_key = ? AND request_id = ? RETURNING key", (key, request_id)
        ).fetchone()
        if row is not None:
            self._db.execute("DELETE FROM turn_tags WHERE session_key = ? AND turn_key = ?", (key, *row))
            self._db.execute("DELETE FROM turn_files WHERE turn_key = ?", row)
