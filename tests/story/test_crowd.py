"""Thirty-two agents at once, each with a bridge process of its own, in sessions of their own and in one they share."""

from pathlib import Path

import pytest

from tests.daemon.support import daemons, lock_holder
from tests.story.agents import Agent, check_intact, read_record
from tests.story.writers import Crew, Writer, check_books, open_shared

AGENTS = 32


def crowd(home: Path, writes: int) -> None:
    with Agent(home) as agent:
        shared = open_shared(agent)
        writers = [Writer(home, f"w{number}", shared=shared) for number in range(AGENTS)]
        with Crew(writers, lambda writer: writer.acknowledged >= writes) as crew:
            pass
        agent.call("finish_turn", session_id=shared, outcome="completed", response="all have written")
    assert daemons(home) == [lock_holder(home)]
    assert all(booked.acknowledged for booked in crew.books), "no call failed"
    assert min(writer.acknowledged for writer in writers) >= writes
    check_books(home, crew.books)
    spoke = {
        str(line.body["content"]).partition("x")[0]
        for line in read_record(home)
        if line.session_id == shared and line.kind == "dialog"
    }
    assert spoke == {writer.name for writer in writers}
    assert check_intact(home)["sessions_checked"] == AGENTS + 1


def test_thirty_two_agents_at_once_lose_and_double_nothing(home: Path) -> None:
    crowd(home, 20)


@pytest.mark.soak
def test_thirty_two_agents_with_three_hundred_writes_each_lose_and_double_nothing(home: Path) -> None:
    crowd(home, 300)
