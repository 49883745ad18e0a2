"""The sessions and turns that a writer met last, and the names that it did not find, so that it need not look again.

An agent writes to one turn many times in a row. What is kept is what the database holds: a store drops it as soon as a
work failed or another connection may have written, and once it has grown large.
"""

from dataclasses import dataclass, field

from shiftlog.model.nouns import Session, Turn

# Stored documents of so many bytes may be kept.
MOST_BYTES = 1_000_000


@dataclass(slots=True)
class RecentNouns:
    """Sessions and turns as they are stored, None for a name without one, with the keys of sessions.

    Only the writer thread touches them.
    """

    sessions: dict[str, Session | None] = field(default_factory=dict[str, Session | None])
    turns: dict[tuple[str, str], Turn | None] = field(default_factory=dict[tuple[str, str], Turn | None])
    keys: dict[str, int] = field(default_factory=dict[str, int])
    stored_bytes: int = 0
    _version: object = None

    def begin(self, version: object) -> None:
        """Drop values that may be outdated; called inside a transaction with the version of the database's data."""
        if version != self._version or self.stored_bytes > MOST_BYTES:
            self.forget()
        self._version = version

    def forget(self) -> None:
        """Drop everything."""
        self.sessions.clear()
        self.turns.clear()
        self.keys.clear()
        self.stored_bytes = 0
