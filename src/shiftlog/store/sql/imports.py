"""Imports in tables: the files that were read, and the origins of facts."""

from collections.abc import Iterable
from typing import Any

import msgspec

from shiftlog.model.entry import Body
from shiftlog.store.codec.documents import decode, encode
from shiftlog.store.sources import Origin, Source
from shiftlog.store.sql.database import Row, upsert
from shiftlog.store.sql.rows import Changes, Queries

_ASKED_AT_ONCE = 256
_READ_ORIGINS = (
    "SELECT o.key, j.id, o.turn, o.doc FROM origins o JOIN journals j ON j.key = o.session_key"
    f" WHERE o.key IN ({', '.join('?' * _ASKED_AT_ONCE)})"
)

_PUT_SOURCE = upsert("sources", "path", "doc")
_PUT_STATE = upsert("source_states", "path", "state")
_PUT_IMPORTED = upsert("imported", "session_id", "doc")
_PUT_PATH = upsert("project_paths", "path", "project")

_source_of = msgspec.json.Decoder(Source).decode


def _origin_of(row: Row) -> Origin:
    _, session_id, turn, doc = row
    return Origin(session_id=session_id, turn=turn, doc=None if doc is None else decode(doc))


class SqlImportReader(Queries):
    """The facet `ImportReader`."""

    def source(self, path: str) -> Source | None:
        document = self._value("SELECT doc FROM sources WHERE path = ?", path)
        return None if document is None else _source_of(document)

    def source_state(self, path: str) -> bytes | None:
        return self._value("SELECT state FROM source_states WHERE path = ?", path)

    def sources(self) -> list[Source]:
        return [_source_of(row[0]) for row in self._db.execute("SELECT doc FROM sources ORDER BY path")]

    def origins(self, keys: Iterable[bytes]) -> dict[bytes, Origin]:
        wanted = self._possible_origins(keys)
        found: dict[bytes, Origin] = {}
        for start in range(0, len(wanted), _ASKED_AT_ONCE):
            # Always as many parameters, so that the statement is prepared once.
            part: list[bytes | None] = [*wanted[start : start + _ASKED_AT_ONCE]]
            part += [None] * (_ASKED_AT_ONCE - len(part))
            rows: Iterable[Row] = self._db.execute(_READ_ORIGINS, part)
            found.update({row[0]: _origin_of(row) for row in rows})
        return found

    def _possible_origins(self, keys: Iterable[bytes]) -> list[bytes]:
        """Return those keys, each once, that may be stored."""
        return list(dict.fromkeys(keys))

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


class SqlImportWriter(SqlImportReader, Changes):
    """The facet `ImportWriter`, but for `put_origins`, which looks at the journal."""

    def put_source(self, source: Source) -> None:
        document: dict[str, Any] = msgspec.to_builtins(source)
        del document["state"]
        self._put(_PUT_SOURCE, (source.path, encode(document)))
        if source.state is not None:
            self._put(_PUT_STATE, (source.path, source.state))

    def forget_source(self, path: str) -> None:
        self._db.execute("DELETE FROM sources WHERE path = ?", (path,))
        self._db.execute("DELETE FROM source_states WHERE path = ?", (path,))

    def put_imported(self, session_id: str, document: Body) -> None:
        self._put(_PUT_IMPORTED, (session_id, encode(document)))

    def put_project_path(self, path: str, project: str) -> None:
        self._put(_PUT_PATH, (path, project))
