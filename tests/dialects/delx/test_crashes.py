"""Agent, daemon or both killed at any instant, again and again: resume returns the last acknowledged state."""

import os
import random
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from shiftlog.link import processes
from shiftlog.link.client import connect
from tests.daemon.support import eventually, lock_holder
from tests.story.agents import Agent, Answer, Refused, check_intact, read_record

SEED = 20260701
WORKING_S = 0.15
VICTIMS = ("agent", "daemon", "both")


class Shift:
    """One agent at work in one session until somebody is killed; it remembers what was acknowledged."""

    def __init__(self, home: Path, chance: random.Random) -> None:
        self._home = home
        self._chance = chance
        self.session = ""
        self.seq, self.hash = 0, ""
        self._notes = 0

    def begin(self) -> None:
        with Agent(self._home) as agent:
            self.session = agent.call("open_session", agent="Codex", title="Survive")["session_id"]
            turn = agent.call(
                "begin_turn", session_id=self.session, query_title="Go on", query_text="Go on", detail="full"
            )
            self._acknowledged(turn["receipt"])
            agent.leave()

    def work_until_killed(self, victim: str) -> None:
        """Resume, then write until the victim is dead; the resume itself may meet the kill."""
        agent = Agent(self._home)
        killer = threading.Thread(target=self._kill, args=(victim, agent))
        with agent:
            killer.start()
            with suppress(Refused, AssertionError, OSError, ValueError):
                self._write(agent, killer.is_alive)
            killer.join()

    def check(self) -> None:
        """See that a new agent finds what was acknowledged, and that nothing was lost, doubled or broken."""
        with Agent(self._home) as agent:
            data = agent.call("resume_session", agent_id="codex", on_held="take_over")["data"]
            assert data["resumed_session_id"] == self.session
            assert data["resume_mode"] == "reattached"
            assert data["entry_count"] > self.seq
            assert data["capsule"]["open_turn"]["query_title"] == "Go on"
            agent.leave()
        with connect(str(self._home)) as client:
            findings = list(client.stream("verify"))[1:]
        assert [finding["session_id"] for finding in findings] == [self.session]
        assert findings[0]["ok"], findings
        lines = {line.seq: line for line in read_record(self._home)}
        assert lines[self.seq].hash == self.hash

    def _write(self, agent: Agent, goes_on: Callable[[], bool]) -> None:
        agent.call("resume_session", agent_id="codex", on_held="take_over")
        while goes_on():
            self._notes += 1
            note = {"role": "model", "category": "observation", "content": f"note {self._notes}"}
            self._acknowledged(
                agent.call("update_turn", session_id=self.session, dialog=[note], detail="full")["receipt"]
            )

    def _acknowledged(self, receipt: Answer) -> None:
        self.seq, self.hash = receipt["seq"], receipt["hash"]

    def _kill(self, victim: str, agent: Agent) -> None:
        threading.Event().wait(self._chance.uniform(0, WORKING_S))
        pids = [agent.bridge.pid] if victim in ("agent", "both") else []
        daemon = lock_holder(self._home) if victim in ("daemon", "both") else None
        pids += [daemon] if daemon is not None else []
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in pids:
            eventually(lambda pid=pid: not processes.alive(pid))


def crash_loop(home: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    shift = Shift(home, chance)
    shift.begin()
    for _ in range(kills):
        shift.work_until_killed(chance.choice(VICTIMS))
        shift.check()
    check_intact(home)


def test_resume_returns_the_last_acknowledged_state_after_any_crash(home: Path) -> None:
    crash_loop(home, 9, SEED)


@pytest.mark.soak
def test_resume_returns_the_last_acknowledged_state_after_two_hundred_crashes(home: Path) -> None:
    crash_loop(home, 200, random.randrange(2**32))
