"""Where the in-memory store keeps things, and the undo log that makes a piece of work a transaction.

Nouns and entries are frozen, so they are shared with the callers and never copied.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from shiftlog.model.entry import Body
from shiftlog.model.nouns import Lease, Receipt, Session, Token, Turn
from shiftlog.store.protocol import Answer, Indexed
from shiftlog.store.sources import Origin, Source

K = TypeVar("K")
V = TypeVar("V")
Pair = tuple[str, str]

_SEQ_BITS = 24


@dataclass(slots=True)
class Shelf:
    """One session: its journal by seq, and the session and turns that follow from it."""

    key: int
    id: str
    lines: list[Indexed] = field(default_factory=list[Indexed])
    session: Session | None = None
    turns: dict[str, Turn] = field(default_factory=dict[str, Turn])

    def place(self, seq: int) -> int:
        """Return where an entry stands among those of all sessions: session by session, then by seq."""
        return (self.key << _SEQ_BITS) + seq


@dataclass(slots=True)
class Shelves:
    """Everything that a store keeps."""

    sessions: dict[str, Shelf] = field(default_factory=dict[str, Shelf])
    leases: dict[str, Lease] = field(default_factory=dict[str, Lease])
    grants: dict[Pair, tuple[int, datetime]] = field(default_factory=dict[Pair, tuple[int, datetime]])
    answers: dict[Pair, Answer] = field(default_factory=dict[Pair, Answer])
    outcomes: dict[Pair, tuple[datetime, Body]] = field(default_factory=dict[Pair, tuple[datetime, Body]])
    receipts: dict[tuple[str, int], Receipt] = field(default_factory=dict[tuple[str, int], Receipt])
    agents: dict[str, tuple[str, datetime]] = field(default_factory=dict[str, tuple[str, datetime]])
    tokens: dict[str, Token] = field(default_factory=dict[str, Token])
    pointers: dict[Pair, str] = field(default_factory=dict[Pair, str])
    sources: dict[str, Source] = field(default_factory=dict[str, Source])
    origins: dict[bytes, Origin] = field(default_factory=dict[bytes, Origin])
    imported: dict[str, Body] = field(default_factory=dict[str, Body])
    project_paths: dict[str, str] = field(default_factory=dict[str, str])
    last_alias: int = 0

    def listed(self, *, hidden: bool = False) -> Iterator[tuple[Shelf, Session]]:
        """Yield the sessions that lists and searches may show, oldest first, or those that are hidden from them."""
        for shelf in self.sessions.values():
            if shelf.session is not None and shelf.session.hidden is hidden:
                yield shelf, shelf.session


class Undo:
    """Changes things and remembers, for each change, the one step that takes it back."""

    def __init__(self) -> None:
        self._steps: list[Callable[[], object]] = []

    def roll_back(self) -> None:
        """Take every change back, the last one first."""
        while self._steps:
            self._steps.pop()()

    def put(self, items: dict[K, V], key: K, value: V) -> None:
        """Set an item."""
        if key in items:
            old = items[key]
            self._steps.append(lambda: items.__setitem__(key, old))
        else:
            self._steps.append(lambda: items.pop(key))
        items[key] = value

    def drop(self, items: dict[K, V], keys: Iterable[K]) -> None:
        """Remove items that are there."""
        for key in list(keys):
            old = items.pop(key)
            self._steps.append(lambda key=key, old=old: items.__setitem__(key, old))

    def extend(self, items: list[V], added: Iterable[V]) -> None:
        """Add to the end of a list."""
        count = len(items)
        self._steps.append(lambda: items.__delitem__(slice(count, None)))
        items.extend(added)

    def replace(self, items: list[V], index: int, value: V) -> None:
        """Set an item of a list."""
        old = items[index]
        self._steps.append(lambda: items.__setitem__(index, old))
        items[index] = value

    def assign(self, owner: Shelf | Shelves, name: str, value: object) -> None:
        """Set an attribute."""
        old: object = getattr(owner, name)
        self._steps.append(lambda: setattr(owner, name, old))
        setattr(owner, name, value)
