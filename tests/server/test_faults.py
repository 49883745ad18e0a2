"""Replicas and their database killed -9, and commits cut off, under load: nothing answered is lost or recorded twice.

Clients send again what got no answer, with the same idempotency key, to whichever replica is there.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.support import eventually
from tests.postgres_server import PostgresServer, empty
from tests.server.load import Load, written_turns
from tests.server.replicas import Replica, make_key, run
from tests.store.postgres.proxy import CuttingProxy

CLIENTS = 6
# Rows travel together with their commit; the words that a turn is found by are readable in them.
WORDS_OF_A_TURN = b"'x':"


@pytest.fixture
def database() -> Iterator[PostgresServer]:
    server = PostgresServer(durable=True)
    empty(server.url())
    try:
        yield server
    finally:
        server.remove()


@pytest.mark.long
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
        _check_nothing_is_lost(load, tmp_path, url)
    finally:
        for replica in replicas:
            replica.end()
        run(tmp_path, url, "daemon", "stop")


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("rounds", [3, pytest.param(50, marks=pytest.mark.soak)])
def test_connections_that_are_cut_in_mid_commit_lose_and_double_nothing(
    database: PostgresServer, tmp_path: Path, rounds: int
) -> None:
    url = database.url()
    key = make_key(tmp_path, url)
    proxy = CuttingProxy(database.folder)
    replicas = [Replica(tmp_path, proxy.url()), Replica(tmp_path, proxy.url())]
    load = Load(key, [replica.url for replica in replicas], resends=True)
    try:
        with load.running(CLIENTS):
            for number in range(1, rounds + 1):
                load.wait_for_more()
                proxy.cut(WORDS_OF_A_TURN)
                eventually(lambda number=number: proxy.cuts == number)
            load.wait_for_more()
        _check_nothing_is_lost(load, tmp_path, url)
    finally:
        for replica in replicas:
            replica.end()
        proxy.close()
        run(tmp_path, url, "daemon", "stop")


def _check_nothing_is_lost(load: Load, home: Path, url: str) -> None:
    assert load.lost == []
    checked = run(home, url, "verify")
    assert checked.stdout.startswith("intact"), checked.stdout + checked.stderr
    assert written_turns(load.bases[0], load.key, load.sessions) == load.answered
