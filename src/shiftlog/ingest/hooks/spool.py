"""The spool: files of lines from hooks and client scripts, read in order and removed once they are drained.

It decides which line comes next and how far a file is read. What a line means, and that it is stored once, the caller
decides. A line that cannot be stored is set aside with the reason, without its secrets.
"""

import fcntl
import json
import os
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from shiftlog.ingest.files.lines import digest
from shiftlog.ingest.hooks.events import read_spooled
from shiftlog.link.files import read_regular
from shiftlog.model.limits import HOOK_STUCK_S
from shiftlog.model.times import precise
from shiftlog.store.sources import Source

HOOKS = "hooks-"
CALLS = "calls-"
LINES = ".jsonl"
ASIDE = "aside"
DRAINING = "drain.lock"
HEAD_BYTES = 4096
LINE_BYTES = 64 << 20

Document = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolLine:
    """A complete line of a spool file, and the file's cursor after it."""

    data: bytes
    after: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSpool:
    """The spool of one state directory."""

    folder: Path

    def names(self, kind: str = HOOKS) -> list[str]:
        """List the waiting files of a kind by name."""
        try:
            with os.scandir(self.folder) as found:
                return sorted(entry.name for entry in found if entry.name.startswith(kind) and _is_file(entry))
        except OSError:
            return []

    def looks(self) -> dict[str, tuple[int, int]]:
        """Return the size and time of each file, to notice additions, also to a file of an earlier one's size."""
        found: dict[str, tuple[int, int]] = {}
        try:
            with os.scandir(self.folder) as entries:
                for entry in entries:
                    if entry.name.endswith(LINES) and _is_file(entry):
                        facts = entry.stat(follow_symlinks=False)
                        found[entry.name] = (facts.st_size, facts.st_mtime_ns)
        except OSError:
            pass
        return found

    def waiting(self) -> dict[str, int]:
        """Count the waiting files of events and of calls."""
        return {"events": len(self.names(HOOKS)), "calls": len(self.names(CALLS))}

    def stuck_reason(self) -> str | None:
        """Return which file waits for longer than a drain takes; None if the spool moves."""
        now = time.time()
        for name in (*self.names(HOOKS), *self.names(CALLS)):
            path = self.folder / name
            try:
                waits_s = int(now - path.stat().st_mtime)
            except OSError:
                continue
            if waits_s > HOOK_STUCK_S:
                return f"{name} waits for {waits_s} s" if os.access(path, os.R_OK) else f"{name} cannot be read"
        return None

    @contextmanager
    def draining(self) -> Generator[bool]:
        """Hold the lock for draining; False if another process has it."""
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            handle = os.open(self.folder / DRAINING, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError:
            yield False
            return
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
                return
            yield True
        finally:
            os.close(handle)

    def path(self, name: str) -> str:
        """Return the path of a file."""
        return str(self.folder / name)

    # Reading

    def at(self, name: str, known: Source | None) -> Source | None:
        """Return a file and how far it has been read; None if it is gone. Another file of the same name starts anew."""
        path = self.folder / name
        try:
            status = path.stat()
            with path.open("rb") as file:
                head = file.read(HEAD_BYTES)
        except OSError:
            return None
        fresh = Source(
            path=str(path),
            agent="",
            device=status.st_dev,
            inode=status.st_ino,
            size=status.st_size,
            mtime_ns=status.st_mtime_ns,
            head=digest(head),
            head_bytes=len(head),
            cursor=0,
            tail="",
        )
        if known is None or known.inode != status.st_ino or status.st_size < known.cursor:
            return fresh
        return replace(fresh, cursor=known.cursor) if digest(head[: known.head_bytes]) == known.head else fresh

    def lines(self, source: Source) -> Generator[SpoolLine]:
        """Yield the complete lines after the cursor; an unfinished last line waits."""
        with Path(source.path).open("rb") as file:
            file.seek(source.cursor)
            while line := file.readline(LINE_BYTES):
                if not line.endswith(b"\n"):
                    if len(line) < LINE_BYTES:
                        return
                    line += file.readline()
                source = replace(source, cursor=file.tell())
                yield SpoolLine(data=line, after=source)

    def merged(self, sources: Iterable[Source]) -> Generator[SpoolLine]:
        """Yield the lines of several files by time; the lines of one file keep their order."""
        readers = [self.lines(source) for source in sources]
        waiting = [(line, reader) for reader in readers if (line := next(reader, None)) is not None]
        while waiting:
            first = 0 if len(waiting) == 1 else min(range(len(waiting)), key=lambda at: _time_of(waiting[at][0]))
            line, reader = waiting[first]
            following = next(reader, None)
            if following is None:
                del waiting[first]
            else:
                waiting[first] = (following, reader)
            yield line

    def remove(self, source: Source) -> bool:
        """Empty and remove a drained file under its lock; return False if something was added."""
        try:
            handle = os.open(source.path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            status = os.fstat(handle)
            if status.st_ino != source.inode or status.st_size != source.cursor:
                return False
            # Emptied first: a process may still have the file open, and its content must not stay.
            os.ftruncate(handle, 0)
            Path(source.path).unlink(missing_ok=True)
        except OSError:
            return False
        finally:
            os.close(handle)
        return True

    # Setting aside

    def set_aside(self, name: str, document: Document, reason: str, now: datetime) -> None:
        """Keep an item that cannot be stored, with the reason; the same item replaces itself."""
        folder = self.folder / ASIDE
        folder.mkdir(mode=0o700, exist_ok=True)
        kept = {"id": name, "set_aside_at": precise(now), "reason": reason, **document}
        safe = "".join(letter for letter in name if letter.isalnum() or letter in "-_")[:64] or "item"
        draft = folder / f".{safe}.draft"
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump(kept, file, ensure_ascii=True)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(folder / f"{safe}.json")

    def set_line_aside(self, line: SpoolLine, content: object, now: datetime) -> None:
        """Keep a line that is no event; the name is the line's, so that it is kept once."""
        item = {"kind": "hook", "event": "unreadable", "bytes": len(line.data), "content": content}
        self.set_aside(f"unreadable-{digest(line.data)[:16]}", item, "it is no event that can be read", now)

    def aside(self) -> list[Document]:
        """Return the items set aside, oldest first."""
        found: list[Document] = []
        for path in sorted((self.folder / ASIDE).glob("*.json")):
            try:
                found.append(json.loads(read_regular(path)))
            except (OSError, ValueError):
                found.append({"id": path.stem, "reason": "it cannot be read any more"})
        return sorted(found, key=lambda item: str(item.get("set_aside_at", "")))


def _is_file(entry: "os.DirEntry[str]") -> bool:
    """Return True for a regular file with a name as hooks choose them: one that is no text could not be recorded."""
    return entry.name.endswith(LINES) and entry.name.isascii() and entry.is_file(follow_symlinks=False)


def _time_of(line: SpoolLine) -> str:
    spooled = read_spooled(line.data)
    # A torn line is skipped at once, so it never delays the lines after it.
    return spooled.at if spooled is not None else ""
