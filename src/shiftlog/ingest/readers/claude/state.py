"""The saved state of the Claude Code reader: sessions, open turns, unanswered calls, seen records.

Plain structs, saved whole; rules are elsewhere.
"""

import hashlib
from typing import Any, Literal

import msgspec

from shiftlog.facts.transcript import VendorSession
from shiftlog.ingest.readers.record_reader import ReaderState, TurnDraft

MAX_PENDING_CALLS = 1024
_ID_BYTES = 8
_ORDINAL_BITS = 32


class ClaudeCall(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A tool call that waits for its result."""

    tool: str
    input: Any = None
    use: str | None = None
    """The usage key of its response, if that response reported no web searches."""
    name: str = ""
    """The name in its keys: its id, with its record if the id may repeat."""
    alias: str | None = None
    """The name in its keys if its record is not known, as in a hook event."""


class Observation(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Injected text whose turn is not known yet."""

    text: str
    at: str | None
    uuid: str | None
    parent_uuid: str | None
    line: str = ""
    injected: str | None = None


class HeldCommand(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A slash command that opens a turn if a model answers it."""

    command: Observation
    query: str
    context: list[str] = []
    injected: list[Observation] = []


class ClaudeTurn(TurnDraft, kw_only=True, omit_defaults=True):
    """An open turn."""

    request_id: str = msgspec.field(name="id")
    vendor_id: str | None
    has_model: bool = False
    last: Literal["", "text", "call", "result", "other"] = ""
    calls: set[str] = set()
    message_id: str | None = None
    response: list[str] = []
    error_code: str | None = None
    """Set while the last model record is an API error or was cut off."""
    error_text: str = ""

    @property
    def name(self) -> str:
        """Return the name in the keys of the turn's own facts."""
        return self.vendor_id or self.request_id

    @property
    def is_quiet(self) -> bool:
        """Return True if the model has finished: it ended with text, and every call is answered."""
        return self.has_model and self.last == "text" and not self.calls


class Strand(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One session of the file, or one child inside it, with its own turns."""

    ref: VendorSession
    index: int
    is_open: bool = False
    first_at: str | None = None
    """The time of its first record, including one that waits."""
    first_cwd: str | None = None
    known: dict[str, Any] = {}
    title_rank: int = 0
    title: str = ""
    last_at: str | None = None
    ordinal: int = 0
    turn: ClaudeTurn | None = None
    turn_ids: list[str] = []
    live: list[int] = []
    """Ordinals of the turns not abandoned by a rewind."""
    held: HeldCommand | None = None
    injected: str = ""
    """The last injected text since the last turn ended."""
    calls: dict[str, ClaudeCall] = {}
    counted_calls: set[str] = set()
    """Ids of calls that only count, and may repeat."""
    model: str | None = None
    used: str | None = None
    """The last usage fact, to leave out repetitions."""
    context: list[str] = []
    plan_file: str | None = None
    """Files and a plan attached since the last turn ended; the next turn gets them."""
    waiting: bytes = b""
    """Encoded facts of a session that no conversation record has opened yet."""
    linked: set[str] = set()
    inline: bool = False
    """A side chain inside the session's own file, named after its first record."""
    has_main: bool = False
    """True once a record outside of any side chain was seen."""

    @property
    def turn_id(self) -> str | None:
        """Return the request id of the open turn."""
        return self.turn and self.turn.request_id


class ClaudeState(ReaderState, kw_only=True, omit_defaults=True):
    """All that is saved."""

    strands: list[Strand] = []
    session: str | None = None
    """The session id of the last record."""
    summaries: dict[str, str] = {}
    ids: bytes = b""
    places: list[int] = []


class Seen:
    """The records read already, with strand and turn of each."""

    def __init__(self, ids: bytes = b"", places: list[int] | None = None) -> None:
        keys = (ids[at : at + _ID_BYTES] for at in range(0, len(ids), _ID_BYTES))
        self._places: dict[bytes, int] = dict(zip(keys, places or [], strict=False))

    def __contains__(self, uuid: str) -> bool:
        return _digest(uuid) in self._places

    def add(self, uuid: str, strand: int, ordinal: int) -> None:
        """Remember a record, or its new position."""
        self._places[_digest(uuid)] = strand << _ORDINAL_BITS | ordinal

    def position(self, uuid: str | None) -> tuple[int, int] | None:
        """Return (strand, ordinal of the turn) of a record; None if it is unknown."""
        if uuid is None:
            return None
        position = self._places.get(_digest(uuid))
        return None if position is None else (position >> _ORDINAL_BITS, position & (1 << _ORDINAL_BITS) - 1)

    def save(self) -> tuple[bytes, list[int]]:
        """Return the arguments for the constructor."""
        return b"".join(self._places), list(self._places.values())


def _digest(uuid: str) -> bytes:
    return hashlib.blake2b(uuid.encode("utf-8", "replace"), digest_size=_ID_BYTES).digest()
