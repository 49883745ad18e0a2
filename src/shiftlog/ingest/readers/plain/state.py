"""What a reader of a plain conversation remembers between lines. No rule lives here."""

from typing import Any

import msgspec

from shiftlog.ingest.readers.line_reader import ReaderState
from shiftlog.ingest.readers.turn_draft import TurnDraft

MAX_OPEN_CALLS = 4096


class ChatCall(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A call that waits for its result."""

    tool: str
    turn: str | None = None
    script: str = ""


class ChatTurn(TurnDraft, kw_only=True, omit_defaults=True):
    """The open turn."""

    name: str
    has_model: bool = False
    quiet: bool = False
    calls: list[str] = []
    texts: list[str] = []
    message: str = ""
    """The model message whose texts are the response so far."""
    failure: str | None = None
    failure_code: str | None = None


class ChatState(ReaderState, kw_only=True, omit_defaults=True):
    """What a reader remembers between lines; `own` is the format's."""

    session: str | None = None
    cwd: str | None = None
    ordinal: int = 0
    turn: ChatTurn | None = None
    turns: list[str] = []
    calls: dict[str, ChatCall] = {}
    answered: dict[str, None] = {}
    unnamed: list[str] = []
    unnamed_count: int = 0
    written: dict[str, Any] = {}
    tallies: dict[str, int] = {}
    titled: bool = False
    own: dict[str, Any] = {}
