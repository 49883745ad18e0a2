"""What a team's server refuses at its start, and how it says so."""

from collections.abc import Generator
from pathlib import Path

import httpx
import psycopg
import pytest

from tests.postgres_server import PostgresServer
from tests.server.replicas import Replica, bearer, make_key, run


@pytest.fixture
def fresh(postgres_server: PostgresServer) -> Generator[str]:
    """A database without any table."""
    with psycopg.connect(postgres_server.url(), autocommit=True) as db:
        db.execute("CREATE DATABASE fresh")
        try:
            yield postgres_server.url("fresh")
        finally:
            db.execute("DROP DATABASE fresh WITH (FORCE)")


def test_without_a_key_no_other_machine_is_served(fresh: str, tmp_path: Path) -> None:
    refused = run(tmp_path, fresh, "server", "--host", "0.0.0.0", "--port", "0")
    assert refused.returncode != 0
    assert "there is no API key" in refused.stderr
    assert "shiftlog keys create" in refused.stderr
    replica = Replica(tmp_path, fresh)
    try:
        base = replica.url
        assert httpx.get(f"{base}/readyz").status_code == 200
        assert httpx.get(f"{base}/sessions.json").status_code == 401
        # A key that is made afterwards opens the running server.
        key = make_key(tmp_path, fresh)
        assert httpx.get(f"{base}/sessions.json", headers=bearer(key)).status_code == 200
    finally:
        assert replica.end() == 0
    elsewhere = Replica(tmp_path, fresh, "--host", "0.0.0.0")
    try:
        port = elsewhere.url.rpartition(":")[2]
        assert httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200
    finally:
        assert elsewhere.end() == 0


def test_a_server_needs_a_database(tmp_path: Path) -> None:
    refused = run(tmp_path, "", "server")
    assert refused.returncode != 0
    assert "store.url is not set" in refused.stderr


def test_a_taken_port_is_refused(postgres_url: str, tmp_path: Path) -> None:
    make_key(tmp_path, postgres_url)
    replica = Replica(tmp_path, postgres_url)
    try:
        port = replica.url.rpartition(":")[2]
        refused = run(tmp_path, postgres_url, "server", "--port", port)
        assert refused.returncode != 0
        assert f"Cannot listen on 127.0.0.1 port {port}" in refused.stderr
    finally:
        replica.end()
