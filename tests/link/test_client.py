import os
import socket
import threading
from pathlib import Path

import pytest

from shiftlog.link import client as clients
from shiftlog.link import wire
from shiftlog.link.client import UNKNOWN_HINT, Client, DaemonUnreachable, connect
from shiftlog.model.errors import InternalError, InvalidParameter, SessionNotFound, StorageError, leaves
from tests.daemon.support import control, start_daemon


def test_a_question_is_answered(home: Path) -> None:
    start_daemon(home)
    with control(home) as client:
        assert client.call("echo", {"a": [1, "ü", None]}) == {
            "method": "echo",
            "params": {"a": [1, "ü", None]},
        }
        who = client.call("whoami")
    assert who == {"operator": True, "pid": os.getpid(), "face": "cli", "cwd": str(Path.cwd())}


def test_a_question_that_is_no_unicode_is_refused_and_the_next_is_answered(home: Path) -> None:
    start_daemon(home)
    with control(home) as client:
        with pytest.raises(InvalidParameter, match="not valid UTF-8"):
            client.call("echo", {"text": os.fsdecode(b"a\xff")})
        assert client.call("still") is not None


def test_an_error_arrives_as_the_class_of_its_code(home: Path) -> None:
    start_daemon(home)
    with control(home) as client:
        with pytest.raises(SessionNotFound, match="No such session") as found:
            client.call("missing")
        assert found.value.details == {"session_id": "s"}
        assert found.value.hint == SessionNotFound.hint
        assert client.call("still") is not None


def test_a_defect_is_answered_without_what_it_said(home: Path) -> None:
    start_daemon(home)
    with control(home) as client:
        with pytest.raises(InternalError) as defect:
            client.call("defect")
        assert "secret" not in str(defect.value)
        assert client.call("still") is not None
    assert "secret" not in (home / "daemon.log").read_text()


def test_every_code_comes_back_as_its_own_class() -> None:
    for leaf in leaves():
        error = leaf("words", details={"a": 1}, hint="do this")
        again = clients.error_from(error.as_dict())
        assert type(again) is leaf
        assert again.as_dict() == error.as_dict()


def test_a_stream_yields_its_items_and_ends_when_it_is_closed(home: Path) -> None:
    start_daemon(home)
    with control(home) as client:
        numbers = client.stream("count")
        assert [next(numbers) for _ in range(3)] == [0, 1, 2]
        numbers.close()
        assert client.call("still") == {"method": "still", "params": {}}


def test_an_error_ends_a_stream(home: Path) -> None:
    start_daemon(home)
    with control(home) as client, pytest.raises(SessionNotFound):
        list(client.stream("missing"))


def test_without_a_daemon_and_without_leave_to_start_one_there_is_a_clear_error(home: Path) -> None:
    with pytest.raises(DaemonUnreachable, match="No daemon is running") as unreachable:
        connect(str(home), start=False)
    assert isinstance(unreachable.value, StorageError)
    assert isinstance(unreachable.value, ConnectionError)
    assert unreachable.value.retryable
    assert unreachable.value.hint == "Start one with `shiftlog daemon start`"


def test_a_daemon_that_dies_over_a_question_is_an_error_not_silence(home: Path, tmp_path: Path) -> None:
    daemon = start_daemon(home)
    with control(home) as client:
        daemon.kill()
        daemon.wait()
        with pytest.raises(DaemonUnreachable, match="went away"):
            client.call("hold", {"until": str(tmp_path / "never")})


@pytest.mark.parametrize(("method", "hint"), [("erase", UNKNOWN_HINT), ("sessions", DaemonUnreachable.hint)])
def test_a_lost_answer_says_whether_something_may_have_been_done(home: Path, method: str, hint: str) -> None:
    ours, theirs = socket.socketpair()
    with theirs, Client(wire.Connection(ours, "", 0, b""), str(home)) as client:
        theirs.shutdown(socket.SHUT_WR)
        with pytest.raises(DaemonUnreachable, match="went away before it answered") as lost:
            client.call(method)
    assert lost.value.hint == hint


def test_what_changes_something_is_waited_for_as_long_as_the_daemon_lives(home: Path) -> None:
    ours, theirs = socket.socketpair()
    with theirs, Client(wire.Connection(ours, "", 0, b""), str(home)) as client:
        late = threading.Timer(0.3, theirs.sendall, [b'{"id": 1, "result": "erased"}\n'])
        late.start()
        assert client.call("erase", timeout_s=0.05) == "erased"
        late.join()


def test_a_question_that_takes_too_long_is_given_up(home: Path, tmp_path: Path) -> None:
    start_daemon(home)
    with control(home) as client, pytest.raises(DaemonUnreachable, match="within 0 s"):
        client.call("hold", {"until": str(tmp_path / "never")}, timeout_s=0.05)


def test_malformed_lines_are_refused_and_the_connection_goes_on(home: Path) -> None:
    start_daemon(home)
    with control(home) as client:
        for line in (b"nonsense\n", b"[]\n", b'{"method":"x"}\n', b'{"id":"x","method":"y"}\n'):
            client._connection.send(line)  # pyright: ignore[reportPrivateUsage]
            answer = client._connection.read_line(30)  # pyright: ignore[reportPrivateUsage]
            assert answer is not None
            assert b"invalid_parameter" in answer
        assert client.call("still") is not None
