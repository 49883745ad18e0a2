"""The states of turns, sessions and runs, and the one table of legal moves between them."""

from enum import StrEnum


class TurnStatus(StrEnum):
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"


class SessionState(StrEnum):
    OPEN = "open"
    SUSPENDED = "suspended"
    CLOSED = "closed"
    AWAITING_SUCCESSOR = "awaiting_successor"
    SEALED = "sealed"
    SUCCEEDED = "succeeded"


class RunStatus(StrEnum):
    RUNNING = "running"
    OK = "ok"
    CANCELLED = "cancelled"
    FAILED = "failed"
    ORPHANED = "orphaned"


class Succession(StrEnum):
    NONE = "closed_without_successor"
    ALLOWED = "successor_allowed"
    REQUIRED = "successor_required"


TURN_MOVES: dict[TurnStatus, frozenset[TurnStatus]] = {
    TurnStatus.IN_PROGRESS: frozenset({TurnStatus.COMPLETED, TurnStatus.FAILED}),
    TurnStatus.COMPLETED: frozenset(),
    TurnStatus.FAILED: frozenset(),
}

SESSION_MOVES: dict[SessionState, frozenset[SessionState]] = {
    SessionState.OPEN: frozenset(
        {
            SessionState.SUSPENDED,
            SessionState.CLOSED,
            SessionState.AWAITING_SUCCESSOR,
            SessionState.SEALED,
        }
    ),
    SessionState.SUSPENDED: frozenset(
        {SessionState.OPEN, SessionState.CLOSED, SessionState.AWAITING_SUCCESSOR, SessionState.SEALED}
    ),
    SessionState.CLOSED: frozenset({SessionState.OPEN, SessionState.SUCCEEDED}),
    SessionState.AWAITING_SUCCESSOR: frozenset({SessionState.SUCCEEDED}),
    SessionState.SEALED: frozenset(),
    SessionState.SUCCEEDED: frozenset(),
}

LIVE = frozenset({SessionState.OPEN, SessionState.SUSPENDED})
UNFINISHED = LIVE | {SessionState.AWAITING_SUCCESSOR}

STATE_AFTER_CLOSE: dict[Succession, SessionState] = {
    Succession.NONE: SessionState.SEALED,
    Succession.ALLOWED: SessionState.CLOSED,
    Succession.REQUIRED: SessionState.AWAITING_SUCCESSOR,
}


def status_shown(turn: str, session: str) -> str:
    """Return a turn's status as people see it: an open turn of a session that is not open was interrupted."""
    return "interrupted" if turn == TurnStatus.IN_PROGRESS and session != SessionState.OPEN else str(turn)


def run_status_after(returncode: int, error: str) -> RunStatus:
    """Return how a run ended, from its exit code and error text."""
    if error:
        return RunStatus.FAILED
    if returncode == 0:
        return RunStatus.OK
    return RunStatus.CANCELLED if returncode in (130, 143, -2, -15) else RunStatus.FAILED
