"""Reading the in-memory store: the `Reader` half, by looking at everything there is."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import TypeVar

from shiftlog.model.entry import Body, Entry, Kind
from shiftlog.model.nouns import Lease, Receipt, Session, Token, Turn
from shiftlog.model.search import Expr, line_of, matches, needle, positive_terms, tokens
from shiftlog.model.times import millis
from shiftlog.store.protocol import (
    Answer,
    Counts,
    EntryRow,
    FileRow,
    Filter,
    Found,
    Hit,
    Indexed,
    Page,
    SessionRow,
    TurnRow,
    Unit,
)
from shiftlog.store.sources import Origin, Source
from shiftlog.store.tallies import Figures, Kin, Tallies, only, tallies_of
from shiftlog.store.tallies_asked import days_asked
from tests.contract.model_store.filters import (
    all_tags,
    entry_matches,
    is_in_span,
    is_touched_in_span,
    path_matches,
    session_alone_matches,
    session_matches,
    turn_matches,
)
from tests.contract.model_store.shelves import Shelf, Shelves

Row = TypeVar("Row", SessionRow, TurnRow, FileRow, EntryRow)


class MemoryReader:
    """The questions that the store answers."""

    def __init__(self, shelves: Shelves) -> None:
        self._shelves = shelves

    # Single things

    def session(self, session_id: str) -> Session | None:
        shelf = self._shelves.sessions.get(session_id)
        return shelf.session if shelf else None

    def session_id_of_alias(self, alias: int) -> str | None:
        for shelf in self._shelves.sessions.values():
            if shelf.session and shelf.session.run and shelf.session.run.alias == alias:
                return shelf.id
        return None

    def session_ids_of_vendor(self, vendor_session_id: str) -> list[str]:
        wanted = vendor_session_id.lower()
        return [
            shelf.id
            for shelf, session in self._shelves.listed()
            if session.vendor_session_id and session.vendor_session_id.lower() == wanted
        ]

    def session_ids(self) -> list[str]:
        return list(self._shelves.sessions)

    def head(self, session_id: str) -> tuple[int, str] | None:
        shelf = self._shelves.sessions.get(session_id)
        return (len(shelf.lines), shelf.lines[-1].entry.hash) if shelf else None

    def turn(self, session_id: str, request_id: str) -> Turn | None:
        shelf = self._shelves.sessions.get(session_id)
        return shelf.turns.get(request_id) if shelf else None

    def turns(self, session_id: str, *, after: int = 0, limit: int | None = None) -> list[Turn]:
        shelf = self._shelves.sessions.get(session_id)
        found = [turn for turn in shelf.turns.values() if turn.ordinal > after] if shelf else []
        return sorted(found, key=attrgetter("ordinal"))[:limit]

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
        shelf = self._shelves.sessions.get(session_id)
        if shelf is None:
            return []
        wanted = None if kinds is None else frozenset(kinds)
        last = len(shelf.lines) if until is None else max(until, 0)
        found = [
            line.entry
            for line in shelf.lines[max(after, 0) : last]
            if (turn is None or line.entry.turn == turn) and (wanted is None or line.entry.kind in wanted)
        ]
        return found[:limit]

    # Lists

    def find_sessions(self, where: Filter, page: Page, *, by_activity: bool = False) -> list[SessionRow]:
        return _page(
            page,
            (
                SessionRow(
                    session=session,
                    at=(millis(session.last_activity if by_activity else session.started), shelf.key),
                )
                for shelf, session in self._sessions(where)
            ),
        )

    def find_turns(self, where: Filter, page: Page) -> list[TurnRow]:
        return _page(
            page,
            (
                TurnRow(session=session, turn=turn, at=(millis(turn.begun_at), shelf.place(turn.begun_seq)))
                for shelf, session, turn in self._turns(where)
            ),
        )

    def find_files(self, where: Filter, page: Page) -> list[FileRow]:
        return _page(
            page,
            (
                FileRow(
                    session_id=shelf.id,
                    request_id=turn.request_id,
                    path=path,
                    touch=touch,
                    touched=touched,
                    at=(shelf.place(turn.begun_seq), place),
                )
                for shelf, session, turn in self._turns(where)
                for place, (path, touch) in enumerate(turn.files.items())
                for touched in [shelf.lines[touch.seq - 1].entry.at if 0 < touch.seq <= len(shelf.lines) else None]
                if path_matches(path, where, session.workspace) and is_touched_in_span(touched, touch.changes, where)
            ),
        )

    def find_entries(self, where: Filter, page: Page, facets: Iterable[str] | None) -> list[EntryRow]:
        return _page(
            page,
            (
                EntryRow(session_id=shelf.id, entry=line.entry, at=(shelf.place(line.entry.seq), 0))
                for shelf, line in self._lines(where, facets)
            ),
        )

    def count(self, what: str, where: Filter, facets: Iterable[str] | None = None) -> int:
        everything = Page(limit=2**63)
        match what:
            case "session":
                return len(self.find_sessions(where, everything))
            case "turn":
                return len(self.find_turns(where, everything))
            case "file":
                return len(self.find_files(where, everything))
            case _:
                return sum(1 for _ in self._lines(where, facets))

    def _sessions(self, where: Filter) -> Iterator[tuple[Shelf, Session]]:
        for shelf, session in self._shelves.listed(hidden=where.hidden):
            if session_matches(self._shelves, shelf, session, where):
                yield shelf, session

    def _turns(self, where: Filter) -> Iterator[tuple[Shelf, Session, Turn]]:
        for shelf, session in self._shelves.listed():
            turns = list(shelf.turns.values())
            if session_alone_matches(session, where, turns):
                for turn in turns:
                    if turn_matches(turn, where, session.workspace):
                        yield shelf, session, turn

    def _lines(
        self, where: Filter, facets: Iterable[str] | None, *, by_itself: bool = True
    ) -> Iterator[tuple[Shelf, Indexed]]:
        """Yield the entries of matching sessions; `by_itself` only those that match by their time and turn too."""
        wanted = None if facets is None else frozenset(facets)
        for shelf, session in self._sessions(where):
            for line in shelf.lines:
                at, turn = line.entry.at, line.entry.turn
                fits = not by_itself or (is_in_span(at, at, where) and entry_matches(shelf, session, turn, where))
                if fits and (wanted is None or line.facet in wanted):
                    yield shelf, line

    # Search

    def search(
        self,
        expr: Expr,
        where: Filter,
        *,
        unit: Unit,
        limit: int,
        most: int,
        facets: Iterable[str] | None = None,
    ) -> Found:
        matching = [
            (shelf, line)
            for shelf, line in self._lines(where, facets, by_itself=unit == "entry")
            if line.text and (unit != "turn" or line.entry.turn is not None) and matches(expr, line.text)
        ]
        best: dict[object, tuple[float, int, Hit]] = {}
        for shelf, line in matching[-most:]:
            hit = Hit(session_id=shelf.id, seq=line.entry.seq, turn=line.entry.turn, score=_score(expr, line.text))
            place = shelf.place(hit.seq)
            group = {"entry": place, "turn": (shelf.key, hit.turn), "session": shelf.key}[unit]
            ranked = (hit.score, place, hit)
            best[group] = max(best.get(group, ranked), ranked, key=lambda rank: rank[:2])
        hits = [hit for _, _, hit in sorted(best.values(), key=lambda rank: rank[:2], reverse=True)]
        return Found(hits=hits[:limit], total=len(hits), complete=len(matching) <= most)

    def agent_ids(self, *, like: str | None = None, limit: int = 1000) -> list[tuple[str, str]]:
        known: dict[str, str] = {}
        for _, session in self._shelves.listed():
            if (like or "") in session.agent_key:
                known[session.agent_key] = min(known.get(session.agent_key, session.agent_id), session.agent_id)
        return sorted(known.items())[:limit]

    # Leases, answers, receipts

    def lease(self, session_id: str) -> Lease | None:
        return self._shelves.leases.get(session_id)

    def leases(self) -> list[Lease]:
        return sorted(self._shelves.leases.values(), key=attrgetter("session_id"))

    def grant(self, session_id: str, client_id: str) -> int | None:
        granted = self._shelves.grants.get((session_id, client_id))
        return granted[0] if granted else None

    def agent_of(self, client_id: str) -> str | None:
        known = self._shelves.agents.get(client_id)
        return known[0] if known else None

    def token(self, token_hash: str) -> Token | None:
        return self._shelves.tokens.get(token_hash)

    def answer(self, scope: str, key: str) -> Answer | None:
        return self._shelves.answers.get((scope, key))

    def outcome(self, client_id: str, call_id: str) -> Body | None:
        _, outcome = self._shelves.outcomes.get((client_id, call_id), (None, None))
        return outcome

    def receipts(self, session_id: str) -> list[Receipt]:
        found = [receipt for receipt in self._shelves.receipts.values() if receipt.session_id == session_id]
        return sorted(found, key=attrgetter("seq"))

    def counts(self) -> Counts:
        shelves = self._shelves.sessions.values()
        return Counts(
            sessions=len(shelves),
            turns=sum(len(shelf.turns) for shelf in shelves),
            entries=sum(len(shelf.lines) for shelf in shelves),
            bytes=0,
            schema=0,
        )

    # The session log's history

    def pointer(self, workspace: str, agent: str) -> str | None:
        return self._shelves.pointers.get((workspace, agent))

    def recent_sessions(self, where: Filter, *, offset: int, limit: int) -> list[Session]:
        found = [session for _, session in self._sessions(where)]
        found.sort(key=lambda session: (-(millis(session.last_activity) // 1000), session.id))
        return found[offset : offset + limit]

    def tags_of(self, session_id: str) -> list[str]:
        shelf = self._shelves.sessions.get(session_id)
        return sorted({tag for turn in shelf.turns.values() for tag in all_tags(turn)}) if shelf else []

    def count_files(self, *session_ids: str) -> int:
        found = (self._shelves.sessions.get(name) for name in session_ids)
        return len({path for shelf in found if shelf for turn in shelf.turns.values() for path in turn.files})

    def turns_that_may_hold(
        self, session_id: str, covers: Sequence[Sequence[str]], rules_out: Callable[[str], bool] | None = None
    ) -> Iterator[str] | None:
        return iter([turn.request_id for turn in self.turns(session_id)])

    def lacks_parts(self, session_id: str) -> bool:
        return False

    def tallies(self, where: Filter, by: Iterable[str]) -> list[tuple[Kin, Figures]] | None:
        days = days_asked(where)
        if days is None:
            return None
        sums: Tallies = {}
        asked = frozenset(by)
        for _, session in self._sessions(replace(where, started_from=None)):
            for kin, figures in tallies_of(session).items():
                if not days[0] <= kin.day <= days[1]:
                    continue
                kept = only(kin, asked)
                sums[kept] = sums[kept].plus(figures) if kept in sums else figures
        return list(sums.items())

    # What imports ask

    def source(self, path: str) -> Source | None:
        return self._shelves.sources.get(path)

    def sources(self) -> list[Source]:
        return [replace(source, state=b"") for _, source in sorted(self._shelves.sources.items())]

    def origins(self, keys: Iterable[bytes]) -> dict[bytes, Origin]:
        known = self._shelves.origins
        return {key: known[key] for key in keys if key in known}

    def imported(self, session_id: str) -> Body | None:
        return self._shelves.imported.get(session_id)

    def project_of(self, path: str) -> str | None:
        return self._shelves.project_paths.get(path)

    def paths_of(self, project: str) -> list[str]:
        return sorted(path for path, known in self._shelves.project_paths.items() if known == project)


def _page(page: Page, rows: Iterable[Row]) -> list[Row]:
    """Return the newest rows after the page's position."""
    found = [row for row in rows if page.after is None or row.at < page.after]
    return sorted(found, key=attrgetter("at"), reverse=True)[: page.limit]


def _score(expr: Expr, text: str) -> float:
    """Return how often the words that are asked for stand in a text, as a share of it."""
    words = [word for word, _, _ in tokens(text)]
    line = line_of(words)
    return sum(line.count(needle(term)) for term in positive_terms(expr)) / max(len(words), 1)
