"""Comparing what is stored for reading with what it should be: a session's row and its turns."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, cast

import msgspec
import zstandard

from shiftlog.model.nouns import FileTouch, Session, Turn
from shiftlog.model.times import millis
from shiftlog.store.codec.documents import decode_noun, decode_turn
from shiftlog.store.protocol import Indexed
from shiftlog.store.sql.columns import tags_of_turn, turn_columns
from shiftlog.store.sql.database import Database, Row
from shiftlog.store.sql.rows import entry_id, fetch_blob


class Comparison:
    """Names the differences between the tables of one session and its entries."""

    def __init__(self, db: Database, key: int, columns: Callable[[Session], dict[str, Any]]) -> None:
        self._db = db
        self._key = key
        self._columns = columns
        self._first, self._beyond = entry_id(key, 0), entry_id(key + 1, 0)

    def session(self, session: Session) -> Iterator[str]:
        """Compare the session with its document and its columns."""
        columns = {"entries": session.head_seq, **self._columns(session)}
        row: Row | None = self._db.execute(
            f"SELECT doc, {', '.join(columns)} FROM sessions WHERE key = ?", (self._key,)
        ).fetchone()
        if row is None:
            yield "the session's row"
            return
        try:
            yield from (f"the session's {name}" for name in _unequal(decode_noun(row[0], Session), session))
        except msgspec.MsgspecError:
            yield "the session's document"
        for (name, value), kept in zip(columns.items(), row[1:], strict=True):
            if value != kept:
                yield f"the session's column {name}"

    def turns(self, turns: Mapping[str, Turn]) -> Iterator[str]:
        """Compare turns with their documents, columns, tags and files."""
        stored: dict[str, bytes] = dict(
            cast(
                "list[tuple[str, bytes]]",
                self._db.execute("SELECT request_id, doc FROM turns WHERE session_key = ?", (self._key,)).fetchall(),
            )
        )
        for name in sorted(stored.keys() | turns.keys()):
            if name not in stored or name not in turns:
                yield f"the row of turn {name}"
            else:
                yield from (f"{what} of turn {name}" for what in self._turn(stored[name], turns[name]))

    def _turn(self, stored: bytes, turn: Turn) -> Iterator[str]:
        try:
            yield from _unequal(decode_turn(stored, partial(fetch_blob, self._db)), turn)
        except (msgspec.MsgspecError, zstandard.ZstdError):
            yield "the document"
        turn_key = entry_id(self._key, turn.begun_seq)
        row = self._db.execute(
            "SELECT ordinal, begun_ms, status, updated_ms, plan_file, todo_id FROM turns WHERE key = ?", (turn_key,)
        ).fetchone()
        if row != (turn.ordinal, millis(turn.begun_at), *turn_columns(turn)):
            yield "a column"
        tags = self._db.execute(
            "SELECT tag FROM turn_tags WHERE session_key = ? AND turn_key = ?", (self._key, turn_key)
        )
        if {str(tag) for (tag,) in tags} != set(tags_of_turn(turn)):
            yield "the tags"
        files = self._db.execute(
            "SELECT path, changes, last_type, seq FROM turn_files WHERE turn_key = ? ORDER BY place", (turn_key,)
        ).fetchall()
        if files != _files(turn.files):
            yield "the files"

    def facets(self, items: Iterable[Indexed]) -> Iterator[str]:
        """Compare the facets by which decisions and commands are found."""
        rows: list[Row] = self._db.execute(
            "SELECT id, facet FROM entries WHERE id >= ? AND id < ?", (self._first, self._beyond)
        ).fetchall()
        facets: dict[int, str | None] = dict(rows)
        for item in items:
            if facets.get(self._first + item.entry.seq) != item.facet:
                yield f"the facet of entry {item.entry.seq}"


def _unequal(stored: Session | Turn, noun: Session | Turn) -> list[str]:
    """Name the fields in which two nouns differ."""
    kept: dict[str, Any] = vars(stored)
    return [name for name, value in vars(noun).items() if kept.get(name) != value]


def _files(files: Mapping[str, FileTouch]) -> list[Row]:
    return [(path, touch.changes, touch.last_type, touch.seq) for path, touch in files.items()]
