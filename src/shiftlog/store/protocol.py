"""The Store protocol: what every store can do, in verbs that name no database.

`Store.write` runs one piece of work as one transaction, durable when it returns; `Store.read` sees one
consistent state. Work is a plain function over a `Reader` or a `Writer` and may run in another thread.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol, Self, TypeVar

from shiftlog.model.entry import Body, Entry, Kind
from shiftlog.model.nouns import FileTouch, Lease, Receipt, Session, Token, Turn
from shiftlog.model.search import Expr
from shiftlog.model.times import truncated
from shiftlog.store.sources import Origin, Packed, Source
from shiftlog.store.tallies import Figures, Kin

T = TypeVar("T")

# What a search counts: matching entries, or the turns or sessions that have one.
Unit = Literal["session", "turn", "entry"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Conditions on sessions and their turns, joined by and; None asks nothing.

    `model_part` is a part of the model's name in any case. `finished` sessions have ended, or are suspended with
    turns of which none is open. `offered_to` is the key of an agent; `offered` asks for any open offer.
    `from_` and `to` ask when something was worked on: a session or turn from its start to the second of its last
    activity, an entry at its time, a file between the changes of it; of what a session holds, each by itself.
    `turn_status`, `plan_file`, `todo_id` and `untouched_since` must hold for one turn; what is asked of turns, for an
    entry's own turn, but a tag of its session will do. `without_subagents` leaves out the imported sessions of
    subagents; their turns then count among those of the session that started them. `hidden` asks for the sessions
    that were deleted, which nothing else finds, and for no other.
    """

    session_id: str | None = None
    agent: str | None = None
    agent_key: str | None = None
    model: str | None = None
    backend: str | None = None
    caller: str | None = None
    states: frozenset[str] | None = None
    turn_status: str | None = None
    run_status: str | None = None
    tag: str | None = None
    project: str | None = None
    workspace: str | None = None
    path: str | None = None
    parent_id: str | None = None
    predecessor_id: str | None = None
    offered_to: str | None = None
    offered: bool = False
    from_: datetime | None = None
    to: datetime | None = None
    idle_since: datetime | None = None
    with_run: bool = False
    model_part: str | None = None
    started_from: datetime | None = None
    active_to: datetime | None = None
    finished: bool | None = None
    plan_file: str | None = None
    todo_id: str | None = None
    untouched_since: datetime | None = None
    without_subagents: bool = False
    hidden: bool = False

    def fits(self, turn: Turn) -> bool:
        """Tell whether a turn is the one that must be as `turn_status` and those with it ask."""
        asked = (
            (self.turn_status, turn.status),
            (self.plan_file, turn.plan_file),
            (self.todo_id, turn.todo_id),
        )
        since = self.untouched_since
        return all(wanted is None or wanted == actual for wanted, actual in asked) and (
            since is None or truncated(turn.last_updated) <= since
        )

    @property
    def asks_turn(self) -> bool:
        """Tell whether something is asked of turns; for an entry it must hold for its own."""
        asked = (self.turn_status, self.tag, self.path, self.plan_file, self.todo_id, self.untouched_since)
        return any(each is not None for each in asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Which part of a list: at most `limit` rows after the row whose position is `after`."""

    limit: int
    after: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    """A session found, and its position in the list."""

    session: Session
    at: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRow:
    """A turn found, with its session and its position in the list."""

    session: Session
    turn: Turn
    at: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRow:
    """A touched file found, with the turn that touched it, when, and its position in the list."""

    session_id: str
    request_id: str
    path: str
    touch: FileTouch
    touched: datetime | None
    at: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryRow:
    """An entry found, with its session and its position in the list."""

    session_id: str
    entry: Entry
    at: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """The entry of a session, of a turn or alone that fits a search best; a higher score fits better."""

    session_id: str
    seq: int
    turn: str | None
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a search found, best first; `total` counts all there are of it.

    `complete` is false where more entries matched than are ranked: then only the newest of them count.
    """

    hits: Sequence[Hit]
    total: int
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexed:
    """An entry to append with the text to be found by and, for decisions and commands, its facet."""

    entry: Entry
    text: str
    facet: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The first answer to an idempotency key and the hash of the request it answered."""

    request_hash: str
    answer: Body
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How much a store holds."""

    sessions: int
    turns: int
    entries: int
    bytes: int
    schema: int


class Reader(Protocol):
    """What can be asked of one consistent state."""

    def session(self, session_id: str) -> Session | None: ...
    def session_id_of_alias(self, alias: int) -> str | None: ...
    def session_ids_of_vendor(self, vendor_session_id: str) -> list[str]: ...
    def turn(self, session_id: str, request_id: str) -> Turn | None: ...
    def turns(self, session_id: str, *, after: int = 0, limit: int | None = None) -> list[Turn]: ...
    def entries(
        self,
        session_id: str,
        *,
        after: int = 0,
        until: int | None = None,
        limit: int | None = None,
        turn: str | None = None,
        kinds: Iterable[Kind] | None = None,
    ) -> list[Entry]: ...
    def head(self, session_id: str) -> tuple[int, str] | None: ...
    def session_ids(self) -> list[str]: ...
    def find_sessions(self, where: Filter, page: Page, *, by_activity: bool = False) -> list[SessionRow]: ...
    def find_turns(self, where: Filter, page: Page) -> list[TurnRow]: ...
    def find_files(self, where: Filter, page: Page) -> list[FileRow]: ...
    def find_entries(self, where: Filter, page: Page, facets: Iterable[str] | None) -> list[EntryRow]: ...
    def count(self, what: str, where: Filter, facets: Iterable[str] | None = None) -> int: ...
    def search(
        self,
        expr: Expr,
        where: Filter,
        *,
        unit: Unit,
        limit: int,
        most: int,
        facets: Iterable[str] | None = None,
    ) -> Found: ...
    def agent_ids(self, *, like: str | None = None, limit: int = 1000) -> list[tuple[str, str]]: ...
    def lease(self, session_id: str) -> Lease | None: ...
    def leases(self) -> list[Lease]: ...
    def grant(self, session_id: str, client_id: str) -> int | None: ...
    def agent_of(self, client_id: str) -> str | None: ...
    def token(self, token_hash: str) -> Token | None: ...
    def answer(self, scope: str, key: str) -> Answer | None: ...
    def outcome(self, client_id: str, call_id: str) -> Body | None: ...
    def receipts(self, session_id: str) -> list[Receipt]: ...
    def counts(self) -> Counts: ...
    def pointer(self, workspace: str, agent: str) -> str | None: ...
    def recent_sessions(self, where: Filter, *, offset: int, limit: int) -> list[Session]: ...
    def tags_of(self, session_id: str) -> list[str]: ...
    def count_files(self, *session_ids: str) -> int: ...
    def turns_that_may_hold(
        self, session_id: str, covers: Sequence[Sequence[str]], rules_out: Callable[[str], bool] | None = None
    ) -> Iterator[str] | None:
        """Name turns, among them all whose texts hold a part of each cover; None to look at all of them.

        Parts are folded and printable. `rules_out` says of a folded text whether no turn that has all of it, in
        whatever order, is asked for. Names are found as they are asked for.
        """
        ...

    def lacks_parts(self, session_id: str) -> bool:
        """Tell whether a good part of a session is not indexed by parts of words yet."""
        ...

    def tallies(self, where: Filter, by: Iterable[str]) -> list[tuple[Kin, Figures]] | None:
        """Return what the sessions of a filter used, summed up; None where only the sessions themselves can tell.

        `by` names what sums are kept apart by, besides what prices and settings may treat differently; what is neither
        is left empty.
        """
        ...

    def source(self, path: str) -> Source | None: ...
    def sources(self) -> list[Source]:
        """Return all sources, without the states of their readers."""
        ...

    def origins(self, keys: Iterable[bytes]) -> dict[bytes, Origin]: ...
    def imported(self, session_id: str) -> Body | None: ...
    def project_of(self, path: str) -> str | None: ...
    def paths_of(self, project: str) -> list[str]: ...


class Writer(Reader, Protocol):
    """What can be changed in one transaction."""

    def append(self, session_id: str, entries: Sequence[Indexed]) -> None: ...
    def put_session(self, session: Session) -> None: ...
    def put_turn(self, session_id: str, turn: Turn) -> None: ...
    def next_alias(self) -> int: ...
    def put_lease(self, lease: Lease) -> None: ...
    def end_lease(self, session_id: str) -> None: ...
    def renew_leases(self, client_ids: Iterable[str], expires_at: datetime) -> None: ...
    def put_agent_of(self, client_id: str, agent_key: str, at: datetime) -> None: ...
    def put_token(self, token: Token) -> None: ...
    def revoke_tokens(self, session_id: str, at: datetime) -> None: ...
    def put_answer(self, scope: str, key: str, answer: Answer) -> None: ...
    def put_outcome(self, client_id: str, call_id: str, outcome: Body, at: datetime) -> None: ...
    def put_receipt(self, receipt: Receipt) -> None: ...
    def erase_body(self, session_id: str, seq: int) -> None: ...
    def forget_projection(self, session_id: str) -> None: ...
    def recount(self) -> None:
        """Make the tallies anew from all sessions."""
        ...

    def reindex(self, session_id: str, items: Iterable[Indexed]) -> None: ...
    def catch_up_parts(self, session_id: str, most: int) -> int:
        """Index as much of a session by parts of words as so many short entries take; return how many that took."""
        ...

    def forget_clients(self, before: datetime) -> None:
        """Forget what was known of clients before a time, unless they hold a lease: grants, agents, expired tokens."""
        ...

    def forget_answers(self, *, session_id: str | None = None, before: datetime | None = None) -> None: ...
    def forget_outcomes(self, before: datetime) -> None: ...
    def put_pointer(self, workspace: str, agent: str, session_id: str) -> None: ...
    def forget_turn(self, session_id: str, request_id: str) -> None: ...
    def append_packed(self, session_id: str, entries: Sequence[Packed]) -> None: ...
    def put_source(self, source: Source) -> None: ...
    def forget_source(self, path: str) -> None: ...
    def put_origins(self, origins: Mapping[bytes, Origin]) -> None: ...
    def put_imported(self, session_id: str, document: Body) -> None: ...
    def put_project_path(self, path: str, project: str) -> None: ...


class Store(Protocol):
    """A place that keeps facts."""

    async def write(self, work: Callable[[Writer], T], *, lasting: bool = True) -> T:
        """Run work as one transaction: durable when it returns, without a trace when it raises.

        With `lasting=False` a loss of power may undo it, whole, until `sync` or the next lasting work.
        """
        ...

    async def write_bulk(self, work: Callable[[Writer], T]) -> T:
        """Run a batch of an import as one transaction that is not lasting and lets other works go first."""
        ...

    async def sync(self) -> None:
        """Make durable what was written without having to last; free where nothing is owed."""
        ...

    async def read(self, work: Callable[[Reader], T]) -> T:
        """Run work over one consistent state."""
        ...

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *exc_info: object) -> None: ...
