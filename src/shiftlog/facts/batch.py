"""Facts on their way into a journal: the batches that an import hands to the journal's writer.

They are masked already. A body that depends on nothing stored is also hashed and encoded, so that the one writer has
little left to do. The structs cross process boundaries as MessagePack.
"""

import hashlib
from typing import Any, NamedTuple

import msgspec

from shiftlog.facts.transcript import VendorSession
from shiftlog.model.entry import Kind

KEY_BYTES = 16


class OrderedBody(msgspec.Struct, omit_defaults=True, gc=False):
    """A body of a kind that imports bring much of: its fields stand in the order of canonical JSON.

    So they are written without sorting; what is absent is not written.
    """

    @property
    def open_part(self) -> object:
        """Return the part that may hold any JSON value, not only texts and whole numbers."""
        raise NotImplementedError


class DialogBody(OrderedBody, kw_only=True):
    """The body of a dialog entry; `record` are the vendor's ids, in the order of canonical JSON too."""

    call_id: str | None = None
    category: str
    content: str
    denied: bool = False
    duration_ms: int | None = None
    exit_code: int | None = None
    full: dict[str, int | str] | None = None
    images: list[dict[str, int | str]] | None = None
    input: Any = None
    interrupted: bool = False
    is_error: bool = False
    nested: bool = False
    orphan: bool = False
    record: msgspec.Struct | None = None
    role: str
    signature: dict[str, int | str] | None = None
    test_clock: bool = False
    timestamp: str
    tool: str | None = None

    @property
    def open_part(self) -> object:
        """Return the input of the tool."""
        return self.input


# Facts that stand for a record of the transcript. Repeated ones are counted.
RECORDS = frozenset({"turn_begun", "dialog", "tool_call", "tool_result"})
SEEN_AGAIN = "seen_again"

# The counters of a usage entry.
COUNTERS = (
    "input_tokens",
    "cached_input_tokens",
    "cache_creation_tokens",
    "cache_creation_1h_tokens",
    "output_tokens",
    "reasoning_tokens",
    "web_searches",
)


class UsageBody(OrderedBody, kw_only=True):
    """The body of a usage entry."""

    cache_creation_1h_tokens: int = 0
    cache_creation_tokens: int = 0
    cached_input_tokens: int = 0
    copied: bool = False
    cost_source: str | None = None
    cost_usd: float | None = None
    input_tokens: int = 0
    model: str | None = None
    output_tokens: int = 0
    reasoning_tokens: int = 0
    test_clock: bool = False
    tier: str | None = None
    vendor: dict[str, Any] | None = None
    web_searches: int = 0

    @property
    def open_part(self) -> object:
        """Return the vendor's own counters, or the cost, which is no whole number."""
        return self.vendor if self.cost_usd is None else self.cost_usd


class LongText(NamedTuple):
    """A text that leaves its body for a blob: the digest of its UTF-8, its length and its compressed form."""

    digest: bytes
    chars: int
    data: bytes


class BodyDraft(msgspec.Struct, frozen=True, gc=False):
    """A body that is not encoded yet; its kind decides what it is found by."""

    kind: Kind
    body: dict[str, Any] | OrderedBody
    salt: bytes


class Prepared(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A body ready for its row: encoded and hashed under its salt, with the text that it is found by."""

    document: bytes
    salt: bytes
    body_hash: bytes
    text: str
    facet: str | None = None
    long_texts: tuple[LongText, ...] = ()


class Incoming(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One fact: `what` it is, its session (an index into the batch's sessions), and its key as a digest.

    `body` has to be compared with what is stored; `prepared` is an entry of kind `what`, ready to be appended.
    """

    what: str
    session: int
    key: bytes
    at: str
    turn: str | None = None
    aliases: tuple[bytes, ...] = ()
    body: dict[str, Any] | None = None
    prepared: Prepared | None = None
    masked: dict[str, int] | None = None
    former: bytes | None = None
    """The key that earlier releases had for it; known under that key, in its session, it is known."""


class Batch(msgspec.Struct, array_like=True, frozen=True):
    """Facts of one file that are stored together with how far the file has been read.

    `first` is the first batch of a reading from the file's start, `last` the one at its end. A batch without `state`
    is followed by one with it; a reading that ends in between is taken up before the first of them.
    """

    agent: str
    sessions: list[VendorSession]
    items: list[Incoming]
    cursor: int
    tail: str
    state: bytes | None
    first: bool
    last: bool
    settle_at: str | None = None
    counts: dict[str, int] = {}
    bytes_read: int = 0


def origin_key(agent: str, key: str) -> bytes:
    """Return the digest under which the store knows an origin key of an agent."""
    return hashlib.blake2b(f"{agent}\0{key}".encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest()
