"""Acceptance with real bridges, daemons and REPL processes: crashes, two clients of one agent, work of the REPL."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shiftlog.link import processes
from tests.daemon.support import environment, eventually, lock_holder
from tests.story.agents import Agent, Refused, check_intact

REPL = [sys.executable, "-c", "import sys; from shiftlog.repl.__main__ import main; sys.exit(main())"]
SESSION = "Codex-20260701T080000Z-fix-upload"


def opened(agent: Agent) -> str:
    return agent.call("open_session", agent="Codex", title="Fix the cache bug")["session_id"]


def begun(agent: Agent, session: str) -> str:
    turn = agent.call("begin_turn", session_id=session, query_title="Fix eviction", query_text="Fix eviction")
    return turn["request_id"]


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not processes.alive(pid))


def refusal(agent: Agent, tool: str, **arguments: Any) -> dict[str, Any]:
    with pytest.raises(Refused) as refused:
        agent.call(tool, **arguments)
    return refused.value.said


def test_26_after_a_crash_of_client_and_daemon_the_open_turn_is_there(home: Path) -> None:
    victim = Agent(home)
    with victim:
        session = opened(victim)
        turn = begun(victim, session)
        daemon = lock_holder(home)
        assert daemon is not None
        kill(victim.bridge.pid)
        kill(daemon)
    with Agent(home) as next_one:
        data = next_one.call("resume_session", agent_id="codex")["data"]
        assert (data["resumed_session_id"], data["resume_mode"]) == (session, "reattached")
        assert data["state_before"] == "suspended"
        assert data["capsule"]["origin"] == "auto"
        assert data["capsule"]["open_turn"]["request_id"] == turn
        next_one.call("finish_turn", session_id=session, outcome="completed", response="Done after all")
    check_intact(home)


def test_27_of_two_live_clients_one_gets_the_lease_and_the_other_its_name(home: Path) -> None:
    with Agent(home) as opener:
        session = opened(opener)
        opener.leave()
    with Agent(home) as one, Agent(home) as other:
        assert one.call("resume_session", agent_id="Codex")["data"]["lease"]["fence"] == 2
        said = refusal(other, "resume_session", agent_id="Codex")
        assert (said["code"], said["retryable"]) == ("session_held", True)
        held_by = said["details"]["held_by"]
        assert held_by.keys() == {"agent_id", "face", "host", "pid", "since", "expires_at"}
        assert (held_by["agent_id"], held_by["pid"]) == ("Codex", one.bridge.pid)
        assert said["details"]["session_id"] == session


def test_28_who_takes_over_writes_and_the_first_has_lost_its_lease(home: Path) -> None:
    with Agent(home) as first, Agent(home) as second:
        session = opened(first)
        begun(first, session)
        taken = second.call("resume_session", agent_id="Codex", on_held="take_over")["data"]
        assert (taken["resumed_session_id"], taken["lease"]["fence"]) == (session, 2)
        lost = refusal(first, "update_turn", session_id=session, tags=["late"])
        assert lost["error"]["code"] == "lease_lost"
        assert (lost["error"]["details"]["fence_given"], lost["error"]["details"]["fence_current"]) == (1, 2)
        second.call("update_turn", session_id=session, tags=["mine"])


def test_a_connected_client_still_holds_its_session_when_the_machine_wakes(home: Path) -> None:
    """6.4: a lease is renewed while the client lives, however long nobody could renew it."""
    clock = home.parent / "clock"
    clock.write_text("2026-07-01T12:00:00Z")
    timed = {"SHIFTLOG_TEST": "1", "SHIFTLOG_NOW": f"@{clock}"}
    with Agent(home, **timed) as holder, Agent(home, **timed) as other:
        session = opened(holder)
        clock.write_text("2026-07-01T12:30:00Z")
        assert refusal(other, "resume_session", agent_id="Codex")["code"] == "session_held"
        begun(holder, session)


def test_a_client_that_connects_after_a_clock_jump_leaves_the_holder_its_session(home: Path) -> None:
    clock = home.parent / "clock"
    clock.write_text("2026-07-01T12:00:00Z")
    timed = {"SHIFTLOG_TEST": "1", "SHIFTLOG_NOW": f"@{clock}"}
    with Agent(home, **timed) as holder:
        session = opened(holder)
        begun(holder, session)
        clock.write_text("2026-07-01T12:30:00Z")
        with Agent(home, **timed) as newcomer:
            assert refusal(newcomer, "resume_session", agent_id="Codex")["code"] == "session_held"
        holder.call("finish_turn", session_id=session, outcome="completed", response="Done")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_the_newest_work_is_resumed_after_the_daemon_ended_with_an_older_sessions_shell(
    home: Path, how: signal.Signals
) -> None:
    clock = home.parent / "clock"
    clock.write_text("2026-07-01T12:00:00Z")
    timed = {"SHIFTLOG_TEST": "1", "SHIFTLOG_NOW": f"@{clock}"}
    with Agent(home, **timed) as one, Agent(home, **timed) as two:
        older = opened(one)
        begun(one, older)
        one.call("open_shell", session_id=older)
        clock.write_text("2026-07-01T12:10:00Z")
        newer = opened(two)
        begun(two, newer)
        clock.write_text("2026-07-01T12:20:00Z")
        daemon = lock_holder(home)
        assert daemon is not None
        for agent in (one, two):
            kill(agent.bridge.pid)
        os.kill(daemon, how)
        eventually(lambda: not processes.alive(daemon))
    with Agent(home, **timed) as next_one:
        data = next_one.call("resume_session", agent_id="codex")["data"]
        assert (data["resumed_session_id"], data["last_activity"]) == (newer, "2026-07-01T12:10:00Z")
        assert [each["last_activity"] for each in data["other_candidates"]] == ["2026-07-01T12:00:00Z"]


def test_24_work_recorded_over_the_repl_comes_back_in_the_capsule(home: Path) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("openSession", {"sessionId": SESSION, "title": "Fix the upload"}),
        ("beginTurn", {"requestId": "req-20260701T080005Z-one", "queryTitle": "Reproduce", "queryText": "Reproduce"}),
        (
            "appendDialog",
            {"dialogItems": [{"role": "model", "category": "decision", "content": "Decision: lock per shard"}]},
        ),
        (
            "appendActions",
            {
                "actions": [
                    {"description": "Lock it", "type": "edit", "status": "completed", "filePath": "cache/evict.py"}
                ]
            },
        ),
        ("completeTurn", {"response": "Fails 3 of 10 runs"}),
        ("beginTurn", {"requestId": "req-20260701T080100Z-two", "queryTitle": "Fix eviction", "queryText": "Fix it"}),
    ]
    _repl(home, calls)
    with Agent(home) as agent:
        data = agent.call("resume_session", agent_id="codex", lookback_days=90)["data"]
    capsule = data["capsule"]
    assert data["resumed_session_id"] == SESSION
    assert capsule["goal"] == {"text": "Fix the upload", "basis": "recorded"}
    assert [item["text"] for item in capsule["done"]] == ["Reproduce: Fails 3 of 10 runs"]
    assert [item["text"] for item in capsule["next"]] == ["Fix eviction"]
    assert [item["text"] for item in capsule["decisions"]] == ["Decision: lock per shard"]
    assert capsule["files_touched"] == [{"path": "cache/evict.py", "changes": 1, "last_type": "edit", "git": None}]
    assert capsule["open_turn"]["request_id"] == "req-20260701T080100Z-two"


def _repl(home: Path, calls: list[tuple[str, dict[str, Any]]]) -> None:
    lines = [
        {
            "type": "request",
            "payload": {"requestId": f"c-{n}", "method": f"workflow.sessionlog.{name}", "params": params},
        }
        for n, (name, params) in enumerate(calls)
    ]
    done = subprocess.run(
        [*REPL, "--agent-stdio"],
        input="".join(json.dumps(line) + "\n" for line in lines),
        env=environment(home),
        cwd=home.parent,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    answers = [json.loads(line)["payload"] for line in done.stdout.splitlines()]
    assert [answer for answer in answers if "result" not in answer] == [], done.stderr
    assert len(answers) == len(calls)
