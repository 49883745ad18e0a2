"""The saved state of the Codex reader: the thread, its turns, its open calls.

It grows with open turns and calls, never with the length of the file.
"""

from typing import Any, Literal

import msgspec

from shiftlog.facts.transcript import Image
from shiftlog.ingest.readers.record_reader import ReaderState, TurnDraft

MAX_ANSWERED = 4096
MAX_KNOWN_TURNS = 65_536


class CodexTurn(TurnDraft, kw_only=True, omit_defaults=True):
    """A turn of the thread; `tallies` count the texts seen as event and as item, by role and digest."""

    vendor_id: str | None = None
    at: str | None = None
    legacy: bool = False
    begun: bool = False
    prompt: Literal["none", "agent", "user"] = "none"
    answered: bool = False
    quiet: bool = False
    last_text: str = ""
    effort: str | None = None
    tallies: dict[str, list[int]] = {}

    @property
    def name(self) -> str:
        """Return the name in the keys of the turn's facts."""
        return self.vendor_id or f"t{self.ordinal}"


class CodexCall(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A tool call, with what its actions need, until its result is known."""

    tool: str
    turn: str | None = None
    commands: list[str] = []
    workdir: str | None = None
    patches: list[str] = []
    write_path: str | None = None
    read_path: str | None = None
    patched: bool = False
    session: str | None = None
    commits: list[str] = []
    """Commits that it printed while it was running."""
    exit_code: int | None = None
    duration_ms: int | None = None
    failed: bool = False
    nested: bool = False
    name: str = ""
    """The name in its keys: its id, with its turn if the id may repeat."""


class HeldMessage(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A user message that may belong to the turn started next."""

    text: str
    at: str | None
    event: bool
    images: tuple[Image, ...] = ()
    message_id: str | None = None
    turn_hint: str | None = None


class CodexState(ReaderState, kw_only=True, omit_defaults=True):
    """Everything a reader needs to go on at a later line."""

    thread: str | None = None
    agent_path: str | None = None
    meta_at: str | None = None
    cwd: str | None = None
    family: str | None = None
    forked_from: str | None = None
    history_start: int | None = None
    undecided: bool = False
    """True for a fork until its first own turn."""
    written: dict[str, Any] = {}
    """The values last written of the session and its run: cwd, approval_policy, run.model …"""
    model: str | None = None
    context_model: str | None = None
    """The model of the last context, which used the tokens; settings hold from the next context on."""
    service: str | None = None
    """The service tier that was asked for: `default`, `fast`, `priority`, `flex`."""
    effort: str | None = None
    modern: bool = False
    """True if the file marks the starts of its turns."""
    names_turns: bool = False
    """True if settings name their turn, so that its start may be marked too."""
    ordinal: int = 0
    turn: CodexTurn | None = None
    last_turn: CodexTurn | None = None
    """The turn ended last; late records still pair up with it."""
    known: dict[str, str] = {}
    """Request ids by the vendor's turn id."""
    live: list[str] = []
    """Request ids of the turns not abandoned."""
    held: list[HeldMessage] = []
    calls: dict[str, CodexCall] = {}
    answered: dict[str, bool] = {}
    """Calls with a result; False if the call itself was not seen."""
    counted: list[str] = []
    """Answered calls whose ids only count, and may repeat in the next turn."""
    unnamed: list[str] = []
    """Ids given to calls without one that wait for their result, in order."""
    unnamed_count: int = 0
    sessions: dict[str, str] = {}
    """Call ids of commands still running, by the id of their process session."""
    tallies: dict[str, list[int]] = {}
    """Numbers of equal lines in the turn or, outside of turns, in the session."""
    previous_total: str | None = None
    previous_counters: list[int] = []
    shared: list[str] = []
    """Request ids of the turns among the copied lines."""
    titled: bool = False
    waiting: bytes = b""
    """Facts of a turn whose prompt is still awaited."""
    hold: bytes = b""
    """Compressed lines of an undecided fork."""
    hold_dropped: bool = False
    """True if they were too many; then they count as copied."""
