"""Faults under load: replicas and their database killed -9, commits cut off, a standby that takes over.

Nothing answered is lost or recorded twice. Clients send again what got no answer, with the same idempotency key, to
whichever replica is there. `FAULT_ROUNDS` says how often the long runs repeat a fault.
"""

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.daemon.support import eventually
from tests.postgres_server import PostgresServer, empty
from tests.server.load import Load, written_turns
from tests.server.replicas import Replica, make_key, run
from tests.store.postgres.proxy import CuttingProxy

CLIENTS = 6
MANY = pytest.param(int(os.environ.get("FAULT_ROUNDS", "50")), marks=pytest.mark.soak)
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


@contextmanager
def loaded_replicas(home: Path, url: str, direct_url: str) -> Generator[tuple[Load, list[Replica]]]:
    """Run two replicas with clients that write all the time; at the end check the record of the database."""
    key = make_key(home, url)
    replicas = [Replica(home, url), Replica(home, url)]
    load = Load(key, [replica.url for replica in replicas], resends=True)
    try:
        with load.running(CLIENTS):
            yield load, replicas
            load.wait_for_more()
        _check_nothing_is_lost(load, home, direct_url)
    finally:
        for replica in replicas:
            replica.end()
        run(home, url, "daemon", "stop")


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("rounds", [1, MANY])
def test_replicas_that_are_killed_lose_and_double_nothing(
    database: PostgresServer, tmp_path: Path, rounds: int
) -> None:
    url = database.url()
    with loaded_replicas(tmp_path, url, url) as (load, replicas):
        for number in range(rounds):
            load.wait_for_more()
            replicas[number % 2].kill()
            replicas[number % 2] = Replica(tmp_path, url)
            load.bases = [replica.url for replica in replicas]


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("rounds", [1, MANY])
def test_a_database_that_is_killed_and_started_again_loses_and_doubles_nothing(
    database: PostgresServer, tmp_path: Path, rounds: int
) -> None:
    url = database.url()
    with loaded_replicas(tmp_path, url, url) as (load, _):
        for _ in range(rounds):
            load.wait_for_more()
            database.kill_hard()
            database.start()


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("rounds", [3, MANY])
def test_connections_that_are_cut_in_mid_commit_lose_and_double_nothing(
    database: PostgresServer, tmp_path: Path, rounds: int
) -> None:
    proxy = CuttingProxy(database.folder)
    try:
        with loaded_replicas(tmp_path, proxy.url(), database.url()) as (load, _):
            for number in range(1, rounds + 1):
                load.wait_for_more()
                proxy.cut(WORDS_OF_A_TURN)
                eventually(lambda number=number: proxy.cuts == number)
    finally:
        proxy.close()


@pytest.mark.long
@pytest.mark.timeout(6000)
@pytest.mark.parametrize("rounds", [1, MANY])
def test_a_synchronous_standby_that_takes_over_has_all_that_was_answered(tmp_path: Path, rounds: int) -> None:
    servers = [PostgresServer(durable=True, settings=["synchronous_standby_names=*"])]
    proxy = CuttingProxy(servers[0].folder)
    try:
        servers.append(servers[0].make_standby())
        empty(servers[0].url())
        with loaded_replicas(tmp_path, proxy.url(), proxy.url()) as (load, _):
            for _ in range(rounds):
                load.wait_for_more()
                servers[0].kill_hard()
                servers[1].promote()
                proxy.folder = servers[1].folder
                proxy.cut_all()
                servers.append(servers[1].make_standby())
                servers.pop(0).remove()
    finally:
        proxy.close()
        for server in servers:
            server.remove()


def _check_nothing_is_lost(load: Load, home: Path, url: str) -> None:
    assert load.lost == []
    checked = run(home, url, "verify")
    assert checked.stdout.startswith("intact"), checked.stdout + checked.stderr
    assert written_turns(load.bases[0], load.key, load.sessions) == load.answered
