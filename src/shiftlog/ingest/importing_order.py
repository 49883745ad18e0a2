"""The order in which files are imported: an original before its copies, wherever anything tells them apart.

What is looked at are the ends of a file and, in a Claude Code transcript, which session ids occur in it.
"""

import os
import re
from pathlib import Path

from shiftlog.ingest.reading import utc
from shiftlog.ingest.sources_opencode import is_composed
from shiftlog.ingest.streams import LineFile
from shiftlog.model.errors import TranscriptUnreadable

EDGE_BYTES = 64 * 1024
CHUNK_BYTES = 256 * 1024

_TIME = re.compile(rb'"timestamp":\s?"([^"]{10,40})"')
_SESSION = b'"sessionId":"'
_KIND = b'"sessionKind":"'
_LATEST = "9999"

Place = tuple[str, bool, str, str]


def place_of(path: str) -> Place:
    """Return where a file stands among others of one run: first record, mixed files last, last record, path."""
    if is_composed(path):
        return (_LATEST, False, _LATEST, path)
    try:
        with LineFile(path, CHUNK_BYTES) as file:
            start = file.start(EDGE_BYTES)
    except TranscriptUnreadable:
        return (_LATEST, True, _LATEST, path)
    first = _time_in(_TIME.search(start)) or _LATEST
    if path.endswith(".zst"):
        return (first, False, first, path)
    mixed = _KIND in start or (_SESSION in start and _has_several_sessions(path))
    return (first, mixed, _last_time(path) or first, path)


def _time_in(match: "re.Match[bytes] | None") -> str | None:
    return utc(match[1].decode("ascii", "replace")) if match else None


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
    """Tell whether records of more than one session lie in a file; escaped text inside strings does not match."""
    first: bytes | None = None
    carried = b""
    try:
        with Path(path).open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                data = carried + chunk
                at = data.find(_SESSION)
                while at >= 0:
                    at += len(_SESSION)
                    if first is None:
                        first = data[at : data.find(b'"', at) + 1]
                    elif not data.startswith(first, at) and len(data) - at > len(first):
                        return True
                    at = data.find(_SESSION, at)
                carried = data[-256:]
    except OSError:
        return False
    return False
