"""Lines of a file from an offset on, plain or compressed, in bounded memory, and digests of its ends.

Offsets in a compressed file count its uncompressed text. A file that shrinks while it is read just ends.
"""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, cast

import msgspec
import zstandard

from shiftlog.model.errors import TranscriptUnreadable

EDGE_BYTES = 4096
CHUNK_BYTES = 1 << 20
MAX_INFLATED_BYTES = 8 << 30
MAX_RATIO = 1000
_FRAME_HEADER_BYTES = 18
_REPEATED_BYTE = 1
_RATIO_FLOOR_BYTES = 64 << 20  # small files may compress very well


class FileLine(msgspec.Struct, frozen=True, gc=False):
    """A line and the offset after it; `data` is None if it is too long, `whole` is False if its line end is missing."""

    data: bytes | None
    end: int
    whole: bool = True


class _Inflated:
    """The text of a compressed file, bounded in size and ratio."""

    def __init__(self, path: str) -> None:
        self._raw = Path(path).open("rb")  # noqa: SIM115 - closed by close
        self._stream = zstandard.ZstdDecompressor().stream_reader(self._raw, read_across_frames=True)
        self._limit = min(MAX_INFLATED_BYTES, max(Path(path).stat().st_size * MAX_RATIO, _RATIO_FLOOR_BYTES))
        self._given = 0

    def read(self, size: int) -> bytes:
        """Return the next bytes of the text; raise ZstdError if there are too many."""
        data = self._stream.read(size)
        self._given += len(data)
        if self._given > self._limit:
            raise zstandard.ZstdError("the text inside is larger than allowed")
        return data

    def close(self) -> None:
        """Close the file."""
        self._raw.close()


def _is_whole(path: str) -> bool:
    """Return True if the last frame of a compressed file is complete; the library reads a cut one as a short one.

    Jumps from block to block, using the lengths in their headers.
    """
    with Path(path).open("rb") as file:
        size, at = file.seek(0, os.SEEK_END), 0
        while at < size:
            file.seek(at)
            head = file.read(_FRAME_HEADER_BYTES)
            if head[:4] != zstandard.FRAME_HEADER:
                at += 8 + int.from_bytes(head[4:8], "little")  # a skippable frame
                continue
            at += zstandard.frame_header_size(head)
            is_last = False
            while not is_last and at < size:
                file.seek(at)
                block = int.from_bytes(file.read(3), "little")
                is_last = bool(block & 1)
                at += 3 + (1 if block >> 1 & 3 == _REPEATED_BYTE else block >> 3)
            if not is_last:
                return False
            at += 4 * zstandard.get_frame_parameters(head).has_checksum
        return at == size


class LineFile:
    """A transcript open for reading, closed by `with`. Every fault is TranscriptUnreadable."""

    def __init__(self, path: str, max_line_bytes: int) -> None:
        self._path = path
        self._limit = max_line_bytes
        self._file: BinaryIO | _Inflated | None = None
        self._edge = b""
        self.bytes_read = 0

    def __enter__(self) -> Self:
        try:
            self._file = self._opened()
        except (OSError, zstandard.ZstdError) as error:
            raise self._unreadable(error) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    @property
    def is_compressed(self) -> bool:
        """Return True if offsets count uncompressed text."""
        return self._path.endswith(".zst")

    def _opened(self) -> "BinaryIO | _Inflated":
        return _Inflated(self._path) if self.is_compressed else Path(self._path).open("rb")

    def _unreadable(self, error: Exception) -> TranscriptUnreadable:
        reason = getattr(error, "strerror", None) or str(error)
        return TranscriptUnreadable(f"Transcript unreadable: {self._path}: {reason}", details={"path": self._path})

    @property
    def _plain(self) -> BinaryIO:
        assert self._file is not None
        return cast(BinaryIO, self._file)

    def _read(self, size: int) -> bytes:
        assert self._file is not None
        try:
            data = self._file.read(size)
        except (OSError, zstandard.ZstdError) as error:
            raise self._unreadable(error) from None
        self.bytes_read += len(data)
        return data

    def start(self, size: int) -> bytes:
        """Return the first bytes; call it before anything else is read."""
        data = self._read(size)
        self.rewind()
        self.bytes_read = 0  # the lines read them again
        return data

    def check_end(self) -> None:
        """Raise TranscriptUnreadable for a truncated compressed file; its complete part can still be read."""
        if self.is_compressed:
            try:
                is_whole = _is_whole(self._path)
            except (OSError, zstandard.ZstdError) as error:
                raise self._unreadable(error) from None
            if not is_whole:
                raise self._unreadable(EOFError("the compressed text ends within a frame"))

    def rewind(self) -> None:
        """Go back to the start."""
        assert self._file is not None
        if self.is_compressed:
            self._file.close()
            self._file = self._opened()
        else:
            self._plain.seek(0)

    def edge_before(self, cursor: int) -> str:
        """Return the digest of the bytes before an offset."""
        assert self._file is not None
        first = max(cursor - EDGE_BYTES, 0)
        if self.is_compressed:
            if self._edge:  # the lines up to the offset were just read
                return digest(self._edge)
            self.rewind()
            self._skip(first)
            data = self._read(cursor - first)
            self.rewind()
        else:
            here = self._plain.tell()
            self._plain.seek(first)
            data = self._read(cursor - first)
            self.bytes_read -= len(data)  # these bytes were counted with their lines
            self._plain.seek(here)
        return digest(data)

    def _skip(self, size: int) -> None:
        while size > 0:
            data = self._read(min(size, CHUNK_BYTES))
            if not data:
                return
            size -= len(data)

    def lines(self, offset: int = 0) -> Iterator[FileLine]:
        """Yield the lines from an offset on; the last one may lack its line end."""
        assert self._file is not None
        if self.is_compressed:
            self._skip(max(offset - EDGE_BYTES, 0))
            self._edge = self._read(min(offset, EDGE_BYTES))
        else:
            self._plain.seek(offset)
        pending: list[bytes] = []
        held = 0
        skipping = False
        position = offset
        is_compressed, limit = self.is_compressed, self._limit
        while chunk := self._read(CHUNK_BYTES):
            start = 0
            while (end := chunk.find(b"\n", start)) >= 0:
                piece = chunk[start : end + 1]
                start = end + 1
                position += held + len(piece)
                if is_compressed:
                    self._edge = b"".join((self._edge, *pending, piece))[-EDGE_BYTES:]
                if skipping or held + len(piece) > limit:
                    yield FileLine(None, position)
                elif pending:
                    pending.append(piece)
                    yield FileLine(b"".join(pending), position)
                else:
                    yield FileLine(piece, position)
                pending, held, skipping = [], 0, False
            if start < len(chunk):
                piece = chunk[start:]
                held += len(piece)
                if skipping or held > self._limit:
                    pending, skipping = [], True
                else:
                    pending.append(piece)
        if held:
            yield FileLine(None if skipping else b"".join(pending), position + held, whole=False)


def digest(data: bytes) -> str:
    """Return the digest by which the ends of a file are compared."""
    return hashlib.sha256(data).hexdigest()
