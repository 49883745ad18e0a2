"""Changing the SQLite file inside one transaction: heads, search and erasing; the rest of the writer is shared."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import apsw

from shiftlog.facts.batch import LongText
from shiftlog.model.search import apart
from shiftlog.store.protocol import Indexed
from shiftlog.store.sources import Origin, Packed
from shiftlog.store.sql.recent import RecentNouns
from shiftlog.store.sql.rows import entry_id
from shiftlog.store.sql.tallies import recount
from shiftlog.store.sql.writer import SqlWriter
from shiftlog.store.sqlite.imports import OriginKeys, by_pages
from shiftlog.store.sqlite.reader import SqliteReader
from shiftlog.store.sqlite.search import trigrams as grams


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


class SqliteWriter(SqlWriter, SqliteReader):
    """The changes that the store makes, over the writer's connection."""

    def __init__(
        self, db: apsw.Connection, backlog: Backlog, origin_keys: OriginKeys, recent: RecentNouns | None = None
    ) -> None:
        super().__init__(db, recent)
        self._backlog = backlog
        self._origin_keys = origin_keys

    def append(self, session_id: str, entries: Sequence[Packed]) -> None:
        if not entries:
            return
        key = self._move_head(session_id, entries[0].seq, entries[-1].seq, entries[-1].hash)
        self._insert_packed(key, entries)
        if not self._backlog.is_bulk:
            self._backlog.grown.append((key, entries[0].seq, entries[-1].seq))
        self._backlog.last_entry = entry_id(key, entries[-1].seq)
        base = self._backlog.last_entry - entries[-1].seq
        self._backlog.texts += [(base + entry.seq, apart(entry.text)) for entry in entries if entry.text]

    def _move_head(self, session_id: str, first: int, last: int, head: bytes) -> int:
        key = self._key(session_id)
        if key is not None:
            self._db.execute(
                "UPDATE journals SET head_seq = ?, head_hash = ? WHERE key = ? AND head_seq = ?",
                (last, head, key, first - 1),
            )
        if first != 1 if key is None else not self._db.changes():
            raise self._refuse(session_id, first)
        if key is None:
            self._db.execute(
                "INSERT INTO journals (id, head_seq, head_hash) VALUES (?, ?, ?)", (session_id, last, head)
            )
            key = self._keys[session_id] = self._db.last_insert_rowid()
        return key

    def put_origins(self, origins: Mapping[bytes, Origin]) -> None:
        super().put_origins(origins)
        self._origin_keys.add(origins)

    def _possible_origins(self, keys: Iterable[bytes]) -> list[bytes]:
        return self._origin_keys.among(keys, self._db)

    def _put_long_texts(self, texts: list[LongText]) -> None:
        self._db.executemany("INSERT INTO blobs VALUES (?, ?, ?) ON CONFLICT DO NOTHING", by_pages(texts))

    def next_alias(self) -> int:
        self._db.execute("INSERT INTO aliases DEFAULT VALUES")
        alias = self._db.last_insert_rowid()
        self._db.execute("DELETE FROM aliases WHERE alias < ?", (alias,))
        return alias

    def _index_pending(self) -> None:
        self._backlog.index_texts(self._db)

    def put_last_numbers(self, alias: int) -> None:
        self._db.execute("DELETE FROM aliases")
        if alias:
            self._db.execute("INSERT INTO aliases VALUES (?)", (alias,))

    # Erasing and rebuilding

    def erase_body(self, session_id: str, seq: int) -> None:
        row_id = entry_id(self._known_key(session_id), seq)
        self._backlog.index_texts(self._db)
        self._backlog.erased = True
        # Kept until the file is scrubbed, so that a process that ends in between leaves the work to the next.
        self._db.execute("PRAGMA user_version = 1")
        self._db.execute("UPDATE entries SET body = NULL, salt = NULL, facet = NULL WHERE id = ?", (row_id,))
        self._db.execute("DELETE FROM found WHERE rowid = ?", (row_id,))
        grams.GRAMS.forget(self._db, row_id)
        uses = self._db.execute("DELETE FROM blob_uses WHERE entry_id = ? RETURNING hash", (row_id,)).fetchall()
        for (digest,) in uses:
            self._db.execute(
                "DELETE FROM blobs WHERE hash = ?1 AND NOT EXISTS (SELECT 1 FROM blob_uses WHERE hash = ?1)",
                (digest,),
            )

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
        grams.GRAMS.forget(self._db, entry_id(key, 1))
        self._backlog.grown.append((key, 1, (self.head(session_id) or (0, ""))[0]))

    def catch_up(self, keys: Iterable[int]) -> None:
        """Index more of the substrings of sessions; the store asks for this after a search that missed them."""
        grams.catch_up(self._db, keys)
