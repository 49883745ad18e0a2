"""What a client learns about a call when the real daemon is killed under it."""

import array
import fcntl
import os
import signal
import sys
import termios
from pathlib import Path
from typing import Any

import pytest

from shiftlog.control.journal import BEYOND_THE_JOURNAL
from shiftlog.link.client import connect
from tests.daemon.support import REAL, Bridge, control, eventually, lock_holder, start_daemon

MUTE = [sys.executable, str(Path(__file__).with_name("mute_daemon.py"))]


def call(number: int | str, tool: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


@pytest.mark.parametrize("number", [7, "seven"])
def test_a_call_that_reached_the_journal_is_answered_with_its_receipt(number: int | str, home: Path) -> None:
    daemon = start_daemon(home, program=MUTE)
    with Bridge(home) as bridge:
        bridge.shake_hands()
        bridge.send(call(number, "open_session", agent="Test", title="cut off"))
        with control(home) as client:
            eventually(lambda: client.call("status")["sessions"] == 1)
            session_id = client.call("sessions")["items"][0]["session_id"]
        daemon.kill()
        daemon.wait()
        answer = bridge.read()
        assert answer["id"] == number
        data = answer["error"]["data"]
        assert data["applied"] is True
        assert data["receipt"]["session_id"] == session_id
        assert data["receipt"]["hash"].startswith("sha256:")
        bridge.send(call(8, "begin_turn", session_id=session_id, query_title="Go on", query_text="go on"))
        again = bridge.read()
        assert again["id"] == 8
        assert again["result"]["isError"] is False


def test_a_close_whose_answer_was_lost_is_sent_again_with_its_key_for_the_token(home: Path) -> None:
    daemon = start_daemon(home, program=MUTE)
    with Bridge(home) as bridge:
        bridge.shake_hands()
        bridge.send(call(1, "open_session", agent="Test", title="cut off"))
        with control(home) as client:
            eventually(lambda: client.call("status")["sessions"] == 1)
            session_id = client.call("sessions")["items"][0]["session_id"]
            close = {"session_id": session_id, "succession_policy": "successor_required", "idempotency_key": "k"}
            bridge.send(call(2, "close_session", **close))
            eventually(lambda: client.call("sessions")["items"][0]["state"] == "awaiting_successor")
        daemon.kill()
        daemon.wait()
        lost = {answer["id"]: answer["error"]["data"] for answer in (bridge.read(), bridge.read())}
        assert (lost[1]["applied"], lost[1]["retryable"]) == (True, False)
        assert lost[1]["hint"].startswith("Do not send it again")
        assert (lost[2]["applied"], lost[2]["retryable"]) == (True, True)
        assert lost[2]["hint"].startswith("Send it again with the same key")
        bridge.send(call(3, "close_session", **close))
        token = bridge.read()["result"]["structuredContent"]["data"]["recovery_token"]
        bridge.send(call(4, "resume_session", agent_id="Test", recovery_token=token))
        assert bridge.read()["result"]["structuredContent"]["data"]["resume_mode"] == "forked"


def test_a_call_that_the_daemon_never_saw_is_answered_as_not_applied(home: Path) -> None:
    daemon = start_daemon(home, program=REAL)
    with Bridge(home) as bridge:
        bridge.shake_hands()
        bridge.request(1, "tools/list")
        daemon.send_signal(signal.SIGSTOP)
        bridge.send(call(7, "open_session", agent="Test"))
        eventually(lambda: has_passed_on(bridge))
        daemon.kill()
        daemon.wait()
        answer = bridge.read()
        assert answer["id"] == 7
        assert answer["error"]["data"]["applied"] is False
        assert answer["error"]["data"]["retryable"] is True
        with control(home) as client:
            assert client.call("status")["sessions"] == 0


def has_passed_on(bridge: Bridge) -> bool:
    """Say whether a bridge has nothing left to pass on: its input is empty and it sleeps."""
    assert bridge.process.stdin is not None
    waiting = array.array("i", [0])
    fcntl.ioctl(bridge.process.stdin, termios.FIONREAD, waiting)
    return waiting[0] == 0 and Path(f"/proc/{bridge.pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def test_a_client_can_go_on_calling_while_the_daemon_is_killed_again_and_again(home: Path) -> None:
    applied = 0
    with Bridge(home) as bridge:
        bridge.shake_hands()
        for number in range(1, 31):
            bridge.send(call(number, "open_session", agent="Test", title=f"number {number}"))
            if number % 10 == 0:
                pid = lock_holder(home)
                if pid is not None:
                    os.kill(pid, signal.SIGKILL)
            answer = bridge.read()
            assert answer["id"] == number
            data = answer.get("error", {}).get("data", {"applied": True})
            assert data["applied"] in (True, False)
            applied += data["applied"]
    with connect(str(home)) as client:  # the last kill may have left no daemon
        assert client.call("status")["sessions"] == applied


def test_a_command_that_ran_when_the_daemon_was_killed_is_not_called_unapplied(home: Path, tmp_path: Path) -> None:
    daemon = start_daemon(home, program=REAL)
    with Bridge(home) as bridge:
        bridge.shake_hands()
        bridge.send(call(1, "open_shell", cwd=str(tmp_path)))
        shell_id = bridge.read()["result"]["structuredContent"]["shell_id"]
        bridge.send(call(2, "run_command", shell_id=shell_id, command="touch ran; sleep 60"))
        eventually((tmp_path / "ran").exists)
        daemon.kill()
        daemon.wait()
        error = bridge.read()["error"]
        assert "Whether it was applied is not known" in error["message"]
        assert (error["data"]["applied"], error["data"]["receipt"], error["data"]["retryable"]) == (None, None, False)
        assert "list_shells with include_ended" in error["data"]["hint"]
        bridge.send(call(3, "list_shells", include_ended=True))
        [shell] = bridge.read()["result"]["structuredContent"]["shells"]
        assert shell["last_command"]["state"] == "running"  # the next daemon took the shell over


def test_a_question_that_the_daemon_took_along_may_be_asked_again(home: Path) -> None:
    daemon = start_daemon(home, program=REAL)
    with Bridge(home) as bridge:
        bridge.shake_hands()
        bridge.request(1, "tools/list")
        daemon.send_signal(signal.SIGSTOP)
        bridge.send(call(7, "list_shells"))
        eventually(lambda: has_passed_on(bridge))
        daemon.kill()
        daemon.wait()
        assert bridge.read()["error"]["data"]["retryable"] is True


def test_every_tool_that_acts_on_shells_and_files_is_known_to_keep_no_outcome(home: Path) -> None:
    for options in ([], ["--dialect", "execkit"]):
        with Bridge(home, *options) as bridge:
            bridge.shake_hands()
            listed = bridge.request(1, "tools/list")["result"]["tools"]
        acting = {
            tool["name"] for tool in listed if not tool.get("annotations", {"readOnlyHint": False})["readOnlyHint"]
        }
        journal = {"open_session", "resume_session", "close_session", "begin_turn", "update_turn", "finish_turn"}
        assert acting - journal <= BEYOND_THE_JOURNAL
