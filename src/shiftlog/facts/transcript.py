"""Facts: what a reader found in a transcript, before redaction, and the protocol that every reader follows.

Facts are frozen structs, so that they cross process boundaries as MessagePack (`encode_facts`, `decode_facts`).
Nothing here reads bytes, knows a vendor's format, or decides what is stored: the import does that by key.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum, StrEnum
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import msgspec

Json: TypeAlias = dict[str, Any]


class VendorSession(NamedTuple):
    """The vendor's session that a fact belongs to; `agent_id` names a child inside it (Claude Code subagents).

    Children with a thread of their own (Codex) have `agent_id` None and a `parent` in their `SessionOpened`.
    """

    vendor_id: str
    agent_id: str | None = None


class Mac(msgspec.Struct, frozen=True, tag="mac", gc=False):
    """A part of a key that is only ever written as the keyed digest of this text."""

    text: str


Key: TypeAlias = tuple[str | int | Mac, ...]
"""An origin key in pieces: joined with `:` (a `Mac` replaced by its 16 hex) it is the key of the contract."""


class Disposition(StrEnum):
    """The fate of one non-blank line; each line has exactly one."""

    MAPPED = "mapped"
    COUNTED = "counted"
    DUPLICATE = "duplicate"
    BAD = "bad"
    UNKNOWN = "unknown"


class TitleSource(IntEnum):
    """The source of a title; the larger one wins, of equals the later."""

    PROMPT = 1
    SUMMARY = 2
    INDEX = 3
    GENERATED = 4
    THREAD_NAME = 5
    CUSTOM = 6


class Image(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Binary data that a record carried; the bytes themselves only where the caller asked to keep them."""

    media_type: str
    size: int = msgspec.field(name="bytes")
    sha256: str
    data: bytes | None = None


class RecordIds(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The vendor's own ids of a record, kept so that its transcript can be written again.

    In the order of canonical JSON, because it is written into bodies as it is.
    """

    block: int = 0
    message_id: str | None = None
    parent_uuid: str | None = None
    request_id: str | None = None
    uuid: str | None = None


class Subagent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The kind of a child session."""

    kind: str
    name: str | None = None
    role: str | None = None
    depth: int | None = None
    description: str | None = None


class Parent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The parent of a child, as far as the child's own records say; a `ChildLink` of the parent may say more."""

    session: VendorSession
    call_id: str | None = None
    run_id: str | None = None


class Fact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="fact", gc=False):
    """The fields that all facts share.

    `at` is the record's time as the journal writes it (UTC, milliseconds, `Z`), or None where the file had none so far.
    `turn` is the request id of the turn (deterministic), None for what belongs to the session as a whole. A fact whose
    key, or one of whose aliases, is known already is the same fact again.
    """

    session: VendorSession
    key: Key
    at: str | None = None
    turn: str | None = None
    aliases: tuple[Key, ...] = ()
    record: RecordIds | None = None


class SessionOpened(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="session_opened"):
    """The first conversation record of a session in this file; precedes every other fact of that session."""

    agent: str
    cwd: str | None = None
    branch: str | None = None
    version: str | None = None
    repository: str | None = None
    parent: Parent | None = None
    forked_from: str | None = None
    subagent: Subagent | None = None
    background: bool = False
    """The records carry `sessionKind`: in one run such files go after the others."""
    extra: Json = {}


class SessionUpdated(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="session_updated"):
    """Changed keys of a session: cwd, branch, version, goal, pr, permission_mode … and the better title."""

    changes: Json
    title: str | None = None
    title_source: TitleSource | None = None


class TurnBegun(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="turn_begun"):
    """A turn starts; `turn` is its request id and `vendor_turn_id` the prompt's uuid or the vendor's turn id."""

    opened_by: Literal["prompt", "command", "notice", "queued", "continued", "task"] = "prompt"
    query_text: str = ""
    query_title: str = ""
    vendor_turn_id: str | None = None
    ordinal: int = 0
    images: tuple[Image, ...] = ()
    model: str | None = None
    untimed: bool = False
    """True if the transcript has no times, so that `at` says nothing of when the prompt was given."""


class TurnUpdated(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="turn_updated"):
    """Fields of a turn: `sets` are scalars (the last one wins), `adds` are unique items appended to lists.

    Names are those of the journal: interpretation, model, reasoning_effort, plan_file; context_list, blockers,
    design_decisions, requirements_discovered, files_modified, commits ({sha, branch, message}), tags.
    `token_count` is left to the import, which sums the turn's usage. `ends` tells that the last of the blockers is how
    the turn ended.
    """

    sets: Json = {}
    adds: dict[str, list[Any]] = {}
    ends: bool = False


class TurnEnded(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="turn_ended"):
    """A turn was completed or failed; `settled` marks an end that only the passing of time shows."""

    status: Literal["completed", "failed"]
    response: str | None = None
    duration_ms: int | None = None
    failure_note: str | None = None
    error_code: str | None = None
    model: str | None = None
    settled: bool = False


class DialogItem(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="dialog"):
    """A text of a user, a model, a tool or the system."""

    role: Literal["user", "model", "tool", "system"]
    category: Literal["observation", "reasoning", "decision"]
    content: str
    images: tuple[Image, ...] = ()
    extra: Json = {}


class ToolCall(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="tool_call"):
    """A model calls a tool; `content` is the short line, `input` the whole input (a text where it was no object)."""

    tool: str
    call_id: str
    content: str
    input: Any = None
    nested: bool = False
    """Known only from the parent's progress records: kept, but no call of a file's own."""
    extra: Json = {}


class ToolResult(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="tool_result"):
    """The result of a call; `orphan` means that this file never showed the call."""

    call_id: str
    tool: str | None = None
    content: str = ""
    is_error: bool = False
    exit_code: int | None = None
    duration_ms: int | None = None
    interrupted: bool = False
    orphan: bool = False
    denied: bool = False
    nested: bool = False
    images: tuple[Image, ...] = ()
    spilled: str | None = None
    """Path of a file that holds the whole output; the import reads it if it is there."""
    extra: Json = {}


class Action(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="action"):
    """Something that was done to the world: a file edited, a commit, a page read, a package added, a decision."""

    type: str
    description: str
    status: Literal["completed", "failed"] = "completed"
    file_path: str | None = None
    diff: str | None = None
    call_id: str | None = None
    approximate: bool = False
    user_modified: bool = False
    moved_from: str | None = None
    extra: Json = {}


class UsageFact(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="usage"):
    """Tokens of one response.

    `rule` says how facts of one key add up: `maximum` per counter over all facts with the key, or `first` (the first
    fact of the key counts). `joins` (message id) asks to join the one response known with that message id in this
    session before the key is used alone. `copied` facts count only while no session has the key as its own.
    """

    model: str | None = None
    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_creation_tokens: int = 0
    cache_creation_1h_tokens: int = 0
    """The part of `cache_creation_tokens` that was written for an hour."""
    output_tokens: int = 0
    reasoning_tokens: int = 0
    web_searches: int = 0
    rule: Literal["maximum", "first"] = "maximum"
    tier: str | None = None
    """The facts that decide the price besides the model: see `billing_tier`."""
    message_id: str | None = None
    joins: bool = False
    copied: bool = False
    cost_usd: float | None = None
    vendor: Json = {}


class RunUpdated(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="run_updated"):
    """Changed keys of the process side: backend, model, reasoning_effort, session_type, cwd, version, started…"""

    changes: Json


class ChildLink(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="child_link"):
    """The parent (`session`, `turn`) names a child: by agent id, by thread id, or all children of a workflow run.

    `rank` orders the ways in which a link is known, the smaller one wins. `name` is the kind of agent.
    """

    call_id: str | None = None
    child_agent_id: str | None = None
    child_thread_id: str | None = None
    run_id: str | None = None
    name: str | None = None
    description: str | None = None
    rank: int = 9


class Note(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="note"):
    """Becomes `import.noted`: an unknown record (`body` {unknown, raw}), abandoned turns, a child's result …

    A note of kind `child` belongs to a child that this file may never open (a workflow's journal).
    """

    kind: Literal["unknown", "abandoned", "compaction", "shared", "child", "run", "other"]
    body: Json


AnyFact: TypeAlias = (
    SessionOpened
    | SessionUpdated
    | TurnBegun
    | TurnUpdated
    | TurnEnded
    | DialogItem
    | ToolCall
    | ToolResult
    | Action
    | UsageFact
    | RunUpdated
    | ChildLink
    | Note
)


COPIED = "copied"
"""The name under which a reader counts the records that a file only repeats from the session it was forked from."""


class LineCounts(msgspec.Struct, kw_only=True):
    """The number of lines of each disposition; the five sum up to the non-blank lines. The rest are details of them."""

    mapped: int = 0
    counted: int = 0
    duplicate: int = 0
    bad: int = 0
    unknown: int = 0
    oversized: int = 0
    """Of the bad ones: longer than the limit."""
    replaced: int = 0
    """Lines with invalid UTF-8 that was replaced."""
    unknown_names: dict[str, int] = {}
    counted_names: dict[str, int] = {}

    @property
    def lines(self) -> int:
        """Return the number of non-blank lines."""
        return self.mapped + self.counted + self.duplicate + self.bad + self.unknown


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """An open turn at the end of what was read, or what is held back: what time alone will make of it.

    `ends_as` is what it becomes once its newest record is 30 minutes old (or the vendor's hook said it stopped);
    None stays in progress until more arrives. An unanswered command is `observed`: it opens no turn; so are
    the lines of a fork that has not begun a turn of its own.
    """

    session: VendorSession
    turn: str
    last_at: str | None
    quiet: bool
    ends_as: Literal["completed", "failed", "observed"] | None


class Hints(msgspec.Struct, frozen=True, kw_only=True):
    """The caller's knowledge of a file besides its bytes; readers never see a path."""

    session_id: str | None = None
    """The vendor id in the file's name, or the name without its ending."""
    agent_id: str | None = None
    """The `<id>` of `agent-<id>.jsonl`."""
    parent_id: str | None = None
    """The session that the enclosing folder names (nested subagent files)."""
    run_id: str | None = None
    """The workflow run that the enclosing folder names."""
    sidecar: Json | None = None
    """The parsed `agent-<id>.meta.json`."""
    first_at: str | None = None
    """The first time among the file's first records; it holds for those before it that have none."""
    seen_at: str | None = None
    """When a hook told that the file grew; it holds for new records of a file that has no times."""
    keep_images: bool = False


class TranscriptReader(Protocol):
    """Bytes in, facts out. Feed whole lines in file order; go on later, in another process, from `save()`.

    No method raises on any content, and none looks at a clock, a path or the store.
    """

    @property
    def agent(self) -> str:
        """Return the agent kind, such as `ClaudeCode`."""
        ...

    @property
    def counts(self) -> LineCounts:
        """Return the dispositions of all lines fed so far, those before a restore included."""
        ...

    def feed(self, line: bytes) -> Sequence[AnyFact]:
        """Read one line, with or without its line end."""
        ...

    def skip_oversized(self) -> None:
        """Count a line that was longer than the limit and was not fed."""
        ...

    def finish(self) -> Sequence[AnyFact]:
        """Return facts that only the end of what is there now completes; feeding may go on afterwards."""
        ...

    def standings(self) -> Sequence[Standing]:
        """Return the turns still open."""
        ...

    def end_idle(self, sessions: Iterable[VendorSession] | None = None) -> Sequence[AnyFact]:
        """End the open turns that time alone ends, of the given sessions or of all."""
        ...

    def save(self) -> bytes:
        """Return the state to restore from; opaque, small, independent of the process."""
        ...


class ReaderFactory(Protocol):
    """Opens a reader at the start of a file, or where a saved state left off."""

    def __call__(self, hints: Hints, state: bytes | None = None) -> TranscriptReader: ...


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(list[AnyFact])


def encode_facts(facts: Sequence[AnyFact]) -> bytes:
    """Return facts as MessagePack, to hand them to another process."""
    return _ENCODER.encode(facts)


def decode_facts(data: bytes) -> list[AnyFact]:
    """Return the facts that `encode_facts` wrote."""
    return _DECODER.decode(data)


def key_text(key: Key, mac: Callable[[str], str]) -> str:
    """Return a key as the store keeps it: its parts joined with `:`, each `Mac` replaced by what `mac` gives."""
    return ":".join([mac(part.text) if isinstance(part, Mac) else str(part) for part in key])
