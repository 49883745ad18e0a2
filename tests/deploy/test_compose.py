"""The compose file as a whole: PostgreSQL, two replicas and Caddy with TLS, as an operator starts them.

An engine in a network of its own runs it. The image of the server is built from deploy/Containerfile; those of
PostgreSQL and Caddy have this machine's own programs, since there is no registry.
"""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.support import eventually
from tests.deploy.image import ROOT, compose
from tests.deploy.stand_ins import import_caddy, import_postgres
from tests.shell.remote.docker.engine import Engine, start_docker

SITE = "localhost"
SETTINGS = {"POSTGRES_PASSWORD": "abc123", "SHIFTLOG_SITE": SITE}
START_S = 120
NEEDED = ("docker-compose", "caddy", "curl", "unshare", "nsenter")
OWN_NETWORK = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", "dockerd")


@dataclass(frozen=True, slots=True)
class Deployment:
    """The services of the compose file in an engine that has a network of its own."""

    engine: Engine
    file: Path

    def compose(self, *arguments: str) -> str:
        environ = {**self.engine.environ, **SETTINGS, "COMPOSE_PROJECT_NAME": "shiftlog"}
        done = subprocess.run(
            ["docker-compose", "-f", str(self.file), *arguments],
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=START_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout

    def ask(self, path: str, key: str = "", **arguments: Any) -> tuple[int, str]:
        """Ask the proxy as a client does, and return the status and the body."""
        assert self.engine.process is not None
        given = ["--data", json.dumps(arguments)] if arguments else []
        done = subprocess.run(
            ["nsenter", f"--net=/proc/{self.engine.process.pid}/ns/net", "curl", "--insecure", "--silent", *given,
             "--header", f"Authorization: Bearer {key}", "--write-out", "\n%{http_code}", f"https://{SITE}{path}"],
            capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
        body, _, status = done.stdout.rpartition("\n")
        return int(status), body


@pytest.fixture
def deployment(engine: Engine, image: str, tmp_path: Path) -> Iterator[Deployment]:
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        pytest.skip(f"needs {missing[0]}")
    deploy = tmp_path / "deploy"
    shutil.copytree(ROOT / "deploy", deploy)
    file = deploy / "compose.yaml"
    # The first version of compose, which Debian has, takes the name from its environment alone.
    file.write_text(file.read_text(encoding="utf-8").replace("name: shiftlog\n", ""), encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="shiftlog-compose-", ignore_cleanup_errors=True) as folder:
        own = start_docker(Path(folder), *OWN_NETWORK)
        try:
            saved = tmp_path / "image.tar"
            engine.docker("save", f"--output={saved}", image)
            own.docker("load", f"--input={saved}")
            services = compose()["services"]
            assert services["server-1"]["image"] == image
            import_postgres(own, tmp_path / "postgres", services["db"]["image"])
            import_caddy(own, tmp_path / "caddy", services["proxy"]["image"])
            yield Deployment(own, file)
        finally:
            own.stop()


@pytest.mark.timeout(1200)
def test_the_compose_file_serves_two_replicas_behind_tls(deployment: Deployment) -> None:
    made = deployment.compose(
        "run", "--rm", "-T", "server-1", "keys", "create", "Ana's laptop", "--scope", "write", "--json"
    )
    key = json.loads(made[made.index("{") :])["api_key"]
    deployment.compose("up", "-d", "--no-build")
    eventually(lambda: deployment.ask("/readyz")[0] == 200, within_s=START_S)
    status, opened = deployment.ask("/tools/open_session", key, agent="Codex", title="Composed")
    assert status == 200, opened
    session = json.loads(opened)["session_id"]
    # Any replica answers, and after one has stopped the other does.
    for _ in range(4):
        assert json.loads(deployment.ask(f"/sessions/{session}.json", key)[1])["session"]["title"] == "Composed"
    assert deployment.ask("/sessions.json")[0] == 401
    deployment.compose("stop", "server-1")
    for number in range(4):
        status, begun = deployment.ask(
            "/tools/begin_turn", key, session_id=session, query_title=f"turn {number}", query_text="x"
        )
        assert status == 200, begun
    deployment.compose("down")
