"""OpenCode's sessions, which are not files of lines: rows of one database, or a tree of small documents.

Each session becomes a source of its own: `<database>#<session id>`, or the path of its session document. The database
is opened read-only.
"""

import os
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw

from shiftlog.ingest.files.discovery import FoundFile, find_under
from shiftlog.ingest.readers.plain.opencode_rows import from_row, session_lines
from shiftlog.ingest.readers.records import read_line
from shiftlog.model.errors import TranscriptUnreadable

DATABASE = ".db"
MARK = "#"
MAX_DOCUMENT_BYTES = 64 << 20
_MOST_MS = 2**63 // 1_000_000
_FOLDERS = ("session", "message", "part")
_OF_SESSION = " WHERE session_id = ?"

Object = dict[str, Any]


def with_sessions(found: Iterable[FoundFile]) -> list[FoundFile]:
    """Replace databases and trees by their sessions; other files stay as they are."""
    made: list[FoundFile] = []
    for file in found:
        if file.skip is not None:
            made.append(file)
        elif file.path.endswith(DATABASE):
            made += _sessions_of(file)
        elif (root := _tree_of(file.path)) is None:
            made.append(file)
        elif Path(file.path).relative_to(root).parts[0] == "session":
            made.append(_as_tree(file, root))
    return made


def find_sessions(paths: Iterable[str], *, recursive: bool) -> list[FoundFile]:
    """List what lies at or under the given paths; a path may also name one session of a database."""
    files: list[str] = []
    sessions: list[FoundFile] = []
    for path in paths:
        database, mark, name = path.rpartition(DATABASE + MARK)
        if mark and "/" not in name:
            sessions += [one for file in find_under([database + DATABASE]) for one in _sessions_of(file, name)]
        else:
            files.append(path)
    return [*with_sessions(find_under(files, recursive=recursive) if files else ()), *sessions]


def file_of(path: str) -> str:
    """Return the file in which a source lies: of a session of a database, the database."""
    database, mark, name = path.rpartition(DATABASE + MARK)
    return database + DATABASE if mark and "/" not in name else path


def is_composed(path: str) -> bool:
    """Return True if a source is a session of a database or a tree."""
    return DATABASE + MARK in Path(path).name or _tree_of(path) is not None


def lines_of(path: str) -> Iterator[bytes]:
    """Yield the lines of a session; raise TranscriptUnreadable."""
    try:
        root = _tree_of(path)
        if root is not None:
            yield from _tree_lines(Path(path), root)
        else:
            yield from _row_lines(path)
    except (OSError, apsw.Error) as error:
        raise TranscriptUnreadable(f"Transcript unreadable: {path}: {error}", details={"path": path}) from None


# -- the database ------------------------------------------------------------------------------------------------------


def _opened(path: str) -> apsw.Connection:
    db = apsw.Connection(f"file:{quote(path)}?mode=ro", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    db.set_busy_timeout(2_000)
    return db


def _sessions_of(file: FoundFile, only: str | None = None) -> list[FoundFile]:
    """Return the sessions of a database; newest time and number of rows stand in for modification time and size."""
    of_session, chosen, values = ("", "", ()) if only is None else (_OF_SESSION, " WHERE s.id = ?", (only,) * 3)
    try:
        db = _opened(file.path)
        try:
            rows: list[tuple[Any, ...]] = db.execute(
                "SELECT s.id, max(coalesce(s.time_updated, 0), coalesce(m.newest, 0), coalesce(p.newest, 0)),"
                " coalesce(m.n, 0), coalesce(p.n, 0) FROM session s"
                f" LEFT JOIN (SELECT session_id, count(*) n, max(time_updated) newest FROM message{of_session}"
                " GROUP BY 1) m ON m.session_id = s.id"
                f" LEFT JOIN (SELECT session_id, count(*) n, max(time_updated) newest FROM part{of_session}"
                f" GROUP BY 1) p ON p.session_id = s.id{chosen} ORDER BY s.id",
                values,
            ).fetchall()
        finally:
            db.close()
    except apsw.Error:
        return [replace(file, skip="not_recognised")]
    return [
        replace(file, path=f"{file.path}{MARK}{name}", size=messages * 1_000_003 + parts, mtime_ns=_nanoseconds(newest))
        for name, newest, messages, parts in rows
        if isinstance(name, str) and name
    ]


def _nanoseconds(newest: object) -> int:
    """Return the time of a session's newest row; any other value becomes a number that changes with it."""
    if isinstance(newest, int | float) and abs(newest) < _MOST_MS:
        return int(newest) * 1_000_000
    return zlib.crc32(repr(newest).encode())


def _row_lines(path: str) -> Iterator[bytes]:
    database, _, name = path.rpartition(DATABASE + MARK)
    database += DATABASE
    db = _opened(database)
    try:
        (session,) = _rows(db, "SELECT * FROM session WHERE id = ?", name) or [{}]
        messages = _rows(db, "SELECT * FROM message WHERE session_id = ? ORDER BY id", name)
        parts = _rows(db, "SELECT * FROM part WHERE session_id = ? ORDER BY id", name)
    finally:
        db.close()
    yield from session_lines(session, messages, [(None, part) for part in parts])


def _rows(db: apsw.Connection, sql: str, name: str) -> list[Object]:
    cursor = db.execute(sql, (name,))
    names: list[str] | None = None
    made: list[Object] = []
    for row in cursor:
        names = names or [column[0] for column in cursor.get_description()]
        made.append(from_row(dict(zip(names, row, strict=True))))
    return made


# -- the tree ----------------------------------------------------------------------------------------------------------


def _tree_of(path: str) -> Path | None:
    """Return the folder with sessions, messages and parts side by side, if the file is below one."""
    if not path.endswith(".json"):
        return None
    parts = Path(path).parts
    for index in range(len(parts) - 2, 0, -1):
        if parts[index] in _FOLDERS:
            root = Path(*parts[:index])
            return root if (root / "session").is_dir() and (root / "message").is_dir() else None
    return None


def _as_tree(file: FoundFile, root: Path) -> FoundFile:
    size, newest = file.size, file.mtime_ns
    try:
        for path in _documents(root, Path(file.path)):
            status = path.stat()
            size += status.st_size
            newest = max(newest, status.st_mtime_ns)
    except OSError as error:
        return replace(file, skip="unreadable", error=error.strerror or str(error))
    return replace(file, size=size, mtime_ns=newest)


def _documents(root: Path, session: Path) -> Iterator[Path]:
    """Yield the documents of a session's messages and their parts."""
    own = _read(session).get("id")
    folder = root / "message" / str(own)
    if not isinstance(own, str) or os.sep in own or not folder.is_dir():
        return
    for message in sorted(folder.glob("*.json")):
        yield message
        name = _read(message).get("id")
        if isinstance(name, str) and os.sep not in name:
            yield from sorted((root / "part" / name).glob("*.json"))
    yield from sorted((root / "part").glob("*.json"))


def _tree_lines(session: Path, root: Path) -> Iterator[bytes]:
    messages: list[Object] = []
    parts: list[tuple[str | None, Object]] = []
    for path in _documents(root, session):
        if path.relative_to(root).parts[0] == "message":
            messages.append(_read(path))
        else:
            folder = path.parent.name
            parts.append((None if folder == "part" else folder, _read(path)))
    known = {message.get("id") for message in messages}
    # Older releases keep the parts of all sessions in one folder.
    kept = [(folder, part) for folder, part in parts if folder in known or part.get("messageID") in known]
    yield from session_lines(_read(session), messages, kept)


def _read(path: Path) -> Object:
    if path.stat().st_size > MAX_DOCUMENT_BYTES:
        return {}
    read = read_line(path.read_bytes())
    return read.record if read is not None and read.record is not None else {}
