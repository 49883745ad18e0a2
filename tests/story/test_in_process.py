"""A server in an agent's own process beside a running daemon, over one state directory."""

from pathlib import Path

import pytest

from tests.daemon.support import daemons, lock_holder
from tests.story.agents import Agent, Refused, check_intact, read_record
from tests.story.writers import Crew, Writer, check_books, open_shared

IN_PROCESS = "--in-process"
WRITES = 12


def test_both_write_one_session_at_once_and_nothing_is_lost(home: Path) -> None:
    with Agent(home) as agent:
        shared = open_shared(agent)
        writers = [
            Writer(home, "w0", shared=shared),
            Writer(home, "w1", IN_PROCESS, shared=shared),
            Writer(home, "w2", IN_PROCESS, shared=shared),
        ]
        with Crew(writers, lambda writer: writer.acknowledged >= WRITES) as crew:
            pass
        assert daemons(home) == [lock_holder(home)], "a server in-process starts no daemon"
        agent.call("finish_turn", session_id=shared, outcome="completed", response="done")
    assert all(booked.acknowledged for booked in crew.books)
    check_books(home, crew.books)
    in_shared = {booked.mark.partition("x")[0] for booked in crew.books if booked.session_id == shared}
    assert in_shared == {"w0", "w1", "w2"}
    assert check_intact(home)["sessions_checked"] == 1 + len(writers)


def test_a_session_moves_from_the_daemon_to_a_server_in_process_and_its_former_holder_is_fenced_off(home: Path) -> None:
    with Agent(home) as outside, Agent(home, IN_PROCESS) as inside:
        name = outside.call("open_session", agent="Test", agent_id="mover", title="moves")["session_id"]
        outside.call("begin_turn", session_id=name, query_title="turn", query_text="go on")
        with pytest.raises(Refused) as held:
            inside.call("resume_session", agent_id="mover")
        assert held.value.said["code"] == "session_held"
        assert held.value.said["details"]["held_by"]["pid"] == outside.bridge.pid
        inside.call("resume_session", agent_id="mover", on_held="take_over")
        inside.call("update_turn", session_id=name, tags=["mine now"])
        before = read_record(home)
        with pytest.raises(Refused) as lost:
            outside.call("update_turn", session_id=name, tags=["still mine"])
        assert lost.value.error["code"] == "lease_lost"
        assert read_record(home) == before
        inside.call("finish_turn", session_id=name, outcome="completed", response="moved")
    check_intact(home)


def test_without_any_daemon_a_server_in_process_records_what_a_daemon_later_reads(home: Path) -> None:
    with Agent(home, IN_PROCESS) as agent:
        name = agent.call("open_session", agent="Test", title="alone")["session_id"]
        agent.call("begin_turn", session_id=name, query_title="turn", query_text="go on")
        closed = agent.call("close_session", session_id=name)
        agent.leave()
    assert daemons(home) == []
    assert check_intact(home)["entries_checked"] == closed["data"]["entry_count"]
