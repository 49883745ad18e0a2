"""Maintenance of the journal: verify chains, rebuild projections, erase bodies."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any, cast

from shiftlog.journal.chain import ChainCheck, check_chain
from shiftlog.journal.erasing import kept_of, with_kept
from shiftlog.journal.journal import Journal, find_session
from shiftlog.journal.keeping.holds import refuse_if_held
from shiftlog.journal.projection import VERSION, apply
from shiftlog.journal.signing.keys import Keys
from shiftlog.journal.texts import facet, search_text
from shiftlog.model.entry import Entry, Kind
from shiftlog.model.errors import InvalidParameter, JournalTampered, SessionNotFound
from shiftlog.model.nouns import Receipt, Session, Turn
from shiftlog.model.times import shown
from shiftlog.store.protocol import Filter, Indexed, Page, Reader, Writer
from shiftlog.store.sources import Packed

_TITLED = frozenset({Kind.SESSION_OPENED, Kind.SESSION_UPDATED})
MOST_SUCCESSORS = 10_000
MOST_NAMED = 5
MOST_AT_ONCE = 50_000


# Names the streams of a command whose kept output is not the one recorded; called in a thread.
ChangedStreams = Callable[[str, Mapping[str, Any]], Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """The outcome of rebuilding one session."""

    session_id: str
    entries: int
    changed: bool


class Maintenance:
    """Verify, rebuild and erase."""

    def __init__(self, journal: Journal, keys: Keys, changed_streams: ChangedStreams) -> None:
        self._journal = journal
        self._keys = keys
        self._changed_streams = changed_streams

    async def session_ids(self, name: str | None = None) -> list[str]:
        """Return the journal id of the session named, or of all sessions that have a journal."""

        def ids(reader: Reader) -> list[str]:
            return reader.session_ids() if name is None else [find_session(reader, name).id]

        return await self._journal.store.read(ids)

    async def verify(self, session_ids: list[str], receipts: list[Receipt] | None = None) -> AsyncIterator[ChainCheck]:
        """Check sessions one by one against their chains, their own receipts and those kept elsewhere."""
        kept = receipts or []
        all_are_ok = True
        for some in await self._journal.store.read(partial(_portions, session_ids)):
            checks = await self._journal.store.read(partial(self._verified, some, kept))
            for found in checks:
                all_are_ok = all_are_ok and found.ok
                yield await self._outputs_checked(found) if found.ok else found
        if all_are_ok and not await self._totals_are_right(session_ids):
            note = "the totals are not the sums of their sessions"
            yield ChainCheck(session_id="totals", entries=0, kind="projection", note=note)
        for receipt in kept:
            if receipt.session_id not in session_ids:
                yield ChainCheck(
                    session_id=receipt.session_id,
                    entries=0,
                    kind="missing",
                    seq=1,
                    note=f"a receipt of {shown(receipt.at)} names this session, and it is not here",
                )

    def _verified(self, session_ids: list[str], kept: list[Receipt], reader: Reader) -> list[ChainCheck]:
        """Check the chains of sessions, then what lists and pages show of the intact ones."""
        entries_of = _LastRead(reader)
        checks: dict[str, ChainCheck] = {}
        different: dict[str, list[str]] = {}
        for session_id in session_ids:
            elsewhere = [receipt for receipt in kept if receipt.session_id == session_id]
            checks[session_id] = self._chain_checked(reader, session_id, entries_of(session_id), elsewhere)
            if checks[session_id].ok:
                different[session_id] = _shown_otherwise(reader, session_id, entries_of(session_id))
        words = reader.word_differences(list(different), lambda session_id: _indexed(entries_of(session_id)))
        for session_id, what in words:
            different[session_id].append(what)
        for session_id, named in different.items():
            if named:
                more = ", and more" if len(named) > MOST_NAMED else ""
                note = f"what is shown differs from the journal in {', '.join(named[:MOST_NAMED])}{more}"
                checks[session_id] = replace(checks[session_id], kind="projection", note=note)
        return list(checks.values())

    def _chain_checked(
        self, reader: Reader, session_id: str, entries: Sequence[Entry], elsewhere: Sequence[Receipt] = ()
    ) -> ChainCheck:
        if reader.archived(session_id) is not None and (reader.head(session_id) or (0,))[0] == 0:
            return ChainCheck(session_id=session_id, entries=0, note="its entries are in an archive")
        receipts = [*reader.receipts(session_id), *elsewhere]
        signed = [receipt for receipt in receipts if self._keys.is_signed(receipt)]
        found = check_chain(session_id, entries, head=reader.head(session_id), receipts=signed)
        forged = [receipt for receipt in receipts if receipt not in signed]
        if found.ok and forged:
            receipt = forged[0]
            note = f"no known key signed the receipt of {shown(receipt.at)} (key {receipt.key_id})"
            return replace(found, kind="signature", seq=receipt.seq, note=note)
        return found

    async def _totals_are_right(self, session_ids: list[str]) -> bool:
        """Return True if the totals are the sums of all sessions; they are checked only together with all of them."""
        if not set(session_ids) >= set(await self.session_ids()):
            return True
        return await self._journal.store.read(lambda reader: reader.tallies_are_right())

    async def _outputs_checked(self, found: ChainCheck) -> ChainCheck:
        """Compare the kept outputs of a session's commands with the digests in its journal."""
        finished = await self._journal.store.read(
            lambda reader: reader.entries(found.session_id, kinds=(Kind.COMMAND_FINISHED,))
        )
        for entry in finished:
            command_id, recorded = entry.facts.get("command_id"), entry.facts.get("output")
            if not isinstance(command_id, str) or not isinstance(recorded, dict):
                continue
            changed = await asyncio.to_thread(self._changed_streams, command_id, cast("dict[str, Any]", recorded))
            if changed:
                note = f"the kept {' and '.join(changed)} of command {command_id} is not what it wrote"
                return replace(found, kind="output", seq=entry.seq, note=note)
        return found

    def restore(self, writer: Writer, session_id: str, entries: Sequence[Packed]) -> None:
        """Append the entries of an archived session again, and compute its projection."""
        writer.append(session_id, entries)
        self._rebuilt(writer, session_id)
        writer.forget_archived(session_id)

    async def rebuild(self, session_ids: list[str]) -> AsyncIterator[Rebuilt]:
        """Recompute sessions from their entries, one transaction each; refuse a chain that does not verify.

        With all sessions of the store the tallies are made anew as well.
        """
        for session_id in session_ids:
            yield await self._journal.store.write(
                lambda writer, session_id=session_id: self._rebuilt(writer, session_id)
            )
        if set(session_ids) >= set(await self.session_ids()):
            await self._journal.store.write(lambda writer: writer.recount())

    async def bring_up_to_date(self) -> None:
        """Rebuild every session if an older or newer version computed the projections; skip those that do not verify.

        A session that cannot be rebuilt is named in the error, after all others are done.
        """
        store = self._journal.store
        if await store.read(lambda reader: reader.projection_version()) >= VERSION:
            return
        refused: JournalTampered | None = None
        for session_id in await self.session_ids():
            try:
                await store.write(lambda writer, session_id=session_id: self._rebuilt(writer, session_id))
            except JournalTampered as error:
                refused = error
        await store.write(lambda writer: writer.recount())
        await store.write(lambda writer: writer.put_projection_version(VERSION))
        if refused is not None:
            raise refused

    def _rebuilt(self, writer: Writer, session_id: str) -> Rebuilt:
        entries = writer.entries(session_id)
        found = self._chain_checked(writer, session_id, entries)
        if not found.ok:
            raise JournalTampered(
                "Journal verification failed",
                details={"session_id": session_id, "first_bad_seq": found.seq, "kind": found.kind},
            )
        session, turns = fold(session_id, entries)
        if session is None:
            raise SessionNotFound(f"Session not found: {session_id}", details={"session_id": session_id})
        changed = next(writer.differences(session, turns, _indexed(entries)), None) is not None
        writer.forget_projection(session_id)
        writer.put_session(session)
        for turn in turns.values():
            writer.put_turn(session_id, turn)
        writer.reindex(session_id, list(_indexed(entries)))
        return Rebuilt(session_id=session_id, entries=len(entries), changed=changed)

    async def commands(self, session_name: str, seqs: list[int]) -> list[str]:
        """Return the ids of the commands in some entries; raises for an entry that cannot be erased."""

        def ids(reader: Reader) -> list[str]:
            session = find_session(reader, session_name)
            refuse_if_held(reader, session)
            named = [_erasable(reader, session, seq).facts.get("command_id") for seq in seqs]
            return list(dict.fromkeys(name for name in named if isinstance(name, str)))

        return await self._journal.store.read(ids)

    async def erase(self, session_name: str, seqs: list[int], reason: str) -> dict[str, Any]:
        """Erase the bodies of entries: the chain still verifies, and an entry says what was erased and why."""
        return await self._journal.store.write(lambda writer: self._erased(writer, session_name, seqs, reason))

    def _erased(self, writer: Writer, session_name: str, seqs: list[int], reason: str) -> dict[str, Any]:
        session = find_session(writer, session_name)
        wanted = sorted(set(seqs))
        present = [entry for entry in map(partial(_erasable, writer, session), wanted) if entry.body is not None]
        erased: list[int] = []
        elsewhere: dict[str, list[int]] = {}
        head = (session.head_seq, session.head_hash)
        if present:
            # Capsules repeat earlier entries, so they are erased too.
            capsules = writer.entries(session.id, after=present[0].seq, kinds=(Kind.CAPSULE_SAVED,))
            repeated = [entry for entry in capsules if entry.body is not None and entry not in present]
            erased, head = self._without(writer, session, [*present, *repeated], reason)
            for heir, handed in list(_handed_on(writer, session, min(entry.at for entry in present))):
                elsewhere[heir.id], _ = self._without(writer, heir, handed, reason)
            if any(entry.kind in _TITLED for entry in present):
                # Answers about other sessions may repeat this one's title.
                writer.forget_answers(before=self._journal.clock.now() + timedelta(seconds=1))
        whole = self._chain_checked(writer, session.id, writer.entries(session.id))
        return {
            "session_id": session.id,
            "erased": erased,
            "already_erased": [seq for seq in wanted if seq not in erased],
            "elsewhere": elsewhere,
            "chain": "verified" if whole.ok else "broken",
            "seq": head[0],
            "hash": head[1],
        }

    def _without(
        self, writer: Writer, session: Session, entries: list[Entry], reason: str
    ) -> tuple[list[int], tuple[int, str | None]]:
        """Erase the bodies of entries of one session and note it there; return their numbers and the new head."""
        refuse_if_held(writer, session)
        erased = sorted(entry.seq for entry in entries)
        pen = self._journal.pen(writer, session.id, session)
        for seq in erased:
            writer.erase_body(session.id, seq)
        note = {"entries": erased, "reason": self._journal.masked_text(reason), "kept": kept_of(entries)}
        pen.write(Kind.ERASED, {name: value for name, value in note.items() if value})
        pen.commit(writer)
        writer.forget_answers(session_id=session.id)
        self._rebuilt(writer, session.id)
        return erased, (pen.session.head_seq, pen.session.head_hash)


def _portions(session_ids: list[str], reader: Reader) -> list[list[str]]:
    """Split sessions into portions that are verified at once."""
    portions: list[list[str]] = []
    room = 0
    for session_id in session_ids:
        entries, _ = reader.head(session_id) or (0, "")
        if room <= 0:
            portions.append([])
            room = MOST_AT_ONCE
        portions[-1].append(session_id)
        room -= entries
    return portions


class _LastRead:
    """Reads the entries of sessions and keeps those of the last one, which are often read again."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._session_id: str | None = None
        self._entries: list[Entry] = []

    def __call__(self, session_id: str) -> list[Entry]:
        if session_id != self._session_id:
            self._session_id, self._entries = session_id, []
            self._entries = self._reader.entries(session_id)
        return self._entries


def _shown_otherwise(reader: Reader, session_id: str, entries: list[Entry]) -> list[str]:
    """Name the differences between what lists and pages show of a session and what its entries add up to."""
    session, turns = fold(session_id, entries)
    if session is None:
        return []
    return list(islice(reader.differences(session, turns, _indexed(entries)), MOST_NAMED + 1))


def _indexed(entries: Iterable[Entry]) -> Iterator[Indexed]:
    """Yield the entries that have a body with what they are found by."""
    for entry in entries:
        if entry.body is not None:
            text = search_text(entry.kind, entry.body)
            yield Indexed(entry=entry, text=text, facet=facet(entry.kind, entry.body))


def _handed_on(reader: Reader, session: Session, since: datetime) -> Iterator[tuple[Session, list[Entry]]]:
    """Yield the sessions that continue one since a time, each with its capsules, which may repeat its words."""
    handing = [session.id]
    while handing:
        predecessor_id = handing.pop()
        for hidden in (False, True):
            where = Filter(predecessor_id=predecessor_id, hidden=hidden)
            for row in reader.find_sessions(where, Page(limit=MOST_SUCCESSORS)):
                heir = row.session
                if heir.started < since:
                    continue
                saved = reader.entries(heir.id, kinds=(Kind.CAPSULE_SAVED,))
                if capsules := [entry for entry in saved if "capsule" in entry.facts]:
                    yield heir, capsules
                handing.append(heir.id)


def _erasable(reader: Reader, session: Session, seq: int) -> Entry:
    found = reader.entries(session.id, after=seq - 1, until=seq) if 0 < seq <= session.head_seq else []
    if not found:
        raise InvalidParameter.invalid("entry", f"session {session.id} has no entry {seq}", seq)
    if found[0].kind is Kind.ERASED:
        raise InvalidParameter.invalid("entry", f"entry {seq} is itself the note of an erasure", seq)
    return found[0]


def fold(session_id: str, entries: list[Entry]) -> tuple[Session | None, dict[str, Turn]]:
    """Return the session and turns that entries add up to."""
    session: Session | None = None
    turns: dict[str, Turn] = {}
    for entry in with_kept(entries):
        session, turn = apply(session, turns.get(entry.turn) if entry.turn else None, entry, session_id)
        if entry.turn is not None and turn is not None:
            turns[entry.turn] = turn
        elif entry.turn is not None:
            turns.pop(entry.turn, None)
    return session, turns
