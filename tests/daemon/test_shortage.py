"""A daemon that cannot answer its callers any more ends, so that the next one answers them."""

from contextlib import suppress
from pathlib import Path

import pytest

from shiftlog.link.client import DaemonUnreachable
from shiftlog.store.sqlite.writer_thread import WriterThread
from tests.daemon.support import Bridge, control, eventually, start_daemon

places = pytest.mark.parametrize("place", ["callback", "thread", "pool"])


@places
def test_without_memory_to_answer_the_daemon_ends_and_the_next_one_answers(home: Path, place: str) -> None:
    daemon = start_daemon(home)
    with Bridge(home) as bridge, control(home) as client:
        bridge.shake_hands()
        bridge.send({"jsonrpc": "2.0", "id": 1, "method": "slow", "params": {"until": str(home / "never")}})
        eventually((home / "holding").exists)
        with suppress(DaemonUnreachable):
            client.call("fail", {"place": place, "memory": True})
        assert daemon.wait(30) == 1
        answer = bridge.read()
    assert answer["id"] == 1
    assert "It was not applied" in answer["error"]["message"]
    assert "No memory is left to answer callers" in (home / "daemon.log").read_text()


@places
def test_any_other_error_in_the_same_places_ends_nothing(home: Path, place: str) -> None:
    daemon = start_daemon(home)
    with control(home) as client:
        client.call("fail", {"place": place, "memory": False})
        assert client.call("daemon.status")["pid"] == daemon.pid


def test_without_the_thread_that_writes_the_daemon_ends(home: Path) -> None:
    daemon = start_daemon(home)
    writer = WriterThread(home / "unused.db", "FULL", lambda outcomes: None)
    with control(home) as client, suppress(DaemonUnreachable):
        client.call("fail", {"place": "thread", "memory": False, "name": writer.name})
    assert daemon.wait(30) == 1
    assert "No thread is left to answer callers" in (home / "daemon.log").read_text()
