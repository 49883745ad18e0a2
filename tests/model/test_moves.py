"""The tables of legal moves, held against the contracts' state machines."""

import pytest

from shiftlog.model.moves import (
    LIVE,
    SESSION_MOVES,
    STATE_AFTER_CLOSE,
    TURN_MOVES,
    UNFINISHED,
    RunStatus,
    SessionState,
    Succession,
    TurnStatus,
    run_status_after,
    status_shown,
)

OPEN, SUSPENDED, CLOSED = SessionState.OPEN, SessionState.SUSPENDED, SessionState.CLOSED
AWAITING, SEALED, SUCCEEDED = SessionState.AWAITING_SUCCESSOR, SessionState.SEALED, SessionState.SUCCEEDED


def test_a_turn_moves_once_and_then_never_again() -> None:
    assert {
        TurnStatus.IN_PROGRESS: {TurnStatus.COMPLETED, TurnStatus.FAILED},
        TurnStatus.COMPLETED: frozenset(),
        TurnStatus.FAILED: frozenset(),
    } == TURN_MOVES


def test_a_session_moves_as_the_contract_draws_it() -> None:
    assert {
        OPEN: {SUSPENDED, CLOSED, AWAITING, SEALED},
        SUSPENDED: {OPEN, CLOSED, AWAITING, SEALED},
        CLOSED: {OPEN, SUCCEEDED},
        AWAITING: {SUCCEEDED},
        SEALED: frozenset(),
        SUCCEEDED: frozenset(),
    } == SESSION_MOVES


def test_the_live_and_the_unfinished_states() -> None:
    assert {OPEN, SUSPENDED} == LIVE
    assert {OPEN, SUSPENDED, AWAITING} == UNFINISHED


def test_the_policy_says_the_state_after_a_close() -> None:
    assert STATE_AFTER_CLOSE == {Succession.NONE: SEALED, Succession.ALLOWED: CLOSED, Succession.REQUIRED: AWAITING}
    assert set(STATE_AFTER_CLOSE.values()) <= SESSION_MOVES[OPEN]


@pytest.mark.parametrize(
    ("returncode", "error", "status"),
    [
        (0, "", RunStatus.OK),
        (0, "user cancelled", RunStatus.FAILED),
        (130, "", RunStatus.CANCELLED),
        (143, "", RunStatus.CANCELLED),
        (-2, "", RunStatus.CANCELLED),
        (-15, "", RunStatus.CANCELLED),
        (130, "boom", RunStatus.FAILED),
        (1, "", RunStatus.FAILED),
        (-9, "", RunStatus.FAILED),
    ],
)
def test_exit_code_and_error_say_how_a_run_ended(returncode: int, error: str, status: RunStatus) -> None:
    assert run_status_after(returncode, error) is status


def test_an_open_turn_is_shown_as_interrupted_wherever_nobody_works_on_it() -> None:
    assert {state for state in SessionState if status_shown(TurnStatus.IN_PROGRESS, state) == "in_progress"} == {OPEN}
    assert {status_shown(TurnStatus.IN_PROGRESS, state) for state in set(SessionState) - {OPEN}} == {"interrupted"}
    for state in SessionState:
        assert status_shown(TurnStatus.COMPLETED, state) == "completed"
        assert status_shown(TurnStatus.FAILED, state) == "failed"
