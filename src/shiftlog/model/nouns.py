"""Sessions, turns, runs and leases as the journal's entries add up to them.

All are frozen; `journal.projection` makes the next one from the last and an entry. Text here is redacted already.
"""

from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

from shiftlog.model.ids import agent_key
from shiftlog.model.moves import LIVE, RunStatus, SessionState, Succession, TurnStatus

Noun = TypeVar("Noun")

# When the lease of a client that left expired: before any time that a clock can be set back to.
LEFT = datetime.fromtimestamp(0, UTC)


def changed(noun: Noun, **values: Any) -> Noun:
    """Return a copy of a noun with some fields changed.

    Every entry changes a session and often a turn, each with dozens of fields. Sessions and turns keep them in a
    dictionary instead of slots, which is copied at once: 0.7 µs instead of 5.8, a tenth of an in-process write.
    """
    held: dict[str, Any] | None = getattr(noun, "__dict__", None)
    if held is None:
        return cast(Noun, replace(cast(Any, noun), **values))
    made = {**held, **values}
    if len(made) > len(held):
        raise TypeError(f"{type(noun).__name__} has no field {min(values.keys() - held.keys())}")
    copy = object.__new__(type(noun))
    object.__setattr__(copy, "__dict__", made)
    return copy


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens and cost, each class counted once; cached input and cache creation are classes of their own.

    `cache_creation_1h_tokens` is the part of cache creation that was written for an hour.
    """

    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_creation_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = None
    cache_creation_1h_tokens: int = 0

    def plus(self, other: "Usage") -> "Usage":
        """Add two usages; a cost that is unknown on both sides stays unknown."""
        costs = [cost for cost in (self.cost_usd, other.cost_usd) if cost is not None]
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            cached_input_tokens=self.cached_input_tokens + other.cached_input_tokens,
            cache_creation_tokens=self.cache_creation_tokens + other.cache_creation_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            cost_usd=sum(costs) if costs else None,
            cache_creation_1h_tokens=self.cache_creation_1h_tokens + other.cache_creation_1h_tokens,
        )

    @property
    def tokens(self) -> int:
        """Return the tokens of all classes; reasoning is a part of output."""
        return self.input_tokens + self.cached_input_tokens + self.cache_creation_tokens + self.output_tokens

    def shown(self) -> dict[str, int | float | None]:
        """Return the figures as results show them; the part written for an hour only where there is one."""
        figures = {item.name: getattr(self, item.name) for item in fields(self)}
        if not self.cache_creation_1h_tokens:
            del figures["cache_creation_1h_tokens"]
        return figures


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The process side of a session; `alias` is its integer name, unique for the life of the store.

    `returncode` is None until the end of the run was reported. `derived` names figures that were computed here instead
    of reported, `resolved` the parts of tier, model and effort that followed from the operator's table.
    """

    alias: int
    status: RunStatus
    started: datetime
    backend: str | None = None
    provider: str | None = None
    caller: str | None = None
    session_type: str | None = None
    model: str | None = None
    reasoning_effort: str | None = None
    resonance_tier: str | None = None
    cwd: str | None = None
    pid: int | None = None
    pid_started: str | None = None
    host: str | None = None
    context_excerpt: str | None = None
    prompt_chars: int = 0
    ended: datetime | None = None
    returncode: int | None = None
    duration_ms: int | None = None
    error: str | None = None
    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    output_tokens: int | None = None
    total_cost_usd: float | None = None
    telemetry_source: str | None = None
    cost_source: str | None = None
    derived: tuple[str, ...] = ()
    resolved: tuple[str, ...] = ()

    def ended_before(self, at: datetime) -> bool:
        """Return True if the run ended before a time, with reported tokens that cannot include later usage."""
        stated = (self.input_tokens, self.cached_input_tokens, self.output_tokens)
        return self.ended is not None and at > self.ended and stated != (None, None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """The close of a session; a later resume keeps it as history and clears it here."""

    at: datetime
    reason: str
    reason_class: str
    note: str | None
    policy: Succession
    successor_deadline: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A hand-over that waits to be accepted: by one agent or, without one, by any holder of the token."""

    agent_id: str | None
    agent_key: str | None
    at: datetime
    expires_at: datetime
    seq: int


@dataclass(frozen=True, kw_only=True)
class Session:
    """One shift of one agent, as its journal says."""

    id: str
    agent: str
    agent_id: str
    agent_key: str
    title: str
    state: SessionState
    started: datetime
    last_activity: datetime
    model: str | None = None
    workspace: str | None = None
    cwd: str | None = None
    tags: tuple[str, ...] = ()
    exclusive: bool = False
    hidden: bool = False
    parent_session_id: str | None = None
    predecessor_session_id: str | None = None
    successor_session_id: str | None = None
    vendor_session_id: str | None = None
    transcript_path: str | None = None
    executable_path: str | None = None
    executable_version: str | None = None
    run: Run | None = None
    closing: Closing | None = None
    offer: Offer | None = None
    suspended_cause: str | None = None
    fence: int = 0
    usage: Usage | None = None
    model_usage: dict[str, Usage] = field(default_factory=dict[str, Usage])
    # The part of the usage after the first day (UTC), by day and model; an empty name stands for no model.
    later_days: dict[str, dict[str, Usage]] = field(default_factory=dict[str, dict[str, Usage]])
    # The part of the usage after the run had ended with reported tokens, in the same form.
    beyond_run: dict[str, dict[str, Usage]] = field(default_factory=dict[str, dict[str, Usage]])
    tokens_counted: int = 0
    turns_total: int = 0
    turns_completed: int = 0
    turns_failed: int = 0
    turns_deleted: int = 0
    dialog_items: int = 0
    actions_total: int = 0
    actions_unfinished: int = 0
    # True if a command was run in it, or its agent left a statement.
    has_work: bool = False
    current_turn: str | None = None
    imported_turn_at: datetime | None = None
    import_hash: str = ""
    parent_turn: str | None = None
    parent_call: str | None = None
    subagent: dict[str, object] = field(default_factory=dict[str, object])
    forked_from: str | None = None
    shared: tuple[dict[str, object], ...] = ()
    abandoned: tuple[str, ...] = ()
    head_seq: int = 0
    head_hash: str = ""

    @property
    def is_live(self) -> bool:
        """Return True if the session accepts ordinary writes."""
        return self.state in LIVE

    def joined(self, facts: dict[str, Any]) -> "Session":
        """Return the session after a client joined it, with the agent id and the terms that it brought."""
        known: dict[str, Any] = {"exclusive": True} if facts.get("exclusive") else {}
        if "agent_id" in facts:
            known |= {"agent_id": str(facts["agent_id"]), "agent_key": agent_key(str(facts["agent_id"]))}
        return changed(self, **known)

    @property
    def is_model_assumed(self) -> bool:
        """Return True if the model was not given: it followed from the operator's table."""
        return self.run is not None and "model" in self.run.resolved and self.model == self.run.model

    @property
    def turns_open(self) -> int:
        """Count the turns that are neither completed nor failed."""
        return self.turns_total - self.turns_completed - self.turns_failed

    @property
    def tokens_total(self) -> int:
        """Return the known number of tokens: counted usage, else the sum that the turns reported."""
        return self.tokens_counted if self.usage is None else self.usage.tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTouch:
    """The changes of a turn to one file: how often, what last, and the entry that says so.

    `listed` and `acted` say where it is known from: a list of modified files, and how many actions. `seen` is True if
    no one told it: two checkpoints differ there.
    """

    changes: int
    last_type: str
    seq: int
    listed: bool = False
    acted: int = 0
    seen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Amendment:
    """A change that came after its turn was terminal."""

    at: datetime
    source: str
    fields: dict[str, object]
    seq: int


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One request inside a session; dialog items and actions are entries of their own, counted here."""

    request_id: str
    ordinal: int
    status: TurnStatus
    begun_at: datetime
    last_updated: datetime
    query_title: str
    query_text: str
    begun_seq: int
    last_seq: int
    finished_at: datetime | None = None
    interpretation: str = ""
    response: str = ""
    model: str | None = None
    model_provider: str = ""
    plan_file: str = ""
    todo_id: str = ""
    token_count: int = 0
    tags: tuple[str, ...] = ()
    context_list: tuple[str, ...] = ()
    design_decisions: tuple[str, ...] = ()
    requirements_discovered: tuple[str, ...] = ()
    files_modified: tuple[str, ...] = ()
    blockers: tuple[str, ...] = ()
    next: tuple[str, ...] = ()
    do_not: tuple[str, ...] = ()
    refuted: tuple[str, ...] = ()
    commits: tuple[dict[str, object], ...] = ()
    failure_note: str = ""
    error_code: str = ""
    usage: Usage | None = None
    files: dict[str, FileTouch] = field(default_factory=dict[str, FileTouch])
    dialog_items: int = 0
    actions: int = 0
    actions_unfinished: int = 0
    last_order: int = 0
    dialog_floor: int = 0
    actions_floor: int = 0
    dropped: tuple[int, ...] = ()
    items_hash: str = ""
    seal: str | None = None
    amendments: tuple[Amendment, ...] = ()

    @property
    def is_terminal(self) -> bool:
        """Return True if the turn can no longer change."""
        return self.status is not TurnStatus.IN_PROGRESS

    def keeps_dialog(self, seq: int) -> bool:
        """Return True if the dialog item of an entry still counts: neither cleared nor deleted."""
        return seq > self.dialog_floor and seq not in self.dropped

    def keeps_action(self, seq: int) -> bool:
        """Return True if the action of an entry still counts: neither cleared nor deleted."""
        return seq > self.actions_floor and seq not in self.dropped


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to write a session now; operational, so kept beside the journal and not in it.

    `other_writer` is who wrote beside the holder since the holder's last write.
    """

    session_id: str
    fence: int
    client_id: str
    agent_id: str
    agent_key: str
    face: str
    host: str
    pid: int | None
    pid_started: str | None
    since: datetime
    expires_at: datetime
    other_writer: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """A signed head of a session's chain: kept elsewhere, it proves that nothing before it changed."""

    session_id: str
    seq: int
    head_hash: str
    at: datetime
    key_id: str
    signature: str
    test_clock: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """The stored part of a recovery token: its SHA-256, whose session it is for, and what became of it."""

    hash: str
    session_id: str
    issued_at: datetime
    expires_at: datetime
    used_at: datetime | None = None
    revoked_at: datetime | None = None

    @property
    def is_unspent(self) -> bool:
        """Return True if it was neither used nor revoked."""
        return self.used_at is None and self.revoked_at is None
