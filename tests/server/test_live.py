"""Live pages across replicas: what one wrote is shown at the other at once, nothing lost and nothing twice."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import psycopg
import pytest

from shiftlog.model.limits import PAGE_CATCH_UP_S
from tests.daemon.support import eventually
from tests.server.conftest import TeamRun
from tests.server.replicas import bearer, rest_call


def events(stream: httpx.Response) -> Iterator[tuple[str | None, str, dict[str, Any]]]:
    """Yield id, name and data of the events of a stream."""
    event_id, name = None, ""
    for line in stream.iter_lines():
        field, _, value = line.partition(": ")
        if field == "id":
            event_id = value
        elif field == "event":
            name = value
        elif field == "data":
            yield event_id, name, json.loads(value)
            event_id = None


class Watcher:
    """A browser at one page of a session: it collects the entries that it is told, in a thread."""

    def __init__(self, base: str, key: str, session: str, after: int = 0) -> None:
        self.seen: list[int] = []
        self.times: dict[int, float] = {}
        self._url = f"{base}/sessions/{session}/events?after={after}"
        self._http = httpx.Client(headers=bearer(key), timeout=30)
        self._stream: httpx.Response | None = None
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        try:
            with self._http.stream("GET", self._url) as self._stream:
                for event_id, name, _ in events(self._stream):
                    if name == "entry" and event_id is not None:
                        self.times[int(event_id)] = time.monotonic()
                        self.seen.append(int(event_id))
        except httpx.HTTPError:
            pass  # closed by the test

    def close(self) -> None:
        if self._stream is not None:
            self._stream.extensions["network_stream"].get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        assert not self._thread.is_alive()
        self._http.close()


@pytest.fixture
def session(team: TeamRun) -> str:
    return rest_call(team.ours, team.key, "open_session", agent="Codex", title="Watched").json()["session_id"]


@pytest.fixture
def hearing(team: TeamRun) -> None:
    """Wait until both replicas hear of changes."""
    for base in (team.ours, team.theirs):
        eventually(
            lambda base=base: (
                "shiftlog_hears_changes 1.0" in httpx.get(f"{base}/metrics", headers=bearer(team.key)).text
            )
        )


def write(team: TeamRun, session: str, count: int) -> None:
    for number in range(count):
        base = (team.ours, team.theirs)[number % 2]
        asked = {"session_id": session, "query_title": f"{number}", "query_text": "x"}
        assert rest_call(base, team.key, "begin_turn", **asked).status_code == 200


def head(team: TeamRun, session: str) -> int:
    page = httpx.get(f"{team.ours}/sessions/{session}/entries.json?limit=1000", headers=bearer(team.key)).json()
    return page["entries"][-1]["seq"]


@pytest.mark.usefixtures("hearing")
def test_entries_of_both_replicas_reach_a_page_of_one_in_order_and_once(team: TeamRun, session: str) -> None:
    watcher = Watcher(team.theirs, team.reader, session)
    try:
        write(team, session, 12)
        last = head(team, session)
        eventually(lambda: watcher.seen[-1:] == [last])
        assert watcher.seen == list(range(1, last + 1))
    finally:
        watcher.close()


@pytest.mark.usefixtures("hearing")
def test_a_change_is_shown_long_before_a_page_would_look_by_itself(team: TeamRun, session: str) -> None:
    first = head(team, session)
    watcher = Watcher(team.theirs, team.reader, session)
    try:
        eventually(lambda: first in watcher.times)  # from now on it waits for news
        began = time.monotonic()
        write(team, session, 1)
        last = head(team, session)
        eventually(lambda: last in watcher.times)
        assert watcher.times[last] - began < PAGE_CATCH_UP_S / 2
    finally:
        watcher.close()


@pytest.mark.usefixtures("hearing")
def test_a_page_that_comes_back_to_another_replica_goes_on_where_it_was(team: TeamRun, session: str) -> None:
    first = Watcher(team.ours, team.reader, session)
    write(team, session, 3)
    middle = head(team, session)
    eventually(lambda: first.seen[-1:] == [middle])
    first.close()
    write(team, session, 3)
    headers = {**bearer(team.reader), "Last-Event-ID": str(middle)}
    last = head(team, session)
    seen: list[int] = []
    with httpx.stream("GET", f"{team.theirs}/sessions/{session}/events", headers=headers, timeout=30) as stream:
        for event_id, name, _ in events(stream):
            if name == "entry":
                seen.append(int(str(event_id)))
            if seen[-1:] == [last]:
                break
    assert seen == list(range(middle + 1, last + 1))


@pytest.mark.usefixtures("hearing")
def test_nothing_is_lost_when_the_listening_connections_break(team: TeamRun, session: str) -> None:
    watcher = Watcher(team.theirs, team.reader, session)
    try:
        write(team, session, 2)
        with psycopg.connect(team.store, autocommit=True) as db:
            cut = db.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                " WHERE datname = current_database() AND query ILIKE 'LISTEN%%' OR query ILIKE '%%pg_notify(%%'"
                " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
            ).fetchone()
        assert cut is not None
        assert cut[0] >= 2
        write(team, session, 4)
        last = head(team, session)
        eventually(lambda: watcher.seen[-1:] == [last])
        assert watcher.seen == list(range(1, last + 1))
    finally:
        watcher.close()


@pytest.mark.usefixtures("hearing")
def test_the_list_of_sessions_hears_of_a_new_one_at_another_replica(team: TeamRun) -> None:
    with httpx.stream("GET", f"{team.theirs}/events", headers=bearer(team.reader), timeout=30) as stream:
        told = events(stream)
        opened = rest_call(team.ours, team.key, "open_session", agent="Codex", title="New").json()["session_id"]
        assert any(opened in data["changed"] for _, name, data in told if name == "sessions")
