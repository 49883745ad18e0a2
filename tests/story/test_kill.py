"""The end of the daemon at any instant, while agents write: what was answered stays, and nothing is silent."""

import os
import random
import signal
import threading
from pathlib import Path

import pytest

from shiftlog.link import processes
from shiftlog.link.client import connect
from tests.daemon.support import eventually, lock_holder
from tests.story.agents import Agent, check_intact
from tests.story.writers import Crew, Writer, check_books, open_shared

WRITERS = 3
WORKING_S = 0.08
# Some daemons do not live to serve anybody.
STARTING_PART = 0.25
STARTING_S = 1.0
SEED = 20260131


def end_after(home: Path, seconds: float, how: signal.Signals) -> None:
    """End the daemon at an instant that does not depend on what it does."""
    threading.Event().wait(seconds)
    pid = lock_holder(home)
    if pid is not None:
        os.kill(pid, how)
        eventually(lambda: not processes.alive(pid))


def until_it_serves(crew: Crew) -> None:
    """Wait until some writer has got an answer again."""
    before = crew.acknowledged
    eventually(lambda: crew.acknowledged > before)


def kill_loop(home: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    with Agent(home) as agent:
        shared = open_shared(agent)
    writers = [Writer(home, f"w{number}", shared=shared) for number in range(WRITERS)]
    with Crew(writers, lambda _: False) as crew:
        for _ in range(kills):
            until_it_serves(crew)
            end_after(home, chance.uniform(0, WORKING_S), signal.SIGKILL)
            if chance.random() < STARTING_PART:
                end_after(home, chance.uniform(0, STARTING_S), signal.SIGKILL)
            with connect(str(home)) as client:
                for name in crew.sessions_since():
                    _, finding = client.stream("verify", {"session_id": name})
                    assert finding["ok"], finding
        crew.stop()
    check_books(home, crew.books)
    check_intact(home)
    lost = {booked.applied for booked in crew.books if not booked.acknowledged}
    assert lost == {True, False}, "kills met requests in flight, before and after they were applied"


def test_what_was_answered_survives_kill_9_at_any_instant(home: Path) -> None:
    kill_loop(home, 9, SEED)


@pytest.mark.soak
def test_what_was_answered_survives_five_hundred_kills(home: Path) -> None:
    kill_loop(home, 500, random.randrange(2**32))


def stop_loop(home: Path, stops: int, seed: int) -> None:
    chance = random.Random(seed)
    with Agent(home) as agent:
        shared = open_shared(agent)
    writers = [Writer(home, f"w{number}", shared=shared) for number in range(WRITERS)]
    with Crew(writers, lambda _: False) as crew:
        for _ in range(stops):
            until_it_serves(crew)
            end_after(home, chance.uniform(0, WORKING_S), signal.SIGTERM)
        until_it_serves(crew)
        crew.stop()
    assert [booked for booked in crew.books if not booked.acknowledged] == []
    check_books(home, crew.books)
    check_intact(home)


def test_a_daemon_that_is_told_to_stop_finishes_its_work_and_no_call_fails(home: Path) -> None:
    stop_loop(home, 3, SEED)


@pytest.mark.soak
def test_no_call_fails_over_two_hundred_stops(home: Path) -> None:
    stop_loop(home, 200, random.randrange(2**32))
