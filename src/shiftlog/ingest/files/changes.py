"""Detect how a file changed since it was read: unchanged, grown, rewritten, renamed, a copy, or new.

Only a file that may have changed is opened, and only its two ends are read. Reading its lines is the import's work.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from pathlib import Path

from shiftlog.ingest.files.discovery import FoundFile
from shiftlog.ingest.files.lines import EDGE_BYTES, LineFile, digest
from shiftlog.ingest.files.opencode_db import is_composed
from shiftlog.store.sources import Source

_status = attrgetter("size", "mtime_ns", "inode", "device")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceChange:
    """A file and what happened to it; `source` is its earlier reading, `moved_from` its earlier path.

    `offset` is where reading goes on, None if there is nothing to read; `is_due` asks for turns that time has ended.
    """

    found: FoundFile
    status: str
    source: Source | None = None
    offset: int | None = None
    is_due: bool = False
    moved_from: str | None = None
    head: str = ""
    head_bytes: int = 0

    @property
    def bytes_to_read(self) -> int:
        """Return how many bytes of the file have not been read."""
        return 0 if self.offset is None else max(self.found.size - self.offset, 0)


class KnownSources:
    """The sources read so far, by path and by their first bytes."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self._by_path = {source.path: source for source in sources}
        self._by_head: dict[tuple[str, int], list[Source]] = {}
        for source in self._by_path.values():
            self._by_head.setdefault((source.head, source.head_bytes), []).append(source)

    def compare(self, found: FoundFile, now: datetime, *, full: bool, max_line_bytes: int) -> SourceChange:
        """Return what happened to a file since it was read; raise TranscriptUnreadable."""
        source = self._by_path.get(found.path)
        is_same = source is not None and _status(source) == _status(found)
        if source is not None and is_same and not full:
            due = source.settle_at is not None and source.settle_at <= now
            return SourceChange(found=found, status="unchanged", source=source, is_due=due)
        if is_composed(found.path):
            # It is read whole after any change; the keys of its facts decide what is new.
            status = "imported" if source is None else "unchanged" if is_same else "grown"
            return SourceChange(found=found, status=status, source=source, offset=0)
        with LineFile(found.path, max_line_bytes) as file:
            start = file.start(EDGE_BYTES)
            moved_from = None
            status = "rewritten"
            if source is None:
                source, moved_from = self._elsewhere(start, found)
                status = "renamed" if moved_from else "imported" if source is None else "copied"
                source = source if moved_from else None
            offset = 0
            if source is not None and _continues(source, found, file, start):
                offset = 0 if full else source.cursor
                is_same = is_same or (full and found.size == source.size)
                status = "renamed" if moved_from else "unchanged" if is_same else "grown"
        return SourceChange(
            found=found,
            status=status,
            source=source,
            offset=offset,
            moved_from=moved_from,
            head=digest(start),
            head_bytes=len(start),
        )

    def _elsewhere(self, start: bytes, found: FoundFile) -> tuple[Source | None, str | None]:
        """Find a source with the same first bytes under another path, and that path if its file is gone from there."""
        copy: Source | None = None
        for size in {size for _, size in self._by_head if size <= len(start)}:
            for source in self._by_head.get((digest(start[:size]), size), ()):
                if _has_left(source, found):
                    return source, source.path
                copy = source
        return copy, None


def _has_left(source: Source, found: FoundFile) -> bool:
    """Return True if a source is no longer at its path, or another file is and this one is the source."""
    try:
        now = Path(source.path).stat()
    except OSError:
        return True
    own = (source.device, source.inode)
    return own == (found.device, found.inode) != (now.st_dev, now.st_ino)


def _continues(source: Source, found: FoundFile, file: LineFile, start: bytes) -> bool:
    """Return True if a file still begins with what was read of it."""
    if digest(start[: source.head_bytes]) != source.head:
        return False
    is_long_enough = file.is_compressed or found.size >= source.cursor
    return is_long_enough and file.edge_before(source.cursor) == source.tail
