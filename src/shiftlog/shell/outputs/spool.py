"""The spool of one stream: its text in a growing file, its totals, and finding lines in it.

At regular distances the spool records its line number, so that neither a tail nor a late page scans the whole file.
Past its limit it only counts, and keeps the end of the text. The text is masked already; its content does not matter.
"""

import hashlib
import os
from array import array
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from shiftlog.guard.budgets.shape import Part
from shiftlog.guard.budgets.text import offset_of_line

BUFFER_BYTES = 64 * 1024
MARK_BYTES = 256 * 1024
ENDING_BYTES = 256 * 1024
SMALL_BYTES = 4096

_LEADING = bytes(byte for byte in range(256) if byte & 0xC0 != 0x80)


class SpoolGone(LookupError):
    """The spool's file was removed."""


def count_chars(data: bytes) -> int:
    """Count the characters of UTF-8."""
    return len(data) if data.isascii() else len(data) - len(data.translate(None, _LEADING))


def open_private(path: str, flags: int) -> int:
    """Open a file that only its owner may read; with O_CREAT, its folder is made too."""
    flags |= os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
        Path(path).parent.mkdir(mode=0o700, exist_ok=True)
        return os.open(path, flags, 0o600)


class OutputSpool:
    """A growing text: `append` adds to it, reads go anywhere; a source of lines for budgets.

    `claim(bytes)` is called before the text grows and returns by how much it may; less than requested makes the spool
    full. A negative number returns unused space.
    """

    def __init__(self, path: str, claim: Callable[[int], int]) -> None:
        self.path = path
        self.size = 0  # bytes stored
        self.full = False
        self._claim = claim
        self._fd: int | None = None
        self._written = 0
        self._buffer = bytearray()
        self._hash = hashlib.sha256()
        self._known_sha256: str | None = None  # of a reopened spool
        self._breaks = 0  # line breaks stored
        self._chars = 0
        self._last = b""  # the stored text's last byte
        self._marks = (array("Q"), array("Q"), array("Q"))  # offsets, line breaks and characters before them
        self._cache: tuple[int, bytes] = (0, b"")
        self._over_bytes = 0  # of the text after the stored part
        self._over_breaks = 0
        self._over_last = b""
        self._ending = bytearray()

    @property
    def lines_total(self) -> int:
        """The number of lines, including an unterminated last one and those not stored."""
        last = self._over_last or self._last
        return self._breaks + self._over_breaks + (1 if last not in (b"", b"\n") else 0)

    @property
    def final_newline(self) -> bool:
        """True if the text ends with a line break."""
        return (self._over_last or self._last) == b"\n"

    @property
    def sha256(self) -> str:
        """The digest of the stored text."""
        return self._known_sha256 or self._hash.hexdigest()

    def append(self, data: bytes) -> None:
        """Add text, in whole characters."""
        if not data:
            return
        if self.full:
            self._count_over(data)
            return
        room = self._claim(len(data))
        if room >= len(data):
            self._store(data)
            return
        stored = _fitting(data, room)
        self._claim(len(stored) - room)
        if stored:
            self._store(stored)
        self.full = True
        self._count_over(data[len(stored) :])

    def _store(self, data: bytes) -> None:
        self._count(data)
        self._buffer += data
        if len(self._buffer) >= BUFFER_BYTES:
            self.flush()

    def _count(self, data: bytes) -> None:
        self._hash.update(data)
        self._breaks += data.count(b"\n")
        self._chars += count_chars(data)
        self._last = data[-1:]
        self.size += len(data)
        offsets, breaks, chars = self._marks
        if self.size - (offsets[-1] if offsets else 0) >= MARK_BYTES:
            offsets.append(self.size)
            breaks.append(self._breaks)
            chars.append(self._chars)

    def _count_over(self, data: bytes) -> None:
        self._over_bytes += len(data)
        self._over_breaks += data.count(b"\n")
        self._over_last = data[-1:]
        self._ending += data[-ENDING_BYTES:]
        if len(self._ending) > 2 * ENDING_BYTES:
            del self._ending[:-ENDING_BYTES]

    def flush(self) -> None:
        """Write the buffer to the file; if that fails the spool is full and keeps the buffer."""
        if self._written == 0:
            self._cache = (0, bytes(self._buffer))  # most outputs are small and read at once
        try:
            while self._buffer:
                done = os.pwrite(self._open(), self._buffer, self._written)
                self._written += done
                del self._buffer[:done]
        except OSError:
            self.full = True

    def forget(self) -> None:
        """Free the read cache."""
        self._cache = (0, b"")

    def close_file(self) -> None:
        """Close the file until the next use."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def parts(self) -> Sequence[Part]:
        """Return the available lines: all while memory holds the rest, else the stored ones and the last ones."""
        if self._over_is_whole():
            return (Part(0, self.lines_total, 0, self.size + self._over_bytes),)
        stored = Part(0, self._breaks + (1 if self._last not in (b"", b"\n") else 0), 0, self.size)
        skip = self._ending.find(b"\n") + 1
        if not skip:
            return (stored,)
        base = self._ending_offset()
        breaks = self._ending.count(b"\n", skip)
        first = self._breaks + self._over_breaks - breaks
        count = breaks + (0 if self.final_newline else 1)
        return (stored, Part(first, count, base + skip, base + len(self._ending)))

    def read(self, start: int, end: int) -> bytes:
        """Return a range of the stored text or of its ending."""
        if start >= self.size and self._over_bytes:
            base = self._ending_offset()
            return bytes(self._ending[max(0, start - base) : max(0, end - base)])
        if end > self.size and self._over_is_whole():
            return self.read(start, self.size) + bytes(self._ending[: end - self.size])
        end = min(end, self.size)
        if start >= self._written:
            return bytes(self._buffer[start - self._written : end - self._written])
        cached_at, cached = self._cache
        if cached_at <= start and end <= cached_at + len(cached):
            return cached[start - cached_at : end - cached_at]
        if end > self._written:
            return self.read(start, self._written) + bytes(self._buffer[: end - self._written])
        data = self._read_file(start, end)
        if len(data) >= 4096:
            self._cache = (start, data)
        return data

    def _read_file(self, start: int, end: int) -> bytes:
        try:
            data = os.pread(self._open(), end - start, start)
            while data and len(data) < end - start:
                more = os.pread(self._open(), end - start - len(data), start + len(data))
                data = data + more if more else b""
        except (FileNotFoundError, NotADirectoryError):
            data = b""
        if not data:
            raise SpoolGone(self.path)
        return data

    def chars(self, start: int, end: int) -> int:
        """Count the characters of a range."""
        if self._chars == self.size and end <= self.size:
            return end - start
        if start >= self.size:
            return count_chars(self.read(start, end))
        marks = self._marks[2]
        return self._count_before(end, marks, count_chars) - self._count_before(start, marks, count_chars)

    def offset_of(self, line: int) -> int:
        """Return the offset of a line (from 0); after the last one, the end of its part."""
        if self._over_is_whole():
            if line > self._breaks:
                return self.size + offset_of_line(bytes(self._ending), line - self._breaks)
        elif self._over_bytes:
            stored, *others = self.parts()
            if others and line >= others[0].first and line > stored.lines:
                part = others[0]
                return part.start + offset_of_line(self.read(part.start, part.end), line - part.first)
        if line > self._breaks:
            return self.size
        offsets, breaks, _ = self._marks
        mark = bisect_right(breaks, line - 1) - 1 if line else -1
        position, left = (offsets[mark], line - breaks[mark]) if mark >= 0 else (0, line)
        while left > 0 and position < self.size:
            block = self.read(position, min(position + MARK_BYTES, self.size))
            found = block.count(b"\n")
            if found >= left:
                return position + offset_of_line(block, left)
            position, left = position + len(block), left - found
        return position

    def line_at(self, offset: int) -> int:
        """Return the number (from 0) of the line at an offset of the stored text."""
        return self._count_before(offset, self._marks[1], lambda block: block.count(b"\n"))

    def finish(self) -> None:
        """Write the buffer to the file, except a small text, which its index entry holds."""
        if self._written or self.size > SMALL_BYTES:
            self.flush()

    def as_dict(self) -> dict[str, object]:
        """Return what `reopen` needs besides the file; for a small text, the text itself.

        So does the rest of a text that could not be written to the file, as on a full disk.
        """
        if not self._written and not self._over_bytes and self.size <= SMALL_BYTES:
            return {"text": self._buffer.decode()}
        offsets, breaks, chars = self._marks
        unwritten = {"unwritten": self._buffer.decode("latin-1")} if self._buffer else {}
        return {
            **unwritten,
            "size": self.size,
            "breaks": self._breaks,
            "chars": self._chars,
            "last": self._last.decode("latin-1"),
            "sha256": self.sha256,
            "full": self.full,
            "marks": [list(offsets), list(breaks), list(chars)],
            "over": [self._over_bytes, self._over_breaks, self._over_last.decode("latin-1")],
            "ending": bytes(self._ending).decode("utf-8", "ignore"),
        }

    def mark(self) -> dict[str, Any]:
        """Return what `resume` needs besides the file, which was flushed."""
        return {
            "written": self._written,
            "buffer": bytes(self._buffer),
            "full": self.full,
            "over": (self._over_bytes, self._over_breaks, self._over_last, bytes(self._ending[-ENDING_BYTES:])),
        }

    def resume(self, mark: Mapping[str, Any]) -> None:
        """Go on with the file of an earlier server, without what it wrote after this mark."""
        written: int = mark["written"]
        if written:
            with Path(self.path).open("r+b") as file:
                file.truncate(written)
            self._recount()
        self._written = self.size
        self._claim(self.size + len(mark["buffer"]))
        if mark["buffer"]:
            self._count(mark["buffer"])
            self._buffer += mark["buffer"]
        self.full = mark["full"]
        self._over_bytes, self._over_breaks, self._over_last, ending = mark["over"]
        self._ending = bytearray(ending)

    @classmethod
    def reopen(cls, path: str, record: dict[str, Any] | None) -> "OutputSpool":
        """Reopen a finished spool; without its record the file is counted again."""
        spool = cls(path, lambda _: 0)
        if record is None:
            spool._recount()
        elif "text" in record:
            if record["text"]:
                spool._store(record["text"].encode())
            return spool
        else:
            spool._recall(record)
        spool._written = spool.size - len(spool._buffer)
        return spool

    def _recall(self, record: dict[str, Any]) -> None:
        self.size, self.full, self._known_sha256 = record["size"], record["full"], record["sha256"]
        self._breaks, self._chars = record["breaks"], record["chars"]
        self._last = record["last"].encode("latin-1")
        offsets, breaks, chars = record["marks"]
        self._marks = (array("Q", offsets), array("Q", breaks), array("Q", chars))
        self._over_bytes, self._over_breaks, over_last = record["over"]
        self._over_last = over_last.encode("latin-1")
        self._ending = bytearray(record["ending"].encode())
        self._buffer = bytearray(record.get("unwritten", "").encode("latin-1"))

    def _recount(self) -> None:
        """Count the file of a server that crashed, without an incomplete last character."""
        if not Path(self.path).exists():
            return
        with Path(self.path).open("rb") as file:
            while block := file.read(MARK_BYTES):
                whole = _character_end(block)
                file.seek(whole - len(block), os.SEEK_CUR)
                if not whole:
                    break
                self._count(block[:whole])

    def _open(self) -> int:
        if self._fd is None:
            self._fd = open_private(self.path, os.O_RDWR if self._written else os.O_RDWR | os.O_CREAT)
        return self._fd

    def _over_is_whole(self) -> bool:
        """Return True if memory holds all of the text after the stored part."""
        return 0 < self._over_bytes == len(self._ending)

    def _ending_offset(self) -> int:
        """Return the offset of the ending in the whole text."""
        return self.size + self._over_bytes - len(self._ending)

    def _count_before(self, offset: int, marks: "array[int]", count: Callable[[bytes], int]) -> int:
        offsets = self._marks[0]
        mark = bisect_right(offsets, offset) - 1
        position, total = (offsets[mark], marks[mark]) if mark >= 0 else (0, 0)
        while position < offset:
            block = self.read(position, min(position + MARK_BYTES, offset))
            total += count(block)
            position += len(block)
        return total


def _character_end(data: bytes) -> int:
    """Return the offset after the last complete UTF-8 character."""
    end = len(data)
    while end and data[end - 1] & 0xC0 == 0x80 and len(data) - end < 3:
        end -= 1
    lead = data[end - 1] if end else 0
    needed = 1 + (lead >= 0xC0) + (lead >= 0xE0) + (lead >= 0xF0)
    return len(data) if end and len(data) - (end - 1) >= needed else max(0, end - 1)


def _fitting(data: bytes, room: int) -> bytes:
    """Return the part of a text that fits: whole lines, or whole characters of a long line."""
    cut = data.rfind(b"\n", 0, room) + 1
    return data[:cut] if cut else data[: _character_end(data[:room])]
