"""Sessions, turns, entries and leases for the tests of stores: real nouns with short defaults."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from shiftlog.facts.batch import LongText
from shiftlog.model.canonical import body_hash, canonical, entry_hash, first_prev_hash
from shiftlog.model.entry import Body, Entry, Kind
from shiftlog.model.moves import RunStatus, SessionState, TurnStatus
from shiftlog.model.nouns import FileTouch, Lease, Receipt, Run, Session, Turn
from shiftlog.model.times import precise
from shiftlog.store.codec import blobs
from shiftlog.store.protocol import Store, Writer
from shiftlog.store.sources import Packed

START = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)


def at(minutes: float) -> datetime:
    """Return a time so many minutes after the start of every test's day."""
    return START + timedelta(minutes=minutes)


def session_id(name: str) -> str:
    """Return a well-formed session id that ends with a name."""
    return f"ClaudeCode-20260301T090000Z-{name}"


def request_id(n: int) -> str:
    """Return the well-formed request id of a session's nth turn."""
    return f"req-20260301T090000Z-{n:04d}"


def session(name: str = "one", **facts: Any) -> Session:
    """Return an open session; any field can be given."""
    agent_id = str(facts.get("agent_id", "claude-main"))
    base = Session(
        id=session_id(name),
        agent="ClaudeCode",
        agent_id=agent_id,
        agent_key=agent_id.casefold(),
        title=f"Session {name}",
        state=SessionState.OPEN,
        started=START,
        last_activity=START,
    )
    return replace(base, **facts)


def run(alias: int, **facts: Any) -> Run:
    """Return a running run."""
    return replace(Run(alias=alias, status=RunStatus.RUNNING, started=START), **facts)


def turn(n: int = 1, **facts: Any) -> Turn:
    """Return the nth turn of a session, begun n minutes after the start by the nth entry."""
    base = Turn(
        request_id=request_id(n),
        ordinal=n,
        status=TurnStatus.IN_PROGRESS,
        begun_at=at(n),
        last_updated=at(n),
        query_title=f"Turn {n}",
        query_text=f"Do number {n}",
        begun_seq=n,
        last_seq=n,
    )
    return replace(base, **facts)


def touch(changes: int = 1, last_type: str = "edit", seq: int = 1) -> FileTouch:
    """Return what a turn did to one file."""
    return FileTouch(changes=changes, last_type=last_type, seq=seq)


def lease(name: str = "one", **facts: Any) -> Lease:
    """Return a lease of the client `client-1` with fence 1."""
    base = Lease(
        session_id=session_id(name),
        fence=1,
        client_id="client-1",
        agent_id="claude-main",
        agent_key="claude-main",
        face="mcp",
        host="laptop",
        pid=4711,
        pid_started="12345",
        since=START,
        expires_at=at(2),
    )
    return replace(base, **facts)


def receipt(name: str = "one", seq: int = 1) -> Receipt:
    """Return a receipt for an entry of a session."""
    return Receipt(
        session_id=session_id(name),
        seq=seq,
        head_hash=f"sha256:{seq:064x}",
        at=at(seq),
        key_id="0123456789abcdef",
        signature="c2lnbmVk",
    )


def chained(
    kind: Kind,
    body: Body,
    turn: str | None,
    *,
    seq: int,
    prev_hash: str,
    when: datetime,
    salt: bytes | None = None,
) -> Entry:
    """Return an entry in its place of the chain."""
    salt = salt or os.urandom(16)
    hashed = body_hash(salt, canonical(body))
    digest = entry_hash(prev_hash, seq=seq, kind=kind, at=precise(when), turn=turn, hash_of_body=hashed)
    return Entry(seq=seq, kind=kind, at=when, turn=turn, body=body, salt=salt, body_hash=hashed, hash=digest)


def packed(entry: Entry, text: str = "", facet: str | None = None) -> Packed:
    """Return an entry as it is appended, its body plain."""
    texts: dict[bytes, str] = {}
    body = blobs.externalise(entry.body, texts.__setitem__)
    return Packed(
        seq=entry.seq,
        kind=str(entry.kind),
        at=precise(entry.at),
        turn=entry.turn,
        facet=facet,
        document=None if body is None else msgspec.json.encode(body),
        salt=entry.salt,
        body_hash=bytes.fromhex(entry.body_hash[7:]),
        hash=bytes.fromhex(entry.hash[7:]),
        text=text,
        long_texts=tuple(LongText(digest, len(long), blobs.pack(long)) for digest, long in texts.items()),
    )


@dataclass(slots=True)
class Chain:
    """Makes the entries of one session, each chained to the one before."""

    name: str = "one"
    seq: int = 0
    hash: str = ""
    made: list[Entry] = field(default_factory=list[Entry])

    def entry(
        self,
        text: str = "",
        *,
        kind: Kind = Kind.DIALOG,
        turn: str | None = None,
        body: Body | None = None,
        when: datetime | None = None,
    ) -> Entry:
        """Return the next entry; its body holds the text unless another is given."""
        made = chained(
            kind,
            {"role": "user", "content": text} if body is None else body,
            turn,
            seq=self.seq + 1,
            prev_hash=self.hash or first_prev_hash(session_id(self.name)),
            when=at(self.seq) if when is None else when,
        )
        self.seq, self.hash = made.seq, made.hash
        self.made.append(made)
        return made

    def indexed(self, text: str = "", *, facet: str | None = None, **facts: Any) -> Packed:
        """Return the next entry as it is appended, found by its text."""
        return packed(self.entry(text, **facts), text, facet)


def put(
    writer: Writer,
    *texts: str,
    of: Session | None = None,
    turns: Sequence[Turn] = (),
    chain: Chain | None = None,
) -> Chain:
    """Store a session with one entry a text and the given turns; return its chain, to go on with."""
    owner = session() if of is None else of
    chain = Chain(owner.id.removeprefix(session_id(""))) if chain is None else chain
    writer.append(owner.id, [chain.indexed(text) for text in texts or ("hello",)])
    writer.put_session(replace(owner, head_seq=chain.seq, head_hash=chain.hash))
    for item in turns:
        writer.put_turn(owner.id, item)
    return chain


async def stored(store: Store, *texts: str, of: Session | None = None, turns: Sequence[Turn] = ()) -> Chain:
    """Do what `put` does in a transaction of its own."""
    return await store.write(lambda writer: put(writer, *texts, of=of, turns=turns))


def erased(entry: Entry) -> Entry:
    """Return an entry without its body and salt."""
    return replace(entry, body=None, salt=None)
