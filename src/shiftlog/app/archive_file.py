"""An archive: sessions with all of their entries in one file, JSON lines compressed with zstd.

The first line says what the file is, then there is a line for each session, and the last line has the number of
sessions and the SHA-256 of all lines before it. Bodies are plain JSON; only long texts are as the database has them.
"""

import hashlib
import io
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import zstandard

from shiftlog.journal.chain import check_chain
from shiftlog.model.entry import Entry, Kind
from shiftlog.model.errors import InvalidParameter, StorageError
from shiftlog.model.nouns import Receipt, Session
from shiftlog.store.codec import blobs
from shiftlog.store.codec.documents import decode_body
from shiftlog.store.codec.packed import packed
from shiftlog.store.sources import LongText, Packed

FORMAT = 1
# The last line begins like this; the line of a session begins with the session.
_END = b'{"sessions":'
LEVEL = 10


class ArchivedText(msgspec.Struct, frozen=True, kw_only=True):
    """A long text, compressed."""

    chars: int
    data: bytes


class ArchivedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry; `body` is JSON with references to long texts, None once erased."""

    seq: int
    kind: str
    at: str
    turn: str | None
    facet: str | None
    body: str | None
    salt: bytes | None
    body_hash: bytes
    hash: bytes


class ArchivedSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session as it was, with its entries, receipts and long texts by their digests."""

    session: Session
    entries: list[ArchivedEntry]
    receipts: list[Receipt]
    texts: dict[str, ArchivedText]

    def check(self) -> None:
        """Raise StorageError unless the chain is whole up to the head of the session."""
        head = (self.session.head_seq, self.session.head_hash or "")
        found = check_chain(self.session.id, [self._entry(each) for each in self.entries], head=head)
        if not found.ok:
            raise _damaged(f"{self.session.id}: {found.kind} at entry {found.seq} {found.note}".rstrip())

    def packed(self) -> list[Packed]:
        """Return the entries as a store appends them."""
        texts = {bytes.fromhex(digest): text for digest, text in self.texts.items()}
        return [
            Packed(
                seq=each.seq,
                kind=each.kind,
                at=each.at,
                turn=each.turn,
                facet=each.facet,
                document=None if each.body is None else packed(each.body.encode()),
                salt=each.salt,
                body_hash=each.body_hash,
                hash=each.hash,
                text="",
                long_texts=tuple(
                    LongText(digest, text.chars, text.data)
                    for digest, text in texts.items()
                    if each.body is not None and digest.hex() in each.body
                ),
            )
            for each in self.entries
        ]

    def _entry(self, each: ArchivedEntry) -> Entry:
        return Entry(
            seq=each.seq,
            kind=Kind(each.kind),
            at=datetime.fromisoformat(each.at),
            turn=each.turn,
            body=None if each.body is None else decode_body(each.body.encode(), self._text),
            salt=each.salt,
            body_hash=f"sha256:{each.body_hash.hex()}",
            hash=f"sha256:{each.hash.hex()}",
        )

    def _text(self, digest: bytes) -> str:
        found = self.texts.get(digest.hex())
        return blobs.unpack(found.data) if found else f"[missing text {digest.hex()}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSummary:
    """The contents of an archive."""

    file: str
    digest: str
    sessions: int
    entries: int
    bytes: int


_read_session = msgspec.json.Decoder(ArchivedSession).decode


def write(path: Path, about: dict[str, Any], sessions: Iterable[ArchivedSession]) -> None:
    """Write an archive so that the file is whole and on the disk, or not there; an existing file is refused."""
    if path.exists():
        raise InvalidParameter.invalid("to", "a folder without this archive", str(path))
    part = path.with_name(f".{path.name}.part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with (
        os.fdopen(descriptor, "wb") as file,
        zstandard.ZstdCompressor(level=LEVEL).stream_writer(file, closefd=False) as out,
    ):
        digest, count = hashlib.sha256(), 0
        for line in _lines(about, sessions):
            digest.update(line)
            out.write(line)
            count += 1
        out.write(msgspec.json.encode({"sessions": count - 1, "digest": digest.hexdigest()}) + b"\n")
        out.flush(zstandard.FLUSH_FRAME)
        file.flush()
        os.fsync(file.fileno())
    part.rename(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _lines(about: dict[str, Any], sessions: Iterable[ArchivedSession]) -> Iterator[bytes]:
    yield msgspec.json.encode({"shiftlog_archive": FORMAT, **about}) + b"\n"
    for session in sessions:
        yield msgspec.json.encode(session) + b"\n"


def read(path: Path) -> Iterator[ArchivedSession]:
    """Yield the sessions of an archive, each with a checked chain; raise StorageError for a damaged one.

    Whether the file is whole is known only at its end.
    """
    try:
        with path.open("rb") as file:
            yield from _checked(iter(io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(file))))  # pyright: ignore[reportArgumentType]
    except (zstandard.ZstdError, msgspec.MsgspecError, ValueError) as error:
        raise _damaged(f"{path} cannot be read: {error}") from error


def _checked(lines: Iterator[bytes]) -> Iterator[ArchivedSession]:
    first = next(lines, b"{}")
    if msgspec.json.decode(first).get("shiftlog_archive") != FORMAT:
        raise _damaged("the file is not an archive of this version")
    digest, count = hashlib.sha256(first), 0
    last = b"{}"
    for line in lines:
        if line.startswith(_END):
            last = line
            break
        digest.update(line)
        count += 1
        found = _read_session(line)
        found.check()
        yield found
    end = msgspec.json.decode(last)
    if end.get("digest") != digest.hexdigest() or end.get("sessions") != count or next(lines, None) is not None:
        raise _damaged("its end is missing, or a line was changed")


def summary(path: Path) -> ArchiveSummary:
    """Read a whole archive and return what it holds."""
    sessions = entries = 0
    for each in read(path):
        sessions += 1
        entries += len(each.entries)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return ArchiveSummary(
        file=str(path), digest=f"sha256:{digest}", sessions=sessions, entries=entries, bytes=path.stat().st_size
    )


def _damaged(reason: str) -> StorageError:
    return StorageError("The archive is damaged", details={"reason": reason}, hint="Use another copy of the file")
