"""The base of all readers: the saved state, the draft of a turn, and the handling of a line.

A line is read and counted, its time kept, and its facts handed over. Each reader knows what its records mean.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from shiftlog.facts.transcript import AnyFact, Disposition, Hints, Key, LineCounts, Mac, TurnUpdated, VendorSession
from shiftlog.ingest.readers.actions import requirement_ids
from shiftlog.ingest.readers.records import Object, raw_or_digest, read_line, utc
from shiftlog.model.agents import AGENTS

VERSION = 1
MAX_NOTED = 1000
MAX_NAME_CHARS = 200
_RECENT_ITEMS = 64


class ReaderState(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The memory of every reader between lines; saved whole, also to another process."""

    version: int = VERSION
    at: str | None = None
    newest_at: str | None = None
    counts: LineCounts = msgspec.field(default_factory=LineCounts)


StateT = TypeVar("StateT", bound=ReaderState)


def load_state(data: bytes | None, kind: type[StateT]) -> StateT:
    """Return a saved state; a new one if there is none, or if it has another layout."""
    if data:
        try:
            state = msgspec.msgpack.decode(data, type=kind)
        except msgspec.MsgspecError:
            return kind()
        if state.version == VERSION:
            return state
    return kind()


def changed_values(written: Object, prefix: str, values: Object) -> Object:
    """Return the values that differ from those last written, and keep them as written."""
    changes: Object = {}
    for name, value in values.items():
        if value and written.get(prefix + name) != value:
            changes[name] = written[prefix + name] = value
    return changes


class TurnDraft(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A turn and its fields gathered since they were last written."""

    request_id: str
    ordinal: int = 1
    last_at: str | None = None
    model: str | None = None
    interpreted: bool = False
    sets: dict[str, Any] = {}
    adds: dict[str, list[Any]] = {}

    def add(self, name: str, *items: Any) -> bool:
        """Append items to one of the turn's lists, each once; return True if the last one was new."""
        listed = self.adds.setdefault(name, [])
        is_new = False
        for item in items:
            is_new = item not in listed[-_RECENT_ITEMS:]
            if is_new:
                listed.append(item)
        return is_new

    def learn(self, text: str, *, is_decision: bool) -> None:
        """Gather what a model text says about the turn: its interpretation, a decision, requirement ids."""
        if not self.interpreted:
            self.interpreted = True
            self.sets["interpretation"] = text
        if is_decision:
            self.add("design_decisions", text)
        if ids := requirement_ids(text):
            self.add("requirements_discovered", *ids)

    def take_fields(self, session: VendorSession, name: Key, *, ends: bool) -> TurnUpdated | None:
        """Return the gathered fields as a fact and forget them; `name` begins its key, `ends` marks a last blocker."""
        if not self.sets and not self.adds:
            return None
        sets, adds = self.sets, self.adds
        self.sets, self.adds = {}, {}
        text = msgspec.json.encode({"sets": sets, "adds": adds}, order="deterministic").decode("utf-8", "replace")
        key = (*name, Mac(text))
        turn = self.request_id
        return TurnUpdated(session=session, turn=turn, key=key, at=self.last_at, sets=sets, adds=adds, ends=ends)


class RecordReader(Generic[StateT]):
    """Takes lines, gives facts; follows the `Reader` protocol. Subclasses read the records."""

    AGENT: ClassVar[str] = ""

    def __init__(self, hints: Hints, state: StateT) -> None:
        self.hints = hints
        self.state = state
        self.state.at = state.at or hints.first_at
        if hints.seen_at is not None and self.is_untimed:
            self.state.at = hints.seen_at
        self.out: list[AnyFact] = []
        self.line = b""

    @property
    def agent(self) -> str:
        return self.AGENT

    @property
    def is_untimed(self) -> bool:
        """Return True if the agent's transcripts may have no times and none was in this one so far."""
        return self.state.newest_at is None and not AGENTS[self.AGENT].has_times

    @property
    def counts(self) -> LineCounts:
        return self.state.counts

    @property
    def at(self) -> str | None:
        """Return the time of the record being read, or of the last one that had a time."""
        return self.state.at

    def feed(self, line: bytes) -> Sequence[AnyFact]:
        read = read_line(line)
        if read is None:
            return ()
        counts = self.state.counts
        if read.record is None:
            counts.bad += 1
            return ()
        counts.replaced += read.replaced
        self.line = line
        self.count(self.read_record(read.record))
        return self.given()

    def read_record(self, record: Object) -> Disposition:
        """Read one record; its line is `self.line`."""
        raise NotImplementedError

    def skip_oversized(self) -> None:
        self.state.counts.bad += 1
        self.state.counts.oversized += 1

    def save(self) -> bytes:
        return msgspec.msgpack.encode(self.state)

    def given(self) -> Sequence[AnyFact]:
        """Return the facts given since the last call."""
        facts, self.out = self.out, []
        return facts

    # -- for subclasses ------------------------------------------------------------------------------------------------

    def set_time(self, value: object) -> str | None:
        """Take a record's time if it has one; return the current time of the file."""
        at = utc(value)
        state = self.state
        if at is not None:
            state.at = at
            if state.newest_at is None or at > state.newest_at:
                state.newest_at = at
        return state.at

    def count(self, disposition: Disposition) -> None:
        """Count a line by what became of it."""
        counts = self.state.counts
        if disposition is Disposition.MAPPED:
            counts.mapped += 1
        else:
            setattr(counts, disposition, getattr(counts, disposition) + 1)

    def counted(self, name: str, number: int = 1) -> Disposition:
        """Count a record, or a part of one, that is known but not kept."""
        names = self.state.counts.counted_names
        names[name] = names.get(name, 0) + number
        return Disposition.COUNTED

    def unknown_body(self, name: str, raw: bytes) -> Object | None:
        """Count an unknown record by its name; return the body of its note while its raw text is kept too."""
        name = name[:MAX_NAME_CHARS]
        names = self.state.counts.unknown_names
        names[name] = names.get(name, 0) + 1
        return {"unknown": name, **raw_or_digest(raw)} if names[name] <= MAX_NOTED else None
