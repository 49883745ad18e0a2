"""The Store protocol: what every store can do, in verbs that name no database.

Work is a plain function over a `Reader` or a `Writer`, and may run in another thread. Both are made of facets: journal,
history, totals, clients, imports, keeping. Each facet says what a store must guarantee; `tests/contract` checks it.
SQL, threads and encodings belong to the stores.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol, Self, TypeVar

from shiftlog.model.entry import Body, Entry, Kind
from shiftlog.model.errors import StorageError
from shiftlog.model.nouns import FileTouch, Lease, Receipt, Session, Token, Turn
from shiftlog.model.search import Expr
from shiftlog.store.filters import Filter, Page
from shiftlog.store.keeping import Archived, Hold, SessionBytes
from shiftlog.store.sources import Origin, Packed, Source
from shiftlog.store.tallies import Figures, TallyKey

T = TypeVar("T")

# A search counts matching entries, or the turns or sessions that have one.
Unit = Literal["session", "turn", "entry"]


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
class SearchResult:
    """The results of a search, best first; `total` counts all there are of it.

    `complete` is false where more entries matched than are ranked: then only the newest of them count.
    """

    hits: Sequence[Hit]
    total: int
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexed:
    """An entry with the text to be found by and, for decisions and commands, its facet."""

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
class StoreSize:
    """The size of a store."""

    sessions: int
    turns: int
    entries: int
    bytes: int
    schema: int


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """The session and client that a work will look up, as far as its caller knows; a store may read them ahead."""

    session_id: str | None = None
    client_id: str | None = None


NOTHING_KNOWN = About()


class JournalReader(Protocol):
    """Sessions, turns and entries, one by one.

    Entries come in the order of their `seq`, without gaps, each exactly as it was appended, except for an erased body.
    A session or turn is the one last put.
    """

    def session(self, session_id: str) -> Session | None: ...
    def session_id_of_alias(self, alias: int) -> str | None: ...
    def session_ids_of_vendor(self, vendor_session_id: str) -> list[str]:
        """Name the sessions of a vendor's id, a UUID in any case, oldest first; hidden ones are left out."""
        ...

    def session_ids(self) -> list[str]:
        """Name every session that has an entry, hidden ones too, oldest first."""
        ...

    def session_names(self) -> list[tuple[str, str | None]]:
        """Return the id and the vendor's id, in lower case, of every session that is not hidden, oldest first."""
        ...

    def turn(self, session_id: str, request_id: str) -> Turn | None: ...
    def turns(self, session_id: str, *, after: int = 0, limit: int | None = None) -> list[Turn]:
        """Return turns in the order of their ordinals, from the one after `after`."""
        ...

    def entries(
        self,
        session_id: str,
        *,
        after: int = 0,
        until: int | None = None,
        limit: int | None = None,
        turn: str | None = None,
        kinds: Iterable[Kind] | None = None,
    ) -> list[Entry]:
        """Return entries with `after < seq <= until`."""
        ...

    def head(self, session_id: str) -> tuple[int, str] | None:
        """Return seq and hash of the last entry."""
        ...

    def receipts(self, session_id: str) -> list[Receipt]: ...
    def differences(self, session: Session, turns: Mapping[str, Turn], items: Iterable[Indexed]) -> Iterator[str]:
        """Name everything that is stored of a session for lists and pages and is not as given."""
        ...

    def word_differences(
        self, session_ids: Sequence[str], items_of: Callable[[str], Iterable[Indexed]]
    ) -> Iterator[tuple[str, str]]:
        """Name, with their sessions, the entries that a search finds by other words than given."""
        ...

    def projection_version(self) -> int:
        """Return the version last put; 1 for a new store, 0 for one whose sessions are older than versions."""
        ...


class JournalWriter(JournalReader, Protocol):
    """Writing entries, and the sessions and turns that follow from them.

    `append` refuses, with StorageError, entries that do not follow the head: of two writers one fails. A turn's tags
    and touched files are those of the turn last put. Erased bytes are in no file of an embedded store once the work is
    durable; a server's files lose them later.
    """

    def append(self, session_id: str, entries: Sequence[Packed]) -> None: ...
    def put_session(self, session: Session) -> None: ...
    def put_turn(self, session_id: str, turn: Turn) -> None: ...
    def forget_turn(self, session_id: str, request_id: str) -> None: ...
    def put_receipt(self, receipt: Receipt) -> None: ...
    def put_projection_version(self, version: int) -> None: ...
    def next_alias(self) -> int:
        """Return a number that no earlier call returned, higher than all of them."""
        ...

    def erase_body(self, session_id: str, seq: int) -> None:
        """Remove body, salt and searchable text of an entry, and texts that only it had."""
        ...

    def forget_projection(self, session_id: str) -> None:
        """Remove a session and its turns, but not its entries."""
        ...

    def reindex(self, session_id: str, items: Iterable[Indexed]) -> None:
        """Replace the words and facets by which entries are found."""
        ...


class HistoryReader(Protocol):
    """Lists and searches over all sessions.

    Lists come newest first, or oldest first if the page says so; the next page begins after the `at` of a row, also if
    more was written since.
    Hidden sessions are in no list unless the filter asks for them.
    """

    def find_sessions(self, where: Filter, page: Page, *, by_activity: bool = False) -> list[SessionRow]: ...
    def find_turns(self, where: Filter, page: Page) -> list[TurnRow]: ...
    def find_files(self, where: Filter, page: Page) -> list[FileRow]: ...
    def find_entries(self, where: Filter, page: Page, facets: Iterable[str] | None) -> list[EntryRow]: ...
    def count(self, what: str, where: Filter, facets: Iterable[str] | None = None) -> int:
        """Count what the find of a `session`, `turn`, `file` or `entry` would list."""
        ...

    def recent_sessions(self, where: Filter, *, offset: int, limit: int) -> list[Session]:
        """Return sessions by the second of their last activity, newest first, then by id."""
        ...

    def search(
        self,
        expr: Expr,
        where: Filter,
        *,
        unit: Unit,
        limit: int,
        most: int,
        facets: Iterable[str] | None = None,
    ) -> SearchResult:
        """Find entries by words and rank at most `most` of them; a work finds what it has written so far."""
        ...

    def turns_that_may_hold(self, session_id: str, covers: Sequence[Sequence[str]]) -> Iterator[str] | None:
        """Name turns, among them every turn whose texts hold at least one part of each cover.

        Parts are folded and printable. None means that nothing narrows the turns down: look at all of them.
        """
        ...

    def agent_ids(self, *, like: str | None = None, limit: int = 1000) -> list[tuple[str, str]]:
        """Return keys of agents that contain `like`, in order, each with the id as it was given."""
        ...

    def tags_of(self, session_id: str) -> list[str]:
        """Return the tags of a session's turns, in order, each once."""
        ...

    def count_files(self, *session_ids: str) -> int:
        """Count the different files that turns of some sessions touched."""
        ...


class TotalsReader(Protocol):
    """Sums over all sessions."""

    def counts(self) -> StoreSize: ...
    def tallies_are_right(self) -> bool:
        """Return True if the tallies are the sums over all sessions."""
        ...

    def tallies(self, where: Filter, by: Iterable[str]) -> list[tuple[TallyKey, Figures]] | None:
        """Return the usage of the sessions of a filter, summed up; None if only the sessions themselves have it.

        `by` names what sums are kept apart by, besides what prices and settings may treat differently; the rest is left
        empty. Tallies follow every `put_session` and `forget_projection`.
        """
        ...


class TotalsWriter(TotalsReader, Protocol):
    """Repairing the sums."""

    def recount(self) -> None:
        """Compute the tallies again from all sessions."""
        ...


class ClientReader(Protocol):
    """Reading what is known of clients: leases and grants, recovery tokens, answers that a repeated call gets again."""

    def lease(self, session_id: str) -> Lease | None: ...
    def leases(self) -> list[Lease]: ...
    def grant(self, session_id: str, client_id: str) -> int | None:
        """Return the fence that a client was last given for a session."""
        ...

    def agent_of(self, client_id: str) -> str | None: ...
    def turn_of(self, session_id: str, client_id: str) -> str | None:
        """Return the turn of a session that a client began or joined last."""
        ...

    def client_of_turn(self, session_id: str, request_id: str) -> str | None:
        """Return the client that began or joined a turn last, while it is in no later one."""
        ...

    def token(self, token_hash: str) -> Token | None: ...
    def answer(self, scope: str, key: str) -> Answer | None: ...
    def outcome(self, client_id: str, call_id: str) -> Body | None: ...
    def pointer(self, workspace: str, agent: str) -> str | None:
        """Return the session that an agent works on in a workspace."""
        ...


class ClientWriter(ClientReader, Protocol):
    """Changing what is known of clients. Putting replaces; removing something absent does nothing."""

    def put_lease(self, lease: Lease) -> None:
        """Store a lease, and its fence as a grant that outlives it."""
        ...

    def end_lease(self, session_id: str) -> None: ...
    def renew_leases(self, client_ids: Iterable[str], expires_at: datetime) -> None: ...
    def put_agent_of(self, client_id: str, agent_key: str, at: datetime) -> None: ...
    def put_turn_of(self, session_id: str, client_id: str, request_id: str, at: datetime) -> None: ...
    def put_token(self, token: Token) -> None: ...
    def revoke_tokens(self, session_id: str, at: datetime) -> None:
        """Revoke the tokens of a session that are neither used nor revoked."""
        ...

    def put_answer(self, scope: str, key: str, answer: Answer) -> None: ...
    def put_outcome(self, client_id: str, call_id: str, outcome: Body, at: datetime) -> None: ...
    def put_pointer(self, workspace: str, agent: str, session_id: str) -> None: ...
    def forget_clients(self, before: datetime) -> None:
        """Forget older grants, turns and agents of clients that hold no lease, and tokens that expired earlier."""
        ...

    def forget_answers(self, *, session_id: str | None = None, before: datetime | None = None) -> None: ...
    def forget_outcomes(self, before: datetime) -> None: ...


class ImportReader(Protocol):
    """Reading what imports know: files that were read, origins of facts, what is kept beside an imported session."""

    def source(self, path: str) -> Source | None:
        """Return a source without the state of its reader."""
        ...

    def source_state(self, path: str) -> bytes | None: ...
    def sources(self) -> list[Source]:
        """Return all sources by path, without the states of their readers."""
        ...

    def origins(self, keys: Iterable[bytes]) -> dict[bytes, Origin]:
        """Return those of the origins that are stored."""
        ...

    def imported(self, session_id: str) -> Body | None: ...
    def project_of(self, path: str) -> str | None: ...
    def paths_of(self, project: str) -> list[str]: ...


class ImportWriter(ImportReader, Protocol):
    """Changing what imports know, in the transaction that stores what they found. Putting replaces."""

    def put_source(self, source: Source) -> None:
        """Store a source; one without a state keeps the state stored before."""
        ...

    def forget_source(self, path: str) -> None: ...
    def put_origins(self, origins: Mapping[bytes, Origin]) -> None:
        """Store origins of sessions that have an entry already."""
        ...

    def put_imported(self, session_id: str, document: Body) -> None: ...
    def put_project_path(self, path: str, project: str) -> None: ...


class KeepingReader(Protocol):
    """Reading what decides how long sessions are kept: legal holds, archives, bytes."""

    def holds(self, *, lifted: bool = False) -> list[Hold]:
        """Return the holds in force, oldest first; with `lifted` also those that were lifted."""
        ...

    def archived(self, session_id: str) -> Archived | None: ...
    def erasable(self, session_id: str) -> list[int]:
        """Return the numbers of a session's entries that have a body and are not notes of an erasure."""
        ...

    def archived_ids(self) -> list[str]: ...
    def bytes_of(self, session_ids: Iterable[str]) -> dict[str, SessionBytes]:
        """Return the bytes of sessions in the store."""
        ...


class KeepingWriter(KeepingReader, Protocol):
    """Changing holds and archives. Putting replaces: a hold is known by what it names and when it was set."""

    def put_hold(self, hold: Hold) -> None: ...
    def put_archived(self, archived: Archived) -> None: ...
    def forget_archived(self, session_id: str) -> None: ...


class Reader(JournalReader, HistoryReader, TotalsReader, ClientReader, ImportReader, KeepingReader, Protocol):
    """Everything that can be read from one consistent state."""


class Writer(JournalWriter, TotalsWriter, ClientWriter, ImportWriter, KeepingWriter, Reader, Protocol):
    """Everything that can be changed in one transaction; a work reads what it has written so far."""


class Store(Protocol):
    """A place that keeps facts."""

    @property
    def fault(self) -> StorageError | None:
        """Return why nothing can be written at present; reading goes on."""
        ...

    @property
    def has_lost_log(self) -> bool:
        """True if the store should be closed and opened anew, because a file of it was deleted."""
        ...

    async def write(self, work: Callable[[Writer], T], *, lasting: bool = True, about: About = NOTHING_KNOWN) -> T:
        """Run work as one transaction: durable when it returns, without a trace when it raises.

        A store may run a work again that met another writer, so a work changes nothing else.
        With `lasting=False` a loss of power may undo it, whole, until `sync` or the next lasting work.
        """
        ...

    async def write_bulk(self, work: Callable[[Writer], T]) -> T:
        """Run a batch of an import as one transaction that is not lasting and lets other works go first."""
        ...

    async def sync(self) -> None:
        """Make everything written so far durable; costs nothing if it already is."""
        ...

    async def read(self, work: Callable[[Reader], T]) -> T:
        """Run work over one consistent state."""
        ...

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *exc_info: object) -> None: ...
