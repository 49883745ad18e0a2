"""A team's server behind pgbouncer in transaction mode: writes, reads, migrations and live pages work."""

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psycopg
import pytest

from tests.daemon.support import eventually
from tests.postgres_server import PostgresServer
from tests.server.pooler import pooled, program
from tests.server.replicas import Peer, Replica, bearer, make_key, rest_call, run

pytestmark = pytest.mark.skipif(program() is None, reason="pgbouncer is not installed: apt-get install pgbouncer")

CLIENTS = 4
WRITES = 8


@pytest.fixture
def through(postgres_server: PostgresServer) -> Generator[str]:
    """The address of an empty database behind a pooler."""
    with psycopg.connect(postgres_server.url(), autocommit=True) as db:
        db.execute("CREATE DATABASE behind")
        try:
            with pooled(postgres_server, "behind") as url:
                yield url
        finally:
            db.execute("DROP DATABASE behind WITH (FORCE)")


def hears(base: str, key: str) -> bool:
    return "shiftlog_hears_changes 1.0" in httpx.get(f"{base}/metrics", headers=bearer(key)).text


@pytest.mark.long
def test_a_server_works_through_a_pooler_in_transaction_mode(
    through: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    assert run(tmp_path, through, "store", "migrate").returncode == 0
    key = make_key(tmp_path, through)
    replicas = (
        Replica(tmp_path, through),
        Replica(tmp_path, through, SHIFTLOG_STORE_DIRECT_URL=postgres_server.url("behind")),
    )
    try:
        bases = [replica.url for replica in replicas]

        def client(number: int) -> list[int]:
            opened = rest_call(bases[0], key, "open_session", agent="Codex", title=f"pooled {number}").json()
            assert "session_id" in opened, opened
            statuses: list[int] = []
            for count in range(WRITES):
                asked = {"session_id": opened["session_id"], "query_title": f"{count}", "query_text": "pooled words"}
                statuses.append(rest_call(bases[count % 2], key, "begin_turn", **asked).status_code)
                found = httpx.get(f"{bases[count % 2]}/sessions.json?q=pooled", headers=bearer(key), timeout=30)
                statuses.append(found.status_code)
            return statuses

        with ThreadPoolExecutor(CLIENTS) as clients:
            for statuses in clients.map(client, range(CLIENTS)):
                assert set(statuses) == {200}
        peer = Peer(key)
        peer.initialize(bases[0])
        assert peer.send(bases[1], "ping").json()["result"] == {}
        # Notifications do not pass the pooler; a direct address brings them, without it streams look by themselves.
        eventually(lambda: hears(bases[1], key))
        eventually(
            lambda: replicas[0].said(
                "no notification comes through, as behind a pooler; pages look for changes by themselves"
            )
        )
        assert not hears(bases[0], key)
        assert run(tmp_path, through, "verify").stdout.startswith("intact")
    finally:
        for replica in replicas:
            replica.end()
        run(tmp_path, through, "daemon", "stop")
