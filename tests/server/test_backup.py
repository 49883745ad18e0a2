"""A backup by pg_dump, taken while a server writes, or by PostgreSQL's log up to a moment: every chain verifies."""

import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import psycopg
import pytest

from tests.daemon.support import eventually
from tests.postgres_server import PostgresServer, programs
from tests.server.conftest import TeamRun
from tests.server.replicas import Replica, bearer, make_key, rest_call, run


@pytest.fixture
def restored(postgres_server: PostgresServer) -> Generator[str]:
    """The address of an empty database without tables."""
    with psycopg.connect(postgres_server.url(), autocommit=True) as db:
        db.execute("CREATE DATABASE restored")
        try:
            yield postgres_server.url("restored")
        finally:
            db.execute("DROP DATABASE restored WITH (FORCE)")


def use(program: str, *arguments: str) -> None:
    """Run one of PostgreSQL's own programs."""
    folder = programs()
    assert folder is not None
    subprocess.run([folder / program, *arguments], check=True, timeout=60, env={"PATH": os.environ["PATH"]})


def test_a_dump_taken_under_load_restores_to_a_record_that_verifies(
    team: TeamRun, restored: str, tmp_path: Path
) -> None:
    before = rest_call(team.ours, team.key, "open_session", agent="Codex", title="Before").json()["session_id"]
    closed = rest_call(team.ours, team.key, "close_session", session_id=before).json()
    stop, written = threading.Event(), list[str]()

    def write() -> None:
        with httpx.Client() as http:
            opened = rest_call(team.ours, team.key, "open_session", http, agent="Codex", title="During").json()
            while not stop.is_set():
                asked = {"session_id": opened["session_id"], "query_title": "x", "query_text": "x"}
                written.append(rest_call(team.theirs, team.key, "begin_turn", http, **asked).json()["request_id"])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        eventually(lambda: len(written) > 5)
        use("pg_dump", "--format=custom", f"--file={tmp_path}/dump", f"--dbname={team.store}")
    finally:
        stop.set()
        writer.join(30)
    use("pg_restore", "--no-owner", f"--dbname={restored}", f"{tmp_path}/dump")
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    shutil.copytree(team.home / "keys", home / "keys")
    checked = run(home, restored, "verify", "--json")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    run(home, restored, "daemon", "stop")
    replica = Replica(home, restored)
    try:
        # The API keys and the recovery tokens are part of the backup.
        token = closed["data"]["recovery_token"]
        resumed = rest_call(
            replica.url, team.key, "resume_session", agent_id=closed["data"]["agent_id"], recovery_token=token
        )
        assert resumed.json()["session_id"] == before, resumed.text
        trust = httpx.get(f"{replica.url}/sessions/{before}/trust.json", headers=bearer(team.key)).json()
        assert trust["chain"]["ok"]
    finally:
        replica.end()


@pytest.mark.soak
def test_a_record_is_brought_back_to_a_point_in_time(tmp_path: Path) -> None:
    """As docs/server.md says: an archive of the log, a base backup, and a server that recovers up to a moment."""
    archive = Path(tempfile.mkdtemp(prefix="shiftlog-archive-"))
    archive.chmod(0o777)
    settings = ["archive_mode=on", f"archive_command=cp %p {archive}/%f"]
    servers = [PostgresServer(durable=True, settings=settings)]
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    try:
        url = servers[0].url()
        key = make_key(home, url)
        replica = Replica(home, url)
        try:
            opened = rest_call(replica.url, key, "open_session", agent="Codex", title="Long").json()
            written = [begin(replica.url, key, opened["session_id"], f"before {n}") for n in range(5)]
            backup = servers[0].back_up()
            written += [begin(replica.url, key, opened["session_id"], f"after {n}") for n in range(5)]
            with psycopg.connect(url, autocommit=True) as db:
                [moment] = db.execute("SELECT clock_timestamp()").fetchone() or [datetime.now(UTC)]
            late = begin(replica.url, key, opened["session_id"], "a mistake")
            with psycopg.connect(url, autocommit=True) as db:
                db.execute("SELECT pg_switch_wal()")
                name = "SELECT last_archived_wal FROM pg_stat_archiver"
                filled = db.execute("SELECT pg_walfile_name(pg_current_wal_lsn() - 1)").fetchone()
                eventually(lambda: (db.execute(name).fetchone() or [""])[0] >= (filled or ["~"])[0])
        finally:
            replica.end()
        servers[0].kill_hard()
        recovery = [f"restore_command=cp {archive}/%f %p", f"recovery_target_time={moment.isoformat()}"]
        servers.append(PostgresServer(settings=[*recovery, "recovery_target_action=promote"], backup=backup))
        url = servers[1].url()
        eventually(lambda: is_primary(url))
        checked = run(home, url, "verify")
        assert checked.stdout.startswith("intact"), checked.stdout + checked.stderr
        run(home, url, "daemon", "stop")
        with psycopg.connect(url) as db:
            kept = {row[0] for row in db.execute("SELECT request_id FROM turns")}
        assert kept == set(written)
        assert late not in kept
    finally:
        for server in servers:
            server.remove()
        shutil.rmtree(archive)


def begin(base: str, key: str, session_id: str, title: str) -> str:
    asked = {"session_id": session_id, "query_title": title, "query_text": "x"}
    return rest_call(base, key, "begin_turn", **asked).json()["request_id"]


def is_primary(url: str) -> bool:
    with psycopg.connect(url) as db:
        return db.execute("SELECT pg_is_in_recovery()").fetchone() == (False,)
