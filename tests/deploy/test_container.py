"""The image of the server: built from deploy/Containerfile on a base of local packages, run as compose.yaml says."""

import json
import os
import subprocess
import time
from collections.abc import Generator
from pathlib import Path

import httpx
import psycopg
import pytest

from shiftlog.config.settings import SETTINGS
from tests.daemon.support import eventually
from tests.deploy.image import ROOT, compose
from tests.postgres_server import PostgresServer
from tests.server.replicas import bearer, rest_call
from tests.shell.remote.docker.engine import Engine

USER = "10001"


def test_the_compose_file_uses_settings_that_there_are_and_two_locked_down_replicas() -> None:
    services = compose()["services"]
    known = {setting.variable for setting in SETTINGS}
    for name in ("server-1", "server-2"):
        service = services[name]
        assert set(service["environment"]) <= known
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert "ports" not in service  # only the proxy is reached from outside
        assert f"{name}:7438" in (ROOT / "deploy/Caddyfile").read_text()
    assert services["server-1"] == services["server-2"]
    assert (ROOT / "deploy/Containerfile").exists()


@pytest.fixture
def database(postgres_server: PostgresServer) -> Generator[str]:
    """A database that containers reach by its socket."""
    postgres_server.folder.chmod(0o755)
    with psycopg.connect(postgres_server.url(), autocommit=True) as db:
        db.execute("CREATE DATABASE contained")
        try:
            yield "postgresql://shiftlog@/contained?host=/run/postgresql"
        finally:
            db.execute("DROP DATABASE contained WITH (FORCE)")


def locked_down(home: Path, sockets: Path, store: str, *options: str) -> list[str]:
    """Return the options of `docker run` that say what the compose file says of a replica."""
    service = compose()["services"]["server-1"]
    assert service["read_only"]
    return [
        "--read-only",
        *(f"--cap-drop={name}" for name in service["cap_drop"]),
        *(f"--security-opt={name}" for name in service["security_opt"]),
        *(f"--tmpfs={path}" for path in service["tmpfs"]),
        "--network=host",
        f"--volume={home}:/var/lib/shiftlog",
        f"--volume={sockets}:/run/postgresql",
        f"--env=SHIFTLOG_STORE_URL={store}",
        # On the network of this machine, unlike in the compose file.
        "--env=SHIFTLOG_SERVER_HOST=127.0.0.1",
        *options,
    ]


@pytest.mark.timeout(600)
def test_the_image_serves_as_an_ordinary_user_from_a_read_only_root(
    engine: Engine, image: str, database: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    tmp_path.chmod(0o755)
    home = tmp_path / "team"
    home.mkdir(mode=0o700)
    os.chown(home, int(USER), int(USER))
    options = locked_down(home, postgres_server.folder, database)
    made = engine.docker("run", "--rm", *options, image, "keys", "create", "test", "--scope", "write", "--json")
    key = json.loads(made)["api_key"]
    replicas = [
        engine.docker("run", "-d", *options, f"--env=SHIFTLOG_SERVER_PORT={port}", image) for port in (7451, 7452)
    ]
    bases = ["http://127.0.0.1:7451", "http://127.0.0.1:7452"]
    try:
        for base, container in zip(bases, replicas, strict=True):
            eventually(lambda base=base, container=container: is_ready(engine, base, container), within_s=60)
        opened = rest_call(bases[0], key, "open_session", agent="Codex", title="Contained").json()
        found = httpx.get(f"{bases[1]}/sessions/{opened['session_id']}.json", headers=bearer(key))
        assert found.json()["session"]["title"] == "Contained"
        assert "Contained" in httpx.get(f"{bases[1]}/", headers={**bearer(key), "Accept": "text/html"}).text
        about = json.loads(engine.docker("inspect", replicas[0]))[0]
        assert about["Config"]["User"] == f"{USER}:{USER}"
        assert about["HostConfig"]["ReadonlyRootfs"]
        attempt = "import pathlib; pathlib.Path('/opt/shiftlog/x').write_text('x')"
        refused = subprocess.run(
            ["docker", "exec", replicas[0], "python3", "-c", attempt],
            env=engine.environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Read-only file system" in refused.stderr
        began = time.monotonic()
        engine.docker("stop", "--time=40", replicas[0])
        assert time.monotonic() - began < 30
        assert json.loads(engine.docker("inspect", replicas[0]))[0]["State"]["ExitCode"] == 0
        assert httpx.get(f"{bases[1]}/readyz").status_code == 200
    finally:
        for container in replicas:
            engine.docker("rm", "--force", container)


def is_ready(engine: Engine, base: str, container: str) -> bool:
    state = json.loads(engine.docker("inspect", container))[0]["State"]
    assert state["Running"], engine.docker("logs", container)
    try:
        return httpx.get(f"{base}/readyz").status_code == 200
    except httpx.TransportError:
        return False
