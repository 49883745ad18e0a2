"""Imports in SQLite: the files that were read, the origins of facts, and packed entries."""

from collections.abc import Iterable, Sequence
from typing import Any

import apsw
import msgspec

from shiftlog.facts.batch import LongText
from shiftlog.model.entry import Body
from shiftlog.store.codec.documents import decode, encode
from shiftlog.store.sources import Origin, Packed, Source
from shiftlog.store.sqlite.rows import Queries, Row, entry_id

_ASKED_AT_ONCE = 256
# A store with at most _KEYS_READ keys remembers all of them, up to _KEYS_KEPT; each takes 90 bytes.
_KEYS_READ = 4_096
_KEYS_KEPT = 120_000
_READ_ORIGINS = (
    "SELECT o.key, j.id, o.turn, o.doc FROM origins o JOIN journals j ON j.key = o.session_key"
    f" WHERE o.key IN ({', '.join('?' * _ASKED_AT_ONCE)})"
)

# For pages of 4 KiB, SQLite's default; the bytes of a row besides its text are an estimate.
PAGE_BYTES = 4061
_OVERFLOW_BYTES = 4092
_LEAST_LOCAL = 489
_ROW_BYTES = 50

_source_of = msgspec.json.Decoder(Source).decode


def _origin_of(row: Row) -> Origin:
    _, session_id, turn, doc = row
    return Origin(session_id=session_id, turn=turn, doc=None if doc is None else decode(doc))


class OriginKeys:
    """The keys of all origins, while they are few enough to stay in memory.

    In a first import nearly every key is new, and a lookup for each would be a twentieth of its work. A key that was
    rolled back stays here, which costs a lookup in vain.
    """

    def __init__(self) -> None:
        self._keys: set[bytes] | None = None
        self._version: object = None

    def among(self, keys: Iterable[bytes], db: apsw.Connection) -> list[bytes]:
        """Return those keys, each once, that may be stored; `db` is in a transaction."""
        version = db.pragma("data_version")
        if version != self._version:  # another process has written since
            self._version = version
            stored = {row[0] for row in db.execute("SELECT key FROM origins LIMIT ?", (_KEYS_READ + 1,))}
            self._keys = stored if len(stored) <= _KEYS_READ else None
        return list(dict.fromkeys(keys) if self._keys is None else self._keys.intersection(keys))

    def add(self, keys: Iterable[bytes]) -> None:
        """Remember keys that are stored now."""
        if self._keys is not None:
            self._keys.update(keys)
            if len(self._keys) > _KEYS_KEPT:
                self._keys = None


class SqliteImportReader(Queries):
    """The facet `ImportReader`."""

    _origin_keys: OriginKeys | None = None

    def source(self, path: str) -> Source | None:
        document = self._value("SELECT doc FROM sources WHERE path = ?", path)
        return None if document is None else _source_of(document)

    def source_state(self, path: str) -> bytes | None:
        return self._value("SELECT state FROM source_states WHERE path = ?", path)

    def sources(self) -> list[Source]:
        return [_source_of(row[0]) for row in self._db.execute("SELECT doc FROM sources ORDER BY path")]

    def origins(self, keys: Iterable[bytes]) -> dict[bytes, Origin]:
        wanted = list(dict.fromkeys(keys)) if self._origin_keys is None else self._origin_keys.among(keys, self._db)
        found: dict[bytes, Origin] = {}
        for start in range(0, len(wanted), _ASKED_AT_ONCE):
            # Always as many parameters, so that the statement is prepared once.
            part: list[bytes | None] = [*wanted[start : start + _ASKED_AT_ONCE]]
            part += [None] * (_ASKED_AT_ONCE - len(part))
            rows: Iterable[Row] = self._db.execute(_READ_ORIGINS, part)
            found.update({row[0]: _origin_of(row) for row in rows})
        return found

    def imported(self, session_id: str) -> Body | None:
        data = self._value("SELECT doc FROM imported WHERE session_id = ?", session_id)
        return None if data is None else decode(data)

    def project_of(self, path: str) -> str | None:
        return self._value("SELECT project FROM project_paths WHERE path = ?", path)

    def paths_of(self, project: str) -> list[str]:
        rows: Iterable[Row] = self._db.execute(
            "SELECT path FROM project_paths WHERE project = ? ORDER BY path", (project,)
        )
        return [str(row[0]) for row in rows]


class SqliteImportWriter(SqliteImportReader):
    """The facet `ImportWriter`, and rows of packed entries."""

    def put_source(self, source: Source) -> None:
        document: dict[str, Any] = msgspec.to_builtins(source)
        del document["state"]
        self._db.execute("INSERT OR REPLACE INTO sources VALUES (?, ?)", (source.path, encode(document)))
        if source.state is not None:
            self._db.execute("INSERT OR REPLACE INTO source_states VALUES (?, ?)", (source.path, source.state))

    def forget_source(self, path: str) -> None:
        self._db.execute("DELETE FROM sources WHERE path = ?", (path,))
        self._db.execute("DELETE FROM source_states WHERE path = ?", (path,))

    def put_imported(self, session_id: str, document: Body) -> None:
        self._db.execute("INSERT OR REPLACE INTO imported VALUES (?, ?)", (session_id, encode(document)))

    def put_project_path(self, path: str, project: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO project_paths VALUES (?, ?)", (path, project))

    def insert_packed(self, key: int, entries: Sequence[Packed]) -> None:
        """Insert the rows of packed entries and the blobs of their long texts."""
        base = entry_id(key, entries[-1].seq) - entries[-1].seq
        rows = [
            (base + seq, kind, at, turn, facet, document, salt, body_hash, digest)
            for seq, kind, at, turn, facet, document, salt, body_hash, digest, _, _ in entries
        ]
        self._db.executemany(
            "INSERT INTO entries (id, kind, at, turn, facet, body, salt, body_hash, hash)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )
        texts = [(long, base + e.seq) for e in entries for long in e.long_texts]
        if texts:
            new = {long.digest: long for long, _ in texts}
            self._db.executemany("INSERT OR IGNORE INTO blobs VALUES (?, ?, ?)", by_pages([*new.values()]))
            self._db.executemany(
                "INSERT OR IGNORE INTO blob_uses VALUES (?, ?)", [(long.digest, row) for long, row in texts]
            )


def by_pages(texts: list[LongText]) -> list[tuple[bytes, int, bytes]]:
    """Return the rows of long texts in an order in which those fill a page that fit into it together.

    A row goes to the end of the table, to the last page if there is room for all of it there. As texts come, a fifth of
    the pages would stay empty.
    """
    pages: list[tuple[int, list[LongText]]] = []
    for text in sorted(texts, key=lambda text: (-_room_of(text), text.digest)):
        needed = _room_of(text)
        place = next((place for place, (free, _) in enumerate(pages) if free >= needed), None)
        if place is None:
            pages.append((PAGE_BYTES - needed, [text]))
        else:
            free, kept = pages[place]
            pages[place] = (free - needed, [*kept, text])
    return [(text.digest, text.chars, text.data) for _, kept in pages for text in kept]


def _room_of(text: LongText) -> int:
    """Return how much of a leaf page a long text takes; the rest of it gets overflow pages of its own."""
    size = len(text.data) + _ROW_BYTES
    return size if size <= PAGE_BYTES else _LEAST_LOCAL + (size - _LEAST_LOCAL) % _OVERFLOW_BYTES
