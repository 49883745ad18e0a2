"""Records that imports keep beside the journal: files that were read, origins of facts, and entries encoded ahead.

None of it is a projection: `rebuild` leaves it alone. It keeps an import from storing a fact twice.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from shiftlog.facts.batch import LongText


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One transcript file as it stood when it was last read.

    `head` is the SHA-256 of the first `head_bytes` bytes and `tail` that of the bytes before `cursor`, the offset after
    the last accepted line. `state` is the reader's own there; None leaves the stored one. At `settle_at` the reader
    wants to be asked again without new bytes. A reading that was ended early has stored `ahead` more bytes, which are
    read again because it kept no state after them.
    """

    path: str
    agent: str
    device: int
    inode: int
    size: int
    mtime_ns: int
    head: str
    head_bytes: int
    cursor: int
    tail: str
    ahead: int = 0
    settle_at: datetime | None = None
    sessions: tuple[str, ...] = ()
    counts: dict[str, int] = field(default_factory=dict[str, int])
    state: bytes | None = None


# For a state under a name of its own, without a file.
NO_FILE = Source(path="", agent="", device=0, inode=0, size=0, mtime_ns=0, head="", head_bytes=0, cursor=0, tail="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The session and turn that a fact was stored for, and what later imports must know of it."""

    session_id: str
    turn: str | None = None
    doc: dict[str, Any] | None = None


class Packed(NamedTuple):
    """An entry ready for its row: hashed, encoded and its long texts compressed.

    `document` is the body as JSON with a reference in place of each long text, plain or packed; None once erased.
    """

    seq: int
    kind: str
    at: str
    turn: str | None
    facet: str | None
    document: bytes | None
    salt: bytes | None
    body_hash: bytes
    hash: bytes
    text: str
    long_texts: tuple[LongText, ...] = ()
