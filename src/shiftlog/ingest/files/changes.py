"""What a file is compared with what was read of it before: unchanged, grown, rewritten, renamed, a copy or new.

Only a file that may have changed is opened, and then only its ends are read to tell what happened to it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from shiftlog.ingest.files.discovery import FoundFile
from shiftlog.ingest.files.lines import EDGE_BYTES, LineFile, digest
from shiftlog.ingest.files.opencode_db import is_composed
from shiftlog.store.sources import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceChange:
    """A file and what happened to it; `source` is what was known of it, `moved_from` its path until now.

    `offset` is where reading goes on, None where there is nothing to read; `settles` asks for what time alone changed.
    """

    found: FoundFile
    status: str
    source: Source | None = None
    offset: int | None = None
    settles: bool = False
    moved_from: str | None = None
    head: str = ""
    head_bytes: int = 0


class KnownSources:
    """The sources read so far, by path and by their first bytes."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self._by_path = {source.path: source for source in sources}
        self._by_head: dict[tuple[str, int], list[Source]] = {}
        for source in self._by_path.values():
            self._by_head.setdefault((source.head, source.head_bytes), []).append(source)

    def judge(
        self, found: FoundFile, now: datetime, *, full: bool = False, max_line_bytes: int = 1 << 27
    ) -> SourceChange:
        """Tell what happened to a file since it was read; raise TranscriptUnreadable."""
        source = self._by_path.get(found.path)
        if source is not None and not full and _is_same(source, found):
            due = source.settle_at is not None and source.settle_at <= now
            return SourceChange(found=found, status="unchanged", source=source, settles=due)
        if is_composed(found.path):
            # Changed anywhere it is read whole; the keys decide what is new.
            return SourceChange(found=found, status="imported" if source is None else "grown", source=source, offset=0)
        with LineFile(found.path, max_line_bytes) as file:
            start = file.start(EDGE_BYTES)
            moved_from = None
            status = "imported"
            if source is None:
                source, moved_from = self._elsewhere(start)
                status = "imported" if source is None else "renamed" if moved_from else "copied"
            if source is None or status == "copied":
                return SourceChange(found=found, status=status, offset=0, head=digest(start), head_bytes=len(start))
            fits = digest(start[: source.head_bytes]) == source.head
            fits = fits and not full and (file.is_compressed or found.size >= source.cursor)
            if fits and file.edge_before(source.cursor) == source.tail:
                if status != "renamed":
                    status = "grown"
                return SourceChange(
                    found=found,
                    status=status,
                    source=source,
                    offset=source.cursor,
                    moved_from=moved_from,
                    head=digest(start),
                    head_bytes=len(start),
                )
        if status != "renamed":
            status = "rewritten"
        return SourceChange(
            found=found,
            status=status,
            source=source,
            offset=0,
            moved_from=moved_from,
            head=digest(start),
            head_bytes=len(start),
        )

    def _elsewhere(self, start: bytes) -> tuple[Source | None, str | None]:
        """Find a source with the same first bytes under another path, and that path if no file is there any more."""
        copy: Source | None = None
        for size in {size for _, size in self._by_head if size <= len(start)}:
            for source in self._by_head.get((digest(start[:size]), size), ()):
                if not Path(source.path).exists():
                    return source, source.path
                copy = source
        return copy, None


def _is_same(source: Source, found: FoundFile) -> bool:
    return (source.size, source.mtime_ns, source.inode, source.device) == (
        found.size,
        found.mtime_ns,
        found.inode,
        found.device,
    )
