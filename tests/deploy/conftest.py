"""The image of the server, built once from deploy/Containerfile by an engine of the suite's own."""

import shutil
import subprocess
import sys

import pytest

from tests.deploy.image import ROOT, base_image
from tests.shell.remote.docker.conftest import engine as engine  # noqa: PLC0414 - the fixture
from tests.shell.remote.docker.engine import CLIENT, Engine

BUILD_S = 300
NAME = "shiftlog-server"
PIP = (sys.executable, "-m", "pip")
BUILD_ARGUMENTS = (
    "--build-arg=BASE=shiftlog-base",
    "--build-arg=PIP_OPTIONS=--no-index --find-links wheels",
)


@pytest.fixture(scope="session")
def image(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Build the image without network: pip takes wheels from the build's own folder."""
    if CLIENT != "docker":
        pytest.skip("built with Docker Engine alone")
    if subprocess.run(["dpkg", "-L", "python3.11-venv"], capture_output=True, check=False).returncode != 0:
        pytest.skip("the base needs Debian's python3.11-venv")
    context = tmp_path_factory.mktemp("context")
    for name in ("src", "deploy"):
        shutil.copytree(ROOT / name, context / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("LICENSE", "README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, context / name)
    pins = [f"--constraint={ROOT}/requirements/{name}.txt" for name in ("runtime", "dev", "build")]
    subprocess.run(
        [
            *PIP,
            "wheel",
            "--quiet",
            "--disable-pip-version-check",
            "--wheel-dir=wheels",
            *pins,
            ".[server]",
            "hatchling",
        ],
        cwd=context,
        check=True,
        timeout=BUILD_S,
    )
    for own in (context / "wheels").glob("shiftlog-*.whl"):
        own.unlink()  # the image builds it
    engine.docker("import", "-", "shiftlog-base", data=base_image(tmp_path_factory.mktemp("base")))
    done = subprocess.run(
        ["docker", "build", "--network=none", "--file=deploy/Containerfile", *BUILD_ARGUMENTS, f"--tag={NAME}", "."],
        cwd=context,
        env={**engine.environ, "DOCKER_BUILDKIT": "0"},
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return NAME
