import json
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from shiftlog.link import wire
from tests.daemon.support import INITIALIZE, Bridge, control, eventually, nobody_may_start, start_daemon

RECEIPT = {"session_id": "Test-20260101T000000Z-a", "seq": 3, "hash": "sha256:" + "0" * 64}


def hold(bridge: Bridge, home: Path, number: int | str) -> None:
    """Send a request that the daemon begins and will not answer."""
    (home / "holding").unlink(missing_ok=True)
    params = {"until": str(home / "never")}
    bridge.send({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
    eventually((home / "holding").exists)


def know(home: Path, outcomes: dict[str, Any]) -> None:
    """Let the next daemon know what became of these calls."""
    (home / "outcomes.json").write_text(json.dumps(outcomes))


@pytest.mark.parametrize("number", [5, "five"])
def test_a_request_that_was_applied_is_answered_with_its_receipt(number: int | str, home: Path) -> None:
    first = start_daemon(home)
    with Bridge(home) as bridge:
        bridge.shake_hands()
        hold(bridge, home, number)
        know(home, {str(number): RECEIPT})
        with nobody_may_start(home):
            first.kill()
            first.wait()
            start_daemon(home)
            answer = bridge.read()
        assert answer["id"] == number
        assert answer["error"]["code"] == -32000
        assert "It was applied" in answer["error"]["message"]
        data = answer["error"]["data"]
        assert data["applied"] is True
        assert data["receipt"] == RECEIPT
        assert data["retryable"] is False
        assert bridge.request(6, "next")["result"]["method"] == "next"


def test_a_request_that_was_not_applied_says_so_and_may_be_sent_again(home: Path) -> None:
    first = start_daemon(home)
    with Bridge(home) as bridge:
        bridge.shake_hands()
        hold(bridge, home, 5)
        know(home, {})
        with nobody_may_start(home):
            first.kill()
            first.wait()
            start_daemon(home)
            answer = bridge.read()
        assert answer["id"] == 5
        assert "not applied" in answer["error"]["message"]
        assert answer["error"]["data"] == {
            "applied": False,
            "receipt": None,
            "hint": "Send it again",
            "retryable": True,
        }


def test_a_request_whose_outcome_cannot_be_learned_claims_nothing(home: Path) -> None:
    first = start_daemon(home)
    with Bridge(home) as bridge:
        bridge.shake_hands()
        hold(bridge, home, 5)
        with nobody_may_start(home):
            first.kill()
            first.wait()
            start_daemon(home)  # without outcomes.json its answer is an error
            answer = bridge.read()
        assert answer["error"]["data"]["applied"] is None
        assert "not known" in answer["error"]["message"]
        assert answer["error"]["data"]["retryable"] is False


def test_every_request_in_flight_gets_its_own_answer(home: Path) -> None:
    first = start_daemon(home)
    with Bridge(home) as bridge:
        bridge.shake_hands()
        for number in range(1, 6):
            hold(bridge, home, number)
        know(home, {"2": RECEIPT, "4": RECEIPT})
        with nobody_may_start(home):
            first.kill()
            first.wait()
            start_daemon(home)
            answers = [bridge.read() for _ in range(5)]
        applied = {answer["id"]: answer["error"]["data"]["applied"] for answer in answers}
        assert applied == {1: False, 2: True, 3: False, 4: True, 5: False}


def test_the_next_daemon_gets_the_handshake_and_the_client_does_not_notice(home: Path) -> None:
    first = start_daemon(home)
    with Bridge(home) as bridge:
        bridge.shake_hands()
        with nobody_may_start(home):
            first.kill()
            first.wait()
            start_daemon(home)
            # The answer to the repeated initialize is swallowed: this one comes first.
            assert bridge.request(1, "after")["result"]["method"] == "after"
        with control(home) as client:
            assert client.call("heard") == ["initialize", "notifications/initialized", "after"]


def test_an_initialize_that_was_not_answered_goes_to_the_next_daemon(home: Path) -> None:
    first = start_daemon(home)
    with Bridge(home) as bridge:
        params = INITIALIZE["params"] | {"until": str(home / "go")}
        bridge.send(INITIALIZE | {"params": params})
        eventually((home / "holding").exists)
        with nobody_may_start(home):
            first.kill()
            first.wait()
            (home / "go").touch()
            start_daemon(home)
            assert bridge.read()["result"]["method"] == "initialize"
        with control(home) as client:
            assert client.call("heard") == ["initialize"]


def test_requests_that_come_while_there_is_no_daemon_wait_for_the_next_one(home: Path) -> None:
    first = start_daemon(home)
    with Bridge(home) as bridge:
        bridge.shake_hands()
        with nobody_may_start(home):
            first.kill()
            first.wait()
            for number in range(3):
                bridge.send({"jsonrpc": "2.0", "id": number, "method": "wait"})
            start_daemon(home)
            assert [bridge.read()["id"] for _ in range(3)] == [0, 1, 2]


def test_what_a_daemon_that_said_farewell_had_not_read_is_served_by_the_next(home: Path) -> None:
    first = start_daemon(home)
    with Bridge(home) as bridge:
        bridge.shake_hands()
        params = {"until": str(home / "go")}
        bridge.send({"jsonrpc": "2.0", "id": 1, "method": "slow", "params": params})
        eventually((home / "holding").exists)
        with nobody_may_start(home):
            first.send_signal(signal.SIGTERM)
            eventually(lambda: not (home / "daemon.sock").exists())
            bridge.send({"jsonrpc": "2.0", "id": 2, "method": "late"})
            (home / "go").touch()
            assert bridge.read()["id"] == 1
            assert first.wait(30) == 0
            start_daemon(home)
            assert bridge.read()["result"]["method"] == "late"


def test_an_answer_to_a_question_of_the_former_daemon_does_not_reach_the_next(home: Path) -> None:
    first = start_daemon(home)
    with Bridge(home) as bridge:
        bridge.shake_hands()
        bridge.send({"jsonrpc": "2.0", "method": "ask"})
        assert bridge.read()["method"] == "question"
        with nobody_may_start(home):
            first.kill()
            first.wait()
            start_daemon(home)
            bridge.request(1, "after")
        bridge.send({"jsonrpc": "2.0", "id": "q", "result": {"late": True}})
        bridge.request(2, "last")
        with control(home) as client:
            heard = client.call("heard")
        assert heard[-2:] == ["after", "last"]


def test_an_answer_to_a_question_of_this_daemon_reaches_it(home: Path) -> None:
    start_daemon(home)
    with Bridge(home) as bridge:
        bridge.send({"jsonrpc": "2.0", "method": "ask"})
        assert bridge.read()["method"] == "question"
        bridge.send({"jsonrpc": "2.0", "id": "q", "result": {"prompt": True}})
        with control(home) as client:
            eventually(lambda: client.call("heard") == ["ask", None])


def test_without_any_daemon_each_request_gets_an_error_and_later_ones_try_again(home: Path) -> None:
    (home / "daemon.lock").mkdir()  # no daemon can take its lock
    with Bridge(home) as bridge:
        refused = bridge.request(1, "initialize")
        assert refused["error"]["code"] == -32000
        assert refused["error"]["data"]["applied"] is False
        assert refused["error"]["data"]["retryable"] is True
        assert "daemon" in refused["error"]["message"]
        (home / "daemon.lock").rmdir()
        start_daemon(home)

        def served() -> bool:
            return "result" in bridge.request(2, "initialize")

        eventually(served)


def test_a_bridge_of_an_idle_client_does_not_revive_a_daemon_that_was_stopped(home: Path) -> None:
    first = start_daemon(home)
    with Bridge(home) as bridge:
        bridge.shake_hands()
        bridge.request(0, "served")
        first.send_signal(signal.SIGTERM)
        assert first.wait(30) == 0
        with nobody_may_start(home):
            second = start_daemon(home)
            with control(home) as client:
                guests = client.call("daemon.status")["connections"]
                assert [guest["role"] for guest in guests] == ["control"]
            assert bridge.request(1, "wanted")["result"]["method"] == "wanted"
            with control(home) as client:
                assert client.daemon_pid == second.pid


def test_a_daemon_of_another_wire_is_an_error_with_a_way_out(home: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(wire.socket_path(str(home)))
        listener.listen()
        with Bridge(home) as bridge:
            bridge.send(INITIALIZE)
            sock, _ = listener.accept()
            with sock:
                sock.sendall(b'{"shiftlog":{"hello":2,"version":"9.0","pid":1}}\n')
                answer = bridge.read()
        assert "wire 2" in answer["error"]["message"]
        assert "daemon stop" in answer["error"]["data"]["hint"]


def test_a_daemon_that_breaks_every_connection_is_tried_a_few_times_and_the_client_is_told(home: Path) -> None:
    (home / "breaks").touch()
    start_daemon(home)
    with Bridge(home) as bridge:
        for number in (1, 2):
            before = time.monotonic()
            refused = bridge.request(number, "initialize")
            assert time.monotonic() - before < 25
            assert "went away 5 times" in refused["error"]["message"]
            assert "doctor" in refused["error"]["data"]["hint"]
        log = (home / "daemon.log").read_text() if (home / "daemon.log").exists() else ""
        assert log.count("A connection failed") <= 20
        (home / "breaks").unlink()
        eventually(lambda: "result" in bridge.request(3, "initialize") or None)
