"""What a reader of a plain conversation remembers between lines. No rule lives here."""

import hashlib
from typing import Any

import msgspec

from shiftlog.facts.transcript import Counts

MAX_OPEN_CALLS = 4096


class Call(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A call that waits for its result."""

    tool: str
    turn: str | None = None
    script: str = ""


class Turn(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The open turn."""

    request_id: str
    name: str
    ordinal: int
    last_at: str | None = None
    has_model: bool = False
    quiet: bool = False
    calls: list[str] = []
    texts: list[str] = []
    message: str = ""
    """The model message whose texts are the response so far."""
    model: str | None = None
    failure: str | None = None
    failure_code: str | None = None
    interpreted: bool = False
    sets: dict[str, Any] = {}
    adds: dict[str, list[Any]] = {}


class State(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a reader remembers between lines; `own` is the format's."""

    session: str | None = None
    cwd: str | None = None
    ordinal: int = 0
    turn: Turn | None = None
    turns: list[str] = []
    calls: dict[str, Call] = {}
    answered: dict[str, None] = {}
    unnamed: list[str] = []
    unnamed_count: int = 0
    written: dict[str, Any] = {}
    tallies: dict[str, int] = {}
    titled: bool = False
    at: str | None = None
    newest_at: str | None = None
    counts: Counts = msgspec.field(default_factory=Counts)
    own: dict[str, Any] = {}


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(State)


def save(state: State) -> bytes:
    """Return a state as bytes."""
    return _ENCODER.encode(state)


def load(data: bytes | None) -> State:
    """Return the state of earlier bytes; a new one for none, or for bytes of another layout."""
    if data:
        try:
            return _DECODER.decode(data)
        except msgspec.MsgspecError:
            return State()
    return State()


def hash_of(text: str) -> str:
    """Return a short digest that tells texts of one turn apart."""
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=9).hexdigest()
