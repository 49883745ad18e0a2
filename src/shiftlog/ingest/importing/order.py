"""The order of files in an import: an original before its copies, as far as they can be told apart.

It depends on the ends of a file and, for Claude Code, on the session ids in it.
"""

import os
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from shiftlog.ingest.files.lines import LineFile
from shiftlog.ingest.files.opencode_db import is_composed
from shiftlog.ingest.readers.records import utc
from shiftlog.model.errors import TranscriptUnreadable

EDGE_BYTES = 64 * 1024
CHUNK_BYTES = 256 * 1024

_TIME = re.compile(rb'"timestamp":\s?"([^"]{10,40})"')
_SESSION = b'"sessionId":'
_KIND = b'"sessionKind":'
_LATEST = "9999"

SortKey = tuple[str, bool, str, str]


def sort_keys(paths: Iterable[str]) -> dict[str, SortKey]:
    """Return the sort key of each file: first record, mixed files last, last record, path.

    Most files differ in their first record; only the others are read whole.
    """
    first = {path: _first_of(path) for path in paths}
    alike = Counter(first.values())
    return {path: _sort_key(path, at) if alike[at] > 1 else (at, False, at, path) for path, at in first.items()}


def _first_of(path: str) -> str:
    if is_composed(path):
        return _LATEST
    try:
        with LineFile(path, CHUNK_BYTES) as file:
            found = _TIME.search(file.start(EDGE_BYTES))
            return (found and utc(found[1].decode("ascii", "replace"))) or _LATEST
    except TranscriptUnreadable:
        return _LATEST


def _sort_key(path: str, first: str) -> SortKey:
    if is_composed(path):
        return (first, False, _LATEST, path)
    try:
        with LineFile(path, CHUNK_BYTES) as file:
            start = file.start(EDGE_BYTES)
    except TranscriptUnreadable:
        return (first, True, _LATEST, path)
    if path.endswith(".zst"):
        return (first, False, first, path)
    mixed = _KIND in start or (_SESSION in start and _has_several_sessions(path))
    return (first, mixed, _last_time(path) or first, path)


def _last_time(path: str) -> str | None:
    try:
        with Path(path).open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - EDGE_BYTES, 0))
            found = _TIME.findall(file.read(EDGE_BYTES))
    except OSError:
        return None
    return utc(found[-1].decode("ascii", "replace")) if found else None


def _has_several_sessions(path: str) -> bool:
    """Return True if a file has records of several sessions; escaped text inside strings does not match."""
    first: bytes | None = None
    carried = b""
    try:
        with Path(path).open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                data = carried + chunk
                at = data.find(_SESSION)
                while at >= 0:
                    at += len(_SESSION)
                    at += data[at : at + 1] == b" "
                    if data[at : at + 1] != b'"':
                        pass  # no id, or an id that the next chunk completes
                    elif first is None:
                        first = data[at : data.find(b'"', at + 1) + 1]
                    elif not data.startswith(first, at) and len(data) - at > len(first):
                        return True
                    at = data.find(_SESSION, at)
                carried = data[-256:]
    except OSError:
        return False
    return False
