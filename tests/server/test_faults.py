"""Replicas and their database killed -9 under load: no answered request is lost, none is recorded twice.

Clients send again what got no answer, with the same idempotency key, to whichever replica is there.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres_server import PostgresServer, empty
from tests.server.load import Load, written_turns
from tests.server.replicas import Replica, make_key, run

CLIENTS = 6


@pytest.fixture
def database() -> Iterator[PostgresServer]:
    server = PostgresServer(durable=True)
    empty(server.url())
    try:
        yield server
    finally:
        server.remove()


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("rounds", [1, pytest.param(50, marks=pytest.mark.soak)])
def test_kills_of_replicas_and_of_the_database_lose_and_double_nothing(
    database: PostgresServer, tmp_path: Path, rounds: int
) -> None:
    url = database.url()
    key = make_key(tmp_path, url)
    replicas = [Replica(tmp_path, url), Replica(tmp_path, url)]
    load = Load(key, [replica.url for replica in replicas], resends=True)
    try:
        with load.running(CLIENTS):
            for number in range(rounds):
                load.wait_for_more()
                killed = replicas[number % 2]
                killed.kill()
                replicas[number % 2] = Replica(tmp_path, url)
                load.bases = [replica.url for replica in replicas]
                load.wait_for_more()
                database.kill_hard()
                database.start()
            load.wait_for_more()
        assert load.lost == []
        checked = run(tmp_path, url, "verify")
        assert checked.stdout.startswith("intact"), checked.stdout + checked.stderr
        assert written_turns(replicas[0].url, key, load.sessions) == load.answered
    finally:
        for replica in replicas:
            replica.end()
        run(tmp_path, url, "daemon", "stop")
