"""Looking up the facts that the works of a transaction need, all at once, and nouns kept from earlier transactions.

A session and its turns follow from its entries. So what an earlier transaction has stored is still so if the head of
the chain is the same, which is read again with the lock on it.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from shiftlog.model.nouns import Lease, Session, Turn
from shiftlog.store.codec.documents import decode_noun
from shiftlog.store.postgres.connections import PendingDatabase
from shiftlog.store.postgres.pending import Pending
from shiftlog.store.protocol import About

# Stored documents of so many bytes are kept: of one session, and of all.
MOST_OF_A_SESSION = 1_000_000
MOST_BYTES = 32_000_000
_SESSION_BYTES = 4_000
# Of sessions and clients, in one statement: each costs the writer about as much as an entry.
_FACTS = (
    "SELECT 'session', id, NULL, NULL, doc FROM sessions WHERE id = ANY (?)"
    " UNION ALL SELECT 'lease', session_id, NULL, NULL, doc FROM leases WHERE session_id = ANY (?)"
    " UNION ALL SELECT 'grant', session_id, client_id, fence::text, NULL FROM grants WHERE session_id = ANY (?)"
    " UNION ALL SELECT 'turn', session_id, client_id, request_id, NULL FROM client_turns WHERE session_id = ANY (?)"
    " UNION ALL SELECT 'agent', NULL, client_id, agent_key, NULL FROM client_agents WHERE client_id = ANY (?)"
)


@dataclass(slots=True)
class _Kept:
    """A session as a transaction left it."""

    head: tuple[int, bytes]
    session: Session
    turns: dict[str, Turn] = field(default_factory=dict[str, Turn])
    size: int = _SESSION_BYTES


class KeptNouns:
    """Sessions and turns that this process stored last; used by one work at a time."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._size = 0

    def __contains__(self, session_id: object) -> bool:
        return session_id in self._kept

    def give(self, session_id: str, head: tuple[int, bytes], pending: Pending) -> None:
        """Hand a session whose head is still the same to a transaction; forget one that has changed."""
        kept = self._kept.get(session_id)
        if kept is None:
            return
        if kept.head != head:
            self._forget(session_id)
            return
        pending.recent.sessions[session_id] = kept.session
        for request_id, turn in kept.turns.items():
            pending.recent.turns[session_id, request_id] = turn

    def take(self, pending: Pending) -> None:
        """Keep the sessions and turns as a transaction left them."""
        recent = pending.recent
        turns: dict[str, dict[str, Turn]] = {}
        for (session_id, request_id), turn in recent.turns.items():
            if turn is not None:
                turns.setdefault(session_id, {})[request_id] = turn
        for session_id, key in recent.keys.items():
            before = self._kept.pop(session_id, None)
            self._size -= before.size if before else 0
            size = (before.size if before else _SESSION_BYTES) + pending.sizes[key]
            head, session = pending.heads.get(session_id), recent.sessions.get(session_id)
            if head is not None and session is not None and size <= MOST_OF_A_SESSION:
                self._kept[session_id] = _Kept(head, session, turns.get(session_id, {}), size)
                self._size += size
        while self._size > MOST_BYTES:
            self._forget(next(iter(self._kept)))

    def _forget(self, session_id: str) -> None:
        self._size -= self._kept.pop(session_id).size


def look_up(db: PendingDatabase, pending: Pending, kept: KeptNouns, abouts: Iterable[About]) -> None:
    """Lock the sessions that works are about, in one order, and read what all of them ask first."""
    wanted = list(abouts)
    names = sorted({about.session_id for about in wanted if about.session_id is not None})
    clients = sorted({about.client_id for about in wanted if about.client_id is not None})
    if names:
        locked = db.stored(
            "SELECT id, key, head_seq, head_hash FROM journals WHERE id = ANY (?) ORDER BY key FOR NO KEY UPDATE", names
        )
        # Each statement sees what is committed when it begins: this one sees all that the lock waited for.
        found = db.stored(_FACTS, [name for name in names if name not in kept], names, names, names, clients)
        for session_id, key, seq, digest in locked.fetchall():
            pending.recent.keys[session_id] = key
            pending.heads[session_id] = head = int(seq), bytes(digest)
            kept.give(session_id, head, pending)
        _take(pending, names, found.fetchall())
    elif clients:
        _take(pending, (), db.stored(_FACTS, [], [], [], [], clients).fetchall())
    pending.known.agents.update((name, None) for name in clients if name not in pending.known.agents)


def _take(pending: Pending, names: Iterable[str], found: Iterable[tuple[Any, ...]]) -> None:
    """Note the found facts, and that these sessions have no others."""
    known = pending.known
    for name in names:
        known.leases[name], known.grants[name], known.turns[name] = None, {}, {}
    for what, name, client_id, value, doc in found:
        match what:
            case "session":
                pending.recent.sessions[name] = decode_noun(doc, Session)
            case "lease":
                known.leases[name] = decode_noun(doc, Lease)
            case "grant":
                known.grants[name][client_id] = int(value)
            case "turn":
                known.turns[name][client_id] = value
            case _:
                known.agents[client_id] = value
