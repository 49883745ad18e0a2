"""What the Claude Code reader remembers between two lines: sessions, their open turns, unanswered calls, seen records.

Plain structs that are saved whole; no rule lives here.
"""

import hashlib
from typing import Any, Literal

import msgspec

from shiftlog.facts.transcript import VendorSession
from shiftlog.ingest.readers.line_reader import ReaderState, TurnDraft

MAX_PENDING_CALLS = 1024
_ID_BYTES = 8
_ORDINAL_BITS = 32


class ClaudeCall(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A tool call that waits for its result."""

    tool: str
    input: Any = None
    use: str | None = None
    """The usage key of the response that made it, where that response named no web searches itself."""
    name: str = ""
    """What its keys are made of: its id, with its record where others may have the same id."""
    alias: str | None = None
    """What they are made of where its record is not known, as in a hook's event."""


class Observation(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Injected text that waits until it is clear which turn it belongs to."""

    text: str
    at: str | None
    uuid: str | None
    parent_uuid: str | None
    line: str = ""


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
        """Return what keys of the turn's own facts are made of."""
        return self.vendor_id or self.request_id

    @property
    def is_quiet(self) -> bool:
        """Return True if the model has finished: it ended with text, and every call is answered."""
        return self.has_model and self.last == "text" and not self.calls


class Strand(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One session of the file, or one child inside it, with a turn machine of its own."""

    ref: VendorSession
    index: int
    is_open: bool = False
    first_at: str | None = None
    """When its first record came, also one that waits for what follows it."""
    first_cwd: str | None = None
    known: dict[str, Any] = {}
    title_rank: int = 0
    title: str = ""
    last_at: str | None = None
    ordinal: int = 0
    turn: ClaudeTurn | None = None
    turn_ids: list[str] = []
    live: list[int] = []
    """Ordinals of the turns that no rewind has abandoned."""
    held: HeldCommand | None = None
    injected: str = ""
    """The last injected text since the last turn ended."""
    calls: dict[str, ClaudeCall] = {}
    counted_calls: set[str] = set()
    """Ids of calls that are no more than numbers, and may come again."""
    model: str | None = None
    used: str | None = None
    """The last usage fact given, to leave out equal repetitions."""
    context: list[str] = []
    plan_file: str | None = None
    """Files and a plan that were attached since the last turn ended; the next one has them."""
    waiting: bytes = b""
    """Facts of a session that no conversation record has opened yet, encoded."""
    linked: set[str] = set()
    inline: bool = False
    """A side chain inside the session's own file, named after its first record."""
    has_main: bool = False
    """A record outside of any side chain was seen."""


class ClaudeState(ReaderState, kw_only=True, omit_defaults=True):
    """All that is saved."""

    strands: list[Strand] = []
    session: str | None = None
    """The session id that the file's last record named."""
    summaries: dict[str, str] = {}
    ids: bytes = b""
    places: list[int] = []


class Seen:
    """Which records were read already, and in which turn of which strand each stands."""

    def __init__(self, ids: bytes = b"", places: list[int] | None = None) -> None:
        keys = (ids[at : at + _ID_BYTES] for at in range(0, len(ids), _ID_BYTES))
        self._places: dict[bytes, int] = dict(zip(keys, places or [], strict=False))

    def __contains__(self, uuid: str) -> bool:
        return _digest(uuid) in self._places

    def add(self, uuid: str, strand: int, ordinal: int) -> None:
        """Remember a record, or its new place."""
        self._places[_digest(uuid)] = strand << _ORDINAL_BITS | ordinal

    def position(self, uuid: str | None) -> tuple[int, int] | None:
        """Return (strand, ordinal of the turn) of a record, None if it is not known."""
        if uuid is None:
            return None
        position = self._places.get(_digest(uuid))
        return None if position is None else (position >> _ORDINAL_BITS, position & (1 << _ORDINAL_BITS) - 1)

    def save(self) -> tuple[bytes, list[int]]:
        """Return what the constructor takes."""
        return b"".join(self._places), list(self._places.values())


def _digest(uuid: str) -> bytes:
    return hashlib.blake2b(uuid.encode("utf-8", "replace"), digest_size=_ID_BYTES).digest()
