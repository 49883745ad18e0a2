"""A disk that is full or not ours, as an agent and a person see it: service goes on, and says what is wrong."""

import os
import signal
import time
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.disks import UNPRIVILEGED, fill, needs_root, seen_read_only, small_disk
from tests.daemon.support import BRIDGE, Bridge, control, end_daemon, eventually, lock_holder
from tests.story.agents import Agent, Refused, read_record, shiftlog, shiftlog_json

FIRST_ANSWER_S = 25.0  # seconds on an idle machine; without an answer the read would end after 30


@pytest.fixture
def disk(tmp_path: Path) -> Generator[Path]:
    """Yield a state directory on a small disk of its own."""
    with small_disk(tmp_path / "disk", 24) as home:
        try:
            yield home
        finally:
            end_daemon(home)


def kill_daemon(home: Path) -> None:
    pid = lock_holder(home)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: lock_holder(home) is None)


def checks(home: Path, status: int = 0) -> dict[str, dict[str, Any]]:
    said = shiftlog_json(home, "doctor", status=status)
    return {check["name"]: check for check in said["checks"]}


def faults(home: Path) -> list[dict[str, Any]]:
    with control(home) as client:
        return client.call("daemon.status")["faults"]


def begin(agent: Agent) -> str:
    opened = agent.call("open_session", agent="Fault", title="a fault")
    return str(opened["session_id"])


def write_on(agent: Agent, session: str) -> None:
    for _ in range(200):
        agent.call("begin_turn", session_id=session, query_title="no room", query_text="word " * 2_000)


@needs_root
def test_a_full_disk_and_a_shell_of_a_killed_daemon_keep_no_client_waiting(disk: Path) -> None:
    with Agent(disk) as agent:
        session = begin(agent)
        agent.call("open_shell", session_id=session, cwd="/")
        kill_daemon(disk)
        # The next daemon has something to record, and no room for it.
        filler = fill(disk.parent)
        with (disk / "daemon.log").open("ab") as log:
            log.truncate(0)
        fill(disk.parent)
    before = time.monotonic()
    with Agent(disk) as agent:
        assert time.monotonic() - before < FIRST_ANSWER_S
        assert agent.call("query_history", session_id=session)
        with pytest.raises(Refused, match="the disk is full"):
            write_on(agent, session)
        # The reserve that is given up on a full disk may let the daemon record what it found; if not, it says so.
        assert all("the disk is full" in str(fault) for fault in faults(disk))
        filler.unlink()
        eventually(lambda: not faults(disk) or None)
        agent.call("begin_turn", session_id=session, query_title="room again", query_text="now")


@needs_root
def test_a_database_that_may_not_be_written_is_read_and_its_holder_stays_connected(disk: Path) -> None:
    unprivileged = [*UNPRIVILEGED, *BRIDGE]
    with Bridge(disk, program=unprivileged) as bridge:
        bridge.shake_hands()
        opened = bridge.request(1, "tools/call", name="open_session", arguments={"agent": "Fault", "title": "held"})
        session = opened["result"]["structuredContent"]["session_id"]
        kill_daemon(disk)
        for name in ("shiftlog.db", "shiftlog.db-wal"):
            (disk / name).chmod(0o400)
        before = time.process_time()
        answered = bridge.request(2, "tools/call", name="query_history", arguments={"session_id": session})
        assert "result" in answered or answered["error"]["data"]["retryable"]
        read = bridge.request(3, "tools/call", name="query_history", arguments={"session_id": session})
        assert not read["result"]["isError"]
        arguments = {"session_id": session, "query_title": "no", "query_text": "no"}
        refused = bridge.request(4, "tools/call", name="begin_turn", arguments=arguments)
        assert "permission denied" in refused["result"]["structuredContent"]["error"]["message"]
        pid = lock_holder(disk)
        eventually(lambda: faults(disk) or None)
        assert lock_holder(disk) == pid
        assert time.process_time() - before < 5
        assert checks(disk, status=1)["upkeep"]["state"] == "fail"
        for name in ("shiftlog.db", "shiftlog.db-wal"):
            (disk / name).chmod(0o600)

        def written() -> bool | None:
            said = bridge.request(5, "tools/call", name="begin_turn", arguments=arguments)
            return not said["result"]["isError"] or None

        eventually(written, within_s=60)


@pytest.mark.soak
@needs_root
def test_a_state_directory_that_is_locked_away_is_read_on_and_written_again_later(disk: Path) -> None:
    unprivileged = [*UNPRIVILEGED, *BRIDGE]
    with ExitStack() as stack:
        bridge = stack.enter_context(Bridge(disk, program=unprivileged))
        bridge.shake_hands()
        client = stack.enter_context(control(disk))
        arguments = {"agent": "Fault", "title": "locked away"}
        opened = bridge.request(1, "tools/call", name="open_session", arguments=arguments)
        session = opened["result"]["structuredContent"]["session_id"]
        turn = {"session_id": session, "query_title": "t", "query_text": "t"}
        pid = lock_holder(disk)
        disk.chmod(0)
        try:
            read = bridge.request(2, "tools/call", name="query_history", arguments={})
            assert not read["result"]["isError"]
            refused = bridge.request(3, "tools/call", name="begin_turn", arguments=turn)["result"]["structuredContent"]
            assert "permission denied" in refused["error"]["message"]
            assert "permission denied" in str(client.call("daemon.status")["faults"])
            with Bridge(disk, program=unprivileged) as other:
                told = other.request(1, "initialize")["error"]
                assert "permission denied" in told["message"]
                assert told["data"]["hint"] == f"chmod 700 {disk}"
        finally:
            disk.chmod(0o700)
        begun = bridge.request(4, "tools/call", name="begin_turn", arguments=turn)
        assert not begun["result"]["isError"]
        eventually(lambda: client.call("daemon.status")["faults"] == [])
        assert lock_holder(disk) == pid
        assert sum(line.kind == "turn.begun" for line in read_record(disk)) == 1  # what was refused is not there


@needs_root
def test_where_no_daemon_can_start_each_request_is_answered_with_the_reason_soon(disk: Path) -> None:
    fill(disk.parent)
    before = time.monotonic()
    with Bridge(disk) as bridge:
        refused = bridge.request(1, "initialize")
        assert time.monotonic() - before < FIRST_ANSWER_S
        assert "full" in refused["error"]["message"] + refused["error"]["data"]["hint"]


@needs_root
def test_on_a_read_only_mount_an_agent_is_told_so_and_what_to_do(home: Path, tmp_path: Path) -> None:
    with Agent(home) as agent:
        begin(agent)
    end_daemon(home)
    with seen_read_only(home, tmp_path / "mount") as place, Bridge(place) as bridge:
        refused = bridge.request(1, "initialize")["error"]
        assert f"the file system of {place} is read-only" in refused["message"]
        assert "Errno" not in refused["message"]
        assert "Mount it for writing" in refused["data"]["hint"]


def test_a_database_that_is_damaged_under_a_daemon_is_told_by_status_and_doctor(home: Path) -> None:
    with Agent(home) as agent:
        begin(agent)
        shiftlog(home, "daemon", "stop")
        session = begin(agent)
        shiftlog(home, "daemon", "stop")
        agent.call("query_history", session_id=session)
        os.truncate(home / "shiftlog.db", 0)
        with pytest.raises(Refused, match=r"shiftlog\.db"):
            agent.call("begin_turn", session_id=session, query_title="t", query_text="t")
        said = shiftlog_json(home, "daemon", "status")
        assert [fault["what"] for fault in said["faults"]] == ["the record"]
        assert "backup" in said["faults"][0]["hint"]
        assert "cannot be read" in shiftlog(home, "status")
        assert "shiftlog.db" in checks(home, status=1)["upkeep"]["message"]


def test_a_database_that_is_missing_when_a_daemon_starts_is_named_and_nothing_is_lost(home: Path) -> None:
    with Agent(home) as agent:
        session = begin(agent)
        kill_daemon(home)
        away = (home / "shiftlog.db").rename(home / "away.db")
        for _ in range(2):  # the first may have been on its way to the daemon that was killed
            with pytest.raises(Refused, match=r"shiftlog\.db is missing"):
                agent.call("query_history", session_id=session)
        found = checks(home, status=1)
        assert "Put it back" in found["daemon"]["hint"]
        assert "is missing" in found["database"]["message"]
        away.rename(home / "shiftlog.db")
        eventually(lambda: "result" in agent.ask("tools/call", name="query_history", arguments={}) or None)
        assert agent.call("query_history", session_id=session)["session"]["session_id"] == session
