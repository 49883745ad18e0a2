"""Entries: the immutable lines of a session's journal."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from shiftlog.model import canonical, times

# Marks an entry of a session whose last times came from a clock that had jumped ahead.
CLOCK_SET_BACK = "clock_set_back"
# Marks of the clock in an entry, beside its facts.
CLOCK_MARKS = frozenset({"test_clock", CLOCK_SET_BACK})


class Kind(StrEnum):
    SESSION_OPENED = "session.opened"
    SESSION_UPDATED = "session.updated"
    SESSION_SUSPENDED = "session.suspended"
    SESSION_RESUMED = "session.resumed"
    SESSION_CLOSED = "session.closed"
    SESSION_REWOUND = "session.rewound"
    TURN_BEGUN = "turn.begun"
    TURN_UPDATED = "turn.updated"
    DIALOG = "dialog"
    ACTION = "action"
    TURN_COMPLETED = "turn.completed"
    TURN_FAILED = "turn.failed"
    RUN_UPDATED = "run.updated"
    USAGE = "usage"
    SHELL_OPENED = "shell.opened"
    COMMAND_STARTED = "command.started"
    COMMAND_FINISHED = "command.finished"
    COMMAND_INPUT = "command.input"
    COMMAND_ASKED = "command.asked"
    COMMAND_DECIDED = "command.decided"
    SHELL_ENDED = "shell.ended"
    CHECKPOINT_SAVED = "checkpoint.saved"
    CHECKPOINT_RESTORED = "checkpoint.restored"
    CAPSULE_SAVED = "capsule.saved"
    CLIENT_JOINED = "client.joined"
    LEASE_TAKEN = "lease.taken"
    HANDOFF_OFFERED = "handoff.offered"
    HANDOFF_ACCEPTED = "handoff.accepted"
    HANDOFF_ENDED = "handoff.ended"
    TOKEN_REISSUED = "token.reissued"
    IMPORT_NOTED = "import.noted"
    ERASED = "erased"


Body = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of a journal; `body` and `salt` are None once erased."""

    seq: int
    kind: Kind
    at: datetime
    turn: str | None
    body: Body | None
    salt: bytes | None
    body_hash: str
    hash: str

    @property
    def facts(self) -> Body:
        """Return the body, empty once erased."""
        return self.body if self.body is not None else {}

    def expected_hash(self, prev_hash: str, seq: int | None = None) -> str:
        """Return the hash that this entry should have after another one."""
        return canonical.entry_hash(
            prev_hash,
            seq=self.seq if seq is None else seq,
            kind=self.kind,
            at=times.precise(self.at),
            turn=self.turn,
            hash_of_body=self.body_hash,
        )

    def body_is_intact(self) -> bool:
        """Return True if the body is the one that was hashed, or was erased with its salt."""
        if self.body is None:
            return self.salt is None
        if self.salt is None:
            return False
        return canonical.body_hash(self.salt, canonical.canonical(self.body)) == self.body_hash
