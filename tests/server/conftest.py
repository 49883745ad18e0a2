"""Two replicas of a team's server over one database of their own, shared by the tests of this folder."""

from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from tests.postgres_server import PostgresServer
from tests.server.replicas import Replica, make_key


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamRun:
    """Two running replicas, their addresses, and a key of each kind."""

    home: Path
    store: str
    replicas: tuple[Replica, Replica]
    ours: str
    theirs: str
    key: str
    reader: str


@pytest.fixture(scope="session")
def team(postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Generator[TeamRun]:
    with psycopg.connect(postgres_server.url(), autocommit=True) as db:
        db.execute("CREATE DATABASE team_server")
    url, home = postgres_server.url("team_server"), tmp_path_factory.mktemp("team")
    key = make_key(home, url)
    replicas = Replica(home, url), Replica(home, url)
    try:
        yield TeamRun(
            home=home,
            store=url,
            replicas=replicas,
            ours=replicas[0].url,
            theirs=replicas[1].url,
            key=key,
            reader=make_key(home, url, "read"),
        )
    finally:
        for replica in replicas:
            replica.end()
