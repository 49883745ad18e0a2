"""A real Docker Engine for the tests of this folder; without root or `make test-docker` they are skipped."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shell.remote.docker.engine import MISSING, Engine, start_engine


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """One engine for all tests; in a short path, because sockets need one."""
    if MISSING is not None:
        pytest.skip(MISSING)
    with tempfile.TemporaryDirectory(prefix="shiftlog-docker-", ignore_cleanup_errors=True) as folder:
        engine = start_engine(Path(folder))
        try:
            yield engine
        finally:
            engine.stop()


@pytest.fixture(scope="session")
def container(engine: Engine) -> str:
    """A running container that tests leave as it was."""
    engine.run("shared")
    return "shared"
