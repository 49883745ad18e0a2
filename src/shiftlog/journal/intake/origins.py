"""The memory of imports in the store: the owner of each fact by key, and small documents by name; cached per batch."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from shiftlog.facts.batch import origin_key
from shiftlog.model.entry import Entry
from shiftlog.model.nouns import Session, Turn
from shiftlog.store.protocol import Reader, Writer
from shiftlog.store.sources import Origin

Document = dict[str, Any]
_LONGEST_CHAIN = 64


def turn_by_any_id(reader: Reader, session: Session, turn: str) -> Turn | None:
    """Return a turn by its own id, or by the one that a transcript has for it."""
    found = reader.turn(session.id, turn)
    if found is None:
        key = origin_key(session.agent, _mapping(session.id, turn))
        origin = reader.origins([key]).get(key)
        found = reader.turn(session.id, origin.turn) if origin is not None and origin.turn else None
    return found


def _mapping(session_id: str, turn: str) -> str:
    return f"map:{session_id}:{turn}"


class Origins:
    """Origins by key, as the store has them and as this batch changes them."""

    def __init__(self, writer: Writer, agent: str) -> None:
        self._writer = writer
        self._agent = agent
        self._keys: dict[str, bytes] = {}
        self._known: dict[bytes, Origin | None] = {}
        self._changed: dict[bytes, Origin] = {}
        self._turns: dict[tuple[str, str], str | None] = {}
        self._plain: dict[str, Origin] = {}
        self._opened: set[str] = set()

    def load(self, keys: Iterable[bytes], names: Iterable[str]) -> None:
        """Read many origins at once."""
        wanted = [*keys, *map(self._key, names)]
        self._known.update(dict.fromkeys(wanted))
        self._known.update(self._writer.origins(wanted))

    def flush(self) -> None:
        """Store what changed."""
        if self._changed:
            self._writer.put_origins(self._changed)
            self._changed = {}

    def _key(self, name: str) -> bytes:
        key = self._keys.get(name)
        if key is None:
            key = self._keys[name] = origin_key(self._agent, name)
        return key

    def _find(self, key: bytes) -> Origin | None:
        found = self._known.get(key, self)
        if isinstance(found, Origins):
            found = self._known[key] = self._writer.origins([key]).get(key)
        return found

    def origin(self, name: str | bytes) -> Origin | None:
        """Return the origin of a name or key."""
        return self._find(name if isinstance(name, bytes) else self._key(name))

    def put(self, name: str | bytes, origin: Origin) -> None:
        """Set the origin of a name or key."""
        key = name if isinstance(name, bytes) else self._key(name)
        self._known[key] = self._changed[key] = origin

    def document(self, name: str) -> Document | None:
        """Return the document kept under a name."""
        origin = self.origin(name)
        return origin.doc if origin else None

    def keep(self, name: str, session_id: str, document: Document) -> None:
        """Keep a document under a name."""
        self.put(name, Origin(session_id=session_id, doc=document))

    def entry(self, session_id: str, seq: int) -> Entry | None:
        """Return an entry that was stored before this batch."""
        return next(iter(self._writer.entries(session_id, after=seq - 1, until=seq)), None)

    def owner(self, key: bytes, aliases: Sequence[bytes]) -> Origin | None:
        """Return the owner of a fact, found by its key or one of its aliases."""
        found = self._find(key)
        if found is None:
            for alias in aliases:
                found = self._find(alias)
                if found is not None:
                    break
        return found

    def own(self, key: bytes, aliases: Sequence[bytes], session_id: str, turn: str | None) -> None:
        """Make a session the owner of a fact under all its keys without an owner."""
        origin = self._plain.get(session_id) if turn is None else Origin(session_id=session_id, turn=turn)
        if origin is None:
            origin = self._plain[session_id] = Origin(session_id=session_id)
        if not aliases and self._known.get(key, origin) is None:
            self._known[key] = self._changed[key] = origin
            return
        for each in (key, *aliases):
            if self._find(each) is None:
                self._known[each] = self._changed[each] = origin

    def moved(self, former: bytes, key: bytes, session_id: str) -> Origin | None:
        """Return the owner of a fact under the key that an earlier release had for it; it moves to its key of today."""
        origin = self.origin(former)
        if origin is None or origin.session_id != session_id or (origin.doc or {}).get("moved"):
            return None
        self.put(former, replace(origin, doc={"moved": True}))
        self.put(key, origin)
        return origin

    # Turns under other names

    def open_session(self, session_id: str) -> None:
        """Remember that a session is new: none of its turns is mapped yet."""
        self._opened.add(session_id)

    def load_turns(self, places: Iterable[tuple[str, str]]) -> None:
        """Read at once to which turns of the journal those of the vendor were mapped, as sessions and turns."""
        names = {place: _mapping(*place) for place in places if place[0] not in self._opened}
        self.load((), names.values())
        for place, name in names.items():
            origin = self.origin(name)
            self._turns[place] = origin.turn if origin else None

    def turn_in(self, session_id: str, turn: str) -> str | None:
        """Return the turn of the journal that a vendor's turn was mapped to."""
        place = (session_id, turn)
        if place not in self._turns:
            origin = None if session_id in self._opened else self.origin(_mapping(session_id, turn))
            self._turns[place] = origin.turn if origin else None
        return self._turns[place]

    def map_turn(self, session_id: str, turn: str, request_id: str, *, live: bool = True) -> None:
        """Map a vendor's turn to a turn of the journal."""
        self._turns[session_id, turn] = request_id
        self.put(_mapping(session_id, turn), Origin(session_id=session_id, turn=request_id, doc={"live": live}))

    def is_live(self, session_id: str, turn: str | None) -> bool:
        """Return True if a vendor's turn was mapped to one that was written live."""
        if not turn or self.turn_in(session_id, turn) is None:
            return False
        document = self.document(_mapping(session_id, turn))
        return bool(document and document.get("live"))

    # Families of forks

    def fork(self, thread: str, parent: str, session_id: str) -> list[tuple[bytes, bytes]]:
        """Remember that a thread was forked from another; totals kept under its own name stay findable.

        Return the keys of totals that were kept in both families before they were known to be one: those of the
        copies, and beside each the one that it repeats.
        """
        if self.origin(f"fork:{thread}") is not None:
            return []
        self.keep(f"fork:{thread}", session_id, {"parent": parent})
        root = self.root(parent)
        own = [thread] if self.origin(f"totals:{thread}") is not None else []
        names = [*own, *self._aliases(thread)]
        if not names or root == thread:
            return []
        known = self._aliases(root)
        twice = [pair for name in names for pair in self._kept_twice(name, (root, *known))]
        self.keep(f"family:{root}", session_id, {"aliases": [*known, *(name for name in names if name not in known)]})
        return twice

    def _aliases(self, root: str) -> list[str]:
        return (self.document(f"family:{root}") or {}).get("aliases", [])

    def _kept_twice(self, name: str, others: Sequence[str]) -> Iterator[tuple[bytes, bytes]]:
        kept = self.origin(f"totals:{name}")
        left: list[str] = []
        for total in (kept.doc or {}).get("copied", ()) if kept is not None else ():
            keys = (self._key(f"use:{other}:{total}") for other in others)
            found = next((key for key in keys if self._find(key) is not None), None)
            if found is None:
                left.append(total)
            else:
                yield self._key(f"use:{name}:{total}"), found
        if kept is not None:
            self.keep(f"totals:{name}", kept.session_id, {"copied": left} if left else {})

    def root(self, thread: str) -> str:
        """Return the thread from which all forks of a family come, as far as it is known."""
        for _ in range(_LONGEST_CHAIN):
            document = self.document(f"fork:{thread}")
            if document is None or document["parent"] == thread:
                break
            thread = document["parent"]
        return thread

    def usage_key(self, key: bytes, report: Document, session_id: str) -> bytes:
        """Return the key of a total: under the root of its family, or where it was first kept."""
        family, total = report.get("family"), report.get("total")
        if family is None:
            return key
        root = self.root(str(family))
        for name in (root, *self._aliases(root)):
            found = origin_key(self._agent, f"use:{name}:{total}")
            if self._find(found) is not None:
                return found
        kept = self.document(f"totals:{root}")
        if report.get("copied"):
            # Where this family turns out to be a part of another, copies may have been counted there already.
            self.keep(f"totals:{root}", session_id, {"copied": [*(kept or {}).get("copied", ()), total]})
        elif kept is None:
            self.keep(f"totals:{root}", session_id, {})
        return origin_key(self._agent, f"use:{root}:{total}")
