"""The daemon's memory after long work: what is recorded is on disk, not in the daemon."""

import os
from pathlib import Path

import pytest

from shiftlog.link import processes
from tests.daemon.support import lock_holder
from tests.story.agents import Agent, result_of

LIMIT_BYTES = 120_000_000

# A daemon that is forked from a process with more modules than it needs itself would be measured with them.
pytestmark = pytest.mark.usefixtures("cold_starts")


def work(home: Path, writes: int, commands: int) -> int:
    """Write and run commands, a few at a time, in shells that are closed; return the daemon's memory in bytes."""
    with Agent(home) as agent:
        session = str(agent.call("open_session", agent="Memory", title="much work")["session_id"])
        turn = agent.call("begin_turn", session_id=session, query_title="work", query_text="work")["request_id"]
        for _ in range(0, writes, 50):
            said = {
                "dialog": [{"role": "model", "category": "observation", "content": f"a sentence {os.urandom(8).hex()}"}]
            }
            numbers = [agent.send_call("update_turn", session_id=session, request_id=turn, **said) for _ in range(50)]
            answers = [agent.bridge.read() for _ in numbers]
            assert sorted(answer["id"] for answer in answers) == numbers
            for answer in answers:
                result_of(answer)
        for _ in range(0, commands, 200):
            shell = agent.call("open_shell", session_id=session, cwd="/")["shell_id"]
            for _ in range(min(200, commands)):
                result_of(
                    agent.ask("tools/call", name="run_command", arguments={"shell_id": shell, "command": "echo hi"})
                )
            agent.call("close_shell", shell_id=shell)
        pid = lock_holder(home)
        assert pid is not None
        return processes.rss_bytes(pid) or 0


@pytest.mark.long
def test_a_thousand_writes_and_some_hundred_commands_fit_into_the_limit(home: Path) -> None:
    assert work(home, 1_000, 400) < LIMIT_BYTES


@pytest.mark.soak
@pytest.mark.timeout(1_800)
def test_thirty_thousand_writes_and_three_thousand_commands_fit_into_the_limit(home: Path) -> None:
    assert work(home, 30_000, 3_000) < LIMIT_BYTES
