"""`kill -9` of the daemon at any instant, while agents write: what was answered stays, and nothing is silent."""

import os
import random
import signal
import threading
from pathlib import Path

import pytest

from shiftlog import processes
from shiftlog.client import connect
from tests.daemon.support import eventually, lock_holder
from tests.story.agents import Agent, check_intact
from tests.story.writers import Crew, Writer, check_books

WRITERS = 3
WORKING_S = 0.08
# Some daemons do not live to serve anybody.
STARTING_PART = 0.25
STARTING_S = 1.0
SEED = 20260131


def kill_after(home: Path, seconds: float) -> None:
    """Kill the daemon at an instant that does not depend on what it does."""
    threading.Event().wait(seconds)
    pid = lock_holder(home)
    if pid is not None:
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: not processes.alive(pid))


def kill_loop(home: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    with Agent(home) as agent:
        shared = agent.call("open_session", agent="Test", title="shared")["session_id"]
        agent.call("begin_turn", session_id=shared, query_title="shared turn", query_text="go on")
    writers = [Writer(home, f"w{number}", shared=shared) for number in range(WRITERS)]
    with Crew(writers, lambda _: False) as crew:
        for _ in range(kills):
            before = crew.acknowledged
            eventually(lambda before=before: crew.acknowledged > before)
            kill_after(home, chance.uniform(0, WORKING_S))
            if chance.random() < STARTING_PART:
                kill_after(home, chance.uniform(0, STARTING_S))
            with connect(str(home)) as client:
                findings = list(client.stream("verify"))[1:]
            assert [finding for finding in findings if not finding["ok"]] == []
        crew.stop()
    lost = {booked.applied for booked in crew.books if not booked.acknowledged}
    assert lost == {True, False}, "kills met requests in flight, before and after they were applied"
    check_books(home, crew.books)
    check_intact(home)


def test_what_was_answered_survives_kill_9_at_any_instant(home: Path) -> None:
    kill_loop(home, 15, SEED)


@pytest.mark.soak
def test_what_was_answered_survives_five_hundred_kills(home: Path) -> None:
    kill_loop(home, 500, random.randrange(2**32))
