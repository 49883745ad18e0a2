"""Running a team's server: it drains without losing a request, and says when its database is away."""

import signal
from collections.abc import Callable, Generator
from pathlib import Path

import httpx
import pytest

from tests.daemon.support import eventually
from tests.postgres_server import PostgresServer, empty
from tests.server.load import Load, written_turns
from tests.server.replicas import Replica, bearer, make_key, rest_call, run

CLIENTS = 6
# Of one replica after the other.
RESTARTS = 2


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


def serving(home: Path, url: str) -> Callable[[], Replica]:
    return lambda: Replica(home, url, SHIFTLOG_SERVER_DRAIN_S="1")


@pytest.mark.long
@pytest.mark.timeout(240)
def test_a_rolling_restart_under_load_loses_no_request(postgres_url: str, home: Path) -> None:
    key, start = make_key(home, postgres_url), serving(home, postgres_url)
    replicas = [start(), start()]
    load = Load(key, [replica.url for replica in replicas])
    try:
        with load.running(CLIENTS):
            for number in range(RESTARTS):
                place = number % 2
                load.wait_for_more()
                replicas[place].signal()
                # As a proxy does: a replica that is not ready gets nothing new.
                eventually(lambda base=load.bases[place]: is_stopping(base))
                load.bases = [replicas[1 - place].url]
                assert replicas[place].end() == 0
                replicas[place] = start()
                load.bases = [replica.url for replica in replicas]
            load.wait_for_more()
        assert load.lost == []
        checked = run(home, postgres_url, "verify")
        assert checked.stdout.startswith("intact"), checked.stdout + checked.stderr
        assert written_turns(replicas[0].url, key, load.sessions) == load.answered
    finally:
        for replica in replicas:
            replica.end()
        run(home, postgres_url, "daemon", "stop")


def is_stopping(base: str) -> bool:
    try:
        return httpx.get(f"{base}/readyz").status_code == 503
    except httpx.TransportError:
        return True


def test_a_draining_server_says_so_and_closes_connections_with_its_answers(postgres_url: str, home: Path) -> None:
    key = make_key(home, postgres_url)
    replica = Replica(home, postgres_url, SHIFTLOG_SERVER_DRAIN_S="30")
    base = replica.url
    with httpx.Client(headers=bearer(key)) as http:
        assert "connection" not in http.get(f"{base}/tools").headers
        replica.signal()
        eventually(lambda: httpx.get(f"{base}/readyz").status_code == 503)
        assert httpx.get(f"{base}/healthz").status_code == 200
        assert http.get(f"{base}/tools").headers["connection"] == "close"
    replica.signal(signal.SIGINT)  # a second signal does not wait for the proxies
    assert replica.process.wait(20) == 0
    replica.end()


def test_connections_are_limited_and_a_live_stream_ends_when_the_server_drains(postgres_url: str, home: Path) -> None:
    key = make_key(home, postgres_url)
    replica = Replica(home, postgres_url, SHIFTLOG_SERVER_MAX_CONNECTIONS="1")
    with httpx.stream("GET", f"{replica.url}/events", headers=bearer(key), timeout=30) as stream:
        pieces = stream.iter_raw()
        assert next(pieces).startswith(b"retry:")
        assert httpx.get(f"{replica.url}/tools", headers=bearer(key)).status_code == 503
        replica.signal()
        assert all(b"event" not in piece for piece in pieces)
    assert replica.end() == 0


@pytest.fixture
def own_database() -> Generator[PostgresServer]:
    server = PostgresServer()
    try:
        yield server
    finally:
        server.remove()


@pytest.mark.long
def test_a_server_whose_database_is_away_is_alive_but_not_ready_until_it_is_back(
    own_database: PostgresServer, home: Path
) -> None:
    empty(own_database.url())
    key = make_key(home, own_database.url())
    replica = Replica(home, own_database.url())
    base = replica.url
    try:
        own_database.kill()
        eventually(lambda: httpx.get(f"{base}/readyz", timeout=20).status_code == 503)
        assert httpx.get(f"{base}/healthz").status_code == 200
        refused = httpx.get(f"{base}/sessions.json", headers=bearer(key), timeout=30)  # the key cannot be looked up
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "storage_error")
        assert refused.json()["error"]["hint"] == "Send the request again"
        own_database.start()
        eventually(lambda: httpx.get(f"{base}/readyz", timeout=20).status_code == 200)
        opened = rest_call(base, key, "open_session", agent="Codex", title="Again")
        assert opened.status_code == 200, opened.text
    finally:
        replica.end()


def test_a_server_on_a_standby_is_ready_once_that_takes_writes(own_database: PostgresServer, home: Path) -> None:
    empty(own_database.url())
    key = make_key(home, own_database.url())
    standby = own_database.make_standby()
    replica = Replica(home, standby.url())
    try:
        told = httpx.get(f"{replica.url}/readyz", timeout=20)
        assert (told.status_code, told.json()["reason"]) == (503, "the database is read-only, as a standby is")
        assert httpx.get(f"{replica.url}/sessions.json", headers=bearer(key), timeout=20).status_code == 200
        standby.promote()
        eventually(lambda: httpx.get(f"{replica.url}/readyz", timeout=20).status_code == 200)
    finally:
        replica.end()
        standby.remove()
